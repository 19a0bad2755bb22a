"""``sparse.FloatTensor(indices, values, size)`` and its kind; operators called with sparse Tensors; softmax of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.tensor.tensor import Tensor
from ..ops.linear.sparse.sparse import SparseTensor, mm, sparse_coo_tensor


class _Legacy:
    """A constructor of one dtype."""

    def __init__(self, name: str, dtype: str) -> None:
        self.__name__, self.dtype = name, dtype

    def __call__(self, *args: Any) -> SparseTensor:
        if len(args) in (2, 3) and isinstance(args[0], Tensor) and isinstance(args[1], Tensor):
            made: SparseTensor = sparse_coo_tensor(*args, dtype=self.dtype)
            return made
        size = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
        size = tuple(size) or (0,)
        empty: SparseTensor = sparse_coo_tensor(np.zeros((len(size), 0), np.int64), np.zeros(0), size, dtype=self.dtype)
        return empty


FloatTensor, DoubleTensor, LongTensor, IntTensor = (
    _Legacy(name, dtype)
    for name, dtype in (
        ("FloatTensor", "float32"),
        ("DoubleTensor", "float64"),
        ("LongTensor", "int64"),
        ("IntTensor", "int32"),
    )
)


def sparse_call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An operator's result on sparse Tensors, NotImplemented where it has none."""
    first, rest = args[0], args[1:]
    if name in ("mm", "matmul", "mv", "dot", "spmm", "smm", "hspmm") and len(args) == 2:
        return mm(first, rest[0])
    if name == "addmm" and len(args) == 3:
        return first * kwargs.get("beta", 1) + mm(*rest) * kwargs.get("alpha", 1)
    if isinstance(first, SparseTensor):
        method = getattr(first, {"div": "__truediv__", "neg": "__neg__"}.get(name, name), None)
        return NotImplemented if method is None else method(*rest, **kwargs)
    if name in ("add", "sub"):
        dense = rest[0].to_dense() * kwargs.get("alpha", 1)
        return first + dense if name == "add" else first - dense
    return rest[0] * first if name == "mul" and not kwargs else NotImplemented


def _by_row(input: SparseTensor, dim: int) -> tuple[SparseTensor, Tensor, int]:
    """The matrix coalesced, which row (or column) each value is in, and how many there are."""
    if input.ndim != 2 or input.dense_dim():
        raise RuntimeError(f"wanted a sparse matrix, got one of shape {tuple(input.shape)}")
    a = input.coalesce()
    across = 1 - dim % 2
    return a, a.indices()[across], a.shape[across]


def log_softmax(input: SparseTensor, dim: int, *, dtype: Any = None) -> SparseTensor:
    """``log(softmax)`` of a sparse matrix along one dimension, of the values that are given; the others stay out."""
    a, row, count = _by_row(input if dtype is None else input.to(dtype), dim)
    values = a.values()
    highest = values.detach().new_full((count,), -np.inf).scatter_reduce(0, row, values.detach(), "amax")
    shifted = values - highest[row]
    total = values.new_zeros(count).index_add(0, row, shifted.exp())
    return a._with(shifted - total[row].log())


def softmax(input: SparseTensor, dim: int, *, dtype: Any = None) -> SparseTensor:
    """``exp(x_i) / sum_j exp(x_j)`` of a sparse matrix along one dimension, over the values that are given."""
    logarithm = log_softmax(input, dim, dtype=dtype)
    return logarithm._with(logarithm.values().exp())


def sampled_addmm(
    input: SparseTensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0
) -> SparseTensor:
    """``beta * input + alpha * mat1 @ mat2`` at the places of a sparse matrix."""
    a = input.coalesce()
    rows, columns = a._indices()[0], a._indices()[1]
    return a._with(a.values() * beta + (mat1[rows] * mat2.mT[columns]).sum(-1) * alpha)


__all__ = ["DoubleTensor", "FloatTensor", "IntTensor", "LongTensor", "log_softmax", "sampled_addmm", "softmax"]
