"""Means and p-norms over sliding windows.

Windows are boxes, so sums are computed axis by axis: k + k instead of k * k additions for a window of k x k.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import inf, prod
from typing import Any

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import array_module
from ....core.arrays.dtypes import FLOATING
from ....core.arrays.summation import accurate_sum
from ....core.errors import describe
from ....core.graph.primitive import Primitive, apply, operand
from ....core.tensor.tensor import Tensor, new_tensor
from ....kernels import or_reference
from ....kernels.loops.images import pooling
from ...indexing.selection import where
from ...table.batching import folded
from ...table.registry import operator
from ...table.types import Size
from ..spatial.sliding_windows import Window, axis_taps, for_axes, per_axis, with_batch
from . import tables
from .maximum import maximum_pool
from .sliding import along, real_operand, sliding_windows


def _splits(window: Window, axis: int) -> bool:
    """Return whether the windows partition an axis into long pieces, so that a reshape is faster."""
    length, kernel = window.size[axis], window.kernel[axis]
    return (
        kernel > 4
        and window.stride[axis] == kernel
        and window.padding[axis] == 0
        and window.out[axis] * kernel == length
    )


def _window_sum(x: Array, window: Window) -> Array:
    xp = array_module(x)
    if window.is_partition and prod(window.out) == 1:
        planes = x.reshape((*x.shape[:2], prod(window.size)))
        total: Any = accurate_sum(planes, (2,)) if x.dtype.kind in FLOATING else planes.sum(axis=2)
        return total.reshape((*x.shape[:2], *window.out))
    for axis in reversed(range(len(window.size))):
        place, ndim = axis + 2, x.ndim
        before, after = x.shape[:place], x.shape[place + 1 :]
        if _splits(window, axis):
            x = x.reshape((*before, window.out[axis], window.kernel[axis], *after)).sum(axis=place + 1)
            continue
        total = None
        for _, places, reads in axis_taps(window, axis):
            source = x[along(place, reads, ndim)]
            if total is None:
                if source.shape[place] == window.out[axis]:
                    total = source.copy()
                    continue
                total = xp.zeros((*before, window.out[axis], *after), dtype=x.dtype)
            total[along(place, places, ndim)] += source
        x = xp.zeros((*before, window.out[axis], *after), dtype=x.dtype) if total is None else total
    return x


def _window_sum_transpose(g: Array, window: Window) -> Array:
    xp = array_module(g)
    if window.is_partition and prod(window.out) == 1:
        return xp.broadcast_to(g, (*g.shape[:2], *window.size))
    for axis in range(len(window.size)):
        place, ndim = axis + 2, g.ndim
        if _splits(window, axis):
            g = xp.repeat(g, window.kernel[axis], axis=place)
            continue
        x = xp.zeros(g.shape[:place] + (window.size[axis],) + g.shape[place + 1 :], dtype=g.dtype)
        for _, places, reads in axis_taps(window, axis):
            x[along(place, reads, ndim)] += g[along(place, places, ndim)]
        g = x
    return g


def _by_loops(x: Array, window: Window) -> bool:
    """Return whether to use loops: they read all elements of each window, so windows must be small."""
    return window.out[-1] > 1 and prod(window.kernel) <= 64 and pooling.takes(x, window, pooling.TABLED + 1)


@or_reference
def _mean(x: Array, window: Window, divisor: Array) -> Array:
    if x.dtype == np.float16:
        return _mean(x.astype(np.float32), window, divisor).astype(np.float16)
    places = tables.table(x, window)
    if places is None and _by_loops(x, window):
        return pooling.average_pool(x, window, divisor)
    total = _window_sum(x, window) if places is None else tables.sums(x, places).reshape(*x.shape[:2], *window.out)
    if x.dtype.kind in FLOATING:
        total /= _as_like(divisor, x)
        return total
    return np.trunc(total / _as_like(divisor, x)).astype(x.dtype)


@or_reference
def _mean_transpose(g: Array, window: Window, divisor: Array) -> Array:
    places = tables.table(g, window)
    if places is None and _by_loops(g, window):
        return pooling.average_pool_backward(g, window, divisor)
    shares = g / _as_like(divisor, g)
    return _window_sum_transpose(shares, window) if places is None else tables.spread(shares, places, window)


def _as_like(divisor: object, x: Array) -> Any:
    return array_module(x).asarray(divisor, dtype=x.dtype) if isinstance(divisor, np.ndarray) else divisor


AVG_POOL: Primitive = Primitive(
    "avg_pool",
    _mean,
    "x",
    [lambda g, window, divisor: AVG_POOL_TRANSPOSE(g, window=window, divisor=divisor)],
    piecewise_linear=True,
    batch=folded(),
)
AVG_POOL_TRANSPOSE: Primitive = Primitive(
    "avg_pool_backward",
    _mean_transpose,
    "g",
    [lambda g, window, divisor: AVG_POOL(g, window=window, divisor=divisor)],
    batch=folded(),
)


def _window_lengths(window: Window, axis: int, padded: bool) -> np.ndarray:
    size, p = window.size[axis], window.padding[axis]
    start = np.arange(window.out[axis]) * window.stride[axis] - p
    end = np.minimum(start + window.kernel[axis], size + p)
    return end - start if padded else np.minimum(end, size) - np.maximum(start, 0)


@lru_cache(maxsize=256)
def _divisor(window: Window, count_include_pad: bool) -> float | Array:
    """Return the number of elements that each window averages: a number, or an array if windows differ."""
    counts = np.ones((), np.int64)
    for axis in range(len(window.size)):
        counts = np.multiply.outer(counts, _window_lengths(window, axis, count_include_pad))
    first = float(counts.flat[0]) if counts.size else 1.0
    return first if (counts == first).all() else counts.astype(np.float64)


def average_pool(
    axes: int,
    input: Tensor,
    kernel_size: Size,
    stride: Size | None,
    padding: Size,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None = None,
) -> Tensor:
    """Return the means over windows along the last ``axes`` axes."""
    x, single = with_batch(real_operand(input), axes)
    if x.array.dtype.kind in "iu" and x.array.dtype.itemsize < 8:
        raise NotImplementedError(
            f"not implemented for {x.dtype}: expected a floating or int64 input, got {describe(x)}"
        )
    window = sliding_windows(x, axes, kernel_size, stride, padding, 1, ceil_mode)
    if axes == 3 and any(k > length for k, length in zip(window.kernel, window.size)):
        raise RuntimeError(f"input {describe(x)} is smaller than kernel_size={window.kernel}")
    if divisor_override == 0:
        raise RuntimeError("divisor_override must be not zero")
    divisor = _divisor(window, bool(count_include_pad)) if divisor_override is None else divisor_override
    result = apply(AVG_POOL, (x,), {"window": window, "divisor": divisor})
    return result[0] if single else result


@operator(namespace="nn.functional", method=False, raises="bools or complex, windows")
def avg_pool1d(
    input: Tensor,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """``sum_k input[n, c, t * stride + k - padding] / count``: the mean over windows of one dimension.

    Derivative: each element gets ``g / count`` of every window that reads it.
    Shape: ``(N, C, L)``, or ``(C, L)`` without a batch; per axis ``L' = (L + 2 * padding - kernel_size) // stride +
    1`` windows, with ``ceil_mode`` rounded up.
    Dtype: real floating and int64, preserved; means of integers are rounded towards 0.

    Args:
        kernel_size: the number of elements in a window; one integer.
        padding: the number of zeros added on each side, at most half of the window.
        count_include_pad: whether the count includes the zeros of the padding.

    Raises:
        NotImplementedError: the input holds integers of fewer than 64 bits, bools or complex numbers.

    >>> F.avg_pool1d(rg.tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2)
    tensor([[[2., 1.]]])
    """
    return average_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad)


def _avg_pool(axes: int) -> Callable[..., Tensor]:
    """``sum_k input[n, c, t * stride + k - padding] / count``: the mean over windows of {dimensions}.

    Shape: {input}; per axis
    ``L' = (L + 2 * padding - kernel_size) // stride + 1`` windows, with ``ceil_mode`` rounded up.

    Args:
        kernel_size: the lengths of a window; {integers}, like ``stride`` and ``padding``.
        divisor_override: a divisor instead of the count; not 0.

    Raises:
        NotImplementedError: the input holds integers of fewer than 64 bits, bools or complex numbers.
    """

    def avg_pool(
        input: Tensor,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Tensor:
        return average_pool(axes, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)

    return avg_pool


avg_pool2d, avg_pool3d = for_axes(
    _avg_pool,
    {
        2: """>>> F.avg_pool2d(rg.arange(16.0).reshape(1, 1, 4, 4), 2)
    tensor([[[[ 2.5,  4.5],
              [10.5, 12.5]]]])""",
        3: """>>> F.avg_pool3d(rg.ones(1, 2, 4, 4, 4), 2).shape
    (1, 2, 2, 2, 2)""",
    },
    like=avg_pool1d,
)


def _lp_pool(
    axes: int, input: Tensor, norm_type: float, kernel_size: Size, stride: Size | None, ceil_mode: bool
) -> Tensor:
    x = operand(input)
    if norm_type in (inf, -inf):
        sign = 1 if norm_type > 0 else -1
        return sign * maximum_pool(axes, sign * abs(x), kernel_size, stride, 0, 1, ceil_mode)
    mean = average_pool(axes, x**norm_type, kernel_size, stride, 0, ceil_mode, True)
    total = mean * prod(per_axis("kernel_size", kernel_size, axes, 1))
    # The gradient is 0 where the sum is 0 and the root has no derivative.
    return where(new_tensor(total.array != 0), total, 0.0) ** (1.0 / norm_type)


def _define(axes: int) -> Callable[..., Tensor]:
    """``(sum_k x_k^p)^(1/p)`` over windows of {dimensions}; the largest ``|x_k|`` for p = inf, the smallest for -inf.

    As in PyTorch, the formula has no absolute value: for odd p and negative elements the result is not a norm, and it
    is NaN for a negative sum.

    Derivative: each element gets ``g (x / ans)^(p - 1)`` of every window that reads it, 0 where the sum is 0.
    Shape: {input}; per axis
    ``L' = (L - kernel_size) // stride + 1`` windows, with ``ceil_mode`` rounded up.
    Dtype: real floating; the result has the input's dtype.

    Args:
        norm_type: ``p``.
        kernel_size: the lengths of a window; {integers}, like ``stride``.
    """

    def lp_pool(
        input: Tensor, norm_type: float, kernel_size: Size, stride: Size | None = None, ceil_mode: bool = False
    ) -> Tensor:
        return _lp_pool(axes, input, norm_type, kernel_size, stride, ceil_mode)

    return lp_pool


lp_pool1d, lp_pool2d, lp_pool3d = for_axes(
    _define,
    {
        1: """>>> F.lp_pool1d(rg.tensor([[[3.0, 4.0]]]), 2, 2)
    tensor([[[5.]]])""",
        2: """>>> F.lp_pool2d(rg.ones(1, 1, 2, 2), 2, 2)
    tensor([[[[2.]]]])""",
        3: """>>> F.lp_pool3d(rg.ones(1, 1, 2, 2, 2), 1, 2)
    tensor([[[[[8.]]]]])""",
    },
    raises="windows",
)
