"""Distributions of successes and failures, given a probability or log-odds, and of counts without an upper bound."""

from __future__ import annotations

import math

import numpy as np

from ..._generated.functional import binary_cross_entropy_with_logits, logsigmoid
from ..._generated.special import xlog1py
from ..._generated.toplevel import arange, bernoulli, broadcast_tensors, zeros_like
from ...core.graph.modes import recording
from ...core.tensor.tensor import Size, Tensor
from ...ops.table.documentation import like
from .. import constraints
from ..constraints import Constraint
from ..distribution import Distribution, Shape
from ..sampling.draws import drawn_on_host, exponential, standard_gamma, uniform
from ..utils import Number, choose, clamp_probs, lazy_property, logits_to_probs, probs_to_logits


def one_of(**parameters: Tensor | Number | None) -> tuple[str, Tensor | Number]:
    """Return the only parameter that is not None, and its name.

    Raises:
        ValueError: none or several are given.
    """
    given = [(name, value) for name, value in parameters.items() if value is not None]
    if len(given) != 1:
        raise ValueError(f"Either {' or '.join(f'`{name}`' for name in parameters)} must be specified, but not both.")
    return given[0]


class SuccessOdds(Distribution):
    """A distribution with a probability of success, given as ``probs`` or as log-odds ``logits``."""

    arg_constraints: dict[str, Constraint] = {"probs": constraints.unit_interval, "logits": constraints.real}

    def _set_odds(
        self,
        probs: Tensor | Number | None,
        logits: Tensor | Number | None,
        validate_args: bool | None,
        **others: Tensor | Number,
    ) -> None:
        name, odds = one_of(probs=probs, logits=logits)
        self._set(validate_args, **{name: odds}, **others)

    @lazy_property
    def logits(self) -> Tensor:
        """The log-odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities of success."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def _param(self) -> Tensor:
        return vars(self)["probs" if "probs" in vars(self) else "logits"]

    @property
    def param_shape(self) -> Size:
        """The shape of probs and logits."""
        return Size(self._param.shape)


class Bernoulli(SuccessOdds):
    """1 with probability ``probs``, else 0.

    Args:
        probs: the probability of 1; or

    >>> rg.distributions.Bernoulli(0.25).log_prob(rg.tensor([0.0, 1.0])).exp()
    tensor([0.75, 0.25])
    """

    support = constraints.boolean
    has_enumerate_support = True

    def __init__(
        self,
        probs: Tensor | Number | None = None,
        logits: Tensor | Number | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._set_odds(probs, logits, validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The more likely value; NaN if both are equally likely."""
        return choose(self.probs == 0.5, math.nan, (self.probs >= 0.5).to(dtype=self._param.dtype))

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with recording(False):
            return bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def _log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_tensors(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value.to(dtype=logits.dtype), reduction="none")

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(arange(2, dtype=self._param.dtype, device=self._param.device), expand)


class Geometric(SuccessOdds):
    """The number of failures before the first success.

    Args:
        probs: the probability of success, in ``(0, 1]``; or

    >>> rg.distributions.Geometric(0.5).log_prob(rg.tensor(2.0)).exp()
    tensor(0.125)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(
        self,
        probs: Tensor | Number | None = None,
        logits: Tensor | Number | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._set_odds(probs, logits, validate_args)
        if self._validate_args and probs is not None and not bool((self.probs > 0).all()):
            raise ValueError(
                f"Expected parameter probs (Tensor of shape {tuple(self.probs.shape)}) of distribution {self!r} to be "
                f"positive but found invalid values:\n{self.probs}"
            )

    @property
    def mean(self) -> Tensor:
        return 1 / self.probs - 1

    @property
    def mode(self) -> Tensor:
        return zeros_like(self._param)

    @property
    def variance(self) -> Tensor:
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with recording(False):
            waiting = exponential(self._extended_shape(sample_shape), self._param)
            return (waiting / -(-self.probs).log1p()).floor()

    def _log_prob(self, value: Tensor) -> Tensor:
        return xlog1py(value, -self.probs) + self.probs.log()

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs


class Binomial(SuccessOdds):
    """The number of successes among n independent trials.

    Args:
        total_count: n, the number of trials.
        probs: the probability of success; or

    >>> rg.distributions.Binomial(4, 0.5).log_prob(rg.tensor(2.0)).exp()
    tensor(0.375)
    """

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True
    total_count: Tensor

    def __init__(
        self,
        total_count: Tensor | int = 1,
        probs: Tensor | Number | None = None,
        logits: Tensor | Number | None = None,
        validate_args: bool | None = None,
    ) -> None:
        _, odds = one_of(probs=probs, logits=logits)
        self._set_odds(probs, logits, validate_args, total_count=_like(total_count, odds))

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Constraint:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().minimum(self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        def draw(generator: np.random.Generator, count: np.ndarray, probs: np.ndarray) -> np.ndarray:
            return generator.binomial(count.astype(np.int64), probs)

        with recording(False):
            shape = self._extended_shape(sample_shape)
            return drawn_on_host(draw, self._param, self.total_count.expand(shape), self.probs.expand(shape))

    def _log_prob(self, value: Tensor) -> Tensor:
        n = self.total_count
        ways = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        return ways + value * logsigmoid(self.logits) + (n - value) * logsigmoid(-self.logits)

    def _common_count(self, method: str) -> int:
        count = int(self.total_count.max().item())
        if not bool((self.total_count == count).all()):
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{method}`.")
        return count

    def entropy(self) -> Tensor:
        self._common_count("entropy")
        log_prob = self._log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        count = self._common_count("enumerate_support")
        return self._enumerated(arange(1 + count, dtype=self._param.dtype, device=self._param.device), expand)


def _like(count: Tensor | Number, odds: Tensor | Number) -> Tensor | Number:
    return count.to(dtype=odds.dtype) if isinstance(count, Tensor) and isinstance(odds, Tensor) else count


class NegativeBinomial(SuccessOdds):
    """The number of successes before ``total_count`` failures.

    Args:
        total_count: the number of failures, not negative; it need not be an integer.
        probs: the probability of success, in ``[0, 1)``; or

    >>> rg.distributions.NegativeBinomial(3, 0.5).mean
    tensor(3.)
    """

    arg_constraints = {
        "total_count": constraints.nonnegative,
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    total_count: Tensor

    def __init__(
        self,
        total_count: Tensor | float,
        probs: Tensor | Number | None = None,
        logits: Tensor | Number | None = None,
        validate_args: bool | None = None,
    ) -> None:
        _, odds = one_of(probs=probs, logits=logits)
        self._set_odds(probs, logits, validate_args, total_count=_like(total_count, odds))

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with recording(False):
            rate = standard_gamma(self.total_count.expand(self._extended_shape(sample_shape))) * self.logits.exp()
            return drawn_on_host(np.random.Generator.poisson, self._param, rate)

    def _log_prob(self, value: Tensor) -> Tensor:
        n = self.total_count
        ways = (n + value).lgamma() - (1 + value).lgamma() - n.lgamma()
        ways = choose(n + value == 0, 0.0, ways)  # where lgamma(0) - lgamma(0) is NaN
        return ways + n * logsigmoid(-self.logits) + value * logsigmoid(self.logits)


class ContinuousBernoulli(SuccessOdds):
    """The density proportional to ``p^x (1 - p)^(1 - x)`` on ``[0, 1]``.

    After G. Loaiza-Ganem and J. Cunningham, "The continuous Bernoulli: fixing a pervasive error in variational
    autoencoders" (2019).

    Args:
        probs: p, in ``(0, 1)``, which is neither the mean nor a probability; or
        logits: ``log(p / (1 - p))``.
        lims: for p between these bounds, near 1/2, Taylor series replace quotients of small numbers.

    >>> rg.distributions.ContinuousBernoulli(0.5).log_prob(rg.tensor(0.3))
    tensor(0.)
    """

    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        probs: Tensor | Number | None = None,
        logits: Tensor | Number | None = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._lims = lims
        self._set_odds(probs, logits, validate_args)
        if probs is not None:
            vars(self)["probs"] = clamp_probs(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _is_far(self) -> Tensor:
        """Return whether p is far enough from 1/2 for the closed forms."""
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _far_probs(self) -> Tensor:
        """Return p where it is far from 1/2, elsewhere a number that is far from 1/2."""
        return choose(self._is_far(), self.probs, self._lims[0])

    def _far_logits(self) -> Tensor:
        p = self._far_probs()
        return p.log() - (-p).log1p()

    def _log_norm(self) -> Tensor:
        """Return the logarithm of the normalizing constant, 2 atanh(1 - 2 p) / (1 - 2 p)."""
        p = self._far_probs()
        far = self._far_logits().abs().log() - (1 - 2 * p).abs().log()
        x = (self.probs - 0.5).square()
        return choose(self._is_far(), far, math.log(2) + (4 / 3 + 104 / 45 * x) * x)

    @property
    def mean(self) -> Tensor:
        p = self._far_probs()
        x = self.probs - 0.5
        near = 0.5 + (1 / 3 + 16 / 45 * x.square()) * x
        return choose(self._is_far(), p / (2 * p - 1) - 1 / self._far_logits(), near)

    @property
    def variance(self) -> Tensor:
        p = self._far_probs()
        x = (self.probs - 0.5).square()
        far = p * (p - 1) / (1 - 2 * p).square() + 1 / self._far_logits().square()
        return choose(self._is_far(), far, 1 / 12 - (1 / 15 - 128 / 945 * x) * x)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.icdf(uniform(self._extended_shape(sample_shape), self._param))

    def _log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_tensors(self.logits, value)
        return self._log_norm() - binary_cross_entropy_with_logits(logits, value, reduction="none")

    def _cdf(self, value: Tensor) -> Tensor:
        p = self._far_probs()
        far = (p.pow(value) * (1 - p).pow(1 - value) + p - 1) / (2 * p - 1)
        # (e^(tx) - 1) / (e^t - 1) with t the logit, which is small here
        x, t = value, self.logits
        near = x - x * (1 - x) * (t / 2 + (x - 0.5) * t.square() / 6)
        return choose(self._is_far(), far, near).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        p = self._far_probs()
        far = ((value * (2 * p - 1) - p).log1p() - (-p).log1p()) / self._far_logits()
        # log(1 + u (e^t - 1)) / t
        u, t = value, self.logits
        near = u + u * (1 - u) * (t / 2 + (1 - 2 * u) * t.square() / 6)
        return choose(self._is_far(), far, near)

    def entropy(self) -> Tensor:
        failure, success = (-self.probs).log1p(), self.probs.log()
        return self.mean * (failure - success) - self._log_norm() - failure


@like(Bernoulli)
class LogitRelaxedBernoulli(SuccessOdds):
    """The logit of a RelaxedBernoulli sample: ``(logits + noise) / temperature`` with logistic noise.

    After C. Maddison, A. Mnih and Y. Teh, "The concrete distribution" (2017).

    Args:
        temperature: a positive Tensor or number.

    >>> rg.distributions.LogitRelaxedBernoulli(rg.tensor(1.0), logits=rg.tensor(0.0)).log_prob(rg.tensor(0.0)).exp()
    tensor(0.25)
    """

    support = constraints.real
    has_rsample = True

    def __init__(
        self,
        temperature: Tensor | float,
        probs: Tensor | Number | None = None,
        logits: Tensor | Number | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._set_odds(probs, logits, validate_args)
        self.temperature = self._param.new_tensor(temperature) if not isinstance(temperature, Tensor) else temperature

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        probs = clamp_probs(self.probs)
        noise = clamp_probs(uniform(self._extended_shape(sample_shape), self._param))
        return (noise.log() - (-noise).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def _log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_tensors(self.logits, value)
        diff = logits - value * self.temperature
        return self.temperature.log() + logsigmoid(diff) + logsigmoid(-diff)


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
