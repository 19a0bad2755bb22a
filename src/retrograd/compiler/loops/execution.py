"""Run the program of a step for all steps of a loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...core.arrays import Array
from ...core.arrays.fp_warnings import silent
from ..cpu import compiled_regions
from ..cpu.region_steps import Unlowered
from ..passes import optimized
from ..passes.constants import fold_constants
from ..passes.expressions import keeps_shapes
from ..passes.order import versions
from ..program import Instruction, Value
from ..run.replay import Replay, live_instructions
from ..trace.numpy_scalars import drop_scalar_conversions, ensure_array
from .body import Body
from .halos import with_halos
from .native import Loop, NativeLoop


class Execution:
    """All steps of a loop, as one compiled function if possible, else as one replay for each step.

    Attributes:
        why: why the loop is not one compiled function; empty if it is.
        reads: for each carry and slice, whether a step reads it.
    """

    def __init__(self, body: Body, carries: int, slices: int, reverse: bool, whole: bool = False) -> None:
        program = body.program
        outputs = [*body.carries, *body.results]
        given = [value for value, source in program.inputs if source[0] == "given"]
        outside = [value for value, source in program.inputs if source[0] == "outside"]
        drop_scalar_conversions(program, outputs, None)
        fold_constants(program, outputs)
        self._known = [(value, what) for value, (kind, what) in program.inputs if kind == "constant"]
        steps = [
            step.changed(checks=False) if step.checks and keeps_shapes(step) else step for step in program.instructions
        ]
        known_inputs = {value for value, _ in program.inputs}
        steps = versions(live_instructions(steps, outputs, known_inputs), known_inputs)
        moving = given[: carries + slices]
        same = [*given[carries + slices :], *outside]
        before, self.steps = _invariant(steps, moving)
        made = [value for step in before for value in step.outs]
        read = {value for step in self.steps for value in step.reads()} | {*outputs}
        made = [value for value in made if value in read]
        known = [value for value, _ in self._known]
        self._prepare = Replay(optimized(before, made), [*same, *known], made, "before the loop") if made else None
        self._same = [*same, *known, *made]
        self.reads = [value in read for value in moving]
        self.loop = Loop(
            (*moving, *self._same),
            carries,
            slices,
            (False,) * carries,
            reverse,
            tuple(body.carries),
            tuple(body.results),
            whole,
        )
        self.why = ""
        self._native: dict[tuple[bool, ...], NativeLoop] = {}
        self._replay: Replay | None = None

    @property
    def note(self) -> str:
        """A description of how a step runs."""
        for native in self._native.values():
            return f"one compiled function of {len(self.steps)} instructions, {native.note}"
        return f"each a replay of {len(self.steps)} instructions" + (f" ({self.why})" if self.why else "")

    def run(
        self,
        steps: int,
        carry: Sequence[Array],
        xs: Sequence[Array | None],
        constants: Sequence[object],
        saved: Sequence[bool],
    ) -> list[Array]:
        """Return the last carry, the results, and the values before each step of the carries that are ``saved``.

        Slices that no step reads may be None.
        """
        same = [*constants, *[what for _, what in self._known]]
        with silent():
            if self._prepare is not None:
                same += self._prepare(same)
            native = self.compile(tuple(saved))
            if native is not None:
                found = native.run(
                    steps,
                    carry,
                    [
                        x if read and x is not None else _EMPTY
                        for x, read in zip(xs, self.reads[self.loop.carries :], strict=True)
                    ],
                    same,
                )
                if found is not None:
                    return found
            return self._replayed(steps, carry, xs, same, saved)

    def compile(self, saved: tuple[bool, ...]) -> NativeLoop | None:
        """Return the compiled function that stores the ``saved`` carries; None if the loop cannot be compiled."""
        if self.why:
            return None
        native = self._native.get(saved)
        if native is None:
            try:
                loop = self.loop
                native = NativeLoop(
                    with_halos(self.steps, (*loop.next, *loop.results)),
                    replace(loop, saved=saved),
                )
            except (Unlowered, RuntimeError) as why:  # LLVM raises RuntimeError
                self.why = str(why)
                return None
            self._native[saved] = native
        return native

    def _replayed(
        self,
        steps: int,
        carry: Sequence[Array],
        xs: Sequence[Array | None],
        same: Sequence[object],
        saved: Sequence[bool],
    ) -> list[Array]:
        """Run the steps one after another."""
        loop = self.loop
        if self._replay is None:
            gives = [*loop.next, *loop.results]
            notes: list[str] = []
            instructions = compiled_regions(self.steps, gives, set(), notes)
            instructions = optimized(instructions, gives)
            self._replay = Replay(instructions, loop.inputs, gives, "step of a loop", True)
        replay, count = self._replay.function, loop.carries
        now = [ensure_array(x) for x in carry]
        more, whole = loop.whole, loop.whole and loop.reverse
        rows = [
            np.empty((steps + more, *x.shape), x.dtype) if keep else None for x, keep in zip(now, saved, strict=True)
        ]
        columns = [np.empty((steps, *(v.shape or ())), v.dtype) for v in loop.results]
        try:
            for step in range(steps):
                at = steps - 1 - step if loop.reverse else step
                for row, x in zip(rows, now, strict=True):
                    if row is not None:
                        row[at + whole] = x
                found = replay(*now, *[_EMPTY if x is None else x[at, ...] for x in xs], *same)
                now = [ensure_array(x) for x in found[:count]]
                for column, y in zip(columns, found[count:], strict=True):
                    column[at] = y
            for row, x in zip(rows, now, strict=True):
                if row is not None and more:
                    row[0 if loop.reverse else steps] = x
        except Exception as error:
            self._replay.explain(error)
            raise
        last = [x.copy() if x.base is not None or any(x is y for y in (*carry, *same)) else x for x in now]
        return [*last, *columns, *[row for row in rows if row is not None]]


_EMPTY = np.empty(0)


def _invariant(steps: Sequence[Instruction], moving: Sequence[Value]) -> tuple[list[Instruction], list[Instruction]]:
    """Divide the instructions of a step into the instructions with the same results in each step, and the others.

    Views remain in the step, where they cost nothing.
    """
    written = {value.root for step in steps for value in step.writes}
    varies = set(moving)
    before: list[Instruction] = []
    rest: list[Instruction] = []
    for step in steps:
        values = [*step.reads(), *step.outs]
        fixed = (
            bool(step.outs)
            and not step.view
            and not step.writes
            and not step.checks
            and step.numpy_name != "empty"
            and next(step.reads(), None) is not None
            and not any(value in varies or value.root in written for value in values)
        )
        (before if fixed else rest).append(step)
        if not fixed:
            varies.update(step.outs)
    return before, rest


__all__ = ["Execution"]
