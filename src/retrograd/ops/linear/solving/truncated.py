"""The best approximation of lower rank of a matrix, which pseudo-inverses with a tolerance invert."""

from __future__ import annotations

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import all_examples
from ....core.arrays.dtypes import precision
from ....core.graph.primitive import Primitive, apply
from ....core.tensor.tensor import Tensor
from ...table.batching import in_front
from ..matrices import adjoint, transposed
from ..products.matmul import MATMUL


def _count_as_nonzero(squares: Array, atol: Array, rtol: Array) -> Array:
    """Return which squared singular values, ascending, count as nonzero."""
    values = np.sqrt(np.maximum(squares, 0.0))
    return values > np.maximum(atol, rtol * values[..., -1:])


def _projector(x: Array, atol: Array, rtol: Array) -> Array:
    squares, vectors = np.linalg.eigh(x)
    kept = vectors * _count_as_nonzero(squares, atol, rtol)[..., None, :]
    return MATMUL(kept, adjoint(vectors))


def _projector_rule(g: Array, x: Array, atol: Array, rtol: Array) -> Array:
    """``V (F * (V^H g V)) V^H`` with ``F_ij = (k_i - k_j) / (w_i - w_j)`` (Y. Daleckii and S. Krein, 1965)."""
    squares, vectors = np.linalg.eigh(x)
    kept = _count_as_nonzero(squares, atol, rtol).astype(x.real.dtype)
    steps = kept[..., :, None] - kept[..., None, :]
    gaps = squares[..., :, None] - squares[..., None, :]
    factors = steps / np.where(steps == 0, 1.0, gaps)
    inner = MATMUL(MATMUL(adjoint(vectors), transposed(g)), vectors)
    return transposed(MATMUL(MATMUL(vectors, factors * inner), adjoint(vectors)))


PROJECTOR = Primitive("linalg.pinv", _projector, "x", [_projector_rule], batch=in_front)


def drops_values(x: Tensor, atol: Array, rtol: Array) -> bool:
    """Return whether a tolerance takes singular values for zero that are not zero to working precision."""
    values = all_examples(np.linalg.svd(x.array, compute_uv=False))
    largest = values.max(axis=-1, keepdims=True)
    small = (values <= np.maximum(atol, rtol * largest)) & (values > 4 * precision(x.dtype) ** 0.5 * largest)
    return bool(small.any())


def truncated(x: Tensor, atol: Array, rtol: Array) -> Tensor:
    """Return the matrix without the singular values that count as zero.

    The projector onto the other singular vectors is an analytic function of ``x^H x`` where no singular value is equal
    to the tolerance, and its derivative describes the rotation of the dropped part.
    """
    rows, columns = x.array.shape[-2:]
    options = {"atol": atol, "rtol": rtol}
    if rows < columns:
        return apply(PROJECTOR, (x @ x.mH,), options) @ x
    return x @ apply(PROJECTOR, (x.mH @ x,), options)
