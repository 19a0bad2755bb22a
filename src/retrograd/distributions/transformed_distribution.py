"""Distributions of functions of samples, by the change of variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from ..core.graph.modes import recording
from ..core.tensor.tensor import Size, Tensor
from . import constraints
from .constraints import Constraint
from .distribution import Distribution, Shape
from .independent import Independent
from .transforms import ComposeTransform, Transform
from .utils import sum_rightmost

Transformed = TypeVar("Transformed", bound="TransformedDistribution")


class TransformedDistribution(Distribution):
    """The distribution of f(x) for samples x of another distribution and an invertible function f.

    ``log p(y) = log p(x) - log |dy/dx|`` with ``x = f^-1(y)``.

    Args:
        base_distribution: the distribution of x.
        transforms: a transform, or several that are applied one after the other.

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
        # The batch is broadcast to the parameters of the transforms, which may have more dimensions.
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

    def _move_into_support(self, x: Tensor) -> Tensor:
        """Replace samples that were rounded to a bound of an open support by numbers inside. Families override this."""
        return x

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with recording(False):
            return self._move_into_support(self._transformed(self.base_dist.sample(sample_shape)))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self._move_into_support(self._transformed(self.base_dist.rsample(sample_shape)))

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
        """Return the probability where the transforms are increasing, else 1 minus the probability."""
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
