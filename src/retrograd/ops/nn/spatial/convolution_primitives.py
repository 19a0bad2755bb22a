"""The primitives of convolution, in one to three dimensions.

A convolution is linear in its input ``x`` and in its weight ``w``. With a cotangent ``y`` of its result it is one
trilinear form

    T(x, w, y) = sum over n, o, t, c, k of  y[n, o, t] w[o, c, k] x[n, c, t * stride + k * dilation - padding]

(c running over the channels of o's group). Its derivatives by y, x and w are the primitives CONV, CONV_TRANSPOSE and
CONV_WEIGHT, and each one's rules are the other two: every order of derivative is one of these three.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache, wraps
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from ....core.arrays import Array
from ....core.arrays.devices import array_module
from ....core.graph.primitive import Primitive
from ....core.opaque_calls import LoopMissing
from ....kernels import or_reference, takes
from ....kernels.loops.images import convolution
from ....kernels.loops.matrices.products import dot
from ....kernels.loops.statistics import norms
from ...table.batching import fold, unfold
from .windows import Window, gather_windows, scatter_windows

if TYPE_CHECKING:
    from ....core.mapping.batching import Call

FEW = 1 << 14  # numbers in all columns up to which a table of places is the fastest way to them
NARROW, WEIGHTY = 256, 512  # windows of all images at most, and numbers of the weight for each, for one product of all
CACHED = 1 << 20  # bytes of unrolled windows at a time on a CPU: they stay in its cache
UNROLLED = 1 << 30  # the same on a GPU, where one large product is best


class Layout:
    """How the windows of one image are unrolled into a matrix of columns.

    The windows along the first axis overlap as contiguous rows when its stride is 1. So they need not be unrolled
    there: step ``u`` of the kernel reads the same columns, ``u * jump`` places later. This copies the image once per
    offset of the other axes only, and pays where there is much to copy for each channel that comes out.
    """

    def __init__(self, window: Window, channels: int, outs: int) -> None:
        self.window = window
        self.steps = 1
        self.jump = 0
        first = window.kernel[0]
        if window.stride[0] == 1 and first > 1 and channels * prod(window.kernel[1:]) >= outs:
            self.steps = first
            self.jump = window.dilation[0] * prod(window.out[1:])
            reach = window.out[0] + window.dilation[0] * (first - 1)
            self.window = Window(
                window.size,
                (1, *window.kernel[1:]),
                window.stride,
                window.padding,
                window.dilation,
                (reach, *window.out[1:]),
            )
        self.count = prod(window.out)
        self.rows = channels * prod(self.window.kernel)
        self.columns = prod(self.window.out)

    def part(self, columns: Array, step: int) -> Array:
        """The columns that step ``step`` of the kernel reads."""
        return columns[..., step * self.jump : step * self.jump + self.count]


@lru_cache(maxsize=1024)
def _layout(window: Window, channels: int, outs: int) -> Layout:
    return Layout(window, channels, outs)


def _few(x: Array, window: Window) -> bool:
    """Whether all columns of x are few enough numbers to be read by one call."""
    return type(x) is ndarray and 0 < x.shape[0] * x.shape[1] * prod(window.kernel) * prod(window.out) <= FEW


def _columns(x: Array, window: Window, groups: int) -> Any:
    """All columns ``(N, groups, rows, windows)`` of few images."""
    table, padded = _places(x.shape[:2], window, groups)
    if not padded:
        return x.ravel().take(table)
    flat = np.empty(x.size + 1, x.dtype)
    flat[:-1], flat[-1] = x.ravel(), 0
    return flat.take(table)


@lru_cache(maxsize=256)
def _places(planes: tuple[int, int], window: Window, groups: int) -> tuple[Any, bool]:
    """Where columns read in flattened images, -1 where windows leave them; and whether they do."""
    images, channels = planes
    places = np.arange(1, images * channels * prod(window.size) + 1).reshape(images, channels, *window.size)
    columns = np.zeros((images, channels, *window.kernel, *window.out), np.intp)
    gather_windows(places, columns, window)
    table = columns.reshape(images, groups, -1, prod(window.out)) - 1
    table.flags.writeable = False
    return table, bool((table < 0).any())


def _is_narrow(images: int, weights: int, window: Window, groups: int) -> bool:
    """Whether the windows are so few beside the weight that to read this is most of the work."""
    windows = images * prod(window.out)
    return groups == 1 and 0 < windows <= NARROW and weights >= WEIGHTY * windows


def _side_by_side(x: Array, window: Window) -> Any:
    """The columns of all images in one matrix ``(rows, N * windows)``."""
    if len(x) == 1 and _few(x, window):
        return _columns(x, window, 1)[0, 0]
    matrix = array_module(x).zeros((x.shape[1] * prod(window.kernel), len(x) * prod(window.out)), dtype=x.dtype)
    gather_windows(x, _by_image(matrix, len(x), window), window)
    return matrix


def _by_image(matrix: Any, images: int, window: Window) -> Any:
    """A matrix of columns side by side as ``(N, channels, *kernel, *out)``, in its memory."""
    columns = matrix.reshape(-1, *window.kernel, images, *window.out)
    return np.moveaxis(columns, 1 + len(window.kernel), 0)


def _rows_of_channels(y: Array) -> Any:
    """``(N, channels, ...)`` as a matrix with a row for each channel."""
    return np.swapaxes(y, 0, 1).reshape(y.shape[1], -1)


def _blocks(xp: Any, count: int, image_bytes: int) -> Iterator[slice]:
    step = max(1, (CACHED if xp is np else UNROLLED) // max(image_bytes, 1))
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


def _unrolled(x: Array, layout: Layout, groups: int) -> Iterator[tuple[slice, Any]]:
    """Blocks of images with their columns ``(images, groups, rows, columns)``, in a buffer that the next one reuses."""
    xp, n = array_module(x), x.shape[0]
    window = layout.window
    shape = (groups, layout.rows, layout.columns)
    buffer: Any = None
    for images in _blocks(xp, n, prod(shape) * x.itemsize):
        block = x[images]
        if window.is_identity:
            yield images, block.reshape((block.shape[0], *shape))
            continue
        if buffer is None:
            # The places outside of x stay zero from block to block.
            buffer = xp.zeros((block.shape[0], x.shape[1], *window.kernel, *window.out), dtype=x.dtype)
        columns = buffer[: block.shape[0]]
        gather_windows(block, columns, window)
        yield images, columns.reshape((block.shape[0], *shape))


def _matrices(w: Array, layout: Layout, groups: int) -> Array:
    """The weight as matrices ``(steps, groups, outs, rows)``, one per step and group."""
    shape = (groups, w.shape[0] // groups, w.shape[1], layout.steps, -1)
    matrices = np.moveaxis(w.reshape(shape), 3, 0) if w.size else w.reshape((layout.steps, *shape[:3], 0))
    return array_module(w).ascontiguousarray(matrices).reshape((layout.steps, *shape[:2], layout.rows))


def in_single_precision(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Half precision has no fast products, and sums that lose accuracy: such arrays are computed in float32."""

    @wraps(forward)
    def computed(*arrays: Array, **params: Any) -> Any:
        if arrays[0].dtype != np.float16:
            return forward(*arrays, **params)
        return forward(*[array.astype(np.float32) for array in arrays], **params).astype(np.float16)

    return computed


def _flat(x: Array) -> Any:
    """The arrays of a stack as rows."""
    return x.reshape(len(x), prod(x.shape[1:]))


@in_single_precision
@or_reference
def _conv(x: Array, w: Array, b: Array | None = None, *, window: Window, groups: int) -> Array:
    """T by y: the convolution."""
    n, outs = x.shape[0], w.shape[0]
    if groups == 1 and window.is_whole:
        out = dot(_flat(x), _flat(w).T)
        return (out if b is None else out + b).reshape(n, outs, *window.out)
    if _is_narrow(n, w.size, window, groups):
        out = dot(_flat(w), _side_by_side(x, window))
        if b is not None:
            out += b[:, None]
        return array_module(x).ascontiguousarray(np.swapaxes(out.reshape(outs, n, *window.out), 0, 1))
    if convolution.takes(x, w, n * prod(window.out) * w.size):
        return convolution.forward(x, w, b, window, groups)
    if outs and _few(x, window):
        products = np.matmul(w.reshape(groups, outs // groups, -1), _columns(x, window, groups))
        out = products.reshape(n, outs, *window.out)
        if b is not None:
            out += b.reshape((-1,) + (1,) * len(window.out))
        return out
    out = array_module(x).empty((n, outs, *window.out), dtype=x.dtype)
    if out.size == 0:
        return out
    layout = _layout(window, w.shape[1], outs // groups)
    matrices = _matrices(w, layout, groups)
    results = out.reshape((n, groups, outs // groups, layout.count))
    for images, columns in _unrolled(x, layout, groups):
        result = results[images]
        np.matmul(matrices[0], layout.part(columns, 0), out=result)
        for step in range(1, layout.steps):
            result += np.matmul(matrices[step], layout.part(columns, step))
        if b is not None:
            result += b.reshape((groups, -1, 1))
    return out


@lru_cache(maxsize=1024)
def _mirrored(window: Window) -> Window:
    """The windows of the transpose, where these have a stride of 1."""
    padding = tuple([d * (k - 1) - p for d, k, p in zip(window.dilation, window.kernel, window.padding)])
    return Window(window.out, window.kernel, window.stride, padding, window.dilation, window.size)


@in_single_precision
@or_reference
def _conv_transpose(y: Array, w: Array, b: Array | None = None, *, window: Window, groups: int) -> Array:
    """T by x: what each element of y had read gets it back."""
    n, outs = y.shape[:2]
    channels = w.shape[1]
    outs_per_group = outs // groups
    if groups == 1 and window.is_whole:
        x = dot(_flat(y), _flat(w)).reshape(n, channels, *window.size)
        return x if b is None else x + b.reshape((-1,) + (1,) * len(window.size))
    if _is_narrow(n, w.size, window, groups):
        x = array_module(y).zeros((n, channels, *window.size), dtype=y.dtype)
        columns = _by_image(dot(_flat(w).T, _rows_of_channels(y)), n, window)
        scatter_windows(columns, x, window)
        return x if b is None else x + b.reshape((-1,) + (1,) * len(window.size))
    # Where the windows are few, most of what the mirrored kernel reads is padding.
    alike = prod(window.size) <= 2 * prod(window.out)
    if set(window.stride) == {1} and outs_per_group <= 4 * channels and alike:
        # The same as a convolution of y with the kernel mirrored, inputs and outputs exchanged.
        w = w[(slice(None), slice(None), *[slice(None, None, -1)] * len(window.kernel))]
        w = np.swapaxes(w.reshape((groups, outs_per_group, channels, *window.kernel)), 1, 2)
        w = w.reshape((groups * channels, outs_per_group, *window.kernel))
        return _conv(y, w, b, window=_mirrored(window), groups=groups)
    if convolution.takes(y, w, n * prod(window.out) * w.size):
        return convolution.transposed(y, w, b, window, groups)
    xp = array_module(y)
    x = xp.zeros((n, groups * channels, *window.size), dtype=y.dtype)
    if y.size and x.size:
        layout = _layout(window, channels, outs_per_group)
        matrices = np.swapaxes(_matrices(w, layout, groups), -1, -2)
        y = y.reshape((n, groups, outs_per_group, layout.count))
        shape = (groups, layout.rows, layout.columns)
        for images in _blocks(xp, n, prod(shape) * y.itemsize):
            block = y[images]
            if layout.steps == 1:
                columns = np.matmul(matrices[0], block)
            else:
                columns = xp.zeros((block.shape[0], *shape), dtype=y.dtype)
                for step in range(layout.steps):
                    part = layout.part(columns, step)
                    part += np.matmul(matrices[step], block)
            inner = layout.window
            columns = columns.reshape((block.shape[0], groups * channels, *inner.kernel, *inner.out))
            scatter_windows(columns, x[images], inner)
    if b is not None:
        x += b.reshape((-1,) + (1,) * len(window.size))
    return x


@in_single_precision
@or_reference
def _conv_weight(x: Array, y: Array, *, window: Window, groups: int) -> Array:
    """T by w: the correlation of x and y, summed over the batch."""
    n, outs = y.shape[:2]
    channels, outs_per_group = x.shape[1] // groups, outs // groups
    if groups == 1 and window.is_whole:
        return dot(_flat(y).T, _flat(x)).reshape(outs, channels, *window.kernel)
    if _is_narrow(n, outs * channels * prod(window.kernel), window, groups):
        product = dot(_rows_of_channels(y), _side_by_side(x, window).T)
        return product.reshape(outs, channels, *window.kernel)
    if convolution.takes(x, y, y.size * channels * prod(window.kernel)):
        return convolution.weight(x, y, window, groups)
    if outs and _few(x, window):
        columns = np.swapaxes(_columns(x, window, groups), -1, -2)
        products = np.matmul(y.reshape(n, groups, outs_per_group, -1), columns)
        return (products[0] if n == 1 else products.sum(axis=0)).reshape((outs, channels, *window.kernel))
    layout = _layout(window, channels, outs_per_group)
    total = array_module(x).zeros((layout.steps, groups, outs_per_group, layout.rows), dtype=x.dtype)
    if y.size and x.size:
        y = y.reshape((n, groups, outs_per_group, layout.count))
        for images, columns in _unrolled(x, layout, groups):
            block = y[images]
            for step in range(layout.steps):
                product = np.matmul(block, np.swapaxes(layout.part(columns, step), -1, -2))
                total[step] += product[0] if product.shape[0] == 1 else product.sum(axis=0)
    if layout.steps > 1:
        total = np.moveaxis(total.reshape((layout.steps, outs, channels, -1)), 0, 2)
    return total.reshape((outs, channels, *window.kernel))


def _as_channels(t: Array, window: Window) -> Array:
    """What the tangent of a bias adds to every place of its channel."""
    return t.reshape((t.shape[0],) + (1,) * len(window.out))


def _over_channels(g: Array, window: Window) -> Any:
    """The cotangent of a bias: the sum over everything but its channel."""
    if takes(g) and prod(g.shape[2:]) >= norms.SHORTEST:
        with suppress(LoopMissing):
            return norms.channel_sums(g)
    sums = g.reshape((g.shape[0], g.shape[1], prod(g.shape[2:]))).sum(axis=2)
    return sums.reshape(sums.shape[1:]) if len(sums) == 1 else sums.sum(axis=0)


def _conv_examples(call: Call) -> Any:
    """More images of one convolution, or, where the kernels differ, more groups of channels."""
    return _linear_examples(call, CONV)


def _transpose_examples(call: Call) -> Any:
    return _linear_examples(call, CONV_TRANSPOSE)


def _linear_examples(call: Call, without_bias: Primitive) -> Any:
    if not call.size:
        return call.of_no_example()
    size, groups = call.size, call.params["groups"]
    x, w, *b = call.values
    # A bias that differs while the kernels do not, or the other way round, is added apart.
    apart = bool(b) and call.mapped[2] is not call.mapped[1]
    primitive = without_bias if apart else call.primitive
    if call.mapped[1]:
        shared = without_bias is CONV and not call.mapped[0] and groups == 1  # all kernels read one image
        bias = [] if apart else [fold(z) for z in b]
        params = {**call.params, "groups": 1 if shared else groups * size}
        out = unfold(call.below([x if shared else fold(call.full(0), 1), fold(w), *bias], params, primitive), 1, size)
    else:
        out = unfold(call.below([fold(call.full(0)), w, *([] if apart else b)], None, primitive), 0, size)
    if apart:
        out = out + b[0].reshape((size if call.mapped[2] else 1, 1, -1) + (1,) * (out.ndim - 3))
    return out


def _weight_examples(call: Call) -> Any:
    """A weight per example: that of a convolution with as many groups more."""
    if not call.size:
        return call.of_no_example()
    params = {**call.params, "groups": call.params["groups"] * call.size}
    return unfold(call.below([fold(call.full(0), 1), fold(call.full(1), 1)], params), 0, call.size)


_CONV_VJPS = [
    lambda g, w, window, groups: CONV_TRANSPOSE(g, w, window=window, groups=groups),
    lambda g, x, window, groups: CONV_WEIGHT(x, g, window=window, groups=groups),
]
_TRANSPOSE_VJPS = [
    lambda g, w, window, groups: CONV(g, w, window=window, groups=groups),
    lambda g, y, window, groups: CONV_WEIGHT(g, y, window=window, groups=groups),
]
# They are linear in each input.
_CONV_JVPS = [
    lambda t, w, window, groups: CONV(t, w, window=window, groups=groups),
    lambda t, x, window, groups: CONV(x, t, window=window, groups=groups),
]
_TRANSPOSE_JVPS = [
    lambda t, w, window, groups: CONV_TRANSPOSE(t, w, window=window, groups=groups),
    lambda t, y, window, groups: CONV_TRANSPOSE(y, t, window=window, groups=groups),
]


def _conv_shape(
    make: Callable[..., ndarray], x: ndarray, w: ndarray, b: ndarray | None = None, *, window: Window, groups: int
) -> ndarray:
    return make((x.shape[0], w.shape[0], *window.out), x.dtype)


def _transpose_shape(
    make: Callable[..., ndarray], y: ndarray, w: ndarray, b: ndarray | None = None, *, window: Window, groups: int
) -> ndarray:
    return make((y.shape[0], groups * w.shape[1], *window.size), y.dtype)


CONV: Primitive = Primitive(
    "convolution",
    _conv,
    "x w",
    _CONV_VJPS,
    jvps=_CONV_JVPS,
    promote="strict",
    piecewise_linear=True,
    batch=_conv_examples,
    shaped=_conv_shape,
)
CONV_BIAS: Primitive = Primitive(
    "convolution",
    _conv,
    "x w b",
    [*_CONV_VJPS, _over_channels],
    jvps=[*_CONV_JVPS, _as_channels],
    promote="strict",
    piecewise_linear=True,
    batch=_conv_examples,
    shaped=_conv_shape,
)
CONV_TRANSPOSE: Primitive = Primitive(
    "convolution_transpose",
    _conv_transpose,
    "y w",
    _TRANSPOSE_VJPS,
    jvps=_TRANSPOSE_JVPS,
    promote="strict",
    piecewise_linear=True,
    batch=_transpose_examples,
    shaped=_transpose_shape,
)
CONV_TRANSPOSE_BIAS: Primitive = Primitive(
    "convolution_transpose",
    _conv_transpose,
    "y w b",
    [*_TRANSPOSE_VJPS, _over_channels],
    jvps=[*_TRANSPOSE_JVPS, _as_channels],
    promote="strict",
    piecewise_linear=True,
    batch=_transpose_examples,
    shaped=_transpose_shape,
)
CONV_WEIGHT: Primitive = Primitive(
    "convolution_weight",
    _conv_weight,
    "x y",
    [
        lambda g, y, window, groups: CONV_TRANSPOSE(y, g, window=window, groups=groups),
        lambda g, x, window, groups: CONV(x, g, window=window, groups=groups),
    ],
    jvps=[
        lambda t, y, window, groups: CONV_WEIGHT(t, y, window=window, groups=groups),
        lambda t, x, window, groups: CONV_WEIGHT(x, t, window=window, groups=groups),
    ],
    promote="strict",
    batch=_weight_examples,
)
