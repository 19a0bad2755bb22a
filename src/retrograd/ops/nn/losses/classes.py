"""Losses over classes: cross entropy from logits and the negative log-likelihood from log-probabilities.

Inputs are ``(N, C, ...)`` with the classes in dimension 1, or ``(C,)``; targets are class indices ``(N, ...)`` or, for
cross entropy, probabilities of the input's shape.
"""

from __future__ import annotations

from functools import lru_cache, partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from ....core.arrays import Array
from ....core.arrays.devices import all_examples, array_module, extent, is_array, lie_within
from ....core.arrays.dtypes import FLOATING, conversion_advice, int64
from ....core.arrays.layout import row_major
from ....core.arrays.summation import LARGE, LONG, accurate_sum, total_of
from ....core.errors import InvalidValue, describe
from ....core.graph.in_place import only_reference
from ....core.graph.plan import Values
from ....core.graph.primitive import Primitive, apply, operand
from ....core.named_tuples import NamedTuple
from ....core.tensor.storage import Storage, storage_of
from ....core.tensor.tensor import Tensor, new_tensor
from ....kernels import or_reference
from ....kernels.loops.sequences import lookups
from ...indexing.selection import where
from ...table.arguments import floating_operand
from ...table.batching import composed, fold, folded_array, unfold
from ...table.composites import gradients_of, second_order
from ...table.registry import operator
from ...table.types import Operand
from .reduction import reduced, reduction_of

if TYPE_CHECKING:
    from ....core.mapping.batching import Call


ONE = 1  # the class weight if none is given


class Classes(NamedTuple):
    """The constants that follow from a target and the class weights.

    ``index`` are the targets (N, ...); ``weight`` is their class weight, 0 for ignored rows; ``counted`` is a mask of
    rows that are not ignored, None if all count; ``divisor`` is the divisor of a mean, 1 for a sum, None for no
    reduction. While a node refers to the ``storages`` of target and class weight, writes to these Tensors go to a copy.
    """

    index: Any
    weight: Any
    counted: Any
    divisor: Any
    storages: tuple[Storage, ...] = ()


def at_classes(index: Array) -> tuple[Any, ...]:
    """Return the index of ``x[n, index[n, ...], ...]`` for all elements of ``index``."""
    if index.ndim == 1:
        return (_row_indices(len(index)) if type(index) is ndarray else array_module(index).arange(len(index))), index
    xp = array_module(index)
    places = [
        xp.arange(length).reshape((1,) * axis + (length,) + (1,) * (index.ndim - axis - 1))
        for axis, length in enumerate(index.shape)
    ]
    return (places[0], index, *places[1:])


@lru_cache(maxsize=64)
def _row_indices(length: int) -> Array:
    places = np.arange(length)
    places.flags.writeable = False
    return places


def _sum(rows: Any) -> Any:
    """Return the sum, of float16 in float32: sum and count must not overflow if the mean does not."""
    return rows.sum(dtype=np.float32) if rows.dtype.char == "e" else accurate_sum(rows)


def _storages(target: Tensor, weight: Tensor | None) -> tuple[Storage, ...]:
    storage = storage_of(target)
    return (storage, storage_of(weight)) if isinstance(weight, Tensor) else (storage,)


def read_weights(weight: Array, index: Array) -> Array:
    """Return ``weight[index]``, also if ``vmap`` maps only the weight or only the index."""
    return weight[index] if type(weight) is type(index) else new_tensor(weight)[new_tensor(index)].array


def _classes(
    x: Array, target: Any, weight: Any, ignore_index: int, reduction: str, storages: tuple[Storage, ...]
) -> Classes:
    """Check the target's indices and return the constants of the loss."""
    numbers = all_examples(target)
    if numbers.size:
        count = x.shape[1]
        if not 0 <= ignore_index < count and lie_within(target, count):
            settled = True
        else:
            low, high = extent(target)
            settled = low >= 0 and high < count
            settled = settled and not (low <= ignore_index <= high and (numbers == ignore_index).any())
        if settled:
            index = target if target.dtype is int64 else target.astype(np.int64, copy=False)
            factor = ONE if weight is None else read_weights(weight, index)
            divisor: Any = None if reduction == "none" else 1
            if reduction == "mean":
                number = np.float32 if x.dtype.itemsize < 4 else x.dtype.type
                divisor = number(target.size) if weight is None else _sum(factor)
            return Classes(index, factor, None, divisor, storages)
    xp = array_module(x)
    wrong = (numbers != ignore_index) & ((numbers < 0) | (numbers >= x.shape[1]))
    if numbers.size and bool(wrong.any()):
        raise IndexError(f"target {int(numbers[wrong][0])} is out of bounds for {x.shape[1]} classes in {describe(x)}")
    counted = target != ignore_index
    index = xp.where(counted, target, xp.zeros_like(target)).astype(np.int64, copy=False)
    factor = (
        counted.astype(x.dtype)
        if weight is None
        else xp.where(counted, read_weights(weight, index), weight.dtype.type(0))
    )
    divisor = None if reduction == "none" else _sum(factor) if reduction == "mean" else 1
    return Classes(index, factor, counted, divisor, storages)


class _Folded(NamedTuple):
    """A call in which the examples are additional rows, and the mapping from its rows to the examples' losses."""

    x: Tensor
    classes: Classes
    divisor: Any
    alone: bool  # each example is one row, so row losses are example losses

    def rows_of(self, g: Tensor, call: Call) -> Tensor:
        if self.alone:
            return g
        shape = (call.size, self.classes.index.shape[0] // max(call.size, 1), *self.classes.index.shape[1:])
        if self.divisor is not None:
            g = (g / self.divisor).reshape((call.size,) + (1,) * (len(shape) - 1)).expand(shape)
        g = g.reshape(self.classes.index.shape)
        return g if self.classes.counted is None else where(new_tensor(self.classes.counted), g, 0.0)

    def losses(self, rows: Tensor, call: Call) -> Tensor:
        if self.alone:
            return rows
        rows = unfold(rows, 0, call.size)
        if self.divisor is None:
            return rows
        return rows.reshape((call.size, prod(rows.array.shape[1:]))).sum(1) / self.divisor


def _folded(call: Call) -> _Folded:
    classes, size = call.params["classes"], call.size
    weight, counted, divisor = classes.weight, classes.counted, classes.divisor
    own = classes.index
    weight = folded_array(weight, size) if getattr(weight, "ndim", 0) else weight
    index = folded_array(own, size)
    x = fold(call.full(0)) if call.ndim() else call.full(0)
    if isinstance(divisor, Tensor):
        divisor = divisor.array
    elif counted is None and divisor is not None and divisor == 1 and index.shape == (size,):
        return _Folded(x, Classes(index, weight, None, None), None, True)
    elif is_array(divisor) or isinstance(divisor, np.generic):
        divisor = array_module(index).asarray(divisor)
    if is_array(divisor):
        divisor = new_tensor(divisor.astype(x.array.dtype))
    folded = Classes(index, weight, folded_array(counted, size), None)
    return _Folded(x, folded, divisor, False)


def _nll_examples(call: Call) -> Any:
    if not call.size:
        return call.of_no_example()
    parts = _folded(call)
    return parts.losses(call.below([parts.x], {"classes": parts.classes}), call)


def _nll_transpose_examples(call: Call) -> Any:
    if not call.size:
        return call.of_no_example()
    parts = _folded(call)
    shape = call.params["shape"]
    g = parts.rows_of(call.full(0), call)
    out = call.below([g], {"classes": parts.classes, "shape": (call.size * shape[0], *shape[1:])})
    return unfold(out, 0, call.size)


def _cross_entropy_examples(call: Call) -> Any:
    if not call.size:
        return call.of_no_example()
    if isinstance(call.params["class_weight"], Tensor):
        return composed(cross_entropy_composite)(call)
    parts = _folded(call)
    rows, *residuals = call.below([parts.x], {**call.params, "classes": parts.classes})
    return (parts.losses(rows, call), *[unfold(array, 0, call.size) for array in residuals])


def _cross_entropy_backward_examples(call: Call) -> Any:
    if not call.size:
        return call.of_no_example()
    top, total = call.params["top"], call.params["total"]
    if isinstance(call.params["class_weight"], Tensor) or top is None:
        return composed(gradients_of(cross_entropy_composite, 1, "top", "total"))(call)
    turned = call.after(1)
    parts = _folded(turned)
    g = parts.rows_of(call.full(0), call)
    params = {**call.params, "classes": parts.classes}
    params.update(top=folded_array(top, call.size), total=folded_array(total, call.size))
    (dx,) = call.below([g, parts.x], params)
    return (unfold(dx, 0, call.size),)


def _over_rows(g: Array, classes: Classes) -> Array:
    """Return the cotangent of each row; 0 for ignored rows, even if a mean over no rows divides by zero."""
    if classes.divisor is None:
        return g
    g = g / classes.divisor
    if classes.counted is None:
        rows = array_module(g).empty(classes.index.shape, g.dtype)
        rows[...] = g
        return rows
    return np.where(classes.counted, g, g.dtype.type(0))


def _counted(rows: Array, classes: Classes) -> Array:
    return rows if classes.counted is None else np.where(classes.counted, rows, rows.dtype.type(0))


def _weighted(rows: Array, classes: Classes) -> Array:
    return _counted(rows if classes.weight is ONE else rows * classes.weight, classes)


def _reduced(rows: Array, classes: Classes, sign: int = 1) -> Array:
    """Return the losses of the rows, or their sum divided by the divisor, times the sign."""
    if classes.divisor is None:
        return rows if sign > 0 else -rows
    if rows.__class__ is ndarray and rows.size < LONG and rows.dtype.char in "fd":
        return np.asarray(total_of(rows) / (classes.divisor if sign > 0 else -classes.divisor))
    return _sum(rows) / classes.divisor * sign


# The negative log-likelihood is linear; its rule is the transpose, which writes a cotangent at the target's position.


def _nll(x: Array, classes: Classes) -> Array:
    loss = _reduced(_weighted(x[at_classes(classes.index)], classes), classes, -1)
    return row_major(loss if loss.dtype is x.dtype else loss.astype(x.dtype))


def _nll_transpose(g: Array, classes: Classes, shape: tuple[int, ...]) -> Array:
    dx = array_module(g).zeros(shape, g.dtype)
    dx[at_classes(classes.index)] = -_over_rows(g, classes) * classes.weight
    return dx


NLL: Primitive = Primitive(
    "nll_loss",
    _nll,
    "x",
    [lambda g, classes, x_shape: NLL_TRANSPOSE(g, classes=classes, shape=x_shape)],
    signals=True,
    piecewise_linear=True,
    batch=_nll_examples,
)
NLL_TRANSPOSE: Primitive = Primitive(
    "nll_loss_backward",
    _nll_transpose,
    "g",
    [lambda g, classes: NLL(g, classes=classes)],
    signals=True,
    batch=_nll_transpose_examples,
)


# Cross entropy saves the logits and, for each row, the maximum and the sum of exponentials.


def _losses(x: Array, index: Array, class_weight: Array | None, smoothing: float) -> tuple[Any, Any, Any, Any]:
    """Return the losses (with smoothing also for uniform targets), and the row maxima and sums of exponentials."""
    top = np.maximum.reduce(x, axis=1, keepdims=True) if type(x) is ndarray else x.max(axis=1, keepdims=True)
    z = x - top
    picked = z[at_classes(index)]
    others = None
    if smoothing:
        others = z.sum(axis=1) if class_weight is None else (z * _per_class(class_weight, z)).sum(axis=1)
    np.exp(z, out=z)
    total = accurate_sum(z, (1,), True)
    log_total = np.log(total[:, 0])
    if smoothing:
        whole = x.shape[1] if class_weight is None else class_weight.sum()
        others = whole * log_total - others
    return log_total - picked, others, top, total


def _slopes(
    x: Array, top: Array, total: Array, index: Array, factor: Array, picked: Array, spread: Array | None,
    class_weight: Array | None, in_place: bool = False,
) -> Array:  # fmt: skip
    """Return ``softmax(x) * factor`` minus ``picked`` at the class and ``spread * class_weight``, or write it to x."""
    dx = np.subtract(x, top, out=x) if in_place else x - top
    np.exp(dx, out=dx)
    dx *= np.expand_dims(factor / total.squeeze(1), 1)
    dx[at_classes(index)] -= picked
    if spread is not None:
        spread = np.expand_dims(spread, 1)
        dx -= spread if class_weight is None else spread * _per_class(class_weight, x)
    return dx


@or_reference
def _cross_entropy(x: Array, classes: Classes, class_weight: Array | None, smoothing: float) -> tuple[Any, Any, Any]:
    dtype = x.dtype
    if dtype.char == "e":
        x = x.astype(np.float32)
    losses = lookups.cross_entropy if lookups.takes_logits(x, classes.index, smoothing) else _losses
    rows, even, top, total = losses(x, classes.index, class_weight, smoothing)
    return loss_of_rows(rows, even, classes, smoothing, x.shape[1], dtype), top, total


def loss_of_rows(
    rows: Array, even: Array | None, classes: Classes, smoothing: float, count: int, dtype: np.dtype
) -> Array:
    """Return the loss, from the unweighted losses of the rows and, with smoothing, their losses for uniform targets."""
    if even is not None:
        rows = (1 - smoothing) * (rows * classes.weight) + (smoothing / count) * even
        rows = _counted(rows, classes)
    else:
        rows = _weighted(rows, classes)
    loss = _reduced(rows, classes)
    return row_major(loss if loss.dtype is dtype else loss.astype(dtype))


def _per_class(weight: Any, x: Any) -> Any:
    return weight.reshape((-1,) + (1,) * (x.ndim - 2))


def slopes_of_rows(
    g: Array, classes: Classes, count: int, class_weight: Array | None, smoothing: float
) -> tuple[Array, Array, Array | None]:
    """Return the factors of the softmax, and numbers to subtract at the target and, with smoothing, at all classes."""
    rows = _over_rows(g, classes)
    picked = rows if classes.weight is ONE else rows * classes.weight
    if not smoothing:
        return picked, picked, None
    picked = picked * (1 - smoothing)
    spread = _counted(rows * (smoothing / count), classes)
    return picked + spread * (count if class_weight is None else class_weight.sum()), picked, spread


@or_reference
def _cross_entropy_backward(
    g: Array, x: Array, top: Array, total: Array, classes: Classes, class_weight: Array | None, smoothing: float,
    in_place: bool = False,
) -> tuple[Any]:  # fmt: skip
    """``dx = g * (weight * (softmax(x) - onehot))``, and the same for the uniform part of smoothed targets."""
    factor, picked, spread = slopes_of_rows(g, classes, x.shape[1], class_weight, smoothing)
    slopes = lookups.cross_entropy_backward if lookups.takes_logits(x, classes.index, smoothing) else _slopes
    dx = slopes(x, top, total, classes.index, factor, picked, spread, class_weight, in_place)
    return (dx.astype(x.dtype, copy=False),)


def _overwrite_logits(g: Array, values: Values, total: Array | None) -> Array | None:
    """Write the gradient over large logits that nothing else refers to."""
    if values[0].ndim > 2 or values[0].size < LARGE or not only_reference(values, 0):
        return None
    top, sums, classes, weight, smoothing = [
        values[CROSS_ENTROPY.position[name]] for name in ("top", "total", "classes", "class_weight", "smoothing")
    ]
    (dx,) = _cross_entropy_backward(g, values[0], top, sums, classes, weight, smoothing, in_place=True)
    return dx


def cross_entropy_composite(x: Tensor, classes: Classes, class_weight: object, smoothing: float) -> Tensor:
    dtype, count = x.array.dtype, x.array.shape[1]
    numbers = array_module(x).arange(count).reshape((-1,) + (1,) * (x.array.ndim - 2))
    factor = classes.weight if classes.weight is ONE else np.expand_dims(classes.weight, 1)
    weights = (np.expand_dims(classes.index, 1) == numbers) * (factor * (1 - smoothing))
    if smoothing:
        even = smoothing / count
        weights = weights + (even if class_weight is None else even * _per_class(class_weight, x))
    y = new_tensor(weights.astype(dtype, copy=False))
    rows = -(where(y != 0, x.log_softmax(1), 0.0) * y).sum(1)
    if classes.counted is not None:  # as in the kernels: 0 for ignored rows, even if the divisor is 0
        rows = rows.masked_fill(new_tensor(~classes.counted), 0.0)
    if classes.divisor is None:
        return rows
    divisor = classes.divisor
    return rows.sum() / (new_tensor(divisor.astype(dtype)) if is_array(divisor) else float(divisor))


CROSS_ENTROPY_BACKWARD = Primitive(
    "cross_entropy_backward",
    _cross_entropy_backward,
    "dy x",
    vjp=lambda g, dy, x, classes, class_weight, smoothing, needs: second_order(
        partial(cross_entropy_composite, classes=classes, class_weight=class_weight, smoothing=smoothing),
        g,
        dy,
        (x,),
        (True,),
        needs,
    ),
    outputs=-1,
    signals=True,
    batch=_cross_entropy_backward_examples,
)
CROSS_ENTROPY: Primitive = Primitive(
    "cross_entropy",
    _cross_entropy,
    "x",
    [
        lambda g, x, top, total, classes, class_weight, smoothing: CROSS_ENTROPY_BACKWARD(
            g, x, top=top, total=total, classes=classes, class_weight=class_weight, smoothing=smoothing
        )[0]
    ],
    residuals="top total",
    signals=True,
    batch=_cross_entropy_examples,
)

CROSS_ENTROPY.in_place = _overwrite_logits


def _check_weight(weight: Operand | None, x: Tensor, classes: int) -> Any:
    if weight is None:
        return None
    w = operand(weight, "weight")
    if w.array.shape != (classes,):
        raise RuntimeError(f"weight should be defined for all {classes} classes of {describe(x)}, got {describe(w)}")
    if w.array.dtype != x.array.dtype:
        given = f"{describe(w)} for {describe(x)}{conversion_advice(x, w)}"
        raise RuntimeError(f"expected weight in the dtype of the input, got {given}")
    return w.array


def _batched(x: Tensor, t: Tensor) -> tuple[Tensor, Any, bool]:
    """Return input and class indices with a batch dimension, and whether it was added."""
    if t.array.dtype.kind not in "iu":
        raise RuntimeError(f"expected a target of integer class indices, got {describe(t)}")
    index = t.array
    if x.array.ndim == 2 and x.array.shape[:1] == index.shape:
        return x, index, False
    if x.array.ndim == 0:
        raise RuntimeError(f"expected an input (N, C, ...) or (C,), got {describe(x)}")
    if x.array.ndim == 1:
        if index.shape not in ((), (1,)):
            raise RuntimeError(f"a 1-D input needs a target of one class index, got {describe(x)} and {describe(t)}")
        return x.unsqueeze(0), index.reshape(1), True
    wanted = x.array.shape[:1] + x.array.shape[2:]
    if index.shape[:1] != wanted[:1]:
        raise InvalidValue(f"expected the batch of input to match that of target, got {describe(x)} and {describe(t)}")
    if index.shape != wanted:
        raise RuntimeError(f"expected a target {wanted} for input {describe(x)}, got {describe(t)}")
    return x, index, False


@operator(namespace="nn.functional", method=False, raises="real", args="input logits")
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """``-sum_c y_c log(softmax(input)_c)``: the cross entropy between targets y and the softmax of logits.

    Derivative: input: ``g (softmax(input) - y)`` for each example, times its weight, over the mean's divisor; 0 for
    ignored examples, even if all are ignored and the mean is NaN. Probabilities: ``-g log(softmax(input))``.
    Shape: input ``(N, C)``, ``(N, C, d1, ...)`` or ``(C,)``; the result is 0-d, or with reduction ``"none"`` has the
    input's shape without C.
    Dtype: real floating, preserved; weight has the input's dtype.

    Args:
        target: class indices ``(N, d1, ...)``, or probabilities of the input's shape.
        weight: a factor per class, ``(C,)``; with class indices the mean is weighted as well.
        ignore_index: a class index; examples with this target are left out of the sum and the mean.
        label_smoothing: the share of the target that is spread evenly over all classes.

    Raises:
        IndexError: a class index is out of bounds.
        ValueError: ``reduction`` is unknown, or the batches differ in length.
        RuntimeError: shapes or dtypes do not match, or ``label_smoothing`` is not in ``[0, 1]``.

    >>> F.cross_entropy(rg.tensor([[0.0, 0.0], [100.0, 0.0]]), rg.tensor([1, 0]), reduction="none")
    tensor([0.6931, 0.    ])
    """
    reduction = reduction_of(reduction, size_average, reduce)
    x, t = floating_operand(input), operand(target, "target")
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0, got {label_smoothing}")
    if t.array.dtype.kind in FLOATING:
        return _with_probabilities(x, t, weight, ignore_index, reduction, label_smoothing)
    x, params, single = class_parameters(x, t, weight, ignore_index, reduction, label_smoothing)
    loss = apply(CROSS_ENTROPY, (x,), params)
    return loss.squeeze(0) if single and reduction == "none" else loss


def class_parameters(
    x: Tensor, t: Tensor, weight: Tensor | None, ignore_index: int, reduction: str, smoothing: float
) -> tuple[Tensor, dict[str, object], bool]:
    """Check logits and a target of class indices.

    Returns:
        The logits with a batch dimension, the parameters of ``CROSS_ENTROPY``, and whether the dimension was added.
    """
    if x.array.shape == t.array.shape and x.array.ndim:
        raise RuntimeError(f"a target of probabilities, of the input's shape, must be floating, got {describe(t)}")
    x, index, single = _batched(x, t)
    w = _check_weight(weight, x, x.array.shape[1])
    classes = _classes(x.array, index, w, ignore_index, reduction, _storages(t, weight))
    return x, {"classes": classes, "class_weight": w, "smoothing": smoothing}, single


def _with_probabilities(
    x: Tensor, y: Tensor, weight: Operand | None, ignore_index: int, reduction: str, label_smoothing: float
) -> Tensor:
    if x.array.shape != y.array.shape or x.array.ndim == 0:
        kind = InvalidValue if y.array.ndim and x.array.shape[:1] != y.array.shape[:1] else RuntimeError
        raise kind(
            f"a target of probabilities must have the input's shape, got {describe(x)} and {describe(y)}; "
            "class indices must be integers: call .long()"
        )
    if ignore_index >= 0:
        raise RuntimeError(f"ignore_index is not supported for a target of probabilities, got {ignore_index}")
    dim = 0 if x.array.ndim == 1 else 1
    classes = x.array.shape[dim]
    _check_weight(weight, x, classes)
    if label_smoothing > 0:
        y = y * (1 - label_smoothing) + label_smoothing / max(classes, 1)
    if weight is not None:
        y = y * operand(weight).detach().reshape((-1,) + (1,) * (x.array.ndim - dim - 1))
    rows = -(x.log_softmax(dim) * y).sum(dim)
    return reduced(rows, reduction)


@operator(namespace="nn.functional", method=False, like=cross_entropy, args="input log-probabilities, weight per class")
def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``-weight[y] input[y]`` for log-probabilities and class indices y; the mean divides by the sum of the weights.

    Derivative: ``-g weight[y]`` at the class y of each example, over the mean's divisor; 0 at other classes and for
    ignored examples.

    Args:
        target: class indices ``(N, d1, ...)``.
        ignore_index: a class index; examples with this target are left out.

    Raises:
        ValueError: ``reduction`` is unknown, the batches differ in length, or the input is 0-d.
        RuntimeError: the shapes or dtypes do not match.

    >>> F.nll_loss(rg.tensor([[-0.5, -1.5], [-2.5, -3.5]]), rg.tensor([1, 0]))
    tensor(2.)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    x, t = floating_operand(input), operand(target, "target")
    if x.array.ndim == 0:
        raise InvalidValue(f"expected an input (N, C, ...) or (C,), got {describe(x)}")
    x, index, single = _batched(x, t)
    w = _check_weight(weight, x, x.array.shape[1])
    classes = _classes(x.array, index, w, ignore_index, reduction, _storages(t, weight))
    loss = apply(NLL, (x,), {"classes": classes})
    return loss.squeeze(0) if single and reduction == "none" else loss
