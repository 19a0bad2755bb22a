"""Elementwise transforms."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ..._generated.functional import logsigmoid, softplus
from ..._generated.toplevel import full_like
from ...core.tensor.tensor import Size, Tensor
from .. import constraints
from ..constraints import Constraint
from ..utils import Number, broadcast_all, broadcast_shapes, eps_of, sum_rightmost, tiny_of
from .base import Shape, Transform

if TYPE_CHECKING:
    from ..distribution import Distribution


class ExpTransform(Transform):
    """y = exp(x).

    >>> rg.distributions.ExpTransform()(rg.tensor([0.0]))
    tensor([1.])
    """

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = 1
    _compared = ()

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """y = x^exponent, for positive x.

    Args:
        exponent: a number or a Tensor that broadcasts with x.

    >>> rg.distributions.PowerTransform(2)(rg.tensor([3.0]))
    tensor([9.])
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True
    _compared = ("exponent",)

    def __init__(self, exponent: Tensor | Number, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    @property
    def sign(self) -> Tensor:
        return self.exponent.sign()

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Shape) -> Size:
        return broadcast_shapes(tuple(shape), self.exponent.shape)

    inverse_shape = forward_shape


def clipped_sigmoid(x: Tensor) -> Tensor:
    """Return the sigmoid, clamped to the open interval (0, 1)."""
    return x.sigmoid().clamp(min=tiny_of(x), max=1 - eps_of(x))


class SigmoidTransform(Transform):
    """y = 1 / (1 + exp(-x)), clamped to the open interval (0, 1) so that it can be inverted.

    >>> rg.distributions.SigmoidTransform()(rg.tensor([0.0]))
    tensor([0.5])
    """

    domain = constraints.real
    codomain = constraints.unit_interval
    bijective = True
    sign = 1
    _compared = ()

    def _call(self, x: Tensor) -> Tensor:
        return clipped_sigmoid(x)

    def _inverse(self, y: Tensor) -> Tensor:
        y = y.clamp(min=tiny_of(y), max=1 - eps_of(y))
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return logsigmoid(x) + logsigmoid(-x)


class SoftplusTransform(Transform):
    """y = log(1 + exp(x)), and y = x for x above 20.

    >>> rg.distributions.SoftplusTransform()(rg.tensor([0.0]))
    tensor([0.6931])
    """

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = 1
    _compared = ()

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-(-y).expm1()).log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return logsigmoid(x)


class TanhTransform(Transform):
    """y = tanh(x). If y rounds to -1 or 1, ``cache_size=1`` returns the original x as its inverse.

    >>> rg.distributions.TanhTransform()(rg.tensor([0.0]))
    tensor([0.])
    """

    domain = constraints.real
    codomain = constraints.interval(-1.0, 1.0)
    bijective = True
    sign = 1
    _compared = ()

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # log(1 - tanh(x)^2) without the difference, which rounds to 0.
        return 2 * (math.log(2) - x + logsigmoid(2 * x))


class AbsTransform(Transform):
    """y = |x|. It is not bijective; the inverse returns y.

    >>> rg.distributions.AbsTransform()(rg.tensor([-1.0]))
    tensor([1.])
    """

    domain = constraints.real
    codomain = constraints.positive
    _compared = ()

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """y = loc + scale * x.

    Args:
        loc: a number or a Tensor.
        scale: a number or a Tensor, not 0.
        event_dim: the number of event dimensions.

    >>> rg.distributions.AffineTransform(1, 2)(rg.tensor([3.0]))
    tensor([7.])
    """

    bijective = True
    _compared = ("loc", "scale")

    def __init__(self, loc: Tensor | Number, scale: Tensor | Number, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc, self.scale = loc, scale
        self._event_dim = event_dim

    @property
    def event_dim(self) -> int:
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Constraint:
        return constraints.independent(constraints.real, self._event_dim) if self._event_dim else constraints.real

    codomain = domain

    @property
    def sign(self) -> int | Tensor:
        return self.scale.sign() if isinstance(self.scale, Tensor) else (self.scale > 0) - (self.scale < 0)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.scale, Tensor):
            result = self.scale.abs().log().expand(x.shape)
        else:
            result = full_like(x, math.log(abs(self.scale)))
        return sum_rightmost(result, self._event_dim)

    def forward_shape(self, shape: Shape) -> Size:
        parts = [part.shape for part in (self.loc, self.scale) if isinstance(part, Tensor)]
        return broadcast_shapes(tuple(shape), *parts)

    inverse_shape = forward_shape


class CumulativeDistributionTransform(Transform):
    """y = cdf(x) for the cumulative distribution function of a distribution; the inverse is icdf.

    Args:
        distribution: a distribution of numbers with ``cdf`` and ``icdf``.

    >>> distributions = rg.distributions
    >>> distributions.CumulativeDistributionTransform(distributions.Normal(0.0, 1.0))(rg.tensor([0.0]))
    tensor([0.5])
    """

    codomain = constraints.unit_interval
    bijective = True
    sign = 1

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Constraint:  # type: ignore[override]
        """The constraint on the transform's input."""
        return self.distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)
