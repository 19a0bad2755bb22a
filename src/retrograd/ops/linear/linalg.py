"""Linear algebra: inverses, determinants, linear systems, and what is made of them.

Decompositions stand in decompositions.py, norms of matrices in matrix_norms.py. The rules are those of M. Giles, "An
extended
collection of matrix derivative results for forward and reverse mode AD" (2008), written for stacks of matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...core.devices import array_module
from ...core.errors import LinAlgError, describe
from ...core.primitive import Primitive, apply, apply1, apply2, operand
from ...core.tensor import Tensor
from ..shape.joining import stack
from ..shape.views import diagonal
from ..table.arguments import dimension
from ..table.registry import OPERATORS, also_named, operator
from .matmul import MATMUL


def transposed(x: Any) -> Any:
    """The last two axes swapped."""
    return x.T if len(x.shape) == 2 else np.swapaxes(x, -1, -2)


def identity_like(x: Any) -> Any:
    """The unit matrix of x's last axis."""
    return array_module(x).eye(x.shape[-1], dtype=x.dtype)


def matrices(value: Any, argument: str = "A", *, square: bool = False) -> Tensor:
    """The argument as a stack of floating matrices; RuntimeError where it is none."""
    x = operand(value, argument)
    if x.array.ndim < 2:
        raise RuntimeError(f"the input tensor {argument} must have at least 2 dimensions, got {describe(x)}")
    if square and x.array.shape[-1] != x.array.shape[-2]:
        raise RuntimeError(f"{argument} must be batches of square matrices, got {describe(x)}")
    if x.dtype.kind not in "fc" or x.dtype == np.float16:
        raise RuntimeError(f"expected float32, float64 or complex numbers, got {describe(x)}")
    return x


def _invert(x: Any) -> Any:
    try:
        return np.linalg.inv(x)
    except np.linalg.LinAlgError as error:
        raise LinAlgError(f"{error}: the matrix has no inverse") from None


def _inv_rule(g: Any, ans: Any) -> Any:
    t = transposed(ans)
    return -MATMUL(MATMUL(t, g), t)


INV = Primitive("linalg.inv", _invert, "x", [_inv_rule])


def _columns(g: Any) -> Any:
    """A number per matrix, as a 1x1 matrix that broadcasts with it."""
    return np.expand_dims(np.expand_dims(g, -1), -1)


def _cofactors(x: Any) -> Any:
    """det(x) inv(x)^T, also for singular x: by x = U S V^H it is det(U) det(V^H) U* diag(prod of the other s) V^T."""
    u, s, vh = np.linalg.svd(x)
    xp = array_module(x)
    n = s.shape[-1]
    others = xp.where(xp.eye(n, dtype=bool), xp.ones((), s.dtype), s[..., None, :]).prod(axis=-1)
    sign = np.linalg.det(u) * np.linalg.det(vh)
    return sign[..., None, None] * ((u.conj() * others[..., None, :]) @ vh.conj())


def _cofactors_rule(g: Any, x: Any, ans: Any) -> Any:
    """With B = inv(x): d cof = tr(B dx) cof - B^T dx^T cof."""
    b = transposed(INV(x))
    inner = (g * ans).sum(axis=(-2, -1), keepdims=True)
    return inner * b - MATMUL(MATMUL(ans, transposed(g)), b)


COFACTORS = Primitive("cofactors", _cofactors, "x", [_cofactors_rule])
DET = Primitive("linalg.det", np.linalg.det, "x", [lambda g, x: _columns(g) * COFACTORS(x)])


def _slogdet_rule(g: Any, x: Any, ans: Any) -> Any:
    """With w = tr(inv(x) dx): d logabsdet = Re w, d sign = sign i Im w. A real sign is constant."""
    factor = g[1]
    if x.dtype.kind == "c":
        factor = factor + 1j * (g[0] * ans[0]).imag
    return _columns(factor) * transposed(INV(x))


SLOGDET = Primitive("linalg.slogdet", lambda x: tuple(np.linalg.slogdet(x)), "x", [_slogdet_rule], outputs=2)


def _solve(a: Any, b: Any) -> Any:
    try:
        return np.linalg.solve(a, b)
    except np.linalg.LinAlgError as error:
        raise LinAlgError(f"{error}: the system has no unique solution") from None


SOLVE: Primitive = Primitive(
    "linalg.solve",
    _solve,
    "a b",
    [
        lambda g, ans, a: -MATMUL(SOLVE(transposed(a), g), transposed(ans)),
        lambda g, a: SOLVE(transposed(a), g),
    ],
    promote="strict",
)


@operator(namespace="linalg", method=False)
def inv(A: Tensor) -> Tensor:
    """The inverse of each square matrix: ``A @ inv(A) = 1``. ``(..., n, n) -> (..., n, n)``.

    Raises:
        RuntimeError: a matrix is singular or not square.

    >>> rg.linalg.inv(rg.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5 , 0.  ],
            [0.  , 0.25]])
    """
    return apply1(INV, matrices(A, square=True))


@operator()
def inverse(input: Tensor) -> Tensor:
    """As ``linalg.inv``.

    >>> rg.inverse(rg.tensor([[2.0]]))
    tensor([[0.5]])
    """
    return apply1(INV, matrices(input, "input", square=True))


@operator(namespace="linalg", method=False)
def det(A: Tensor) -> Tensor:
    """The determinant of each square matrix: ``(..., n, n) -> (...)``. Its gradient exists for singular matrices, too.

    >>> rg.linalg.det(rg.tensor([[2.0, 1.0], [1.0, 3.0]]))
    tensor(5.)
    """
    return apply1(DET, matrices(A, square=True))


@operator(name="det")
def det_(input: Tensor) -> Tensor:
    """As ``linalg.det``.

    >>> rg.det(rg.tensor([[3.0]]))
    tensor(3.)
    """
    return apply1(DET, matrices(input, "input", square=True))


class SlogdetResult(NamedTuple):
    """The sign of a determinant and the logarithm of its magnitude."""

    sign: Tensor
    logabsdet: Tensor


@operator(namespace="linalg", method=False)
def slogdet(A: Tensor) -> SlogdetResult:
    """Sign and logarithm of the magnitude of the determinant, which itself may be too large for a float.

    >>> sign, logabsdet = rg.linalg.slogdet(rg.tensor([[-1.0]]))
    >>> sign, logabsdet
    (tensor(-1.), tensor(0.))
    """
    return SlogdetResult(*apply(SLOGDET, (matrices(A, square=True),), {}))


@operator(name="slogdet")
def slogdet_(input: Tensor) -> SlogdetResult:
    """As ``linalg.slogdet``.

    >>> rg.slogdet(rg.tensor([[1.0]])).logabsdet
    tensor(0.)
    """
    return SlogdetResult(*apply(SLOGDET, (matrices(input, "input", square=True),), {}))


@operator()
def logdet(input: Tensor) -> Tensor:
    """The logarithm of the determinant: NaN where a real one is negative, -inf where it is zero.

    >>> rg.logdet(rg.tensor([[2.0, 0.0], [0.0, 0.5]]))
    tensor(0.)
    """
    sign, logabsdet = slogdet_(matrices(input, "input", square=True))
    if sign.array.dtype.kind == "c":
        return OPERATORS["log"].function(sign) + logabsdet
    return OPERATORS["where"].function(sign.detach() < 0, float("nan"), logabsdet)


def is_vector_batch(a: Tensor, b: Tensor) -> bool:
    """PyTorch's rule: b is a batch of vectors when it has one axis, or exactly a's shape without its last axis."""
    return b.array.ndim == 1 or (b.array.ndim == a.array.ndim - 1 and b.array.shape == a.array.shape[:-1])


@operator(namespace="linalg", method=False)
def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """The X with ``A @ X = B`` (or ``X @ A = B`` with ``left=False``), for each square matrix A.

    ``A (..., n, n)`` and ``B (..., n, k)`` or ``(..., n)`` give X in B's shape, batches broadcast.

    Raises:
        RuntimeError: a matrix is singular, or the shapes do not fit.

    >>> rg.linalg.solve(rg.tensor([[2.0, 0.0], [0.0, 4.0]]), rg.tensor([2.0, 2.0]))
    tensor([1. , 0.5])
    """
    a, b = matrices(A, square=True), operand(B, "B")
    vector = is_vector_batch(a, b)
    if vector and not left:
        raise RuntimeError("left=False wants matrices for B, not vectors")
    if not left:
        return solve(a.mT, b.mT).mT
    b = b.unsqueeze(-1) if vector else b
    if b.array.ndim < 2 or b.array.shape[-2] != a.array.shape[-1]:
        raise RuntimeError(f"incompatible shapes of A and B: {describe(A)} and {describe(B)}")
    x = apply2(SOLVE, a, b)
    return x.squeeze(-1) if vector else x


@operator(namespace="linalg", method=False)
@also_named(input="A")
def solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """The X with ``A @ X = B`` for triangular A, whose other half is not read; nor is the diagonal if
    ``unitriangular``.

    >>> rg.linalg.solve_triangular(rg.tensor([[2.0, 9.0], [1.0, 1.0]]), rg.tensor([[2.0], [3.0]]), upper=False)
    tensor([[1.],
            [2.]])
    """
    a, b = matrices(A, square=True), matrices(B, "B")
    if unitriangular:
        eye = Tensor(identity_like(a.array))
        half = (a.triu(1) if upper else a.tril(-1)) + eye
    else:
        half = a.triu() if upper else a.tril()
    return solve(half, b, left=left)


class TriangularSolution(NamedTuple):
    """The solution, and a copy of the coefficients."""

    solution: Tensor
    cloned_coefficient: Tensor


@operator()
def triangular_solve(
    input: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> TriangularSolution:
    """As ``linalg.solve_triangular(A, input)``, with A transposed on request.

    >>> rg.triangular_solve(rg.tensor([[4.0]]), rg.tensor([[2.0]])).solution
    tensor([[2.]])
    """
    a = matrices(A, square=True)
    used = a.mT if transpose else a
    half = upper != transpose
    return TriangularSolution(solve_triangular(used, input, upper=half, unitriangular=unitriangular), a.clone())


@operator(namespace="linalg", method=False)
@also_named(input="A", other="B")
def tensorsolve(A: Tensor, B: Tensor, dims: Any = None) -> Tensor:
    """The X with ``tensordot(A, X, X.ndim) = B``, for A that is square once reshaped to ``(B.numel(), -1)``.

    >>> rg.linalg.tensorsolve(rg.eye(4).reshape(2, 2, 4), rg.ones(2, 2))
    tensor([1., 1., 1., 1.])
    """
    a, b = operand(A, "A"), operand(B, "B")
    if dims is not None:
        moved = [dimension(dim, a.array.ndim) for dim in ([dims] if isinstance(dims, int) else dims)]
        a = a.permute(*[dim for dim in range(a.array.ndim) if dim not in moved], *moved)
    shape = a.array.shape[b.array.ndim :]
    size = int(np.prod(shape, dtype=np.int64))
    if size != b.array.size or a.array.size != size * size:
        raise RuntimeError(f"{describe(A)} is not square over {describe(B)}")
    return solve(a.reshape(size, size), b.reshape(size)).reshape(shape)


@operator(namespace="linalg", method=False)
@also_named(input="A")
def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse for ``tensordot(A, X, ind)``: X has A's last axes first, then its first ``ind``.

    >>> rg.linalg.tensorinv(rg.eye(4).reshape(2, 2, 4)).shape
    (4, 2, 2)
    """
    a = operand(A, "A")
    if ind <= 0:
        raise RuntimeError(f"ind must be positive, got {ind}")
    first, last = a.array.shape[:ind], a.array.shape[ind:]
    size = int(np.prod(last, dtype=np.int64))
    if a.array.ndim < ind or int(np.prod(first, dtype=np.int64)) != size:
        raise RuntimeError(f"{describe(a)} is not square with ind={ind}")
    return inv(a.reshape(size, size)).reshape((*last, *first))


@operator(namespace="linalg", method=False)
@also_named(input="A")
def matrix_power(A: Tensor, n: int) -> Tensor:
    """The n-fold product of each square matrix with itself; of its inverse for negative n; the unit matrix for 0.

    >>> rg.linalg.matrix_power(rg.tensor([[2.0]]), 3)
    tensor([[8.]])
    """
    return _matrix_power(A, n)


@operator(name="matrix_power")
def matrix_power_(input: Tensor, n: int) -> Tensor:
    """As ``linalg.matrix_power``.

    >>> rg.matrix_power(rg.tensor([[2.0]]), -1)
    tensor([[0.5]])
    """
    return _matrix_power(input, n)


def _matrix_power(value: Any, n: int) -> Tensor:
    x = matrices(value, square=True)
    if not isinstance(n, int):
        raise TypeError(f"n must be an integer, not {type(n).__name__}")
    if n < 0:
        x, n = inv(x), -n
    result: Tensor | None = None
    while n:
        if n & 1:
            result = x if result is None else result @ x
        n >>= 1
        x = x @ x if n else x
    if result is None:
        # Depends on x only by its shape, but stays in the graph: its gradient is zero.
        result = x * 0 + Tensor(identity_like(x.array))
    return result


@operator(namespace="linalg", method=False)
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of a chain of matrices in the cheapest order; the first and the last may be vectors.

    >>> rg.linalg.multi_dot([rg.ones(2, 3), rg.ones(3, 4), rg.ones(4)])
    tensor([12., 12.])
    """
    chain = [operand(x, f"tensors[{index}]") for index, x in enumerate(tensors)]
    if len(chain) < 2:
        raise RuntimeError("expected at least 2 tensors")
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
    """Where to split each part of the chain, by dynamic programming over its length."""
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


@operator(namespace="linalg", method=False, name="diagonal")
def linalg_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonal of each matrix, as a view.

    >>> rg.linalg.diagonal(rg.eye(2))
    tensor([1., 1.])
    """
    return diagonal(A, offset, dim1, dim2)


@operator()
def trace(input: Tensor) -> Tensor:
    """The sum of the diagonal of a matrix.

    >>> rg.trace(rg.tensor([[1.0, 9.0], [9.0, 2.0]]))
    tensor(3.)
    """
    x = operand(input)
    if x.array.ndim != 2:
        raise RuntimeError(f"expected a matrix, got {describe(x)}")
    return diagonal(x).sum()


@operator()
def kron(input: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product: every element of ``input`` times the whole of ``other``.

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


@operator(namespace="linalg", method=False)
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """The inner products along a dimension, x conjugated: ``sum(conj(x) * y, dim)``.

    >>> rg.linalg.vecdot(rg.ones(2, 3), rg.ones(3))
    tensor([3., 3.])
    """
    a, b = operand(x, "x"), operand(y, "y")
    return ((a.conj() if a.dtype.kind == "c" else a) * b).sum(dim)


def _cross(name: str, x: Tensor, y: Tensor, dim: int) -> Tensor:
    if x.array.ndim != y.array.ndim:
        raise RuntimeError(f"inputs must have the same number of dimensions, got {describe(x)} and {describe(y)}")
    place = dimension(dim, x.array.ndim)
    for each in (x, y):
        if each.array.shape[place] != 3:
            raise RuntimeError(f"dimension {dim} must have length 3 in both, got {describe(x)} and {describe(y)}")
    return x.roll(-1, place) * y.roll(-2, place) - x.roll(-2, place) * y.roll(-1, place)


@operator(namespace="linalg", method=False)
def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The vector product along a dimension of length 3.

    >>> rg.linalg.cross(rg.tensor([1.0, 0.0, 0.0]), rg.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    return _cross("linalg.cross", operand(input), operand(other, "other"), dim)


@operator(name="cross")
def cross_(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """As ``linalg.cross``; without ``dim`` along the first dimension of length 3.

    >>> rg.cross(rg.tensor([1.0, 0.0, 0.0]), rg.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    x, y = operand(input), operand(other, "other")
    if dim is None:
        if 3 not in x.array.shape:
            raise RuntimeError(f"no dimension of length 3 in {describe(x)}")
        dim = x.array.shape.index(3)
    return _cross("cross", x, y, dim)


@operator(namespace="linalg", method=False)
def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """The Vandermonde matrix ``[1, x, x^2, ..., x^(N-1)]`` of each vector, N by default its length.

    >>> rg.linalg.vander(rg.tensor([2.0, 3.0]), N=3)
    tensor([[1., 2., 4.],
            [1., 3., 9.]])
    """
    v = operand(x, "x")
    if v.array.ndim == 0:
        raise RuntimeError("expected at least one dimension")
    count = v.array.shape[-1] if N is None else N
    if count <= 1:
        raise RuntimeError(f"N must be greater than 1, got {count} for {describe(v)}")
    powers = [v.detach() * 0 + 1]
    for _ in range(count - 1):
        powers.append(powers[-1] * v)
    return stack(powers, -1)


# The matrix exponential


def _expm(x: Any) -> Any:
    """Scaling and squaring with the Padé approximant of order 13 (N. Higham, SIAM J. Matrix Anal. Appl. 26, 2005)."""
    xp = array_module(x)
    if x.size == 0:
        return x.copy()
    norm = float(xp.abs(x).sum(axis=-2).max())
    if not np.isfinite(norm):
        return xp.full(x.shape, np.nan, x.dtype)
    squarings = max(0, int(np.ceil(np.log2(norm / 5.37)))) if norm > 5.37 else 0
    a = x / 2**squarings
    b: tuple[int, ...]
    b = (64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600)
    b += (670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1)
    eye = xp.eye(x.shape[-1], dtype=x.dtype)
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a4 @ a2
    u = a @ (a6 @ (b[13] * a6 + b[11] * a4 + b[9] * a2) + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * eye)
    v = a6 @ (b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * eye
    result = np.linalg.solve(v - u, v + u)
    for _ in range(squarings):
        result = result @ result
    return result


def _expm_rule(g: Any, x: Any) -> Any:
    """The exponential of ``[[x^T, g], [0, x^T]]`` has the gradient in its upper right corner (C. Van Loan, 1978)."""
    t = transposed(x)
    top = np.concatenate([t, g], axis=-1)
    bottom = np.concatenate([np.zeros_like(t), t], axis=-1)
    n = x.shape[-1]
    return MATRIX_EXP(np.concatenate([top, bottom], axis=-2))[..., :n, n:]


MATRIX_EXP = Primitive("matrix_exp", _expm, "x", [_expm_rule])


@operator()
def matrix_exp(input: Tensor) -> Tensor:
    """The exponential ``sum_k A^k / k!`` of each square matrix.

    >>> rg.matrix_exp(rg.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    return apply1(MATRIX_EXP, matrices(input, "input", square=True))


@operator(namespace="linalg", method=False, name="matrix_exp")
@also_named(input="A")
def linalg_matrix_exp(A: Tensor) -> Tensor:
    """As ``matrix_exp``.

    >>> rg.linalg.matrix_exp(rg.zeros(1, 1))
    tensor([[1.]])
    """
    return apply1(MATRIX_EXP, matrices(A, square=True))
