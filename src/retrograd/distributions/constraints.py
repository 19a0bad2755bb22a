"""Regions in which parameters and samples must lie, under the names of ``torch.distributions.constraints``.

``constraints.positive.check(x)`` returns for every event of x whether it is in the region (its support).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .._generated.linalg import eigvalsh
from .._generated.toplevel import cat as joined
from .._generated.toplevel import stack as stacked
from .._generated.toplevel import where
from ..core.missing_names import legacy_names
from ..core.tensor.tensor import Tensor
from ..ops.table.arguments import ChecksOptions
from .utils import eps_of, parameter_text

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]

Bound = Tensor | float


class Constraint(ChecksOptions):
    """A region for a variable. A subclass defines ``check``, and declares whether its values are discrete."""

    is_discrete: bool = False
    event_dim: int = 0  # the number of trailing dimensions that form one event; ``check`` reduces them

    def check(self, value: Tensor) -> Tensor:
        """Return whether each event lies in the region, as bools of the shape without the event dimensions."""
        raise NotImplementedError

    def __repr__(self) -> str:
        bounds = ", ".join(
            f"{name}={parameter_text(value)}" for name, value in vars(self).items() if not name.startswith("_")
        )
        return f"{type(self).__name__.lstrip('_')}({bounds})"


# Constraints that depend on other variables


class Dependent(Constraint):
    """A placeholder for a region that depends on other variables, so that only an instance of a distribution has it."""

    def __init__(self, *, is_discrete: bool | None = None, event_dim: int | None = None) -> None:
        self._is_discrete, self._event_dim = is_discrete, event_dim

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        if self._is_discrete is None:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return self._is_discrete

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        if self._event_dim is None:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return self._event_dim

    def __call__(self, *, is_discrete: bool | None = None, event_dim: int | None = None) -> Dependent:
        return Dependent(
            is_discrete=self._is_discrete if is_discrete is None else is_discrete,
            event_dim=self._event_dim if event_dim is None else event_dim,
        )

    def check(self, value: Tensor) -> Tensor:
        raise ValueError("Cannot determine validity of dependent constraint; use the constraint of an instance")


def is_dependent(constraint: object) -> bool:
    """Whether the constraint depends on other variables.

    >>> constraints = rg.distributions.constraints
    >>> constraints.is_dependent(constraints.dependent), constraints.is_dependent(constraints.real)
    (True, False)
    """
    return isinstance(constraint, Dependent)


# Docstrings for properties that do not define one.
_DESCRIPTIONS = {
    "domain": "The constraint on the transform's input.",
    "codomain": "The constraint that the transform's output satisfies.",
}


class DependentProperty(property, Dependent):
    """A property whose value is a constraint. On the class it is a ``Dependent`` placeholder.

    ``@dependent_property(is_discrete=False, event_dim=0)`` declares the properties that do not depend on the instance.
    """

    def __init__(
        self,
        fn: Callable[[Any], Constraint] | None = None,
        *,
        is_discrete: bool | None = None,
        event_dim: int | None = None,
    ) -> None:
        super().__init__(fn)
        if fn is not None:
            self.__doc__ = fn.__doc__ or _DESCRIPTIONS.get(fn.__name__)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn: Callable[[Any], Constraint]) -> DependentProperty:  # type: ignore[override]
        return DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


# Constraints composed of other constraints


class _Wrapper(Constraint):
    """A constraint that wraps another constraint."""

    def __init__(self, base_constraint: Constraint) -> None:
        if not isinstance(base_constraint, Constraint):
            raise TypeError(f"{type(self).__name__}: expected a Constraint, got {type(base_constraint).__name__}")
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return self.base_constraint.is_discrete


class IndependentConstraint(_Wrapper):
    """Reinterpret batch dimensions as event dimensions: an event is valid if all of its parts are.

    >>> constraints = rg.distributions.constraints
    >>> constraints.independent(constraints.positive, 1).check(rg.tensor([[1.0, 2.0], [1.0, -2.0]]))
    tensor([ True, False])
    """

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        super().__init__(base_constraint)
        if reinterpreted_batch_ndims < 0:
            raise ValueError(f"independent: reinterpreted_batch_ndims must be >= 0, got {reinterpreted_batch_ndims}")
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        if value.dim() < self.event_dim:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        result, dims = self.base_constraint.check(value), self.reinterpreted_batch_ndims
        return result.flatten(-dims).all(-1) if dims else result

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(_Wrapper):
    """The support of a mixture: a value is valid if it lies in the support of every component."""

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return self.base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        if value.dim() < self.event_dim:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return self.base_constraint.check(value.unsqueeze(-1 - self.event_dim)).all(-1)

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


class _Joined(Constraint):
    """One constraint per piece along a dimension."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        if not all(isinstance(constraint, Constraint) for constraint in cseq):
            raise TypeError(f"{type(self).__name__}: expected a sequence of Constraints, got {cseq!r}")
        self.cseq = list(cseq)
        self.dim = dim

    @property
    def is_discrete(self) -> bool:  # type: ignore[override]
        return any(constraint.is_discrete for constraint in self.cseq)


class Cat(_Joined):
    """One constraint per piece along ``dim``, for Tensors of these ``lengths`` joined by ``rg.cat``."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise ValueError(f"cat: got {len(self.cseq)} constraints and {len(self.lengths)} lengths")

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        return max(constraint.event_dim for constraint in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        pieces = value.split(self.lengths, self.dim)
        return joined([constraint.check(piece) for constraint, piece in zip(self.cseq, pieces, strict=True)], self.dim)


class Stack(_Joined):
    """One constraint per index along ``dim``, for Tensors joined by ``rg.stack``."""

    @property
    def event_dim(self) -> int:  # type: ignore[override]
        dims = max(constraint.event_dim for constraint in self.cseq)
        return dims + 1 if self.dim + dims < 0 else dims

    def check(self, value: Tensor) -> Tensor:
        pieces = value.unbind(self.dim)
        return stacked([constraint.check(piece) for constraint, piece in zip(self.cseq, pieces, strict=True)], self.dim)


# Numbers


class Boolean(Constraint):
    """0 or 1."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class Real(Constraint):
    """Any number but NaN."""

    def check(self, value: Tensor) -> Tensor:
        return value == value


class GreaterThan(Constraint):
    """Numbers greater than the bound."""

    def __init__(self, lower_bound: Bound) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        return value > self.lower_bound


class GreaterThanEq(GreaterThan):
    """Numbers greater than or equal to the bound."""

    def check(self, value: Tensor) -> Tensor:
        return value >= self.lower_bound


class IntegerGreaterThan(GreaterThan):
    """Integers greater than or equal to the bound."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value >= self.lower_bound)


class LessThan(Constraint):
    """Numbers less than the bound."""

    def __init__(self, upper_bound: Bound) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class Interval(Constraint):
    """Numbers between the bounds, both included."""

    def __init__(self, lower_bound: Bound, upper_bound: Bound) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value <= self.upper_bound)


class HalfOpenInterval(Interval):
    """Numbers between the bounds, the upper one not included."""

    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value < self.upper_bound)


class IntegerInterval(Interval):
    """Integers between the bounds, both included."""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & super().check(value)


# Vectors


class OneHot(Constraint):
    """One-hot vectors: one element is 1, all others are 0."""

    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class Simplex(Constraint):
    """Vectors of non-negative numbers that sum to 1, within 1e-6 as in PyTorch."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class Multinomial(Constraint):
    """Vectors of non-negative numbers whose sum is at most the bound, as in PyTorch."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Bound) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


# Matrices


class _Matrices(Constraint):
    event_dim = 2


def _every(entries: Tensor) -> Tensor:
    return entries.flatten(-2).all(-1)


class LowerTriangular(_Matrices):
    """Matrices with zeros above the diagonal."""

    def check(self, value: Tensor) -> Tensor:
        return _every(value.tril() == value)


class LowerCholesky(LowerTriangular):
    """Lower triangular matrices with a positive diagonal."""

    def check(self, value: Tensor) -> Tensor:
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class CorrCholesky(LowerCholesky):
    """Lower triangular matrices with a positive diagonal and rows of length 1."""

    def check(self, value: Tensor) -> Tensor:
        tolerance = 10 * value.shape[-1] * eps_of(value)
        unit = (value.square().sum(-1).sqrt() - 1).abs() <= tolerance
        return super().check(value) & unit.all(-1)


class Square(_Matrices):
    """Square matrices."""

    def check(self, value: Tensor) -> Tensor:
        return value.new_full(value.shape[:-2], value.shape[-2] == value.shape[-1], dtype=bool)


class Symmetric(Square):
    """Matrices equal to their transposes, within 1e-6."""

    def check(self, value: Tensor) -> Tensor:
        if value.shape[-2] != value.shape[-1]:
            return super().check(value)
        return _every(value.isclose(value.mT, atol=1e-6))


class PositiveSemidefinite(Symmetric):
    """Symmetric matrices without negative eigenvalues."""

    def check(self, value: Tensor) -> Tensor:
        possible = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return possible
        possible = possible & _every(value.isfinite())
        # Matrices that are not symmetric and finite are replaced by zeros, since eigvalsh may fail for them.
        eigenvalues = eigvalsh(where(possible[..., None, None], value.detach(), value.new_zeros(())))
        return possible & self._fits(eigenvalues).all(-1)

    def _fits(self, eigenvalues: Tensor) -> Tensor:
        return eigenvalues >= 0


class PositiveDefinite(PositiveSemidefinite):
    """Symmetric matrices whose eigenvalues are all positive."""

    def _fits(self, eigenvalues: Tensor) -> Tensor:
        return eigenvalues > 0


dependent = Dependent()
dependent_property = DependentProperty
independent = IndependentConstraint
boolean = Boolean()
one_hot = OneHot()
nonnegative_integer = IntegerGreaterThan(0)
positive_integer = IntegerGreaterThan(1)
integer_interval = IntegerInterval
real = Real()
real_vector = independent(real, 1)
positive = GreaterThan(0.0)
nonnegative = GreaterThanEq(0.0)
greater_than = GreaterThan
greater_than_eq = GreaterThanEq
less_than = LessThan
multinomial = Multinomial
unit_interval = Interval(0.0, 1.0)
interval = Interval
half_open_interval = HalfOpenInterval
simplex = Simplex()
lower_triangular = LowerTriangular()
lower_cholesky = LowerCholesky()
corr_cholesky = CorrCholesky()
square = Square()
symmetric = Symmetric()
positive_semidefinite = PositiveSemidefinite()
positive_definite = PositiveDefinite()
cat = Cat
stack = Stack

if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)  # private names of PyTorch
