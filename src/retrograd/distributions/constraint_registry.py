"""Map constraints to transforms onto the constrained region: ``biject_to`` and ``transform_to``.

``biject_to(constraint)`` returns a bijective transform from the real numbers to the region, with its log-determinant,
for sampling in unconstrained coordinates. ``transform_to(constraint)`` returns a transform that need not be bijective,
for the optimization of unconstrained parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from . import constraints, transforms
from .constraints import Constraint
from .transforms import Transform
from .utils import is_number

Factory = TypeVar("Factory", bound=Callable[..., Transform])


class ConstraintRegistry:
    """A registry of the transforms whose outputs satisfy a constraint.

    >>> distributions = rg.distributions
    >>> transform = distributions.transform_to(distributions.constraints.positive)
    >>> transform(rg.tensor(0.0))
    tensor(1.)
    """

    def __init__(self) -> None:
        self._registry: dict[type[Constraint], Callable[..., Transform]] = {}
        super().__init__()

    def register(self, constraint: Constraint | type[Constraint], factory: Factory | None = None) -> Any:
        """Register a factory of transforms for a class of constraints; without ``factory``, return a decorator.

        Args:
            constraint: a class of constraints, or an instance of it.
            factory: takes the constraint and returns a transform.

        Raises:
            TypeError: the object is not a constraint.
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, Constraint):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        """Return a transform whose outputs satisfy the constraint.

        Raises:
            NotImplementedError: no transform is registered for the class of the constraint.
        """
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(
                f"Cannot transform {type(constraint).__name__} constraints; register a transform for them"
            )
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _onto_interval(constraint: Any) -> Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if is_number(low) and is_number(high) and low == 0 and high == 1:
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


def _above(constraint: Any) -> Transform:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.lower_bound, 1)]
    )


def _positive(constraint: Any) -> Transform:
    bound = constraint.lower_bound
    return transforms.ExpTransform() if is_number(bound) and bound == 0 else _above(constraint)


def _below(constraint: Any) -> Transform:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)]
    )


def _by_pieces(registry: ConstraintRegistry) -> None:
    """Register the composite constraints; the transforms of their parts come from the same registry."""
    registry.register(
        constraints.independent,
        lambda c: transforms.IndependentTransform(registry(c.base_constraint), c.reinterpreted_batch_ndims),
    )
    registry.register(
        constraints.cat, lambda c: transforms.CatTransform([registry(part) for part in c.cseq], c.dim, c.lengths)
    )
    registry.register(
        constraints.stack, lambda c: transforms.StackTransform([registry(part) for part in c.cseq], c.dim)
    )


for _registry in (biject_to, transform_to):
    _by_pieces(_registry)
    _registry.register(constraints.real, lambda _: transforms.identity_transform)
    _registry.register(constraints.greater_than, _positive)
    _registry.register(constraints.greater_than_eq, _positive)
    _registry.register(constraints.less_than, _below)
    _registry.register(constraints.interval, _onto_interval)
    _registry.register(constraints.half_open_interval, _onto_interval)
    _registry.register(constraints.corr_cholesky, lambda _: transforms.CorrCholeskyTransform())

biject_to.register(constraints.simplex, lambda _: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda _: transforms.SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda _: transforms.LowerCholeskyTransform())
transform_to.register(constraints.positive_definite, lambda _: transforms.PositiveDefiniteTransform())
transform_to.register(constraints.positive_semidefinite, lambda _: transforms.PositiveDefiniteTransform())
