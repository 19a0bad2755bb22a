"""``sparse``: products with sparse matrices, which are dense here."""

from __future__ import annotations

from typing import Any

from .._generated.toplevel import as_tensor, zeros
from ..core.errors import describe
from ..core.modes import is_grad_enabled, set_grad_enabled
from ..core.tensor import Tensor


def mm(mat1: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices."""
    return mat1 @ mat2


def sum(input: Tensor, dim: int | None = None, dtype: object = None) -> Tensor:
    """The sum of the elements."""
    return input.sum() if dim is None else input.sum(dim)


def sparse_coo_tensor(
    indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    check_invariants: Any = None,
    is_coalesced: Any = None,
) -> Tensor:
    """The Tensor with the values at the indices and zeros elsewhere; values at one place add up. It is dense.

    Args:
        indices: ``(dimensions, count)``.
        values: ``(count, *)``.
        size: of the result; by default as large as the indices need.
        dtype: of the result; by default the values'.
        device: of the result; by default the values'.
        requires_grad: whether gradients with respect to the result are wanted.
        check_invariants: taken for compatibility; indices are always checked.
        is_coalesced: taken for compatibility.

    >>> import retrograd as rg
    >>> rg.sparse_coo_tensor([[0, 1, 0], [1, 0, 1]], [1.0, 2.0, 3.0], (2, 2))
    tensor([[0., 4.],
            [2., 0.]])
    """
    places = as_tensor(indices, device=device).long()
    numbers = as_tensor(values, dtype=dtype, device=device)
    if places.ndim != 2:
        raise RuntimeError(f"sparse_coo_tensor: indices must have 2 dimensions, got {describe(places)}")
    if size is None:
        lengths = (places.max(1)[0] + 1).tolist() if places.shape[1] else [0] * places.shape[0]
        size = (*lengths, *numbers.shape[1:])
    with set_grad_enabled(is_grad_enabled() and not requires_grad):
        result = zeros(*size, dtype=numbers.dtype, device=numbers.device)
        result = result.index_put(tuple(places), numbers, accumulate=True)
    return result.requires_grad_() if requires_grad else result


spmm = mm


class _Legacy:
    """``sparse.FloatTensor(indices, values, size)`` and its kind."""

    def __init__(self, name: str, dtype: str) -> None:
        self.__name__, self.dtype = name, dtype

    def __call__(self, *args: Any) -> Tensor:
        if len(args) in (2, 3) and isinstance(args[0], Tensor) and isinstance(args[1], Tensor):
            return sparse_coo_tensor(*args, dtype=self.dtype)
        size = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
        return zeros(*(size or (0,)), dtype=self.dtype)


FloatTensor, DoubleTensor, LongTensor, IntTensor = (
    _Legacy(name, dtype)
    for name, dtype in (
        ("FloatTensor", "float32"),
        ("DoubleTensor", "float64"),
        ("LongTensor", "int64"),
        ("IntTensor", "int32"),
    )
)
__all__ = ["sparse_coo_tensor", "spmm"]
