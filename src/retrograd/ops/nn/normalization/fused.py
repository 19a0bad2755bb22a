"""The fused operator behind all normalizations by statistics: with mean and variance over some axes,

    y = (x - mean) * rstd * weight + bias,        rstd = 1 / sqrt(var + eps)

which keeps x, mean and rstd, and whose backward kernel computes

    dx = rstd * (u - mean(u) - xhat * mean(u * xhat)),        u = dy * weight,  xhat = (x - mean) * rstd

(Ioffe and Szegedy, 2015; Ba, Kiros and Hinton, 2016). Without centring (rms_norm; Zhang and Sennrich, 2019) the means
of x and u are left out.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ....core.backward import unbroadcast
from ....core.devices import array_module
from ....core.primitive import Primitive
from ....core.summation import accurate_sum
from ....core.tensor import Tensor
from ....kernels import planes, rows, takes
from ...reduce.common import count
from ...table.composites import raw, second_order, where_needed


class Layout(NamedTuple):
    """How the fused operator reads its arrays.

    ``x`` is reshaped to ``view`` (None: as it is), its statistics are over ``axes``, and weight and bias are reshaped
    to ``affine`` (None: as they are), which broadcasts with the view.
    """

    view: tuple[int, ...] | None
    axes: tuple[int, ...]
    affine: tuple[int, ...] | None
    centred: bool = True


OVER_LAST = Layout(None, (-1,), None)


def _loops(layout: Layout, x: Any, *others: Any) -> Any:
    """The module of compiled loops that normalizes so, if one is to be used on these arrays."""
    module: Any
    if layout == OVER_LAST:
        module = rows
    elif layout.view is None and layout.axes[0] == 0 and count(x.shape[2:], None) >= planes.SHORTEST:
        module = planes
    else:
        return None
    return module if takes(x, *[array for array in others if array is not None]) else None


def _viewed(x: Any, layout: Layout) -> Any:
    """x laid out for its statistics, in single precision at least."""
    if x.dtype == np.float16:
        x = x.astype(np.float32)
    return x if layout.view is None else x.reshape(layout.view)


def _broadcastable(w: Any, layout: Layout) -> Any:
    return w if layout.affine is None else w.reshape(layout.affine)


def mean_over(x: Any, axes: tuple[int, ...]) -> Any:
    """The mean over the axes, which are kept."""
    return accurate_sum(x, tuple([axis % x.ndim for axis in axes]), True) / x.dtype.type(count(x.shape, axes))


def _rstd(x: Any, variance: Any, layout: Layout, eps: float) -> Any:
    """``1 / sqrt(variance + eps)``; NaN, not 0, where squares of finite numbers overflowed."""
    overflowed = np.isinf(raw(variance))
    if array_module(x) is np:  # on a GPU infinite x give NaN, too: to look would be to wait
        if overflowed.any():
            overflowed &= np.isfinite(raw(x)).all(axis=layout.axes, keepdims=True)
        if not overflowed.any():
            return 1 / np.sqrt(variance + eps)
    return 1 / np.sqrt(np.where(overflowed, np.nan, variance) + eps)


def _standardized(x: Any, layout: Layout, eps: float) -> tuple[Any, Any, Any]:
    """``(x - mean) * rstd``, mean and rstd."""
    mean = mean_over(x, layout.axes) if layout.centred else None
    y = x - mean if layout.centred else x
    rstd = _rstd(x, mean_over(np.square(y), layout.axes), layout, x.dtype.type(eps))
    return np.multiply(y, rstd, out=y if layout.centred else None), mean, rstd


def _forward(x: Any, w: Any, b: Any, layout: Layout, eps: float) -> tuple[Any, Any, Any]:
    loops = _loops(layout, x, w, b)
    if loops:
        return loops.normalize(x, w, b, eps)
    view = _viewed(x, layout)
    y, mean, rstd = _standardized(view, layout, eps)
    if view.dtype == np.float32 and array_module(x) is np and not np.isfinite(rstd).all():
        # Single precision has no squares of 1e20, double precision has.
        y, mean, rstd = _standardized(view.astype(np.float64), layout, eps)
    if w is not None:
        y *= _broadcastable(w, layout)
    if b is not None:
        y += _broadcastable(b, layout)
    return y.reshape(x.shape).astype(x.dtype, copy=False), mean, rstd


def _backward(
    dy: Any, x: Any, w: Any, b: Any, mean: Any, rstd: Any, layout: Layout, eps: float, wanted: tuple[bool, ...]
) -> tuple[Any, ...]:
    """The gradients of the wanted ones among x, w and b."""
    loops = _loops(layout, x, w, dy)
    if loops:
        found = loops.normalize_backward(dy, x, w, mean, rstd)
        return tuple([gradient for gradient, want in zip(found, wanted, strict=True) if want])
    u = _viewed(dy, layout)
    view = _viewed(x, layout)
    xhat = view - mean if layout.centred else view
    xhat = xhat * rstd
    gradients = []
    if wanted[1]:
        gradients.append(_sum_to(u * xhat, w, layout))
    if wanted[2]:
        gradients.append(_sum_to(u, b, layout))
    if wanted[0]:
        if w is not None:
            u = u * _broadcastable(w, layout)
        xhat *= mean_over(u * xhat, layout.axes)
        du = u - xhat
        if layout.centred:
            du -= mean_over(u, layout.axes)
        du *= rstd
        gradients.insert(0, du.reshape(x.shape).astype(x.dtype, copy=False))
    return tuple(gradients)


def _sum_to(g: Any, w: Any, layout: Layout) -> Any:
    """The gradient of weight or bias: the sum over the axes along which it was broadcast."""
    return unbroadcast(g, layout.affine or w.shape).reshape(w.shape).astype(w.dtype, copy=False)


def _composite(x: Tensor, w: Tensor | None, b: Tensor | None, layout: Layout, eps: float) -> Tensor:
    y = x if layout.view is None else x.reshape(layout.view)
    if layout.centred:
        y = y - y.mean(layout.axes, keepdim=True)
    rstd = _rstd(y, (y * y).mean(layout.axes, keepdim=True), layout, eps)
    if x.array.dtype == np.float32 and not np.isfinite(rstd.array).all():
        return _composite(x.to(np.float64), w, b, layout, eps).to(np.float32)
    y = y * rstd
    if w is not None:
        y = y * _broadcastable(w, layout)
    if b is not None:
        y = y + _broadcastable(b, layout)
    return y.reshape(x.shape)


def _fused(name: str) -> Primitive:
    """The fused operator under a name of its own, for graphs and errors."""
    kernel = Primitive(
        name + "_backward",
        _backward,
        "dy x w b",
        vjp=lambda g, dy, x, w, b, layout, eps, wanted, needs: second_order(
            partial(_composite, layout=layout, eps=eps), g, dy, (x, w, b), wanted, needs
        ),
        outputs=-1,
    )
    return Primitive(
        name,
        _forward,
        "x w b",
        vjp=lambda g, x, w, b, mean, rstd, layout, eps, needs: where_needed(
            kernel(g, x, w, b, mean=mean, rstd=rstd, layout=layout, eps=eps, wanted=needs), needs
        ),
        residuals="mean rstd",
        signals=True,
        piecewise_linear=True,
        contiguous=True,
    )


LAYER_NORM = _fused("layer_norm")
RMS_NORM = _fused("rms_norm")
GROUP_NORM = _fused("group_norm")
BATCH_NORM = _fused("batch_norm")
INSTANCE_NORM = _fused("instance_norm")
