"""Affine maps of the last dimension: linear and bilinear layers."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy import ndarray

from ....core.arrays import Array
from ....core.arrays.dtypes import float32
from ....core.arrays.layout import cast
from ....core.arrays.summation import LARGE, accurate_sum, adding
from ....core.errors import describe
from ....core.graph.primitive import Primitive, apply, operand
from ....core.graph.recomputed import recompute_input
from ....core.tensor.tensor import Tensor
from ....kernels.loops.elements.ufuncs import written
from ....kernels.loops.matrices import compact
from ....kernels.loops.matrices.products import USEFUL, dot_plus
from ....kernels.loops.matrices.products import dot as product
from ...table.registry import operator
from ...table.types import Operand
from ..matrices import as_rows
from .matmul import MATMUL, OUTER, matmul, mm, require_ndim

if TYPE_CHECKING:
    from ....core.mapping.batching import Call

RECOMPUTED = 1 << 20  # from this number of elements on, an input that is cheap to compute is recomputed, not saved

# Unlike `x @ w.T + b`, linear creates no transposed views, and its weight gradient is one product over the batch.


def _linear(x: Array, w: Array, b: Array | None = None) -> Array:
    if b is not None and x.ndim > 1 and x.size * len(w) >= USEFUL:
        out = dot_plus(as_rows(x), w.T, b)
        if out is not None:
            return out.reshape(x.shape[:-1] + w.shape[:1])
    if x.ndim == 2:
        out = product(x, w.T)
    elif x.ndim > 2:
        out = product(as_rows(x), w.T).reshape(x.shape[:-1] + w.shape[:1])
    else:
        out = np.matmul(x, w.T)
    if b is not None and not (out.size >= LARGE and written(np.add, out, b)):
        out += b
    return out


def _halves(x: Array, w: Array, b: Array | None = None) -> Array:
    """Compute the affine map of bfloat16 arrays, with products and bias summed in float32."""
    from ....kernels.loops.matrices.pairs import dot

    return dot(as_rows(x), w.T, b).reshape(x.shape[:-1] + w.shape[:1])


def _linear_weight(dy: Array, x: Array) -> Array:
    if x.ndim != 2:
        dy, x = as_rows(dy), as_rows(x)
    return product(dy.T, x)


def _weight_examples(call: Call) -> Tensor:
    dy, x = [as_rows_of_each(call.full(index)) for index in range(2)]
    return call.below([dy.mT, x], {}, OUTER if dy.array.shape[1] == 1 else MATMUL)


def _weight_halves(dy: Array, x: Array) -> Array:
    from ....kernels.loops.matrices.pairs import dot

    return dot(as_rows(dy).T, as_rows(x))


# The gradient of the weight, ``sum over rows of dy_o x_i``, is bilinear, so its own rules are products as well.
LINEAR_WEIGHT: Primitive = Primitive(
    "linear_weight",
    _linear_weight,
    "dy x",
    [lambda g, x: LINEAR_NO_BIAS(x, g), lambda g, dy: MATMUL(dy, g)],
    jvps=[lambda t, x: LINEAR_WEIGHT(t, x), lambda t, dy: LINEAR_WEIGHT(dy, t)],
    promote="strict",
    batch=_weight_examples,
    halves=_weight_halves,
    computes="x.T @ y",
)


def _linear_vjp_b(g: Array) -> Array:
    rows = g if g.ndim == 2 else as_rows(g)
    if isinstance(g, Tensor):
        return rows.reshape(rows.shape[1:]) if rows.shape[0] == 1 else rows.sum(axis=0)
    return accurate_sum(rows, (0,))


def _linear_examples(call: Call) -> Tensor:
    """Batch as one product if all examples share the weight, otherwise as a stack of products."""
    x, w, *b = call.values
    if not call.mapped[1] and not (b and call.mapped[2]):
        return call.below(call.values)
    vector = call.ndim() == 1
    if call.mapped[1]:
        rows = x.unsqueeze(-2) if vector else x
        extra = max(rows.array.ndim - call.mapped[0] - 2, 0)
        if extra and call.mapped[0]:
            rows = as_rows_of_each(rows)
        elif extra:
            rows = as_rows(rows)
        out = call.below([rows, w.mT], {}, MATMUL)
        if extra:
            out = out.reshape((call.size, *call.shape()[:-1], w.array.shape[1]))
        elif vector:
            out = out.squeeze(-2)
    else:
        out = call.below([x, w], {}, LINEAR_NO_BIAS)
        if not call.mapped[0]:
            out = out.unsqueeze(0)
    if not b:
        return out
    bias = b[0]
    if call.mapped[2]:
        shape = bias.array.shape
        bias = bias.reshape((shape[0],) + (1,) * (call.ndim() - 1) + shape[1:])
    return out + bias


def as_rows_of_each(x: Tensor) -> Tensor:
    """Reshape the examples, which are stacks of rows, to one matrix per example."""
    shape = x.array.shape
    return x.reshape((shape[0], prod(shape[1:-1]), shape[-1]))


def _linear_shape(make: Callable[..., ndarray], x: ndarray, w: ndarray, b: ndarray | None = None) -> ndarray:
    if x.shape[-1] != w.shape[-1]:
        raise ValueError(f"the last axis of input has length {x.shape[-1]}, that of weight {w.shape[-1]}")
    return make(x.shape[:-1] + w.shape[:-1], x.dtype)


LINEAR = Primitive(
    "linear",
    _linear,
    "x w b",
    [lambda g, w: MATMUL(g, w), lambda g, x: LINEAR_WEIGHT(g, x), _linear_vjp_b],
    jvps=[lambda t, w: LINEAR_NO_BIAS(t, w), lambda t, x: LINEAR_NO_BIAS(x, t), lambda t: t],
    promote="strict",
    batch=_linear_examples,
    shaped=_linear_shape,
    halves=_halves,
    computes="x @ y.T",
)
LINEAR_NO_BIAS: Primitive = Primitive(
    "linear",
    _linear,
    "x w",
    [lambda g, w: MATMUL(g, w), lambda g, x: LINEAR_WEIGHT(g, x)],
    jvps=[lambda t, w: LINEAR_NO_BIAS(t, w), lambda t, x: LINEAR_NO_BIAS(x, t)],
    promote="strict",
    batch=_linear_examples,
    shaped=_linear_shape,
    halves=_halves,
    computes="x @ y.T",
)


@operator(namespace="nn.functional", method=False, dtype="equal", raises="dtypes")
def linear(input: Operand, weight: Operand, bias: Operand | None = None) -> Tensor:
    """``input @ weight^T + bias``.

    Derivative: input: ``g @ weight``; weight: ``g^T @ input``; bias: ``g``, both summed over the batch.
    Shape: input (..., in), weight (out, in) and bias (out) to (..., out); weight (in) gives (...).

    Args:
        input: the rows to map.
        weight: a row per output.
        bias: added to each result; none by default.

    >>> F.linear(rg.ones(2, 3), rg.ones(4, 3), rg.ones(4)).shape
    (2, 4)
    """
    x, w = operand(input), operand(weight, "weight")
    if w.array.ndim == 1 and bias is None:
        return matmul(x, w)
    if x.array.ndim == 0 or w.array.ndim != 2 or x.array.shape[-1] != w.array.shape[1]:
        reason = f"expected input (..., in) and weight (out, in), got {describe(x)} and {describe(w)}"
        if x.array.ndim and w.array.ndim == 2:
            reason += f": the last dimension of input is {x.array.shape[-1]}, and weight takes {w.array.shape[1]}"
            if x.array.ndim > 2 and prod(x.array.shape[1:]) == w.array.shape[1]:
                reason += ", as input.flatten(1) has"
        raise RuntimeError(reason)
    if bias is None:
        return _recomputing(apply(LINEAR_NO_BIAS, (x, w), {}), x)
    b = operand(bias, "bias")
    if b.array.shape != w.array.shape[:1]:
        if b.array.ndim == 0 or b.array.shape == (1,):
            return apply(LINEAR_NO_BIAS, (x, w), {}) + b
        raise RuntimeError(f"expected bias ({w.array.shape[0]},) for weight {describe(w)}, got {describe(b)}")
    return _recomputing(apply(LINEAR, (x, w, b), {}), x)


def _recomputing(out: Tensor, x: Tensor) -> Tensor:
    """Let the backward pass compute a large input again instead of saving it, if recomputing is cheap."""
    if adding and x.array.size >= RECOMPUTED:
        recompute_input(out, x, 0)
    return out


@operator(namespace="nn.functional", method=False, dtype="equal", raises="dtypes", like=linear)
def bilinear(input1: Operand, input2: Operand, weight: Operand, bias: Operand | None = None) -> Tensor:
    """``y_o = sum_ij input1_i weight_oij input2_j + bias_o``, along the last dimensions.

    Derivative: each factor: ``g`` times the other factors, summed over the indices that it lacks; bias: ``g``, summed
    over the batch.
    Shape: input1 (..., n), input2 (..., m), weight (out, n, m) and bias (out) to (..., out).

    Args:
        input1: the rows on the left.
        input2: the rows on the right.
        weight: a matrix per output.

    >>> F.bilinear(rg.ones(5, 2), rg.ones(5, 3), rg.ones(4, 2, 3)).shape
    (5, 4)
    """
    x, y = operand(input1, "input1"), operand(input2, "input2")
    w = operand(weight, "weight")
    require_ndim("weight", w, 3)
    out, left, right = w.array.shape
    batch = x.array.shape[:-1]
    if x.array.shape != (*batch, left) or y.array.shape != (*batch, right):
        raise RuntimeError(
            f"expected inputs (..., {left}) and (..., {right}) for weight {describe(w)}, "
            f"got {describe(x)} and {describe(y)}"
        )
    rows = mm(as_rows(x), w.permute(1, 0, 2).reshape(left, out * right))
    result = (rows.reshape(*batch, out, right) * y.unsqueeze(-2)).sum(-1)
    if bias is None:
        return result
    b = operand(bias, "bias")
    if b.array.shape != (out,):
        raise RuntimeError(f"expected bias ({out},) for weight {describe(w)}, got {describe(b)}")
    return result + b


# The map by a constant matrix that is stored as `kernels/loops/matrices/compact.py` describes.


def _compact(x: Array, w: Array, scales: Array, back: bool) -> Array:
    """Return ``x @ w.T``, or ``x @ w`` with ``back``, for a constant matrix in fewer bits, in float32 or wider."""
    rows = as_rows(x)
    narrow = x.dtype.itemsize < 4
    out = (compact.back if back else compact.dot)(cast(rows, float32) if narrow else rows, w, scales)
    return (cast(out, x.dtype) if narrow else out).reshape(x.shape[:-1] + out.shape[1:])


def _compact_batch(call: Call) -> Tensor:
    """Multiply all examples by the weight, which they share."""
    if call.mapped[1] or call.mapped[2]:
        raise NotImplementedError("the weight must be the same for all examples of vmap; the weight is mapped")
    return call.below(call.values)


def _compact_shape(make: Callable[..., ndarray], x: ndarray, w: ndarray, scales: ndarray, back: bool) -> ndarray:
    return make((*x.shape[:-1], w.shape[int(back)]), x.dtype)


COMPACT_LINEAR: Primitive = Primitive(
    "compact_linear",
    _compact,
    "x w scales",
    [lambda g, w, scales, back: COMPACT_LINEAR(g, w, scales, back=not back), None, None],
    batch=_compact_batch,
    shaped=_compact_shape,
    halves=_compact,
    bfloat16="native",
)
