"""The function that ``compile`` returns: its calls replay programs, or trace a new program."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence
from functools import cache, update_wrapper
from logging import getLogger
from threading import RLock
from typing import Any
from weakref import WeakSet

import numpy as np

from ...core.arrays.devices import backend_of, is_array
from ...core.arrays.memory import collector_paused
from ...core.graph.backward import Walk
from ...core.graph.modes import casting, modes
from ...core.graph.nodes import edge_of, reachable, reached_from
from ...core.tensor.storage import sharers
from ...core.tensor.tensor import Tensor, is_dense
from ...func.nests import Structure, flatten
from ...nn.parameter import Parameter
from ..loops.following import Follower
from ..loops.rolled import roll
from ..loops.signatures import count_distinct
from ..program import Arguments, Function, Keywords, Source, Value
from ..trace.argument_copies import Copies
from ..trace.effect_tracer import Bypassed
from ..trace.effects import hooks_of, unrepeatable_change
from ..trace.escapes import ESCAPED, containers, is_referenced_outside
from ..trace.numpy_scalars import drop_scalar_conversions
from ..trace.sizes import NEW, Differs, Lifted, Result, Sizes, Trace, Varying, dynamic_dims
from ..trace.trace_modes import tracing_with
from ..trace.traced_arrays import Number, Traced, WatchedIterator
from ..trace.tracer import OTHER_THREAD, Tracer
from ..trace.untrace import as_real
from .guard_failures import changed_modes, first_difference, modes_now
from .guards import Place, Surroundings, Wrapper, is_iterator
from .program_entry import Entry, TooLong
from .replay import Miss

MAX_FAILED_TRACES = 3  # number of consecutive traces without a program after which a function runs eagerly
LIMIT = 8  # default maximum of programs of a function
# The default maximum of operators of one program; a program of this size takes up to 15 s to compile.
MAX_OPERATORS = 10_000
_all: WeakSet[Compiled] = WeakSet()
_tracing = RLock()  # during a trace, the arrays of Tensors are Traced for all threads
_log = getLogger("retrograd.compiler")


class Compiled(Wrapper):
    """The callable that ``compile`` returns for a function."""

    def __init__(
        self,
        function: Function,
        fallback: bool,
        dynamic: bool | None,
        limit: int = LIMIT,
        max_operators: int = MAX_OPERATORS,
    ) -> None:
        self.function = function
        self.max_operators = max_operators
        self._options = fallback, dynamic, limit, max_operators
        self.fallback = fallback
        self.dynamic = dynamic
        self.limit = limit
        self.entries: list[Entry] = []
        # Optimized programs of single sizes that a common program in ``entries`` serves, too.
        self.own: list[Entry] = []
        self.eager = ""  # why the function runs eagerly; empty if it does not
        self.why = ""  # why the last trace has no program
        self.seconds = 0.0  # time spent on compiling
        self.traces = 0
        self._failures = 0.0  # number of traces without a program; a trace that another thread disturbed counts 0.1
        # The number of programs dropped without a replay in between, and the number of replays at the last drop.
        self._wasted = 0, 0
        self._free: set[object] = set()  # numbers that have varied: indices of arguments, identities of places
        update_wrapper(self, function)
        _all.add(self)

    def __repr__(self) -> str:
        return f"<compiled {getattr(self.function, '__qualname__', type(self.function).__name__)}>"

    def __reduce__(self) -> Any:
        """Copies and pickles have no programs."""
        return Compiled, (self.function, *self._options)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Bind to an instance, with a compiled function for each instance."""
        if instance is None:
            return self
        name = f"_compiled_{self.function.__name__}"
        bound = vars(instance).get(name)
        if bound is None:
            bound = Compiled(self.function.__get__(instance, owner), *self._options)
            vars(instance)[name] = bound
        return bound

    def __call__(self, *args: object, **kwargs: object) -> Any:
        stance = modes.stance
        if (
            self.eager
            or (modes.observers and not all(observer.counts for observer in modes.observers))
            or modes.level is not None
            or stance == "force_eager"
            or not turned_on()
        ):
            return self.function(*args, **kwargs)
        leaves, structure = _flatten_call(args, kwargs)
        casts = _casts()
        other_sizes: list[Entry] = []
        for entry in (*self.own, *self.entries) if self.own else self.entries:
            known = entry.trace.structure
            if known is not structure and known != structure or entry.casts != casts:
                continue
            arrays = entry.enter(leaves)
            if arrays is None:
                continue
            if arrays is NEW:
                other_sizes.append(entry)
                continue
            if not entry.writable(leaves):
                return self.function(*args, **kwargs)
            sizes = entry.trace.sizes
            room = stance == "default" and len(self.own) < self.limit
            if sizes is not None and room and sizes.count_call(leaves):
                return self._trace((args, kwargs), leaves, structure, None)
            started = time.perf_counter()
            try:
                result = entry.run(leaves, arrays)
            except Miss:
                continue
            entry.calls += 1
            entry.seconds += time.perf_counter() - started
            return result
        if stance == "eager_on_recompile":
            return self.function(*args, **kwargs)
        if not _tracing.acquire(blocking=False):  # another thread is tracing, and the Traced arrays fit no program
            with _tracing:
                pass
            return self(*args, **kwargs)
        _tracing.release()
        differences = [first_difference(entry, leaves, structure, casts) for entry in (*self.own, *self.entries)]
        because = "; ".join(dict.fromkeys(differences))
        if stance == "fail_on_recompile":
            why = f": {because}" if because else ""
            raise RuntimeError(f"{self!r} has no program for this call, and the stance is 'fail_on_recompile'{why}")
        if because:
            _log.info("%r is traced again: %s", self, because)
        return self._trace((args, kwargs), leaves, structure, other_sizes, because)

    def summary(self) -> str:
        """Return the number of programs, the time spent on compiling, and the mean time of a replay."""
        if self.eager:
            return f"compiled: nothing; {self.eager}"
        programs = [*self.own, *self.entries]
        calls = sum(entry.calls for entry in programs)
        spent = sum(entry.seconds for entry in programs)
        each = f", {calls} replays of {1e3 * spent / calls:.3g} ms" if calls else ""
        return f"compiled: {len(programs)} program{'s' if len(programs) != 1 else ''} in {self.seconds:.2f} s{each}"

    def explain(self, *args: object, **kwargs: object) -> str:
        """Describe the programs: instructions by source line, fused loops, memory, guards.

        With arguments one more call is made and measured.

        Returns:
            The description.

        >>> @rg.compile
        ... def f(x):
        ...     return (x * 2).sum()
        >>> print(f.explain())
        f: no program yet; call it
        >>> f(rg.ones(3))
        tensor(6.)
        >>> "mul" in f.explain(rg.ones(3))
        True
        """
        from ..explain import explanation

        name = getattr(self.function, "__name__", type(self.function).__name__)
        if self.eager:
            return f"{name}: runs eagerly: {self.eager}"
        leaves, structure = flatten((args, kwargs))
        if args or kwargs:
            self(*args, **kwargs)  # traces the call if no program fits
            for entry in (*self.own, *self.entries):
                arrays = entry.enter(leaves) if entry.trace.structure == structure else None
                if arrays is not None and arrays is not NEW:
                    return explanation(entry, leaves, arrays)
        return "\n\n".join(
            explanation(entry, None, None) for entry in (*self.own, *self.entries)
        ) or f"{name}: no program yet" + (f": {self.why}" if self.why else "; call it")

    # Tracing

    def _trace(
        self,
        arguments: object,
        leaves: list[Any],
        structure: Structure,
        other_sizes: list[Entry] | None,
        because: str = "it has become a common size",
    ) -> Any:
        """Trace a call. ``other_sizes`` are programs that fit except for sizes; None: compile a separate program."""
        with collector_paused():
            return self._trace_call(arguments, leaves, structure, other_sizes, because)

    def _trace_call(
        self, arguments: object, leaves: list[Any], structure: Structure, other_sizes: list[Entry] | None, because: str
    ) -> Any:
        started, casts = time.perf_counter(), _casts()
        with _tracing:
            result, trace, why = self._run_traced(arguments, leaves, structure)
        if trace is not None:
            try:
                if other_sizes is None:
                    name = getattr(self.function, "__name__", "program")
                    entry = Entry(trace, self.function, name, self.max_operators)
                    entry.casts, entry.because = casts, because
                    self.own.append(entry)
                else:
                    self._add_program(trace, casts, other_sizes, because)
            except TooLong as error:
                trace, why = None, f"{error}{_SHORTEN}"
        if trace is None:
            self._failures += MAX_FAILED_TRACES if why.endswith(_SHORTEN) else 0.1 if why == OTHER_THREAD else 1
            self.why = why
            if self._failures >= MAX_FAILED_TRACES:
                self._give_up(why)
        else:
            self._failures = 0
        self.traces += 1
        self.seconds += time.perf_counter() - started
        return result

    def _add_program(self, trace: Trace, casts: Any, other_sizes: list[Entry], because: str) -> None:
        """Compile a trace, or merge it into the common program of other sizes."""
        label, apart = getattr(self.function, "__name__", "program"), ""
        full = len(self.entries) >= self.limit
        every = bool(self.dynamic) or self.dynamic is None and full
        short = len(trace.program.instructions) <= self.max_operators  # a longer program must be rolled, for one size
        if short and (every or other_sizes or any(map(dynamic_dims, trace.leaves))):
            for entry in other_sizes:
                assert entry.trace.sizes is not None
                try:
                    with _tracing:
                        changed = entry.trace.sizes.learn(trace)
                except Differs as why:
                    apart = apart or str(why)
                    continue
                if changed:
                    made = Entry(entry.trace.sizes.merged_trace(), self.function, label, self.max_operators)
                    for kept in ("casts", "calls", "seconds", "apart", "because"):
                        setattr(made, kept, getattr(entry, kept))
                    self.entries = [made if other is entry else other for other in self.entries]
                return
            marked: Varying = {index: dynamic_dims(leaf) for index, leaf in enumerate(trace.leaves)}
            trace = Sizes(trace, None if every else marked).merged_trace()
        if full:
            least = min(self.entries, key=lambda entry: entry.calls)
            self.entries.remove(least)
            replays = sum(entry.calls for entry in (*self.own, *self.entries))
            wasted, before = self._wasted
            self._wasted = (wasted if replays == before else 0) + (least.calls == 0), replays
            if self._wasted[0] > self.limit:
                differs = least.trace.surroundings.changed() or "arguments, modes or sizes"
                self._give_up(f"hardly any call fits an earlier program: {differs}")
                return
        entry = Entry(trace, self.function, label, self.max_operators)
        entry.casts, entry.apart, entry.because = casts, apart, because
        self.entries.insert(0, entry)

    def _give_up(self, why: str) -> None:
        """Run eagerly from now on."""
        self.eager = why
        self.entries, self.own = [], []
        warnings.warn(f"compile: {self!r} runs eagerly: {why}", stacklevel=4)

    def _run_traced(
        self, arguments: Any, leaves: list[Any], structure: Structure, fixed: bool = False, follows: bool = True
    ) -> tuple[Any, Trace | None, str]:
        """Run the function eagerly under a trace; return its result, the trace or None, and why there is no trace.

        Numbers that vary become inputs, unless ``fixed``. Python loops are followed if ``follows``.
        """
        surroundings = Surroundings(self.function, leaves)
        tracer = Tracer(not self.fallback, self.max_operators, surroundings.exact)
        tracer.roll, tracer.distinct = roll, count_distinct
        if follows and not self.dynamic and len(self.entries) < self.limit and not any(map(dynamic_dims, leaves)):
            tracer.follower = Follower(tracer)  # programs of several sizes have no loops
        fixed = fixed or float in surroundings.exact
        program = tracer.program
        free_leaves = set() if fixed else self._varying_leaves(leaves, structure)
        free = [] if fixed else self._varying_places(surroundings)
        places: list[tuple[Place, object, object]] = []  # places, real values, and replacements during the trace
        mode = tracing_with(tracer)
        try:
            given = self._substituted(tracer, surroundings, leaves, free, free_leaves, places)
            args, kwargs = structure.unflatten(given)
            copies = Copies(arguments, (args, kwargs), dict(zip(map(id, given), leaves, strict=True)))
            modes_before = modes_now(), _casts()
            with mode:
                try:
                    result = self.function(*args, **kwargs)
                finally:
                    tracer.settle()
                tracer.sync()
                found, result_structure = flatten(result)
                results = self._results(tracer, found, leaves)
                split, cotangents, gradients, leading = self._backward(tracer, found, results, leaves)
                for why in filter(
                    None, (unrepeatable_change(tracer.outside.values()), changed_modes(modes_before, _casts()))
                ):
                    tracer.breaks(why)
            if tracer.refusal is not None:  # the function has caught the error
                raise tracer.refusal
        except BaseException as error:
            self._restore(tracer, places)
            untouched = not (tracer.has_acted() or surroundings.changed())
            tracer.look_for_escapes()  # the function may have stored results before the error
            if isinstance(error, Bypassed):
                if untouched:
                    return self._run_traced(arguments, leaves, structure, fixed, False)
                raise error.__cause__ or RuntimeError(_BYPASSED) from None
            if tracer.refusal is not None and error is not tracer.refusal and isinstance(error, Exception):
                raise tracer.refusal from error
            if isinstance(error, TypeError) and tracer.has_numbers:  # C functions do not accept a Number
                if untouched:
                    if free or free_leaves:
                        return self._run_traced(arguments, leaves, structure, True)
                    if self.fallback:
                        return self.function(*arguments[0], **arguments[1]), None, f"a number is a stand-in: {error}"
                error.add_note(_STAND_IN)
            raise
        made_here = self._restore(tracer, places)
        grads = set(map(id, made_here))
        why = "it changes a list or dict among its arguments" if copies.give_back() else ""
        tracer.release(found)
        for index, x in enumerate(found):
            if is_dense(x):
                for alias in sharers(x):
                    if type(alias.array) is Traced:
                        alias.array = as_real(alias.array)
                        made_here.append(alias)
            elif type(x) in (Traced, Number):
                found[index] = x.numbers
        value = result_structure.unflatten(found)
        del given, args, kwargs, result, copies  # so that remaining references are from outside
        x = alias = None
        tracer.look_for_escapes()
        if not tracer.broken and is_referenced_outside(made_here, found, containers(value), grads):
            tracer.broken = ESCAPED
        why = why or tracer.broken or surroundings.random_draws()
        if surroundings.unseen:
            why = why or "it can read an iterator in a list, dict or set, which a replay would not advance"
        why = why or surroundings.changed() and f"a variable changes in every call: {surroundings.changed()}"
        if why:
            return value, None, why + _SHORTEN if tracer.too_long else why
        made = [result.value for result in results if type(result.value) is Value]
        program.split = drop_scalar_conversions(program, made, split)
        trace = Trace(program, structure, leaves, results, result_structure, surroundings)
        trace.free = {place.identity for place in free}
        trace.free_leaves = free_leaves
        trace.cotangents, trace.gradients, trace.leading = cotangents, gradients, leading
        sources = dict(program.inputs)
        for entry in tracer.outside.values():
            if sources[entry.first][0] in ("tensor", "argument"):
                trace.outside.append(Lifted(entry.tensor, entry.first, entry.requires, entry.hooks))
                if entry.read or entry.accumulated and not entry.cleared:
                    trace.grads.append((entry.tensor, entry.start_grad is not None))
        return value, trace, ""

    def _substituted(
        self,
        tracer: Tracer,
        surroundings: Surroundings,
        leaves: Sequence[object],
        free: Sequence[Place],
        free_leaves: set[int],
        places: list[tuple[Place, object, object]],
    ) -> list[object]:
        """Replace what the function reads by inputs; return the leaves for its call, list the changed ``places``."""
        given = list(leaves)
        for index, leaf in enumerate(leaves):
            if is_dense(leaf):
                tracer.arguments.setdefault(id(leaf), index)
                tracer.lift(leaf, ("argument", index))
            elif is_iterator(leaf):
                given[index] = WatchedIterator(leaf, tracer)
            elif is_array(leaf) or index in free_leaves:
                given[index] = self._input(tracer, leaf, ("argument", index))
        for tensor_ in surroundings.tensors:
            tracer.lift(tensor_)
            if tensor_._requires and tensor_._node is None:
                tracer.lift_grad(tensor_)
        for array, _ in surroundings.arrays:
            tracer.known[id(array)] = array
        for place in surroundings.iterators:
            places.append((place, place.value, WatchedIterator(place.value, tracer)))
        for place in surroundings.large_arrays:
            places.append((place, place.value, self._input(tracer, place.value, ("place", place))))
        for place in free:
            places.append((place, place.value, self._input(tracer, place.value, ("place", place))))
        _substitute(places)
        return given

    @staticmethod
    def _restore(tracer: Tracer, places: list[tuple[Place, Any, Any]]) -> list[Tensor]:
        """Restore Tensors and variables after a trace; return the gradients that the trace created."""
        made = tracer.finish()
        for place, value, instead in places:
            now = place.value
            if now is instead:
                place.value = value
            elif type(now) in (Traced, Number):  # the function has assigned a new value
                place.value = as_real(now)
        places.clear()
        return made

    @staticmethod
    def _input(tracer: Tracer, value: object, source: Source) -> Any:
        """Add an argument that is not a Tensor to the program's inputs."""
        if is_array(value):
            node = tracer._value(value)
            made: Any = Traced(tracer, value, node)
        else:
            node = tracer.program.value(value)
            made = Number(tracer, value, node)
        if type(made) is Number or source[0] == "place":
            tracer.from_python.add(node)
        tracer.program.inputs.append((node, source))
        return made

    def _results(self, tracer: Tracer, found: list[Any], leaves: Sequence[object]) -> list[Result]:
        """Return how to build each leaf of the result."""
        results: list[Result] = []
        arguments = {id(leaf): index for index, leaf in enumerate(leaves) if is_dense(leaf)}
        roots: dict[Value, Source] = {}
        grads: dict[int, Source] = {}
        for entry in tracer.outside.values():
            index = arguments.get(id(entry.tensor))
            roots[entry.node.root] = ("tensor", entry.tensor) if index is None else ("argument", index)
            if entry.tensor._grad is not None:
                grads[id(entry.tensor._grad)] = roots[entry.node.root]
        numbers: dict[int, int] = {}  # index of the result, by the id of the Tensor
        for number, x in enumerate(found):
            node = tracer.node_of_result(x)
            if is_dense(x) and numbers.setdefault(id(x), number) != number:
                results.append(Result("again", numbers[id(x)]))
            elif is_dense(x) and id(x) in arguments:
                results.append(Result("argument", arguments[id(x)]))
            elif id(x) in grads:
                if x._requires:
                    tracer.breaks("it returns a gradient that requires grad")
                results.append(Result("gradient", grads[id(x)]))
            elif node is None or id(x) in tracer.outside:
                results.append(Result("same", x))
            elif is_dense(x):
                if x._requires and x._node is None:
                    tracer.breaks("it returns a leaf that requires grad and that the call created")
                if x.__dict__ or hooks_of(x):
                    tracer.breaks("it sets an attribute or a hook of a Tensor that it returns")
                results.append(Result("tensor", node, x._requires, roots.get(node.root), x._base is not None))
                roots.setdefault(node.root, ("result", len(results) - 1))
            else:
                results.append(Result("array" if type(x) is Traced else "number", node))
        return results

    def _backward(self, tracer: Tracer, found: list[Any], results: list[Result], leaves: Sequence[object]) -> Any:
        """Trace the backward part, if results require grad."""
        pairs = [
            (x, result)
            for x, result in zip(found, results, strict=True)
            if result.requires and not _mark_freed_graph(tracer, x, result)
        ]
        outputs = [x for x, _ in pairs]
        if not outputs or not tracer.tracing:
            return None, [], [], []
        split = len(tracer.program.instructions)
        arguments = {id(leaf): index for index, leaf in enumerate(leaves) if is_dense(leaf)}
        wanted: dict[object, Source] = {}
        for entry in list(tracer.outside.values()):
            x = entry.tensor
            if x._requires and entry.requires:
                made = x._node
                if x._hooks is not None or made is not None and (made.hooks or made.plan.node_hooks):
                    tracer.breaks("a Tensor from outside of the function has hooks")
                    return None, [], [], []  # tracing the backward pass would call the hooks, an eager call does not
                index = arguments.get(id(x))
                wanted[edge_of(x)] = ("tensor", x) if index is None else ("argument", index)
        cotangents: list[Value] = []
        roots = []
        for x in outputs:
            ones = backend_of(x.array.numbers).xp.ones(x.array.shape, x.array.dtype)
            node = tracer._value(ones)
            tracer.program.inputs.append((node, ("cotangent", len(cotangents))))
            cotangents.append(node)
            roots.append((edge_of(x), Traced(tracer, ones, node)))
        paths = reached_from([edge for edge, _ in roots])
        gradients = Walk(set(wanted), True, False, beyond=False).run(roots)
        if not tracer.tracing:  # the backward pass has broken the trace
            return None, [], [], []
        gradients_of = [(gradients.get(edge), source) for edge, source in wanted.items()]
        gradients_of = [(None if g is None else g.node, source) for g, source in gradients_of]
        return split, cotangents, gradients_of, [paths.get(edge, 0) for edge in wanted]

    # Numbers

    def _varying_leaves(self, leaves: Sequence[object], structure: Structure) -> set[int]:
        """Return the arguments that are numbers and have had several values."""
        for entry in self.entries:
            if entry.trace.structure == structure:
                for index, (now, before) in enumerate(zip(leaves, entry.trace.leaves, strict=True)):
                    if type(now) in (int, float) and type(before) is type(now) and now != before:
                        self._free.add(index)
        return {index for index, leaf in enumerate(leaves) if index in self._free and type(leaf) in (int, float)}

    def _varying_places(self, surroundings: Surroundings) -> list[Place]:
        """Return the places that hold numbers and have had several values."""
        for entry in self.entries:
            for place, before in entry.trace.surroundings.places.values():
                now = place.value
                if type(now) in (int, float) and type(before) is type(now) and now != before:
                    self._free.add(place.identity)
        return [place for place in surroundings.numbers if place.identity in self._free]


def _substitute(places: list[tuple[Place, Any, Any]]) -> None:
    for place, _, instead in places:
        place.value = instead


def _mark_freed_graph(tracer: Tracer, x: Tensor, result: Result) -> bool:
    """Mark the result as freed if a backward pass within the function has freed its graph; return whether it has."""
    node = x._node
    if node is None or all(other.saved is not None for other in reachable([node])[0]):
        return False
    result.requires, result.spent = False, tracer.rules.plan_of(node)
    return True


def forget() -> None:
    """Drop the programs of all compiled functions."""
    for compiled in list(_all):
        compiled.entries, compiled.own, compiled.eager = [], [], ""
        compiled._failures, compiled._wasted = 0, (0, 0)


def _flatten_call(args: Arguments, kwargs: Keywords) -> tuple[list[Any], Structure]:
    """Flatten the arguments of a call, without recursion if all of them are leaves."""
    if kwargs or args and not _LEAVES.issuperset(map(type, args)):
        return flatten((args, kwargs))
    return list(args), _structure_of(len(args))


@cache
def _structure_of(count: int) -> Structure:
    return flatten(((0,) * count, {}))[1]


_SHORTEN = (
    ", which would take long to compile: write the loop as func.scan, compile one step of it, or pass a larger "
    "max_operators"
)
_BYPASSED = (
    "compile: the function differentiates with respect to a result of a step of a long Python loop, after it has "
    "changed Tensors from outside. Write the loop as func.scan"
)
_STAND_IN = (
    "While a function is compiled, item() returns a stand-in for a number, which json, Decimal, timedelta and other C "
    "code reject. Return the number and convert it outside; with fallback=True the function runs eagerly"
)
_LEAVES = frozenset((Tensor, Parameter, np.ndarray, int, float, bool, str))


def _casts() -> Arguments:
    """Return autocast's casts on this thread, without importing autocast."""
    return casting[0]() if casting else ()


def turned_on() -> bool:
    """Whether the environment variable ``RETROGRAD_COMPILE`` is not ``off``.

    Raises:
        RuntimeError: the variable is neither ``on`` nor ``off``.
    """
    wanted = os.environ.get("RETROGRAD_COMPILE", "on")
    if wanted not in ("on", "off"):
        raise RuntimeError(f"RETROGRAD_COMPILE must be on or off, got {wanted!r}")
    return wanted == "on"
