"""Products and linear algebra of NumPy; decompositions and solvers convert integers to float64, as in NumPy."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from ...._generated import linalg
from ...._generated import toplevel as ops
from ....core.arrays.devices import all_examples
from ....core.arrays.dtypes import precision
from ....core.tensor.tensor import Tensor
from ...linear.decompositions.spectral import EigResult
from ..arguments import Rules, alike, flat, floating, only, tensor, tensors

ALWAYS_COMPLEX = np.lib.NumpyVersion(np.__version__) >= "2.5.0"  # whether eig returns complex Tensors for real results


def _matrix(a: object) -> Tensor:
    return floating(tensor(a))


def _matrices(*arrays: object) -> tuple[Tensor, ...]:
    return alike(
        *map(floating, tensors(*arrays))
    )  # NumPy's linear algebra converts integers to float64 regardless of other operands


def _vectors(a: object, b: object) -> tuple[Tensor, Tensor]:
    x, y = alike(a, b)
    return flat(x, None)[0], flat(y, None)[0]


def _dot(a: object, b: object) -> Tensor:
    x, y = alike(a, b)
    if x.ndim == 0 or y.ndim == 0:
        return x * y
    if y.ndim <= 2:
        return ops.matmul(x, y)
    return ops.tensordot(x, y, ([-1], [-2]))


def _tensordot(a: Any, b: Any, axes: Any = 2) -> Tensor:
    if np.ndim(axes):
        axes = [list(pair) if np.ndim(pair) else [pair] for pair in axes]
    x, y = alike(a, b)
    return ops.tensordot(x, y, axes)


def _einsum(subscripts: Any, *operands: Any, optimize: Any = False) -> Tensor:
    if isinstance(subscripts, str):
        return ops.einsum(subscripts, *alike(*operands))
    given = (subscripts, *operands)  # operands, each followed by a list of numbers
    *pairs, output = given if len(given) % 2 else (*given, None)
    arguments = [item for pair in zip(alike(*pairs[::2]), pairs[1::2], strict=True) for item in pair]
    return ops.einsum(*arguments, *[] if output is None else [output])


def _cross(a: object, b: object, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Tensor:
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = alike(a, b)
    x, y = ops.broadcast_tensors(ops.movedim(x, axisa, -1), ops.movedim(y, axisb, -1))
    return ops.movedim(linalg.cross(x, y, dim=-1), -1, axisc)


def _trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Tensor:
    return ops.sum(ops.diagonal(tensor(a), offset, axis1, axis2), -1, dtype=dtype)


def _pinv(a: object, rcond: object = None, hermitian: bool = False, *, rtol: Any = np._NoValue) -> Tensor:
    x = _matrix(a)
    if rtol is np._NoValue:
        rtol = 1e-15 if rcond is None else rcond
    return linalg.pinv(x, rtol=rtol, hermitian=hermitian)


def _tensorsolve(a: object, b: object, axes: Any = None) -> Tensor:
    x, y = _matrices(a, b)
    return linalg.tensorsolve(x, y, axes)


def _qr(a: object, mode: Literal["reduced", "complete", "r"] = "reduced") -> Tensor | tuple[Tensor, Tensor]:
    only("linalg.qr", "mode", mode, "reduced", "complete", "r")
    found = linalg.qr(_matrix(a), "reduced" if mode == "r" else mode)
    return found.R if mode == "r" else found


def _lstsq(a: object, b: object, rcond: float | None = None) -> tuple[Tensor, Tensor, int, Tensor]:
    x, y = _matrices(a, b)
    rows, columns = x.shape
    smallest = precision(x.array.dtype) * (max(rows, columns) if rcond is None else 1)
    cutoff = smallest if rcond is None or rcond < 0 else rcond
    solution = ops.matmul(linalg.pinv(x, rtol=cutoff), y)
    values = linalg.svdvals(x)
    rank = int((values.array > cutoff * values.array.max(initial=0)).sum())
    misfit = ops.abs(y - ops.matmul(x, solution))
    squares = ops.sum(misfit * misfit, 0).reshape((-1,))
    return solution, squares if rank == columns < rows else squares[:0], rank, values


def _one_triangle(a: object, UPLO: str = "L") -> Tensor:
    """Build the Hermitian matrix from the triangle that NumPy reads; only this triangle gets a gradient."""
    x = _matrix(a)
    if UPLO.upper() not in ("L", "U"):
        raise ValueError(f"UPLO must be 'L' or 'U', got {UPLO!r}")
    half, rest = (ops.tril(x), ops.tril(x, -1)) if UPLO.upper() == "L" else (ops.triu(x), ops.triu(x, 1))
    return half + rest.mH


def _eig(a: object, complex: bool = ALWAYS_COMPLEX) -> EigResult:
    """Return the eigenvalues and eigenvectors, as real Tensors if all are real and ``complex`` is False."""
    x = _matrix(a)
    found = linalg.eig(x)
    if complex or x.dtype.kind == "c" or bool((all_examples(found.eigenvalues.array).imag != 0).any()):
        return found
    return EigResult(ops.real(found.eigenvalues), ops.real(found.eigenvectors))


def eigenvalues(a: object) -> Tensor:
    return _eig(a, complex=False).eigenvalues


def _matvec(x1: object, x2: object) -> Tensor:
    x, y = alike(x1, x2)
    return ops.squeeze(ops.matmul(x, ops.unsqueeze(y, -1)), -1)


def _vecmat(x1: object, x2: object) -> Tensor:
    x, y = alike(x1, x2)
    return ops.squeeze(ops.matmul(ops.unsqueeze(ops.conj(x), -2), y), -2)


def vecdot(x1: object, x2: object, /, *, axis: int = -1) -> Tensor:
    return linalg.vecdot(*alike(x1, x2), dim=axis)


def _svd(
    a: object, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Tensor | tuple[Tensor, Tensor, Tensor]:
    return linalg.svd(_matrix(a), full_matrices) if compute_uv else linalg.svdvals(_matrix(a))


# Products of mixed dtypes, for which PyTorch raises errors, and products that PyTorch lacks.
UFUNC_RULES: Rules = {
    "matmul": lambda x1, x2: ops.matmul(*alike(x1, x2)),
    "vecdot": vecdot,
    "matvec": _matvec,
    "vecmat": _vecmat,
}

RULES: Rules = {
    "linalg.cross": lambda x1, x2, /, *, axis=-1: _cross(x1, x2, axis=axis),
    "linalg.tensordot": lambda x1, x2, /, *, axes=2: _tensordot(x1, x2, axes),
    "linalg.lstsq": _lstsq,
    "linalg.eig": lambda a: _eig(a),
    "linalg.eigvals": lambda a: _eig(a).eigenvalues,
    "dot": _dot,
    "inner": lambda a, b, /: ops.inner(*alike(a, b)),
    "outer": lambda a, b: ops.outer(*_vectors(a, b)),
    "vdot": lambda a, b, /: ops.vdot(*_vectors(a, b)),
    "kron": lambda a, b: ops.kron(*alike(a, b)),
    "tensordot": _tensordot,
    "einsum": _einsum,
    "cross": _cross,
    "trace": _trace,
    "linalg.norm": lambda x, ord=None, axis=None, keepdims=False: linalg.norm(_matrix(x), ord, axis, keepdim=keepdims),
    "linalg.vector_norm": lambda x, /, *, axis=None, keepdims=False, ord=2: linalg.vector_norm(
        _matrix(x), ord, axis, keepdim=keepdims
    ),
    "linalg.matrix_norm": lambda x, /, *, keepdims=False, ord="fro": linalg.matrix_norm(
        _matrix(x), ord, keepdim=keepdims
    ),
    "linalg.inv": lambda a: linalg.inv(_matrix(a)),
    "linalg.pinv": _pinv,
    "linalg.det": lambda a: linalg.det(_matrix(a)),
    "linalg.slogdet": lambda a: linalg.slogdet(_matrix(a)),
    "linalg.solve": lambda a, b: linalg.solve(*_matrices(a, b)),
    "linalg.tensorsolve": _tensorsolve,
    "linalg.tensorinv": lambda a, ind=2: linalg.tensorinv(_matrix(a), ind),
    "linalg.cholesky": lambda a, /, *, upper=False: linalg.cholesky(
        _one_triangle(a, "U" if upper else "L"), upper=upper
    ),
    "linalg.qr": _qr,
    "linalg.svd": _svd,
    "linalg.svdvals": lambda x, /: linalg.svdvals(_matrix(x)),
    "linalg.eigh": lambda a, UPLO="L": linalg.eigh(_one_triangle(a, UPLO), UPLO),
    "linalg.eigvalsh": lambda a, UPLO="L": linalg.eigvalsh(_one_triangle(a, UPLO), UPLO),
    "linalg.matrix_power": lambda a, n: linalg.matrix_power(tensor(a), n),
    "linalg.multi_dot": lambda arrays: linalg.multi_dot(alike(*arrays)),
    "linalg.cond": lambda x, p=None: linalg.cond(_matrix(x), p),
    "linalg.matmul": lambda x1, x2, /: ops.matmul(*alike(x1, x2)),
    "linalg.outer": lambda x1, x2, /: ops.outer(*alike(x1, x2)),
    "linalg.trace": lambda x, /, *, offset=0, dtype=None: _trace(x, offset, -2, -1, dtype),
    "linalg.diagonal": lambda x, /, *, offset=0: ops.diagonal(tensor(x), offset, -2, -1),
    "linalg.vecdot": vecdot,
}
