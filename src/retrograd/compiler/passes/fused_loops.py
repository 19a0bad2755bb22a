"""Groups of elementwise instructions and sums as one loop of the library.

The loop executes a group's steps on blocks that stay in the cache (``kernels/loops/elements/fused_steps.py``), along
the last axis of its layout; threads share the rows, or blocks of a single axis. No operation is contracted or
reordered, except sums: each block is summed in double precision, so that the result does not depend on the number of
threads.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...core.arrays import Array
from ...core.arrays.dtypes import DType
from ...core.arrays.layout import place_of
from ...core.opaque_calls import LoopMissing
from ...kernels import loop
from ...kernels.loops.elements import fused_steps as at
from ...kernels.runtime.result_arrays import empty
from ...kernels.runtime.threads import launch
from ..program import Asked, Instruction, Value
from .expressions import Step
from .fused_code import code_of
from .layouts import Layout

BLOCK_ELEMENTS = 1 << 13  # elements per block


class Sum(NamedTuple):
    """A sum, or mean, of a value over some axes of the loop's shape."""

    out: Value
    of: Value
    axes: frozenset[int]
    mean: bool


class Group(NamedTuple):
    """The content of one loop: instructions, as steps and sums, in an order in which they may run."""

    members: tuple[Instruction, ...]
    shape: tuple[int, ...]
    steps: tuple[Step, ...]
    sums: tuple[Sum, ...]
    outs: tuple[Value, ...]  # values that the loop writes, as other instructions read them

    @property
    def operands(self) -> tuple[list[Value], list[Any]]:
        """The arrays that the loop reads, and the numbers, constants included."""
        made = {step.out for step in self.steps}
        read = [x for step in self.steps for x in step.operands]
        read += [total.of for total in self.sums]
        arrays: dict[Value, Value] = {}
        numbers: dict[Any, Any] = {}  # constants by position, since equal constants are separate operands
        for place, x in enumerate(read):
            if isinstance(x, Value):
                if x not in made:
                    (numbers if x.shape is None or is_number(x) else arrays)[x] = x
            elif not isinstance(x, (bool, np.bool_)):
                numbers[place] = x
        return list(arrays), list(numbers.values())


def is_number(value: Value) -> bool:
    """Return whether all elements of a value are at the same address."""
    return value.size == 1 or all(
        stride == 0 or length == 1 for length, stride in zip(value.shape, value.strides, strict=True)
    )


def dtypes_of(steps: Sequence[Step], sums: Sequence[Sum]) -> set[np.dtype]:
    """Return the dtypes in which steps and sums compute, apart from conditions."""
    return {step.dtype for step in steps if step.dtype != np.bool_} | {total.of.dtype for total in sums}


_Known = tuple[list[tuple[DType, tuple[int, ...]]], Array, list[int]]  # layouts, the table of arrays, itemsizes


class Loop:
    """A function of a group's arrays and numbers. Returns the results, sums last, or the only result.

    Raises:
        ValueError: one loop cannot compute the group.
    """

    def __init__(self, group: Group) -> None:
        self.group = group
        arrays, numbers = group.operands
        dtypes = dtypes_of(group.steps, group.sums)
        self.dtype: Any = dtypes.pop() if len(dtypes) == 1 else None
        self.reads = (*arrays, *numbers)
        self.layout = Layout(group.shape, arrays, [total.axes for total in group.sums])
        self.operands = [self.layout.operands[x] for x in arrays]
        self.__name__ = "+".join(dict.fromkeys(member.operator or member.name for member in group.members))[:60]
        *outer, self.columns = self.layout.lengths
        if self.dtype is None or len(outer) >= at.AXES or not is_there(self.dtype):
            raise ValueError(f"a loop of {self.dtype} over {len(outer) + 1} axes")
        self.rows = prod(outer)
        # The columns of a block if there is one row, otherwise its rows.
        self.block = BLOCK_ELEMENTS if self.rows == 1 else max(1, BLOCK_ELEMENTS // self.columns)
        self.parts = -(-(self.columns if self.rows == 1 else self.rows) // self.block)
        self.outer = (*[1] * (at.AXES - 1 - len(outer)), *outer)
        last = len(outer)  # the axis that is divided into blocks
        self.direct = [
            last in operand.axes and x.dtype == self.dtype and self.layout.last_stride(x) == x.dtype.itemsize
            for operand, x in zip(self.operands, arrays, strict=True)
        ]
        direct = [x for x, yes in zip(arrays, self.direct, strict=True) if yes]
        along = [last in self.layout.reduces(total.axes) for total in group.sums]
        sums = [(total.of, yes) for total, yes in zip(group.sums, along, strict=True)]
        self.code, self.registers = code_of(group.steps, arrays, direct, numbers, group.outs, sums, self.dtype)
        # The shapes of partial sums: of rows, or of parts.
        self.partial = [
            ((self.parts if self.rows == 1 else self.rows),) if yes else (self.parts, self.columns) for yes in along
        ]
        self.results = [self._results(x.dtype.itemsize) for x in group.outs]
        self.results += [self._partial(yes) for yes in along]
        self.known: _Known | None = None  # the layouts in the last call, if all arrays were read in place
        results = [Asked(group.shape, x.dtype, number) for number, x in enumerate(group.outs)]
        self.asked = (*results, *[Asked(shape, np.dtype(float), None) for shape in self.partial])

    def _results(self, size: int) -> list[int]:
        """Return the strides of a row-major array along each axis of the loop, and between parts."""
        steps = [size * self.columns * prod(self.outer[axis + 1 :]) for axis in range(len(self.outer))]
        return [*steps, size, 0]

    def _partial(self, along: bool) -> list[int]:
        """Return the strides of partial sums along each axis of the loop, and between parts."""
        if not along:
            return [0, 0, 0, 8, 8 * self.columns]
        if self.rows == 1:
            return [0, 0, 0, 0, 8]
        return [*[8 * prod(self.outer[axis + 1 :]) for axis in range(len(self.outer))], 0, 0]

    def __call__(self, *args: Any) -> Any:
        width, group = len(self.operands), self.group
        outs = [empty(group.shape, x.dtype) for x in group.outs]
        partial = [empty(shape, float) for shape in self.partial]
        for one in partial:
            one.fill(0)
        arrays, places = self._arrays_and_table(args[:width])
        for row, x in enumerate((*arrays, *outs, *partial)):
            places[row, 0] = place_of(x)
        numbers = np.array([*values_of(args[width:]), 0.0, 1.0], self.dtype)
        sizes = self.rows, self.columns, self.block, *self.outer[1:], self.registers
        given = self.code, places, numbers, _LIKE[self.dtype]
        launch(loop(_LOOPS, self.dtype.name), self.parts, 1, *given, *sizes)
        sums = [self._total(total, parts) for total, parts in zip(group.sums, partial, strict=True)]
        found = (*outs, *sums)
        return found if len(found) != 1 else found[0]

    def _arrays_and_table(self, given: Sequence[Array]) -> tuple[Sequence[Array], Array]:
        """Return the arrays as the loop reads them, and the table of all arrays with their steps, without addresses."""
        layouts = [(x.dtype, x.strides) for x in given]
        known = self.known
        if known is not None and layouts == known[0] and not any(map(operator.mod, map(place_of, given), known[2])):
            return given, known[1].copy()
        arrays = [self._bound(k, x) for k, x in enumerate(given)]
        rows = [[0, *self._steps(k, x)] for k, x in enumerate(arrays)] + [[0, *steps] for steps in self.results]
        places = np.array(rows, np.int64).reshape(-1, at.AXES + 2)
        if all(type(x) is np.ndarray and place_of(x) == place_of(y) for x, y in zip(given, arrays, strict=True)):
            self.known = layouts, places.copy(), [x.itemsize for x in given]  # valid because no array was copied
        return arrays, places

    def _bound(self, number: int, x: Array) -> Array:
        """Return an array as the loop reads it."""
        if x.dtype != self.reads[number].dtype:
            x = x.astype(self.reads[number].dtype)
        x = self.operands[number].bind(x)
        straight = not self.direct[number] or x.strides[-1] == x.itemsize
        return x if x.flags.aligned and straight else np.ascontiguousarray(x)

    def _steps(self, number: int, x: Any) -> list[int]:
        """Return an array's strides, in bytes, along each axis of the loop, and between parts."""
        steps, missing = [0] * (at.AXES + 1), at.AXES - len(self.layout.lengths)
        for axis, stride in zip(self.operands[number].axes, x.strides, strict=True):
            steps[missing + axis] = stride
        return steps

    def _total(self, total: Sum, partial: Any) -> Array:
        """Return a sum from the sums of rows or blocks."""
        axes = self.layout.reduces(total.axes)
        *outer, _ = self.layout.lengths
        if len(outer) not in axes or self.rows == 1:
            whole = partial.sum(axis=0) if len(partial) > 1 else partial[0]
        else:
            whole = partial.reshape(outer).sum(axis=tuple(axis for axis in axes if axis != len(outer)))
        if total.mean:
            whole = whole / prod(self.layout.lengths[axis] for axis in axes)
        return np.asarray(whole, total.out.dtype).reshape(total.out.shape)


_LOOPS = "loops.elements.fused_step_loops"
_LIKE = {np.dtype(name): np.zeros(1, name) for name in ("float32", "float64")}


@cache
def is_there(dtype: DType) -> bool:
    """Return whether the loop of a dtype can run."""
    if dtype not in _LIKE:
        return False
    numbers, (code, places) = np.zeros(2, dtype), [np.zeros((0, width), np.int64) for width in (5, 6)]
    try:
        loop(_LOOPS, dtype.name).entry(0, 1, 0, 0, 0, code, places, numbers, _LIKE[dtype], *[1] * 6)
    except LoopMissing:
        return False
    return True


def values_of(numbers: Sequence[object]) -> list[Any]:
    """Return the numbers of a call as Python numbers."""
    return [
        x.flat[0].item() if isinstance(x, np.ndarray) else x.item() if isinstance(x, np.generic) else x for x in numbers
    ]


def as_instruction(run: Loop, group: Group, outs: Sequence[Value]) -> Instruction:
    """Return a loop as one instruction of the program."""
    instruction = Instruction("loop", run, run.reads, None, tuple(outs), several=len(outs) != 1)
    instruction.paths = tuple((index,) for index in range(len(outs)))
    last = group.members[-1]
    instruction.operator, instruction.site, instruction.backward = run.__name__, last.site, last.backward
    instruction.parts = group.members
    instruction.asked = run.asked
    return instruction
