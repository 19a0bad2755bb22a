"""The linear map by a constant weight matrix that is stored in fewer bits (quantized).

``x`` is floating; ``w`` and ``scales`` are as in ``kernels/loops/matrices/compact.py`` and have no gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from numpy import ndarray

from ....core.arrays import Array
from ....core.arrays.dtypes import float32
from ....core.arrays.layout import cast
from ....core.graph.primitive import Primitive
from ....core.tensor.tensor import Tensor
from ....kernels.loops.matrices import compact
from ..matrices import as_rows

if TYPE_CHECKING:
    from ....core.mapping.batching import Call

Product = Callable[[Array, Array, Array], Array]


def _of_rows(product: Product) -> Product:
    """Return a product along the last dimension, which is computed in float32 if ``x`` is narrower."""

    def of_rows(x: Array, w: Array, scales: Array) -> Array:
        rows = as_rows(x)
        narrow = x.dtype.itemsize < 4
        out = product(cast(rows, float32) if narrow else rows, w, scales)
        return (cast(out, x.dtype) if narrow else out).reshape(x.shape[:-1] + out.shape[1:])

    return of_rows


def _batch(call: Call) -> Tensor:
    """Multiply all examples by the weight, which they share."""
    if call.mapped[1] or call.mapped[2]:
        raise NotImplementedError("the weight must be the same for all examples of vmap; the weight is mapped")
    return call.below(call.values)


def _shape(make: Callable[..., ndarray], x: ndarray, w: ndarray, scales: ndarray) -> ndarray:
    return make((*x.shape[:-1], len(w)), x.dtype)


COMPACT_LINEAR: Primitive = Primitive(
    "compact_linear",
    _of_rows(compact.dot),
    "x w scales",
    [lambda g, w, scales: COMPACT_PRODUCT(g, w, scales), None, None],
    batch=_batch,
    shaped=_shape,
    halves=_of_rows(compact.dot),
)
COMPACT_PRODUCT: Primitive = Primitive(
    "compact_product",
    _of_rows(compact.back),
    "g w scales",
    [lambda g, w, scales: COMPACT_LINEAR(g, w, scales), None, None],
    batch=_batch,
    shaped=lambda make, g, w, scales: make((*g.shape[:-1], w.shape[1]), g.dtype),
    halves=_of_rows(compact.back),
)
