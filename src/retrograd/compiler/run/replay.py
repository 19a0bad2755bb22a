"""Replay a program as one Python function, with a line for each instruction.

Values are local variables, which are deleted after their last use; the line number of an error identifies its
instruction.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

from numpy import may_share_memory

from ...kernels.runtime.result_arrays import into
from ...ops.shape.joining import UNBIND
from ..program import Function, Instruction, Keywords, Method, Value, values_in
from ..trace.effects import give_back, reusable_grad
from .arenas import Plan, host_memory, lend

_names = count()


class Miss(Exception):
    """An assumption of the program about elements does not hold in this call."""


class Replay:
    """Instructions as a function.

    Args:
        takes: the values of the parameters.
        gives: the values that are returned, in a tuple.
        label: the name in tracebacks.
        planned: whether to reuse memory between calls, which needs the same sizes in all calls.
        cleared: the number of the instruction before which the program clears gradients.
    """

    def __init__(
        self,
        instructions: Sequence[Instruction],
        takes: Sequence[Value],
        gives: Iterable[Value],
        label: str,
        planned: bool = False,
        cleared: int = 0,
    ) -> None:
        self.instructions = list(instructions)
        gives = tuple(gives)
        self.plan = Plan(self.instructions if planned else (), takes, gives, cleared)
        self.lines: list[Instruction | None] = [None, None]  # the instructions by line number
        self._constants: Keywords = {"Miss": Miss, "into": into, "plan": self.plan, "overlap": may_share_memory}
        self._constants |= {"spent": reusable_grad, "give_back": give_back, "host": host_memory, "lend": lend}
        self._numbers: dict[int, str] = {}
        self.file = f"<{label} {next(_names)}>"
        source = self._source(takes, gives)
        exec(compile(source, self.file, "exec"), self._constants)
        self.function: Function = self._constants["replay"]
        self.source = source

    def __call__(self, arrays: Sequence[object]) -> Any:
        try:
            return self.function(*arrays)
        except Miss:
            raise
        except Exception as error:
            self.explain(error)
            raise

    def explain(self, error: BaseException) -> None:
        """Add a note to an error: the operator that failed, and its line in the user's program."""
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == self.file and trace.tb_lineno < len(self.lines):
                instruction = self.lines[trace.tb_lineno]
                if instruction is not None:
                    what = "backward of " if instruction.backward else ""
                    where = f"\n{instruction.site.in_traceback()}" if instruction.site is not None else ""
                    error.add_note(f"in a compiled program: {what}{instruction.operator}{where}")
                return
            trace = trace.tb_next

    # Source

    def _source(self, takes: Sequence[Value], gives: tuple[Value, ...]) -> str:
        last: dict[Value, int] = {}
        for index, instruction in enumerate(self.instructions):
            for value in (*instruction.reads(), *instruction.outs):
                last[value] = index
        ending: dict[int, list[Value]] = {}
        kept = set(gives)
        for value, index in last.items():
            if value not in kept:
                ending.setdefault(index, []).append(value)
        lines = [f"def replay({', '.join(map(repr, takes))}):"]
        slots = {index: f"s{number}" for number, index in enumerate(self.plan.slots)}
        if slots:
            lines += ["    arena = plan.enter()", f"    {self._tuple(slots.values())} = arena.arrays"]
            self.lines += [None, None]
        hosts = self.plan.hosts.values()
        self._hosts = {id(host): f"h{number}" for number, host in enumerate(hosts)}
        opens = next((host.opens for host in hosts), -1)
        for index, instruction in enumerate(self.instructions):
            if index == opens:
                for host in hosts:
                    shape, dtype, _ = host.asked
                    memory = f"host({self._expression(host.leaf)}, {shape!r}, {self._constant(dtype)})"
                    lines.append(f"    {self._hosts[id(host)]} = {memory}")
                    self.lines.append(None)
            where, again = slots.get(index, ""), self.plan.reused.get(index)
            given = self._result_arrays(index, where)
            made = [f"given = {given}"] if given else []
            leaving = self.plan.leaving.get(index, ())
            made += self._lines_of(instruction, ending.get(index, ()), "given" if given else where, leaving)
            if again and instruction.kind == "native":  # a check in the region may fail
                made[1] = f"try: {made[1]}"
                leaves = [None if (index, k) in self.plan.hosts else leaf for k, leaf in enumerate(again)]
                made.insert(2, f"except Miss: give_back({self._tuple(map(self._expression, leaves))}, given); raise")
            for line in made:
                lines.append("    " + line)
                self.lines.append(instruction)
        if slots:
            lines.append("    plan.leave(arena)")
            self.lines.append(None)
        lines.append(f"    return {self._tuple(map(repr, gives))}")
        return "\n".join(lines)

    def _lines_of(
        self, instruction: Instruction, ending: Sequence[Value], slots: str, leaving: Sequence[Value]
    ) -> Iterable[str]:
        """Yield the lines of one instruction.

        Args:
            instruction: the instruction.
            ending: the values that no later instruction reads.
            slots: the variable with the arrays for its results; empty if there are none.
            leaving: the values that must not lie in the arena.
        """
        call = self._call(instruction, slots)
        gone = f"; del {', '.join(map(repr, ending))}" if ending else ""
        if instruction.kind == "guard":
            yield f"if not {call}: raise Miss"
            if gone:
                yield gone[2:]
        elif not instruction.outs:
            yield call + gone
        elif not instruction.several:
            (out,) = instruction.outs
            yield f"{out!r} = {call}" + ("" if instruction.checks else gone)
        else:
            yield f"result = {call}"
            parts = ["result" + "".join(f"[{step}]" for step in path) for path in instruction.paths]
            yield f"{self._tuple(map(repr, instruction.outs))} = {self._tuple(parts)}; del result" + (
                "" if instruction.checks else gone
            )
        for value in leaving:
            yield f"if overlap({value!r}, arena.memory): {value!r} = {value!r}.copy()"
        if instruction.checks and instruction.outs:
            shaped = [out for out in instruction.outs if out.shape is not None]
            if shaped:
                wrong = " or ".join(f"{out!r}.shape != {out.shape!r}" for out in shaped)
                if instruction.view:
                    wrong += "".join(f" or {out!r}.strides != {out.strides!r}" for out in shaped)
                yield f"if {wrong}: raise Miss"
            if gone:
                yield gone[2:]

    def _result_arrays(self, index: int, slots: str) -> str:
        """Return the tuple of arrays for an instruction's results if gradients' memory is among them, else nothing."""
        plan = self.plan
        again, placed = plan.reused.get(index, ()), plan.slots.get(index, ())
        names: list[str] = []
        special = False
        for number, _ in enumerate(self.instructions[index].asked):
            host, leaf = plan.hosts.get((index, number)), again[number] if again else None
            slot = placed[number] if placed else None
            name = "None" if slot is None else f"{slots}[{number}]"
            if host is not None:
                name = self._hosts[id(host)]
            elif leaf is not None:
                name = f"spent({self._expression(leaf)})"
            elif slot is not None and slot.block.host is not None:
                memory = self._hosts[id(slot.block.host)]
                name = f"lend({memory}, {slot.shape!r}, {self._constant(slot.dtype)}, {slot.block.offset})"
            special = special or not name.startswith(("None", f"{slots}["))
            names.append(name)
        return self._tuple(names) if special else ""

    @staticmethod
    def _tuple(parts: Iterable[str]) -> str:
        return "(" + "".join(part + ", " for part in parts) + ")"

    def _call(self, instruction: Instruction, slots: str) -> str:
        function = instruction.function
        args = [self._expression(value) for value in instruction.args]
        named = [f"{name}={self._expression(value)}" for name, value in instruction.kwargs.items()]
        if slots:
            return f"into({slots}, {', '.join([self._constant(function), *args, *named])})"
        if isinstance(function, Method):
            return f"{args[0]}.{function.__name__}({', '.join([*args[1:], *named])})"
        if function is operator.getitem:
            return f"{args[0]}[{args[1]}]"
        if function in _SIGNS and not named:
            return f"({args[0]} {_SIGNS[function]} {args[1]})"
        return f"{self._constant(function)}({', '.join([*args, *named])})"

    def _expression(self, value: Any) -> str:
        kind = type(value)
        if kind is Value:
            return repr(value)
        if kind in (int, str, bool, type(None)):
            return repr(value)
        if next(values_in(value), None) is None:
            return self._constant(value)
        if kind is tuple:
            return self._tuple(map(self._expression, value))
        if kind is list:
            return f"[{', '.join(map(self._expression, value))}]"
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return f"{self._constant(kind)}({', '.join(map(self._expression, value))})"
        if kind is dict:
            return "{" + ", ".join(f"{key!r}: {self._expression(item)}" for key, item in value.items()) + "}"
        if kind is slice:
            return f"slice({', '.join(map(self._expression, (value.start, value.stop, value.step)))})"
        if hasattr(kind, "with_key"):
            return f"{self._constant(value)}.with_key({self._expression(value.key)})"
        raise TypeError(f"a value inside a {kind.__name__} cannot be an argument of an instruction")

    def _constant(self, value: object) -> str:
        name = self._numbers.get(id(value))
        if name is None:
            name = self._numbers[id(value)] = f"c{len(self._numbers)}"
            self._constants[name] = value
        return name


_SIGNS = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.pow: "**",
    operator.matmul: "@", operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=",
    operator.eq: "==", operator.ne: "!=", operator.and_: "&", operator.or_: "|",
}  # fmt: skip


def live_instructions(
    instructions: Sequence[Instruction], gives: Iterable[Value], outer: set[Value]
) -> list[Instruction]:
    """Return the instructions that are needed for results, effects, guards, random draws or writes to outside memory.

    Args:
        gives: the results.
        outer: the values in the user's memory.
    """
    wanted = set(gives)
    given = {value for step in instructions if step.kind == "effect" for value in step.reads()}
    roots = {value.root for value in (*wanted, *outer, *given)}  # a gradient may be written after a leaf refers to it
    kept: list[Instruction] = []
    for instruction in reversed(instructions):
        needed = instruction.kind in ("draw", "guard", "effect") or instruction.checks
        if (
            needed
            or not wanted.isdisjoint(instruction.outs)
            or instruction.writes
            and any(v.root in roots for v in instruction.writes)
        ):
            kept += _few_rows(instruction, wanted) or [instruction]
            for value in instruction.read:
                wanted.add(value)
                roots.add(value.root)
            for value in instruction.outs:
                roots.add(value.root)
    kept.reverse()
    return kept


def _few_rows(step: Instruction, wanted: set[Value]) -> list[Instruction]:
    """Return views of the rows of ``unbind`` that are still read after a loop has replaced most of them."""
    dim = step.kwargs.get("dim")
    if len(step.outs) < 4 or step.primitive is not UNBIND or type(dim) is not int:
        return []
    rows = [(k, out) for k, out in enumerate(step.outs) if out in wanted]
    if 4 * len(rows) > len(step.outs):
        return []
    ahead = (slice(None),) * dim
    views: list[Instruction] = []
    for k, out in rows:
        view = Instruction("array", operator.getitem, (step.args[0], (*ahead, k, Ellipsis)), None, (out,), view=True)
        view.paths, view.operator, view.site, view.backward = ((),), step.operator, step.site, step.backward
        views.append(view)
    return views
