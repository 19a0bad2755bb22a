"""Operators on shapes and axes, slices and padding."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import _generated
from ...core.tensor.tensor import Tensor, new_tensor
from ..table import Attributes, checked_shape, constant, ints, operator

rg = _generated.toplevel


@operator("Shape")
def shape(at: Attributes, x: Tensor) -> Tensor:
    return constant(list(x.shape)[at("start", 0) : at("end")], np.int64)


@operator("Size")
def size(at: Attributes, x: Tensor) -> Tensor:
    return constant(x.numel(), np.int64)


@operator("Reshape")
def reshape(at: Attributes, x: Tensor, wanted: Tensor) -> Tensor:
    sizes = ints(wanted)
    if not at("allowzero", 0):
        sizes = [x.shape[axis] if length == 0 else length for axis, length in enumerate(sizes)]
    return x.reshape(sizes)


@operator("Flatten")
def flatten(at: Attributes, x: Tensor) -> Tensor:
    axis = at("axis", 1) % (x.ndim + 1) if at("axis", 1) < 0 else at("axis", 1)
    axis = axis - 1 if at("axis", 1) < 0 else axis
    return x.reshape(int(np.prod(x.shape[:axis], dtype=int)), int(np.prod(x.shape[axis:], dtype=int)))


@operator("Transpose")
def transpose(at: Attributes, x: Tensor) -> Tensor:
    return rg.permute(x, at("perm", list(range(x.ndim))[::-1]))


@operator("Squeeze")
def squeeze(at: Attributes, x: Tensor, axes: Tensor | None = None) -> Tensor:
    which = at("axes") if axes is None else ints(axes)
    if which is None:
        return rg.squeeze(x)
    gone = {axis % x.ndim for axis in which}
    wrong = [axis for axis in gone if x.shape[axis] != 1]
    if wrong:
        raise ValueError(f"Squeeze: axis {wrong[0]} must have length 1, got length {x.shape[wrong[0]]}")
    return x.reshape([length for axis, length in enumerate(x.shape) if axis not in gone])


@operator("Unsqueeze")
def unsqueeze(at: Attributes, x: Tensor, axes: Tensor | None = None) -> Tensor:
    which = at("axes") if axes is None else ints(axes)
    rank = x.ndim + len(which)
    new, lengths = {axis % rank for axis in which}, iter(x.shape)
    return x.reshape([1 if axis in new else next(lengths) for axis in range(rank)])


@operator("Expand")
def expand(at: Attributes, x: Tensor, wanted: Tensor) -> Tensor:
    return rg.broadcast_to(x, np.broadcast_shapes(tuple(x.shape), tuple(ints(wanted))))


@operator("Tile")
def tile(at: Attributes, x: Tensor, repeats: Tensor) -> Tensor:
    times = ints(repeats)
    checked_shape("Tile", [length * count for length, count in zip(x.shape, times, strict=True)])
    return rg.tile(x, times)


@operator("Concat")
def concat(at: Attributes, *xs: Tensor) -> Tensor:
    return rg.cat(list(xs), at("axis"))


@operator("Split")
def split(at: Attributes, x: Tensor, sizes: Tensor | None = None) -> Any:
    axis = at("axis", 0)
    length = x.shape[axis]
    parts = at("split") if sizes is None else ints(sizes)
    if not parts:
        count = at("num_outputs", at.outputs)
        largest = -(-length // count)
        parts = [largest] * (count - 1) + [length - largest * (count - 1)]
    return tuple(rg.split(x, parts, axis))


@operator("Slice")
def slice_(
    at: Attributes, x: Tensor, starts: Tensor, ends: Tensor, axes: Tensor | None = None, steps: Tensor | None = None
) -> Tensor:
    first, last = ints(starts), ints(ends)
    which = list(range(len(first))) if axes is None else ints(axes)
    stride = [1] * len(first) if steps is None else ints(steps)
    index: list[object] = [slice(None)] * x.ndim
    backwards: list[int] = []
    for start, end, axis, step in zip(first, last, which, stride, strict=True):
        length = x.shape[axis]
        low, high, by = slice(start, end, step).indices(length)
        if step < 0:  # flip first: Tensors do not support negative steps, and ONNX counts an end of -1 from the end
            end = max(end + length, -1) if end < 0 else end
            start = min(start + length if start < 0 else start, length - 1)
            places = range(start, end, step)
            low, high, by = (places[-1], places[0] + 1, -step) if len(places) else (0, 0, 1)
            backwards.append(axis)
        index[axis] = slice(low, high, by)
    x = x[tuple(index)]
    return rg.flip(x, backwards) if backwards else x


@operator("Pad")
def pad(at: Attributes, x: Tensor, pads: Tensor, value: Tensor | None = None, axes: Tensor | None = None) -> Tensor:
    widths, mode = ints(pads), at("mode", "constant")
    which = list(range(x.ndim)) if axes is None else [axis % x.ndim for axis in ints(axes)]
    count = len(which)
    for axis, before, after in zip(which, widths[:count], widths[count:], strict=True):
        x = _padded(x, axis, before, after, mode, 0 if value is None else value)
    return x


def _padded(x: Tensor, axis: int, before: int, after: int, mode: str, value: Any) -> Tensor:
    if before < 0 or after < 0:
        x = rg.narrow(x, axis, max(0, -before), x.shape[axis] + min(before, 0) + min(after, 0))
        before, after = max(before, 0), max(after, 0)
    if not (before or after):
        return x
    length = x.shape[axis]
    checked_shape("Pad", [*x.shape[:axis], before + length + after, *x.shape[axis + 1 :]])
    if mode == "constant":
        shape = list(x.shape)
        parts = []
        for width in (before, None, after):
            if width is None:
                parts.append(x)
            elif width:
                shape[axis] = width
                filled = rg.full(shape, 0, dtype=x.dtype, device=x.device)
                parts.append(
                    filled if isinstance(value, int) else rg.broadcast_to(value.to(x.dtype).reshape(()), shape)
                )
        return rg.cat(parts, axis)
    places = np.arange(-before, length + after)
    if mode == "edge":
        places = places.clip(0, length - 1)
    elif mode == "wrap":
        places = places % length
    elif mode == "reflect":
        period = max(2 * (length - 1), 1)
        places = np.abs((places + (length - 1)) % period - (length - 1)) if length > 1 else places * 0
    else:
        raise ValueError(f"Pad: mode {mode!r} is not supported")
    return rg.index_select(x, axis, constant(places, np.int64, x))


@operator("ConstantOfShape")
def constant_of_shape(at: Attributes, wanted: Tensor) -> Tensor:
    value = at("value")
    value = np.zeros(1, np.float32) if value is None else value
    shape = checked_shape("ConstantOfShape", ints(wanted))
    return rg.full(shape, value.reshape(-1)[0].item(), dtype=at.actual(value.dtype), device=wanted.device)


@operator("Range")
def range_(at: Attributes, start: Tensor, limit: Tensor, delta: Tensor) -> Tensor:
    if not delta.item():
        raise ValueError("Range: delta must not be 0")
    checked_shape("Range", [(limit.item() - start.item()) / delta.item()])
    return new_tensor(np.arange(start.item(), limit.item(), delta.item()).astype(start.dtype))


@operator("EyeLike")
def eye_like(at: Attributes, x: Tensor) -> Tensor:
    dtype = at.dtype("dtype") if "dtype" in at else x.dtype
    return new_tensor(np.eye(x.shape[0], x.shape[1], at("k", 0), dtype=dtype))


@operator("Trilu")
def trilu(at: Attributes, x: Tensor, k: Tensor | None = None) -> Tensor:
    diagonal = 0 if k is None else int(k.item())
    return rg.triu(x, diagonal) if at("upper", 1) else rg.tril(x, diagonal)


@operator("DepthToSpace")
def depth_to_space(at: Attributes, x: Tensor) -> Tensor:
    n, c, h, w = x.shape
    b = at("blocksize")
    if at("mode", "DCR") == "DCR":
        x = x.reshape(n, b, b, c // b**2, h, w).permute(0, 3, 4, 1, 5, 2)
    else:
        x = x.reshape(n, c // b**2, b, b, h, w).permute(0, 1, 4, 2, 5, 3)
    return x.reshape(n, c // b**2, h * b, w * b)


@operator("SpaceToDepth")
def space_to_depth(at: Attributes, x: Tensor) -> Tensor:
    n, c, h, w = x.shape
    b = at("blocksize")
    order = (0, 3, 5, 1, 2, 4) if at("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    x = x.reshape(n, c, h // b, b, w // b, b).permute(*order)
    return x.reshape(n, c * b * b, h // b, w // b)


@operator("ReverseSequence")
def reverse_sequence(at: Attributes, x: Tensor, lengths: Tensor) -> Tensor:
    batch, time = at("batch_axis", 1), at("time_axis", 0)
    steps = np.arange(x.shape[time])[:, None]
    known = np.asarray(ints(lengths))[None]
    places = np.where(steps < known, known - 1 - steps, steps)
    shape = [1] * x.ndim
    shape[time], shape[batch] = places.shape
    places = (places if time < batch else places.T).reshape(shape)
    index = rg.broadcast_to(constant(places, np.int64, x), x.shape)
    return rg.gather(x, time, index)
