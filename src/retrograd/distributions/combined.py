"""Distributions made of others: Independent, TransformedDistribution and MixtureSameFamily."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from .._generated.toplevel import log_softmax, logsumexp
from ..core.modes import recording
from ..core.tensor import Size, Tensor
from . import constraints
from .categorical import Categorical
from .constraints import Constraint
from .distribution import Distribution, Shape
from .transforms import ComposeTransform, Transform
from .utils import sum_rightmost

Transformed = TypeVar("Transformed", bound="TransformedDistribution")


class Independent(Distribution):
    """A distribution whose last batch dimensions count as dimensions of the event: ``log_prob`` sums over them.

    Args:
        base_distribution: the distribution.
        reinterpreted_batch_ndims: how many dimensions.
        validate_args: whether to check.

    Raises:
        ValueError: the batch has fewer dimensions.

    >>> normal = rg.distributions.Normal(rg.zeros(2, 3), 1.0)
    >>> joint = rg.distributions.Independent(normal, 1)
    >>> joint.batch_shape, joint.event_shape
    ((2,), (3,))
    """

    arg_constraints: dict[str, Constraint] = {}

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        batch = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(batch):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {reinterpreted_batch_ndims} vs {len(batch)}"
            )
        cut = len(batch) - reinterpreted_batch_ndims
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.has_rsample = base_distribution.has_rsample
        self.has_enumerate_support = base_distribution.has_enumerate_support and not reinterpreted_batch_ndims
        super().__init__(batch[:cut], (*batch[cut:], *base_distribution.event_shape), validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Independent | None = None) -> Independent:
        new = super().expand(batch_shape, _instance)
        new.base_dist = self.base_dist.expand((*batch_shape, *self._event_shape[: self.reinterpreted_batch_ndims]))
        return new

    @constraints.dependent_property
    def support(self) -> Constraint:
        support = self.base_dist.support
        dims = self.reinterpreted_batch_ndims
        return constraints.independent(support, dims) if dims else support

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """The distribution of f(x) for samples x of another and an invertible f, by the change of variables.

    log p(y) = log p(x) - log |dy/dx| with x = f^-1(y).

    Args:
        base_distribution: the distribution of x.
        transforms: a transform, or several that are applied in turn.
        validate_args: whether to check.

    Raises:
        ValueError: no transforms, or a base distribution with too few dimensions for them.

    >>> distributions = rg.distributions
    >>> base = distributions.Normal(0.0, 1.0)
    >>> distributions.TransformedDistribution(base, distributions.ExpTransform()).log_prob(rg.tensor(1.0))
    tensor(-0.9189)
    """

    arg_constraints: dict[str, Constraint] = {}

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        if not all(isinstance(transform, Transform) for transform in self.transforms):
            raise ValueError(f"transforms must be a Transform or a list of Transforms, got {transforms!r}")
        base = base_distribution
        shape, event_dim = (*base.batch_shape, *base.event_shape), len(base.event_shape)
        chain = ComposeTransform(self.transforms)
        domain_dim, codomain_dim = chain.domain.event_dim, chain.codomain.event_dim
        if len(shape) < domain_dim:
            raise ValueError(f"base_distribution needs to have shape with size at least {domain_dim}, but got {shape}.")
        # A transform whose parameters have more dimensions than the batch makes the batch as large.
        forward_shape = chain.forward_shape(shape)
        needed = chain.inverse_shape(forward_shape)
        if tuple(needed) != shape:
            base = base.expand(needed[: len(needed) - event_dim])
        if domain_dim > event_dim:
            base = Independent(base, domain_dim - event_dim)
        self.base_dist = base
        cut = len(forward_shape) - max(codomain_dim, event_dim + codomain_dim - domain_dim)
        super().__init__(forward_shape[:cut], forward_shape[cut:], validate_args=validate_args)
        self.has_rsample = base.has_rsample

    def expand(self: Transformed, batch_shape: Shape, _instance: Transformed | None = None) -> Transformed:
        new = super().expand(batch_shape, _instance)
        shape = Size((*batch_shape, *self._event_shape))
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Constraint:
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        extra = len(self._event_shape) - support.event_dim
        return constraints.independent(support, extra) if extra > 0 else support

    def _transformed(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with recording(False):
            return self._transformed(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self._transformed(self.base_dist.rsample(sample_shape))

    def _log_prob(self, value: Tensor) -> Tensor:
        event_dim = len(self._event_shape)
        total: Tensor | None = None
        y = value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            term = sum_rightmost(transform.log_abs_det_jacobian(x, y), event_dim - transform.domain.event_dim)
            total = -term if total is None else total - term
            y = x
        base = sum_rightmost(self.base_dist.log_prob(y), event_dim - len(self.base_dist.event_shape))
        return base if total is None else total + base

    def _where_increasing(self, probability: Tensor) -> Tensor:
        """The probability itself where the transforms increase, else that of the other side."""
        sign = ComposeTransform(self.transforms).sign
        if isinstance(sign, int):
            return probability if sign == 1 else 1 - probability
        return sign * (probability - 0.5) + 0.5

    def _cdf(self, value: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        return self._where_increasing(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._transformed(self.base_dist.icdf(self._where_increasing(value)))


class MixtureSameFamily(Distribution):
    """A mixture of distributions of one family: sum of w_k p_k(x), over the last batch dimension of the components.

    Args:
        mixture_distribution: a Categorical, the weights.
        component_distribution: the components, along the last dimension of the batch.
        validate_args: whether to check.

    Raises:
        ValueError: the two do not fit.

    >>> distributions = rg.distributions
    >>> weights = distributions.Categorical(rg.tensor([0.5, 0.5]))
    >>> mixture = distributions.MixtureSameFamily(weights, distributions.Normal(rg.tensor([-1.0, 1.0]), 1.0))
    >>> mixture.mean, mixture.variance
    (tensor(0.), tensor(2.))
    """

    arg_constraints: dict[str, Constraint] = {}

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
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
        """The distribution of the components' positions."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components."""
        return self._component_distribution

    @property
    def _component_dim(self) -> int:
        return -1 - len(self._event_shape)

    def _pad(self, x: Tensor) -> Tensor:
        """Values with a dimension for the components."""
        return x.unsqueeze(self._component_dim)

    def _averaged(self, values: Tensor) -> Tensor:
        """The components' values averaged by their weights."""
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
