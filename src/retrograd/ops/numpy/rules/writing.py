"""NumPy's functions that write into an array, for Tensors: the writes are recorded for the backward pass."""

from __future__ import annotations

import numpy as np

from ...._generated import toplevel as ops
from ....core.errors import describe
from ....core.tensor.tensor import Tensor
from ...table.arguments import dimension
from ..arguments import Rules, tensor, tensors, unwrapped
from ..bare_arrays import refuse_examples


def _target(name: str, target: object, *sources: object) -> Tensor:
    if isinstance(target, Tensor):
        return target
    if any(isinstance(source, Tensor) and source.requires_grad for source in sources):
        raise TypeError(f"np.{name}: {describe(target)} is a bare array and cannot hold a gradient; write to a Tensor")
    for source in sources:
        refuse_examples(target, source)
    return tensor(target)


def _filled(values: object, count: int) -> Tensor:
    """Return ``count`` numbers: the values, repeated cyclically."""
    flat = ops.reshape(tensor(values), (-1,))
    return flat[np.arange(count) % len(flat)]


def _copyto(dst: object, src: object, casting: str = "same_kind", where: object = True) -> None:
    target = _target("copyto", dst, src)
    if not np.can_cast(tensor(src).dtype, target.dtype, casting):  # type: ignore[arg-type]
        raise TypeError(f"cannot cast from {tensor(src).dtype} to {target.dtype} by the rule {casting!r}")
    source = ops.broadcast_to(tensors(target, src)[1], target.shape).astype(target.dtype)
    target[...] = source if where is True else ops.where(tensor(where), source, target)


def _putmask(a: object, /, mask: object, values: object) -> None:
    target = _target("putmask", a, values)
    source = ops.reshape(_filled(values, target.array.size), target.shape).astype(target.dtype)
    target[...] = ops.where(tensor(mask) != 0, source, target)


def _place(arr: object, mask: object, vals: object) -> None:
    target = _target("place", arr, vals)
    chosen = ops.reshape(tensor(mask) != 0, target.shape)
    target[chosen] = _filled(vals, int(chosen.array.sum())).astype(target.dtype)


def _put(a: object, ind: object, v: object, mode: object = "raise") -> None:
    target = _target("put", a, v)
    size = target.array.size
    index = np.ravel(np.asarray(unwrapped(ind)))
    if mode != "raise":
        index = index % size if mode == "wrap" else np.clip(index, 0, size - 1)
    elif index.size and not (-size <= index.min() and index.max() < size):
        raise IndexError(f"an index is out of range for {describe(target)}")
    target[np.unravel_index(index % size, target.shape)] = _filled(v, index.size).astype(target.dtype)


def _put_along_axis(arr: object, indices: object, values: object, axis: int | None) -> None:
    target = _target("put_along_axis", arr, values)
    index = np.asarray(unwrapped(indices))
    if axis is None:
        return _put(target, index, values)
    place = dimension(axis, target.ndim)
    grid: list[object] = list(np.ogrid[tuple(slice(length) for length in target.shape)])
    grid[place] = index
    target[tuple(grid)] = tensors(target, values)[1].astype(target.dtype)
    return None


def _fill_diagonal(a: object, val: object, wrap: bool = False) -> None:
    target = _target("fill_diagonal", a, val)
    if target.ndim < 2 or target.ndim > 2 and len(set(target.shape)) > 1:
        raise ValueError(f"expected a matrix, or dimensions of equal length, got {describe(target)}")
    step = sum(np.cumprod((1, *target.shape[:0:-1])).tolist())
    end = target.array.size if wrap or target.ndim > 2 else target.shape[1] * target.shape[1]
    places = np.arange(0, min(end, target.array.size), step)
    target[np.unravel_index(places, target.shape)] = _filled(val, len(places)).astype(target.dtype)


RULES: Rules = {
    "copyto": _copyto,
    "putmask": _putmask,
    "place": _place,
    "put": _put,
    "put_along_axis": _put_along_axis,
    "fill_diagonal": _fill_diagonal,
}
