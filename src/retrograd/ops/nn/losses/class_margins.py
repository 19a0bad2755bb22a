"""Margin losses over classes: hinges of the scores of all classes against the score of one or several classes.

The losses are piecewise linear, so the forward saves the slope of each score, and the rule multiplies by it.
"""

from __future__ import annotations

from math import prod
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import all_examples, array_module, extent, lie_within
from ....core.arrays.summation import accurate_sum
from ....core.errors import InvalidValue, describe
from ....core.graph.primitive import Primitive, apply, operand
from ....core.tensor.tensor import Tensor, new_tensor
from ....kernels import or_reference
from ....kernels.loops.sequences import lookups
from ...table.arguments import floating_operand
from ...table.batching import fold, folded_array, unfold
from ...table.registry import operator
from .classes import at_classes, read_weights
from .reduction import reduced, reduced_array, reduction_of

if TYPE_CHECKING:
    from ....core.mapping.batching import Call


def _divisor(x: Array, reduction: str) -> int:
    return x.shape[1] * len(x) if reduction == "mean" else x.shape[1]


def _rows(hinge: Array, slopes: Array, weight: Array | None, reduction: str) -> tuple[Array, Array]:
    """Return the reduced losses of the rows, and the slopes; the arguments lack the factor ``1 / C``."""
    n, classes = slopes.shape
    rows = accurate_sum(hinge.reshape(n, prod(hinge.shape[1:])), (1,)) / hinge.dtype.type(classes)
    slopes /= slopes.dtype.type(_divisor(slopes, reduction))
    if weight is not None:
        rows *= weight
        slopes *= weight[:, None]
    return reduced_array(rows, reduction), slopes


@or_reference
def _multi_margin(x: Array, index: Array, weight: Array | None, margin: float, reduction: str) -> tuple[Array, Array]:
    found = lookups.class_margins(x, index[:, None], weight, margin, _divisor(x, reduction))
    if found is not None:
        return reduced_array(found[0], reduction), found[1]
    at = at_classes(index)
    hinge = x + (x.dtype.type(margin) - x[at])[:, None]
    hinge[at] = 0
    np.maximum(hinge, 0, out=hinge)
    slopes = (hinge > 0).astype(x.dtype)
    slopes[at] = -accurate_sum(slopes, (1,))
    return _rows(hinge, slopes, weight, reduction)


@or_reference
def _multilabel_margin(x: Array, index: Array, weight: None, reduction: str) -> tuple[Array, Array]:
    """Compute the loss; ``index`` has the targets of each row first, followed by -1."""
    found = lookups.class_margins(x, index, weight, 1.0, _divisor(x, reduction))
    if found is not None:
        return reduced_array(found[0], reduction), found[1]
    xp = array_module(x)
    one = index[:, :, None] == xp.arange(x.shape[1])  # the j-th target of row n is class i
    hinge = x[:, None] + (1 - x[xp.arange(len(x))[:, None], index])[:, :, None]
    np.maximum(hinge, 0, out=hinge)
    xp.copyto(hinge, 0, where=one.any(axis=1)[:, None] | (index < 0)[:, :, None])
    positive = (hinge > 0).astype(x.dtype)
    of_targets = np.matmul(accurate_sum(positive, (2,))[:, None], one.astype(x.dtype))
    return _rows(hinge, accurate_sum(positive, (1,)) - of_targets[:, 0], weight, reduction)


def _vjp(g: Array, slopes: Array, reduction: str) -> Array:
    return (g.reshape(g.shape + (1,)) if reduction == "none" else g) * slopes


def _examples(call: Call) -> Any:
    if not call.size:
        return call.of_no_example()
    reduction = call.params["reduction"]
    params = {name: folded_array(value, call.size) for name, value in call.params.items()} | {"reduction": "none"}
    rows, slopes = [unfold(array, 0, call.size) for array in call.below([fold(call.full(0))], params)]
    if reduction == "mean":
        return rows.mean(1), slopes / slopes.shape[1]
    return rows if reduction == "none" else rows.sum(1), slopes


MULTI_MARGIN, MULTILABEL_MARGIN = (
    Primitive(name, forward, "x", [_vjp], residuals="slopes", signals=True, piecewise_linear=True, batch=_examples)
    for name, forward in (("multi_margin_loss", _multi_margin), ("multilabel_margin_loss", _multilabel_margin))
)


def _as_rows(x: Tensor) -> Tensor:
    if x.array.ndim > 2 or x.array.ndim and x.array.shape[-1] == 0:
        raise RuntimeError(f"expected a non-empty input (N, C) or (C,), got {describe(x)}")
    return x if x.array.ndim == 2 else x.reshape((1, -1))


def _extent(index: Array, classes: int) -> tuple[int, int]:
    return extent(index) if all_examples(index).size and not lie_within(index, classes) else (0, 0)


@operator(namespace="nn.functional", method=False, dtype="real", args="input scores, weight per class")
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``sum_{c != y} weight[y] max(0, margin - x_y + x_c)^p / C``: the hinge for one of several classes.

    Derivative: where a term is positive ``g weight[y] / C`` for ``x_c`` and minus that for ``x_y``, times twice the
    hinge for ``p = 2``; 0 at the margin.
    Shape: input ``(N, C)`` or ``(C,)``; the result is 0-d, or with reduction ``"none"`` ``(N,)``.

    Args:
        target: class indices y, ``(N,)`` or 0-d.
        p: 1 or 2.
        margin: a class whose score is lower by at least this margin has no loss.

    Raises:
        ValueError: p is not 1 or 2, weight is not one-dimensional, or ``reduction`` is unknown.
        RuntimeError: shapes do not match, or a class index is out of range.
        TypeError: margin is not a number.

    Source: Crammer, Singer, "On the algorithmic implementation of multiclass kernel-based vector machines", 2001.

    >>> F.multi_margin_loss(rg.tensor([[0.5, 1.0]]), rg.tensor([0]))
    tensor(0.75)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if p not in (1, 2):
        raise InvalidValue(f"only p == 1 and p == 2 are supported, got {p}")
    if type(margin) is not float and not isinstance(margin, Real):
        raise TypeError(f"margin must be a number, got {type(margin).__name__}")
    given, t = floating_operand(input), operand(target, "target")
    x = _as_rows(given)
    n, c = x.array.shape
    if t.array.dtype.kind not in "iu":
        raise RuntimeError(f"expected a target of class indices, got {describe(t)}")
    if t.array.shape != (n,) and not (given.array.ndim < 2 and t.array.ndim == 0):
        raise RuntimeError(f"target should be of size ({n},), got {describe(t)} for input {describe(given)}")
    index = t.array.reshape(n).astype(np.int64)
    low, high = _extent(index, c)
    if low < 0 or high >= c:
        raise RuntimeError(f"target out of range for {c} classes of {describe(given)}")
    w = None
    if weight is not None:
        w = operand(weight, "weight").array
        if w.ndim != 1:
            raise InvalidValue(f"weight must be one-dimensional, got {describe(w)}")
        if w.shape != (c,):
            raise RuntimeError(f"inconsistent weight size, expected {c}, got {describe(w)}")
        w = read_weights(w, index)
    unreduced = reduction == "none" and t.array.ndim == 0
    if p == 2:
        rows = _squared_margin(x, index, margin, w)
        return rows.squeeze(0) if unreduced else reduced(rows, reduction)
    loss = apply(MULTI_MARGIN, (x,), {"index": index, "weight": w, "margin": margin, "reduction": reduction})
    return loss.squeeze(0) if unreduced else loss


def _squared_margin(x: Tensor, index: Any, margin: float, weight: Any) -> Tensor:
    hinge = (margin - x.gather(1, new_tensor(index[:, None])) + x).relu()
    own = array_module(x).arange(x.array.shape[1]) == index[:, None]
    rows = (hinge * hinge).masked_fill(new_tensor(own), 0.0).sum(1) / x.array.shape[1]
    return rows if weight is None else rows * new_tensor(weight)


@operator(namespace="nn.functional", method=False, dtype="real", args="input scores")
def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """``sum_{j in targets} sum_{i not in targets} max(0, 1 - (x_j - x_i)) / C``: the hinge for several classes at once.

    Derivative: where a term is positive ``g / C`` for ``x_i`` and minus that for ``x_j``; 0 at the margin.
    Shape: input ``(N, C)`` or ``(C,)``; the result is 0-d, or with reduction ``"none"`` ``(N,)``.

    Args:
        target: class indices of the input's shape; a row ends at its first -1.

    Raises:
        RuntimeError: shapes do not match, or an index is out of range.

    >>> F.multilabel_margin_loss(rg.tensor([[0.1, 0.2, 0.4, 0.8]]), rg.tensor([[3, 0, -1, 1]]))
    tensor(0.85)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    given, t = floating_operand(input), operand(target, "target")
    x = _as_rows(given)
    shapes = {given.array.shape, t.array.shape}
    if len(shapes) > 1 and shapes != {(), (1,)} or t.array.dtype.kind not in "iu":
        raise RuntimeError(f"expected class indices in the input's shape, got {describe(t)} for {describe(given)}")
    n, c = x.array.shape
    index = t.array.reshape(n, c)
    low, high = _extent(index, c)
    if low < -1 or high >= c:
        raise RuntimeError(f"target is out of range for {c} classes of {describe(given)}")
    if low < 0:
        index = np.where(array_module(x).cumsum(index == -1, axis=1) == 0, index, -1)
        index = index[:, : extent((index >= 0).sum(axis=1))[1]]
    loss = apply(MULTILABEL_MARGIN, (x,), {"index": index, "weight": None, "reduction": reduction})
    return loss.squeeze(0) if reduction == "none" and given.array.ndim < 2 else loss
