"""The Schur decomposition and its derivative; for real matrices, the triangular factor may have 2 x 2 blocks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..._generated import toplevel as ops
from ...core.arrays import Array
from ...core.arrays.devices import Wrapping
from ...core.arrays.dtypes import complex_of
from ...core.graph.primitive import Primitive, apply
from ...core.tensor.tensor import Tensor
from ...ops.linear.decompositions.spectral import check_phases
from ...ops.linear.matrices import adjoint
from ...ops.linear.solving.systems import SOLVE
from ...ops.table.composites import by_example
from ..decorators import ArrayLike, scipys
from .equations import SYLVESTER
from .matrices import linalg, matrix


def _blocks(t: Array) -> list[tuple[int, int]]:
    """Return ``(first row, last row + 1)`` of each diagonal block; a block has one or two rows."""
    below = getattr(t, "array", t).diagonal(-1) != 0
    starts = [0, *(i + 1 for i in range(len(below)) if not below[i])]
    return list(zip(starts, [*starts[1:], len(t)], strict=True))


def _solved(t: Array, q: Array, blocks: list[tuple[int, int]]) -> Array:
    """Return y, nonzero only below the diagonal blocks, with ``y t^H - t^H y = q`` below the diagonal blocks.

    The equation of a block's columns contains only columns of this block and of later blocks. So the blocks are
    solved from the last to the first, each by a Sylvester equation.
    """
    n = len(t)
    rest = np.zeros_like(q[:0, :0])  # y in the rows and columns after the block
    for first, end in reversed(blocks):
        size = end - first
        inner, behind = adjoint(t[first:end, first:end]), adjoint(t[end:, end:])
        right = q[end:, first:end] - rest @ adjoint(t[first:end, end:])
        if size == 1:
            column = SOLVE(inner * np.eye(n - end, dtype=q.dtype) - behind, right) if end < n else right
        else:
            column = SYLVESTER(-behind, inner, right) if end < n else right
        above = np.zeros_like(q[first:end, first:])
        rest = np.concatenate([above, np.concatenate([column, rest], axis=1)], axis=0)
    return rest


def _backward(gt: Array, gz: Array, t: Array, z: Array) -> Array:
    """Return the gradient of A, from ``dT = M - W T + T W`` with ``M = Z^H dA Z`` and skew-Hermitian ``W = Z^H dZ``.

    ``W`` is determined by two conditions: ``dT`` is zero below the diagonal blocks, and the two diagonal elements of a
    2 x 2 block remain equal, as in LAPACK. The rule is the transpose of this map from ``dA`` to ``dT`` and ``dZ``.
    """
    gt, gz = gt.conj(), gz.conj()
    blocks = _blocks(t)
    n = len(t)
    number = np.repeat(np.arange(len(blocks)), [end - first for first, end in blocks])
    lower = number[:, None] > number[None, :]
    gt = gt * ~lower
    below = adjoint(z) @ gz - gt @ adjoint(t) + adjoint(t) @ gt  # the cotangent of W
    check_phases("Schur vectors", below)
    by_w = below - adjoint(below)
    pairs = np.array([first for first, end in blocks if end - first == 2], int)
    if len(pairs):  # if a block [[a, b], [c, a]] rotates by dr, its diagonal elements differ by 2 (b + c) dr
        slope = 2 * (t[pairs, pairs + 1] + t[pairs + 1, pairs])
        turned = (below[pairs + 1, pairs] - below[pairs, pairs + 1]) / slope
        eye = np.eye(n, dtype=gt.dtype)
        diagonal = (turned @ (eye[pairs + 1] - eye[pairs])) * eye
        gt, by_w = gt + diagonal, by_w - diagonal @ adjoint(t) + adjoint(t) @ diagonal
    try:
        inner = gt + _solved(t, by_w * lower, blocks)
    except (np.linalg.LinAlgError, RuntimeError) as error:
        raise RuntimeError("the Schur decomposition has no derivative where eigenvalues are equal") from error
    return (z @ inner @ adjoint(z)).conj()


def _forward(x: Array, sort: object) -> tuple[Array, ...]:
    t, z, *count = scipys("scipy.linalg").schur(x, sort=sort)
    return t, z, np.asarray(count[0] if count else len(t))


_BACKWARD = by_example("backward of scipy.linalg.schur", _backward)
_SCHUR = Primitive(
    "scipy.linalg.schur",
    _forward,
    "x",
    [lambda g, ans: _BACKWARD(*g[:2], *ans[:2])],
    outputs=3,
    batch=lambda call: call.looped(),
)


@linalg
def schur(
    a: ArrayLike,
    output: str = "real",
    lwork: int | None = None,
    overwrite_a: bool = False,
    sort: str | Callable[..., bool] | None = None,
    check_finite: bool = True,
) -> tuple[Tensor, Tensor] | tuple[Tensor, Tensor, int]:
    """Return ``t``, upper triangular, and ``z``, unitary, with ``a = z @ t @ z^H``; with ``sort`` also a count.

    The count is the number of eigenvalues that ``sort`` selects. For real matrices with complex eigenvalues, ``t`` has
    2 x 2 blocks, unless ``output="complex"``. The derivative exists where the eigenvalues differ and no 2 x 2 block is
    a multiple of a rotation, as the blocks of orthogonal matrices are. If ``z`` is complex, only functions that do not
    depend on the phases of its columns have a derivative.

    >>> rg.scipy.linalg.schur(rg.tensor([[2.0]]))[0]
    tensor([[2.]])
    """
    if output not in ("real", "complex", "r", "c"):
        raise ValueError("argument must be 'real', or 'complex'")
    x = matrix(a, check_finite, square=True)
    if output in ("complex", "c"):
        x = x.astype(complex_of(x.array.dtype), copy=False)
    if x.ndim > 2 and sort is None:
        parts = [apply(_SCHUR, (part,), {"sort": None})[:2] for part in x.reshape(-1, *x.shape[-2:])]
        t, z = (ops.stack(column).reshape(x.shape) for column in zip(*parts, strict=True))
        return t, z
    if x.ndim > 2:
        raise NotImplementedError("scipy.linalg.schur of Tensors: sort needs a single matrix")
    t, z, count = apply(_SCHUR, (x,), {"sort": sort})
    return (t, z) if sort is None else (t, z, count if isinstance(x.array, Wrapping) else int(count))
