"""One kept program of a compiled function: whether it fits a call, and its replay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core import dtypes
from ..core.backward import differentiate
from ..core.graph import edge_of, new_node
from ..core.modes import enable_grad, modes
from ..core.primitive import Primitive, apply
from ..core.quiet import silent
from ..core.storage import is_saved, share, storage_of
from ..core.tensor import Tensor, new_tensor
from ..func.nests import Structure, flatten
from ..ops.make.generators import Generator, default_generator
from .effects import run_step
from .guards import Surroundings
from .native import compiled_regions
from .passes import optimized
from .program import Instruction, Program, Value
from .replay import Miss, Replay, live
from .sizes import NEW, Sizes


@dataclass(slots=True)
class Result:
    """A leaf of what the function returns: ``kind`` is tensor, array or number (of ``value``), or ``same`` object.

    ``requires`` where a gradient flows to it, and ``alias``: the Tensor, or the number of the argument or of the other
    result, whose memory a Tensor shares.
    """

    kind: str
    value: Any
    requires: bool = False
    alias: tuple[str, Any] | None = None
    related: bool = False  # a view, which follows the history of what it is a view of
    spent: Any = None  # the plan of its node, where the function itself has walked its graph and freed it


@dataclass(slots=True)
class Trace:
    """What came of one trace."""

    program: Program
    structure: Structure  # of the arguments
    leaves: list[Any]
    results: list[Result]
    result_structure: Structure
    surroundings: Surroundings
    free: set[tuple[int, Any]] = field(default_factory=set)  # places that are read in each replay
    free_leaves: set[int] = field(default_factory=set)  # arguments that are numbers and vary
    grads: list[tuple[Tensor, bool]] = field(default_factory=list)  # leaves, and whether they had a gradient before
    outside: list[tuple[Tensor, Value, bool]] = field(default_factory=list)  # what is lifted, and whether it requires
    cotangents: list[Value] = field(default_factory=list)
    gradients: list[tuple[Value | None, Any]] = field(default_factory=list)  # and whose they are, a source
    sizes: Sizes | None = None  # where sizes may vary


class Entry:
    """A program that is kept."""

    def __init__(self, trace: Trace, function: Callable[..., Any], label: str) -> None:
        self.trace = trace
        self.function = function
        self.label = label
        self.calls = 0
        self.seconds = 0.0  # in them
        self.casts: tuple[Any, ...] = ()  # autocast's, when it was traced
        self.apart = ""  # why it is not one with a program for other sizes
        program = trace.program
        split = len(program.instructions) if program.split is None else program.split
        handed_out = [result.value for result in trace.results if result.kind in ("tensor", "array", "number")]
        program.outputs = handed_out + [value for value, _ in trace.gradients if value is not None]
        late = set(map(id, program.instructions[split:]))
        program.instructions = live(program.instructions, program.outputs, {value for value, _ in program.inputs})
        forward = [step for step in program.instructions if id(step) not in late]
        backward = [step for step in program.instructions if id(step) in late]
        handed_over = [*handed_out, *[value for value, _ in trace.gradients if value is not None]]
        inside = {value for step in forward for value in step.outs}
        needed = [*handed_over, *[v for step in backward for v in step.reads() if v in inside]]
        self.notes: list[str] = []  # why instructions are in no region
        if not program.varies:
            compared = [value for value, source in program.inputs if source[0] in ("argument", "tensor", "grad")]
            sure = {value for value in compared if value.shape is not None}
            forward = optimized(compiled_regions(forward, needed, sure, self.notes), needed)
            backward = optimized(compiled_regions(backward, handed_over, sure, self.notes), handed_over)
        program.instructions = [*forward, *backward]
        read = {value for instruction in program.instructions for value in instruction.reads()}
        read.update(program.outputs)
        every = program.inputs
        program.inputs = [(value, source) for value, source in program.inputs if value in read]
        program.split = len(forward)
        made = {value for value, source in program.inputs if source[0] != "cotangent"}
        made.update(out for instruction in forward for out in instruction.outs)
        later = [value for instruction in backward for value in instruction.reads()]
        later += [value for value, _ in trace.gradients if value is not None]
        self.kept = list(dict.fromkeys(value for value in later if value in made))
        takes = [value for value, source in program.inputs if source[0] != "cotangent"]
        self.sources = [source for _, source in program.inputs if source[0] != "cotangent"]
        self.replay = Replay(forward, takes, [*handed_out, *self.kept], label, not program.varies)
        self.pull: Replay | None = None
        if trace.cotangents:
            gives = [value for value, _ in trace.gradients if value is not None]
            label = f"backward of {label}"
            self.pull = Replay(backward, [*trace.cotangents, *self.kept], gives, label, not program.varies)
        self.results = trace.results
        self.width = len(handed_out)
        self.written = self._written_tensors(forward)
        self.undo, self.generators = self._to_undo(forward)
        self.enter = self._entered(every)
        self.primitive = self._primitive() if self.pull is not None else None
        self.single = trace.result_structure.type is None

    # Whether it fits

    def _entered(self, inputs: Sequence[tuple[Value, Any]]) -> Callable[[Sequence[Any]], Any]:
        """The guards, as one function of the leaves of the arguments: the arrays that the program takes, or None."""
        trace = self.trace
        names: dict[str, Any] = {"modes": modes, "dtypes": dtypes, "Tensor": Tensor, "ndarray": np.ndarray, "np": np}
        lines = [f"modes.grad_enabled is {modes.grad_enabled}", f"modes.inference is {modes.inference}"]
        names["default_dtype"] = dtypes.get_default_dtype()
        lines.append("dtypes._default_float is default_dtype")
        lines += trace.surroundings.check(trace.free, names)

        def named(value: Any) -> str:
            name = f"h{len(names)}"
            names[name] = value
            return name

        def fits(array: str, value: Value) -> str:
            dtype = named(value.dtype)
            same_dtype = f"({array}.dtype is {dtype} or {array}.dtype == {dtype})"
            if any(value is x for x in key):
                return same_dtype
            return f"{array}.shape == {value.shape!r} and {array}.strides == {value.strides!r} and {same_dtype}"

        body: list[str] = [f"if not ({' and '.join(lines)}): return None"]
        by_argument = {source[1]: value for value, source in inputs if source[0] == "argument"}
        key: list[Value] = []  # the arrays whose sizes may vary
        if trace.sizes is not None:
            key = [value for value in by_argument.values() if value.shape is not None]
        lifted = {id(tensor): (value, requires) for tensor, value, requires in trace.outside}
        first: dict[int, int] = {}
        for index, leaf in enumerate(trace.leaves):
            body.append(f"x{index} = leaves[{index}]")
            x = f"x{index}"
            if index in trace.free_leaves:
                body.append(f"if type({x}) is not {type(leaf).__name__}: return None")
            elif isinstance(leaf, Tensor):
                if id(leaf) in first:
                    body.append(f"if {x} is not x{first[id(leaf)]}: return None")
                    continue
                others = " or ".join(f"{x} is x{other}" for other in first.values())
                first[id(leaf)] = index
                conditions = [f"type({x}) is {named(type(leaf))}"]
                if others:
                    conditions.append(f"not ({others})")
                body.append(f"if not ({' and '.join(conditions)}): return None")
                value, requires = lifted[id(leaf)]
                body.append(f"a{index} = {x}.array")
                kind = named(np.ndarray)
                body.append(f"if type(a{index}) is not {kind} or not ({fits(f'a{index}', value)}): return None")
                body.append(f"if {x}._requires is not {requires}: return None")
                if requires:
                    body.append(f"if ({x}._node is None) is not {leaf._node is None}: return None")
            elif isinstance(leaf, np.ndarray):
                body.append(f"if type({x}) is not ndarray or not ({fits(x, by_argument[index])}): return None")
            elif isinstance(leaf, (bool, int, float, complex, str, bytes)):
                body.append(f"if type({x}) is not {named(type(leaf))} or {x} != {named(leaf)}: return None")
            else:
                body.append(f"if {x} is not {named(leaf)}: return None")
        arguments = {id(leaf) for leaf in trace.leaves if isinstance(leaf, Tensor)}
        arrays: dict[int, str] = {}
        for number, (tensor, value, requires) in enumerate(trace.outside):
            if id(tensor) in arguments:
                continue
            t = named(tensor)
            arrays[id(tensor)] = f"t{number}"
            body.append(f"t{number} = {t}.array")
            body.append(f"if not ({fits(f't{number}', value)} and {t}._requires is {requires}): return None")
        gradients: dict[int, str] = {}
        for number, (leaf, present) in enumerate(trace.grads):
            t = self._leaf_name(leaf, named)
            body.append(f"q{number} = {t}._grad")
            body.append(f"if (q{number} is not None) is not {present}: return None")
            gradients[id(leaf)] = f"q{number}"
        takes = []
        for value, (kind, what) in trace.program.inputs:
            if kind == "argument":
                leaf = trace.leaves[what]
                takes.append(f"a{what}" if isinstance(leaf, Tensor) else f"x{what}")
            elif kind == "tensor":
                takes.append(arrays[id(what)])
            elif kind == "grad":
                g = gradients.get(id(what))
                if g is None:
                    g = f"{self._leaf_name(what, named)}._grad"
                    body.append(f"if {g} is None: return None")
                g = f"{g}.array"
                place = next((place for place, leaf in enumerate(trace.leaves) if leaf is what), None)
                if key and place is not None:
                    body.append(f"if {g}.shape != a{place}.shape or {g}.strides != a{place}.strides: return None")
                else:
                    body.append(f"if not ({fits(g, value)}): return None")
                takes.append(g)
            elif kind == "object":
                takes.append(f"x{what}")
            elif kind == "place":
                takes.append(f"{named(what)}.value")
            elif kind == "slot":
                takes.append(f"slots[{what}]")
        if key:
            names.update(sizes=trace.sizes, NEW=NEW)
            parts = [
                f"{'a' if isinstance(trace.leaves[index], Tensor) else 'x'}{index}.{what}, "
                for index, value in by_argument.items()
                for what in ("shape", "strides")
                if value.shape is not None
            ]
            body.append(f"slots = sizes.known.get(({''.join(parts)}))")
            body.append("if slots is None: return NEW")
        body.append(f"return ({''.join(take + ', ' for take in takes)})")
        source = "def enter(leaves):\n" + "\n".join("    " + line for line in body)
        exec(compile(source, f"<guards of {self.label}>", "exec"), names)
        self.guards = lines + [line for line in body[1:] if line.startswith("if")]
        return names["enter"]

    def _leaf_name(self, leaf: Tensor, named: Callable[[Any], str]) -> str:
        for index, x in enumerate(self.trace.leaves):
            if x is leaf:
                return f"x{index}"
        return named(leaf)

    # What a call given up in the middle has to take back

    def _written_tensors(self, instructions: list[Instruction]) -> list[tuple[str, Any]]:
        """The sources of the inputs in whose memory the program writes, an optimizer's parameters among them."""
        instructions = _parts(instructions)
        roots = {value.root for step in instructions if step.kind != "effect" for value in step.writes}
        optimizers = [step.args[0] for step in instructions if step.function is run_step]
        moved = {id(p) for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]}
        return [
            source
            for value, source in self.trace.program.inputs
            if value.root in roots and source[0] != "place" or source[0] == "tensor" and id(source[1]) in moved
        ]

    def _to_undo(self, instructions: list[Instruction]) -> tuple[list[int], list[Any]]:
        last, instructions = -1, _parts(instructions)
        for index, step in enumerate(instructions):
            if step.kind == "guard" or step.checks:
                last = index
        early = instructions[: last + 1]
        roots = {value.root for step in early if step.kind != "effect" for value in step.writes}
        takes = [value for value, source in self.trace.program.inputs if source[0] != "cotangent"]
        places = [index for index, value in enumerate(takes) if value.root in roots]
        generators = [g for step in early if step.kind == "draw" for g in generators_of(step)]
        return places, list(dict.fromkeys(generators))

    # Running

    def run(self, leaves: Sequence[Any], arrays: tuple[Any, ...]) -> Any:
        """The replay; raises Miss where elements are not as the trace assumed, with nothing changed."""
        if self.undo or self.generators:
            return self._run_carefully(leaves, arrays)
        if self.primitive is not None:
            return self._run_recorded(leaves, arrays)
        with silent():
            found = self.replay(arrays)
        self._count_writes(leaves)
        return self._results_of(found, leaves, None)

    def _run_carefully(self, leaves: Sequence[Any], arrays: tuple[Any, ...]) -> Any:
        copies = [(arrays[index], arrays[index].copy()) for index in self.undo]
        states = [(g, g.get_state()) for g in self.generators]
        try:
            if self.primitive is not None:
                return self._run_recorded(leaves, arrays)
            with silent():
                found = self.replay(arrays)
        except BaseException:
            for array, before in copies:
                array[...] = before
            for g, state in states:
                g.set_state(state)
            raise
        self._count_writes(leaves)
        return self._results_of(found, leaves, None)

    def writable(self, leaves: Sequence[Any]) -> bool:
        """Whether the program may write where it writes: nobody's graph still needs the memory."""
        for source in self.written:
            x = source[1] if source[0] == "tensor" else self._tensor_of(source, leaves)
            if isinstance(x, Tensor) and (x._storage is not None and is_saved(x) or not x.array.flags.writeable):
                return False
        return True

    def _count_writes(self, leaves: Sequence[Any]) -> None:
        for source in self.written:
            x = self._tensor_of(source, leaves)
            if isinstance(x, Tensor):
                storage_of(x).version += 1

    def _tensor_of(self, source: tuple[str, Any], leaves: Sequence[Any]) -> Any:
        kind, what = source
        if kind == "argument":
            return leaves[what]
        if kind == "grad":
            index = next((index for index, leaf in enumerate(self.trace.leaves) if leaf is what), None)
            return (what if index is None else leaves[index])._grad
        return what if kind == "tensor" else None

    def _results_of(self, found: Sequence[Any], leaves: Sequence[Any], tensors: Sequence[Tensor] | None) -> Any:
        values = iter(found)
        made: list[Any] = []
        recorded = iter(tensors or ())
        for result in self.results:
            if result.kind == "same":
                made.append(result.value)
            elif result.kind == "argument":
                made.append(leaves[result.value])
            else:
                value = next(values)
                if result.kind == "tensor":
                    if result.requires and tensors is not None:
                        value = next(recorded)
                    else:
                        value = new_tensor(value if type(value) is np.ndarray else np.asarray(value))
                    if result.spent is not None:
                        freed: Any = None
                        value._requires = True
                        value._node = new_node(result.spent, (None,), freed, value.array.shape, value.array.dtype)
                    if result.alias is not None:
                        kind, what = result.alias
                        other = made[what] if kind == "result" else leaves[what] if kind == "argument" else what
                        share(value, other, result.related)
                made.append(value)
        if self.single:
            return made[0]
        return self.trace.result_structure.unflatten(made)

    # Results that require grad

    def _primitive(self) -> Primitive:
        """The program as one operator of the graph."""
        entry, pull = self, self.pull
        assert pull is not None
        order = [source for _, source in self.trace.gradients]
        values = [value for value, _ in self.trace.gradients]
        places = {self._key(source): index for index, source in enumerate(self._tensor_sources())}

        def rule(g: Any, xs: Any, kept: Any, needs: Any) -> Any:
            gs = g if isinstance(g, tuple) else (g,)
            if any(isinstance(x, Tensor) for x in gs):
                return entry._again(gs, xs, needs)
            found = iter(pull((*gs, *kept)))
            out: list[Any] = [None] * len(xs)
            for source, value in zip(order, values, strict=True):
                if value is not None:
                    out[places[entry._key(source)]] = np.asarray(next(found))
            return out

        count = sum(result.requires for result in self.results)
        return Primitive(
            self.label,
            lambda *arrays, found: found,
            "*xs",
            vjp=rule,
            outputs=count if count > 1 else 1,
            residuals="kept",
        )

    @staticmethod
    def _key(source: tuple[str, Any]) -> tuple[str, Any]:
        return source[0], id(source[1]) if source[0] == "tensor" else source[1]

    def _tensor_sources(self) -> list[tuple[str, Any]]:
        """The Tensors that the operator has as inputs: those that need gradients, and whose arrays are kept."""
        kept = set(self.kept)
        sources = [source for value, source in self.trace.program.inputs if value in kept and source[0] != "cotangent"]
        sources += [source for _, source in self.trace.gradients]
        seen: dict[Any, tuple[str, Any]] = {}
        for source in sources:
            if source[0] in ("argument", "tensor"):
                seen.setdefault(self._key(source), source)
        return [s for s in seen.values() if s[0] == "tensor" or isinstance(self.trace.leaves[s[1]], Tensor)]

    def _run_recorded(self, leaves: Sequence[Any], arrays: tuple[Any, ...]) -> Any:
        with silent():
            found = self.replay(arrays)
        requires = [result.requires for result in self.results if result.kind in ("tensor", "array", "number")]
        outs = tuple([np.asarray(x) for x, need in zip(found, requires, strict=False) if need])
        inputs = tuple([self._tensor_of(source, leaves) for source in self._tensor_sources()])
        assert self.primitive is not None
        tensors = apply(self.primitive, inputs, {"found": (outs if len(outs) > 1 else outs[0], found[self.width :])})
        self._count_writes(leaves)
        return self._results_of(found[: self.width], leaves, tensors if isinstance(tensors, tuple) else (tensors,))

    def _again(self, gs: Sequence[Any], xs: Sequence[Any], needs: Sequence[bool]) -> Any:
        """The rule where it is itself recorded: the function is run eagerly, and its graph differentiated."""
        sources = self._tensor_sources()
        leaves = list(self.trace.leaves)
        for x, (kind, what) in zip(xs, sources, strict=True):
            if kind == "argument":
                leaves[what] = x if isinstance(x, Tensor) else new_tensor(x)
        args, kwargs = self.trace.structure.unflatten(leaves)
        with enable_grad():
            outputs, _ = flatten(self.function(*args, **kwargs))
        outputs = [x for x in outputs if isinstance(x, Tensor)]
        wanted = [result.requires for result in self.results if result.kind == "tensor"]
        outputs = [x for x, want in zip(outputs, wanted, strict=True) if want]
        inputs = [leaves[what] if kind == "argument" else what for kind, what in sources]
        targets = [x for x, need in zip(inputs, needs, strict=True) if need]
        found = differentiate(self.label, outputs, list(gs), targets, True, True)
        return [found.get(edge_of(x)) if need else None for x, need in zip(inputs, needs, strict=True)]


def _parts(instructions: list[Instruction]) -> list[Instruction]:
    """The instructions, those that regions consist of in the place of regions."""
    return [part for step in instructions for part in (step.parts if step.kind == "native" else (step,))]


def generators_of(step: Instruction) -> list[Generator]:
    """The generators that an instruction draws from."""
    found = [x for x in (*step.args, *step.kwargs.values()) if isinstance(x, Generator)]
    for cell in getattr(step.function, "__closure__", None) or ():
        if isinstance(cell.cell_contents, Generator):
            found.append(cell.cell_contents)
    return found or [default_generator]


__all__ = ["Entry", "Miss", "Result", "Trace"]
