"""Pooling to a given output size, by windows that cover the input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any, Literal, TypeAlias, overload

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import array_module
from ....core.errors import describe
from ....core.graph.primitive import apply
from ....core.tensor.tensor import Tensor
from ....kernels import or_reference
from ....kernels.loops.images import pooling
from ...table.arguments import floating_operand
from ...table.batching import takes_rows
from ...table.types import Size
from ..spatial.resampling import RESAMPLE, AxisMap
from ..spatial.sliding_windows import Ints, Window, for_axes, per_axis, with_batch
from . import tables
from .average import AVG_POOL
from .maximum import MaxPool, at_maxima, maxima_at, places_of_maxima

# One length, or one per axis; None means the input's length.
OutputSize: TypeAlias = int | None | Sequence[int | None]


def _output_size(x: Tensor, axes: int, output_size: OutputSize, channels: bool) -> Ints:
    """Return the output size, with None replaced by the input's length.

    With ``channels``, an input without channels is an error.
    """
    size = x.array.shape[2:]
    lengths: Size
    if type(output_size) is int:
        lengths = output_size
    else:
        given = output_size if isinstance(output_size, (tuple, list)) else (output_size,)
        if len(given) == 1:
            given = tuple(given) * axes
        if len(given) != axes:
            raise RuntimeError(f"output_size must be one integer or {axes}, got {describe(output_size)}")
        lengths = [length if wanted is None else wanted for wanted, length in zip(given, size)]
    out = per_axis("output_size", lengths, axes, 0)
    if 0 in size or channels and not x.array.shape[1]:
        wanted = "dimensions after the batch" if channels else "spatial dimensions"
        raise RuntimeError(f"expected input with non-zero {wanted}, but got {describe(x)}")
    return out


@lru_cache(maxsize=256)
def _even_windows(size: Ints, out: Ints) -> Window | None:
    if any(t == 0 or length % t for length, t in zip(size, out)):
        return None
    kernel = tuple([length // t for length, t in zip(size, out)])
    zeros, ones = (0,) * len(size), (1,) * len(size)
    return Window(size, kernel, kernel, zeros, ones, out)


@lru_cache(maxsize=256)
def _spans(size: int, out: int) -> tuple[np.ndarray, np.ndarray]:
    """Return for each term and output the position to read, and whether it belongs to the window or is padding.

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
    counts = inside.sum(axis=0)
    return AxisMap(index, inside / counts, size, counts)


def _adaptive_avg(axes: int, input: Tensor, output_size: OutputSize) -> Tensor:
    x, single = with_batch(floating_operand(input), axes)
    out = _output_size(x, axes, output_size, axes == 3 and not single)
    size = x.array.shape[2:]
    window = _even_windows(size, out)
    if window is not None:
        result = apply(AVG_POOL, (x,), {"window": window, "divisor": float(prod(window.kernel))})
    else:
        result = apply(RESAMPLE, (x,), {"maps": tuple([_averages(length, t) for length, t in zip(size, out)])})
    return result[0] if single else result


@lru_cache(maxsize=64)
def _window_indices(size: Ints, out: Ints) -> Array:
    """Return the positions each window reads in a plane; shorter windows repeat positions."""
    return tables.flat([_spans(length, t)[0] for length, t in zip(size, out, strict=True)], size).T.copy()


@takes_rows
@or_reference
def _span_maxima(x: Array, out: Ints) -> Array:
    """Return the position of each window's maximum in the flattened spatial axes: the first one, or the last NaN."""
    size = x.shape[2:]
    if 0 not in out and pooling.reads(x, x.size):
        return pooling.max_among(x, _window_indices(size, out)).reshape(*x.shape[:2], *out)
    xp = array_module(x)
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


def _adaptive_max(axes: int, input: Tensor, output_size: OutputSize, return_indices: bool) -> Tensor | MaxPool:
    x, single = with_batch(floating_operand(input), axes)
    out = _output_size(x, axes, output_size, not single)
    window = _even_windows(x.array.shape[2:], out)
    if window is not None:
        index = places_of_maxima(x.array, window)
    else:
        index = _span_maxima(x.array, out)
    return at_maxima(x, index, single) if return_indices else maxima_at(x, index, single)


def _adaptive_avg_pool(axes: int) -> Callable[..., Tensor]:
    """The mean over ``output_size`` windows: output i of O covers ``floor(i L / O)`` to ``ceil((i + 1) L / O)``.

    Derivative: each element gets ``g / count`` of every window that contains it.
    Shape: {input}; the spatial size of the result is ``output_size``.

    Args:
        output_size: {integers}; None stands for the input's length.

    Raises:
        RuntimeError: the number of dimensions is wrong, a spatial dimension is empty, or an output size is negative.
        NotImplementedError: the input holds integers, bools or complex numbers.
    """

    def adaptive_avg_pool(input: Tensor, output_size: OutputSize) -> Tensor:
        return _adaptive_avg(axes, input, output_size)

    return adaptive_avg_pool


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = for_axes(
    _adaptive_avg_pool,
    {
        1: """>>> F.adaptive_avg_pool1d(rg.tensor([[[1.0, 2.0, 3.0]]]), 2)
    tensor([[[1.5, 2.5]]])""",
        2: """>>> F.adaptive_avg_pool2d(rg.arange(16.0).reshape(1, 1, 4, 4), 1)
    tensor([[[[7.5]]]])""",
        3: """>>> F.adaptive_avg_pool3d(rg.ones(1, 2, 4, 4, 4), (1, 2, None)).shape
    (1, 2, 1, 2, 4)""",
    },
    real=True,
    dtype="real",
)


def _adaptive_max_pool(axes: int) -> Callable[..., Tensor | MaxPool]:
    """The maximum over ``output_size`` windows: output i of O covers ``floor(i L / O)`` to ``ceil((i + 1) L / O)``.

    Derivative: ``g`` at each window's maximum: the first of equal elements, row by row, or the last NaN.
    Shape: {input}; the spatial size of the result is ``output_size``.

    Args:
        output_size: {integers}; None stands for the input's length.
        return_indices: also return where each maximum was found.

    Returns:
        The maxima; with ``return_indices`` the named tuple ``(output, indices)``, with indices as positions in the
        {places}.
    """

    @overload
    def adaptive_max_pool(input: Tensor, output_size: OutputSize, return_indices: Literal[False] = False) -> Tensor: ...
    @overload
    def adaptive_max_pool(input: Tensor, output_size: OutputSize, return_indices: Literal[True]) -> MaxPool: ...
    @overload
    def adaptive_max_pool(input: Tensor, output_size: OutputSize, return_indices: bool = False) -> Tensor | MaxPool: ...
    def adaptive_max_pool(input: Tensor, output_size: OutputSize, return_indices: bool = False) -> Tensor | MaxPool:
        return _adaptive_max(axes, input, output_size, return_indices)

    return adaptive_max_pool


adaptive_max_pool1d, adaptive_max_pool2d, adaptive_max_pool3d = for_axes(
    _adaptive_max_pool,
    {
        1: """>>> F.adaptive_max_pool1d(rg.tensor([[[1.0, 3.0, 2.0]]]), 2)
    tensor([[[3., 3.]]])""",
        2: """>>> F.adaptive_max_pool2d(rg.arange(16.0).reshape(1, 1, 4, 4), 1)
    tensor([[[[15.]]]])""",
        3: """>>> F.adaptive_max_pool3d(rg.ones(1, 2, 4, 4, 4), (1, 2, None)).shape
    (1, 2, 1, 2, 4)""",
    },
    like=adaptive_avg_pool1d,
)
