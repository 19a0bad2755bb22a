"""Distributions on the unit interval and on the simplex."""

from __future__ import annotations

import math

from ..._generated.toplevel import eye, ones_like, stack, xlogy, zeros_like
from ...core.graph.primitive import operand
from ...core.tensor.tensor import Tensor
from ...ops.table.documentation import like
from .. import constraints
from ..distribution import Distribution, Shape
from ..independent import Independent
from ..sampling.draws import dirichlet
from ..transformed_distribution import TransformedDistribution
from ..transforms import AffineTransform, ExpTransform, PowerTransform, SigmoidTransform, StickBreakingTransform
from ..utils import Number, broadcast_all, choose, eps_of, euler_constant, tiny_of
from .binary import Bernoulli, LogitRelaxedBernoulli
from .categorical import Categorical, ExpRelaxedCategorical
from .real_line import Normal, Uniform


class Beta(Distribution):
    """The density proportional to ``x^(a - 1) (1 - x)^(b - 1)`` on ``[0, 1]``.

    Args:
        concentration1: a, positive.
        concentration0: b, positive.

    >>> rg.distributions.Beta(1.0, 3.0).mean
    tensor(0.25)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    concentration1: Tensor
    concentration0: Tensor

    def __init__(
        self, concentration1: Tensor | Number, concentration0: Tensor | Number, validate_args: bool | None = None
    ) -> None:
        self._set(validate_args, concentration1=concentration1, concentration0=concentration0)

    @property
    def _total(self) -> Tensor:
        return self.concentration1 + self.concentration0

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / self._total

    @property
    def mode(self) -> Tensor:
        """The mode; 1 if both concentrations are below 1: the density is infinite at both ends (as in PyTorch).

        NaN if both are 1, where all numbers are equally likely.
        """
        a, b = (self.concentration1 - 1).clamp(min=0), (self.concentration0 - 1).clamp(min=0)
        unbounded = (self.concentration1 < 1) & (self.concentration0 < 1)
        return choose(unbounded, 1.0, a / choose(unbounded, 1.0, a + b))

    @property
    def variance(self) -> Tensor:
        total = self._total
        return self.concentration1 * self.concentration0 / (total.square() * (total + 1))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Draw the first of two components of a Dirichlet sample, which is never 0 or 1."""
        shape = self._extended_shape(sample_shape)
        pair = stack((self.concentration1.expand(shape), self.concentration0.expand(shape)), -1)
        return dirichlet(pair).select(-1, 0)

    def _log_prob(self, value: Tensor) -> Tensor:
        a, b = self.concentration1, self.concentration0
        norm = (a + b).lgamma() - a.lgamma() - b.lgamma()
        return (a - 1).xlogy(value) + (b - 1).xlogy(1 - value) + norm

    def entropy(self) -> Tensor:
        a, b, total = self.concentration1, self.concentration0, self._total
        log_beta = a.lgamma() + b.lgamma() - total.lgamma()
        return log_beta - (a - 1) * a.digamma() - (b - 1) * b.digamma() + (total - 2) * total.digamma()


@like(Beta)
class Kumaraswamy(TransformedDistribution):
    """The distribution function ``1 - (1 - x^a)^b`` on ``[0, 1]``.

    >>> rg.distributions.Kumaraswamy(1.0, 3.0).mean
    tensor(0.25)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    concentration1: Tensor
    concentration0: Tensor

    def __init__(
        self, concentration1: Tensor | Number, concentration0: Tensor | Number, validate_args: bool | None = None
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(
            Uniform(zeros_like(self.concentration0), ones_like(self.concentration0), validate_args=validate_args),
            [
                PowerTransform(self.concentration0.reciprocal()),
                AffineTransform(1.0, -1.0),
                PowerTransform(self.concentration1.reciprocal()),
            ],
            validate_args=validate_args,
        )

    def _move_into_support(self, x: Tensor) -> Tensor:
        return x.clamp(min=tiny_of(x), max=1 - eps_of(x) / 2)

    def _log_prob(self, value: Tensor) -> Tensor:
        """Compute the density directly: the intermediate numbers of the transforms would round to 0 and 1."""
        a, b = self.concentration1, self.concentration0
        above = -xlogy(a, value).expm1()  # 1 - x^a
        return a.log() + b.log() + (a - 1).xlogy(value) + (b - 1).xlogy(above)

    def _moment(self, order: int) -> Tensor:
        a, b = 1 + order / self.concentration1, self.concentration0
        return (a.lgamma() + b.lgamma() - (a + b).lgamma()).exp() * b

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        """The mode; NaN where a concentration is below 1, or both are 1."""
        a, b = self.concentration1, self.concentration0
        unimodal = (a >= 1) & (b >= 1) & (a * b > 1)
        ratio = choose(unimodal, a - 1, 1.0) / choose(unimodal, a * b - 1, 1.0)
        return choose(unimodal, ratio.pow(a.reciprocal()), math.nan)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1).square()

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return (1 - 1 / b) + (1 - 1 / a) * ((b + 1).digamma() + euler_constant) - a.log() - b.log()


@like(Bernoulli)
class RelaxedBernoulli(TransformedDistribution):
    """A Bernoulli variable relaxed to ``(0, 1)``, so that gradients flow: the sigmoid of LogitRelaxedBernoulli.

    Args:
        temperature: positive; the lower, the closer samples are to 0 and 1.

    >>> d = rg.distributions.RelaxedBernoulli(rg.tensor(1e-3), logits=rg.tensor(100.0))
    >>> d.sample().round()
    tensor(1.)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    base_dist: LogitRelaxedBernoulli

    def __init__(
        self,
        temperature: Tensor | float,
        probs: Tensor | Number | None = None,
        logits: Tensor | Number | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Tensor:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """The log-odds of 1."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The probability of 1."""
        return self.base_dist.probs


@like(Categorical, raises="ValueError")
class RelaxedOneHotCategorical(TransformedDistribution):
    """A one-hot vector relaxed to the simplex: ``softmax((logits + noise) / temperature)``, so that gradients flow.

    After C. Maddison, A. Mnih and Y. Teh, "The concrete distribution" (2017), and E. Jang, S. Gu and B. Poole,
    "Categorical reparametrization with Gumbel-softmax" (2017).

    Args:
        temperature: positive; the lower, the closer samples are to one-hot.

    >>> d = rg.distributions.RelaxedOneHotCategorical(rg.tensor(0.5), logits=rg.zeros(3))
    >>> d.rsample().sum()
    tensor(1.)
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    base_dist: ExpRelaxedCategorical

    def __init__(
        self,
        temperature: Tensor | float,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Tensor:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """The logarithms of the classes' probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The classes' probabilities."""
        return self.base_dist.probs


class Dirichlet(Distribution):
    """The density proportional to ``prod_k x_k^(a_k - 1)`` on the simplex.

    Args:
        concentration: a, positive, along the last dimension.

    Raises:
        ValueError: the concentration has no dimension or is not positive.

    >>> rg.distributions.Dirichlet(rg.tensor([1.0, 3.0])).mean
    tensor([0.25, 0.75])
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        self.concentration = operand(concentration, "concentration")
        if self.concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        shape = self.concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def mode(self) -> Tensor:
        """The mode; the first corner of the simplex if all concentrations are below 1 (infinite density at corners)."""
        above = (self.concentration - 1).clamp(min=0)
        unbounded = (self.concentration < 1).all(-1, keepdim=True)
        first = eye(above.shape[-1], dtype=above.dtype, device=above.device)[0]
        return choose(unbounded, first, above / choose(unbounded, 1.0, above.sum(-1, keepdim=True)))

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, keepdim=True)
        return self.concentration * (total - self.concentration) / (total.square() * (total + 1))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Draw gamma samples and divide them by their sum; no component is 0 or 1."""
        return dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def _log_prob(self, value: Tensor) -> Tensor:
        a = self.concentration
        return (a - 1).xlogy(value).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    def entropy(self) -> Tensor:
        a, total, count = self.concentration, self.concentration.sum(-1), self.concentration.shape[-1]
        log_beta = a.lgamma().sum(-1) - total.lgamma()
        return log_beta - (count - total) * total.digamma() - ((a - 1) * a.digamma()).sum(-1)


class LogisticNormal(TransformedDistribution):
    """The distribution on the simplex whose stick-breaking log-odds are normal.

    Args:
        loc: the means of the log-odds, along the last dimension, which has one element less than the samples.
        scale: the standard deviations of the log-odds, positive.

    >>> rg.distributions.LogisticNormal(rg.zeros(3), rg.ones(3)).sample().shape
    (4,)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    base_dist: Independent

    def __init__(self, loc: Tensor | Number, scale: Tensor | Number, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def _normal(self) -> Normal:
        normal = self.base_dist.base_dist
        assert isinstance(normal, Normal)
        return normal

    @property
    def loc(self) -> Tensor:
        """The means of the log-odds."""
        return self._normal.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviations of the log-odds."""
        return self._normal.scale
