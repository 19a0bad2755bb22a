"""Lower NumPy functions that are not ufuncs: choices, clipping, new arrays, and joined arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..program import Instruction, Value
from .region_steps import Lowers, Place, Unlowered
from .scalar_operations import choice, scalar


def where(lowering: Lowers, instruction: Instruction) -> None:
    """Lower ``where`` with three arguments."""
    if len(instruction.args) != 3 or instruction.kwargs:
        raise Unlowered("where with one argument")
    out = lowering.result(instruction.outs[0])
    bools = np.dtype(bool)
    lowering.map("where", out, [lowering.operand(x) for x in instruction.args], choice(out.dtype),
                 [bools, out.dtype, out.dtype], out.dtype)  # fmt: skip


def clip(lowering: Lowers, instruction: Instruction) -> None:
    """Lower ``clip``, whose bounds may be None."""
    if len(instruction.args) != 3 or instruction.kwargs:
        raise Unlowered("unsupported arguments of clip")
    x, *bounds = instruction.args
    out, found = lowering.result(instruction.outs[0]), lowering.operand(x)
    for name, bound in zip(("maximum", "minimum"), bounds, strict=True):
        emit = None if lowering.interpreted and out.dtype.kind != "f" else scalar(name, out.dtype)
        if bound is not None and emit is not None:
            lowering.map(name, out, [found, lowering.operand(bound)], emit, [out.dtype] * 2, out.dtype)
            found = out
    if found is not out:
        raise Unlowered("unsupported arguments of clip")


def filled_like(lowering: Lowers, instruction: Instruction) -> None:
    """Lower ``zeros_like`` and similar functions, which use only the shape of the argument."""
    value = {"zeros_like": 0, "ones_like": 1, "empty_like": None}[instruction.numpy_name]
    out = lowering.result(instruction.outs[0])
    if value is not None:
        lowering.copy((value, out.dtype), out)


def full(lowering: Lowers, instruction: Instruction) -> None:
    """Lower ``full`` of a shape and a number, which may vary."""
    if set(instruction.kwargs) - {"dtype"} or len(instruction.args) < 2:
        raise Unlowered("unsupported arguments of full")
    lowering.copy(lowering.operand(instruction.args[1]), lowering.result(instruction.outs[0]))


def item(lowering: Lowers, instruction: Instruction) -> None:
    """Lower ``item`` of an array with one element."""
    x = lowering.place(instruction.args[0])
    if len(instruction.args) != 1 or x.size != 1:
        raise Unlowered("item of an array with several elements")
    lowering.copy(Place(x.buffer, x.offset, (), (), x.dtype), lowering.result(instruction.outs[0]))


def joined(lowering: Lowers, instruction: Instruction) -> None:
    """Lower ``concatenate`` and ``stack``."""
    parts, *rest = instruction.args
    axis = rest[0] if rest else instruction.kwargs.get("axis", 0)
    if len(rest) > 1 or set(instruction.kwargs) - {"axis"} or axis is None:
        raise Unlowered(f"unsupported arguments of {instruction.name}")
    _join(lowering, parts, axis, instruction.outs[0])


def as_one(lowering: Lowers, instruction: Instruction) -> None:
    """Lower, to a copy, the joining of arrays that were adjacent in memory in the trace: a region may separate them."""
    _join(lowering, instruction.args, instruction.kwargs["dim"], instruction.outs[0])


def _join(lowering: Lowers, parts: Sequence[object], axis: int, value: Value) -> None:
    places = [lowering.operand(x) for x in parts]
    out = lowering.result(value)
    axis, at = axis % len(out.shape), 0
    for x in places:
        if not isinstance(x, Place):
            raise Unlowered("a number among arrays")
        shape, strides = x.shape, x.strides
        if len(shape) < len(out.shape):
            shape, strides = (*shape[:axis], 1, *shape[axis:]), (*strides[:axis], 0, *strides[axis:])
        lowering.copy(x._replace(shape=shape, strides=strides),
                      out._replace(shape=shape, offset=out.offset + at * out.strides[axis]))  # fmt: skip
        at += shape[axis]
