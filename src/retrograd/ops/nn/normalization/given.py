"""Normalization by given statistics, as in batch norm in evaluation mode: a factor and an offset per channel,

y = x * scale + shift,        scale = weight / sqrt(var + eps),        shift = bias - mean * scale
"""

from __future__ import annotations

from typing import Any

from ....core.arrays import Array
from ....core.graph.primitive import Primitive
from ...math.arithmetic import ADD, MUL
from ...math.powers import RSQRT
from ...reduce.reductions import SUM
from ...table.batching import composed


def _channels(x: Array) -> tuple[int, ...]:
    return (1, x.shape[1]) + (1,) * (x.ndim - 2)


def _scale(var: Array, w: Array | None, eps: float) -> Array:
    rstd = RSQRT(var + eps)
    return rstd if w is None else rstd * w


def normalized(x: Any, mean: Any, var: Any, w: Any, b: Any, eps: float) -> Any:
    """Normalize arrays, or Tensors by operators."""
    scale = _scale(var, w, eps)
    shift = -mean * scale
    if b is not None:
        shift = shift + b
    channels = _channels(x)
    out = ADD(MUL(x, scale.reshape(channels)), shift.reshape(channels))
    return out if out.dtype == x.dtype else out.astype(x.dtype)


def _sum(g: Array) -> Array:
    return SUM(g, dim=(0, *range(2, g.ndim)), keepdim=False)


def _moment(g: Array, x: Array, mean: Array) -> Array:
    """Return the sum per channel of g times the deviation from the mean."""
    return _sum(g * (x - mean.reshape(_channels(x))))


GIVEN_NORM = Primitive(
    "batch_norm_given",
    normalized,
    "x mean var w b",
    [
        lambda g, var, w, eps: MUL(g, _scale(var, w, eps).reshape(_channels(g))),
        lambda g, var, w, eps: -_sum(g) * _scale(var, w, eps),
        lambda g, x, mean, var, w, eps: _moment(g, x, mean) * _scale(var, w, eps) / (var + eps) * -0.5,
        lambda g, x, mean, var, eps: _moment(g, x, mean) * RSQRT(var + eps),
        _sum,
    ],
    signals=True,
    piecewise_linear=True,
    contiguous=True,
    batch=composed(normalized),
)
