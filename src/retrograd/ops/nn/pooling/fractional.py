"""Fractional max pooling: windows whose places are drawn, so that sizes shrink by any factor."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ....core.devices import array_module
from ....core.errors import InvalidValue, describe
from ....core.primitive import operand
from ....core.tensor import Tensor, new_tensor
from ...indexing.gather import gather
from ...make.random_arrays import uniform
from ...reduce.extremes import max_
from ...table.arguments import integers
from ...table.registry import operator
from ...table.types import Operand


class Pooled(NamedTuple):
    """The maxima, and where they are in each plane."""

    output: Tensor
    indices: Tensor


def _starts(sample: Any, length: int, out: int, kernel: int) -> Any:
    """Where the windows of one dimension begin, for each drawn number: Graham's pseudorandom sequence."""
    xp = array_module(sample)
    last = length - kernel
    if out == 1:
        return xp.full((*sample.shape, 1), last)
    alpha = (length - kernel) / (out - 1)
    steps = xp.arange(out, dtype=sample.dtype)
    starts = ((steps + sample[..., None]) * alpha).astype(np.int64) - (sample[..., None] * alpha).astype(np.int64)
    starts[..., -1] = last
    return starts


def _sizes(x: Tensor, ndim: int, kernel_size: Any, output_size: Any, output_ratio: Any) -> tuple[Any, Any]:
    kernel = integers((kernel_size,), "kernel_size")
    kernel = kernel * ndim if len(kernel) == 1 else kernel
    if (output_size is None) == (output_ratio is None):
        raise InvalidValue("wanted one of output_size and output_ratio")
    lengths = x.array.shape[-ndim:]
    if output_size is not None:
        out = integers((output_size,), "output_size")
        out = out * ndim if len(out) == 1 else out
    else:
        ratios = tuple(output_ratio) if isinstance(output_ratio, Sequence) else (output_ratio,) * ndim
        out = tuple(int(length * ratio) for length, ratio in zip(lengths, ratios, strict=True))
    if len(kernel) != ndim or len(out) != ndim:
        raise RuntimeError(f"wanted {ndim} lengths, got kernel_size {kernel} and output_size {out}")
    for length, k, o in zip(lengths, kernel, out, strict=True):
        if not k > 0 or not o > 0 or o + k - 1 > length:
            raise RuntimeError(f"windows {kernel} and output {out} do not fit in {describe(x)}")
    return kernel, out


def _pooled(
    input: Operand, ndim: int, kernel_size: Any, output_size: Any, output_ratio: Any, samples: Tensor | None
) -> Pooled:
    x = operand(input)
    if x.array.ndim not in (ndim + 1, ndim + 2):
        raise RuntimeError(f"wanted {ndim + 1} or {ndim + 2} dimensions, got {describe(x)}")
    kernel, out = _sizes(x, ndim, kernel_size, output_size, output_ratio)
    batch = x if x.array.ndim == ndim + 2 else x.unsqueeze(0)
    n, c, *lengths = batch.array.shape
    xp = array_module(x)
    if samples is None:
        drawn = uniform(xp, (n, c, ndim), np.dtype(np.float64))
    else:
        drawn = operand(samples, "_random_samples").array
        if drawn.dtype != x.array.dtype:
            raise RuntimeError(f"expected _random_samples to have the dtype of the input, got {drawn.dtype}")
        if drawn.shape != (n, c, ndim):
            raise RuntimeError(f"wanted _random_samples ({n}, {c}, {ndim}), got {drawn.shape}")
    flat = xp.zeros((n, c, *(1,) * (2 * ndim)), np.int64)
    for d in range(ndim):
        # In two dimensions the first number is the width's, in three the depth's.
        sample = drawn[:, :, ndim - 1 - d if ndim == 2 else d]
        at = _starts(sample, lengths[d], out[d], kernel[d])[..., None] + xp.arange(kernel[d])
        shape = [n, c, *(1,) * (2 * ndim)]
        shape[2 + d], shape[2 + ndim + d] = out[d], kernel[d]
        flat = flat * lengths[d] + at.reshape(shape)
    flat = flat.reshape(n, c, prod(out), prod(kernel))
    windows = gather(batch.flatten(2), 2, new_tensor(flat.reshape(n, c, -1))).reshape(flat.shape)
    values, winners = max_(windows, -1)
    indices = gather(new_tensor(flat), 3, winners.unsqueeze(-1)).reshape(n, c, *out)
    values = values.reshape(n, c, *out)
    return Pooled(values, indices) if x.array.ndim == ndim + 2 else Pooled(values.squeeze(0), indices.squeeze(0))


@operator(namespace="nn.functional", method=False)
def fractional_max_pool2d_with_indices(
    input: Operand,
    kernel_size: int | Sequence[int],
    output_size: int | Sequence[int] | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Pooled:
    """As ``fractional_max_pool2d``, with the places of the maxima in each plane, flattened.

    Derivative: input: ``g`` at the maxima.
    Shape: (N, C, H, W) or (C, H, W) to the same with ``output_size``, twice.
    Dtype: real; kept; the places int64.

    Args:
        kernel_size: the windows' lengths.
        output_size: how many windows along each dimension.
        output_ratio: instead, the output's lengths as parts of the input's.
        return_indices: taken for compatibility.
        _random_samples: the numbers in ``[0, 1)`` that place the windows, (N, C, 2); by default drawn.

    Returns:
        The named tuple ``(output, indices)``.

    Raises:
        RuntimeError: windows do not fit, or a shape is wrong.
        ValueError: not one of output_size and output_ratio is given.

    Source: Graham, Fractional max-pooling, 2014.

    >>> F.fractional_max_pool2d_with_indices(rg.ones(1, 1, 5, 5), 2, 2).indices.shape
    (1, 1, 2, 2)
    """
    return _pooled(input, 2, kernel_size, output_size, output_ratio, _random_samples)


@operator(namespace="nn.functional", method=False)
def fractional_max_pool2d(
    input: Operand,
    kernel_size: int | Sequence[int],
    output_size: int | Sequence[int] | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Tensor | Pooled:
    """The maximum of each of ``output_size`` windows, whose places are drawn for each plane.

    Derivative: input: ``g`` at the maxima.
    Shape: (N, C, H, W) or (C, H, W) to the same with ``output_size``.
    Dtype: real; kept.

    Args:
        kernel_size: the windows' lengths.
        output_size: how many windows along each dimension.
        output_ratio: instead, the output's lengths as parts of the input's.
        return_indices: return the maxima's places, too.
        _random_samples: the numbers in ``[0, 1)`` that place the windows, (N, C, 2); by default drawn.

    Raises:
        RuntimeError: windows do not fit, or a shape is wrong.
        ValueError: not one of output_size and output_ratio is given.

    Source: Graham, Fractional max-pooling, 2014.

    >>> F.fractional_max_pool2d(rg.ones(1, 1, 5, 5), 2, 2).shape
    (1, 1, 2, 2)
    """
    pooled = _pooled(input, 2, kernel_size, output_size, output_ratio, _random_samples)
    return pooled if return_indices else pooled.output


@operator(namespace="nn.functional", method=False)
def fractional_max_pool3d_with_indices(
    input: Operand,
    kernel_size: int | Sequence[int],
    output_size: int | Sequence[int] | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Pooled:
    """As ``fractional_max_pool3d``, with the places of the maxima in each plane, flattened.

    Derivative: input: ``g`` at the maxima.
    Shape: (N, C, D, H, W) or (C, D, H, W) to the same with ``output_size``, twice.
    Dtype: real; kept; the places int64.

    Args:
        kernel_size: the windows' lengths.
        output_size: how many windows along each dimension.
        output_ratio: instead, the output's lengths as parts of the input's.
        return_indices: taken for compatibility.
        _random_samples: the numbers in ``[0, 1)`` that place the windows, (N, C, 3); by default drawn.

    Returns:
        The named tuple ``(output, indices)``.

    Raises:
        RuntimeError: windows do not fit, or a shape is wrong.
        ValueError: not one of output_size and output_ratio is given.

    Source: Graham, Fractional max-pooling, 2014.

    >>> F.fractional_max_pool3d_with_indices(rg.ones(1, 1, 5, 5, 5), 2, 2).indices.shape
    (1, 1, 2, 2, 2)
    """
    return _pooled(input, 3, kernel_size, output_size, output_ratio, _random_samples)


@operator(namespace="nn.functional", method=False)
def fractional_max_pool3d(
    input: Operand,
    kernel_size: int | Sequence[int],
    output_size: int | Sequence[int] | None = None,
    output_ratio: float | Sequence[float] | None = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Tensor | Pooled:
    """The maximum of each of ``output_size`` windows, whose places are drawn for each plane.

    Derivative: input: ``g`` at the maxima.
    Shape: (N, C, D, H, W) or (C, D, H, W) to the same with ``output_size``.
    Dtype: real; kept.

    Args:
        kernel_size: the windows' lengths.
        output_size: how many windows along each dimension.
        output_ratio: instead, the output's lengths as parts of the input's.
        return_indices: return the maxima's places, too.
        _random_samples: the numbers in ``[0, 1)`` that place the windows, (N, C, 3); by default drawn.

    Raises:
        RuntimeError: windows do not fit, or a shape is wrong.
        ValueError: not one of output_size and output_ratio is given.

    Source: Graham, Fractional max-pooling, 2014.

    >>> F.fractional_max_pool3d(rg.ones(1, 1, 5, 5, 5), 2, 2).shape
    (1, 1, 2, 2, 2)
    """
    pooled = _pooled(input, 3, kernel_size, output_size, output_ratio, _random_samples)
    return pooled if return_indices else pooled.output
