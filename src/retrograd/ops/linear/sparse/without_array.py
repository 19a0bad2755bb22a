"""Base class of sparse Tensors: instances of Tensor with the history and gradient of their values.

A sparse Tensor has no array of all elements. Operators, NumPy functions, and methods that SparseTensor does not define
raise SparseError when they access the array. ``core.tensor.tensor.is_dense`` returns False for sparse Tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from ....core.graph.handles import RemovableHandle
from ....core.graph.nodes import edge_of
from ....core.tensor.tensor import Size, Tensor

if TYPE_CHECKING:  # for type checkers a sparse Tensor is not a Tensor, since its methods return other types
    _Base = object
else:
    _Base = Tensor
Self = TypeVar("Self", bound="WithoutArray")


class SparseError(NotImplementedError, TypeError):
    """The error of a sparse Tensor in an operator for dense Tensors; PyTorch raises one of its two base types."""


class WithoutArray(_Base):
    """A Tensor with values at some coordinates. The slots of Tensor describe the history of the values."""

    is_dense = False

    _at: Tensor
    _elements: Tensor
    _shape: Size
    _coalesced: bool

    @property
    def array(self) -> NoReturn:
        """Raise SparseError: a sparse Tensor has no array of all elements."""
        raise SparseError(
            f"not implemented for sparse Tensors: got {type(self).__name__} of shape {tuple(self.shape)}; "
            "call to_dense() for a dense Tensor, or use its values()"
        )

    _requires = property(lambda self: self._elements._requires)
    _node = property(lambda self: edge_of(self._elements))  # the gradient of a leaf is the gradient of its values
    _grad = property(lambda self: self.grad)
    is_leaf = property(lambda self: self._elements.is_leaf)
    grad_fn = property(lambda self: self._elements._node)
    retains_grad = property(lambda self: self._elements.retains_grad)

    @property
    def shape(self) -> Size:
        """The lengths of the dimensions."""
        return self._shape

    def __len__(self) -> int:
        return self.shape[0]

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __copy__(self: Self) -> Self:
        copied: Self = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        copied._no_slots()
        return copied

    def __deepcopy__(self: Self, memo: dict[int, Any]) -> Self:
        copied: Self = object.__new__(type(self))
        memo[id(self)] = copied
        copied.__dict__.update(deepcopy(self.__dict__, memo))
        copied._no_slots()
        return copied

    def _no_slots(self) -> None:
        self._storage = self._base = self._hooks = None

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        return type(self), (self._at, self._elements, tuple(self.shape), self._coalesced)

    def _with(self, values: Tensor) -> Any:
        """Return a Tensor with other values at the same coordinates."""
        raise NotImplementedError

    def register_hook(self: Self, hook: Callable[[Self], Self | None]) -> RemovableHandle:
        """Call ``hook(grad)`` when a backward pass has computed the gradient; its result replaces the gradient."""

        def on_values(values: Tensor) -> Tensor | None:
            changed = hook(self._with(values))
            return None if changed is None else changed._elements

        return self._elements.register_hook(on_values)

    def retain_grad(self) -> None:
        """Store ``.grad`` in backward passes, even if the values were computed by an operator."""
        self._elements.retain_grad()

    def detach_(self: Self) -> Self:
        """Remove the history of the values."""
        self._elements = self._elements.detach()
        return self
