"""Sparse matrices with compressed rows (CSR) or columns (CSC), created from starts, indices and values or a Tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....core.arrays.devices import array_module
from ....core.errors import describe
from ....core.missing_names import provided
from ....core.tensor.tensor import Tensor, new_tensor
from ...make.creation import as_tensor
from ...table.arguments import integers
from ...table.registry import operator
from ...table.types import DeviceLike, DTypeLike, Operand
from .invariants import check_order
from .sparse import CompressedTensor, SparseTensor, compressed, to_sparse


@operator(
    method=False,
    args="dtype of values, values at indices, device given, requires_grad of values",
    dtype="of values",
    reads_elements=True,
)
def sparse_csr_tensor(
    crow_indices: Operand | Sequence[object],
    col_indices: Operand | Sequence[object],
    values: Operand | Sequence[object],
    size: Sequence[int] | None = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> CompressedTensor:
    """``A[i, col_indices[k]] = values[k]`` for k from ``crow_indices[i]`` on: a sparse matrix with compressed rows.

    Derivative: values: ``g`` at their coordinates.
    Shape: crow_indices ``(rows + 1,)``, col_indices and values ``(nnz,)``; the result ``size``.

    Args:
        crow_indices: the position of each row's first value, and the end of the last row.
        col_indices: the column of each value, ascending within a row.
        size: the shape, by default the smallest that contains all values.
        check_invariants: check also the order in rows; by default ``sparse.check_sparse_tensor_invariants`` decides.

    Raises:
        RuntimeError: the indices are not integers, do not match in length, or are out of range.

    >>> rg.sparse_csr_tensor([0, 1, 3], [1, 0, 1], [2.0, 3.0, 4.0]).to_dense()
    tensor([[0., 2.],
            [3., 4.]])
    """
    a = _of_starts(
        "crow_indices", crow_indices, "col_indices", col_indices, values, size, dtype, device, requires_grad,
        check_invariants,
    )  # fmt: skip
    return compressed(a)


@operator(method=False, like=sparse_csr_tensor, reads_elements=True)
def sparse_csc_tensor(
    ccol_indices: Operand | Sequence[object],
    row_indices: Operand | Sequence[object],
    values: Operand | Sequence[object],
    size: Sequence[int] | None = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> CompressedColumnsTensor:
    """``A[row_indices[k], j] = values[k]`` for k from ``ccol_indices[j]`` on: a matrix with compressed columns.

    Shape: ccol_indices ``(columns + 1,)``, row_indices and values ``(nnz,)``; the result ``size``.

    Args:
        ccol_indices: the position of each column's first value, and the end of the last column.
        row_indices: the row of each value, ascending within a column.

    >>> rg.sparse_csc_tensor([0, 1, 3], [1, 0, 1], [2.0, 3.0, 4.0]).to_dense()
    tensor([[0., 3.],
            [2., 4.]])
    """
    a = _of_starts(
        "ccol_indices", ccol_indices, "row_indices", row_indices, values, size, dtype, device, requires_grad,
        check_invariants,
    )  # fmt: skip
    return columns_compressed(a)


def _of_starts(
    starts_name: str, starts: Operand | Sequence[object], others_name: str, others: Operand | Sequence[object],
    values: Operand | Sequence[object], size: Sequence[int] | None, dtype: DTypeLike | None,
    device: DeviceLike | None, requires_grad: bool, check_invariants: bool | None,
) -> SparseTensor:  # fmt: skip
    """Check all indices and return the matrix of compressed rows or columns in coordinate layout."""
    first, second = as_tensor(starts, device=device), as_tensor(others, device=device)
    v = as_tensor(values, dtype=dtype, device=device)
    for name, index in ((starts_name, first), (others_name, second)):
        if index.array.ndim != 1 or index.array.size and index.array.dtype.kind not in "iu":
            raise RuntimeError(f"expected {name} to be a vector of integers, got {describe(index)}")
    xp = array_module(v)
    s, c = first.array.astype(np.int64), second.array.astype(np.int64)
    if v.array.shape != c.shape or not s.size or int(s[0]) or int(s[-1]) != len(c) or bool((xp.diff(s) < 0).any()):
        raise RuntimeError(
            f"expected {starts_name} to increase from 0 to the length of {others_name} and values, "
            f"got {describe(first)}, {describe(second)} and {describe(v)}"
        )
    by_rows = starts_name == "crow_indices"
    lengths: tuple[int, ...] = len(s) - 1, int(c.max()) + 1 if c.size else 0
    if size is not None:
        lengths = integers((size,), "size")[:: 1 if by_rows else -1]
    if len(lengths) != 2 or lengths[0] != len(s) - 1 or c.size and not 0 <= int(c.min()) <= int(c.max()) < lengths[1]:
        rows, columns = ("rows", "columns") if by_rows else ("columns", "rows")
        raise RuntimeError(
            f"expected a size with {len(s) - 1} {rows}, by {starts_name}, and {columns} for all {others_name}, "
            f"got {size}"
        )
    if requires_grad:
        v = v.detach().requires_grad_()
    at = xp.stack([xp.repeat(xp.arange(lengths[0]), xp.diff(s)), c])
    check_order(check_invariants, at, lengths, f"{others_name} to ascend within each {'row' if by_rows else 'column'}")
    return SparseTensor(new_tensor(at if by_rows else at[::-1]), v, lengths if by_rows else lengths[::-1])


class CompressedColumnsTensor(SparseTensor):
    """A sparse matrix with compressed columns, which stores where each column begins.

    >>> a = rg.sparse_csc_tensor([0, 1, 3], [1, 0, 1], [2.0, 3.0, 4.0], (2, 2))
    >>> a @ rg.ones(2, 1)
    tensor([[3.],
            [6.]])
    """

    is_sparse = False

    def __repr__(self) -> str:
        return (
            f"sparse_csc_tensor(ccol_indices={self.ccol_indices()}, row_indices={self.row_indices()}, "
            f"values={self._elements}, size={tuple(self.shape)}, nnz={self._nnz()})"
        )

    @property
    def layout(self) -> Any:
        """``sparse_csc``."""
        return provided["layout"]("sparse_csc")

    def ccol_indices(self) -> Tensor:
        """The position of each column's first value, and the end of the last column, ``(columns + 1,)``."""
        xp = array_module(self._elements)
        return new_tensor(xp.searchsorted(self._at.array[1], xp.arange(self.shape[1] + 1)).astype(np.int64))

    def row_indices(self) -> Tensor:
        """The rows of the values, ``(nnz,)``."""
        return self._at[0]

    def values(self) -> Tensor:
        """The values ``(nnz,)``, column by column."""
        return self._elements

    def _with(self, values: Tensor) -> SparseTensor:
        return CompressedColumnsTensor(self._at, values, self.shape)

    def _distinct(self) -> SparseTensor:
        return self

    def __add__(self, other: SparseTensor | Tensor) -> Any:
        total = super().__add__(other)
        return columns_compressed(total) if isinstance(other, CompressedColumnsTensor) else total

    def __matmul__(self, other: Tensor | SparseTensor) -> Any:
        found = super().__matmul__(other)
        return compressed(found) if isinstance(found, SparseTensor) else found

    def t(self) -> SparseTensor:
        """The transpose, with compressed rows."""
        return CompressedTensor(self._at[[1, 0]], self._elements, (self.shape[1], self.shape[0]), True)


def columns_compressed(a: SparseTensor) -> CompressedColumnsTensor:
    """Return a sparse matrix with its columns compressed.

    Raises:
        RuntimeError: ``a`` is not a matrix.
    """
    if a.ndim != 2 or a.dense_dim():
        raise RuntimeError(f"to_sparse_csc: expected a sparse matrix, got one of shape {tuple(a.shape)}")
    if isinstance(a, CompressedColumnsTensor):
        return a
    turned = SparseTensor(a._at[[1, 0]], a._elements, (a.shape[1], a.shape[0])).coalesce()
    return CompressedColumnsTensor(turned._at[[1, 0]], turned._elements, a.shape)


def _in_layout(self: SparseTensor, sparse_dim: int | None = None, *, layout: object = None) -> SparseTensor:
    """Return the matrix in another layout, by default in coordinate layout.

    Raises:
        RuntimeError: the layout is not ``sparse_coo``, ``sparse_csr`` or ``sparse_csc``.
    """
    name = "sparse_coo" if layout is None else str(layout).rpartition(".")[2]
    if name not in ("sparse_coo", "sparse_csr", "sparse_csc"):
        raise RuntimeError(f"to_sparse: layout must be sparse_coo, sparse_csr or sparse_csc, got {layout}")
    return getattr(self, f"to_{name}")()


def _transposed_rows(self: CompressedTensor) -> SparseTensor:
    """Return the transpose, with compressed columns."""
    return CompressedColumnsTensor(self._at[[1, 0]], self._elements, (self.shape[1], self.shape[0]))


# Methods of the classes in `sparse`, which cannot import this module.
for _class, _name, _method in (
    (SparseTensor, "to_sparse", _in_layout),
    (SparseTensor, "to_sparse_csc", columns_compressed),
    (CompressedTensor, "t", _transposed_rows),
):
    setattr(_class, _name, _method)


@operator(namespace="Tensor", reads_elements=True)
def to_sparse_csr(self: Tensor) -> CompressedTensor:
    """``sparse_csr_tensor`` of the nonzero elements of a matrix.

    Derivative: ``g`` at the coordinates of the values.
    Shape: (n, m), preserved.

    Raises:
        RuntimeError: the Tensor is not a matrix.

    >>> rg.tensor([[0.0, 2.0]]).to_sparse_csr().col_indices()
    tensor([1])
    """
    if self.array.ndim != 2:
        raise RuntimeError(f"expected a matrix, got {describe(self)}")
    return compressed(to_sparse(self))


@operator(namespace="Tensor", like=to_sparse_csr, reads_elements=True)
def to_sparse_csc(self: Tensor) -> CompressedColumnsTensor:
    """``sparse_csc_tensor`` of the nonzero elements of a matrix.

    >>> rg.tensor([[0.0, 2.0]]).to_sparse_csc().row_indices()
    tensor([0])
    """
    if self.array.ndim != 2:
        raise RuntimeError(f"expected a matrix, got {describe(self)}")
    return columns_compressed(to_sparse(self))
