"""Pooling: maxima, means and norms over sliding windows.

Windows are boxes, so that a maximum or a sum over one is taken axis by axis: k + k steps instead of k * k.
"""

from __future__ import annotations

from functools import lru_cache
from math import inf, prod
from typing import Any, NamedTuple

import numpy as np

from ....core.devices import array_module
from ....core.errors import describe
from ....core.modes import modes
from ....core.primitive import Primitive, apply, operand
from ....core.tensor import Tensor, new_tensor
from ....kernels import planes, takes
from ...table.registry import operator
from ..spatial.patches import EVERY, Ints, Window, axis_taps, per_axis, taps, with_batch

FIRST_OF_EQUALS = "ties: the first of equal elements in a window gets the gradient"


class MaxPool(NamedTuple):
    """The maxima, and where in the flattened spatial axes each was found."""

    output: Tensor
    indices: Tensor


def _along(axis: int, places: slice, ndim: int) -> tuple[slice, ...]:
    return tuple([places if each == axis else slice(None) for each in range(ndim)])


# Maxima. The winner of a window is the number of its element in the kernel, row by row, in the smallest dtype.


def _max_along(value: Any, winner: Any, window: Window, axis: int, weight: int, kind: Any, exact: bool) -> Any:
    """Maxima along one axis and, with a dtype ``kind``, the winners: ``weight`` times the offset on this axis, plus the
    winner further in (None: no axis further in).

    With ``exact`` the last NaN of a window wins, as in PyTorch; else a NaN goes to the maximum but not to the winner.
    """
    xp = array_module(value)
    ndim, place, out = value.ndim, axis + 2, window.out[axis]
    found = axis_taps(window, axis)

    def number(offset: int, source: Any) -> Any:
        here = kind.type(offset * weight)
        return here if winner is None else winner[source] + here

    def beats(new: Any, old: Any) -> Any:
        return (new > old) | (new != new) if exact else new > old

    if found and all(places == slice(0, out) for _, places, _ in found):
        offset, _, reads = found[0]
        source = _along(place, reads, ndim)
        best, won = value[source], number(offset, source) if kind else None
        for offset, _, reads in found[1:]:
            source = _along(place, reads, ndim)
            new = value[source]
            if kind:
                won = xp.where(beats(new, best), number(offset, source), won)
            best = xp.maximum(best, new)
        if kind and len(found) == 1 and winner is None:
            won = xp.full(best.shape, won, dtype=kind)
        return best, won

    shape = value.shape[:place] + (out,) + value.shape[place + 1 :]
    lowest = -inf if value.dtype.kind == "f" else np.iinfo(value.dtype).min
    best = xp.full(shape, lowest, dtype=value.dtype)
    won = xp.zeros(shape, dtype=kind) if kind else None
    # Later offsets reach windows further to the left: those left of `met` have met no element yet, and take the first.
    met = out
    for offset, places, reads in found:
        source = _along(place, reads, ndim)
        fresh, again = slice(places.start, min(places.stop, met)), slice(max(places.start, met), places.stop)
        split = fresh.stop - fresh.start
        new = value[source]
        late, target = new[_along(place, slice(split, None), ndim)], _along(place, again, ndim)
        if won is not None:
            numbers = xp.broadcast_to(number(offset, source), new.shape)
            won[_along(place, fresh, ndim)] = numbers[_along(place, slice(0, split), ndim)]
            late_numbers = numbers[_along(place, slice(split, None), ndim)]
            won[target] = xp.where(beats(late, best[target]), late_numbers, won[target])
        best[_along(place, fresh, ndim)] = new[_along(place, slice(0, split), ndim)]
        best[target] = xp.maximum(best[target], late)
        met = min(met, places.start)
    return best, won


def window_max(x: Any, window: Window, number: bool) -> tuple[Any, Any]:
    """The maximum of each window, and its winner if asked for."""
    if len(window.size) == 2 and prod(window.kernel) <= 256 and takes(x):
        return planes.max_pool(x, window)
    xp = array_module(x)
    kind = np.min_scalar_type(prod(window.kernel) - 1) if number else None

    def reduce(exact: bool) -> tuple[Any, Any]:
        value, winner, weight = x, None, 1
        for axis in reversed(range(len(window.size))):
            value, winner = _max_along(value, winner, window, axis, weight, kind, exact)
            weight *= window.kernel[axis]
        return value, winner

    # Finding NaN is cheaper than heeding it everywhere, but waits for a GPU.
    floating = x.dtype.kind == "f"
    value, winner = reduce(floating and xp is not np)
    if number and floating and xp is np and value.size and np.isnan(value.max()):
        value, winner = reduce(True)
    return value.copy() if prod(window.kernel) == 1 else value, winner


def _max_scatter(g: Any, winners: Any, window: Window) -> Any:
    """Each window's element at the place of its winner; windows that share one are added."""
    if len(window.size) == 2 and winners.dtype == np.uint8 and takes(g):
        return planes.max_pool_backward(g, winners, window)
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


def _max_gather(x: Any, winners: Any, window: Window) -> Any:
    """The element of x at the place of each window's winner."""
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


def flat_places(winners: Any, window: Window) -> Any:
    """Winners as places in the flattened spatial axes of the input."""
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


MAX_POOL: Primitive = Primitive(
    "max_pool",
    window_max,
    "x",
    [lambda g, winners, window: MAX_SCATTER(g, winners=winners, window=window)],
    residuals="winners",
)
MAX_SCATTER: Primitive = Primitive(
    "max_pool_backward", _max_scatter, "g", [lambda g, winners, window: MAX_GATHER(g, winners=winners, window=window)]
)
MAX_GATHER: Primitive = Primitive(
    "max_pool_gather", _max_gather, "x", [lambda g, winners, window: MAX_SCATTER(g, winners=winners, window=window)]
)


# Elements at given places of the flattened spatial axes


def _rows(x: Any) -> Any:
    return x.reshape((x.shape[0] * x.shape[1], prod(x.shape[2:])))


def _read_at(x: Any, index: Any, size: Ints) -> Any:
    xp = array_module(x)
    rows = _rows(x)
    places = _rows(index) + xp.arange(rows.shape[0])[:, None] * rows.shape[1]
    return xp.take(rows.reshape((-1,)), places).reshape(index.shape)


def _add_at(values: Any, index: Any, size: Ints) -> Any:
    xp = array_module(values)
    count, length = values.shape[0] * values.shape[1], prod(size)
    shape = (*values.shape[:2], *size)
    if not values.size or not length:
        return xp.zeros(shape, dtype=values.dtype)
    places = _rows(index) + xp.arange(count)[:, None] * length
    total = xp.bincount(places.reshape((-1,)), weights=values.reshape((-1,)), minlength=count * length)
    return total.astype(values.dtype).reshape(shape)


def _write_at(values: Any, index: Any, size: Ints) -> Any:
    xp = array_module(values)
    out = xp.zeros((*values.shape[:2], *size), dtype=values.dtype)
    if values.size:
        rows = xp.arange(values.shape[0] * values.shape[1])[:, None]
        _rows(out)[rows, _rows(index)] = _rows(values)
    return out


READ_AT: Primitive = Primitive("read_at", _read_at, "x", [lambda g, index, size: ADD_AT(g, index=index, size=size)])
ADD_AT: Primitive = Primitive("add_at", _add_at, "x", [lambda g, index, size: READ_AT(g, index=index, size=size)])
WRITE_AT: Primitive = Primitive(
    "max_unpool", _write_at, "x", [lambda g, index, size: READ_AT(g, index=index, size=size)]
)


# Sums


def _splits(window: Window, axis: int) -> bool:
    """Whether the windows split an axis into long pieces, of which a reshape is the faster view."""
    length, kernel = window.size[axis], window.kernel[axis]
    return (
        kernel > 4
        and window.stride[axis] == kernel
        and window.padding[axis] == 0
        and window.out[axis] * kernel == length
    )


def _window_sum(x: Any, window: Window) -> Any:
    xp = array_module(x)
    if window.is_partition and prod(window.out) == 1:
        return x.reshape((*x.shape[:2], prod(window.size))).sum(axis=2).reshape((*x.shape[:2], *window.out))
    for axis in reversed(range(len(window.size))):
        place, ndim = axis + 2, x.ndim
        before, after = x.shape[:place], x.shape[place + 1 :]
        if _splits(window, axis):
            x = x.reshape((*before, window.out[axis], window.kernel[axis], *after)).sum(axis=place + 1)
            continue
        total: Any = None
        for _, places, reads in axis_taps(window, axis):
            source = x[_along(place, reads, ndim)]
            if total is None:
                if source.shape[place] == window.out[axis]:
                    total = source.copy()
                    continue
                total = xp.zeros((*before, window.out[axis], *after), dtype=x.dtype)
            total[_along(place, places, ndim)] += source
        x = xp.zeros((*before, window.out[axis], *after), dtype=x.dtype) if total is None else total
    return x


def _window_spread(g: Any, window: Window) -> Any:
    """The transpose of ``_window_sum``."""
    xp = array_module(g)
    if window.is_partition and prod(window.out) == 1:
        return xp.broadcast_to(g, (*g.shape[:2], *window.size))
    for axis in range(len(window.size)):
        place, ndim = axis + 2, g.ndim
        if _splits(window, axis):
            g = xp.repeat(g, window.kernel[axis], axis=place)
            continue
        x = xp.zeros(g.shape[:place] + (window.size[axis],) + g.shape[place + 1 :], dtype=g.dtype)
        for _, places, reads in axis_taps(window, axis):
            x[_along(place, reads, ndim)] += g[_along(place, places, ndim)]
        g = x
    return g


def _mean(x: Any, window: Window, divisor: Any) -> Any:
    if x.dtype == np.float16:
        return _mean(x.astype(np.float32), window, divisor).astype(np.float16)
    total = _window_sum(x, window)
    if x.dtype.kind == "f":
        total /= _as_like(divisor, x)
        return total
    return np.trunc(total / _as_like(divisor, x)).astype(x.dtype)


def _spread_mean(g: Any, window: Window, divisor: Any) -> Any:
    return _window_spread(g / _as_like(divisor, g), window)


def _as_like(divisor: Any, x: Any) -> Any:
    return array_module(x).asarray(divisor, dtype=x.dtype) if isinstance(divisor, np.ndarray) else divisor


AVG_POOL: Primitive = Primitive(
    "avg_pool", _mean, "x", [lambda g, window, divisor: AVG_SPREAD(g, window=window, divisor=divisor)]
)
AVG_SPREAD: Primitive = Primitive(
    "avg_pool_backward", _spread_mean, "g", [lambda g, window, divisor: AVG_POOL(g, window=window, divisor=divisor)]
)


def _window_lengths(window: Window, axis: int, padded: bool) -> np.ndarray:
    """How many elements each window has along an axis, those of the padding counted or not."""
    size, p = window.size[axis], window.padding[axis]
    start = np.arange(window.out[axis]) * window.stride[axis] - p
    end = np.minimum(start + window.kernel[axis], size + p)
    return end - start if padded else np.minimum(end, size) - np.maximum(start, 0)


@lru_cache(maxsize=256)
def _divisor(window: Window, count_include_pad: bool) -> Any:
    """How many elements each window averages: a number, or an array where they differ."""
    counts = np.ones((), np.int64)
    for axis in range(len(window.size)):
        counts = np.multiply.outer(counts, _window_lengths(window, axis, count_include_pad))
    first = float(counts.flat[0]) if counts.size else 1.0
    return first if (counts == first).all() else counts.astype(np.float64)


# The public functions: pooling over windows


def _sliding(
    x: Tensor, axes: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Window:
    """The windows of a pooling, checked."""
    size = tuple(x.array.shape[2:])
    kernel = per_axis("kernel_size", kernel_size, axes, 1)
    strides = kernel if stride is None or stride == () or stride == [] else per_axis("stride", stride, axes, 1)
    paddings = per_axis("padding", padding, axes, 0)
    dilations = per_axis("dilation", dilation, axes, 1)
    if 0 in x.array.shape[1:]:
        raise RuntimeError(f"expected input with non-zero dimensions after the batch, but got {describe(x)}")
    if any(p > ((d if axes == 1 else 1) * (k - 1) + 1) // 2 for p, k, d in zip(paddings, kernel, dilations)):
        raise RuntimeError(
            f"pad should be at most half of effective kernel size, but got padding={paddings}, "
            f"kernel_size={kernel} and dilation={dilations}"
        )
    out = []
    for length, k, s, p, d in zip(size, kernel, strides, paddings, dilations):
        room = length + 2 * p - d * (k - 1) - 1
        count = (room + (s - 1 if ceil_mode else 0)) // s + 1
        # With ceil_mode a window must still start inside of the input or its left padding.
        out.append(count - 1 if ceil_mode and (count - 1) * s >= length + p else count)
    if min(out) < 1:
        raise RuntimeError(
            f"for input {describe(x)} and kernel_size={kernel} the output size {tuple(out)} is too small"
        )
    return Window(size, kernel, strides, paddings, dilations, tuple(out))


def _max_pool(
    axes: int,
    input: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    return_indices: bool,
) -> Any:
    name = f"max_pool{axes}d"
    x, single = with_batch(operand(input), axes)
    real(name, x)
    window = _sliding(x, axes, kernel_size, stride, padding, dilation, ceil_mode)
    if return_indices:
        if not all(_meets_all(window, axis) for axis in range(axes)):
            raise RuntimeError(f"a window lies wholly in the padding of {describe(x)}; it has no index: {window}")
        _, winners = window_max(x.array, window, True)
        return at_maxima(x, flat_places(winners, window), single)
    # The winners are for the derivative alone.
    number = modes.grad_enabled and x._requires
    result = apply(MAX_POOL, (x,), {"window": window, "number": number})
    return result[0] if single else result


def _meets_all(window: Window, axis: int) -> bool:
    """Whether every window along an axis has an element that is no padding."""
    met = {t for _, places, _ in axis_taps(window, axis) for t in range(places.start, places.stop)}
    return len(met) == window.out[axis]


def at_maxima(x: Tensor, index: Any, single: bool) -> MaxPool:
    result = apply(READ_AT, (x,), {"index": index, "size": tuple(x.array.shape[2:])})
    return MaxPool(result[0], new_tensor(index[0])) if single else MaxPool(result, new_tensor(index))


def real(name: str, x: Tensor) -> None:
    if x.dtype.kind not in "fiu":
        raise NotImplementedError(f"not implemented for {x.dtype}; wanted real numbers, got {describe(x)}")


@operator(namespace="nn.functional", method=False, note=FIRST_OF_EQUALS)
def max_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The maximum over windows of ``(N, C, L)`` or ``(C, L)``; see ``max_pool2d``.

    >>> F.max_pool1d(rg.tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2)
    tensor([[[3., 2.]]])
    """
    return _max_pool(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@operator(namespace="nn.functional", method=False, note=FIRST_OF_EQUALS)
def max_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The maximum over windows: ``result[n, c, i, j] = max_uv input[n, c, i * stride + u * dilation - padding, ...]``.

    The padding is minus infinity. Of equal elements the first, row by row, gets the gradient; the last NaN of a
    window is its maximum.

    Args:
        input: ``(N, C, H, W)``, or ``(C, H, W)`` without a batch.
        kernel_size: one integer or one per axis, as are the next three.
        stride: the distance of windows, by default ``kernel_size``.
        padding: at most half of the window.
        dilation: the distance of the elements that a window reads.
        ceil_mode: also windows that start inside but end outside of the input.
        return_indices: also where each maximum was found, as places in the flattened ``H * W``.

    Returns:
        ``(N, C, H', W')``; with ``return_indices`` the named tuple ``(output, indices)``.

    Raises:
        RuntimeError: the rank is wrong, an argument is out of range, or no window fits.

    >>> F.max_pool2d(rg.arange(16.0).reshape(1, 1, 4, 4), 2)
    tensor([[[[ 5.,  7.],
              [13., 15.]]]])
    """
    return _max_pool(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


@operator(namespace="nn.functional", method=False, note=FIRST_OF_EQUALS)
def max_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The maximum over windows of ``(N, C, D, H, W)`` or ``(C, D, H, W)``; see ``max_pool2d``.

    >>> F.max_pool3d(rg.ones(1, 2, 4, 4, 4), 2).shape
    (1, 2, 2, 2, 2)
    """
    return _max_pool(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def _avg_pool(
    axes: int,
    input: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None = None,
) -> Tensor:
    name = f"avg_pool{axes}d"
    x, single = with_batch(operand(input), axes)
    real(name, x)
    window = _sliding(x, axes, kernel_size, stride, padding, 1, ceil_mode)
    if divisor_override == 0:
        raise RuntimeError("divisor_override must be not zero")
    divisor = _divisor(window, bool(count_include_pad)) if divisor_override is None else divisor_override
    result = apply(AVG_POOL, (x,), {"window": window, "divisor": divisor})
    return result[0] if single else result


@operator(namespace="nn.functional", method=False)
def avg_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean over windows of ``(N, C, L)`` or ``(C, L)``; see ``avg_pool2d``.

    >>> F.avg_pool1d(rg.tensor([[[1.0, 3.0, 2.0, 0.0]]]), 2)
    tensor([[[2., 1.]]])
    """
    return _avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad)


@operator(namespace="nn.functional", method=False)
def avg_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean over windows: ``result[n, c, i, j] = sum_uv input[n, c, i * stride + u - padding, ...] / count``.

    Args:
        input: ``(N, C, H, W)``, or ``(C, H, W)`` without a batch.
        kernel_size: one integer or one per axis, as are the next two.
        stride: the distance of windows, by default ``kernel_size``.
        padding: zeros around the input, at most half of the window.
        ceil_mode: also windows that start inside but end outside of the input.
        count_include_pad: whether the zeros of the padding count.
        divisor_override: a divisor instead of the count.

    Raises:
        RuntimeError: the rank is wrong, an argument is out of range, or no window fits.

    >>> F.avg_pool2d(rg.arange(16.0).reshape(1, 1, 4, 4), 2)
    tensor([[[[ 2.5,  4.5],
              [10.5, 12.5]]]])
    """
    return _avg_pool(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@operator(namespace="nn.functional", method=False)
def avg_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean over windows of ``(N, C, D, H, W)`` or ``(C, D, H, W)``; see ``avg_pool2d``.

    >>> F.avg_pool3d(rg.ones(1, 2, 4, 4, 4), 2).shape
    (1, 2, 2, 2, 2)
    """
    return _avg_pool(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


def _lp_pool(axes: int, input: Tensor, norm_type: Any, kernel_size: Any, stride: Any, ceil_mode: bool) -> Tensor:
    x = operand(input)
    if norm_type in (inf, -inf):
        sign = 1 if norm_type > 0 else -1
        return sign * _max_pool(axes, sign * abs(x), kernel_size, stride, 0, 1, ceil_mode, False)
    mean = _avg_pool(axes, x**norm_type, kernel_size, stride, 0, ceil_mode, True)
    total: Any = mean * prod(per_axis("kernel_size", kernel_size, axes, 1))
    # A sum of zero has the gradient zero, where the root has none.
    total = np.where(new_tensor(total.array != 0), total, 0.0)
    return total ** (1.0 / norm_type)


@operator(namespace="nn.functional", method=False)
def lp_pool1d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """The p-norm over windows of ``(N, C, L)`` or ``(C, L)``; see ``lp_pool2d``.

    >>> F.lp_pool1d(rg.tensor([[[3.0, 4.0]]]), 2, 2)
    tensor([[[5.]]])
    """
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


@operator(namespace="nn.functional", method=False)
def lp_pool2d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """The p-norm over windows, ``(sum x^p)^(1/p)``; the largest (smallest) ``|x|`` for p infinite (minus infinite).

    As in PyTorch no absolute value is taken, so an odd p with negative elements gives other numbers than a norm,
    and NaN for a negative sum.

    >>> F.lp_pool2d(rg.ones(1, 1, 2, 2), 2, 2)
    tensor([[[[2.]]]])
    """
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


@operator(namespace="nn.functional", method=False)
def lp_pool3d(input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Tensor:
    """The p-norm over windows of ``(N, C, D, H, W)`` or ``(C, D, H, W)``; see ``lp_pool2d``.

    >>> F.lp_pool3d(rg.ones(1, 1, 2, 2, 2), 1, 2)
    tensor([[[[[8.]]]]])
    """
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)
