"""Products of Householder reflections ``H_i = 1 - tau_i v_i v_i^H``, LAPACK's representation of Q in A = QR.

``v_i`` is 0 above element i and 1 at element i; the elements below are stored in column i below the diagonal.
"""

from __future__ import annotations

from ....core.arrays import Array
from ....core.arrays.devices import array_module
from ....core.errors import describe
from ....core.graph.primitive import Primitive, operand
from ....core.named_tuples import NamedTuple
from ....core.tensor.tensor import Tensor, new_tensor
from ...table.batching import in_front
from ...table.registry import also_named, operator
from ..matrices import matrices


class GeqrfResult(NamedTuple):
    """R on and above the diagonal and the vectors of the reflections below it, and the factors tau."""

    a: Tensor
    tau: Tensor


def _geqrf(x: Array) -> tuple[Array, Array]:
    """Factorize as LAPACK's geqrf: reflection i maps column i, from element i on, to a multiple of a unit vector."""
    xp = array_module(x)
    a = xp.array(x, copy=True)
    count = min(a.shape[-2:])
    tau = xp.zeros((*a.shape[:-2], count), a.dtype)
    for i in range(count):
        top, below = a[..., i, i].copy(), a[..., i + 1 :, i]
        rest = (xp.abs(below) ** 2).sum(axis=-1)
        done = (rest == 0) & (top.imag == 0)
        length = xp.sqrt(xp.abs(top) ** 2 + rest)
        beta = xp.where(done, top.real, xp.where(top.real > 0, -length, length))
        tau[..., i] = xp.where(done, 0, (beta - top) / xp.where(done, 1, beta))
        v = xp.concatenate([xp.ones_like(top)[..., None], below / xp.where(done, 1, top - beta)[..., None]], axis=-1)
        right = a[..., i:, i + 1 :]
        inner = (v.conj()[..., None] * right).sum(axis=-2)
        right -= tau[..., i].conj()[..., None, None] * v[..., None] * inner[..., None, :]
        a[..., i, i] = beta
        a[..., i + 1 :, i] = v[..., 1:]
    return a, tau


_GEQRF = Primitive("geqrf", _geqrf, "x", [None], outputs=2, batch=in_front)


@operator(differentiable=False)
def geqrf(input: Tensor) -> GeqrfResult:
    """R of ``input = Q @ R`` and the reflections whose product is Q, in the format of LAPACK's geqrf.

    Derivative: none; ``linalg.qr`` has one.
    Shape: ``(..., m, n)`` to ``(..., m, n)`` and ``(..., min(m, n))``.
    Dtype: float32, float64 and complex; the results have the input's dtype.

    Returns: (a, tau): R is ``a.triu()``, and Q ``linalg.householder_product(a, tau)``.

    Raises:
        RuntimeError: the input is not a matrix.

    Source: LAPACK Users' Guide, geqrf.

    >>> a, tau = rg.geqrf(rg.tensor([[3.0], [4.0]]))
    >>> a[0], tau
    (tensor([-5.]), tensor([1.6]))
    """
    a, tau = _GEQRF(matrices(input, "input").array)
    return GeqrfResult(new_tensor(a), new_tensor(tau))


def _reflections(a: Tensor, tau: Tensor, columns: int) -> list[tuple[Tensor, Tensor]]:
    """Return for each reflection its vector, as a column, and its factor."""
    xp = array_module(a)
    rows = a.array.shape[-2]
    pairs = []
    for i in range(columns):
        under = a[..., i : i + 1] * (xp.arange(rows) > i).astype(a.dtype)[:, None]
        pairs.append((under + (xp.arange(rows) == i).astype(a.dtype)[:, None], tau[..., i, None, None]))
    return pairs


def _reflected(pairs: list[tuple[Tensor, Tensor]], x: Tensor, adjoint: bool) -> Tensor:
    """Return ``Q @ x`` or ``Q^H @ x``, where Q is the product of the reflections in order."""
    for v, factor in pairs if adjoint else reversed(pairs):
        x = x - (factor.conj() if adjoint else factor) * (v @ (v.mH @ x))
    return x


def _arguments(input: Tensor, tau: Tensor, name: str) -> tuple[Tensor, Tensor]:
    a, factors = matrices(input, name), operand(tau, "tau")
    rows, columns = a.array.shape[-2:]
    if factors.dtype != a.dtype:
        raise RuntimeError(f"{name} and tau must have the same dtype, got {describe(a)} and {describe(factors)}")
    if factors.array.ndim != a.array.ndim - 1 or factors.array.shape[:-1] != a.array.shape[:-2]:
        raise RuntimeError(f"tau must have the batch dimensions of {describe(a)}, got {describe(factors)}")
    if factors.array.shape[-1] > columns or rows < factors.array.shape[-1]:
        raise RuntimeError(f"{describe(a)} holds fewer reflections than tau {describe(factors)}")
    return a, factors


@operator(namespace="linalg", method=False, dtype="equal matrix", raises="dtypes")
@also_named(input="A")
def householder_product(A: Tensor, tau: Tensor) -> Tensor:
    """The first columns of ``H_1 H_2 ... H_k``, with ``H_i = 1 - tau_i v_i v_i^H``.

    Derivative: that of the product; the elements of A on and above its diagonal have no effect.
    Shape: A ``(..., m, n)`` with m at least n and tau ``(..., k)`` with k at most n, to ``(..., m, n)``.

    Args:
        A: column i has, below the diagonal, the elements of ``v_i`` after the 1.
        tau: the factors ``tau_i``.

    >>> rg.linalg.householder_product(rg.tensor([[0.0], [0.5]]), rg.tensor([1.6]))
    tensor([[-0.6],
            [-0.8]])
    """
    a, factors = _arguments(A, tau, "A")
    rows, columns = a.array.shape[-2:]
    if rows < columns:
        raise RuntimeError(f"A must have at least as many rows as columns, got {describe(a)}")
    eye = new_tensor(array_module(a).eye(rows, columns, dtype=a.dtype)).expand(*a.array.shape)
    return _reflected(_reflections(a, factors, factors.array.shape[-1]), eye, False)


@operator(dtype="equal matrix", raises="broadcast")
@also_named(tau="input2")
def orgqr(input: Tensor, input2: Tensor) -> Tensor:
    """``linalg.householder_product(input, input2)``, by LAPACK's name.

    Derivative: ``linalg.householder_product``'s.
    Shape: ``(..., m, n)`` and ``(..., k)`` to ``(..., m, n)``.

    Args:
        input2: the factors ``tau`` of the reflections.

    >>> rg.orgqr(*rg.geqrf(rg.tensor([[3.0], [4.0]])))
    tensor([[-0.6],
            [-0.8]])
    """
    return householder_product(input, input2)


@operator(raises="dtypes", like=householder_product)
@also_named(input2="tau", input3="other")
def ormqr(input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """``Q @ other``, Q being the whole square product ``H_1 H_2 ... H_k`` of ``linalg.householder_product``.

    Derivative: that of the product.
    Shape: input ``(..., m, k)``, tau ``(..., k)``, other ``(..., m, n)``, or ``(..., n, m)`` without ``left``; the
    result has the shape of other.
    Dtype: float32, float64 and complex, the same for all arguments and the result.

    Args:
        other: the matrix to be multiplied.
        left: multiply by Q from the left.
        transpose: multiply by ``Q^H`` instead of Q.

    >>> a, tau = rg.geqrf(rg.tensor([[3.0], [4.0]]))
    >>> rg.ormqr(a, tau, rg.tensor([[3.0], [4.0]]), transpose=True)[0]
    tensor([-5.])
    """
    a, factors = _arguments(input, tau, "input")
    c = matrices(other, "other")
    if c.dtype != a.dtype:
        raise RuntimeError(f"input and other must have the same dtype, got {describe(a)} and {describe(c)}")
    if c.array.ndim != a.array.ndim:
        raise RuntimeError(f"input and other must have equally many dimensions, got {describe(a)} and {describe(c)}")
    if factors.array.shape[-1] != min(c.array.shape[-2 if left else -1], a.array.shape[-1]):
        raise RuntimeError(f"tau must have a factor for each column of {describe(a)}, got {describe(factors)}")
    if c.array.shape[-2 if left else -1] != a.array.shape[-2]:
        lines = "rows" if left else "columns"
        raise RuntimeError(f"other must have as many {lines} as input has rows, got {describe(c)} and {describe(a)}")
    pairs = _reflections(a, factors, factors.array.shape[-1])
    return _reflected(pairs, c, transpose) if left else _reflected(pairs, c.mH, not transpose).mH
