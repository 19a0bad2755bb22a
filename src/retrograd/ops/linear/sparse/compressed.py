"""Make sparse matrices with compressed rows (CSR) of row starts, columns and values, or of a Tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....core.arrays.devices import array_module
from ....core.errors import describe
from ....core.tensor.tensor import Tensor, new_tensor
from ...make.creation import as_tensor
from ...table.arguments import integers
from ...table.registry import operator
from ...table.types import DeviceLike, DTypeLike, Operand
from .sparse import SparseTensor, compressed, to_sparse


@operator(method=False)
def sparse_csr_tensor(
    crow_indices: Operand | Sequence[Any],
    col_indices: Operand | Sequence[Any],
    values: Operand | Sequence[Any],
    size: Sequence[int] | None = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Any:
    """``A[i, col_indices[k]] = values[k]`` for k from ``crow_indices[i]`` on: a sparse matrix with compressed rows.

    Derivative: values: ``g`` at their places.
    Shape: crow_indices ``(rows + 1,)``, col_indices and values ``(nnz,)``; the result ``size``.
    Dtype: indices are integers; the result has that of the values.

    Args:
        crow_indices: where each row's values begin, and the last one's end.
        col_indices: the column of each value, ascending within a row.
        values: what stands there.
        size: the shape, by default the smallest that has all places.
        dtype: the dtype of the values.
        device: the device.
        requires_grad: whether gradients with respect to values that are given as data are wanted.
        check_invariants: taken for PyTorch's sake; indices are always checked.

    Raises:
        RuntimeError: indices are not integers, do not fit, or are out of range.

    >>> rg.sparse_csr_tensor([0, 1, 3], [1, 0, 1], [2.0, 3.0, 4.0]).to_dense()
    tensor([[0., 2.],
            [3., 4.]])
    """
    starts, columns = as_tensor(crow_indices, device=device), as_tensor(col_indices, device=device)
    v = as_tensor(values, dtype=dtype, device=device)
    for name, index in (("crow_indices", starts), ("col_indices", columns)):
        if index.array.ndim != 1 or index.array.size and index.array.dtype.kind not in "iu":
            raise RuntimeError(f"wanted {name} to be a vector of integers, got {describe(index)}")
    xp = array_module(v)
    s, c = starts.array.astype(np.int64), columns.array.astype(np.int64)
    if v.array.shape != c.shape or not s.size or int(s[0]) or int(s[-1]) != len(c) or bool((xp.diff(s) < 0).any()):
        raise RuntimeError(f"{describe(starts)}, {describe(columns)} and values {describe(v)} do not fit together")
    if size is None:
        lengths = len(s) - 1, int(c.max()) + 1 if c.size else 0
    else:
        lengths = integers((size,), "size")  # type: ignore[assignment]
    if len(lengths) != 2 or lengths[0] != len(s) - 1 or c.size and not 0 <= int(c.min()) <= int(c.max()) < lengths[1]:
        raise RuntimeError(f"the size {lengths} does not fit {describe(starts)} and the columns")
    if requires_grad:
        v = v.detach().requires_grad_()
    rows = xp.repeat(xp.arange(lengths[0]), xp.diff(s))
    return compressed(SparseTensor(new_tensor(xp.stack([rows, c])), v, lengths))


@operator(namespace="Tensor")
def to_sparse_csr(self: Tensor) -> Any:
    """``sparse_csr_tensor`` of what is not zero in a matrix.

    Derivative: ``g`` at the places.
    Shape: (n, m), kept.

    Raises:
        RuntimeError: the Tensor is not a matrix.

    >>> rg.tensor([[0.0, 2.0]]).to_sparse_csr().col_indices()
    tensor([1])
    """
    if self.array.ndim != 2:
        raise RuntimeError(f"wanted a matrix, got {describe(self)}")
    return compressed(to_sparse(self))
