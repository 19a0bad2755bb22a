"""Distributions of real numbers, of nonnegative numbers (half-normal, half-Cauchy), on intervals, and of angles."""

from __future__ import annotations

import math

from ..._generated.special import i0e, i1e, ndtr, ndtri
from ..._generated.toplevel import full_like, zeros_like
from ...core.tensor.tensor import Tensor
from .. import constraints
from ..constraints import Constraint
from ..distribution import Distribution, Shape
from ..sampling.draws import exponential, normal, standard_gamma, standard_von_mises, uniform
from ..transformed_distribution import TransformedDistribution
from ..transforms import AbsTransform
from ..utils import Number, choose, euler_constant

LOG_SQRT_TAU = 0.5 * math.log(2 * math.pi)


class _LocationScale(Distribution):
    """A distribution whose density is a function of z = (x - loc) / scale, divided by the scale."""

    arg_constraints: dict[str, Constraint] = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Tensor | Number, scale: Tensor | Number, validate_args: bool | None = None) -> None:
        self._set(validate_args, loc=loc, scale=scale)

    @property
    def mode(self) -> Tensor:
        return self.loc

    def _standardized(self, value: Tensor) -> Tensor:
        return (value - self.loc) / self.scale


class Normal(_LocationScale):
    """The density ``exp(-z^2 / 2) / (sqrt(2 pi) scale)`` with ``z = (x - loc) / scale``.

    Args:
        loc: the mean.
        scale: the standard deviation, positive.

    >>> rg.distributions.Normal(0.0, 1.0).log_prob(rg.tensor(0.0))
    tensor(-0.9189)
    """

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale.square()

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.loc + self.scale * normal(self._extended_shape(sample_shape), self.loc)

    def _log_prob(self, value: Tensor) -> Tensor:
        return -0.5 * self._standardized(value).square() - self.scale.log() - LOG_SQRT_TAU

    def _cdf(self, value: Tensor) -> Tensor:
        return ndtr(self._standardized(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * ndtri(value)

    def entropy(self) -> Tensor:
        return 0.5 + LOG_SQRT_TAU + self.scale.log()


class Laplace(_LocationScale):
    """The density ``exp(-|x - loc| / scale) / (2 scale)``.

    Args:
        loc: the mean.
        scale: the mean distance from ``loc``, positive.

    >>> rg.distributions.Laplace(0.0, 1.0).log_prob(rg.tensor(0.0))
    tensor(-0.6931)
    """

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.square()

    @property
    def stddev(self) -> Tensor:
        return math.sqrt(2) * self.scale

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        # Draw the difference of two exponential numbers, because the logarithm of a uniform number is inexact near the
        # bounds.
        return self.loc + self.scale * (exponential(shape, self.loc) - exponential(shape, self.loc))

    def _log_prob(self, value: Tensor) -> Tensor:
        return -self._standardized(value).abs() - (2 * self.scale).log()

    def _cdf(self, value: Tensor) -> Tensor:
        z = self._standardized(value)
        tail = 0.5 * (-z.abs()).exp()
        return choose(z < 0, tail, 1 - tail)

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * choose(value < 0.5, (2 * value).log(), -(2 - 2 * value).log())

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()


class Cauchy(_LocationScale):
    """The density ``1 / (pi scale (1 + z^2))`` with ``z = (x - loc) / scale``. It has no mean.

    Args:
        loc: the median.
        scale: half the distance between the quartiles, positive.

    >>> rg.distributions.Cauchy(0.0, 1.0).cdf(rg.tensor(1.0))
    tensor(0.75)
    """

    @property
    def mean(self) -> Tensor:
        return full_like(self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        return full_like(self.loc, math.inf)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.icdf(uniform(self._extended_shape(sample_shape), self.loc))

    def _log_prob(self, value: Tensor) -> Tensor:
        return -self._standardized(value).square().log1p() - self.scale.log() - math.log(math.pi)

    def _cdf(self, value: Tensor) -> Tensor:
        return self._standardized(value).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * (math.pi * (value - 0.5)).tan()

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(_LocationScale):
    """The density ``exp(-z - exp(-z)) / scale`` with ``z = (x - loc) / scale``, the limit distribution of maxima.

    Args:
        loc: the mode.

    >>> rg.distributions.Gumbel(0.0, 1.0).mean
    tensor(0.5772)
    """

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * euler_constant

    @property
    def stddev(self) -> Tensor:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.square()

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.loc - self.scale * exponential(self._extended_shape(sample_shape), self.loc).log()

    def _log_prob(self, value: Tensor) -> Tensor:
        z = self._standardized(value)
        return -z - (-z).exp() - self.scale.log()

    def _cdf(self, value: Tensor) -> Tensor:
        return (-(-self._standardized(value)).exp()).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)


class StudentT(Distribution):
    """The density proportional to ``(1 + z^2 / df)^(-(df + 1) / 2)`` with ``z = (x - loc) / scale``.

    Args:
        df: the degrees of freedom, positive.
        loc: the center.

    >>> rg.distributions.StudentT(3.0).variance
    tensor(3.)
    """

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    df: Tensor
    loc: Tensor
    scale: Tensor

    def __init__(
        self,
        df: Tensor | Number,
        loc: Tensor | Number = 0.0,
        scale: Tensor | Number = 1.0,
        validate_args: bool | None = None,
    ) -> None:
        self._set(validate_args, df=df, loc=loc, scale=scale)

    @property
    def mean(self) -> Tensor:
        """The center; NaN where df <= 1."""
        return choose(self.df > 1, self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The variance; infinite where df <= 2, NaN where df <= 1."""
        finite = self.df > 2
        df = choose(finite, self.df, 3.0)
        variance = choose(finite, self.scale.square() * df / (df - 2), math.inf)
        return choose(self.df > 1, variance, math.nan)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        chi2 = 2 * standard_gamma((0.5 * self.df).expand(shape))
        return self.loc + self.scale * normal(shape, self.loc) * (chi2 / self.df).rsqrt()

    def _log_prob(self, value: Tensor) -> Tensor:
        half = 0.5 * (self.df + 1)
        z = ((value - self.loc) / self.scale).abs()
        far = z / self.df.sqrt() > 1e9  # 1 is negligible relative to the square, which may overflow
        log = choose(
            far, 2 * choose(far, z, 1.0).log() - self.df.log(), (choose(far, 0.0, z).square() / self.df).log1p()
        )
        norm = self.scale.log() + 0.5 * (math.pi * self.df).log() + (0.5 * self.df).lgamma() - half.lgamma()
        return -half * log - norm

    def entropy(self) -> Tensor:
        half = 0.5 * (self.df + 1)
        log_beta = (0.5 * self.df).lgamma() + math.lgamma(0.5) - half.lgamma()
        return self.scale.log() + half * (half.digamma() - (0.5 * self.df).digamma()) + 0.5 * self.df.log() + log_beta


class Uniform(Distribution):
    """The density ``1 / (high - low)`` from low to high.

    Args:
        low: the lower bound, included.
        high: the upper bound.

    Raises:
        ValueError: low is not below high.

    >>> rg.distributions.Uniform(0.0, 4.0).variance
    tensor(1.3333)
    """

    has_rsample = True
    low: Tensor
    high: Tensor

    def __init__(self, low: Tensor | Number, high: Tensor | Number, validate_args: bool | None = None) -> None:
        self._set(validate_args, low=low, high=high)

    @property
    def arg_constraints(self) -> dict[str, Constraint]:
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        """The mode; NaN, since all numbers between the bounds are equally likely."""
        return full_like(self.high, math.nan)

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low).square() / 12

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.icdf(uniform(self._extended_shape(sample_shape), self.low))

    def _log_prob(self, value: Tensor) -> Tensor:
        """The density is 0 at ``high`` itself, as in PyTorch."""
        inside = (value >= self.low) & (value < self.high)
        return choose(inside, -(self.high - self.low).log(), -math.inf)

    def _cdf(self, value: Tensor) -> Tensor:
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()


class VonMises(Distribution):
    """The density ``exp(concentration cos(x - loc)) / (2 pi I_0(concentration))`` of angles in radians.

    Args:
        loc: the mean direction.
        concentration: positive; the larger, the closer samples are to ``loc``.

    Samples lie in ``[-pi, pi]`` and have gradients by implicit reparameterization, which PyTorch does not have.

    >>> angles = rg.distributions.VonMises(0.0, 4.0).sample((100,))
    >>> bool((angles.abs() <= np.pi).all())
    True
    """

    has_rsample = True
    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    loc: Tensor
    concentration: Tensor

    def __init__(self, loc: Tensor | Number, concentration: Tensor | Number, validate_args: bool | None = None) -> None:
        self._set(validate_args, loc=loc, concentration=concentration)

    @property
    def mean(self) -> Tensor:
        """The mean direction."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The circular variance, ``1 - I_1(c) / I_0(c)`` at the concentration c."""
        return 1 - i1e(self.concentration) / i0e(self.concentration)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        angle = self.loc + standard_von_mises(self.concentration.expand(self._extended_shape(sample_shape)))
        return angle - 2 * math.pi * (angle.detach() / (2 * math.pi)).round()

    def _log_prob(self, value: Tensor) -> Tensor:
        kappa = self.concentration
        return kappa * ((value - self.loc).cos() - 1) - i0e(kappa).log() - math.log(2 * math.pi)


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
