"""Distributions of counts without an upper bound."""

from __future__ import annotations

import numpy as np

from ...core.graph.modes import recording
from ...core.tensor.tensor import Tensor
from .. import constraints
from ..distribution import Distribution, Shape
from ..sampling.draws import drawn_on_host
from ..utils import Number


class Poisson(Distribution):
    """The probability ``rate^k exp(-rate) / k!`` of a count k.

    Args:
        rate: the mean, not negative.

    Raises:
        ValueError: the rate is negative.

    >>> rg.distributions.Poisson(2.0).log_prob(rg.tensor(0.0))
    tensor(-2.)
    """

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    rate: Tensor

    def __init__(self, rate: Tensor | Number, validate_args: bool | None = None) -> None:
        self._set(validate_args, rate=rate)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with recording(False):
            rate = self.rate.expand(self._extended_shape(sample_shape))
            return drawn_on_host(np.random.Generator.poisson, self.rate, rate)

    def _log_prob(self, value: Tensor) -> Tensor:
        return value.xlogy(self.rate) - self.rate - (value + 1).lgamma()
