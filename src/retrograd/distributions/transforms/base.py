"""The base class of transforms, their inverses and compositions."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TypeVar

from ..._generated.toplevel import zeros_like
from ...core.tensor.tensor import Size, Tensor
from .. import constraints
from ..constraints import Constraint
from ..utils import is_number, sum_rightmost

Self = TypeVar("Self", bound="Transform")

Shape = Sequence[int]


def equal_parameters(x: object, y: object) -> bool:
    """Return whether two parameters, numbers or Tensors, are equal."""
    if is_number(x) and is_number(y):
        return bool(x == y)
    if not isinstance(x, Tensor) and not isinstance(y, Tensor):
        return bool(x == y)
    equal = x == y
    return bool(equal.all()) if isinstance(equal, Tensor) else bool(equal)


class Transform:
    """A function from one region to another, with the logarithm of its Jacobian's determinant.

    A subclass implements ``domain`` and ``codomain``, ``_call`` or ``_inverse`` or both, and, if it is
    ``bijective``, ``log_abs_det_jacobian``; ``sign`` is 1 if the function is increasing, -1 if decreasing.

    Args:
        cache_size: 1 to keep the latest pair of input and output, for inverses that are expensive or inexact; else 0.

    Raises:
        ValueError: ``cache_size`` is neither 0 nor 1.

    >>> transform = rg.distributions.ExpTransform()
    >>> transform.inv(transform(rg.tensor([0.0, 1.0])))
    tensor([0., 1.])
    """

    bijective: bool = False
    domain: Constraint
    codomain: Constraint
    _compared: tuple[str, ...] | None = None  # attributes that are compared for equality; None compares by identity

    def __init__(self, cache_size: int = 0) -> None:
        self._reset_cache(cache_size)
        super().__init__()

    def _reset_cache(self, cache_size: int) -> None:
        if cache_size not in (0, 1):
            raise ValueError(f"cache_size must be 0 or 1, got {cache_size!r}")
        self._cache_size = cache_size
        self._inv: Transform | None = None
        self._cached_x_y: tuple[Tensor | None, Tensor | None] = (None, None)

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_inv": None}

    @property
    def event_dim(self) -> int:
        """The number of event dimensions, if it is the same for input and output."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")
        return self.domain.event_dim

    @property
    def inv(self) -> Transform:
        """The inverse transform; its inverse is this transform."""
        if self._inv is None:
            self._inv = InverseTransform(self)
        return self._inv

    @property
    def sign(self) -> int | Tensor:
        """1 if the transform is increasing, -1 if it is decreasing."""
        raise NotImplementedError(f"{type(self).__name__} does not implement sign")

    def with_cache(self: Self, cache_size: int = 1) -> Self:
        """Return the transform with a cache of the given size."""
        if self._cache_size == cache_size:
            return self
        new = copy(self)
        new._reset_cache(cache_size)
        return new

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        names = self._compared
        return (
            names is not None
            and type(self) is type(other)
            and all(equal_parameters(getattr(self, name), getattr(other, name)) for name in names)
        )

    def __hash__(self) -> int:
        return hash(type(self))  # parameters may be Tensors, which compare by value but hash by identity

    def __call__(self, x: Tensor) -> Tensor:
        """Apply the transform to x."""
        if self._cache_size == 0:
            return self._call(x)
        old_x, old_y = self._cached_x_y
        if x is old_x and old_y is not None:
            return old_y
        y = self._call(x)
        self._cached_x_y = x, y
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        """Return the x that the transform maps to y."""
        if self._cache_size == 0:
            return self._inverse(y)
        old_x, old_y = self._cached_x_y
        if y is old_y and old_x is not None:
            return old_x
        x = self._inverse(y)
        self._cached_x_y = x, y
        return x

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not implement _call")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not implement _inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return ``log |dy/dx|`` for an input and its output, in the shape without the event dimensions."""
        raise NotImplementedError(f"{type(self).__name__} does not implement log_abs_det_jacobian")

    def forward_shape(self, shape: Shape) -> Size:
        """Return the shape of the output for the shape of an input."""
        return Size(shape)

    def inverse_shape(self, shape: Shape) -> Size:
        """Return the shape of the input for the shape of an output."""
        return Size(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class InverseTransform(Transform):
    """The inverse of a transform, which ``Transform.inv`` returns."""

    _inv: Transform

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform

    def __getstate__(self) -> dict[str, object]:
        return vars(self)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Constraint:
        return self._inv.codomain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Constraint:
        return self._inv.domain

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return self._inv.bijective

    @property
    def sign(self) -> int | Tensor:
        return self._inv.sign

    @property
    def inv(self) -> Transform:
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Transform:  # type: ignore[override]
        return self._inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, InverseTransform) and self._inv == other._inv

    def __hash__(self) -> int:
        return hash(InverseTransform)

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Shape) -> Size:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Shape) -> Size:
        return self._inv.forward_shape(shape)

    def __repr__(self) -> str:
        return f"_InverseTransform({self._inv!r})"


def _coupled(constraint: Constraint, event_dim: int) -> Constraint:
    """Return the constraint with its event extended to the given number of dimensions."""
    extra = event_dim - constraint.event_dim
    return constraints.independent(constraint, extra) if extra > 0 else constraint


class ComposeTransform(Transform):
    """Apply several transforms one after the other; each part has its own cache.

    Args:
        parts: the transforms in the order of application; an empty list is the identity.
        cache_size: the size of every part's cache.

    >>> distributions = rg.distributions
    >>> transform = distributions.ComposeTransform([distributions.ExpTransform(), distributions.AffineTransform(1, 2)])
    >>> transform(rg.tensor([0.0]))
    tensor([3.])
    """

    _compared = ("parts",)

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)

    def with_cache(self, cache_size: int = 1) -> ComposeTransform:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Constraint:
        if not self.parts:
            return constraints.real
        event_dim = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            event_dim = max(event_dim + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        return _coupled(self.parts[0].domain, event_dim)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Constraint:
        if not self.parts:
            return constraints.real
        event_dim = self.parts[0].domain.event_dim
        for part in self.parts:
            event_dim = max(event_dim + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        return _coupled(self.parts[-1].codomain, event_dim)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return all(part.bijective for part in self.parts)

    @property
    def sign(self) -> int | Tensor:
        sign: int | Tensor = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    @property
    def inv(self) -> Transform:
        if self._inv is None:
            self._inv = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv._inv = self
        return self._inv

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return zeros_like(x)
        event_dim = self.domain.event_dim
        total: Tensor | None = None
        for position, part in enumerate(self.parts):
            part_y = y if position == len(self.parts) - 1 else part(x)
            term = sum_rightmost(part.log_abs_det_jacobian(x, part_y), event_dim - part.domain.event_dim)
            total = term if total is None else total + term
            event_dim += part.codomain.event_dim - part.domain.event_dim
            x = part_y
        assert total is not None
        return total

    def forward_shape(self, shape: Shape) -> Size:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return Size(shape)

    def inverse_shape(self, shape: Shape) -> Size:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return Size(shape)

    def __repr__(self) -> str:
        parts = ",\n    ".join(map(repr, self.parts))
        return f"{type(self).__name__}(\n    {parts}\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """Reinterpret batch dimensions of a transform as event dimensions: their log-determinants are summed.

    Args:
        base_transform: the transform whose dimensions are reinterpreted.
        reinterpreted_batch_ndims: the number of batch dimensions that become event dimensions.
    """

    _compared = ("base_transform", "reinterpreted_batch_ndims")

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> IndependentTransform:
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Constraint:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Constraint:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        return self.base_transform.bijective

    @property
    def sign(self) -> int | Tensor:
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        if x.dim() < self.domain.event_dim:
            raise ValueError(f"Too few dimensions on input: {x.dim()}, expected at least {self.domain.event_dim}")
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        if y.dim() < self.codomain.event_dim:
            raise ValueError(f"Too few dimensions on input: {y.dim()}, expected at least {self.codomain.event_dim}")
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Shape) -> Size:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Shape) -> Size:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"
