"""Pooling to a given size, max_unpool, and local response normalization."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ....core.devices import array_module
from ....core.errors import InvalidValue, describe
from ....core.primitive import apply, operand
from ....core.tensor import Tensor
from ...table.arguments import integer
from ...table.registry import operator
from ..spatial.patches import Ints, Window, per_axis, with_batch
from ..spatial.resampling import RESAMPLE, AxisMap
from .pooling import AVG_POOL, FIRST_OF_EQUALS, WRITE_AT, at_maxima, flat_places, real, window_max


def _output_size(name: str, x: Tensor, axes: int, output_size: Any) -> Ints:
    """The wanted size, None standing for the input's."""
    size = tuple(x.array.shape[2:])
    wanted = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * axes
    if len(wanted) == 1:
        wanted *= axes
    if len(wanted) != axes:
        raise RuntimeError(f"output_size must be one integer or {axes}, got {describe(output_size)}")
    wanted = tuple([length if each is None else each for each, length in zip(wanted, size)])
    wanted = per_axis("output_size", wanted, axes, 0)
    if 0 in size:
        raise RuntimeError(f"expected input with non-zero spatial dimensions, but got {describe(x)}")
    return wanted


def _even_windows(size: Ints, out: Ints) -> Window | None:
    """The windows as sliding ones, where they are all alike."""
    if any(t == 0 or length % t for length, t in zip(size, out)):
        return None
    kernel = tuple([length // t for length, t in zip(size, out)])
    zeros, ones = (0,) * len(size), (1,) * len(size)
    return Window(size, kernel, kernel, zeros, ones, out)


@lru_cache(maxsize=256)
def _spans(size: int, out: int) -> tuple[np.ndarray, np.ndarray]:
    """Per term and output the place it reads, and whether it belongs to the window or only fills up the row.

    Output i covers ``floor(i * size / out)`` up to ``ceil((i + 1) * size / out)``.
    """
    start = np.arange(out) * size // max(out, 1)
    end = -(-(np.arange(out) + 1) * size // max(out, 1))
    terms = np.arange(int((end - start).max(initial=1)))[:, None]
    return np.minimum(start + terms, end - 1), start + terms < end


@lru_cache(maxsize=256)
def _averages(size: int, out: int) -> AxisMap | None:
    if size == out:
        return None
    index, inside = _spans(size, out)
    return AxisMap(index, inside / inside.sum(axis=0), size)


def _adaptive_avg(axes: int, input: Tensor, output_size: Any) -> Tensor:
    name = f"adaptive_avg_pool{axes}d"
    x, single = with_batch(operand(input), axes)
    if x.dtype.kind not in "fc":
        raise NotImplementedError(f"not implemented for {x.dtype}; wanted floating numbers, got {describe(x)}")
    out = _output_size(name, x, axes, output_size)
    size = tuple(x.array.shape[2:])
    window = _even_windows(size, out)
    if window is not None:
        result = apply(AVG_POOL, (x,), {"window": window, "divisor": float(prod(window.kernel))})
    else:
        result = apply(RESAMPLE, (x,), {"maps": tuple([_averages(length, t) for length, t in zip(size, out)])})
    return result[0] if single else result


def _span_maxima(x: Any, out: Ints) -> Any:
    """Where in the flattened spatial axes each window has its maximum: the first one, or the last NaN."""
    xp = array_module(x)
    size = x.shape[2:]
    place: Any = None
    for axis in reversed(range(len(size))):
        index, inside = _spans(size[axis], out[axis])
        rest = (1,) * (len(size) - 1 - axis)
        step = prod(size[axis + 1 :])
        best: Any = None
        won: Any = None
        for reads, belongs in zip(index, inside):
            value = xp.take(x, xp.asarray(reads), axis=axis + 2)
            number = xp.asarray((reads * step).reshape((-1, *rest)))
            number = (
                xp.broadcast_to(number, value.shape)
                if place is None
                else number + xp.take(place, xp.asarray(reads), axis=axis + 2)
            )
            if best is None:
                best, won = value, number
                continue
            better = ((value > best) | (value != value)) & xp.asarray(belongs.reshape((-1, *rest)))
            best, won = xp.where(better, value, best), xp.where(better, number, won)
        x, place = best, won
    return xp.ascontiguousarray(place)


def _adaptive_max(axes: int, input: Tensor, output_size: Any, return_indices: bool) -> Any:
    name = f"adaptive_max_pool{axes}d"
    x, single = with_batch(operand(input), axes)
    real(name, x)
    out = _output_size(name, x, axes, output_size)
    window = _even_windows(tuple(x.array.shape[2:]), out)
    if window is not None:
        index = flat_places(window_max(x.array, window, True)[1], window)
    else:
        index = _span_maxima(x.array, out)
    result = at_maxima(x, index, single)
    return result if return_indices else result.output


@operator(namespace="nn.functional", method=False, real=True)
def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """The mean over ``output_size`` windows that cover ``(N, C, L)`` or ``(C, L)``; see ``adaptive_avg_pool2d``.

    >>> F.adaptive_avg_pool1d(rg.tensor([[[1.0, 2.0, 3.0]]]), 2)
    tensor([[[1.5, 2.5]]])
    """
    return _adaptive_avg(1, input, output_size)


@operator(namespace="nn.functional", method=False, real=True)
def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """The mean over as many windows as wanted: output i of O covers ``floor(i L / O)`` to ``ceil((i + 1) L / O)``.

    Args:
        input: ``(N, C, H, W)``, or ``(C, H, W)`` without a batch.
        output_size: one integer or one per axis; None stands for the input's length.

    Raises:
        RuntimeError: the rank is wrong, or an output size negative.

    >>> F.adaptive_avg_pool2d(rg.arange(16.0).reshape(1, 1, 4, 4), 1)
    tensor([[[[7.5]]]])
    """
    return _adaptive_avg(2, input, output_size)


@operator(namespace="nn.functional", method=False, real=True)
def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """The mean over windows of ``(N, C, D, H, W)`` or ``(C, D, H, W)``; see ``adaptive_avg_pool2d``.

    >>> F.adaptive_avg_pool3d(rg.ones(1, 2, 4, 4, 4), (1, 2, None)).shape
    (1, 2, 1, 2, 4)
    """
    return _adaptive_avg(3, input, output_size)


@operator(namespace="nn.functional", method=False, note=FIRST_OF_EQUALS)
def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The maximum over ``output_size`` windows that cover ``(N, C, L)`` or ``(C, L)``; see ``adaptive_max_pool2d``.

    >>> F.adaptive_max_pool1d(rg.tensor([[[1.0, 3.0, 2.0]]]), 2)
    tensor([[[3., 3.]]])
    """
    return _adaptive_max(1, input, output_size, return_indices)


@operator(namespace="nn.functional", method=False, note=FIRST_OF_EQUALS)
def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The maximum over as many windows as wanted: output i of O covers ``floor(i L / O)`` to ``ceil((i + 1) L / O)``.

    Args:
        input: ``(N, C, H, W)``, or ``(C, H, W)`` without a batch.
        output_size: one integer or one per axis; None stands for the input's length.
        return_indices: also where each maximum was found, as places in the flattened ``H * W``.

    Raises:
        RuntimeError: the rank is wrong, or an output size negative.

    >>> F.adaptive_max_pool2d(rg.arange(16.0).reshape(1, 1, 4, 4), 1)
    tensor([[[[15.]]]])
    """
    return _adaptive_max(2, input, output_size, return_indices)


@operator(namespace="nn.functional", method=False, note=FIRST_OF_EQUALS)
def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The maximum over windows of ``(N, C, D, H, W)`` or ``(C, D, H, W)``; see ``adaptive_max_pool2d``.

    >>> F.adaptive_max_pool3d(rg.ones(1, 2, 4, 4, 4), (1, 2, None)).shape
    (1, 2, 1, 2, 4)
    """
    return _adaptive_max(3, input, output_size, return_indices)


def _max_unpool(
    axes: int, input: Tensor, indices: Tensor, kernel_size: Any, stride: Any, padding: Any, output_size: Any
) -> Tensor:
    x, single = with_batch(operand(input), axes)
    places = operand(indices, "indices")
    if places.dtype != np.int64:
        raise RuntimeError(f"indices must be int64, got {describe(places)}")
    if places.array.shape != operand(input).array.shape:
        raise RuntimeError(f"indices must have the input's shape, got {describe(input)} and {describe(places)}")
    kernel = per_axis("kernel_size", kernel_size, axes, 1)
    strides = kernel if stride is None or stride == () or stride == [] else per_axis("stride", stride, axes, 1)
    paddings = per_axis("padding", padding, axes)
    size = tuple([(t - 1) * s + k - 2 * p for t, s, k, p in zip(x.array.shape[2:], strides, kernel, paddings)])
    if output_size is not None:
        wanted = tuple(output_size)[2:] if len(output_size) == axes + 2 else tuple(output_size)
        if len(wanted) != axes:
            raise InvalidValue(f"output_size must have {axes} or {axes + 2} elements, got {describe(output_size)}")
        for axis, (least, s, length) in enumerate(zip(size, strides, wanted)):
            if not least - s < length < least + s:
                raise InvalidValue(
                    f"invalid output_size {tuple(output_size)} (dim {axis} must be between {least - s} and {least + s})"
                )
        size = wanted
    if min(size) < 0:
        raise InvalidValue(f"the output size {size} is negative for input {describe(input)}")
    index = places.array[None] if single else places.array
    if index.size and bool(((index < 0) | (index >= prod(size))).any()):
        raise RuntimeError(f"found an invalid max index (output volumes are of size {size}), in {describe(places)}")
    result = apply(WRITE_AT, (x,), {"index": index, "size": size})
    return result[0] if single else result


@operator(namespace="nn.functional", method=False, real=True)
def max_unpool1d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """The partial inverse of ``max_pool1d``; see ``max_unpool2d``.

    >>> F.max_unpool1d(rg.tensor([[[3.0, 2.0]]]), rg.tensor([[[1, 2]]]), 2)
    tensor([[[0., 3., 2., 0.]]])
    """
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


@operator(namespace="nn.functional", method=False, real=True)
def max_unpool2d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """The partial inverse of ``max_pool2d``: each element goes back to where it was found, the rest is zero.

    Of elements with one index the last is written, and each of them has the gradient of that place.

    Args:
        input: ``(N, C, H, W)``, or ``(C, H, W)`` without a batch.
        indices: int64, of the input's shape, as ``max_pool2d`` returns them.
        kernel_size: the pooling's, as are ``stride`` and ``padding``.
        output_size: the size of the pooling's input, by default the smallest it may have had.

    Raises:
        RuntimeError: the shapes differ, or an index is out of range.
        ValueError: ``output_size`` can't have been the pooling's input.

    >>> output, indices = F.max_pool2d(rg.arange(4.0).reshape(1, 1, 2, 2), 2, return_indices=True)
    >>> F.max_unpool2d(output, indices, 2)
    tensor([[[[0., 0.],
              [0., 3.]]]])
    """
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


@operator(namespace="nn.functional", method=False, real=True)
def max_unpool3d(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, output_size: Any = None
) -> Tensor:
    """The partial inverse of ``max_pool3d``; see ``max_unpool2d``.

    >>> output, indices = F.max_pool3d(rg.ones(1, 1, 2, 2, 2), 2, return_indices=True)
    >>> F.max_unpool3d(output, indices, 2).shape
    (1, 1, 2, 2, 2)
    """
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)


@operator(namespace="nn.functional", method=False, real=True)
def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """``x_c / (k + alpha / size * sum of x^2 over the size channels around c)^beta``, zeros outside of the channels.

    Source: Krizhevsky, Sutskever, Hinton, "ImageNet classification with deep convolutional neural networks", 2012.

    Args:
        input: ``(N, C, ...)``, at least 3-D.
        size: the number of channels, ``size // 2`` of them before c.

    Raises:
        ValueError: the input has fewer than three dimensions.
        RuntimeError: ``size`` is not positive.

    >>> F.local_response_norm(rg.ones(1, 1, 2), 1, alpha=3.0, beta=0.5)
    tensor([[[0.5, 0.5]]])
    """
    x = operand(input)
    shape = x.array.shape
    if len(shape) < 3:
        raise InvalidValue(f"expected 3D or higher dimensionality input, got {describe(x)}")
    length = integer(size, "size")
    if length < 1:
        raise RuntimeError(f"size must be positive, got {length}")
    if x.array.dtype.kind == "b":
        raise RuntimeError(f"bools are not supported, got {describe(x)}")
    if x.array.size == 0:
        return x
    rest = prod(shape[2:])
    sizes, kernel = (shape[1], rest), (length, 1)
    window = Window(sizes, kernel, (1, 1), (length // 2, 0), (1, 1), sizes)
    mean = apply(AVG_POOL, ((x * x).reshape(shape[0], 1, *sizes),), {"window": window, "divisor": float(length)})
    return x / (mean.reshape(shape) * alpha + k) ** beta
