"""Distributions of absolute values."""

from __future__ import annotations

import math

from ..._generated.toplevel import full_like, zeros_like
from ...core.tensor.tensor import Tensor
from .. import constraints
from ..transformed_distribution import TransformedDistribution
from ..transforms import AbsTransform
from ..utils import Number, choose
from .real_line import Cauchy, Normal


class _Folded(TransformedDistribution):
    """The distribution of |x| for samples x of a distribution that is symmetric about 0."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    base_dist: Normal | Cauchy

    @property
    def scale(self) -> Tensor:
        """The scale of the distribution that is folded."""
        return self.base_dist.scale

    @property
    def mode(self) -> Tensor:
        return zeros_like(self.scale)

    def _log_prob(self, value: Tensor) -> Tensor:
        return choose(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def _cdf(self, value: Tensor) -> Tensor:
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Folded):
    """The distribution of ``|x|`` for samples x of ``Normal(0, scale)``.

    >>> rg.distributions.HalfNormal(1.0).mean
    tensor(0.7979)
    """

    def __init__(self, scale: Tensor | Number, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (1 - 2 / math.pi)


class HalfCauchy(_Folded):
    """The distribution of ``|x|`` for samples x of ``Cauchy(0, scale)``.

    >>> rg.distributions.HalfCauchy(1.0).cdf(rg.tensor(1.0))
    tensor(0.5)
    """

    def __init__(self, scale: Tensor | Number, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return full_like(self.scale, math.inf)

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance
