"""Rolled arrays as views of one padded copy.

A finite difference reads an array and its rolls by one in each direction; each roll is a copy. If several rolls have
the same source, the source is copied once, extended by the rows that the rolls wrap around. Each roll is then a view of
that copy, which elementwise loops read directly.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...ops.shape.arrangement import ROLL
from ..cpu.region_steps import row_major
from ..program import Instruction, Value, replaced

MIN_ROLLS = 2  # minimum rolls of one array
MIN_SIZE = 1 << 9  # minimum elements: the edges of smaller arrays cost more than copies of the arrays


class _Roll(NamedTuple):
    """A roll along one dimension, by less than half of its length."""

    dim: int
    shift: int


def with_halos(steps: Sequence[Instruction], kept: Sequence[Value]) -> list[Instruction]:
    """Return the instructions with views of padded copies in place of rolls.

    Args:
        steps: the instructions of a step, in their order.
        kept: values that are read afterwards, which get separate memory.
    """
    spoiled = {value.root for step in steps for value in step.writes}
    rolls: dict[Value, dict[int, _Roll]] = {}
    for number, step in enumerate(steps):
        roll = _roll_of(step)
        if roll is not None and step.args[0].root not in spoiled and step.outs[0] not in spoiled | set(kept):
            rolls.setdefault(step.args[0], {})[number] = roll
    every = {number: x for x, found in rolls.items() if len(found) >= MIN_ROLLS for number in found}
    if not every:
        return list(steps)
    count = 1 + max(v.index for step in steps for v in (*step.read, *step.outs))
    pads: dict[Value, tuple[Value, list[int]]] = {}
    views: dict[Value, Value] = {}
    out: list[Instruction] = []

    def renamed(x: object) -> object:
        return views.get(x, x) if type(x) is Value else x

    for number, step in enumerate(steps):
        x = every.get(number)
        if x is None:
            if any(value in views for value in step.read):
                step = step.changed(args=replaced(step.args, renamed), kwargs=replaced(step.kwargs, renamed))
            out.append(step)
            continue
        source = views.get(x, x)
        if x not in pads:
            pad, low, made = _padded(source, [*rolls[x].values()], count)
            count += 1
            pads[x] = pad, low
            out += made
        pad, low = pads[x]
        roll = rolls[x][number]
        starts = [a - roll.shift * (d == roll.dim) for d, a in enumerate(low)]
        view = _like(pad, x.shape, count)
        view.root = pad
        count += 1
        key = tuple([slice(a, a + n) for a, n in zip(starts, x.shape, strict=True)])
        made_view = Instruction("array", operator.getitem, (pad, key), None, (view,), view=True)
        made_view.paths = ((),)
        out.append(made_view)
        views[step.outs[0]] = view
    return out


def _roll_of(step: Instruction) -> _Roll | None:
    if step.kind != "primitive" or step.primitive is not ROLL or step.args[0].size < MIN_SIZE:
        return None
    shifts, dims = step.kwargs.get("shifts"), step.kwargs.get("dims")
    if not isinstance(shifts, tuple) or not isinstance(dims, tuple) or len(shifts) != 1 or len(dims) != 1:
        return None
    shape = step.args[0].shape
    dim = dims[0] % len(shape)
    length = shape[dim]
    shift = (shifts[0] + length // 2) % length - length // 2 if length else 0
    return _Roll(dim, shift) if shift and 4 * abs(shift) <= length else None


def _padded(x: Value, rolls: Sequence[_Roll], index: int) -> tuple[Value, list[int], list[Instruction]]:
    """Return the padded copy, the number of rows before the array along each dimension, and the instructions."""
    shape = x.shape
    low = [max([0, *[r.shift for r in rolls if r.dim == d]]) for d in range(len(shape))]
    high = [max([0, *[-r.shift for r in rolls if r.dim == d]]) for d in range(len(shape))]
    pad = _like(x, tuple([a + n + b for a, n, b in zip(low, shape, high, strict=True)]), index)
    empty = Instruction("array", np.empty, (pad.shape, pad.dtype), None, (pad,))
    empty.paths = ((),)
    steps = [empty]
    inside = [slice(a, a + n) for a, n in zip(low, shape, strict=True)]

    def put(target: Sequence[slice], source: Value) -> None:
        steps.append(Instruction("array", operator.setitem, (pad, tuple(target), source), None, (), (pad,)))

    put(inside, x)
    for d, n in enumerate(shape):
        for first, size, start in ((0, low[d], n - low[d]), (low[d] + n, high[d], 0)):
            if size:
                part = _like(x, (*shape[:d], size, *shape[d + 1 :]), index)
                part.root, part.strides = x.root, x.strides
                key = (*[slice(None)] * d, slice(start, start + size))
                view = Instruction("array", operator.getitem, (x, key), None, (part,), view=True)
                view.paths = ((),)
                steps.append(view)
                put([*inside[:d], slice(first, first + size), *inside[d + 1 :]], part)
    return pad, low, steps


def _like(x: Value, shape: tuple[int, ...], index: int) -> Value:
    made = Value(index, None)
    made.shape, made.dtype, made.device = shape, x.dtype, "cpu"
    made.strides = row_major(shape, x.dtype.itemsize)
    return made


__all__ = ["with_halos"]
