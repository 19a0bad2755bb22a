"""Counts of elements: histograms, which have no derivative."""

from __future__ import annotations

import numpy as np

from ...core.arrays.devices import array_module
from ...core.arrays.dtypes import FLOATING
from ...core.errors import describe
from ...core.graph.primitive import operand
from ...core.tensor.tensor import Tensor, new_tensor
from ..table.batching import called_per_example
from ..table.registry import operator
from ..table.types import Operand


@operator(differentiable=False, dtype="floating", raises="integers")
@called_per_example
def histc(input: Operand, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """``y_b = sum_i [e_b <= x_i < e_(b+1)]``: how many elements lie in each of ``bins`` equal intervals.

    Intervals are closed on the left, the last one on both sides. Elements outside are left out.

    Shape: any; the result is (bins).

    Args:
        bins: the number of intervals.
        min: where the first begins.
        max: where the last ends; with ``min == max`` the range is that of the elements.

    Raises:
        RuntimeError: ``bins`` is not positive, ``max`` is below ``min`` or the range is not finite.

    >>> rg.histc(rg.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3)
    tensor([0., 2., 1., 0.])
    """
    x = operand(input)
    array = x.array
    xp = array_module(array)
    if array.dtype.kind not in FLOATING:
        raise NotImplementedError(f"wanted a floating dtype, got {describe(x)}")
    if bins <= 0:
        raise RuntimeError(f"bins must be positive, got {bins}")
    low, high = float(min), float(max)
    if low == high and array.size:
        low, high = float(array.min().item()), float(array.max().item())
    if low == high:
        low, high = low - 1, high + 1
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise RuntimeError(f"the range [{low}, {high}] is not finite or empty")
    flat = array.reshape(-1)
    flat = flat[(flat >= low) & (flat <= high)]
    place = xp.minimum(((flat - low) * (bins / (high - low))).astype(np.int64), bins - 1)
    return new_tensor(xp.bincount(place, minlength=bins).astype(array.dtype))


@operator(differentiable=False, real=True)
@called_per_example
def bincount(input: Operand, weights: Operand | None = None, minlength: int = 0) -> Tensor:
    """``y_n = sum_i [x_i = n] weights_i``: how often each number 0, 1, 2, ... occurs, or the sum of its weights.

    Shape: input and ``weights`` (n); the result has the length ``max(minlength, max(input) + 1)``.
    Dtype: integers; gives int64, or with ``weights`` float64 (float32 for float32).

    Args:
        input: the numbers, not negative.
        weights: what each element counts, 1 by default.
        minlength: the result is at least that long.

    Raises:
        NotImplementedError: the input does not hold integers.
        RuntimeError: the input is not 1-dimensional or has negative elements, the weights do not fit, or ``minlength``
            is negative.

    >>> rg.bincount(rg.tensor([1, 3, 1]))
    tensor([0, 2, 0, 1])
    """
    x = operand(input)
    array = x.array
    if array.dtype.kind not in "iu":
        raise NotImplementedError(f"wanted integers, got {describe(x)}")
    if array.ndim != 1 or (array.size and bool((array < 0).any())):
        raise RuntimeError(f"wanted one dimension of integers that are not negative, got {describe(x)}")
    if minlength < 0:
        raise RuntimeError(f"minlength must not be negative, got {minlength}")
    heavy = None if weights is None else operand(weights, "weights").array
    if heavy is not None and heavy.shape != array.shape:
        raise RuntimeError(f"the weights {describe(heavy)} must have the shape of {describe(x)}")
    out = array_module(array).bincount(array, weights=heavy, minlength=minlength)
    return new_tensor(out.astype(np.float32) if heavy is not None and heavy.dtype == np.float32 else out)
