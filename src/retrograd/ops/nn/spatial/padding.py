"""Padding with a constant or with the input (reflected, repeated, wrapped around); negative widths crop."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import array_module
from ....core.arrays.layout import row_major
from ....core.arrays.python_numbers import converted
from ....core.errors import describe
from ....core.graph.primitive import Primitive, apply, operand
from ....core.tensor.tensor import Tensor
from ...indexing.indexing import GETITEM
from ...table.arguments import integers, number
from ...table.registry import operator
from ...table.types import Number, Size

if TYPE_CHECKING:
    from ....core.mapping.batching import Call

Widths = tuple[tuple[int, int], ...]


def _pad(x: Array, widths: Widths, value: float) -> Array:
    shape, inside, part = _padded_layout(x.shape, widths)
    out = array_module(x).empty(shape, x.dtype)
    out[...] = value
    out[inside] = x[part]
    return out


@lru_cache(maxsize=256)
def _padded_layout(
    own: tuple[int, ...], widths: Widths
) -> tuple[tuple[int, ...], tuple[slice, ...], tuple[slice, ...]]:
    """Return the padded shape, the position of the input in it, and the part of the input that remains."""
    shape = tuple([length + left + right for length, (left, right) in zip(own, widths)])
    return shape, _inside(shape, widths), _inside(own, tuple([(-left, -right) for left, right in widths]))


def _inside(shape: tuple[int, ...], widths: Widths) -> tuple[slice, ...]:
    """Return the index of the array without padding of the given (positive) widths."""
    return tuple([slice(max(left, 0), length - max(right, 0)) for length, (left, right) in zip(shape, widths)])


def _pad_rule(g: Array, widths: Widths) -> Array:
    """The adjoint of padding is cropping, and the adjoint of cropping is padding with zeros."""
    if all(left >= 0 and right >= 0 for left, right in widths):
        return GETITEM(g, index=(*_inside(g.shape, widths), Ellipsis))
    return PAD(g, widths=tuple([(-left, -right) for left, right in widths]), value=0)


def _pad_examples(call: Call) -> Any:
    return call.below([call.full(0)], {**call.params, "widths": ((0, 0), *call.params["widths"])})


PAD: Primitive = Primitive("pad", _pad, "x", [_pad_rule], contiguous=True, batch=_pad_examples, shaped=True)

_NUMPY_MODE = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _fold_edges(x: Array, widths: Widths, mode: str) -> Array:
    """The adjoint of padding with the input: the padding is added to the elements it was copied from."""
    x = x.copy()
    for into, source, total in _folds(x.shape, widths, mode):
        lines, part = x[into], x[source]
        lines += part if total is None else part.sum(axis=total, keepdims=True)
    return row_major(x[_inside(x.shape, widths)])


Fold = tuple[tuple[slice, ...], tuple[slice, ...], int | None]


@lru_cache(maxsize=256)
def _folds(shape: tuple[int, ...], widths: Widths, mode: str) -> list[Fold]:
    """Return, for each padded side, the index to add it to, its own index, and the axis to sum it over (or None)."""
    found: list[Fold] = []
    for axis, (left, right) in enumerate(widths):
        stop = shape[axis] - right
        if mode == "reflect":
            places = [(left + 1, _backwards(0, left)), (stop - 1 - right, _backwards(stop, stop + right))]
        elif mode == "replicate":
            places = [(left, slice(0, left)), (stop - 1, slice(stop, None))]
        else:
            places = [(stop - left, slice(0, left)), (left, slice(stop, None))]
        before, after = _inside(shape[:axis], widths[:axis]), (slice(None),) * (len(shape) - axis - 1)
        for (first, source), width in zip(places, (left, right), strict=True):
            if width:
                into = slice(first, first + (1 if mode == "replicate" else width))
                total = axis if mode == "replicate" else None
                found.append(((*before, into, *after), (*before, source, *after), total))
    return found


def _backwards(start: int, stop: int) -> slice:
    """Return the slice of the elements from ``start`` to before ``stop``, in reverse order."""
    return slice(stop - 1, start - 1 if start else None, -1)


SMALL = 1 << 12  # up to this number of elements, the result is gathered axis by axis


def _pad_edges(x: Array, widths: Widths, mode: str) -> Array:
    if type(x) is not np.ndarray:
        return array_module(x).pad(x, widths, _NUMPY_MODE[mode])
    if x.size <= SMALL and any(map(any, widths)):
        for axis, pair in enumerate(widths):
            if any(pair):
                x = x.take(_sources(x.shape[axis], pair, mode), axis)
        return x
    shape, inside, _ = _padded_layout(x.shape, widths)
    out = np.empty(shape, x.dtype)
    out[inside] = x
    for axis, (length, pair) in enumerate(zip(x.shape, widths)):
        if any(pair):  # here lines also copy unset padding of later axes, which is set when the loop reaches them
            lines = out.swapaxes(0, axis)
            source = _sources(length, pair, mode) + pair[0]
            for place in (*range(pair[0]), *range(pair[0] + length, len(source))):
                lines[place] = lines[source[place]]
    return out


@lru_cache(maxsize=256)
def _sources(length: int, pair: tuple[int, int], mode: str) -> Array:
    return np.pad(np.arange(length), pair, _NUMPY_MODE[mode])  # type: ignore[call-overload]


PAD_EDGES: Primitive = Primitive(
    "pad",
    _pad_edges,
    "x",
    [lambda g, widths, mode: FOLD_EDGES(g, widths=widths, mode=mode)],
    piecewise_linear=True,
    contiguous=True,
    batch=_pad_examples,
    shaped=True,
)
FOLD_EDGES: Primitive = Primitive(
    "pad_backward",
    _fold_edges,
    "x",
    [lambda g, widths, mode: PAD_EDGES(g, widths=widths, mode=mode)],
    batch=_pad_examples,
)


def _widths(x: Tensor, pad: Size) -> Widths:
    """Convert PyTorch's list (last dimension first) to one pair per dimension."""
    if isinstance(pad, int):
        raise TypeError(f"argument 'pad' must be a sequence of integers, not {type(pad).__name__}")
    sizes = integers((pad,), "pad")
    if len(sizes) % 2:
        raise RuntimeError(f"the length of pad must be divisible by 2, got {sizes}")
    if len(sizes) > 2 * x.array.ndim:
        raise RuntimeError(f"pad {sizes} has pairs for more dimensions than {describe(x)} has")
    pairs = [(sizes[place], sizes[place + 1]) for place in range(0, len(sizes), 2)]
    return ((0, 0),) * (x.array.ndim - len(pairs)) + tuple(reversed(pairs))


def _check_crop(x: Tensor, widths: Widths) -> None:
    for length, (left, right) in zip(x.array.shape, widths):
        if length + left + right < 0 or length + min(left, 0) + min(right, 0) < 0:
            raise RuntimeError(f"widths {widths} leave a negative length of {describe(x)}")


def _filling(value: Number, x: Tensor) -> Number:
    value = number(value, "value")
    if isinstance(value, complex) and x.array.dtype.kind != "c":
        raise TypeError(f"argument 'value' must be a real number, not {value}")
    return converted(float(value) if isinstance(value, (bool, int)) and value < 0 else value, x.array.dtype)


def _constant(x: Tensor, widths: Widths, value: Number) -> Tensor:
    if min(map(min, widths), default=0) < 0:
        _check_crop(x, widths)
    return apply(PAD, (x,), {"widths": widths, "value": _filling(value, x)})


@operator(method=False)
def constant_pad_nd(input: Tensor, pad: Size, value: Number = 0) -> Tensor:
    """``value`` around the input; ``pad`` is (left, right) of the last dimension, then of the previous one, and so on.

    Derivative: input: the part of g at the input's position, 0 for cropped elements; value: none.
    Shape: any; each dimension grows by its two widths, or shrinks by negative ones.

    Args:
        pad: an even number of widths; negative ones crop.
        value: the value of the padding.

    Raises:
        RuntimeError: ``pad`` has an odd length or too many pairs, or crops more elements than there are.

    >>> rg.constant_pad_nd(rg.tensor([1, 2]), (1, 2))
    tensor([0, 1, 2, 0, 0])
    """
    x = operand(input)
    return _constant(x, _widths(x, pad), value)


@operator(namespace="nn.functional", method=False, name="pad")
def pad_(input: Tensor, pad: Size, mode: str = "constant", value: Number | None = None) -> Tensor:
    """``value``, or copied elements, around the input; ``pad`` is (left, right) of the last dimension, then of others.

    Derivative: the part of g at the input's position, 0 for cropped elements; for modes other than constant, g of the
    padding is added to the elements that it was copied from.
    Shape: any for ``"constant"``; else the input has one or two dimensions (batch and channels) before the 1, 2 or 3
    padded dimensions.

    Args:
        pad: widths (left, right) of the last dimension, then of the dimension before it, and so on; negative ones crop.
        mode: ``"constant"``, ``"reflect"`` (without repeating the edge), ``"replicate"`` (the edge) or ``"circular"``.
        value: the constant, 0 by default.

    Raises:
        RuntimeError: ``pad`` has an odd length or too many pairs, a reflected or wrapped width exceeds the input, or
            ``value`` is given with a mode other than constant.
        NotImplementedError: the mode is unknown, or not defined for this number of dimensions.

    >>> F.pad(rg.tensor([1.0, 2.0, 3.0]).reshape(1, 3), (1, 1), mode="reflect")
    tensor([[2., 1., 2., 3., 2.]])
    """
    x = operand(input)
    widths = _widths(x, pad)
    if mode == "constant":
        return _constant(x, widths, 0 if value is None else value)
    if mode not in _NUMPY_MODE:
        raise NotImplementedError(
            f"unrecognized padding mode {mode!r}; expected constant, reflect, replicate or circular"
        )
    if value:
        raise RuntimeError(f"padding mode {mode!r} takes no value, got {value}")
    padded = len(integers((pad,), "pad")) // 2
    if not 1 <= padded <= 3 or x.array.ndim - padded not in (1, 2):
        raise NotImplementedError(
            f"mode {mode!r} pads the last 1, 2 or 3 dimensions after one or two others (batch and channels), "
            f"got widths for {padded} dimensions of {describe(x)}"
        )
    if mode != "circular" and 0 in x.array.shape[-1 - padded :]:
        raise RuntimeError(f"mode {mode!r} needs elements to copy: only the batch may be empty, got {describe(x)}")
    _check_crop(x, widths)
    crop = tuple([(min(left, 0), min(right, 0)) for left, right in widths])
    crops = any(left or right for left, right in crop)
    if crops:
        if mode != "circular" and all(x.array.shape[dim] + sum(widths[dim]) < 1 for dim in range(-padded, 0)):
            raise RuntimeError(f"pad {widths} leaves nothing of {describe(x)}")
        widths = tuple([(max(left, 0), max(right, 0)) for left, right in widths])
        if mode == "circular":  # cropped elements are not wrapped around, but may be reflected or repeated
            x = apply(PAD, (x,), {"widths": crop, "value": 0})
    for dim, (length, pair) in enumerate(zip(x.array.shape, widths)):
        most = {"reflect": length - 1, "replicate": max(pair) if length else 0, "circular": length}[mode]
        if max(pair) > most and any(pair):
            raise RuntimeError(
                f"width {max(pair)} exceeds {most}, "
                f"the most that mode {mode!r} allows at dimension {dim} of {describe(x)}"
            )
    y = apply(PAD_EDGES, (x,), {"widths": widths, "mode": mode})
    return apply(PAD, (y,), {"widths": crop, "value": 0}) if crops and mode != "circular" else y
