"""The primitives of convolution, in one to three dimensions.

A convolution is linear in its input ``x`` and in its weight ``w``. With a cotangent ``y`` of the result it is a
trilinear form

    T(x, w, y) = sum over n, o, t, c, k of  y[n, o, t] w[o, c, k] x[n, c, t * stride + k * dilation - padding]

(c runs over the channels of o's group). Its derivatives with respect to y, x and w are the primitives CONV,
CONV_TRANSPOSE and CONV_WEIGHT, and the rules of each primitive are the other two, for any order of derivative.
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
from ....core.arrays.dtypes import float32
from ....core.arrays.layout import cast
from ....core.graph.primitive import Primitive
from ....core.opaque_calls import LoopMissing
from ....kernels import or_reference, takes, takes_halves
from ....kernels.loops.images import convolution
from ....kernels.loops.matrices import pairs
from ....kernels.loops.matrices.products import dot
from ....kernels.loops.statistics import norms
from ...table.batching import fold, unfold
from .sliding_windows import Window, gather_windows, scatter_windows

if TYPE_CHECKING:
    from ....core.mapping.batching import Call

FEW = 1 << 14  # up to this number of elements in all columns, gathering by a table of positions is fastest
# One product is used for at most NARROW windows and at least WEIGHTY weights per window.
NARROW, WEIGHTY = 256, 512
Forward = Callable[..., Array]
CACHED = 1 << 20  # bytes of columns per block on a CPU, which fit in the cache
UNROLLED = 1 << 30  # bytes of columns per block on a GPU, where one large product is fastest


class Layout:
    """The layout of the columns to which the windows of one image are unrolled.

    If the first axis has stride 1, its windows overlap as contiguous rows and need not be unrolled along that axis:
    step ``u`` of the kernel reads the same columns with an offset of ``u * jump``. The image is then copied only once
    per offset of the other axes, which is faster if there are few output channels.
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
        """Return the columns that step ``step`` of the kernel reads."""
        return columns[..., step * self.jump : step * self.jump + self.count]


@lru_cache(maxsize=1024)
def _layout(window: Window, channels: int, outs: int) -> Layout:
    return Layout(window, channels, outs)


def _few(x: Array, window: Window) -> bool:
    return type(x) is ndarray and 0 < x.shape[0] * x.shape[1] * prod(window.kernel) * prod(window.out) <= FEW


def _columns(x: Array, window: Window, groups: int) -> Array:
    table, padded = _column_indices(x.shape[:2], window, groups)
    if not padded:
        return x.ravel().take(table)
    flat = np.empty(x.size + 1, x.dtype)
    flat[:-1], flat[-1] = x.ravel(), 0
    return flat.take(table)


@lru_cache(maxsize=256)
def _column_indices(planes: tuple[int, int], window: Window, groups: int) -> tuple[Array, bool]:
    """Return positions of columns in flattened images, -1 for padding, and whether there is padding."""
    images, channels = planes
    places = np.arange(1, images * channels * prod(window.size) + 1).reshape(images, channels, *window.size)
    columns = np.zeros((images, channels, *window.kernel, *window.out), np.intp)
    gather_windows(places, columns, window)
    table = columns.reshape(images, groups, -1, prod(window.out)) - 1
    table.flags.writeable = False
    return table, bool((table < 0).any())


def _is_narrow(images: int, weights: int, window: Window, groups: int) -> bool:
    windows = images * prod(window.out)
    return groups == 1 and 0 < windows <= NARROW and weights >= WEIGHTY * windows


def _side_by_side(x: Array, window: Window) -> Any:
    """Return the columns of all images in one matrix ``(rows, N * windows)``."""
    if len(x) == 1 and _few(x, window):
        return _columns(x, window, 1)[0, 0]
    matrix = array_module(x).zeros((x.shape[1] * prod(window.kernel), len(x) * prod(window.out)), dtype=x.dtype)
    gather_windows(x, _by_image(matrix, len(x), window), window)
    return matrix


def _by_image(matrix: Array, images: int, window: Window) -> Array:
    """Return a matrix of concatenated columns as a view ``(N, channels, *kernel, *out)``."""
    columns = matrix.reshape(-1, *window.kernel, images, *window.out)
    return np.moveaxis(columns, 1 + len(window.kernel), 0)


def _rows_of_channels(y: Array) -> Array:
    return np.swapaxes(y, 0, 1).reshape(y.shape[1], -1)


def _blocks(xp: object, count: int, image_bytes: int) -> Iterator[slice]:
    step = max(1, (CACHED if xp is np else UNROLLED) // max(image_bytes, 1))
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


def _unrolled(x: Array, layout: Layout, groups: int) -> Iterator[tuple[slice, Any]]:
    """Yield blocks of images with their columns ``(images, groups, rows, columns)``, in a reused buffer."""
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
            # Elements outside of x are 0 and are not overwritten by later blocks.
            buffer = xp.zeros((block.shape[0], x.shape[1], *window.kernel, *window.out), dtype=x.dtype)
        columns = buffer[: block.shape[0]]
        gather_windows(block, columns, window)
        yield images, columns.reshape((block.shape[0], *shape))


def _matrices(w: Array, layout: Layout, groups: int) -> Array:
    shape = (groups, w.shape[0] // groups, w.shape[1], layout.steps, -1)
    matrices = np.moveaxis(w.reshape(shape), 3, 0) if w.size else w.reshape((layout.steps, *shape[:3], 0))
    return array_module(w).ascontiguousarray(matrices).reshape((layout.steps, *shape[:2], layout.rows))


def in_single_precision(by_pairs: Callable[..., Array | None] | None = None) -> Callable[[Forward], Forward]:
    """Wrap a forward so that half precision is computed in float32, where products are faster and sums accurate.

    ``by_pairs`` multiplies bfloat16, or returns None where float32 is faster for the size or the processor.
    """

    def decorate(forward: Forward) -> Forward:
        @wraps(forward)
        def computed(*arrays: Array, **params: object) -> Array:
            kind = arrays[0].dtype
            if kind.char not in "eE":
                return forward(*arrays, **params)
            if kind.char == "E" and by_pairs is not None:
                with suppress(LoopMissing):
                    found = by_pairs(*arrays, **params)
                    if found is not None:
                        return found
            return cast(forward(*[cast(array, float32) for array in arrays], **params), kind)

        return computed

    return decorate


def _flat(x: Array) -> Any:
    return x.reshape(len(x), prod(x.shape[1:]))


def _conv_by_pairs(x: Array, w: Array, b: Array | None = None, *, window: Window, groups: int) -> Array | None:
    if groups == 1 and window.is_whole:
        return pairs.dot(_flat(x), _flat(w).T, b).reshape(len(x), len(w), *window.out)
    if convolution.takes_pairs(x, w, w.shape[1], len(x) * prod(window.out) * w.size):
        return convolution.forward(x, w, b, window, groups)
    return None


@in_single_precision(_conv_by_pairs)
@or_reference
def _conv(x: Array, w: Array, b: Array | None = None, *, window: Window, groups: int) -> Array:
    """The derivative of T with respect to y: the convolution."""
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
    padding = tuple([d * (k - 1) - p for d, k, p in zip(window.dilation, window.kernel, window.padding)])
    return Window(window.out, window.kernel, window.stride, padding, window.dilation, window.size)


def _mirrors(window: Window, channels: int, outs: int) -> bool:
    """Return whether the transpose is computed as a convolution with the mirrored kernel, with the channels swapped."""
    # With few windows, the mirrored kernel would read mostly padding.
    alike = prod(window.size) <= 2 * prod(window.out)
    return set(window.stride) == {1} and outs <= 4 * channels and alike


def _mirrored_weight(w: Array, groups: int) -> Array:
    outs, channels, *kernel = w.shape
    w = w[(slice(None), slice(None), *[slice(None, None, -1)] * len(kernel))]
    w = np.swapaxes(w.reshape((groups, outs // groups, channels, *kernel)), 1, 2)
    return w.reshape((groups * channels, outs // groups, *kernel))


def _transpose_by_pairs(y: Array, w: Array, b: Array | None = None, *, window: Window, groups: int) -> Array | None:
    outs = len(w) // groups
    if groups == 1 and window.is_whole and b is None:
        return pairs.dot(_flat(y), _flat(w)).reshape(len(y), w.shape[1], *window.size)
    if not convolution.takes_pairs(y, w, outs, len(y) * prod(window.out) * w.size):
        return None
    if _mirrors(window, w.shape[1], outs):
        return convolution.forward(y, _mirrored_weight(w, groups), b, _mirrored(window), groups)
    return convolution.transposed(y, w, b, window, groups)


@in_single_precision(_transpose_by_pairs)
@or_reference
def _conv_transpose(y: Array, w: Array, b: Array | None = None, *, window: Window, groups: int) -> Array:
    """The derivative of T with respect to x: each element of y adds to the elements that its window reads."""
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
    if _mirrors(window, channels, outs_per_group):
        return _conv(y, _mirrored_weight(w, groups), b, window=_mirrored(window), groups=groups)
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


def _weight_by_pairs(x: Array, y: Array, *, window: Window, groups: int) -> Array | None:
    channels, outs = x.shape[1] // groups, y.shape[1]
    if groups == 1 and window.is_whole:
        return pairs.dot(_flat(y).T, _flat(x)).reshape(outs, channels, *window.kernel)
    if convolution.takes_pairs(x, y, channels, y.size * channels * prod(window.kernel)):
        return convolution.weight(x, y, window, groups)
    return None


@in_single_precision(_weight_by_pairs)
@or_reference
def _conv_weight(x: Array, y: Array, *, window: Window, groups: int) -> Array:
    """The derivative of T with respect to w: the correlation of x and y, summed over the batch."""
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
    """Return the tangent of a bias, broadcast over its channel."""
    return t.reshape((t.shape[0],) + (1,) * len(window.out))


def _over_channels(g: Array, window: Window) -> Array:
    """Return the cotangent of a bias: the sum over all axes but its channel."""
    half = type(g) is ndarray and g.dtype.char == "E"
    if (takes(g) or half and takes_halves(g)) and prod(g.shape[2:]) >= norms.SHORTEST:
        with suppress(LoopMissing):
            return norms.channel_sums(g)
    if half:
        g = cast(g, float32)
    sums = g.reshape((g.shape[0], g.shape[1], prod(g.shape[2:]))).sum(axis=2)
    return sums.reshape(sums.shape[1:]) if len(sums) == 1 else sums.sum(axis=0)


def _linear_examples(call: Call, without_bias: Primitive) -> Any:
    """Batch by additional images of one convolution, or, if kernels differ, by additional groups of channels."""
    if not call.size:
        return call.of_no_example()
    size, groups = call.size, call.params["groups"]
    x, w, *b = call.values
    # If only the bias or only the kernels are mapped, the bias is added separately.
    apart = bool(b) and call.mapped[2] is not call.mapped[1]
    primitive = without_bias if apart else call.primitive
    if call.mapped[1]:
        shared = without_bias is CONV and not call.mapped[0] and groups == 1  # all kernels read the same image
        bias = [] if apart else [fold(z) for z in b]
        params = {**call.params, "groups": 1 if shared else groups * size}
        out = unfold(call.below([x if shared else fold(call.full(0), 1), fold(w), *bias], params, primitive), 1, size)
    else:
        out = unfold(call.below([fold(call.full(0)), w, *([] if apart else b)], None, primitive), 0, size)
    if apart:
        out = out + b[0].reshape((size if call.mapped[2] else 1, 1, -1) + (1,) * (out.ndim - 3))
    return out


def _weight_examples(call: Call) -> Any:
    """Batch by additional groups of one convolution, since each example has its own weight gradient."""
    if not call.size:
        return call.of_no_example()
    params = {**call.params, "groups": call.params["groups"] * call.size}
    return unfold(call.below([fold(call.full(0), 1), fold(call.full(1), 1)], params), 0, call.size)


def _conv_shape(
    make: Callable[..., ndarray], x: ndarray, w: ndarray, b: ndarray | None = None, *, window: Window, groups: int
) -> ndarray:
    return make((x.shape[0], w.shape[0], *window.out), x.dtype)


def _transpose_shape(
    make: Callable[..., ndarray], y: ndarray, w: ndarray, b: ndarray | None = None, *, window: Window, groups: int
) -> ndarray:
    return make((y.shape[0], groups * w.shape[1], *window.size), y.dtype)


def _with_and_without_bias(
    name: str,
    forward: Callable[..., Any],
    inputs: str,
    vjps: list[Callable[..., Any]],
    jvps: list[Callable[..., Any]],
    batch: Callable[[Call], Any],
    shaped: Callable[..., ndarray],
) -> tuple[Primitive, Primitive]:
    options: dict[str, Any] = {"promote": "strict", "piecewise_linear": True, "batch": batch, "shaped": shaped}
    options["halves"] = forward
    with_bias = Primitive(name, forward, f"{inputs} b", [*vjps, _over_channels], jvps=[*jvps, _as_channels], **options)
    return Primitive(name, forward, inputs, vjps, jvps=jvps, **options), with_bias


# The three primitives are linear in each input.
CONV: Primitive
CONV_TRANSPOSE: Primitive
CONV, CONV_BIAS = _with_and_without_bias(
    "convolution",
    _conv,
    "x w",
    [
        lambda g, w, window, groups: CONV_TRANSPOSE(g, w, window=window, groups=groups),
        lambda g, x, window, groups: CONV_WEIGHT(x, g, window=window, groups=groups),
    ],
    [
        lambda t, w, window, groups: CONV(t, w, window=window, groups=groups),
        lambda t, x, window, groups: CONV(x, t, window=window, groups=groups),
    ],
    lambda call: _linear_examples(call, CONV),
    _conv_shape,
)
CONV_TRANSPOSE, CONV_TRANSPOSE_BIAS = _with_and_without_bias(
    "convolution_transpose",
    _conv_transpose,
    "y w",
    [
        lambda g, w, window, groups: CONV(g, w, window=window, groups=groups),
        lambda g, y, window, groups: CONV_WEIGHT(g, y, window=window, groups=groups),
    ],
    [
        lambda t, w, window, groups: CONV_TRANSPOSE(t, w, window=window, groups=groups),
        lambda t, y, window, groups: CONV_TRANSPOSE(y, t, window=window, groups=groups),
    ],
    lambda call: _linear_examples(call, CONV_TRANSPOSE),
    _transpose_shape,
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
    halves=_conv_weight,
)
