"""Convolutions in one to three dimensions, and their transposes.

A convolution is linear in its input ``x`` and in its weight ``w``. With a cotangent ``y`` of its result it is one
trilinear form

    T(x, w, y) = sum over n, o, t, c, k of  y[n, o, t] w[o, c, k] x[n, c, t * stride + k * dilation - padding]

(c running over the channels of o's group). Its derivatives by y, x and w are the primitives CONV, CONV_TRANSPOSE and
CONV_WEIGHT, and each one's rules are the other two: every order of derivative is one of these three.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, wraps
from math import prod
from typing import Any

import numpy as np

from ....core.devices import array_module
from ....core.errors import describe
from ....core.primitive import Primitive, apply, operand
from ....core.tensor import Tensor
from ...table.registry import operator
from .patches import Window, gather_windows, per_axis, scatter_windows, with_batch

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

    def part(self, columns: Any, step: int) -> Any:
        """The columns that step ``step`` of the kernel reads."""
        return columns[..., step * self.jump : step * self.jump + self.count]


@lru_cache(maxsize=1024)
def _layout(window: Window, channels: int, outs: int) -> Layout:
    return Layout(window, channels, outs)


def _blocks(xp: Any, count: int, image_bytes: int) -> Iterator[slice]:
    step = max(1, (CACHED if xp is np else UNROLLED) // max(image_bytes, 1))
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


def _unrolled(x: Any, layout: Layout, groups: int) -> Iterator[tuple[slice, Any]]:
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


def _matrices(w: Any, layout: Layout, groups: int) -> Any:
    """The weight as matrices ``(steps, groups, outs, rows)``, one per step and group."""
    shape = (groups, w.shape[0] // groups, w.shape[1], layout.steps, -1)
    matrices = np.moveaxis(w.reshape(shape), 3, 0) if w.size else w.reshape((layout.steps, *shape[:3], 0))
    return array_module(w).ascontiguousarray(matrices).reshape((layout.steps, *shape[:2], layout.rows))


def _in_single_precision(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Half precision has no fast products, and sums that lose accuracy: such arrays are computed in float32."""

    @wraps(forward)
    def computed(*arrays: Any, **params: Any) -> Any:
        if arrays[0].dtype != np.float16:
            return forward(*arrays, **params)
        return forward(*[array.astype(np.float32) for array in arrays], **params).astype(np.float16)

    return computed


@_in_single_precision
def _conv(x: Any, w: Any, b: Any = None, *, window: Window, groups: int) -> Any:
    """T by y: the convolution."""
    n, outs = x.shape[0], w.shape[0]
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


@_in_single_precision
def _conv_transpose(y: Any, w: Any, b: Any = None, *, window: Window, groups: int) -> Any:
    """T by x: what each element of y had read gets it back."""
    n, outs = y.shape[:2]
    channels = w.shape[1]
    spread = outs // groups
    if set(window.stride) == {1} and spread <= 4 * channels:
        # The same as a convolution of y with the kernel mirrored, inputs and outputs exchanged.
        padding = tuple([d * (k - 1) - p for d, k, p in zip(window.dilation, window.kernel, window.padding)])
        mirrored = Window(window.out, window.kernel, window.stride, padding, window.dilation, window.size)
        w = w[(slice(None), slice(None), *[slice(None, None, -1)] * len(window.kernel))]
        w = np.swapaxes(w.reshape((groups, spread, channels, *window.kernel)), 1, 2)
        w = w.reshape((groups * channels, spread, *window.kernel))
        return _conv(y, w, b, window=mirrored, groups=groups)
    xp = array_module(y)
    x = xp.zeros((n, groups * channels, *window.size), dtype=y.dtype)
    if y.size and x.size:
        layout = _layout(window, channels, spread)
        matrices = np.swapaxes(_matrices(w, layout, groups), -1, -2)
        y = y.reshape((n, groups, spread, layout.count))
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


@_in_single_precision
def _conv_weight(x: Any, y: Any, *, window: Window, groups: int) -> Any:
    """T by w: the correlation of x and y, summed over the batch."""
    n, outs = y.shape[:2]
    channels, spread = x.shape[1] // groups, outs // groups
    layout = _layout(window, channels, spread)
    total = array_module(x).zeros((layout.steps, groups, spread, layout.rows), dtype=x.dtype)
    if y.size and x.size:
        y = y.reshape((n, groups, spread, layout.count))
        for images, columns in _unrolled(x, layout, groups):
            block = y[images]
            for step in range(layout.steps):
                product = np.matmul(block, np.swapaxes(layout.part(columns, step), -1, -2))
                total[step] += product[0] if product.shape[0] == 1 else product.sum(axis=0)
    if layout.steps > 1:
        total = np.moveaxis(total.reshape((layout.steps, outs, channels, -1)), 0, 2)
    return total.reshape((outs, channels, *window.kernel))


def _over_channels(g: Any) -> Any:
    """The cotangent of a bias: the sum over everything but its channel."""
    return g.reshape((g.shape[0], g.shape[1], prod(g.shape[2:]))).sum(axis=2).sum(axis=0)


_CONV_VJPS = [
    lambda g, w, window, groups: CONV_TRANSPOSE(g, w, window=window, groups=groups),
    lambda g, x, window, groups: CONV_WEIGHT(x, g, window=window, groups=groups),
]
_TRANSPOSE_VJPS = [
    lambda g, w, window, groups: CONV(g, w, window=window, groups=groups),
    lambda g, y, window, groups: CONV_WEIGHT(g, y, window=window, groups=groups),
]
CONV: Primitive = Primitive("convolution", _conv, "x w", _CONV_VJPS, promote="strict")
CONV_BIAS: Primitive = Primitive("convolution", _conv, "x w b", [*_CONV_VJPS, _over_channels], promote="strict")
CONV_TRANSPOSE: Primitive = Primitive(
    "convolution_transpose", _conv_transpose, "y w", _TRANSPOSE_VJPS, promote="strict"
)
CONV_TRANSPOSE_BIAS: Primitive = Primitive(
    "convolution_transpose", _conv_transpose, "y w b", [*_TRANSPOSE_VJPS, _over_channels], promote="strict"
)
CONV_WEIGHT: Primitive = Primitive(
    "convolution_weight",
    _conv_weight,
    "x y",
    [
        lambda g, y, window, groups: CONV_TRANSPOSE(y, g, window=window, groups=groups),
        lambda g, x, window, groups: CONV(x, g, window=window, groups=groups),
    ],
    promote="strict",
)


# The public functions


def _operands(
    axes: int, input: Any, weight: Any, bias: Any, groups: int, transposed: bool
) -> tuple[Tensor, Tensor, Tensor | None, bool]:
    """The checked operands, the input with a batch axis, and whether it had none."""
    x, single = with_batch(operand(input), axes)
    w = operand(weight, "weight")
    if w.array.ndim != axes + 2:
        raise RuntimeError(f"expected a {axes + 2}D weight for input {describe(input)}, but got {describe(w)}")
    if groups < 1:
        raise RuntimeError(f"non-positive groups is not supported, got {groups}")
    first, second = w.array.shape[:2]
    if first < groups or first % groups:
        raise RuntimeError(
            f"given groups={groups}, expected weight to be divisible by {groups} at dimension 0, and at least "
            f"that long, but got {describe(w)}"
        )
    wanted = first if transposed else second * groups
    if x.array.shape[1] != wanted:
        raise RuntimeError(
            f"given groups={groups} and weight {describe(w)}, expected input to have {wanted} channels, "
            f"but got {describe(input)}"
        )
    if bias is None:
        return x, w, None, single
    b = operand(bias, "bias")
    channels = second * groups if transposed else first
    if b.array.shape != (channels,):
        raise RuntimeError(
            f"given weight {describe(w)}, expected bias to be 1-dimensional with {channels} elements, "
            f"but got {describe(b)}"
        )
    return x, w, b, single


def _recorded(
    plain: Primitive, biased: Primitive, x: Tensor, w: Tensor, b: Tensor | None, single: bool, params: dict[str, Any]
) -> Tensor:
    result = apply(plain, (x, w), params) if b is None else apply(biased, (x, w, b), params)
    return result[0] if single else result


def _convolve(
    name: str, axes: int, input: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Tensor:
    x, w, b, single = _operands(axes, input, weight, bias, groups, False)
    size, kernel = tuple(x.array.shape[2:]), tuple(w.array.shape[2:])
    strides = per_axis("stride", stride, axes, 1)
    dilations = per_axis("dilation", dilation, axes, 1)
    reach = tuple([d * (k - 1) for d, k in zip(dilations, kernel)])
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise RuntimeError(f"invalid padding string {padding!r}; wanted 'same' or 'valid'")
        if padding == "same" and max(strides) > 1:
            raise RuntimeError(f"padding='same' is not supported for strided convolutions, got stride={strides}")
        total = reach if padding == "same" else (0,) * axes
        paddings = tuple([p // 2 for p in total])
    else:
        paddings = per_axis("padding", padding, axes, 0)
        total = tuple([2 * p for p in paddings])
    out = tuple([(length + p - r - 1) // s + 1 for length, p, r, s in zip(size, total, reach, strides)])
    if min(out) < 1 or 0 in kernel:
        raise RuntimeError(
            f"calculated padded input size {tuple(length + p for length, p in zip(size, total))} for input "
            f"{describe(input)}; the kernel of {describe(w)} with dilation={dilations} can't be greater, or empty"
        )
    window = Window(size, kernel, strides, paddings, dilations, out)
    return _recorded(CONV, CONV_BIAS, x, w, b, single, {"window": window, "groups": groups})


def _convolve_transposed(
    axes: int,
    input: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Tensor:
    y, w, b, single = _operands(axes, input, weight, bias, groups, True)
    out, kernel = tuple(y.array.shape[2:]), tuple(w.array.shape[2:])
    strides = per_axis("stride", stride, axes, 1)
    dilations = per_axis("dilation", dilation, axes, 1)
    paddings = per_axis("padding", padding, axes, 0)
    extra = per_axis("output_padding", output_padding, axes, 0)
    if any(e >= s and e >= d for e, s, d in zip(extra, strides, dilations)):
        raise RuntimeError(
            f"output padding must be smaller than either stride or dilation, but got output_padding={extra}, "
            f"stride={strides}, dilation={dilations}"
        )
    size = tuple(
        [
            (t - 1) * s - 2 * p + d * (k - 1) + e + 1
            for t, s, p, d, k, e in zip(out, strides, paddings, dilations, kernel, extra)
        ]
    )
    if min(size) < 1 or 0 in kernel or 0 in out:
        raise RuntimeError(
            f"input {describe(input)} and weight {describe(w)} with stride={strides}, padding={paddings}, "
            f"dilation={dilations}, output_padding={extra} give the output size {size}, which is too small, or a "
            "kernel or input is empty"
        )
    window = Window(size, kernel, strides, paddings, dilations, out)
    return _recorded(CONV_TRANSPOSE, CONV_TRANSPOSE_BIAS, y, w, b, single, {"window": window, "groups": groups})


@operator(namespace="nn.functional", method=False)
def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The one-dimensional cross-correlation; see ``conv2d``.

    ``input (N, C, L)`` or ``(C, L)``, ``weight (O, C / groups, K)``, ``bias (O,)``.

    >>> F.conv1d(rg.tensor([[[1.0, 2.0, 4.0, 8.0]]]), rg.tensor([[[-1.0, 1.0]]]))
    tensor([[[1., 2., 4.]]])
    """
    return _convolve("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


@operator(namespace="nn.functional", method=False)
def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The two-dimensional cross-correlation of an image with a bank of kernels.

    ``result[n, o, i, j] = bias[o] + sum_cuv weight[o, c, u, v] input[n, c, i * stride + u * dilation - padding, ...]``,
    zero outside of the image. With ``groups`` the channels fall into as many groups, each convolved on its own.

    Args:
        input: ``(N, C, H, W)``, or ``(C, H, W)`` without a batch.
        weight: ``(O, C / groups, kH, kW)``.
        bias: ``(O,)``.
        stride: the distance of windows; one integer or one per axis, as are the next two.
        padding: zeros around the image; ``"valid"`` means none, ``"same"`` as many as keep its size (one more at the
            end where their number is odd).
        dilation: the distance of the elements that a window reads.
        groups: the number of groups; it divides ``C`` and ``O``.

    Returns:
        ``(N, O, H', W')``, ``H' = (H + 2 * padding - dilation * (kH - 1) - 1) // stride + 1``.

    Raises:
        RuntimeError: the shapes do not match, the kernel is larger than the padded image, or an argument is out of
            range.

    >>> F.conv2d(rg.arange(9.0).reshape(1, 1, 3, 3), rg.ones(1, 1, 2, 2))
    tensor([[[[ 8., 12.],
              [20., 24.]]]])
    """
    return _convolve("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


@operator(namespace="nn.functional", method=False)
def conv3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The three-dimensional cross-correlation; see ``conv2d``.

    ``input (N, C, D, H, W)`` or ``(C, D, H, W)``, ``weight (O, C / groups, kD, kH, kW)``, ``bias (O,)``.

    >>> F.conv3d(rg.ones(1, 2, 4, 4, 4), rg.ones(3, 2, 3, 3, 3)).shape
    (1, 3, 2, 2, 2)
    """
    return _convolve("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


@operator(namespace="nn.functional", method=False)
def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """The transpose of ``conv1d``; see ``conv_transpose2d``.

    >>> F.conv_transpose1d(rg.tensor([[[1.0, 2.0]]]), rg.tensor([[[1.0, 10.0]]]), stride=2)
    tensor([[[ 1., 10.,  2., 20.]]])
    """
    return _convolve_transposed(1, input, weight, bias, stride, padding, output_padding, groups, dilation)


@operator(namespace="nn.functional", method=False)
def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """The transpose of ``conv2d`` as a linear map of its input, with the same weight: also called deconvolution.

    Each element of the input adds a multiple of the kernel to the result, ``stride`` places apart; ``padding`` places
    are then cut off at each side. Where several sizes of the result have the input's size under ``conv2d``,
    ``output_padding`` says how many more places at the end are wanted than the smallest has.

    Args:
        input: ``(N, C, H, W)``, or ``(C, H, W)`` without a batch.
        weight: ``(C, O / groups, kH, kW)``.
        bias: ``(O,)``.

    Returns:
        ``(N, O, H', W')``, ``H' = (H - 1) * stride - 2 * padding + dilation * (kH - 1) + output_padding + 1``.

    Raises:
        RuntimeError: the shapes do not match, the result is empty, an argument is out of range, or
            ``output_padding`` is neither below ``stride`` nor below ``dilation``.

    >>> F.conv_transpose2d(rg.ones(1, 1, 2, 2), rg.ones(1, 1, 2, 2))
    tensor([[[[1., 2., 1.],
              [2., 4., 2.],
              [1., 2., 1.]]]])
    """
    return _convolve_transposed(2, input, weight, bias, stride, padding, output_padding, groups, dilation)


@operator(namespace="nn.functional", method=False)
def conv_transpose3d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """The transpose of ``conv3d``; see ``conv_transpose2d``.

    >>> F.conv_transpose3d(rg.ones(1, 2, 2, 2, 2), rg.ones(2, 3, 3, 3, 3)).shape
    (1, 3, 4, 4, 4)
    """
    return _convolve_transposed(3, input, weight, bias, stride, padding, output_padding, groups, dilation)
