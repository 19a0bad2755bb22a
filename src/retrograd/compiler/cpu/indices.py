"""Lower indexing and indexed assignment."""

from __future__ import annotations

import numpy as np

from ..program import Instruction, Value, values_in
from .emission import broadcast_strides
from .numpy_loops import gathering
from .region_steps import Lowers, Place, Unlowered, stand_in_of


def getitem(lowering: Lowers, instruction: Instruction) -> None:
    """Lower indexing by arrays of integers."""
    x, key = instruction.args
    x = lowering.place(x)
    indices, rest = _integers(lowering, x, key)
    out = lowering.result(instruction.outs[0])
    lowering.add(gathering(x, indices, rest, out, "take"))


def take(lowering: Lowers, instruction: Instruction) -> None:
    """Lower ``take`` along the first axis."""
    x, key, *axis = instruction.args
    if set(instruction.kwargs) - {"axis"} or (axis or [instruction.kwargs.get("axis")]) != [0]:
        raise Unlowered("unsupported arguments of take")
    x = lowering.place(x)
    indices, rest = _integers(lowering, x, key)
    lowering.add(gathering(x, indices, rest, lowering.result(instruction.outs[0]), "take"))


def setitem(lowering: Lowers, instruction: Instruction) -> None:
    """Lower assignment to slices, or to elements at arrays of integers."""
    x, key, value = instruction.args
    x = lowering.place(x)
    if next(values_in(key), None) is None and _is_basic(key):
        stand_in = stand_in_of(x)
        part = stand_in[key] if key is not Ellipsis else stand_in
        if not isinstance(part, np.ndarray):
            part = stand_in[(*key, Ellipsis) if isinstance(key, tuple) else (key, Ellipsis)]
        if not part.size:
            return
        away = part.ctypes.data - stand_in.ctypes.data
        target = Place(x.buffer, x.offset + away, part.shape, part.strides, x.dtype)
        source = lowering.operand(value)
        if isinstance(source, Place):
            while len(source.shape) > len(target.shape) and source.shape[0] == 1:
                source = source._replace(shape=source.shape[1:], strides=source.strides[1:])
        lowering.copy(source, target)
        return
    _scatter(lowering, x, key, value, "put")


def add_at(lowering: Lowers, instruction: Instruction) -> None:
    """Lower ``np.add.at``, which accumulates repeated indices."""
    if len(instruction.args) != 3 or instruction.kwargs:
        raise Unlowered("unsupported arguments of add.at")
    x, key, value = instruction.args
    _scatter(lowering, lowering.place(x), key, value, "add")


def _scatter(lowering: Lowers, x: Place, key: object, value: object, how: str) -> None:
    indices, rest = _integers(lowering, x, key)
    shape = (*indices[0].shape, *[x.shape[d] for d in rest])
    source = lowering.operand(value)
    if not isinstance(source, Place) or source.dtype != x.dtype:
        if isinstance(source, Place) and source.dtype.kind == "f" and x.dtype.kind != "f":
            raise Unlowered("a cast from float to integer")
        source = lowering.cast(source, x.dtype, x)
    if source.may_overlap(x):
        raise Unlowered("an assignment whose value overlaps the target")
    source = source._replace(shape=shape, strides=broadcast_strides(source.shape, source.strides, shape))
    lowering.add(gathering(x, indices, rest, source, how))


def _integers(lowering: Lowers, x: Place, key: object) -> tuple[list[Place], list[int]]:
    """Return the index arrays of the first dimensions, which have one shape, and the other dimensions."""
    keys = key if type(key) is tuple else (key,)
    found = []
    for k in keys:
        if isinstance(k, Value) and k.shape or isinstance(k, np.ndarray) and k.ndim:
            place = lowering.operand(k)
            if isinstance(place, Place) and place.dtype.kind in "iu":
                found.append(place)
                continue
        raise Unlowered("an index that is not an array of integers")
    if len({place.shape for place in found}) != 1 or len(found) > len(x.shape):
        raise Unlowered("index arrays of different shapes")
    return found, list(range(len(found), len(x.shape)))


def _is_basic(key: object) -> bool:
    keys = key if type(key) is tuple else (key,)
    return all(k is None or k is Ellipsis or type(k) in (int, slice) for k in keys)
