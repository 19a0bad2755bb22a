"""Structured matrices built from vectors, such as Toeplitz and Hankel matrices, and products of columns."""

from __future__ import annotations

import numpy as np

from ..._generated import toplevel as ops
from ...core.tensor.tensor import Tensor
from ...ops.numpy.arguments import alike, tensor
from ..decorators import ArrayLike
from .matrices import as_columns, linalg


def flat(value: ArrayLike) -> Tensor:
    """Return an argument as one vector."""
    return tensor(value).reshape(-1)


@linalg
def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Tensor:
    """Return the matrix with constant diagonals, the first column ``c`` and the first row ``r`` (default: ``conj(c)``).

    >>> rg.scipy.linalg.toeplitz(rg.tensor([1.0, 2.0]), rg.tensor([1.0, 3.0]))
    tensor([[1., 3.],
            [2., 1.]])
    """
    column = flat(c)
    column, row = alike(column, column.conj() if r is None else flat(r))
    n, m = column.shape[0], row.shape[0]
    values = ops.cat([ops.flip(row[1:], (0,)), column])
    return values[(m - 1) + np.arange(n)[:, None] - np.arange(m)]


@linalg
def circulant(c: ArrayLike) -> Tensor:
    """Return the matrix whose columns are rotations of ``c``.

    >>> rg.scipy.linalg.circulant(rg.tensor([1.0, 2.0]))
    tensor([[1., 2.],
            [2., 1.]])
    """
    x = tensor(c)
    places = np.arange(x.shape[-1])
    return x[..., (places[:, None] - places) % x.shape[-1]]


@linalg
def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Tensor:
    """Return the matrix with the first column ``c``, the last row ``r`` (default: zeros), and constant antidiagonals.

    >>> rg.scipy.linalg.hankel(rg.tensor([1.0, 2.0]))
    tensor([[1., 2.],
            [2., 0.]])
    """
    column = flat(c)
    column, row = alike(column, ops.zeros_like(column) if r is None else flat(r))
    values = ops.cat([column, row[1:]])
    return values[np.arange(column.shape[0])[:, None] + np.arange(row.shape[0])]


@linalg
def companion(a: ArrayLike) -> Tensor:
    """Return the companion matrix of the polynomial with the coefficients ``a``.

    >>> rg.scipy.linalg.companion(rg.tensor([1.0, -3.0, 2.0]))
    tensor([[ 3., -2.],
            [ 1.,  0.]])
    """
    x = tensor(a)
    if x.ndim != 1 or x.shape[0] < 2:
        raise ValueError(f"scipy.linalg.companion: expected a vector of 2 numbers or more, got {tuple(x.shape)}")
    first = -x[1:] / x[0]
    below = np.eye(x.shape[0] - 2, x.shape[0] - 1, dtype=first.array.dtype)
    return ops.cat([first[None], tensor(below)])


@linalg
def convolution_matrix(a: ArrayLike, n: int, mode: str = "full") -> Tensor:
    """Return the matrix whose product with a vector of length ``n`` is the convolution of the vector with ``a``.

    >>> rg.scipy.linalg.convolution_matrix(rg.tensor([1.0, 2.0]), 2)
    tensor([[1., 0.],
            [2., 1.],
            [0., 2.]])
    """
    x = tensor(a)
    length = x.shape[-1]
    if n <= 0 or x.ndim == 0 or length == 0 or mode not in ("full", "valid", "same"):
        raise ValueError("n must be a positive integer, a not empty, and mode 'full', 'valid' or 'same'")
    places = np.arange(length + n - 1)[:, None] - np.arange(n)
    inside = (places >= 0) & (places < length)
    full = ops.where(inside, x[..., np.where(inside, places, 0)], 0.0 if x.dtype.kind in "fc" else 0)
    if mode == "full":
        return full
    size = max(n, length) if mode == "same" else max(n, length) - min(n, length) + 1
    start = (n + length - 1 - size) // 2 if mode == "same" else min(n, length) - 1
    return full[..., start : start + size, :]


@linalg
def fiedler(a: ArrayLike) -> Tensor:
    """Return the matrix of ``|a_i - a_j|``.

    >>> rg.scipy.linalg.fiedler(rg.tensor([1.0, 3.0]))
    tensor([[0., 2.],
            [2., 0.]])
    """
    x = tensor(a)
    return ops.abs(x[..., :, None] - x[..., None, :])


@linalg
def leslie(f: ArrayLike, s: ArrayLike) -> Tensor:
    """Return the matrix with the first row ``f`` and the first subdiagonal ``s``.

    >>> rg.scipy.linalg.leslie(rg.tensor([0.1, 2.0]), rg.tensor([0.5]))
    tensor([[0.1, 2. ],
            [0.5, 0. ]])
    """
    row, below = alike(tensor(f), tensor(s))
    if row.ndim != 1 or below.shape[0] + 1 != row.shape[0]:
        raise ValueError("scipy.linalg.leslie: s and f must be vectors, and s one number shorter than f")
    return ops.cat([row[None], _with_zero_column(ops.diag(below))])


def _with_zero_column(x: Tensor) -> Tensor:
    return ops.cat([x, ops.zeros_like(x[:, :1])], 1)


@linalg
def block_diag(*arrs: ArrayLike) -> Tensor:
    """Return the matrix with the given matrices as its diagonal blocks.

    >>> rg.scipy.linalg.block_diag(rg.tensor([[1.0]]), rg.tensor([[2.0]]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    blocks = alike(*[tensor(x) for x in arrs])
    if all(x.ndim <= 2 for x in blocks):
        return ops.block_diag(*blocks)
    lead = np.broadcast_shapes(*[x.shape[:-2] for x in blocks])
    width = sum(x.shape[-1] for x in blocks)
    rows, start = [], 0
    for x in blocks:
        whole = ops.broadcast_to(x, (*lead, *x.shape[-2:]))
        before, after = start, width - start - x.shape[-1]
        parts = [ops.zeros((*lead, x.shape[-2], count), dtype=x.dtype) for count in (before, after)]
        rows.append(ops.cat([parts[0], whole, parts[1]], -1))
        start += x.shape[-1]
    return ops.cat(rows, -2)


@linalg
def khatri_rao(a: ArrayLike, b: ArrayLike) -> Tensor:
    """Return the Kronecker product of each column of ``a`` with the same column of ``b``.

    >>> rg.scipy.linalg.khatri_rao(rg.tensor([[1.0], [2.0]]), rg.tensor([[3.0], [4.0]]))
    tensor([[3.],
            [4.],
            [6.],
            [8.]])
    """
    x, y = alike(tensor(a), tensor(b))
    if x.ndim < 2 or y.ndim < 2 or x.shape[-1] != y.shape[-1]:
        raise ValueError("scipy.linalg.khatri_rao: expected matrices with the same number of columns")
    product = x[..., :, None, :] * y[..., None, :, :]
    return product.reshape(*product.shape[:-3], x.shape[-2] * y.shape[-2], product.shape[-1])


@linalg
def matmul_toeplitz(
    c_or_cr: ArrayLike | tuple[ArrayLike, ArrayLike],
    x: ArrayLike,
    check_finite: bool = False,
    workers: int | None = None,
) -> Tensor:
    """Return the product of a Toeplitz matrix, given by its first column or by column and row, with ``x``.

    >>> rg.scipy.linalg.matmul_toeplitz(rg.tensor([1.0, 2.0]), rg.tensor([1.0, 1.0]))
    tensor([3., 3.])
    """
    c, r = c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr, None)
    a, b = alike(toeplitz(tensor(c), r), tensor(x))
    columns, single = as_columns(b)
    result = a @ columns
    return result[:, 0] if single else result
