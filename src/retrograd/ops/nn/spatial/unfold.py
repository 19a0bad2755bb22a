"""unfold and fold: convert the windows of an image to columns and back."""

from __future__ import annotations

from math import prod

from ....core.arrays import Array
from ....core.arrays.devices import array_module
from ....core.errors import describe
from ....core.graph.primitive import Primitive, apply, operand
from ....core.tensor.tensor import Tensor
from ...table.batching import folded
from ...table.registry import operator
from ...table.types import Size
from .sliding_windows import Ints, Window, gather_windows, per_axis, scatter_windows, with_batch


def _unfold(x: Array, window: Window) -> Array:
    columns = array_module(x).zeros(x.shape[:2] + window.kernel + window.out, dtype=x.dtype)
    gather_windows(x, columns, window)
    return columns.reshape((x.shape[0], x.shape[1] * prod(window.kernel), prod(window.out)))


def _fold(columns: Array, window: Window) -> Array:
    n, channels = columns.shape[0], columns.shape[1] // prod(window.kernel)
    x = array_module(columns).zeros((n, channels, *window.size), dtype=columns.dtype)
    scatter_windows(columns.reshape((n, channels, *window.kernel, *window.out)), x, window)
    return x


UNFOLD: Primitive = Primitive("unfold", _unfold, "x", [lambda g, window: FOLD(g, window=window)], batch=folded())
FOLD: Primitive = Primitive("fold", _fold, "x", [lambda g, window: UNFOLD(g, window=window)], batch=folded())


def _patches(size: Ints, kernel_size: Size, dilation: Size, padding: Size, stride: Size) -> Window:
    kernel = per_axis("kernel_size", kernel_size, 2, 1)
    dilations = per_axis("dilation", dilation, 2, 1)
    paddings = per_axis("padding", padding, 2, 0)
    strides = per_axis("stride", stride, 2, 1)
    out = tuple(
        [
            (length + 2 * p - d * (k - 1) - 1) // s + 1
            for length, k, d, p, s in zip(size, kernel, dilations, paddings, strides)
        ]
    )
    if min(out) < 1:
        raise RuntimeError(
            f"spatial size {size} with kernel_size={kernel}, dilation={dilations}, padding={paddings}, "
            f"stride={strides} gives {out} blocks, but there must be at least one per axis"
        )
    return Window(size, kernel, strides, paddings, dilations, out)


@operator(namespace="nn.functional", method=False)
def unfold(input: Tensor, kernel_size: Size, dilation: Size = 1, padding: Size = 0, stride: Size = 1) -> Tensor:
    """``input[n, c, t * stride + k * dilation - padding]`` as columns, one per window t.

    The rows are the pairs of a channel c and an offset k; positions outside of the image count as zero.

    Derivative: ``fold`` of g: each element gets the sum of ``g`` over the columns that contain it.
    Shape: ``(N, C, H, W)`` to ``(N, C * kH * kW, T)`` with T windows, or both without N.

    Args:
        input: the image.
        kernel_size, dilation, padding, stride: the windows' parameters; one integer or one per axis.

    Raises:
        RuntimeError: the input is not 3-D or 4-D, an argument is out of range, or no window fits.

    >>> F.unfold(rg.arange(9.0).reshape(1, 1, 3, 3), 2)[0, :, 0]
    tensor([0., 1., 3., 4.])
    """
    x, single = with_batch(operand(input), 2)
    if not x.array.shape[1]:
        raise RuntimeError(f"expected input with non-zero dimensions after the batch, but got {describe(x)}")
    window = _patches(tuple(x.array.shape[2:]), kernel_size, dilation, padding, stride)
    result = apply(UNFOLD, (x,), {"window": window})
    return result[0] if single else result


@operator(namespace="nn.functional", method=False)
def fold(
    input: Tensor, output_size: Size, kernel_size: Size, dilation: Size = 1, padding: Size = 0, stride: Size = 1
) -> Tensor:
    """The transpose of ``unfold``: each column is added at the position of its window.

    Derivative: ``unfold`` of g.
    Shape: ``(N, C * kH * kW, T)`` with T windows to ``(N, C, *output_size)``, or both without N.

    Args:
        input: the columns.
        output_size: the size of the image; one integer or one per axis, like the arguments below.
        kernel_size, dilation, padding, stride: the parameters of ``unfold``.

    Raises:
        RuntimeError: the input is not 2-D or 3-D, channels are not a multiple of ``kH * kW``, or T is not the number
            of windows.

    >>> F.fold(rg.ones(1, 4, 4), 3, 2)[0, 0]
    tensor([[1., 2., 1.],
            [2., 4., 2.],
            [1., 2., 1.]])
    """
    x, single = with_batch(operand(input), 1)
    size = per_axis("output_size", output_size, 2, 1)
    window = _patches(size, kernel_size, dilation, padding, stride)
    if x.array.shape[1] % prod(window.kernel):
        raise RuntimeError(f"the channels of {describe(x)} must be a multiple of kernel_size={window.kernel}")
    if x.array.shape[2] != prod(window.out):
        raise RuntimeError(
            f"output_size={size} has {window.out[0]} * {window.out[1]} = {prod(window.out)} sliding blocks, "
            f"but the input {describe(input)} has {x.array.shape[2]}"
        )
    result = apply(FOLD, (x,), {"window": window})
    return result[0] if single else result
