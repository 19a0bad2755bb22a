"""Fractional max pooling: windows at random positions, so that sizes can be reduced by any factor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import array_module
from ....core.arrays.dtypes import FLOATING
from ....core.errors import InvalidValue, describe
from ....core.graph.primitive import Primitive, operand
from ....core.named_tuples import NamedTuple
from ....core.tensor.tensor import Tensor
from ....kernels import or_reference
from ....kernels.loops.images import pooling
from ...make.random_arrays import uniform
from ...table.arguments import floating_operand, integers
from ...table.batching import folded
from ...table.types import Operand
from ..spatial.sliding_windows import Ints, for_axes, with_batch
from .maximum import at_maxima, maxima_at


class Pooled(NamedTuple):
    """The maxima, and their positions in each plane."""

    output: Tensor
    indices: Tensor


class _Sequences(NamedTuple):
    """The starts of the windows (Graham's pseudorandom sequences), for all dimensions in one array."""

    drawn: Array  # the index of the random number that each element uses
    steps: Array
    alpha: Array
    final: Array  # the last element of each dimension, which is fixed
    last: Array  # the value of the last element of each dimension
    strides: Array  # the stride of each element's dimension in the flattened plane
    offsets: Array  # offsets of a window's elements in the flattened plane


@lru_cache(maxsize=256)
def _sequences(lengths: Ints, out: Ints, kernel: Ints, dtype: Any) -> _Sequences:
    axes = range(len(lengths))
    # In two dimensions the first random number is for the width, in three for the depth.
    drawn = np.repeat(axes[::-1] if len(out) == 2 else axes, out)
    steps = np.concatenate([np.arange(count, dtype=dtype) for count in out])
    last = [length - k for length, k in zip(lengths, kernel)]
    alpha = np.repeat([room / (count - 1) if count > 1 else 0.0 for room, count in zip(last, out)], out).astype(dtype)
    strides = np.repeat([prod(lengths[axis + 1 :]) for axis in axes], out)
    offsets: Any = 0
    for length, k in zip(lengths, kernel):
        offsets = np.add.outer(offsets * length, np.arange(k))
    return _Sequences(drawn, steps, alpha, np.cumsum(out) - 1, np.array(last), strides, offsets.reshape(-1))


def _corners(drawn: Array, lengths: Ints, out: Ints, kernel: Ints) -> tuple[Array, Array]:
    """Return the start of each window in the flattened planes, ``(N, C, windows)``, and its elements' offsets."""
    xp = array_module(drawn)
    sequences = _sequences(lengths, out, kernel, drawn.dtype)
    drawn_by, steps, alpha, final, last, strides, offsets = map(xp.asarray, sequences)
    sample = drawn.take(drawn_by, axis=2)
    starts = ((steps + sample) * alpha).astype(np.int64) - (sample * alpha).astype(np.int64)
    starts[:, :, final] = last
    starts *= strides
    corner, end = starts[:, :, : out[0]], out[0]
    for count in out[1:]:
        along = starts[:, :, None, end : end + count]
        corner = (corner[:, :, :, None] + along).reshape((*corner.shape[:2], corner.shape[2] * count))
        end += count
    return corner, offsets


@or_reference
def _maxima(x: Array, drawn: Array, out: Ints, kernel: Ints) -> Array:
    """Return the position of each window's maximum in its plane: the first of equal elements, or the last NaN."""
    shape = (*x.shape[:2], *out)
    if 0 in shape:
        return array_module(x).zeros(shape, np.int64)
    corner, offsets = _corners(drawn, x.shape[2:], out, kernel)
    if pooling.reads(x, corner.size * len(offsets)):
        return pooling.max_at(x, corner, offsets).reshape(shape)
    xp = array_module(x)
    n, c = x.shape[:2]
    rows = xp.arange(n * c).reshape((n, c, 1, 1)) * prod(x.shape[2:])
    values = xp.take(x.reshape((-1,)), rows + corner[:, :, :, None] + offsets)
    winners = values.argmax(axis=-1)
    if x.dtype.kind in FLOATING:
        invalid = values != values
        if invalid.any():
            late = len(offsets) - 1 - invalid[..., ::-1].argmax(axis=-1)
            winners = xp.where(invalid.any(axis=-1), late, winners)
    return (corner + xp.take(offsets, winners)).reshape(shape)


MAXIMA: Primitive = Primitive("fractional_max_places", _maxima, "x drawn", batch=folded())


def _lengths(value: int | Sequence[int], name: str, ndim: int) -> Ints:
    lengths = integers((value,), name)
    if type(value) is int or not isinstance(value, Sequence):
        lengths *= ndim
    if len(lengths) != ndim:
        raise RuntimeError(f"{name} must either be a single int or a tuple of {ndim} ints, got {describe(value)}")
    return lengths


def _sizes(x: Tensor, ndim: int, kernel_size: Any, output_size: Any, output_ratio: object) -> tuple[Ints, Ints]:
    kernel = _lengths(kernel_size, "kernel_size", ndim)
    if output_size is None and output_ratio is None:
        raise InvalidValue("pass exactly one of output_size and output_ratio")
    lengths = x.array.shape[-ndim:]
    if output_size is not None:
        out = _lengths(output_size, "output_size", ndim)
    else:
        ratios = tuple(output_ratio) if isinstance(output_ratio, Sequence) else (output_ratio,) * ndim
        if len(ratios) != ndim:
            raise InvalidValue(f"output_ratio must be one number or {ndim}, got {describe(output_ratio)}")
        out = tuple(int(length * ratio) for length, ratio in zip(lengths, ratios, strict=True))
    for length, k, o in zip(lengths, kernel, out, strict=True):
        if not k > 0 or o < 0 or o + k - 1 > length:
            raise RuntimeError(
                f"output_size + kernel_size - 1 must be at most the length of each axis, got output_size={out} and "
                f"kernel_size={kernel} for {describe(x)}"
            )
    return kernel, out


def _maxima_of(
    input: Operand, ndim: int, kernel_size: object, output_size: object, output_ratio: object, samples: Tensor | None
) -> tuple[Tensor, Array, bool]:
    """Return the input with a batch axis, the positions of the maxima, and whether the axis was added."""
    x = floating_operand(input)
    if x.array.ndim not in (ndim + 1, ndim + 2):
        raise RuntimeError(f"expected {ndim + 1} or {ndim + 2} dimensions, got {describe(x)}")
    kernel, out = _sizes(x, ndim, kernel_size, output_size, output_ratio)
    batch, single = with_batch(x, ndim)
    n, c = batch.array.shape[:2]
    if not c and not single:
        raise RuntimeError(f"expected input with non-zero dimensions after the batch, but got {describe(x)}")
    if samples is None:
        drawn = uniform(array_module(x), (n, c, ndim), np.dtype(np.float64))
    else:
        drawn = operand(samples, "_random_samples").array
        if drawn.dtype != x.array.dtype:
            raise RuntimeError(f"expected _random_samples to have the dtype of the input, got {drawn.dtype}")
        if drawn.shape != (n, c, ndim):
            raise RuntimeError(f"expected _random_samples ({n}, {c}, {ndim}), got {drawn.shape}")
    return batch, MAXIMA(batch.array, drawn, out=out, kernel=kernel), single


def _with_indices(axes: int) -> Callable[..., Pooled]:
    """``fractional_max_pool{n}d`` that also returns the positions of the maxima in each flattened plane.

    Derivative: input: ``g`` at the maxima.
    Shape: (N, C, {sizes}) or (C, {sizes}); output and indices have the spatial size ``output_size``.
    Dtype: real floating, preserved; indices are int64.

    Args:
        kernel_size: the windows' lengths.
        output_size: the number of windows along each dimension.
        output_ratio: instead of ``output_size``, the output's lengths as fractions of the input's.
        return_indices: accepted for compatibility, without effect.
        _random_samples: the numbers in ``[0, 1)`` that position the windows, (N, C, {n}); by default random.

    Returns:
        The named tuple ``(output, indices)``.

    Raises:
        RuntimeError: windows do not fit, or a shape is wrong.
        ValueError: neither or both of output_size and output_ratio are given.

    Source: Graham, Fractional max-pooling, 2014.
    """

    def fractional_max_pool(
        input: Operand,
        kernel_size: int | Sequence[int],
        output_size: int | Sequence[int] | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> Pooled:
        return Pooled(*at_maxima(*_maxima_of(input, axes, kernel_size, output_size, output_ratio, _random_samples)))

    return fractional_max_pool


fractional_max_pool2d_with_indices, fractional_max_pool3d_with_indices = for_axes(
    _with_indices,
    {
        2: """>>> F.fractional_max_pool2d_with_indices(rg.ones(1, 1, 5, 5), 2, 2).indices.shape
    (1, 1, 2, 2)""",
        3: """>>> F.fractional_max_pool3d_with_indices(rg.ones(1, 1, 5, 5, 5), 2, 2).indices.shape
    (1, 1, 2, 2, 2)""",
    },
    suffix="_with_indices",
)


def _fractional_max_pool(axes: int) -> Callable[..., Tensor | Pooled]:
    """The maximum of each of ``output_size`` windows, whose positions are random for each plane.

    Shape: (N, C, {sizes}) or (C, {sizes}); the result has the spatial size ``output_size``.
    Dtype: real floating; the result has the input's dtype.

    Args:
        return_indices: also return the positions of the maxima.
        _random_samples: the numbers in ``[0, 1)`` that determine the positions, (N, C, {n}); by default random.

    Returns:
        The maxima; with ``return_indices`` the named tuple ``(output, indices)``.
    """

    def fractional_max_pool(
        input: Operand,
        kernel_size: int | Sequence[int],
        output_size: int | Sequence[int] | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> Tensor | Pooled:
        found = _maxima_of(input, axes, kernel_size, output_size, output_ratio, _random_samples)
        return Pooled(*at_maxima(*found)) if return_indices else maxima_at(*found)

    return fractional_max_pool


fractional_max_pool2d, fractional_max_pool3d = for_axes(
    _fractional_max_pool,
    {
        2: """>>> F.fractional_max_pool2d(rg.ones(1, 1, 5, 5), 2, 2).shape
    (1, 1, 2, 2)""",
        3: """>>> F.fractional_max_pool3d(rg.ones(1, 1, 5, 5, 5), 2, 2).shape
    (1, 1, 2, 2, 2)""",
    },
    like=fractional_max_pool2d_with_indices,
)
