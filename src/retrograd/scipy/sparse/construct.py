"""Build sparse arrays from other arrays: diagonals, blocks, Kronecker products, triangles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from ..._generated import toplevel as ops
from ...core.tensor.tensor import Tensor
from ...ops.linear.sparse.sparse import SparseTensor
from ..decorators import has_tensor
from .arrays import (
    Format,
    MatrixLike,
    ScipyMatrix,
    SparseArray,
    as_sparse,
    coo_array,
    coo_matrix,
    csr_matrix,
    gathered,
    sparse,
    tensor,
)


def _is_ours(values: MatrixLike) -> bool:
    if isinstance(values, (list, tuple)):
        return any(_is_ours(value) for value in values)
    return isinstance(values, (SparseArray, SparseTensor, Tensor))


def _assembled(
    function: Callable[..., ScipyMatrix], blocks: MatrixLike, format: Format | None
) -> SparseArray | ScipyMatrix:
    """Apply a function of SciPy that assembles nested lists of sparse arrays."""
    if not _is_ours(blocks):
        return function(blocks, format=format)
    values: list[Tensor] = []
    count = 0

    def numbered(block: MatrixLike) -> ScipyMatrix:
        nonlocal count
        if block is None:
            return None
        if isinstance(block, (list, tuple)):
            return [numbered(part) for part in block]
        array = _sparse_of(block).sum_duplicates()
        values.append(array.data)
        count += array.nnz
        return array._numbered(count - array.nnz + 1)

    pattern = function(numbered(blocks))
    dtype = np.result_type(*[x.dtype.dtype for x in values])
    data = ops.cat([x.astype(dtype, copy=False) for x in values])
    return _as_format(gathered(pattern, data, isinstance(pattern, sparse().spmatrix)), format)


def _as_format(array: SparseArray, format: Format | None) -> SparseArray:
    return array if format is None else array.asformat(format)


def hstack(blocks: Sequence[MatrixLike], format: Format | None = None) -> SparseArray | ScipyMatrix:
    """Stack sparse arrays horizontally.

    >>> rg.scipy.sparse.hstack([rg.scipy.sparse.diags(rg.ones(2)), rg.ones(2, 1)]).toarray()
    tensor([[1., 0., 1.],
            [0., 1., 1.]])
    """
    return _assembled(sparse().hstack, blocks, format)


def vstack(blocks: Sequence[MatrixLike], format: Format | None = None) -> SparseArray | ScipyMatrix:
    """Stack sparse arrays vertically.

    >>> rg.scipy.sparse.vstack([rg.scipy.sparse.diags(rg.ones(2)), rg.ones(1, 2)]).toarray()
    tensor([[1., 0.],
            [0., 1.],
            [1., 1.]])
    """
    return _assembled(sparse().vstack, blocks, format)


def block_array(blocks: Sequence[Sequence[MatrixLike]], *, format: Format | None = None) -> SparseArray | ScipyMatrix:
    """Return a sparse array of blocks; None stands for zeros.

    >>> rg.scipy.sparse.block_array([[rg.ones(1, 2), None], [None, 2 * rg.ones(1, 1)]]).toarray()
    tensor([[1., 1., 0.],
            [0., 0., 2.]])
    """
    return _assembled(sparse().block_array, blocks, format)


def bmat(blocks: Sequence[Sequence[MatrixLike]], format: Format | None = None) -> SparseArray | ScipyMatrix:
    """Return ``block_array`` of the blocks, as a sparse matrix if no block is a sparse array.

    >>> rg.scipy.sparse.bmat([[rg.ones(1, 2), None], [None, 2 * rg.ones(1, 1)]]).toarray()
    tensor([[1., 1., 0.],
            [0., 0., 2.]])
    """
    return _assembled(sparse().bmat, blocks, format)


def block_diag(mats: Sequence[MatrixLike], format: Format | None = None) -> SparseArray | ScipyMatrix:
    """Return a block diagonal sparse array.

    >>> rg.scipy.sparse.block_diag([rg.ones(1, 2), 2 * rg.ones(1, 1)]).toarray()
    tensor([[1., 1., 0.],
            [0., 0., 2.]])
    """
    return _assembled(sparse().block_diag, mats, format)


def tril(A: MatrixLike, k: int = 0, format: Format | None = None) -> SparseArray | ScipyMatrix:
    """Return the elements on and below the k-th diagonal.

    >>> rg.scipy.sparse.tril(rg.ones(2, 2)).toarray()
    tensor([[1., 0.],
            [1., 1.]])
    """
    return _assembled(partial(sparse().tril, k=k), A, format)


def triu(A: MatrixLike, k: int = 0, format: Format | None = None) -> SparseArray | ScipyMatrix:
    """Return the elements on and above the k-th diagonal.

    >>> rg.scipy.sparse.triu(rg.ones(2, 2)).toarray()
    tensor([[1., 1.],
            [0., 1.]])
    """
    return _assembled(partial(sparse().triu, k=k), A, format)


def diags_array(
    diagonals: MatrixLike,
    /,
    *,
    offsets: int | Sequence[int] = 0,
    shape: tuple[int, int] | None = None,
    format: Format | None = None,
) -> SparseArray | ScipyMatrix:
    """Return a sparse array of diagonals: a sequence of vectors, and the offset of each.

    >>> rg.scipy.sparse.diags_array([rg.ones(2), 3 * rg.ones(1)], offsets=[0, 1]).toarray()
    tensor([[1., 3.],
            [0., 1.]])
    """
    if not has_tensor([diagonals]):
        return sparse().diags_array(diagonals, offsets=offsets, shape=shape, format=format)
    single = np.ndim(offsets) == 0
    vectors = [tensor(x).reshape(-1) for x in ([diagonals] if single and not _nested(diagonals) else diagonals)]
    ends = np.cumsum([0, *[len(x) for x in vectors]])
    numbers = [np.arange(first, last) + 1 for first, last in zip(ends, ends[1:], strict=False)]
    pattern = sparse().diags_array(numbers, offsets=[offsets] if single else offsets, shape=shape, dtype=np.int64)
    pattern = pattern.tocoo()
    pattern.eliminate_zeros()
    dtype = np.result_type(*[x.dtype.dtype for x in vectors])
    values = ops.cat([x.astype(dtype, copy=False) for x in vectors])
    return _as_format(gathered(pattern, values), format or "csr")


def diags(
    diagonals: MatrixLike,
    offsets: int | Sequence[int] = 0,
    shape: tuple[int, int] | None = None,
    format: Format | None = None,
) -> SparseArray | ScipyMatrix:
    """Return ``diags_array`` as a sparse matrix, whose ``*`` is the matrix product.

    >>> rg.scipy.sparse.diags(rg.tensor([1.0, 2.0])) * rg.ones(2)
    tensor([1., 2.])
    """
    if not has_tensor([diagonals]):
        return sparse().diags(diagonals, offsets, shape, format)
    array = diags_array(diagonals, offsets=offsets, shape=shape)
    return _as_format(csr_matrix(array), format)


def spdiags(
    data: MatrixLike,
    diags: int | Sequence[int],
    m: int | tuple[int, int] | None = None,
    n: int | None = None,
    format: Format | None = None,
) -> SparseArray | ScipyMatrix:
    """Return a sparse matrix whose diagonals are rows of ``data``: ``data[k, j]`` is in column ``j``.

    >>> rg.scipy.sparse.spdiags(rg.tensor([1.0, 2.0]), 1, 2, 2).toarray()
    tensor([[0., 2.],
            [0., 0.]])
    """
    if not has_tensor([data]):
        return sparse().spdiags(data, diags, m, n, format)
    values = tensor(data)
    rows = values.reshape(-1, values.shape[-1])
    numbers = 1 + np.arange(rows.array.size).reshape(rows.array.shape)
    pattern = sparse().spdiags(numbers, diags, m, n).tocoo()
    pattern.eliminate_zeros()
    return _as_format(gathered(pattern, rows.reshape(-1), is_matrix=True), format or "csr")


def _nested(diagonals: MatrixLike) -> bool:
    return isinstance(diagonals, (list, tuple)) and bool(np.ndim(diagonals[0]))


def kron(A: MatrixLike, B: MatrixLike, format: Format | None = None) -> SparseArray | ScipyMatrix:
    """Return the Kronecker product of two sparse arrays.

    >>> rg.scipy.sparse.kron(rg.scipy.sparse.diags(rg.tensor([1.0, 2.0])), rg.ones(1, 2)).toarray()
    tensor([[1., 1., 0., 0.],
            [0., 0., 2., 2.]])
    """
    if not _is_ours([A, B]):
        return sparse().kron(A, B, format)
    left, right = (x.sum_duplicates() for x in map(_sparse_of, (A, B)))
    first, second = left.places, right.places
    rows = first.rows[:, None].astype(np.int64) * second.height + second.rows
    columns = first.columns[:, None].astype(np.int64) * second.width + second.columns
    data = (left.data[:, None] * right.data).reshape(-1)
    shape = left.shape[0] * right.shape[0], left.shape[1] * right.shape[1]
    kind = coo_matrix if left.is_matrix and right.is_matrix else coo_array
    return _as_format(kind((data, (rows.reshape(-1), columns.reshape(-1))), shape), format or "csr")


def _sparse_of(value: MatrixLike) -> SparseArray:
    """Return a sparse or dense operand as a SparseArray: as a matrix, unless the operand is a sparse array."""
    found = as_sparse(value, isinstance(value, sparse().spmatrix))
    return coo_matrix(tensor(value)) if found is None else found


def issparse(x: object) -> bool:
    """Return whether a value is a sparse array, of SciPy or of this package.

    >>> rg.scipy.sparse.issparse(rg.scipy.sparse.diags(rg.ones(2)))
    True
    """
    return isinstance(x, SparseArray) or bool(sparse().issparse(x))
