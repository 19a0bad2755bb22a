"""Maxima over sliding windows, and their partial inverses.

Windows are boxes, so maxima are computed axis by axis: k + k instead of k * k comparisons for a window of k x k. The
winner of a window is the index of its maximum in the flattened kernel, in the smallest dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import inf, prod
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from ....core.arrays import Array
from ....core.arrays.bfloat16 import wide
from ....core.arrays.devices import all_examples, array_module
from ....core.arrays.dtypes import FLOATING, DType
from ....core.arrays.layout import cast
from ....core.errors import InvalidValue, describe
from ....core.graph.modes import modes
from ....core.graph.primitive import Primitive, apply, operand
from ....core.named_tuples import NamedTuple
from ....core.tensor.tensor import Tensor, new_tensor
from ....kernels import or_reference
from ....kernels.loops.images import pooling
from ...table.arguments import floating_operand
from ...table.batching import folded, takes_rows
from ...table.types import Size
from ..spatial.sliding_windows import EVERY, Ints, Window, axis_taps, for_axes, per_axis, taps, with_batch
from . import tables
from .sliding import READ_AT, WRITE_AT, along, real_operand, sliding_windows, strides_of

if TYPE_CHECKING:
    from ....core.mapping.batching import Call


class MaxPool(NamedTuple):
    """The maxima, and their positions in the flattened spatial axes."""

    output: Tensor
    indices: Tensor


def _max_along(value: Any, winner: Any, window: Window, axis: int, weight: int, kind: Any, exact: bool) -> Any:
    """Return maxima along one axis and, with a dtype ``kind``, the winners.

    A winner is ``weight`` times the offset on this axis plus the winner of the inner axes (None: there are none). With
    ``exact`` the last NaN of a window wins, as in PyTorch; otherwise NaN affects the maximum but not the winner.
    """
    xp = array_module(value)
    ndim, place, out = value.ndim, axis + 2, window.out[axis]
    found = axis_taps(window, axis)

    def number(offset: int, source: Any) -> Any:
        here = kind.type(offset * weight)
        return here if winner is None else winner[source] + here

    def beats(new: Array, old: Array) -> Array:
        return (new > old) | (new != new) if exact else new > old

    if _all_inside(window, axis):
        offset, _, reads = found[0]
        source = along(place, reads, ndim)
        best, won = value[source], number(offset, source) if kind else None
        for offset, _, reads in found[1:]:
            source = along(place, reads, ndim)
            new = value[source]
            if kind:
                won = xp.where(beats(new, best), number(offset, source), won)
            best = xp.maximum(best, new)
        if kind and len(found) == 1 and winner is None:
            won = xp.full(best.shape, won, dtype=kind)
        return best, won

    shape = value.shape[:place] + (out,) + value.shape[place + 1 :]
    lowest = -inf if value.dtype.kind in FLOATING else np.iinfo(value.dtype).min
    best = xp.full(shape, lowest, dtype=value.dtype)
    won = xp.zeros(shape, dtype=kind) if kind else None
    # Later offsets reach windows further to the left. Windows left of `met` have no element yet and take this one.
    met = out
    for offset, places, reads in found:
        source = along(place, reads, ndim)
        fresh, again = slice(places.start, min(places.stop, met)), slice(max(places.start, met), places.stop)
        split = fresh.stop - fresh.start
        new = value[source]
        late, target = new[along(place, slice(split, None), ndim)], along(place, again, ndim)
        if won is not None:
            numbers = number(offset, source)
            if winner is None:
                numbers = xp.full(new.shape, numbers, dtype=kind)
            won[along(place, fresh, ndim)] = numbers[along(place, slice(0, split), ndim)]
            late_numbers = numbers[along(place, slice(split, None), ndim)]
            won[target] = xp.where(beats(late, best[target]), late_numbers, won[target])
        best[along(place, fresh, ndim)] = new[along(place, slice(0, split), ndim)]
        best[target] = xp.maximum(best[target], late)
        met = min(met, places.start)
    return best, won


@lru_cache(maxsize=1024)
def _all_inside(window: Window, axis: int) -> bool:
    found = axis_taps(window, axis)
    return bool(found) and all(places == slice(0, window.out[axis]) for _, places, _ in found)


@lru_cache(maxsize=1024)
def _kind(window: Window) -> DType:
    return np.min_scalar_type(prod(window.kernel) - 1)


@or_reference
def window_max(x: Any, window: Window, number: bool) -> tuple[Any, Any]:
    """Return the maximum of each window, and its winner if ``number`` is True."""
    # Without winners, NumPy's maximum is 2x to 5x faster than the loop, except for windows of 2 x 2.
    loops = number or window.kernel == window.stride == (2, 2)
    if loops and prod(window.kernel) <= 256 and pooling.takes(x, window):
        return pooling.max_pool(x, window)
    if x.dtype.char == "E":
        best, winners = window_max(wide(x), window, number)
        return cast(best, x.dtype), winners
    places = tables.table(x, window)
    if places is not None:
        found = tables.maxima(x, places)
        if found is not None:
            shape = (*x.shape[:2], *window.out)
            best, read = found
            return best.reshape(shape), read.argmax(0).astype(_kind(window)).reshape(shape) if number else None
    xp = array_module(x)
    kind = _kind(window) if number else None

    def reduce(exact: bool) -> tuple[Any, Any]:
        value, winner, weight = x, None, 1
        for axis in reversed(range(len(window.size))):
            value, winner = _max_along(value, winner, window, axis, weight, kind, exact)
            weight *= window.kernel[axis]
        return value, winner

    # Checking for NaN once is cheaper than handling it everywhere, but synchronizes with a GPU.
    floating = x.dtype.kind in FLOATING
    value, winner = reduce(floating and xp is not np)
    if number and floating and xp is np and value.size and np.isnan(value.max()):
        value, winner = reduce(True)
    return value.copy() if prod(window.kernel) == 1 else value, winner


@or_reference
def _max_scatter(g: Array, winners: Array, window: Window) -> Array:
    """Write each window's element at the position of its winner; add elements with the same position."""
    if winners.dtype == np.uint8 and pooling.takes(g, window):
        return pooling.max_pool_backward(g, winners, window)
    if g.dtype.char == "E":
        return cast(_max_scatter(wide(g), winners, window), g.dtype)
    places = tables.table(g, window)
    if places is not None:
        return tables.place_at(g, winners, places, window)
    xp = array_module(g)
    apart = window.is_partition
    x = (xp.empty if apart else xp.zeros)((*g.shape[:2], *window.size), dtype=g.dtype)
    zero = g.dtype.type(0)
    for offset, places, reads in taps(window):
        number = _number(offset, window.kernel)
        chosen = xp.where(winners[EVERY + places] == number, g[EVERY + places], zero)
        if apart:
            x[EVERY + reads] = chosen
        else:
            x[EVERY + reads] += chosen
    return x


def _max_gather(x: Array, winners: Array, window: Window) -> Array:
    xp = array_module(x)
    out = xp.zeros(winners.shape, dtype=x.dtype)
    for offset, places, reads in taps(window):
        number = _number(offset, window.kernel)
        target = EVERY + places
        out[target] = xp.where(winners[target] == number, x[EVERY + reads], out[target])
    return out


def _number(offset: Ints, kernel: Ints) -> int:
    number = 0
    for k, length in zip(offset, kernel):
        number = number * length + k
    return number


def flat_places(winners: Array, window: Window) -> Array:
    """Convert winners to positions in the flattened spatial axes of the input."""
    xp = array_module(winners)
    flat: Any = 0
    rest = winners.astype(np.int64)
    step = 1
    axes = len(window.size)
    for axis in reversed(range(axes)):
        offset = rest % window.kernel[axis]
        rest = rest // window.kernel[axis]
        starts = xp.arange(window.out[axis]) * window.stride[axis] - window.padding[axis]
        place = starts.reshape((-1,) + (1,) * (axes - 1 - axis)) + offset * window.dilation[axis]
        flat = flat + place * step
        step *= window.size[axis]
    return flat


@takes_rows
def places_of_maxima(x: Array, window: Window) -> Array:
    """Return the position of each window's maximum in the flattened spatial axes of the input."""
    return flat_places(window_max(x, window, True)[1], window)


def _examples(call: Call) -> Any:
    """Batch by additional images; the winners are also needed if gradients are recorded outside of ``vmap``."""
    call.params["number"] = call.params["number"] or modes.grad_enabled
    return folded()(call)


MAX_POOL: Primitive = Primitive(
    "max_pool",
    window_max,
    "x",
    [lambda g, winners, window: MAX_SCATTER(g, winners=winners, window=window)],
    residuals="winners",
    piecewise_linear=True,
    contiguous=True,
    batch=_examples,
    halves=window_max,
)
MAX_SCATTER: Primitive = Primitive(
    "max_pool_backward",
    _max_scatter,
    "g",
    [lambda g, winners, window: MAX_GATHER(g, winners=winners, window=window)],
    batch=folded("winners"),
    halves=_max_scatter,
)
MAX_GATHER: Primitive = Primitive(
    "max_pool_gather",
    _max_gather,
    "x",
    [lambda g, winners, window: MAX_SCATTER(g, winners=winners, window=window)],
    batch=folded("winners"),
)


def maximum_pool(
    axes: int, input: Tensor, kernel_size: Size, stride: Size | None, padding: Size, dilation: Size, ceil_mode: bool
) -> Tensor:
    """Return the maxima over windows along the last ``axes`` axes."""
    x, single = with_batch(real_operand(input), axes)
    window = sliding_windows(x, axes, kernel_size, stride, padding, dilation, ceil_mode)
    # The winners are needed only for the derivative.
    number = modes.grad_enabled and x._requires
    result = apply(MAX_POOL, (x,), {"window": window, "number": number})
    return result[0] if single else result


def _maximum_pool_with_indices(
    axes: int, input: Tensor, kernel_size: Size, stride: Size | None, padding: Size, dilation: Size, ceil_mode: bool
) -> MaxPool:
    x, single = with_batch(real_operand(input), axes)
    window = sliding_windows(x, axes, kernel_size, stride, padding, dilation, ceil_mode)
    if not all(_meets_all(window, axis) for axis in range(axes)):
        raise RuntimeError(f"a window lies entirely in the padding of {describe(x)} and has no index: {window}")
    return at_maxima(x, places_of_maxima(x.array, window), single)


def _meets_all(window: Window, axis: int) -> bool:
    met = {t for _, places, _ in axis_taps(window, axis) for t in range(places.start, places.stop)}
    return len(met) == window.out[axis]


def maxima_at(x: Tensor, index: Array, single: bool) -> Tensor:
    """Return the elements of x at these positions."""
    result = apply(READ_AT, (x,), {"index": index, "size": x.array.shape[2:]})
    return result[0] if single else result


def at_maxima(x: Tensor, index: Array, single: bool) -> MaxPool:
    """Return the elements of x at these positions, and the positions."""
    places = index.copy()  # a program may write to the returned copy; the gradient uses the original
    return MaxPool(maxima_at(x, index, single), new_tensor(places[0] if single else places))


def _max_pool(axes: int) -> Callable[..., Tensor | MaxPool]:
    """``max_k input[n, c, t * stride + k * dilation - padding]``: the maximum over windows of {dimensions}.

    The padding has the value -inf. The maximum of a window that contains NaN is NaN.

    Derivative: ``g`` at each window's maximum: the first of equal elements, row by row, or the last NaN.
    Shape: {input}; per axis
    ``L' = (L + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1`` windows, with ``ceil_mode`` rounded up.

    Args:
        kernel_size: the number of elements that a window reads; {integers}, like ``stride``, ``padding`` and
            ``dilation``.
        padding: the width added on each side, at most half of the window.
        dilation: the distance between the elements that a window reads.
        return_indices: also return the position of each maximum.

    Returns:
        The maxima; with ``return_indices`` the named tuple ``(output, indices)``, with indices as positions in the
        {places}.
    """

    @overload
    def max_pool(
        input: Tensor,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
        return_indices: Literal[False] = False,
    ) -> Tensor: ...
    @overload
    def max_pool(
        input: Tensor,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
        *,
        return_indices: Literal[True],
    ) -> MaxPool: ...
    @overload
    def max_pool(
        input: Tensor,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Tensor | MaxPool: ...
    def max_pool(
        input: Tensor,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Tensor | MaxPool:
        pool = _maximum_pool_with_indices if return_indices else maximum_pool
        return pool(axes, input, kernel_size, stride, padding, dilation, ceil_mode)

    return max_pool


max_pool1d, max_pool2d, max_pool3d = for_axes(
    _max_pool,
    {
        1: """>>> F.max_pool1d(rg.tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2)
    tensor([[[3., 2.]]])""",
        2: """>>> F.max_pool2d(rg.arange(16.0).reshape(1, 1, 4, 4), 2)
    tensor([[[[ 5.,  7.],
              [13., 15.]]]])""",
        3: """>>> F.max_pool3d(rg.ones(1, 2, 4, 4, 4), 2).shape
    (1, 2, 2, 2, 2)""",
    },
    dtype="real or integer",
    raises="bools or complex, windows",
)


def _max_unpool(
    axes: int,
    input: Tensor,
    indices: Tensor,
    kernel_size: Size,
    stride: Size | None,
    padding: Size,
    output_size: Sequence[int] | None,
) -> Tensor:
    x, single = with_batch(floating_operand(input), axes)
    places = operand(indices, "indices")
    if places.dtype != np.int64:
        raise RuntimeError(f"indices must be int64, got {describe(places)}")
    if 0 in x.array.shape[2 if single else 1 :]:
        raise RuntimeError(f"expected input with non-zero dimensions after the batch, but got {describe(x)}")
    if places.array.shape != operand(input).array.shape:
        raise RuntimeError(f"indices must have the input's shape, got {describe(input)} and {describe(places)}")
    kernel = per_axis("kernel_size", kernel_size, axes, 1)
    strides = strides_of(stride, kernel)
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
    index = places.array.copy()  # a copy for the backward pass, unaffected by later writes to the indices
    index = index[None] if single else index
    numbers = all_examples(index)
    if numbers.size and bool(((numbers < 0) | (numbers >= prod(size))).any()):
        raise RuntimeError(f"found an invalid max index (output volumes are of size {size}), in {describe(places)}")
    result = apply(WRITE_AT, (x,), {"index": index, "size": size})
    return result[0] if single else result


def _define(axes: int) -> Callable[..., Tensor]:
    """The partial inverse of ``max_pool{n}d``: each maximum at its original position, and zeros elsewhere.

    If several elements have the same index, the last one is written.

    Derivative: ``g`` at the index of each element, including elements that were overwritten.
    Shape: {input}; per axis
    ``(L - 1) * stride + kernel_size - 2 * padding``, unless ``output_size`` is given.
    Dtype: real floating, preserved; the indices are int64.

    Args:
        input: the maxima.
        indices: the indices that ``max_pool{n}d`` returned, in the input's shape.
        kernel_size, stride, padding: the arguments of ``max_pool{n}d``.
        output_size: the size of the input of ``max_pool{n}d``, by default the smallest that gives this number of
            windows.

    Raises:
        RuntimeError: the shapes differ, or an index is out of range.
        ValueError: an input of ``max_pool{n}d`` with size ``output_size`` gives another number of windows.
    """

    def max_unpool(
        input: Tensor,
        indices: Tensor,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        output_size: Sequence[int] | None = None,
    ) -> Tensor:
        return _max_unpool(axes, input, indices, kernel_size, stride, padding, output_size)

    return max_unpool


max_unpool1d, max_unpool2d, max_unpool3d = for_axes(
    _define,
    {
        1: """>>> F.max_unpool1d(rg.tensor([[[3.0, 2.0]]]), rg.tensor([[[1, 2]]]), 2)
    tensor([[[0., 3., 2., 0.]]])""",
        2: """>>> output, indices = F.max_pool2d(rg.arange(4.0).reshape(1, 1, 2, 2), 2, return_indices=True)
    >>> F.max_unpool2d(output, indices, 2)
    tensor([[[[0., 0.],
              [0., 3.]]]])""",
        3: """>>> output, indices = F.max_pool3d(rg.ones(1, 1, 2, 2, 2), 2, return_indices=True)
    >>> F.max_unpool3d(output, indices, 2).shape
    (1, 1, 2, 2, 2)""",
    },
    real=True,
)
