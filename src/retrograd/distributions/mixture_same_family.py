"""Mixtures of distributions of one family."""

from __future__ import annotations

from .._generated.toplevel import log_softmax, logsumexp
from ..core.graph.modes import recording
from ..core.tensor.tensor import Tensor
from . import constraints
from .constraints import Constraint
from .distribution import Distribution, Shape
from .families.categorical import Categorical


class MixtureSameFamily(Distribution):
    """A mixture of distributions of one family: sum of w_k p_k(x), over the last batch dimension of the components.

    Args:
        mixture_distribution: a Categorical, whose probabilities are the weights.
        component_distribution: the components, along the last dimension of the batch.

    Raises:
        ValueError: the batch shapes of the two are incompatible.

    >>> distributions = rg.distributions
    >>> weights = distributions.Categorical(rg.tensor([0.5, 0.5]))
    >>> mixture = distributions.MixtureSameFamily(weights, distributions.Normal(rg.tensor([-1.0, 1.0]), 1.0))
    >>> mixture.mean, mixture.variance
    (tensor(0.), tensor(2.))
    """

    arg_constraints: dict[str, Constraint] = {}

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Distribution, validate_args: bool | None = None
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                "The Mixture distribution needs to be an instance of Categorical, "
                f"got {type(mixture_distribution).__name__}"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution needs to be an instance of Distribution, "
                f"got {type(component_distribution).__name__}"
            )
        weights, components = mixture_distribution.batch_shape, component_distribution.batch_shape
        batch = components[:-1]
        if any(i != 1 and j != 1 and i != j for i, j in zip(reversed(batch), reversed(weights))):
            raise ValueError(
                f"`mixture_distribution.batch_shape` ({tuple(weights)}) is not compatible with "
                f"`component_distribution.batch_shape` ({tuple(components)})"
            )
        count = mixture_distribution.param_shape[-1]
        if not components or count != components[-1]:
            raise ValueError(
                f"`mixture_distribution component` ({count}) does not equal `component_distribution.batch_shape[-1]` "
                f"({components[-1] if components else 'which has none'})"
            )
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        self._num_component = count
        super().__init__(batch, component_distribution.event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: MixtureSameFamily | None = None) -> MixtureSameFamily:
        new = super().expand(batch_shape, _instance)
        new._component_distribution = self._component_distribution.expand((*batch_shape, self._num_component))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        return new

    @constraints.dependent_property
    def support(self) -> Constraint:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """The distribution of the component index."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components."""
        return self._component_distribution

    @property
    def _component_dim(self) -> int:
        return -1 - len(self._event_shape)

    def _pad(self, x: Tensor) -> Tensor:
        return x.unsqueeze(self._component_dim)

    def _averaged(self, values: Tensor) -> Tensor:
        weights = self._mixture_distribution.probs
        weights = weights.reshape((*weights.shape, *[1] * len(self._event_shape)))
        return (weights * values).sum(self._component_dim)

    @property
    def mean(self) -> Tensor:
        return self._averaged(self._component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        components = self._component_distribution
        between = components.mean - self._pad(self.mean)
        return self._averaged(components.variance + between.square())

    def _log_prob(self, value: Tensor) -> Tensor:
        log_probs = self._component_distribution.log_prob(self._pad(value))
        return logsumexp(log_probs + log_softmax(self._mixture_distribution.logits, dim=-1), dim=-1)

    def _cdf(self, value: Tensor) -> Tensor:
        return self._averaged(self._component_distribution.cdf(self._pad(value)))

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with recording(False):
            chosen = self._mixture_distribution.sample(sample_shape)
            chosen = chosen.expand((*sample_shape, *self._batch_shape))
            samples = self._component_distribution.sample(sample_shape)
            index = chosen.reshape((*chosen.shape, *[1] * (1 + len(self._event_shape))))
            index = index.expand((*chosen.shape, 1, *self._event_shape))
            return samples.gather(chosen.dim(), index).squeeze(chosen.dim())

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"
