"""Distributions over classes, parametrized by probabilities or logits along the last dimension."""

from __future__ import annotations

import math

import numpy as np

from ..._generated.functional import one_hot
from ..._generated.toplevel import arange, broadcast_tensors, eye, full, logsumexp
from ..._generated.toplevel import multinomial as draw_classes
from ...core.arrays.dtypes import limits
from ...core.graph.modes import recording
from ...core.graph.primitive import operand
from ...core.tensor.tensor import Size, Tensor
from ...ops.table.documentation import like
from .. import constraints
from ..constraints import Constraint
from ..distribution import Distribution, Shape
from ..sampling.draws import drawn_on_host, exponential
from ..utils import choose, lazy_property, logits_to_probs, probs_to_logits
from .binary import Binomial, one_of


class ClassWeights(Distribution):
    """A distribution with a weight per class: ``probs``, which are normalized, or ``logits``, unnormalized logarithms.

    The parameter that is not given is computed on first access.
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def _set_weights(
        self, probs: Tensor | None, logits: Tensor | None, event_is_vector: bool, validate_args: bool | None
    ) -> None:
        name, weights = one_of(probs=probs, logits=logits)
        x = operand(weights, name)
        if x.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        normalized = x / x.sum(-1, keepdim=True) if name == "probs" else x - logsumexp(x, -1, keepdim=True)
        vars(self)[name] = normalized
        Distribution.__init__(self, x.shape[:-1], x.shape[-1:] if event_is_vector else (), validate_args=validate_args)

    @lazy_property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities."""
        return logits_to_probs(self.logits)

    @property
    def _param(self) -> Tensor:
        return vars(self)["probs" if "probs" in vars(self) else "logits"]

    @property
    def param_shape(self) -> Size:
        """The shape of probs and logits."""
        return Size(self._param.shape)

    @property
    def _num_events(self) -> int:
        return self._param.shape[-1]

    def _sampled_classes(self, sample_shape: Shape) -> Tensor:
        """Draw class indices of shape ``sample_shape + batch_shape``."""
        with recording(False):
            rows = self.probs.reshape((-1, self._num_events))
            shape = (*sample_shape, *self._batch_shape)
            count = Size(sample_shape).numel()
            if not count or not len(rows):
                return rows.new_zeros(shape, dtype=np.int64)
            return draw_classes(rows, count, True).T.reshape(shape)

    def _class_entropy(self) -> Tensor:
        logits = self.logits.clamp(min=-limits(self.logits.dtype).max)
        return -(logits * self.probs).sum(-1)


class Categorical(ClassWeights):
    """The distribution over classes 0 to K - 1.

    Args:
        probs: weights of the classes along the last dimension, which need not sum to 1; or
        logits: their logarithms.

    Raises:
        ValueError: not exactly one of probs and logits is passed, or the passed one is 0-d or has invalid values.

    >>> d = rg.distributions.Categorical(probs=rg.tensor([1.0, 3.0]))
    >>> d
    Categorical(probs: (2,))
    >>> d.log_prob(rg.tensor(1))
    tensor(-0.2877)
    """

    has_enumerate_support = True

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        self._set_weights(probs, logits, False, validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Constraint:
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        """The mean; NaN, since classes have no mean."""
        return full(self._batch_shape, math.nan, dtype=self._param.dtype, device=self._param.device)

    variance = mean

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(dim=-1)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        return self._sampled_classes(sample_shape)

    def _log_prob(self, value: Tensor) -> Tensor:
        index, logits = broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        return self._class_entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(arange(self._num_events, device=self._param.device), expand)


@like(Categorical, raises="ValueError")
class OneHotCategorical(ClassWeights):
    """The distribution over one-hot vectors of length K.

    >>> rg.distributions.OneHotCategorical(probs=rg.tensor([0.0, 1.0])).sample()
    tensor([0., 1.])
    """

    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        self._set_weights(probs, logits, True, validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return one_hot(self.probs.argmax(dim=-1), self._num_events).to(dtype=self._param.dtype)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        return one_hot(self._sampled_classes(sample_shape), self._num_events).to(dtype=self._param.dtype)

    def _log_prob(self, value: Tensor) -> Tensor:
        index, logits = broadcast_tensors(value.argmax(-1).unsqueeze(-1), self.logits)
        return logits.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        return self._class_entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return self._enumerated(eye(self._num_events, dtype=self._param.dtype, device=self._param.device), expand)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical whose samples pass gradients straight through to the probabilities.

    The estimator is biased (Y. Bengio, N. Leonard and A. Courville, "Estimating or propagating gradients through
    stochastic neurons for conditional computation", 2013).

    >>> probs = rg.tensor([0.0, 1.0], requires_grad=True)
    >>> d = rg.distributions.OneHotCategoricalStraightThrough(probs=probs)
    >>> d.rsample().requires_grad
    True
    """

    has_rsample = True

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


@like(Categorical, raises="ValueError")
class Multinomial(ClassWeights):
    """The number of times that each of K classes occurs in n independent draws.

    Args:
        total_count: n, the number of draws.

    Raises:
        NotImplementedError: ``total_count`` is not an integer.

    >>> d = rg.distributions.Multinomial(4, probs=rg.tensor([0.5, 0.5]))
    >>> d.log_prob(rg.tensor([2.0, 2.0])).exp()
    tensor(0.375)
    """

    total_count: int

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError(f"total_count must be an int, got {total_count!r}")
        self.total_count = total_count
        self._set_weights(probs, logits, True, validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Constraint:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        def draw(generator: np.random.Generator, probs: np.ndarray) -> np.ndarray:
            # NumPy requires probabilities that sum to 1 in float64.
            return generator.multinomial(self.total_count, probs / probs.sum(-1, keepdims=True))

        with recording(False):
            return drawn_on_host(draw, self._param, self.probs.expand(self._extended_shape(sample_shape)))

    def _log_prob(self, value: Tensor) -> Tensor:
        logits, value = broadcast_tensors(self.logits, value)
        logits = choose((value == 0) & (logits == -math.inf), 0.0, logits)
        return (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1) + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        binomial = Binomial(self.total_count, probs=self.probs, validate_args=False)
        counts = binomial.enumerate_support(expand=False)[1:]
        repeats = (binomial.log_prob(counts).exp() * (counts + 1).lgamma()).sum(0).sum(-1)
        return self.total_count * self._class_entropy() - math.lgamma(self.total_count + 1) + repeats


@like(Categorical)
class ExpRelaxedCategorical(ClassWeights):
    """The logarithm of RelaxedOneHotCategorical samples: ``log softmax((logits + noise) / temperature)``.

    After C. Maddison, A. Mnih and Y. Teh, "The concrete distribution" (2017).

    Args:
        temperature: a positive Tensor or number.

    >>> d = rg.distributions.ExpRelaxedCategorical(rg.tensor(0.5), logits=rg.zeros(3))
    >>> d.rsample().exp().sum()
    tensor(1.)
    """

    support = constraints.real_vector  # as in PyTorch; the exponentials of samples also sum to 1
    has_rsample = True

    def __init__(
        self,
        temperature: Tensor | float,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = operand(temperature, "temperature")
        self._set_weights(probs, logits, True, validate_args)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        noise = -exponential(self._extended_shape(sample_shape), self._param).log()
        scores = (self.logits + noise) / self.temperature
        return scores - logsumexp(scores, -1, keepdim=True)

    def _log_prob(self, value: Tensor) -> Tensor:
        count = self._num_events
        logits, value = broadcast_tensors(self.logits, value)
        score = logits - value * self.temperature
        score = (score - logsumexp(score, -1, keepdim=True)).sum(-1)
        return score + math.lgamma(count) + (count - 1) * self.temperature.log()
