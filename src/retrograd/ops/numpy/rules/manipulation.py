"""NumPy's array manipulation: shapes, joining, splitting, repeating, flipping, padding; and arrays like others."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from ...._generated import functional
from ...._generated import toplevel as ops
from ....core.errors import InvalidValue, describe
from ....core.tensor.tensor import Tensor
from ...table.arguments import dimension
from ..arguments import Arrays, Rules, alike, axes_of, flat, only, tensor, tensors, unwrapped
from ..bare_arrays import refuse_diagonals
from .selection import take

# Shapes


def _reshape(a: Any, /, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: Any = None) -> Tensor:
    only("reshape", "order", order, "C", "A", "F")
    x, lengths = tensor(a), shape if shape is not None else newshape
    if order == "F":
        lengths = (lengths,) if np.ndim(lengths) == 0 else tuple(lengths)
        result = _transpose(ops.reshape(_transpose(x), lengths[::-1]))
    else:
        result = ops.reshape(x, lengths)
    return result.clone() if copy else result


def _transpose(a: object, axes: Any = None) -> Tensor:
    x = tensor(a)
    return ops.permute(x, tuple(range(x.ndim))[::-1] if axes is None else tuple(axes))


def _matrix_transpose(x: object, /) -> Tensor:
    return ops.transpose(tensor(x), -2, -1)


def _atleast_1d(*arys: object) -> Tensor | tuple[Tensor, ...]:
    refuse_diagonals(sys._getframe(2))  # the frame that called `array_function`
    return ops.atleast_1d(*tensors(*arys))


def _rollaxis(a: object, axis: int, start: int = 0) -> Tensor:
    x = tensor(a)
    axis = dimension(axis, x.ndim)
    start = start + x.ndim if start < 0 else start
    return ops.movedim(x, axis, start - 1 if axis < start else start)


def _squeeze(a: object, axis: object = None) -> Tensor:
    x = tensor(a)
    if axis is None:
        return ops.squeeze(x)
    places = axes_of(x, axis)
    for place in places:
        if x.shape[place] != 1:
            raise ValueError(f"axis {place} of {tuple(x.shape)} does not have length 1")
    return ops.squeeze(x, places)


def _expand_dims(a: Tensor, axis: int | tuple[int, ...]) -> Tensor:
    x = tensor(a)
    places = axis if isinstance(axis, (tuple, list)) else (axis,)
    ndim = x.ndim + len(places)
    new = {dimension(place, ndim) for place in places}
    if len(new) != len(places):
        raise InvalidValue(f"an axis is repeated in {tuple(places)}")
    lengths = iter(x.shape)
    return ops.reshape(x, [1 if place in new else next(lengths) for place in range(ndim)])


# Joining and splitting


def _in_dtype(joined: Tensor, dtype: Any, casting: Any) -> Tensor:
    wanted = joined.dtype if dtype is None else np.dtype(dtype)
    if not np.can_cast(joined.dtype, wanted, casting):
        raise TypeError(f"cannot cast from {joined.dtype} to {wanted} by the rule {casting!r}")
    return joined.astype(wanted, copy=False)


def _concatenate(
    arrays: Arrays, /, axis: int | None = 0, *, dtype: object = None, casting: str = "same_kind"
) -> Tensor:
    parts = alike(*arrays)
    if axis is None:
        parts, axis = tuple([ops.reshape(part, (-1,)) for part in parts]), 0
    return _in_dtype(ops.cat(parts, axis), dtype, casting)


def _stack(arrays: Arrays, axis: int = 0, *, dtype: object = None, casting: str = "same_kind") -> Tensor:
    return _in_dtype(ops.stack(alike(*arrays), axis), dtype, casting)


def _stacked(name: str) -> Callable[..., Tensor]:
    def rule(tup: Arrays, *, dtype: object = None, casting: str = "same_kind") -> Tensor:
        return _in_dtype(getattr(ops, name)(alike(*tup)), dtype, casting)

    return rule


def _split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    x = tensor(ary)
    if np.ndim(indices_or_sections) == 0 and x.shape[axis] % indices_or_sections:
        raise InvalidValue(f"{indices_or_sections} sections do not divide the length {x.shape[axis]} evenly")
    return _array_split(x, indices_or_sections, axis)


def _array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    places = indices_or_sections if np.ndim(indices_or_sections) == 0 else tuple(indices_or_sections)
    return list(ops.tensor_split(tensor(ary), places, axis))


def _split_along(name: str) -> Callable[..., list[Tensor]]:
    def rule(ary: object, indices_or_sections: object) -> list[Tensor]:
        x = tensor(ary)
        least = {"vsplit": 2, "hsplit": 1, "dsplit": 3}[name]
        if x.ndim < least:
            raise InvalidValue(f"{name} splits arrays of at least {least} dimensions, got {describe(x)}")
        axis = {"vsplit": 0, "hsplit": 1 if x.ndim > 1 else 0, "dsplit": 2}[name]
        return _split(x, indices_or_sections, axis)

    return rule


# Repeating, flipping, padding


def _repeat(a: Any, repeats: Any, axis: int | None = None) -> Tensor:
    x, dim = flat(a, axis)
    counts = repeats if np.ndim(repeats) == 0 else tensor(np.asarray(unwrapped(repeats)))
    return ops.repeat_interleave(x, counts, dim)


def _pad(array: object, pad_width: object, mode: str = "constant", *, constant_values: Any = 0) -> Tensor:
    x = tensor(array)
    if isinstance(pad_width, dict):
        named = {dimension(axis, x.ndim): width for axis, width in pad_width.items()}
        pad_width = [named.get(axis, 0) for axis in range(x.ndim)]
        pad_width = [(width, width) if np.ndim(width) == 0 else width for width in pad_width]
    widths = np.broadcast_to(np.asarray(pad_width, int), (x.ndim, 2)).tolist()
    if mode == "constant":
        if np.ndim(unwrapped(constant_values)) != 0:
            raise TypeError(f"np.pad on Tensors: constant_values must be one number, got {constant_values!r}")
        return functional.pad(x, [width for pair in reversed(widths) for width in pair], value=constant_values)
    if mode not in ("edge", "reflect", "symmetric", "wrap"):
        raise TypeError(f"np.pad on Tensors: mode={mode!r} is not supported")
    padding: Any = mode
    for axis, pair in enumerate(widths):
        if pair != [0, 0]:
            x = take(x, np.pad(np.arange(x.shape[axis]), pair, mode=padding), axis)
    return x


def _meshgrid(
    *xi: object, copy: bool = True, sparse: bool = False, indexing: Literal["ij", "xy"] = "xy"
) -> tuple[Tensor, ...]:
    xs = tensors(*xi)
    axes = [1, 0, *range(2, len(xs))] if indexing == "xy" and len(xs) > 1 else range(len(xs))
    lines = [ops.reshape(x, [-1 if place == axis else 1 for place in range(len(xs))]) for x, axis in zip(xs, axes)]
    return tuple(lines if sparse else ops.broadcast_tensors(*lines))


def _roll(a: object, shift: Any, axis: Any = None) -> Tensor:
    x = tensor(a)
    if axis is None:
        return ops.roll(x, int(np.sum(unwrapped(shift))))
    shifts, axes = np.broadcast_arrays(np.atleast_1d(unwrapped(shift)), np.atleast_1d(axis))
    for step, place in zip(shifts.tolist(), axes.tolist(), strict=True):  # an axis may occur twice
        x = ops.roll(x, step, place)
    return x if len(shifts) else ops.clone(x)


def _broadcast_arrays(*args: object, subok: bool = False) -> tuple[Any, ...]:
    numbers = iter(ops.broadcast_tensors(*tensors(*[x for x in args if x is not None])))
    found = [None if x is None else next(numbers) for x in args]
    shape = next(x.shape for x in found if x is not None)
    return tuple([np.broadcast_to(np.array(None), shape) if x is None else x for x in found])  # NumPy's for None


def _resize(a: Any, new_shape: Any) -> Tensor:
    x = flat(a, None)[0]
    shape = (new_shape,) if np.ndim(new_shape) == 0 else tuple(new_shape)
    size = math.prod(shape)
    if min(shape, default=0) < 0:
        raise ValueError(f"lengths must not be negative, got {shape}")
    if not len(x):
        return ops.zeros(shape, dtype=x.dtype, device=x.device)
    return ops.reshape(take(x, np.arange(size) % len(x), 0), shape)


def _block(arrays: object) -> Tensor:
    depth, inside = 0, arrays
    while isinstance(inside, list):
        if not inside:
            raise ValueError("expected non-empty lists of arrays, got an empty list")
        depth, inside = depth + 1, inside[0]
    ndim = max([depth, *[x.ndim for x in tensors(*_leaves_of(arrays))]])

    def joined(part: Any, level: int) -> Tensor:
        if isinstance(part, list) != (level < depth):
            raise ValueError(f"lists are nested {depth} deep in one place and {level} in another")
        if level < depth:
            return _concatenate([joined(inner, level + 1) for inner in part], axis=level - depth)
        x = tensor(part)
        return ops.reshape(x, (1,) * (ndim - x.ndim) + tuple(x.shape))

    result = joined(arrays, 0)
    return result if depth else ops.clone(result)


def _leaves_of(part: object) -> list[Any]:
    return [leaf for inner in part for leaf in _leaves_of(inner)] if isinstance(part, list) else [part]


def _sliding_window_view(
    x: Any, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False
) -> Tensor:
    windows = tensor(x)
    lengths = (window_shape,) if np.ndim(window_shape) == 0 else tuple(window_shape)
    axes = axes_of(windows, axis)
    if len(lengths) != len(axes):
        raise ValueError(f"window_shape {lengths} and axis {axes} differ in length")
    for length, place in zip(lengths, axes, strict=True):
        windows = windows.unfold(place, length, 1)
    return windows


# Arrays like others


def _like(name: str) -> Callable[..., Tensor]:
    def rule(
        a: Tensor,
        dtype: object = None,
        order: str = "K",
        subok: bool = True,
        shape: object = None,
        *,
        device: object = None,
    ) -> Tensor:
        x = tensor(a)
        if shape is None:
            return getattr(ops, name)(x, dtype=dtype)
        make = getattr(ops, name.removesuffix("_like"))
        return make(shape, dtype=x.dtype if dtype is None else dtype, device=x.device)

    return rule


def _full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> Tensor:
    x, values = tensors(a, fill_value)
    if shape is None:
        full = ops.empty_like(x, dtype=dtype)  # inside vmap, the result is mapped if x is
        full[...] = values.astype(full.dtype)
        return full
    lengths = (shape,) if np.ndim(shape) == 0 else tuple(shape)
    return ops.clone(ops.broadcast_to(values, lengths).astype(x.dtype if dtype is None else dtype))


RULES: Rules = {
    "reshape": _reshape,
    "ravel": lambda a, order="C": _reshape(a, (-1,), order),
    "transpose": _transpose,
    "matrix_transpose": _matrix_transpose,
    "linalg.matrix_transpose": _matrix_transpose,
    "swapaxes": lambda a, axis1, axis2: ops.transpose(tensor(a), axis1, axis2),
    "moveaxis": lambda a, source, destination: ops.movedim(tensor(a), source, destination),
    "rollaxis": _rollaxis,
    "squeeze": _squeeze,
    "expand_dims": _expand_dims,
    "broadcast_to": lambda array, shape, subok=False: ops.broadcast_to(
        tensor(array), (shape,) if np.ndim(shape) == 0 else tuple(shape)
    ),
    "broadcast_arrays": _broadcast_arrays,
    "atleast_1d": _atleast_1d,
    "atleast_2d": lambda *arys: ops.atleast_2d(*tensors(*arys)),
    "atleast_3d": lambda *arys: ops.atleast_3d(*tensors(*arys)),
    "concatenate": _concatenate,
    "stack": _stack,
    "vstack": _stacked("vstack"),
    "hstack": _stacked("hstack"),
    "dstack": _stacked("dstack"),
    "column_stack": lambda tup: ops.column_stack(alike(*tup)),
    "append": lambda arr, values, axis=None: _concatenate((arr, values), axis=axis),
    "split": _split,
    "array_split": _array_split,
    "vsplit": _split_along("vsplit"),
    "hsplit": _split_along("hsplit"),
    "dsplit": _split_along("dsplit"),
    "unstack": lambda x, /, *, axis=0: ops.unbind(tensor(x), axis),
    "tile": lambda A, reps: ops.tile(tensor(A), (reps,) if np.ndim(reps) == 0 else tuple(reps)),
    "repeat": _repeat,
    "flip": lambda m, axis=None: ops.flip(tensor(m), axes_of(tensor(m), axis)),
    "fliplr": lambda m: ops.fliplr(tensor(m)),
    "flipud": lambda m: ops.flipud(tensor(m)),
    "roll": _roll,
    "resize": _resize,
    "block": _block,
    "lib.stride_tricks.sliding_window_view": _sliding_window_view,
    "rot90": lambda m, k=1, axes=(0, 1): ops.rot90(tensor(m), k, axes),
    "pad": _pad,
    "tril": lambda m, k=0: ops.tril(tensor(m), k),
    "triu": lambda m, k=0: ops.triu(tensor(m), k),
    "diag": lambda v, k=0: ops.diag(tensor(v), k),
    "diagflat": lambda v, k=0: ops.diagflat(tensor(v), k),
    "diagonal": lambda a, offset=0, axis1=0, axis2=1: ops.diagonal(tensor(a), offset, axis1, axis2),
    "meshgrid": _meshgrid,
    "copy": lambda a, order="K", subok=False: ops.clone(tensor(a)),
    "astype": lambda x, dtype, /, *, copy=True, device=None: tensor(x).astype(dtype, copy=copy),
    "zeros_like": _like("zeros_like"),
    "ones_like": _like("ones_like"),
    "empty_like": lambda prototype, *args, **options: _like("empty_like")(prototype, *args, **options),
    "full_like": _full_like,
}
