"""Cross entropy of a linear layer's output; large logits are computed in chunks and never in memory as a whole.

The classes are computed in chunks: the forward pass saves the maximum and the sum of exponentials of each row, and the
backward pass recomputes the logits of each chunk. Chunks of rows would require a sum of weight gradients over the
chunks.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import prod

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import array_module
from ....core.errors import describe
from ....core.graph.modes import modes
from ....core.graph.primitive import Primitive, apply, operand
from ....core.tensor.tensor import Tensor, new_tensor
from ....kernels.loops.matrices.products import dot
from ...linear.products.affine import linear
from ...table.batching import composed
from ...table.composites import gradients_of, second_order, where_needed
from ...table.registry import operator
from .classes import Classes, class_parameters, cross_entropy, cross_entropy_composite, loss_of_rows, slopes_of_rows
from .reduction import reduction_of

MIN_CHUNKED = 1 << 23  # from this number of logits on, they are computed in chunks
CHUNK = 1 << 20  # the number of logits in a chunk


def _chunks(rows: int, count: int) -> Iterator[slice]:
    size = max(1, CHUNK // rows)
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))


def _logits(x: Array, w: Array, b: Array | None, part: slice) -> Array:
    z: Array = dot(x, w[part].T)
    if b is not None:
        z += b[part]
    return z


def _targets(index: Array, part: slice) -> tuple[Array, Array]:
    """Return the rows whose class is in the chunk, and the positions of these classes in the chunk."""
    rows = np.flatnonzero((index >= part.start) & (index < part.stop))
    return rows, index[rows] - part.start


def _forward(
    x: Array, w: Array, b: Array | None, classes: Classes, class_weight: Array | None, smoothing: float
) -> tuple[Array, Array, Array]:
    xp, n, dtype = array_module(x), len(x), x.dtype
    top, total = xp.full((n, 1), -np.inf, dtype), xp.zeros((n, 1), dtype)
    picked, weighted = xp.zeros(n, dtype), xp.zeros(n, dtype)
    for part in _chunks(n, len(w)):
        z = _logits(x, w, b, part)
        rows, places = _targets(classes.index, part)
        picked[rows] = z[rows, places]
        if smoothing:
            weighted += z.sum(axis=1) if class_weight is None else z @ class_weight[part]
        larger = np.maximum(top, z.max(axis=1, keepdims=True))
        shift = np.where(larger == -np.inf, dtype.type(0), larger)  # a chunk may have no finite logit
        z -= shift
        np.exp(z, out=z)
        total = total * np.exp(top - shift) + z.sum(axis=1, keepdims=True)
        top = larger
    largest, log_total, even = top[:, 0], np.log(total[:, 0]), None
    if smoothing:
        share = len(w) if class_weight is None else class_weight.sum()
        even = share * (log_total + largest) - weighted
    losses = log_total - (picked - largest)
    return loss_of_rows(losses, even, classes, smoothing, len(w), dtype), top, total


def _backward(
    dy: Array, x: Array, w: Array, b: Array | None, top: Array, total: Array, classes: Classes,
    class_weight: Array | None, smoothing: float, wanted: tuple[bool, bool, bool],
) -> tuple[Array, ...]:  # fmt: skip
    xp = array_module(x)
    factor, picked, spread = slopes_of_rows(dy, classes, len(w), class_weight, smoothing)
    share = np.expand_dims(factor / total[:, 0], 1)
    dx, dw, db = [
        xp.zeros(value.shape, value.dtype) if value is not None and want else None
        for value, want in zip((x, w, b), wanted)
    ]
    for part in _chunks(len(x), len(w)):
        z = _logits(x, w, b, part)
        z -= top
        np.exp(z, out=z)
        z *= share
        rows, places = _targets(classes.index, part)
        z[rows, places] -= picked[rows]
        if spread is not None:
            even = np.expand_dims(spread, 1)
            z -= even if class_weight is None else even * class_weight[part]
        if dx is not None:
            dx += dot(z, w[part])
        if dw is not None:
            dw[part] = dot(z.T, x)
        if db is not None:
            db[part] = z.sum(axis=0)
    return tuple([value for value in (dx, dw, db) if value is not None])


def _composite(
    x: Tensor, w: Tensor, b: Tensor | None, classes: Classes, class_weight: object, smoothing: float
) -> Tensor:
    return cross_entropy_composite(linear(x, w, b), classes, class_weight, smoothing)


def _rule(
    g: Array, x: Array, w: Array, b: Array | None, top: Array, total: Array, classes: Classes,
    class_weight: Array | None, smoothing: float, needs: tuple[bool, ...],
) -> list[Array | None]:  # fmt: skip
    params = {"classes": classes, "class_weight": class_weight, "smoothing": smoothing}
    return where_needed(BACKWARD(g, x, w, b, top=top, total=total, **params, wanted=needs), needs)


def _backward_rule(
    g: tuple[Array, ...], dy: Array, x: Array, w: Array, b: Array | None, classes: Classes,
    class_weight: Array | None, smoothing: float, wanted: tuple[bool, ...], needs: tuple[bool, ...],
) -> list[Array | None]:  # fmt: skip
    composite = partial(_composite, classes=classes, class_weight=class_weight, smoothing=smoothing)
    return second_order(composite, g, dy, (x, w, b), wanted, needs)


BACKWARD = Primitive(
    "linear_cross_entropy_backward",
    _backward,
    "dy x w b",
    vjp=_backward_rule,
    outputs=-1,
    signals=True,
    batch=composed(gradients_of(_composite, 1, "top", "total")),
)
LINEAR_CROSS_ENTROPY = Primitive(
    "linear_cross_entropy",
    _forward,
    "x w b",
    vjp=_rule,
    residuals="top total",
    signals=True,
    batch=composed(_composite),
)


def _takes(x: Tensor, w: Tensor, b: Tensor | None, t: Tensor) -> bool:
    return (
        x.array.ndim == w.array.ndim == 2
        and len(x.array) * len(w.array) >= MIN_CHUNKED
        and x.array.dtype.char in "fd"
        and w.array.dtype == x.array.dtype
        and (b is None or b.array.dtype == x.array.dtype)
        and t.array.dtype.kind in "iu"
        and modes.level is None
    )


@operator(namespace="nn.functional", method=False)
def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: object = None,
) -> Tensor:
    """``cross_entropy(linear(input, linear_weight, linear_bias), target)``, with the options of ``cross_entropy``.

    With class indices in float32 or float64, 2^23 logits or more are computed in chunks of classes, once for the value
    and once for the derivative, and are never in memory as a whole.

    Derivative: that of ``linear`` and ``cross_entropy``.
    Shape: input ``(N, F)`` or ``(F,)``; linear_weight ``(C, F)`` or ``(C, d1, ..., F)``; target ``(N,)``, ``()`` or
        ``(N, d1, ...)``, or the shape of the logits; the result is 0-d, or with reduction ``"none"`` has the shape of
        class indices.
    Dtype: floating, the same for all arguments; class indices are integers.

    Args:
        input: the input of the layer.
        linear_weight: the layer's weight.
        target: class indices, or probabilities.
        linear_bias: the layer's offset, in the weight's shape without F.
        weight: a factor for each class.
        ignore_index: a class index, by default -100; examples with this target are left out.
        label_smoothing: the share of each target that is spread evenly over the classes.
        options: accepted for compatibility; PyTorch's options for the division of the work do not change results.

    Raises:
        RuntimeError: the shapes do not match, or ``ignore_index`` is given for probabilities.

    >>> F.linear_cross_entropy(rg.zeros(2, 3), rg.ones(4, 3), rg.tensor([0, 3]))
    tensor(1.3863)
    """
    x, w, t = operand(input), operand(linear_weight, "linear_weight"), operand(target, "target")
    if x.array.ndim not in (1, 2):
        raise RuntimeError(f"expected input with 1 or 2 dimensions, got {describe(x)}")
    if w.array.ndim < 2 or w.array.shape[-1] != x.array.shape[-1]:
        raise RuntimeError(
            f"expected linear_weight (..., {x.array.shape[-1]}) for input {describe(x)}, got {describe(w)}"
        )
    outputs = w.array.shape[:-1]
    b = None if linear_bias is None else operand(linear_bias, "linear_bias")
    if b is not None and b.array.shape != outputs:
        raise RuntimeError(f"expected linear_bias of shape {outputs}, got {describe(b)}")
    if len(outputs) > 1 and x.array.ndim == 1:
        raise RuntimeError(f"linear_weight {describe(w)} requires batched input, got {describe(x)}")
    logits_shape = (*x.array.shape[:-1], *outputs)
    if t.array.shape == logits_shape and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    ignored = -100 if ignore_index is None else ignore_index
    if _takes(x, w, b, t) and 0.0 <= label_smoothing <= 1.0:
        shape = array_module(x.array).broadcast_to(x.array.dtype.type(0), logits_shape)
        _, params, _ = class_parameters(
            new_tensor(shape), t, weight, ignored, reduction_of(reduction, None, None), label_smoothing
        )
        return apply(LINEAR_CROSS_ENTROPY, (x, w, b), params)
    if len(outputs) > 1:
        w, b = w.reshape((prod(outputs), w.array.shape[-1])), None if b is None else b.reshape(prod(outputs))
    logits = linear(x, w, b)
    return cross_entropy(
        logits if len(outputs) == 1 else logits.reshape(logits_shape),
        t,
        weight=weight,
        reduction=reduction,
        ignore_index=ignored,
        label_smoothing=label_smoothing,
    )
