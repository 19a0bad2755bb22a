"""Compile the program of a step, with the loop around it, to one function.

The function's argument is a tuple of arrays, as for a region (``cpu/module``). Some arrays have one row for each step;
their pointers advance by a row. A carry that is not saved lies in two arrays, which swap their roles after each step,
so that the last step writes to the first of them. A saved carry has one row more than there are steps, and each step
reads a row and writes the next row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...core.arrays import Array
from ...core.arrays.blas import SEVERAL, one_thread
from ...core.arrays.dtypes import DType
from ...kernels.runtime import threads
from ..cpu import machine_code
from ..cpu.fusing import fused_maps, without_repeated_copies
from ..cpu.interpreter.region_program import RegionProgram, Repeated, execute
from ..cpu.lowering import Lowering
from ..cpu.module import Module
from ..cpu.region_steps import Buffer, Step, Unlowered, plan_arena, set_lifetimes
from ..program import Instruction, Value
from ..run import arenas


@dataclass(frozen=True)
class Loop:
    """The roles of the values of a step.

    Attributes:
        inputs: the values of carries, then of slices, then of constants.
        carries: the number of carries.
        slices: the number of slices.
        saved: for each carry, whether all its values are stored.
        reverse: whether the loop starts at the last slice.
        next, results: the values of the next carry, and of the results.
        whole: whether the stored carries have one more row, for the last value.
    """

    inputs: tuple[Value, ...]
    carries: int
    slices: int
    saved: tuple[bool, ...]
    reverse: bool
    next: tuple[Value, ...]
    results: tuple[Value, ...]
    whole: bool = False


class _LoopModule(Module):
    """The module of a loop. Items of the tuple: see ``NativeLoop.run``."""

    def __init__(
        self, steps: Sequence[Step], inputs: Sequence[Buffer], outs: Sequence[Buffer], arena: int, repeated: Repeated
    ) -> None:
        self._rows, self._pairs, self._reverse = repeated
        super().__init__(steps, inputs, outs, arena)

    def _write_steps(self, steps: Sequence[Step]) -> None:
        body = self._body
        at = self._extras
        count = body.give(f"load i64, ptr {self._item(at)}, align 8")
        last = body.give(f"sub i64 {count}, 1")
        sign = -1 if self._reverse else 1
        entry = body.current
        lines: list[str] = []  # phi instructions
        later: list[str] = []
        ends: list[str] = []
        moving: dict[Buffer, str] = {}
        for number, (buffer, nbytes) in enumerate(self._rows.items()):
            base = self._data[buffer]
            if self._reverse:
                away = body.give(f"mul i64 {last}, {nbytes}")
                base = body.give(f"getelementptr i8, ptr {base}, i64 {away}")
            lines.append(f"%row{number} = phi ptr [ {base}, %{entry} ], [ %rownext{number}, %latch ]")
            ends.append(f"%rownext{number} = getelementptr i8, ptr %row{number}, i64 {sign * nbytes}")
            moving[buffer] = f"%row{number}"
        for number, (before, after, saved, nbytes) in enumerate(self._pairs):
            first, second = self._data[before], self._item(at + 1 + number)
            name = f"%carry{number}"
            if saved:  # ``second`` has one row more than there are steps
                if self._reverse:
                    away = body.give(f"mul i64 {count}, {nbytes}")
                    second = body.give(f"getelementptr i8, ptr {second}, i64 {away}")
                lines.append(f"{name} = phi ptr [ {second}, %{entry} ], [ {name}.out, %latch ]")
                later.append(f"{name}.out = getelementptr i8, ptr {name}, i64 {sign * nbytes}")
            else:
                out = self._data[after]
                odd = body.give(f"and i64 {count}, 1")
                is_odd = body.give(f"icmp eq i64 {odd}, 1")
                now = body.give(f"select i1 {is_odd}, ptr {out}, ptr {second}")
                other = body.give(f"select i1 {is_odd}, ptr {second}, ptr {out}")
                lines.append(f"{name} = phi ptr [ {first}, %{entry} ], [ {name}.out, %latch ]")
                lines.append(f"{name}.out = phi ptr [ {now}, %{entry} ], [ {name}.other, %latch ]")
                lines.append(f"{name}.other = phi ptr [ {other}, %{entry} ], [ {name}.out, %latch ]")
            moving[before], moving[after] = name, f"{name}.out"
        body.do("br label %again")
        body.block("again")
        body.do(f"%step = phi i64 [ 0, %{entry} ], [ %following, %latch ]")
        for line in (*lines, *later):
            body.do(line)
        self._data.update(moving)
        super()._write_steps(steps)
        body.do("br label %latch")
        body.block("latch")
        for line in ends:
            body.do(line)
        body.do("%following = add nuw nsw i64 %step, 1")
        more = body.give(f"icmp slt i64 %following, {count}")
        body.do(f"br i1 {more}, label %again, label %finished")
        body.block("finished")


class NativeLoop:
    """A loop as one compiled function.

    Raises:
        Unlowered: an instruction cannot be compiled.
    """

    def __init__(self, instructions: Sequence[Instruction], loop: Loop) -> None:
        interpreted = not machine_code.available()
        if interpreted and execute() is None:
            raise Unlowered("LLVM is missing")
        lowering = Lowering(interpreted)
        lowering.unlimited = True
        places = [lowering.place(value) for value in loop.inputs]
        if any(not place.dense for place in places):
            raise Unlowered("an input that is not in row-major order")
        for instruction in instructions:
            lowering.lower(instruction)
        outs: list[Buffer] = []
        self.results: list[tuple[tuple[int, ...], DType]] = []
        for value in (*loop.next, *loop.results):
            place = lowering.place(value)
            buffer = place.buffer
            whole = place.offset == 0 and place.size * place.dtype.itemsize == buffer.nbytes and place.dense
            if buffer.kind != "arena" or buffer in outs or not whole:
                fresh = lowering.new(place.shape, place.dtype)
                lowering.copy(place, fresh)
                place = fresh
            outs.append(place.buffer)
            self.results.append((place.shape, place.dtype))
        steps = fused_maps(without_repeated_copies(lowering.steps, set(outs)), set(outs), interpreted)
        for buffer in outs:
            buffer.kind = "out"
        buffers = set_lifetimes(steps)
        self._arena = plan_arena(buffers)
        self._loop = loop
        self._memory: list[Array] = []
        carries = loop.carries
        given = [place.buffer for place in places]
        known = [buffer for buffer in buffers if buffer.kind == "input" and buffer not in given]
        if any(isinstance(buffer.source, Value) for buffer in known):
            raise Unlowered("an unknown input")
        self._known = [np.asarray(buffer.source) for buffer in known]
        self._dtypes = [place.dtype for place in places]
        rows = {place.buffer: place.size * place.dtype.itemsize for place in places[carries : carries + loop.slices]}
        for buffer, (shape, dtype) in zip(outs[carries:], self.results[carries:], strict=True):
            rows[buffer] = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        pairs = [
            (before, after, saved, place.size * place.dtype.itemsize)
            for before, after, saved, place in zip(given, outs, loop.saved, places, strict=False)
        ][:carries]
        self._interpreted, self._threaded, self._multiplies = interpreted, False, False
        self._function: machine_code.Function | RegionProgram
        region = steps, [*given, *known], outs, self._arena, Repeated(rows, pairs, loop.reverse)
        if interpreted:
            self._function = RegionProgram(*region)
            self._arena = self._function.arena
            self._threaded, self._multiplies = self._function.threaded, self._function.multiplies
            self.note = f"interpreted in one call, as {len(steps)} steps"
            return
        module = _LoopModule(*region)
        self._threaded = module.threaded
        self._multiplies = machine_code.BLAS in module.text and max(step.flops for step in steps) >= SEVERAL
        self._function = machine_code.function(module.text, False)
        self.note = f"with {module.kernels} kernels"

    def run(
        self, steps: int, carry: Sequence[Array], xs: Sequence[Array], constants: Sequence[object]
    ) -> list[Array] | None:
        """Return the last carry, the results, and the saved carries: those before each step, in the order of ``xs``.

        The tuple has the initial carries, slices, constants and known arrays; for each carry and result an array that
        receives it; the arena and the pool of threads, if needed; the number of steps; and a second array for each
        carry. For the interpreter the pool and the arena come last. The result is None if a step fails, such as the
        inverse of a singular matrix.
        """
        loop = self._loop
        inputs = [*carry, *xs, *constants]
        items = [np.ascontiguousarray(x, dtype) for x, dtype in zip(inputs, self._dtypes, strict=True)]
        items += self._known
        last = [np.empty(shape, dtype) for shape, dtype in self.results[: loop.carries]]
        ys = [np.empty((steps, *shape), dtype) for shape, dtype in self.results[loop.carries :]]
        items += [*last, *ys]
        if self._arena:
            try:
                arena = self._memory.pop()
            except IndexError:
                arena = arenas.aligned(self._arena)
            if not self._interpreted:
                items.append(arena)
        if self._threaded and not self._interpreted:
            items.append(threads.helpers())
        items.append(np.array([steps]))
        second: list[Array] = []
        for start, saved, out in zip(carry, loop.saved, last, strict=True):
            if saved:
                rows = np.empty((steps + 1, *out.shape), out.dtype)
                rows[steps if loop.reverse else 0] = start
                second.append(rows)
            else:
                second.append(np.empty_like(out))
        items += second
        if self._interpreted:
            items += [threads.helpers(), arena] if self._threaded else [arena]
        status = (
            one_thread(self._function.call, tuple(items)) if self._multiplies else self._function.call(tuple(items))
        )
        if self._arena:
            self._memory.append(arena)
        if status:
            return None
        history: list[Array] = []
        for place, (saved, rows) in enumerate(zip(loop.saved, second, strict=True)):
            if saved:
                last[place] = rows[0 if loop.reverse else steps].copy()
                history.append(rows if loop.whole else rows[1:] if loop.reverse else rows[:-1])
        return [*last, *ys, *history]
