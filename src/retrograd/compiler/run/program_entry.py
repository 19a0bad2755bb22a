"""One program of a compiled function: its guards and its replay."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...core.arrays import dtypes
from ...core.arrays.devices import array_module, cupy_backend, is_array
from ...core.arrays.fp_warnings import silenced, silent
from ...core.arrays.memory import trim
from ...core.graph.backward import differentiate
from ...core.graph.call_node import attach
from ...core.graph.modes import enable_grad, modes
from ...core.graph.nodes import edge_of, new_node
from ...core.graph.primitive import Primitive, apply
from ...core.tensor.storage import is_saved, is_writable, share, sharers, storage_of
from ...core.tensor.tensor import Tensor, is_dense, new_tensor
from ...func.nests import flatten
from ...ops.make.generators import Generator, default_generator
from ..cpu import compiled_regions, with_scaling_steps
from ..cuda import Graph, fused
from ..cuda import Module as Kernels
from ..loops.repeated_steps import roll_repeats
from ..passes import optimized
from ..passes.constants import FoldedConstants, fold_constants
from ..passes.order import guards_before_effects
from ..passes.recomputing import recomputed
from ..program import Instruction, Source, Value
from ..trace.effects import give_array, hooks_of, run_step
from ..trace.numpy_scalars import ensure_array
from ..trace.sizes import NEW, Result, Trace
from .guard_failures import modes_now
from .replay import Miss, Replay, live_instructions


@dataclass(slots=True)
class SavedCall:
    """The data of a call that its backward pass uses.

    Attributes:
        arrays: values that the forward program computed and the backward program reads.
        leaves: the leaves of the arguments, with which a second derivative runs the function again, eagerly.
        versions, numbers: the write counts of Tensors and the values of variables that the function read; if they have
            changed since the call, the function cannot be run again.
        inputs: array, graph edge and storage of each Tensor input, None if the backward program does not read it.
        storages: the storages of results that share memory with ``arrays``, which protect it from writes.
        forms: shape and dtype of each differentiable result, if there are several.
    """

    arrays: list[Any]
    leaves: list[Any]
    versions: list[int]
    numbers: list[Any]
    inputs: list[Any] = field(default_factory=list)
    storages: list[object] = field(default_factory=list)
    forms: list[tuple[object, object]] = field(default_factory=list)

    @property
    def reads(self) -> tuple[Any, Any]:
        """``versions`` and ``numbers``, for comparison with those of a later call."""
        return self.versions, self.numbers


LARGE_ARENA = 1 << 24  # minimum bytes of an arena for which ``trim`` is called
_TENSORS = ("argument", "tensor", "grad")


class TooLong(Exception):
    """A program has more instructions than a function may have, after its loops were rolled."""


class Entry:
    """A program with its guards.

    Args:
        trace: the trace.
        function: the function that was traced.
        label: the name in tracebacks.
        longest: the number of instructions that the program may have.

    Raises:
        TooLong: the program has more than ``longest`` instructions.
    """

    def __init__(self, trace: Trace, function: Callable[..., object], label: str, longest: int = sys.maxsize) -> None:
        self.trace = trace
        self.function = function
        self.label = label
        self.calls = 0
        self.seconds = 0.0  # total time of the calls
        self.casts: tuple[object, ...] = ()  # the state of autocast in the trace
        self.modes = modes_now()
        self.apart = ""  # why this program does not serve other sizes
        self.because = ""  # why no earlier program fitted
        program = trace.program
        split = len(program.instructions) if program.split is None else program.split
        returned = [result.value for result in trace.results if result.kind in ("tensor", "array", "number")]
        program.outputs = returned + [value for value, _ in trace.gradients if value is not None]
        late = set(map(id, program.instructions[split:]))
        self.folded = FoldedConstants((), {}) if program.varies else fold_constants(program, program.outputs)
        program.instructions = live_instructions(
            program.instructions, program.outputs, {value for value, _ in program.inputs}
        )
        forward = [step for step in program.instructions if id(step) not in late]
        backward = [step for step in program.instructions if id(step) in late]
        outputs = [*returned, *[value for value, _ in trace.gradients if value is not None]]
        inside = {value for step in forward for value in step.outs}
        needed = [*outputs, *[v for step in backward for v in step.reads() if v in inside]]
        self.notes: list[str] = []  # why instructions are not in a region
        self.kernels: Kernels | None = None  # None unless the program runs on a GPU
        if not program.varies:
            guarded = {
                value
                for value, (kind, what) in program.inputs
                if value.shape is not None
                and (kind in ("argument", "tensor", "grad") or kind == "constant" and type(what) is np.ndarray)
            }
            forward, backward = roll_repeats(forward, needed), roll_repeats(backward, outputs)
        forward = guards_before_effects(forward)
        if len(forward) + len(backward) > longest:
            raise TooLong(f"it has more than {longest:,} operators ({[*forward, *backward][longest].site})")
        if not program.varies:
            forward = with_scaling_steps(forward)
            forward = optimized(compiled_regions(forward, needed, guarded, self.notes), needed)
            backward = optimized(compiled_regions(backward, outputs, guarded, self.notes), outputs)
            if any(step.on_gpu for step in (*forward, *backward)):
                self.kernels = Kernels()
                forward = fused(forward, needed, self.kernels)
                backward = fused(backward, outputs, self.kernels)
        program.instructions = [*forward, *backward]
        read = {value for instruction in program.instructions for value in instruction.reads()}
        read.update(program.outputs)
        all_inputs = program.inputs
        program.inputs = [(value, source) for value, source in program.inputs if value in read]
        program.split = len(forward)
        made = {value for value, source in program.inputs if source[0] != "cotangent"}
        made.update(out for instruction in forward for out in instruction.outs)
        later = [value for instruction in backward for value in instruction.reads()]
        later += [value for value, _ in trace.gradients if value is not None]
        self.kept = list(dict.fromkeys(value for value in later if value in made))
        takes = [value for value, source in program.inputs if source[0] != "cotangent"]
        self.sources = [source for _, source in program.inputs if source[0] != "cotangent"]
        if not program.varies and not trace.cotangents:
            forward = recomputed(forward, takes, returned, program.cleared)
        self.replay = Replay(forward, takes, [*returned, *self.kept], label, not program.varies, program.cleared)
        if self.replay.plan.size >= LARGE_ARENA:
            trim()  # the first call has freed as much memory as the next calls will take
        self.forward: Any = self.replay  # replaced by a CUDA graph below, if there are kernels
        if self.kernels is not None:
            gives = [*returned, *self.kept]
            self.forward = Graph(self.replay, takes, self.sources, gives, self.kernels, bool(trace.cotangents))
        self.pull: Replay | None = None
        if trace.cotangents:
            gives = [value for value, _ in trace.gradients if value is not None]
            label = f"backward of {label}"
            self.pull = Replay(backward, [*trace.cotangents, *self.kept], gives, label, not program.varies)
        self.results = trace.results
        self.width = len(returned)
        self.written = self._written_tensors(forward)
        replaced = [step.args[0] for step in forward if step.function is give_array]
        self.replaced_memory = [
            ("argument", dict(all_inputs)[x][1]) if type(x) is Value else ("tensor", x) for x in replaced
        ]
        self.undo, self.generators = self._find_undo(forward)
        self.enter = self._compile_guards(all_inputs)
        self.primitive: Primitive | None = None
        if self.pull is not None:
            self._find_protected(forward)
            self.primitive = self._primitive()
        self.single = trace.result_structure.type is None

    # Guards

    def _compile_guards(self, inputs: Sequence[tuple[Value, Any]]) -> Callable[[Sequence[Any]], Any]:
        """Return a function from the argument leaves to the program's input arrays, or to None if a guard fails."""
        trace = self.trace
        names: dict[str, Any] = {"modes": modes, "dtypes": dtypes, "Tensor": Tensor, "ndarray": np.ndarray, "np": np}
        names["hooks_of"] = hooks_of
        lines = [f"modes.grad_enabled is {modes.grad_enabled}", f"modes.inference is {modes.inference}"]
        names["default_dtype"] = dtypes.get_default_dtype()
        lines.append("dtypes._default_float is default_dtype")
        large = {id(what.value) for value, (kind, what) in inputs if kind == "place" and value.shape is not None}
        lines += trace.surroundings.check(trace.free, large, names)

        def named(value: object) -> str:
            name = f"h{len(names)}"
            names[name] = value
            return name

        def fits(array: str, value: Value) -> str:
            dtype = named(value.dtype)
            same_dtype = f"({array}.dtype is {dtype} or {array}.dtype == {dtype})"
            if any(value is x for x in key):
                return same_dtype
            return f"{array}.shape == {value.shape!r} and {array}.strides == {value.strides!r} and {same_dtype}"

        def lies(array: str, value: Value) -> str:
            if not value.on_gpu:
                return f"type({array}) is ndarray"
            return f"type({array}) is {named(cupy_backend().array_type)} and {array}.device.id == {value.device}"

        def hooked(x: str, was: Tensor, hooks: tuple[object, ...]) -> str:
            if hooks or was._hooks is not None or was._node is not None:
                return f"hooks_of({x}) != {named(hooks)}"
            return f"{x}._hooks is not None"  # no hook was registered in the trace

        body: list[str] = []
        by_argument = {source[1]: value for value, source in inputs if source[0] == "argument"}
        key: list[Value] = []  # arrays whose sizes may vary
        if trace.sizes is not None:
            key = [value for value in by_argument.values() if value.shape is not None]
        lifted = {id(x.tensor): x for x in trace.outside}
        first: dict[int, int] = {}
        for index, leaf in enumerate(trace.leaves):
            body.append(f"x{index} = leaves[{index}]")
            x = f"x{index}"
            if index in trace.free_leaves:
                body.append(f"if type({x}) is not {type(leaf).__name__}: return None")
            elif is_dense(leaf):
                if id(leaf) in first:
                    body.append(f"if {x} is not x{first[id(leaf)]}: return None")
                    continue
                others = " or ".join(f"{x} is x{other}" for other in first.values())
                first[id(leaf)] = index
                conditions = [f"type({x}) is {named(type(leaf))}"]
                if others:
                    conditions.append(f"not ({others})")
                body.append(f"if not ({' and '.join(conditions)}): return None")
                _, value, requires, hooks = lifted[id(leaf)]
                body.append(f"a{index} = {x}.array")
                body.append(f"if not ({lies(f'a{index}', value)} and {fits(f'a{index}', value)}): return None")
                body.append(f"if {x}._requires is not {requires}: return None")
                if requires:
                    body.append(f"if ({x}._node is None) is not {leaf._node is None}: return None")
                    body.append(f"if {hooked(x, leaf, hooks)}: return None")
            elif is_array(leaf):
                value = by_argument[index]
                body.append(f"if not ({lies(x, value)} and {fits(x, value)}): return None")
            elif isinstance(leaf, (bool, int, float, complex, str, bytes)):
                signed = isinstance(leaf, complex) or isinstance(leaf, float) and not leaf  # 0.0 is not -0.0
                other = f"repr({x}) != {repr(leaf)!r}" if signed else f"{x} != {named(leaf)}"
                body.append(f"if type({x}) is not {named(type(leaf))} or {other}: return None")
            else:
                body.append(f"if {x} is not {named(leaf)}: return None")
        body.append(f"if not ({' and '.join(lines)}): return None")  # before guards that only compare sizes
        arguments = {id(leaf) for leaf in trace.leaves if is_dense(leaf)}
        arrays: dict[int, str] = {}
        for number, (tensor, value, requires, hooks) in enumerate(trace.outside):
            if id(tensor) in arguments:
                continue
            t = named(tensor)
            arrays[id(tensor)] = f"t{number}"
            body.append(f"t{number} = {t}.array")
            here = lies(f"t{number}", value)
            body.append(f"if not ({here} and {fits(f't{number}', value)} and {t}._requires is {requires}): return None")
            if requires:
                body.append(f"if {hooked(t, tensor, hooks)}: return None")
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
                takes.append(f"a{what}" if is_dense(leaf) else f"x{what}")
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
                if value.shape is not None:
                    body.append(f"if not ({fits(takes[-1], value)}): return None")
            elif kind == "constant":
                takes.append(named(what))
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
        return names["enter"]

    def _leaf_name(self, leaf: Tensor, named: Callable[[Any], str]) -> str:
        for index, x in enumerate(self.trace.leaves):
            if x is leaf:
                return f"x{index}"
        return named(leaf)

    # Undo after a failed check

    def _written_tensors(self, instructions: list[Instruction]) -> list[Source]:
        """Return the sources of the inputs to whose memory the program writes, an optimizer's parameters included."""
        instructions = _parts(instructions)
        roots = {value.root for step in instructions if step.kind != "effect" for value in step.writes}
        optimizers = [step.args[0] for step in instructions if step.function is run_step]
        moved = {id(p) for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]}
        return [
            source
            for value, source in self.trace.program.inputs
            if value.root in roots and source[0] != "place" or source[0] == "tensor" and id(source[1]) in moved
        ]

    def _find_undo(self, instructions: list[Instruction]) -> tuple[list[int], list[Any]]:
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

    # Calls

    def run(self, leaves: Sequence[object], arrays: tuple[object, ...]) -> Any:
        """Replay the program. Raises Miss, with all writes undone, if elements violate the trace's assumptions."""
        if self.undo or self.generators:
            return self._run_carefully(leaves, arrays)
        if self.primitive is not None:
            return self._run_with_grad(leaves, arrays)
        found = silenced(self.forward, arrays)
        self._count_writes(leaves)
        return self._results_of(found, leaves, None)

    def _run_carefully(self, leaves: Sequence[Any], arrays: tuple[Any, ...]) -> Any:
        copies = [(arrays[index], arrays[index].copy()) for index in self.undo]
        states = [(g, g.get_state()) for g in self.generators]
        try:
            if self.primitive is not None:
                return self._run_with_grad(leaves, arrays)
            with silent():
                found = self.forward(arrays)
        except BaseException:
            for array, before in copies:
                array[...] = before
            for g, state in states:
                g.set_state(state)
            raise
        self._count_writes(leaves)
        return self._results_of(found, leaves, None)

    def writable(self, leaves: Sequence[object]) -> bool:
        """Return whether the memory that the program writes is not needed by a live graph."""
        for source in self.written:
            x = source[1] if source[0] == "tensor" else self._tensor_of(source, leaves)
            if is_dense(x) and (x._storage is not None and is_saved(x) or not is_writable(x.array)):
                return False
        # If a Tensor's memory is replaced, Tensors that share the memory may have to follow: the call runs eagerly.
        return not any(len(sharers(self._tensor_of(source, leaves))) > 1 for source in self.replaced_memory)

    def _count_writes(self, leaves: Sequence[object]) -> None:
        for source in self.written:
            x = self._tensor_of(source, leaves)
            if is_dense(x):
                storage_of(x).version += 1

    def _tensor_of(self, source: Source, leaves: Sequence[Any]) -> Any:
        kind, what = source
        if kind == "argument":
            return leaves[what]
        if kind == "grad":
            index = next((index for index, leaf in enumerate(self.trace.leaves) if leaf is what), None)
            return (what if index is None else leaves[index])._grad
        return what if kind == "tensor" else None

    def _results_of(
        self, found: Sequence[Any], leaves: Sequence[Any], tensors: Sequence[Tensor] | None, held: Any = None
    ) -> Any:
        values = iter(found)
        made: list[Any] = []
        grad_results = iter(tensors or ())
        for result in self.results:
            if result.kind == "same":
                made.append(result.value)
            elif result.kind == "argument":
                made.append(leaves[result.value])
            elif result.kind == "again":
                made.append(made[result.value])
            elif result.kind == "gradient":
                made.append(self._tensor_of(result.value, leaves)._grad)
            else:
                value = next(values)
                if result.kind == "tensor":
                    if result.requires and tensors is not None:
                        value = next(grad_results)
                    else:
                        value = new_tensor(value if type(value) is np.ndarray else ensure_array(value))
                    if result.spent is not None:
                        freed: Any = None
                        value._requires = True
                        value._node = new_node(result.spent, (None,), freed, value.array.shape, value.array.dtype)
                    if result.alias is not None:
                        kind, what = result.alias
                        other = made[what] if kind == "result" else leaves[what] if kind == "argument" else what
                        share(value, other, result.related)
                made.append(value)
        if held is not None:
            held += [storage_of(made[index]) for index in self.shown]
        if self.single:
            return made[0]
        return self.trace.result_structure.unflatten(made)

    # Results that require grad

    def _find_protected(self, forward: list[Instruction]) -> None:
        """Find the inputs and results whose memory the backward part reads, to protect it by copy on write."""
        inputs, roots = self.trace.program.inputs, {value.root for value in self.kept}
        self.read = [source for value, source in inputs if value.root in roots and source[0] in _TENSORS]
        self.shown = [
            index for index, result in enumerate(self.results) if result.kind == "tensor" and result.value.root in roots
        ]
        given = {value.root for step in forward if step.kind == "effect" for value in step.reads()}
        given -= {value for value, _ in inputs}
        self.copied = [index for index, value in enumerate(self.kept) if value.root in given]
        parts = _parts(forward)
        self.once = (  # why the function cannot run again for second derivatives
            "draws random numbers" if any(step.kind == "draw" for step in parts)
            else "changes what is outside of it" if self.written or any(step.kind == "effect" for step in parts)
            else ""
        )  # fmt: skip

    def _primitive(self) -> Primitive:
        """Return the program as one primitive of the computational graph."""
        entry, pull = self, self.pull
        assert pull is not None
        flowing = [(source, value) for value, source in self.trace.gradients if value is not None]
        leading = [
            roots
            for (value, _), roots in zip(self.trace.gradients, self.trace.leading, strict=True)
            if value is not None
        ]
        wanted = [source for source, _ in flowing] or [source for _, source in self.trace.gradients]
        known = {self._key(source): source for source in (*wanted, *self.read) if self._is_tensor(source)}
        self.operands = list(known.values())
        read = set(map(self._key, self.read))
        self.is_read = [key in read for key in known]
        places = {key: index for index, key in enumerate(known)}
        leaves, kept = self.trace.leaves, {what for kind, what in self.read if kind == "argument"}
        self.others = [index for index, x in enumerate(leaves) if is_dense(x) and index not in kept]
        arguments = set(map(id, leaves))
        self.outer = [x.tensor for x in self.trace.outside if id(x.tensor) not in arguments]

        def pull_back(g: object, kept: Any, needs: Any) -> Any:
            gs = list(g) if isinstance(g, tuple) else [g]
            if any(isinstance(x, Tensor) for x in gs):
                return entry._differentiate_again(gs, needs, kept)
            given = sum(1 << number for number, x in enumerate(gs) if x is not None)
            if any(x is None for x in gs):
                xp = array_module(next(x for x in gs if x is not None))
                gs = [xp.zeros(*form) if x is None else x for x, form in zip(gs, kept.forms, strict=True)]
            found = pull((*gs, *kept.arrays))
            out: list[Any] = [None] * len(needs)
            for (source, _), array, roots in zip(flowing, found, leading, strict=True):
                if roots & given:
                    out[places[entry._key(source)]] = ensure_array(array)
            return out

        def take_results(*arrays: object, found: object) -> Any:
            return found

        count = sum(result.requires for result in self.results)
        primitive = Primitive(
            self.label,
            take_results,
            "*xs",
            vjp=pull_back,
            outputs=count if count > 1 else 1,
            residuals="kept",
            bfloat16="program",  # the results are computed already
        )
        primitive.fills = False  # an input without a path to the results that have a cotangent has no gradient
        return primitive

    @staticmethod
    def _key(source: Source) -> Source:
        return source[0], id(source[1]) if source[0] in ("tensor", "grad") else source[1]

    def _is_tensor(self, source: Source) -> bool:
        return source[0] != "argument" or isinstance(self.trace.leaves[source[1]], Tensor)

    def _run_with_grad(self, leaves: Sequence[Any], arrays: tuple[Any, ...]) -> Any:
        with silent():
            found = self.forward(arrays)
        requires = [result.requires for result in self.results if result.kind in ("tensor", "array", "number")]
        outs = tuple([ensure_array(x) for x, need in zip(found, requires, strict=False) if need])
        inputs = tuple([self._tensor_of(source, leaves) for source in self.operands])
        kept = SavedCall(list(found[self.width :]), list(leaves), self._versions(leaves), self._numbers(arrays))
        for x, read in zip(inputs, self.is_read, strict=True):
            kept.inputs.append((x.array, edge_of(x), storage_of(x)) if read else None)
        if len(outs) > 1:
            kept.forms = [(x.shape, x.dtype) for x in outs]
        for index in self.copied:
            kept.arrays[index] = kept.arrays[index].copy()
        assert self.primitive is not None
        tensors = apply(self.primitive, inputs, {"found": (outs if len(outs) > 1 else outs[0], kept)})
        self._count_writes(leaves)
        grad_results = tensors if isinstance(tensors, tuple) else (tensors,)
        return self._results_of(found[: self.width], leaves, grad_results, kept.storages)

    def _differentiate_again(self, gs: Sequence[Any], needs: Sequence[bool], kept: SavedCall) -> Any:
        """Run the function eagerly and differentiate its graph: the derivative rule for derivatives of higher order."""
        leaves = list(kept.leaves)
        with enable_grad():
            arrays = None if self.once else self.enter(leaves)
            if arrays is None or arrays is NEW or kept.reads != (self._versions(leaves), self._numbers(arrays)):
                why = self.once or "reads values that have changed since"
                raise RuntimeError(
                    f"{self.label}: a derivative of the backward of a compiled function runs the function again, but "
                    f"this one {why}; call it under compiler.set_stance('force_eager')"
                )
            for known, (kind, what) in zip(kept.inputs, self.operands, strict=True):
                if kind == "argument" and known is not None:
                    leaves[what] = attach(*known)
            args, kwargs = self.trace.structure.unflatten(leaves)
            outputs, _ = flatten(self.function(*args, **kwargs))
        outputs = [x for x, result in zip(outputs, self.results, strict=True) if result.requires]
        outputs = [x for x, g in zip(outputs, gs, strict=True) if g is not None]
        inputs = [leaves[what] if kind == "argument" else what for kind, what in self.operands]
        targets = [x for x, need in zip(inputs, needs, strict=True) if need]
        cotangents = [g for g in gs if g is not None]
        found = differentiate(self.label, outputs, cotangents, targets, True, True, beyond=False)
        return [found.get(edge_of(x)) if need else None for x, need in zip(inputs, needs, strict=True)]

    def _versions(self, leaves: Sequence[Any]) -> list[int]:
        """Return the write counts of the Tensors that the function reads, other than arguments that the graph saves."""
        read = [*[leaves[index] for index in self.others], *self.outer]
        return [x._version for x in read]

    def _numbers(self, arrays: Sequence[object]) -> list[Any]:
        """Return the values of variables that are inputs."""
        found = [arrays[index] for index, source in enumerate(self.sources) if source[0] == "place"]
        return [x for x in found if not is_array(x)]


def _parts(instructions: list[Instruction]) -> list[Instruction]:
    """Return the instructions, with regions replaced by their parts."""
    return [part for step in instructions for part in (step.parts if step.kind == "native" else (step,))]


def generators_of(step: Instruction) -> list[Generator]:
    """Return the generators that an instruction draws from."""
    found = [x for x in (*step.args, *step.kwargs.values()) if isinstance(x, Generator)]
    for cell in getattr(step.function, "__closure__", None) or ():
        if isinstance(cell.cell_contents, Generator):
            found.append(cell.cell_contents)
    return found or [default_generator]


__all__ = ["Entry", "Miss", "Result", "Trace"]
