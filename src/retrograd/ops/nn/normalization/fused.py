"""The fused operator behind all normalizations by statistics: with mean and variance over some axes,

    y = (x - mean) * rstd * weight + bias,        rstd = 1 / sqrt(var + eps)

which saves x, mean and rstd, and whose backward kernel computes

    dx = rstd * (u - mean(u) - xhat * mean(u * xhat)),        u = dy * weight,  xhat = (x - mean) * rstd

(Ioffe and Szegedy, 2015; Ba, Kiros and Hinton, 2016). Without centering (rms_norm; Zhang and Sennrich, 2019) the means
of x and u are left out.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from ....core.arrays import Array
from ....core.arrays.bfloat16 import wide as widened
from ....core.arrays.devices import all_examples, array_module
from ....core.arrays.fp_warnings import silently
from ....core.arrays.layout import cast, row_major
from ....core.arrays.summation import accurate_sum
from ....core.graph.fitting import unbroadcast
from ....core.graph.modes import modes
from ....core.graph.primitive import Primitive
from ....core.graph.recomputed import together
from ....core.named_tuples import NamedTuple
from ....core.opaque_calls import LoopMissing
from ....core.tensor.tensor import Tensor, new_tensor
from ....kernels import SEVERAL, or_reference, takes, takes_halves
from ....kernels.loops.statistics import norms
from ....kernels.runtime.result_arrays import empty
from ...reduce.common import count
from ...table.batching import composed
from ...table.blocks import wide
from ...table.composites import gradients_of, raw, second_order, where_needed

if TYPE_CHECKING:
    from ....core.mapping.batching import Call


class Layout(NamedTuple):
    """The shapes that the fused operator uses.

    ``x`` is reshaped to ``view`` (None: unchanged), its statistics are over ``axes``, and weight and bias are reshaped
    to ``affine`` (None: unchanged), which broadcasts with the view.
    """

    view: tuple[int, ...] | None
    axes: tuple[int, ...]
    affine: tuple[int, ...] | None
    centered: bool = True


def _loops(layout: Layout, x: Any, *others: Any) -> Any:
    """Return the compiled loops for this layout, or None if they cannot be used on the arrays."""
    view, axes = layout.view, layout.axes
    if type(x) is ndarray and x.dtype.char == "E":
        dense = takes_halves(x, *[z for z in others if z is not None and z.shape == x.shape])
        channels = view is None and axes == (0, *range(2, x.ndim)) and norms.along_channels(x)
        return norms.CHANNELS if dense and channels else None
    if not takes(x, *others, least=SEVERAL):
        return None
    if view is None and axes[0] < 0:
        return norms.rows_of(len(axes), layout.centered)
    if view is None and axes == (0, *range(2, x.ndim)):
        return norms.CHANNELS if norms.along_channels(x) else None
    if view is None and axes == tuple(range(2, x.ndim)):
        return norms.Groups(x.shape[1], (*x.shape[:2], *[1] * len(axes)))
    if view is not None and len(view) == 4 and axes == (2, 3):
        return norms.Groups(view[1], (*view[:2], 1, 1))
    return None


def _viewed(x: Any, layout: Layout) -> Any:
    x = wide(x)
    return x if layout.view is None else x.reshape(layout.view)


def _broadcastable(w: Any, layout: Layout) -> Any:
    return w if layout.affine is None else w.reshape(layout.affine)


def mean_over(x: Any, axes: tuple[int, ...]) -> Any:
    """Return the mean over the axes with ``keepdims``."""
    ndim = x.ndim
    total = accurate_sum(x, tuple([axis + ndim if axis < 0 else axis for axis in axes]), True)
    number = count(x.shape, axes)
    if type(total) is not ndarray:
        return total / x.dtype.type(number)
    total /= x.dtype.type(number)
    return total


def _surely_finite(x: object) -> bool:
    """Return whether the sum of x is finite, so that all elements are; False on a GPU, where a check would be slow."""
    return type(x) is ndarray and isfinite(accurate_sum(x))


def _rstd(x: Any, variance: Any, layout: Layout, eps: float) -> Any:
    """``1 / sqrt(variance + eps)``; NaN, not 0, if squares of finite numbers overflowed."""
    if _surely_finite(variance):
        out = variance + eps
        np.sqrt(out, out)
        return np.divide(1, out, out)
    overflowed = np.isinf(raw(variance))
    if array_module(x) is np:  # on a GPU infinite x also give NaN, since a check would synchronize
        if overflowed.any():
            overflowed &= np.isfinite(raw(x)).all(axis=layout.axes, keepdims=True)
        if not overflowed.any():
            return 1 / np.sqrt(variance + eps)
    return 1 / np.sqrt(np.where(overflowed, np.nan, variance) + eps)


def _standardized(x: Any, layout: Layout, eps: float) -> tuple[Any, Any, Any]:
    mean = mean_over(x, layout.axes) if layout.centered else None
    y = x - mean if layout.centered else x
    rstd = _rstd(x, mean_over(np.square(y), layout.axes), layout, x.dtype.type(eps))
    return np.multiply(y, rstd, out=y if layout.centered else None), mean, rstd


@or_reference
def _forward(x: Any, w: Any, b: Any, layout: Layout, eps: float, moments: Any = None) -> tuple[Any, Any, Any]:
    """Compute the result; ``moments`` are batch norm's statistics per channel, if loops have already computed them."""
    loops = _loops(layout, x, w, b)
    if loops:
        return loops.normalize(x, w, b, eps, *([] if moments is None else [moments]))
    view = _viewed(x, layout)
    y, mean, rstd = _standardized(view, layout, eps)
    if view.dtype == np.float32 and not _surely_finite(rstd) and array_module(x) is np and not np.isfinite(rstd).all():
        # The square of 1e20 overflows in single but not in double precision.
        y, mean, rstd = _standardized(view.astype(np.float64), layout, eps)
    if w is not None:
        y *= _broadcastable(w, layout)
    if b is not None:
        y += _broadcastable(b, layout)
    return row_major(y.reshape(x.shape).astype(x.dtype, copy=False)), mean, rstd


def _forward_of_sum(
    x: Array, plus: Array, w: Array | None, b: Array | None, layout: Layout, eps: float
) -> tuple[Array, ...]:
    """Return ``_forward(x + plus, w, b, ...)``, with the sum written over x."""
    loops = _loops(layout, x, w, b, plus)
    if isinstance(loops, norms.Rows):
        with suppress(LoopMissing):
            return loops.normalize(x, w, b, eps, plus)
    np.add(x, plus, out=x)
    return _forward(x, w, b, layout, eps)


@or_reference
def _forward_of_halves(
    x: Array, w: Array | None, b: Array | None, layout: Layout, eps: float, **known: object
) -> tuple[Array, Array, Array]:
    """Compute the result for bfloat16 arrays, with mean and deviation in float32."""
    w, b = widened(w), widened(b)
    if _loops(layout, x):
        return _forward(x, w, b, layout, eps, **known)
    y, mean, rstd = _forward(widened(x), w, b, layout, eps, **known)
    return cast(y, x.dtype), mean, rstd


@or_reference
def _backward_of_halves(dy: Array, x: Array, w: Array | None, b: Array | None, mean: Array, rstd: Array, layout: Layout,
    eps: float, wanted: tuple[bool, ...],
) -> tuple[Array, ...]:  # fmt: skip
    if x.dtype != dy.dtype or not _loops(layout, x, dy):
        dy, x = widened(dy), widened(x)
    return _backward(dy, x, widened(w), widened(b), mean, rstd, layout, eps, wanted)


@or_reference
def _backward(
    dy: Any, x: Any, w: Any, b: Any, mean: Any, rstd: Any, layout: Layout, eps: float, wanted: tuple[bool, ...]
) -> tuple[Any, ...]:
    loops = _loops(layout, x, w, dy)
    if loops:
        bias = (wanted[2],) if isinstance(loops, norms.Rows) else ()
        found = loops.normalize_backward(dy, x, w, mean, rstd, *bias)
        return tuple([gradient for gradient, want in zip(found, wanted, strict=False) if want])
    u = _viewed(dy, layout)
    view = _viewed(x, layout)
    xhat = (view - mean if layout.centered else view) * rstd
    gradients = []
    if wanted[1]:
        gradients.append(_sum_to(u * xhat, w, layout))
    if wanted[2]:
        gradients.append(_sum_to(u, b, layout))
    if wanted[0]:
        if w is not None:
            u = u * _broadcastable(w, layout)
        du = _pulled(u, xhat, rstd, layout)
        gradients.insert(0, du.reshape(x.shape).astype(x.dtype, copy=False))
    return tuple(gradients)


def _backward_with(
    dy: Array, x: Array, w: Array | None, b: Array | None, mean: Array, rstd: Array, layout: Layout, eps: float,
    wanted: tuple[bool, ...], total: Array | None = None, again: bool = False,
) -> tuple[Array, ...]:  # fmt: skip
    """Return the results of ``_backward``; if computed ``again``, the result of ``_forward`` comes first.

    The gradient of x is added to ``total``, if given, and then left out of the results.
    """
    loops, left_out = _loops(layout, x, w, b, dy, total), total is not None
    if isinstance(loops, norms.Rows):
        with suppress(LoopMissing):
            y = empty(x.shape, np.float32) if again else None
            found = loops.normalize_backward(dy, x, w, mean, rstd, wanted[2], total, y, b)
            kept = [gradient for gradient, want in zip(found, wanted, strict=False) if want][left_out:]
            return tuple(kept) if y is None else (y, *kept)
    first = _forward(x, w, b, layout, eps)[:1] if again else ()
    gradients = _backward(dy, x, w, b, mean, rstd, layout, eps, wanted)
    if total is not None:
        np.add(total, gradients[0], out=total)
    return *first, *gradients[left_out:]


_backward_again = partial(_backward_with, again=True)


def _pulled(u: Any, xhat: Any, rstd: object, layout: Layout) -> Any:
    """Return the gradient of x: ``rstd * (u - mean(u) - xhat * mean(u * xhat))``."""
    du = u - xhat * mean_over(u * xhat, layout.axes)
    if layout.centered:
        du -= mean_over(u, layout.axes)
    du *= rstd
    return du


def _backward_vjp(
    g: tuple[Any, ...], dy: Any, x: Any, w: Any, b: Any, mean: Any, rstd: Any, layout: Layout, eps: float,
    wanted: tuple[bool, ...], needs: tuple[bool, ...],
) -> list[Any]:  # fmt: skip
    """The rule of the backward kernel ``dx(u) = rstd (u - mean(u) - xhat mean(u xhat))``.

    The map is symmetric: ``<g, dx(u)> = <dx(g), u>``. So the derivative with respect to u is ``dx(g)``, to xhat ``-rstd
    (g mean(u xhat) + u mean(g xhat))``, and to rstd ``<g, dx> / rstd``; the derivative of rstd with respect to x is
    ``-rstd^2 xhat / count``.
    """
    arrays = (*g, dy, x, *(z for z in (w, b) if z is not None))
    if any(isinstance(z, Tensor) for z in arrays) or any(z.dtype != rstd.dtype for z in arrays):
        return second_order(partial(_composite, layout=layout, eps=eps), g, dy, (x, w, b), wanted, needs)
    gx, gw, gb = where_needed(g, wanted)
    loops = _loops(layout, x, w)
    if isinstance(loops, norms.Rows):
        with suppress(LoopMissing):
            return [*loops.normalize_second((gx, gw, gb), dy, x, w, mean, rstd), None]
    view = _viewed(x, layout)
    xhat = (view - mean if layout.centered else view) * rstd
    weight = None if w is None else _broadcastable(w, layout)
    dyv = _viewed(dy, layout)
    by_xhat, by_rstd = 0, 0
    by_dy, by_w = np.zeros_like(dyv), None
    if gx is not None:
        gx = _viewed(gx, layout)
        u = dyv if w is None else dyv * weight
        du = _pulled(u, xhat, rstd, layout)
        by_u = _pulled(gx, xhat, rstd, layout)
        by_dy = by_u if w is None else by_u * weight
        by_xhat = -rstd * (gx * mean_over(u * xhat, layout.axes) + u * mean_over(gx * xhat, layout.axes))
        by_rstd = mean_over(gx * du, layout.axes)
        if needs[2]:
            by_w = _sum_to(by_u * dyv, w, layout)
    if gw is not None:
        gw = _broadcastable(gw, layout)
        by_dy, by_xhat = by_dy + gw * xhat, by_xhat + gw * dyv
    if gb is not None:
        by_dy = by_dy + _broadcastable(gb, layout)
    by_x = None
    if needs[1] and (gx is not None or gw is not None):
        by_x = (_pulled(by_xhat, xhat, rstd, layout) - xhat * (rstd * by_rstd)).reshape(x.shape)
    return [by_dy.reshape(x.shape), by_x, by_w, None]


def _sum_to(g: Any, w: Any, layout: Layout) -> Any:
    """Return the gradient of weight or bias: the sum over the axes along which it was broadcast."""
    return unbroadcast(g, layout.affine or w.shape).reshape(w.shape).astype(w.dtype, copy=False)


def _composite(x: Tensor, w: Tensor | None, b: Tensor | None, layout: Layout, eps: float) -> Tensor:
    if x.array.dtype.itemsize == 2:
        return _composite(x.to(np.float32), w, b, layout, eps).to(x.array.dtype)
    y = x if layout.view is None else x.reshape(layout.view)
    if layout.centered:
        y = y - y.mean(layout.axes, keepdim=True)
    rstd = _rstd(y, (y * y).mean(layout.axes, keepdim=True), layout, eps)
    if x.array.dtype == np.float32 and not np.isfinite(all_examples(rstd.array)).all():
        return _composite(x.to(np.float64), w, b, layout, eps).to(np.float32)
    y = y * rstd
    if w is not None:
        y = y * _broadcastable(w, layout)
    if b is not None:
        y = y + _broadcastable(b, layout)
    return y.reshape(x.shape)


def _of_examples(layout: Layout, size: int) -> Layout:
    """Return the layout for all examples, with a shared weight and bias."""
    view = None if layout.view is None else (size, *layout.view)
    axes = tuple([axis if axis < 0 else axis + 1 for axis in layout.axes])
    return Layout(view, axes, layout.affine, layout.centered)


def _norm_examples(call: Call) -> Any:
    x, w, b = call.values
    layout = call.params["layout"]
    params = {**call.params, "layout": _of_examples(layout, call.size)}
    if not any(call.mapped[1:]):
        return call.below([call.full(0), w, b], params)
    y, mean, rstd = call.below([call.full(0), None, None], params)
    shape = y.array.shape
    if layout.view is not None:
        y = y.reshape((call.size, *layout.view))
    if w is not None:
        y = y * _affine_of_examples(w, call.mapped[1], layout, y)
    if b is not None:
        y = y + _affine_of_examples(b, call.mapped[2], layout, y)
    return y.reshape(shape), mean, rstd


def _affine_of_examples(w: Any, mapped: bool, layout: Layout, y: Tensor) -> Any:
    if not mapped:
        return _broadcastable(w, layout)
    own = layout.affine or w.array.shape[1:]
    return w.reshape((w.array.shape[0],) + (1,) * (y.array.ndim - 1 - len(own)) + tuple(own))


def _norm_backward_examples(call: Call) -> Any:
    """Batch dx by the kernel if all examples share the weight; gradients of weight and bias are sums per example."""
    dy, x, w, b = call.values
    wanted, layout = call.params["wanted"], call.params["layout"]
    mean, rstd = call.params["mean"], call.params["rstd"]
    if (
        any(call.mapped[2:])
        or rstd is None
        or modes.grad_enabled
        and any(z is not None and z._requires for z in call.values)
    ):
        return composed(gradients_of(_composite, 1, "mean", "rstd"))(call)
    below = _of_examples(layout, call.size)
    dy, x = call.full(0), call.full(1)
    mean, rstd = [_all_of(value, call.size) for value in (mean, rstd)]
    found = []
    if wanted[0]:
        params = {**call.params, "layout": below, "mean": mean, "rstd": rstd, "wanted": (True, False, False)}
        found += call.below([dy, x, w, b], params)
    if wanted[1] or wanted[2]:
        u, view = [_viewed(z.array, below) for z in (dy, x)]
        if wanted[1]:
            xhat = (view - mean if layout.centered else view) * rstd
            found.append(_sum_of_examples(u * xhat, w, layout))
        if wanted[2]:
            found.append(_sum_of_examples(u, b, layout))
    return tuple(found)


def _all_of(value: Any, size: int) -> Any:
    if isinstance(value, Tensor):
        return value.array
    return value if value is None else array_module(value).broadcast_to(value, (size, *value.shape))


def _sum_of_examples(g: Any, w: Tensor, layout: Layout) -> Tensor:
    own = layout.affine or w.array.shape
    shape = (g.shape[0],) + (1,) * (g.ndim - 1 - len(own)) + tuple(own)
    total = unbroadcast(g, shape)
    return new_tensor(total.reshape((g.shape[0], *w.array.shape)).astype(w.array.dtype, copy=False))


def _fused(name: str) -> Primitive:
    """Return the fused operator under a separate name, for graphs and errors."""
    kernel = Primitive(
        name + "_backward",
        _backward,
        "dy x w b",
        vjp=_backward_vjp,
        outputs=-1,
        batch=_norm_backward_examples,
        halves=_backward_of_halves,
    )
    operator = Primitive(
        name,
        _forward,
        "x w b",
        vjp=lambda g, x, w, b, mean, rstd, layout, eps, needs: where_needed(
            kernel(g, x, w, b, mean=mean, rstd=rstd, layout=layout, eps=eps, wanted=needs), needs
        ),
        residuals="mean rstd",
        signals=True,
        piecewise_linear=True,
        batch=_norm_examples,
        halves=_forward_of_halves,
        bfloat16="first",
    )
    BACKWARD[operator] = kernel
    if name in ("layer_norm", "rms_norm"):
        operator.cheap, operator.of_sum, kernel.added = True, silently(_forward_of_sum), _backward_with
        together[operator.forward, kernel.forward] = together[operator.forward, _backward_with] = _backward_again
    return operator


BACKWARD: dict[Primitive, Primitive] = {}  # the backward kernel of each operator
LAYER_NORM = _fused("layer_norm")
RMS_NORM = _fused("rms_norm")
GROUP_NORM = _fused("group_norm")
BATCH_NORM = _fused("batch_norm")
INSTANCE_NORM = _fused("instance_norm")
