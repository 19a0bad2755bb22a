"""Choose the runs of instructions that become regions, and the instruction that replaces a region."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import takewhile

import numpy as np

from ...core.arrays import Array
from ...core.arrays.blas import SEVERAL, one_thread
from ...kernels.runtime import result_arrays, threads
from ..program import Asked, Function, Instruction, Keywords, Value
from ..run import arenas
from ..run.replay import Miss
from ..trace.effects import clear_grad, give_array, run_step, set_grad
from . import machine_code
from .fusing import fused_maps, without_repeated_copies
from .interpreter.region_program import RegionProgram, execute
from .lowering import Lowering, is_view
from .module import Module
from .optimizer_updates import Update
from .region_steps import Buffer, Place, Unlowered, plan_arena, set_lifetimes

MIN_INSTRUCTIONS = 3  # minimum number of instructions of a region
LARGE_PROGRAM = 1 << 22  # with more bytes of results, machine code saves too small a part of the time
MAX_GIL_OPERATIONS = 200_000.0  # maximum number of operations of a region that holds the GIL

_DEFERRABLE_EFFECTS = (set_grad, clear_grad, give_array)  # these may run after the region, since they change no array


class Region:
    """A lowered run of instructions: its inputs and results in the program, and its compiled function."""

    def __init__(
        self, lowering: Lowering, parts: Sequence[Instruction], wanted: Sequence[Value], guarded: Collection[Value]
    ) -> None:
        self.parts = tuple(parts)
        self.values = list(wanted)
        found: dict[Buffer, Value] = {}
        for value in wanted:
            place = lowering.places[value]
            if place.buffer.kind != "arena" or place.buffer in found or not _owns_buffer(place):
                fresh = lowering.new(place.shape, place.dtype, value.strides if value.shape else ())
                lowering.copy(place, fresh)
                place = lowering.places[value] = fresh
            found[place.buffer] = value
        interpreted = lowering.interpreted
        kept = set(found)
        steps = fused_maps(without_repeated_copies(lowering.steps, kept), kept, interpreted)
        for buffer in found:
            buffer.kind = "out"
        buffers = set_lifetimes(steps)
        outs = [lowering.places[value].buffer for value in wanted]
        self.arena = plan_arena(buffers)
        inputs = [buffer for buffer in buffers if buffer.kind == "input"]
        self.steps = len(steps)
        self.checked = any(step.checked for step in steps)
        self._function: machine_code.Function | RegionProgram
        if interpreted:
            self._function = RegionProgram(steps, inputs, outs, self.arena)
            self.arena = self._function.arena
            self._threaded, self._multiplies = self._function.threaded, self._function.multiplies
            what = f"interpreted in one call, as {self.steps} steps"
        else:
            module = Module(steps, inputs, outs, self.arena)
            work = sum(step.flops or 4.0 * max(place.size for place in step.operands) for step in steps)
            self._function = machine_code.function(module.text, work < MAX_GIL_OPERATIONS and not module.threaded)
            self._threaded = module.threaded
            self._multiplies = machine_code.BLAS in module.text and max(step.flops for step in steps) >= SEVERAL
            what = f"as {self.steps} calls of {module.kernels} kernels"
        self._note = f"one compiled function of {len(parts)}, {what}, with an arena of {self.arena} bytes"
        self.takes = [b.source for b in inputs if isinstance(b.source, Value)]
        self._inputs = [lowering.places[value] for value in self.takes]
        self._guarded = guarded
        self._sources = [(b.source if not isinstance(b.source, Value) else None) for b in inputs]
        self._result_places = [lowering.places[value] for value in wanted]
        self.asked: list[Asked] = []  # the large arrays among the results
        self.run = self._python_function()

    def _python_function(self) -> Function:
        """Return the function of the input values; it passes inputs, new arrays and the arena in one tuple."""
        names: Keywords = {
            "call": self._function.call, "empty": np.empty, "asarray": np.asarray, "Miss": Miss, "keep": self._function,
            "arenas": [], "new_arena": self._new_arena, "pool": threads.helpers, "laid": _with_strides,
            "ndarray": np.ndarray, "asked": result_arrays.empty, "one_thread": one_thread,
        }  # fmt: skip
        given = [f"a{k}" for k in range(len(self.takes))]
        lines, items, after, at = [], [], [], 0
        for k, source in enumerate(self._sources):
            if source is not None:
                names[f"c{k}"] = source
                items.append(f"c{k}")
                continue
            value, place = self.takes[at], self._inputs[at]
            if value not in self._guarded:
                lines.append(f"if type(a{at}) is not ndarray: a{at} = asarray(a{at}, d{at})")
                names[f"d{at}"] = place.dtype
            if value not in self._guarded and place.shape:
                names[f"p{at}"] = place
                as_it_was = f"a{at}.strides == {place.strides!r} and a{at}.shape == {place.shape!r}"
                kept = f"b{at} = a{at}; " if place.buffer.written else ""
                lines.append(f"if not ({as_it_was}): {kept}a{at} = laid(a{at}, p{at})")
                if place.buffer.written:
                    lines.insert(0, f"b{at} = None")
                    after.append(f"if b{at} is not None: b{at}[...] = a{at}")
            items.append(f"a{at}")
            at += 1
        outs = []
        for k, place in enumerate(self._result_places):
            names[f"e{k}"] = place.dtype
            order = sorted(range(len(place.shape)), key=lambda d: -place.strides[d])
            names[f"s{k}"] = tuple([place.shape[d] for d in order])
            turned = "" if place.dense else f".transpose({[order.index(d) for d in range(len(order))]})"
            large = place.size * place.dtype.itemsize >= arenas.MIN_PLANNED_BYTES
            if large:
                self.asked.append(Asked(names[f"s{k}"], place.dtype, k))
            lines.append(f"o{k} = {'asked' if large else 'empty'}(s{k}, e{k}){turned}")
            items.append(f"o{k}")
            number = self.values[k].shape is None
            outs.append(f"o{k}.item()" if number else f"o{k}")
        if self.arena:
            lines += ["try: arena = arenas.pop()", "except IndexError: arena = new_arena()"]
            items.append("arena")
        if self._threaded:  # for the interpreter the arena comes last
            items.insert(len(items) - isinstance(self._function, RegionProgram), "pool()")
        call = "one_thread(call, " if self._multiplies else "call("
        lines.append(f"status = {call}({''.join(item + ', ' for item in items)}))")
        if self.arena:
            lines.append("arenas.append(arena)")
        lines += ["if status: raise Miss", *after]
        lines.append(f"return {outs[0] if len(outs) == 1 else '(' + ''.join(o + ', ' for o in outs) + ')'}")
        source = f"def region({', '.join(given)}):\n" + "".join(f"    {line}\n" for line in lines)
        exec(compile(source, "<region>", "exec"), names)
        run: Function = names["region"]
        return run

    def _new_arena(self) -> Array:
        return arenas.aligned(self.arena)

    def instruction(self) -> Instruction:
        """Return the instruction that replaces the region in the program."""
        made = Instruction("native", self.run, tuple(self.takes), None, tuple(self.values))
        made.several = len(self.values) != 1
        made.paths = tuple((index,) for index in range(len(self.values))) if made.several else ((),)
        made.parts = self.parts
        made.asked = tuple(self.asked)
        made.writes = _outer_writes(self.parts)
        self.run.note = self._note  # type: ignore[attr-defined]
        made.operator = "+".join(dict.fromkeys(part.operator or part.name for part in self.parts))[:60]
        made.site, made.backward = self.parts[-1].site, self.parts[-1].backward
        return made


def _with_strides(array: Array, place: Place) -> Array:
    """Return a copy of the array with the strides of the trace."""
    if array.shape != place.shape:
        raise Miss
    low, high = place._replace(offset=0).span()
    made = np.ndarray(place.shape, place.dtype, np.empty(high - low, np.uint8), -low, place.strides)
    made[...] = array
    return made


def _outer_writes(parts: Sequence[Instruction]) -> tuple[Value, ...]:
    """Return the values that the parts write and that were not created by a part."""
    made = {out for part in parts for out in part.outs}
    return tuple(dict.fromkeys(value for part in parts for value in part.writes if value.root not in made))


def _owns_buffer(place: Place) -> bool:
    """Return whether a place is the whole memory of its buffer."""
    return place.offset == 0 and place.size * place.dtype.itemsize == place.buffer.nbytes


class _Group:
    """A run of instructions that can be lowered, and the effects within the run that can wait until its end."""

    def __init__(self, interpreted: bool, large: bool) -> None:
        self.lowering = Lowering(interpreted, large)
        self.parts: list[Instruction] = []
        self.waiting: list[Instruction] = []
        self.instructions: list[Instruction] = []  # parts and effects in their order

    def add(self, instruction: Instruction, where: list[Instruction]) -> None:
        where.append(instruction)
        self.instructions.append(instruction)


def compiled_regions(
    instructions: Sequence[Instruction], gives: Sequence[Value], guarded: Collection[Value], notes: list[str]
) -> list[Instruction]:
    """Replace runs of instructions that can be lowered by regions. Without LLVM a loop of the library executes them.

    The same loop executes the regions of a program with many bytes of results, because LLVM needs 80 MB and a second
    of compilation, and saves less than a hundredth of the time that such a program takes.

    Args:
        guarded: the values that guards have compared with the trace.
        notes: receives the reasons why instructions are not in a region.
    """
    if not instructions:
        return []
    large = sum(out.nbytes for step in instructions for out in step.outs if out.shape is not None) >= LARGE_PROGRAM
    interpreted = large and execute() is not None or not machine_code.available()
    if interpreted and execute() is None:
        return list(instructions)
    return _assembled(_groups(instructions, interpreted, large, notes), gives, guarded, notes)


def _groups(
    instructions: Sequence[Instruction], interpreted: bool, large: bool, notes: list[str]
) -> list[_Group | Instruction]:
    """Return the runs of instructions that can be lowered, and the other instructions, in their order."""
    groups: list[_Group | Instruction] = []
    current: _Group | None = None
    for instruction in instructions:
        if current is None:
            current = _Group(interpreted, large)
            groups.append(current)
        if instruction.kind == "effect" and instruction.function in _DEFERRABLE_EFFECTS and current.parts:
            current.add(instruction, current.waiting)
            continue
        try:
            if instruction.on_gpu:
                raise Unlowered("on a GPU")
            current.lowering.lower(instruction)
        except Unlowered as why:
            on_processor = instruction.kind in ("array", "primitive", "whole") or instruction.function is run_step
            if on_processor and not instruction.on_gpu:
                notes.append(f"{instruction.name}: {why}")
            if not current.parts:
                groups.pop()
            groups.append(instruction)
            current = None
            continue
        current.add(instruction, current.parts)
        if current.lowering.updates:  # a check after the optimizer's step could not undo the step
            current = None
    return groups


def _assembled(
    groups: Sequence[_Group | Instruction], gives: Sequence[Value], guarded: Collection[Value], notes: list[str]
) -> list[Instruction]:
    out: list[Instruction] = []
    later = set(gives)
    for group in reversed(groups):
        if isinstance(group, Instruction):
            found = [group]
        else:
            found = _region(group, later, guarded, notes)
        for instruction in found:
            later.update(instruction.reads())
        out += reversed(found)
    out.reverse()
    asked = [step for step in out if step.kind == "guard" and _update(step) is not None]
    rest = [step for step in out if step not in asked]
    early = [_update(step) for step in takewhile(_update, rest)]  # `fetch` checks these updates itself
    return [*[step for step in asked if _update(step) not in early], *rest]  # checks come before all writes


def _update(step: Instruction) -> Update | None:
    """Return the optimizer's update whose method is the instruction's function, or None."""
    owner = getattr(step.function, "__self__", None)
    return owner if isinstance(owner, Update) else None


def _region(group: _Group, later: set[Value], guarded: Collection[Value], notes: list[str]) -> list[Instruction]:
    """Return a group as a region, followed by views and deferred effects; unchanged if a region is not faster."""
    lowering, parts, waiting = group.lowering, group.parts, group.waiting
    if sum(not is_view(part) for part in parts) < MIN_INSTRUCTIONS and not lowering.updates:
        return group.instructions
    makers = {value: part for part in parts for value in part.outs}
    wanted: dict[Value, None] = {}
    views: set[int] = set()
    pending = [value for value in makers if value in later]
    pending += [value for effect in waiting for value in effect.reads() if value in makers]
    while pending:
        value = pending.pop()
        maker = makers[value]
        if is_view(maker):
            if id(maker) not in views:
                views.add(id(maker))
                pending += [x for x in maker.reads() if x in makers]
        else:
            wanted[value] = None
    order = [value for value in makers if value in wanted]
    writes = bool(_outer_writes(parts))
    if not order and not writes and not any(part.kind == "guard" for part in parts):
        return group.instructions
    try:
        region = Region(lowering, parts, order, guarded)
    except (Unlowered, RuntimeError) as why:  # LLVM raises RuntimeError
        notes.append(f"{len(parts)} instructions together: {why}")
        return group.instructions
    before = [instruction for update in lowering.updates for instruction in update.instructions()]
    return [*before, region.instruction(), *[part for part in parts if id(part) in views], *waiting]
