"""Distributions of positive numbers."""

from __future__ import annotations

import math

from ..._generated.special import xlog1py
from ..._generated.toplevel import full_like, logaddexp, ones_like, zeros_like
from ...core.tensor.tensor import Tensor
from .. import constraints
from ..constraints import Constraint
from ..distribution import Distribution, Shape
from ..sampling.draws import exponential, standard_gamma, standard_log_gamma, uniform
from ..sampling.gamma_derivative import incomplete_gamma
from ..transformed_distribution import TransformedDistribution
from ..transforms import AffineTransform, ExpTransform, PowerTransform
from ..utils import Number, broadcast_all, choose, euler_constant, max_of, tiny_of
from .real_line import Normal


class Exponential(Distribution):
    """The density ``rate exp(-rate x)``.

    Args:
        rate: positive; the mean is ``1 / rate``.

    >>> rg.distributions.Exponential(2.0).mean
    tensor(0.5)
    """

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    rate: Tensor

    def __init__(self, rate: Tensor | Number, validate_args: bool | None = None) -> None:
        self._set(validate_args, rate=rate)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return exponential(self._extended_shape(sample_shape), self.rate) / self.rate

    def _log_prob(self, value: Tensor) -> Tensor:
        return self.rate.log() - self.rate * value

    def _cdf(self, value: Tensor) -> Tensor:
        return -(-self.rate * value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        return 1 - self.rate.log()


class Gamma(Distribution):
    """The density ``rate^a x^(a - 1) exp(-rate x) / gamma(a)``, with a the concentration.

    Args:
        concentration: a, positive.
        rate: positive.

    >>> rg.distributions.Gamma(2.0, 1.0).log_prob(rg.tensor(1.0))
    tensor(-1.)
    """

    arg_constraints: dict[str, Constraint] = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    concentration: Tensor
    rate: Tensor

    def __init__(
        self, concentration: Tensor | Number, rate: Tensor | Number, validate_args: bool | None = None
    ) -> None:
        self._set(validate_args, concentration=concentration, rate=rate)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Draw a sample; 0 is replaced by the smallest normal number, where the density is finite."""
        x = standard_gamma(self.concentration.expand(self._extended_shape(sample_shape))) / self.rate
        return x.clamp(min=tiny_of(x))

    def log_prob(self, value: Tensor | Number) -> Tensor:
        """Return the logarithm of the density at ``value``, which may be a Python number, as in PyTorch."""
        return super().log_prob(value if isinstance(value, Tensor) else full_like(self.rate.sum(), value))

    def _log_prob(self, value: Tensor) -> Tensor:
        a = self.concentration
        return a.xlogy(self.rate) + (a - 1).xlogy(value) - self.rate * value - a.lgamma()

    def _cdf(self, value: Tensor) -> Tensor:
        return incomplete_gamma(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1 - a) * a.digamma()


class Chi2(Gamma):
    """The distribution of the sum of df squares of standard normal numbers: ``Gamma(df / 2, 1 / 2)``.

    Args:
        df: the degrees of freedom, positive.

    >>> rg.distributions.Chi2(3.0).mean
    tensor(3.)
    """

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Tensor | Number, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Chi2 | None = None) -> Chi2:
        new = super().expand(batch_shape, _instance)
        new.concentration = self.concentration.expand(tuple(batch_shape))
        new.rate = self.rate.expand(tuple(batch_shape))
        return new

    @property
    def df(self) -> Tensor:
        """The degrees of freedom."""
        return self.concentration * 2


class InverseGamma(TransformedDistribution):
    """The distribution of ``1 / x`` for gamma samples x.

    Args:
        concentration: positive.
        rate: positive; the rate of x, and the scale of ``1 / x``.

    >>> rg.distributions.InverseGamma(3.0, 4.0).mean
    tensor(2.)
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    base_dist: Gamma

    def __init__(
        self, concentration: Tensor | Number, rate: Tensor | Number, validate_args: bool | None = None
    ) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(-ones_like(base.rate)), validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        """The concentration."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """The rate."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        """The mean; infinite where concentration <= 1."""
        a = choose(self.concentration > 1, self.concentration, 2.0)
        return choose(self.concentration > 1, self.rate / (a - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        """The variance; infinite where concentration <= 2."""
        a = choose(self.concentration > 2, self.concentration, 3.0)
        return choose(self.concentration > 2, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


class LogNormal(TransformedDistribution):
    """The distribution of exp(x) for normal samples x.

    Samples that would be 0 or infinite are the smallest or largest positive numbers of the dtype.

    Args:
        loc: the mean of x.
        scale: the standard deviation of x, positive.

    >>> rg.distributions.LogNormal(0.0, 1.0).mean
    tensor(1.6487)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    base_dist: Normal

    def _move_into_support(self, x: Tensor) -> Tensor:
        return x.clamp(min=tiny_of(x), max=max_of(x))

    def __init__(self, loc: Tensor | Number, scale: Tensor | Number, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args=validate_args), ExpTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.square() / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        square = self.scale.square()
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


class Weibull(TransformedDistribution):
    """The distribution function ``1 - exp(-(x / scale)^k)``, with k the concentration.

    Samples that would be 0 or infinite are the smallest or largest positive numbers of the dtype.

    Args:
        concentration: k, positive.

    >>> rg.distributions.Weibull(2.0, 1.0).mean
    tensor(2.)
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    scale: Tensor
    concentration: Tensor

    def _move_into_support(self, x: Tensor) -> Tensor:
        return x.clamp(min=tiny_of(x), max=max_of(x))

    def __init__(
        self, scale: Tensor | Number, concentration: Tensor | Number, validate_args: bool | None = None
    ) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        super().__init__(
            Exponential(ones_like(self.scale), validate_args=validate_args),
            [PowerTransform(self.concentration.reciprocal()), AffineTransform(0, self.scale)],
            validate_args=validate_args,
        )

    def _moment(self, order: int) -> Tensor:
        return self.scale.pow(order) * (1 + order / self.concentration).lgamma().exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        k = self.concentration.clamp(min=1)  # for a concentration below 1 the mode is 0, where the density is infinite
        return self.scale * ((k - 1) / k).pow(k.reciprocal())

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1).square()

    def entropy(self) -> Tensor:
        return euler_constant * (1 - 1 / self.concentration) + (self.scale / self.concentration).log() + 1


class Pareto(TransformedDistribution):
    """The density ``alpha scale^alpha / x^(alpha + 1)`` for ``x >= scale``.

    Args:
        alpha: positive.

    >>> rg.distributions.Pareto(1.0, 3.0).mean
    tensor(1.5)
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}
    scale: Tensor
    alpha: Tensor

    def _move_into_support(self, x: Tensor) -> Tensor:
        return x.clamp(max=max_of(x))

    def __init__(self, scale: Tensor | Number, alpha: Tensor | Number, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        super().__init__(
            Exponential(self.alpha, validate_args=False),
            [ExpTransform(), AffineTransform(0, self.scale)],
            validate_args=validate_args,
        )

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        """The mean; infinite where alpha <= 1."""
        alpha = self.alpha.clamp(min=1)
        return alpha * self.scale / (alpha - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        """The variance; infinite where alpha <= 2."""
        alpha = self.alpha.clamp(min=2)
        return self.scale.square() * alpha / ((alpha - 1).square() * (alpha - 2))

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + 1 + self.alpha.reciprocal()


class GeneralizedPareto(Distribution):
    """The distribution function ``1 - (1 + c z)^(-1 / c)`` with ``z = (x - loc) / scale``.

    The distribution models by how much samples exceed a high threshold. For ``c = 0`` it is exponential.

    Args:
        loc: the lower bound.
        concentration: ``c``.

    >>> rg.distributions.GeneralizedPareto(0.0, 1.0, 0.0).cdf(rg.tensor(1.0))
    tensor(0.6321)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True
    loc: Tensor
    scale: Tensor
    concentration: Tensor

    def __init__(
        self,
        loc: Tensor | Number,
        scale: Tensor | Number,
        concentration: Tensor | Number,
        validate_args: bool | None = None,
    ) -> None:
        self._set(validate_args, loc=loc, scale=scale, concentration=concentration)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:
        bounded = self.concentration < 0
        c = choose(bounded, self.concentration, -1.0)
        return constraints.interval(self.loc, choose(bounded, self.loc - self.scale / c, math.inf))

    def _safe(self) -> tuple[Tensor, Tensor]:
        """Return a mask where the concentration is 0, and the concentration with 1 in place of 0."""
        is_zero = self.concentration.abs() < 1e-8
        return is_zero, choose(is_zero, 1.0, self.concentration)

    @property
    def mean(self) -> Tensor:
        """The mean; NaN where the concentration is not below 1, as in PyTorch."""
        finite = self.concentration < 1
        c = choose(finite, self.concentration, 0.5)
        return choose(finite, self.loc + self.scale / (1 - c), math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The variance; NaN where the concentration is not below 1/2, as in PyTorch."""
        finite = self.concentration < 0.5
        c = choose(finite, self.concentration, 0.25)
        return choose(finite, self.scale.square() / ((1 - c).square() * (1 - 2 * c)), math.nan)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.icdf(uniform(self._extended_shape(sample_shape), self.loc))

    def log_survival_function(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of samples greater than a value."""
        z = (value - self.loc) / self.scale
        is_zero, c = self._safe()
        return choose(is_zero, -z, -(c * z).log1p() / c)

    def _log_prob(self, value: Tensor) -> Tensor:
        z = (value - self.loc) / self.scale
        is_zero, c = self._safe()
        return choose(is_zero, -z, -xlog1py(1 / c + 1, c * z)) - self.scale.log()

    def _cdf(self, value: Tensor) -> Tensor:
        return -self.log_survival_function(value).expm1()

    def log_cdf(self, value: Tensor) -> Tensor:
        """Return the logarithm of the cumulative distribution function."""
        return self.cdf(value).log()

    def icdf(self, value: Tensor) -> Tensor:
        survival = (-value).log1p()
        is_zero, c = self._safe()
        return self.loc + self.scale * choose(is_zero, -survival, (-c * survival).expm1() / c)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1


class FisherSnedecor(Distribution):
    """The distribution of ``(x1 / df1) / (x2 / df2)`` for samples x1 of ``Chi2(df1)`` and x2 of ``Chi2(df2)``.

    Args:
        df1: the degrees of freedom of the numerator, positive.
        df2: the degrees of freedom of the denominator, positive.

    >>> rg.distributions.FisherSnedecor(2.0, 4.0).mean
    tensor(2.)
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    df1: Tensor
    df2: Tensor

    def __init__(self, df1: Tensor | Number, df2: Tensor | Number, validate_args: bool | None = None) -> None:
        self._set(validate_args, df1=df1, df2=df2)

    @property
    def mean(self) -> Tensor:
        """The mean; NaN where df2 <= 2."""
        df2 = choose(self.df2 > 2, self.df2, math.nan)
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Tensor:
        """The mode; NaN where df1 <= 2, as in PyTorch."""
        df1 = choose(self.df1 > 2, self.df1, math.nan)
        return (df1 - 2) / df1 * self.df2 / (self.df2 + 2)

    @property
    def variance(self) -> Tensor:
        """The variance; NaN where df2 <= 4."""
        df2 = choose(self.df2 > 4, self.df2, math.nan)
        return 2 * df2.square() * (self.df1 + df2 - 2) / (self.df1 * (df2 - 2).square() * (df2 - 4))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        log_ratio = standard_log_gamma((0.5 * self.df1).expand(shape)) - standard_log_gamma(
            (0.5 * self.df2).expand(shape)
        )
        x = (log_ratio - self.df1.log() + self.df2.log()).exp()
        return x.clamp(min=tiny_of(x), max=max_of(x))

    def _log_prob(self, value: Tensor) -> Tensor:
        a, b, log_ratio = 0.5 * self.df1, 0.5 * self.df2, self.df1.log() - self.df2.log()
        log_odds = log_ratio + value.log()
        norm = (a + b).lgamma() - a.lgamma() - b.lgamma()
        return norm + a * log_ratio + (a - 1).xlogy(value) - (a + b) * logaddexp(log_odds, zeros_like(log_odds))
