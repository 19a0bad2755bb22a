"""Eigenvalues and eigenvectors of general square matrices; use ``eigh`` for symmetric ones."""

from __future__ import annotations

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import array_module, backend_of
from ....core.arrays.dtypes import complex_of
from ....core.graph.primitive import Primitive, apply
from ....core.named_tuples import NamedTuple
from ....core.tensor.tensor import Tensor
from ...table.batching import in_front
from ...table.registry import also_named, operator
from ..matrices import matrices, transposed
from ..products.matmul import MATMUL
from ..solving.systems import SOLVE
from .spectral import check_phases, diagonal_matrix, over, unused


def _eig(x: Array) -> tuple[Array, Array]:
    backend = backend_of(x)
    array = backend.to_numpy(x)
    if not np.isfinite(array).all():
        raise RuntimeError("the matrices must not contain infs or NaNs")
    dtype = x.dtype if x.dtype.kind == "c" else complex_of(x.dtype)
    values, vectors = np.linalg.eig(array)
    return backend.asarray(values, dtype=dtype), backend.asarray(vectors, dtype=dtype)


def _eig_rule(g: tuple[Array | None, ...], x: Array, ans: tuple[Array, ...]) -> Array:
    """V^-T [diag(gw) + (V^T gV - V^T V* diag(Re(V^T gV))) / E] V^T, with E_ij = w_j - w_i.

    The second term keeps the lengths of the columns at 1. Their phases are arbitrary, and a function of V must not
    depend on them (C. Boeddeker et al., "On the computation of complex-valued gradients with application to
    statistically optimum beamforming", 2017, and PyTorch).
    """
    w, v = ans
    gw, gv = g
    vt = transposed(v)
    middle = 0 if gw is None else diagonal_matrix(gw, v)
    if gv is not None:
        inner = MATMUL(vt, gv)
        check_phases("eigenvectors", inner)
        lengths = (inner * array_module(v).eye(v.shape[-1], dtype=v.dtype)).sum(axis=-2).real
        inner = inner - MATMUL(vt, v.conj()) * np.expand_dims(lengths, -2)
        gaps = np.expand_dims(w, -2) - np.expand_dims(w, -1)
        middle = middle + over(inner, gaps, unused(gw, gv))
    gx = MATMUL(SOLVE(vt, middle), vt)
    return gx if x.dtype.kind == "c" else gx.real


EIG = Primitive("linalg.eig", _eig, "x", [_eig_rule], outputs=2, batch=in_front)
EIG.fills = False


class EigResult(NamedTuple):
    """Eigenvalues in no order, and eigenvectors of length 1, as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


@operator(namespace="linalg", method=False)
@also_named(input="A")
def eig(A: Tensor) -> EigResult:
    """Eigenvalues w and eigenvectors V of each square matrix: ``A @ V = V @ diag(w)``.

    Derivative: ``V^-T (diag(gw) + (V^T gV - V^T conj(V) diag(Re(V^T gV))) / E) V^T``, ``E_ij = w_j - w_i``: for
    functions that do not depend on the phases of V's columns, which are free. If two eigenvalues are equal, the
    gradient of a function of V is NaN, as in PyTorch, unless only V is used, and not these two columns.
    Shape: ``(..., n, n)``; ``(..., n)`` and ``(..., n, n)``.
    Dtype: float32, float64 and complex; both results complex.

    Returns: (eigenvalues, eigenvectors), the latter columns of length 1; in no order.

    Raises:
        RuntimeError: A is not square, or has infinities or NaN.

    >>> rg.linalg.eig(rg.tensor([[0.0, -1.0], [1.0, 0.0]])).eigenvalues
    tensor([0.+1.j, 0.-1.j], dtype=complex64)
    """
    return EigResult(*apply(EIG, (matrices(A, square=True),), {}))


@operator(namespace="linalg", method=False)
@also_named(input="A")
def eigvals(A: Tensor) -> Tensor:
    """The w with ``A @ v = w v``: the eigenvalues of each square matrix, in no order.

    Derivative: ``V^-T diag(g) V^T``.
    Shape: ``(..., n, n)``; ``(..., n)``.
    Dtype: float32, float64 and complex; the result is complex.

    Raises:
        RuntimeError: A is not square, or has infinities or NaN.

    >>> rg.linalg.eigvals(rg.tensor([[2.0, 1.0], [0.0, 3.0]])).real
    tensor([2., 3.])
    """
    return eig(A).eigenvalues
