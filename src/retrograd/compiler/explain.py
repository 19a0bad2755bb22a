"""Describe a program: instructions by source line, fused loops, cost and guards."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from .cpu import machine_code
from .program import Instruction, Source, Value
from .run.replay import Replay


class TimedReplay:
    """A replay that measures the time of each line."""

    def __init__(self, replay: Any) -> None:
        self.seconds = [0.0] * len(replay.lines)
        self._last = 0.0
        lines = replay.source.split("\n")
        timed = [lines[0], "    begin()"]
        for number, line in enumerate(lines[1:], start=2):
            timed.append(line)
            if not line.lstrip().startswith(("return", "try")):  # "except" comes on the line after "try"
                timed.append(f"    tick({number})")
        scope = {**replay._constants, "tick": self._tick, "begin": self._begin}
        exec(compile("\n".join(timed), replay.file, "exec"), scope)
        self.function = scope["replay"]

    def _begin(self) -> None:
        self._last = time.perf_counter()

    def _tick(self, line: int) -> None:
        self.seconds[line] += time.perf_counter() - self._last
        self._last = time.perf_counter()


def explanation(entry: Any, leaves: Sequence[object] | None, arrays: object) -> str:
    """Describe a program; if arguments are given, run it once and add the time of each line."""
    costs: dict[int, float] = {}
    if leaves is not None:
        timed = TimedReplay(entry.replay)
        plain, entry.replay.function = entry.replay.function, timed.function
        forward, entry.forward = entry.forward, entry.replay
        try:
            entry.run(leaves, arrays)
        finally:
            entry.replay.function, entry.forward = plain, forward
        for line, instruction in enumerate(entry.replay.lines):
            if instruction is not None:
                costs[id(instruction)] = costs.get(id(instruction), 0.0) + timed.seconds[line]
    program = entry.trace.program
    out = [f"{entry.label}: {len(program.instructions)} instructions, {entry.calls} replays"]
    if entry.because:
        out.append(f"why it was traced again: {entry.because}")
    out += [f"inputs: {_describe_inputs(program.inputs)}"]
    if entry.folded.instructions:
        names = dict.fromkeys(step.operator or step.name for step in entry.folded.instructions)
        size = _bytes(sum(value.nbytes for value in entry.folded.kept))
        out.append(f"computed once: {', '.join(names)}; {len(entry.folded.kept)} constants are kept ({size})")
    out += _instruction_lines(entry.replay.instructions, costs)
    if entry.pull is not None:
        out.append("backward, when a backward pass reaches the result:")
        out += _instruction_lines(entry.pull.instructions, costs)
    if entry.notes:
        out.append(f"in no region: {'; '.join(dict.fromkeys(entry.notes))}")
    if entry.kernels is None and not machine_code.available():
        small = sum(step.kind in ("array", "primitive", "whole") for step in program.instructions)
        runs = sum(step.kind == "native" for step in program.instructions)
        out.append(
            f"without llvmlite {runs} runs of instructions on small arrays are interpreted, {small} instructions run "
            "one by one; with it (pip install 'retrograd[fast]') such runs are compiled to machine code"
        )
    if entry.kernels is not None:
        out.append(f"on a GPU: {len(entry.kernels)} generated CUDA kernels; {entry.forward.description}")
    out += _memory_lines("memory", entry.replay)
    if entry.pull is not None:
        out += _memory_lines("memory of the backward part", entry.pull)
    if costs:
        out.append(f"measured: {1e3 * sum(costs.values()):.3g} ms")
    if entry.trace.sizes is not None:
        out += entry.trace.sizes.describe()
    if entry.apart:
        out.append(f"a separate program, not shared with other sizes: {entry.apart}")
    out.append("assumed: shapes, dtypes, strides and requires_grad of all inputs, grad mode, default dtype, and")
    out += ["  " + line for line in entry.trace.surroundings.describe(entry.trace.free)]
    return "\n".join(out)


def _memory_lines(what: str, replay: Replay) -> list[str]:
    """Describe the memory of a replay: arrays that leave the program, and arrays in the arena."""
    leaving = sum(
        v.nbytes for step in replay.instructions for v in step.outs if v.root is v and v in replay.plan.outside
    )
    plan = replay.plan
    out = [f"{what}: an arena of {_bytes(plan.size)}, and {_bytes(leaving)} of results in new memory in each call"]
    for index, slots in plan.slots.items():
        step = replay.instructions[index]
        for asked, slot in zip(step.asked, slots, strict=True):
            if slot is not None:
                block = slot.block
                name = "scratch" if asked.out is None else _value_name(step.outs[asked.out])
                where = f"at {block.offset}: {_bytes(block.nbytes)}"
                if block.host is not None:
                    where = f"in the memory of a gradient, {where}"
                out.append(f"  {where} for {name}, instructions {block.first} to {block.last}")
    return out


def _describe_inputs(inputs: Iterable[tuple[Value, Source]]) -> str:
    by_kind: dict[str, list[Value]] = {}
    for value, source in inputs:
        by_kind.setdefault(source[0], []).append(value)
    words = {
        "argument": "arguments",
        "tensor": "Tensors from outside",
        "grad": "gradients",
        "place": "variables",
        "constant": "constants",
    }
    parts = [
        f"{len(values)} {words.get(kind, kind + 's')} ({_bytes(sum(v.nbytes for v in values))})"
        for kind, values in by_kind.items()
        if kind not in ("object", "cotangent")
    ]
    return ", ".join(parts) or "none"


def _instruction_lines(instructions: Sequence[Instruction], costs: dict[int, float]) -> list[str]:
    out: list[str] = []
    site = ""
    for step in instructions:
        where = "no line of the program:" if step.site is None else f"{step.site}: {step.site.code}"
        if where != site:
            site = where
            out.append(where)
        cost = f"{1e6 * costs[id(step)]:9.1f} us  " if id(step) in costs else ""
        backward = "backward of " if step.backward else ""
        made = ", ".join(f"{_value_name(v)} {v.describe()}" for v in step.outs)
        what = step.name
        if step.kind == "native":
            note = getattr(step.function, "note", step.name)
            what = f"{note}: {', '.join(part.operator or part.name for part in step.parts)}"
        elif step.parts:
            loop = getattr(step.function, "note", "one loop")
            what = f"{loop} of {len(step.parts)}: {', '.join(part.operator or part.name for part in step.parts)}"
        elif hasattr(step.function, "note"):
            what = step.function.note
        elif step.kind == "guard":
            what = f"a check: the {'elements are' if step.args else 'optimizer is'} as in the trace"
        named = (
            f" ({backward}{step.operator})" if step.operator and (step.backward or step.operator != step.name) else ""
        )
        out.append(f"  {cost}{what}{named}{' -> ' + made if made else ''}")
    return out


def _value_name(value: Value) -> str:
    return value.name or repr(value)


def _bytes(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:.4g} GiB"
