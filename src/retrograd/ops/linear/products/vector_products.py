"""Products of vectors and of chains of matrices, adjoints, traces, and diagonal and Vandermonde matrices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....core.errors import describe
from ....core.graph.primitive import operand
from ....core.tensor.tensor import Tensor, new_tensor
from ...shape.joining import stack
from ...shape.views import diagonal
from ...table.arguments import dimension
from ...table.registry import operator
from ...table.types import Dim, Operand

# Chains


@operator(namespace="linalg", method=False, dtype="equal")
def multi_dot(tensors: Sequence[Operand]) -> Tensor:
    """``tensors[0] @ tensors[1] @ ...``: the product of a chain of matrices, in the cheapest order.

    Derivative: each matrix: ``L^T g R^T``, with ``L`` and ``R`` the products left and right of it.
    Shape: (a, b), (b, c), ..., (y, z) to (a, z); the first and the last may be vectors, whose dimension is dropped from
    the result.

    Args:
        tensors: at least two matrices.

    Raises:
        RuntimeError: there are fewer than two matrices, or the shapes do not match.

    Source: T. Cormen, C. Leiserson, R. Rivest, C. Stein, Introduction to Algorithms, chapter 15.2.

    >>> rg.linalg.multi_dot([rg.ones(2, 3), rg.ones(3, 4), rg.ones(4)])
    tensor([12., 12.])
    """
    chain = [operand(x, f"tensors[{index}]") for index, x in enumerate(tensors)]
    if len(chain) < 2:
        raise RuntimeError(f"expected at least 2 tensors, got {len(chain)}")
    row, column = chain[0].array.ndim == 1, chain[-1].array.ndim == 1
    if row:
        chain[0] = chain[0].unsqueeze(0)
    if column:
        chain[-1] = chain[-1].unsqueeze(-1)
    for x, y in zip(chain, chain[1:]):
        if x.array.ndim != 2 or y.array.ndim != 2 or x.array.shape[1] != y.array.shape[0]:
            raise RuntimeError(f"{describe(x)} and {describe(y)} cannot be multiplied")
    sizes = [chain[0].array.shape[0], *(x.array.shape[1] for x in chain)]
    result = _product(chain, _cheapest_splits(sizes), 0, len(chain) - 1)
    result = result.squeeze(0) if row else result
    return result.squeeze(-1) if column else result


def _cheapest_splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Return where to split each subchain, found by dynamic programming over the lengths of subchains."""
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            costs = {k: cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j)}
            split[i, j] = min(costs, key=costs.__getitem__)
            cost[i, j] = costs[split[i, j]]
    return split


def _product(chain: list[Tensor], split: dict[tuple[int, int], int], i: int, j: int) -> Tensor:
    if i == j:
        return chain[i]
    k = split[i, j]
    return _product(chain, split, i, k) @ _product(chain, split, k + 1, j)


# Diagonals


@operator(namespace="linalg", method=False, name="diagonal", raises="dimension")
def linalg_diagonal(A: Operand, *, offset: int = 0, dim1: Dim = -2, dim2: Dim = -1) -> Tensor:
    """``A[..., i, i + offset]``: the diagonal of each matrix, as a view.

    Derivative: ``g`` on the diagonal of a matrix of zeros.
    Shape: (..., m, n) to (..., k), with the length k of the diagonal.

    Raises:
        RuntimeError: ``dim1`` and ``dim2`` are the same dimension.

    >>> rg.linalg.diagonal(rg.eye(2))
    tensor([1., 1.])
    """
    return diagonal(operand(A, "A"), offset, dim1, dim2)


@operator(dtype="integer sum")
def trace(input: Operand) -> Tensor:
    """``sum_i input[i, i]`` of a matrix.

    Derivative: ``g`` times the identity matrix.
    Shape: (m, n) to ().

    Raises:
        RuntimeError: the input does not have two dimensions.

    >>> rg.trace(rg.tensor([[1.0, 9.0], [9.0, 2.0]]))
    tensor(3.)
    """
    x = operand(input)
    if x.array.ndim != 2:
        raise RuntimeError(f"expected a matrix, got {describe(x)}")
    return diagonal(x).sum()


# Products of vectors


@operator()
def kron(input: Operand, other: Operand) -> Tensor:
    """``y[i p + k, j q + l] = input[i, j] * other[k, l]``: the Kronecker product, in any number of dimensions.

    Derivative: input: the sum of ``g * other`` over each block; other: the sum of ``input_block * g`` over the blocks.
    Shape: (m, n, ...) and (p, q, ...) to (m p, n q, ...); the shorter shape is extended by leading ones.

    Args:
        input: each element is the factor of one block.
        other: the Tensor of which each block is a multiple.

    >>> rg.kron(rg.tensor([1.0, 2.0]), rg.tensor([1.0, 10.0]))
    tensor([ 1., 10.,  2., 20.])
    """
    x, y = operand(input), operand(other, "other")
    ndim = max(x.array.ndim, y.array.ndim)
    left = (1,) * (ndim - x.array.ndim) + x.array.shape
    right = (1,) * (ndim - y.array.ndim) + y.array.shape
    x = x.reshape([part for length in left for part in (length, 1)])
    y = y.reshape([part for length in right for part in (1, length)])
    return (x * y).reshape([m * n for m, n in zip(left, right)]) if ndim else x * y


@operator(namespace="linalg", method=False, dtype="promoted", raises="broadcast")
def vecdot(x: Operand, y: Operand, *, dim: Dim = -1) -> Tensor:
    """``sum_i conj(x_i) y_i`` along a dimension.

    Derivative: x: ``conj(g) y``; y: ``g x``, with PyTorch's convention for gradients.
    Shape: the arguments broadcast; the result has the common shape without ``dim``.

    Args:
        x: the vectors that are conjugated.
        y: the other vectors.

    >>> rg.linalg.vecdot(rg.ones(2, 3), rg.ones(3))
    tensor([3., 3.])
    """
    a, b = operand(x, "x"), operand(y, "y")
    return ((a.conj() if a.dtype.kind == "c" else a) * b).sum(dim)


def _cross(x: Tensor, y: Tensor, dim: Dim) -> Tensor:
    if x.array.ndim != y.array.ndim:
        raise RuntimeError(f"inputs must have the same number of dimensions, got {describe(x)} and {describe(y)}")
    place = dimension(dim, x.array.ndim)
    if x.array.shape[place] != 3 or y.array.shape[place] != 3:
        raise RuntimeError(f"dimension {dim} must have length 3 in both, got {describe(x)} and {describe(y)}")
    return x.roll(-1, place) * y.roll(-2, place) - x.roll(-2, place) * y.roll(-1, place)


@operator(namespace="linalg", method=False)
def cross(input: Operand, other: Operand, *, dim: Dim = -1) -> Tensor:
    """``y_i = input_(i+1) other_(i+2) - input_(i+2) other_(i+1)``, indices modulo 3: the vector product.

    Derivative: input: ``cross(other, g)``; other: ``cross(g, input)``.
    Shape: both have the same number of dimensions and length 3 along ``dim``; the other dimensions broadcast.
    Dtype: any but bool; the result has PyTorch's result type.

    Args:
        input: the vectors on the left.
        other: the vectors on the right.

    Raises:
        RuntimeError: the dimension does not have length 3 in both, or the shapes do not broadcast.

    >>> rg.linalg.cross(rg.tensor([1.0, 0.0, 0.0]), rg.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    return _cross(operand(input), operand(other, "other"), dim)


@operator(name="cross", like=cross)
def cross_(input: Operand, other: Operand, dim: Dim | None = None) -> Tensor:
    """``y_i = input_(i+1) other_(i+2) - input_(i+2) other_(i+1)``, indices modulo 3: ``linalg.cross``.

    Args:
        dim: the dimension, by default the first one of length 3.

    >>> rg.cross(rg.tensor([1.0, 0.0, 0.0]), rg.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    x, y = operand(input), operand(other, "other")
    if dim is None:
        if 3 not in x.array.shape:
            raise RuntimeError(f"no dimension of length 3 in {describe(x)}")
        dim = x.array.shape.index(3)
    return _cross(x, y, dim)


@operator(namespace="linalg", method=False)
def vander(x: Operand, *, N: int | None = None) -> Tensor:
    """``y_ij = x_i^j`` for ``j = 0, ..., N-1``: the Vandermonde matrix of each vector.

    Derivative: ``sum_j g_ij j x_i^(j-1)``.
    Shape: (..., n) to (..., n, N); a 0-d Tensor counts as a vector of one element.
    Dtype: any but bool; the result has the dtype of x, int64 for integers.

    Args:
        x: the vectors.
        N: the number of powers, by default n.

    Raises:
        RuntimeError: x holds bools, or ``N`` is not greater than 1.

    >>> rg.linalg.vander(rg.tensor([2.0, 3.0]), N=3)
    tensor([[1., 2., 4.],
            [1., 3., 9.]])
    """
    v = operand(x, "x")
    if v.array.dtype.kind == "b":
        raise RuntimeError("expected floating, complex or integer numbers, got bool")
    if v.array.ndim == 0:
        v = v.reshape(1)
    count = v.array.shape[-1] if N is None else N
    if count <= 1:
        raise RuntimeError(f"N must be greater than 1, got {count} for {describe(v)}")
    powers = [new_tensor(np.ones_like(v.array))]
    for _ in range(count - 1):
        powers.append(powers[-1] * v)
    return stack(powers, -1)


@operator()
def adjoint(input: Tensor) -> Tensor:
    """The conjugate transpose of each matrix: ``input.mH``.

    Derivative: ``adjoint(g)``.
    Shape: ``(..., m, n)`` to ``(..., n, m)``; a 0-d Tensor is conjugated.

    Raises:
        RuntimeError: the input has one dimension.

    >>> rg.adjoint(rg.tensor([[1, 2j]]))
    tensor([[1.-0.j],
            [0.-2.j]], dtype=complex64)
    """
    x = operand(input)
    if x.array.ndim == 1:
        raise RuntimeError(f"expected at least 2 dimensions, or none, got {describe(x)}")
    return x.mH if x.array.ndim else x.conj()


@operator(method=False)
def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of all matrices, in the order that takes the fewest operations: ``linalg.multi_dot(matrices)``.

    Derivative: that of the products.
    Shape: ``(n_0, n_1), (n_1, n_2), ...`` to ``(n_0, n_k)``.
    Dtype: floating and complex, the same for all matrices and the result.

    Raises:
        RuntimeError: an argument is not a matrix, or the shapes do not match.

    >>> rg.chain_matmul(rg.ones(2, 3), rg.ones(3, 4), rg.ones(4, 1))
    tensor([[12.],
            [12.]])
    """
    for x in matrices:
        if operand(x).array.ndim != 2:
            raise RuntimeError(f"expected matrices, got {describe(x)}")
    return matrices[0] if len(matrices) == 1 else multi_dot(list(matrices))
