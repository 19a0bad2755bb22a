"""``compile``: a function whose calls are replays of programs that were traced from it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from functools import cache, update_wrapper
from logging import getLogger
from threading import RLock
from typing import Any
from weakref import WeakSet

import numpy as np

from ...core.arrays.devices import backend_of, is_array
from ...core.graph.backward import Walk
from ...core.graph.modes import casting, modes
from ...core.graph.nodes import edge_of, reachable
from ...core.tensor.storage import sharers
from ...core.tensor.tensor import Tensor
from ...func.nests import Structure, flatten
from ...kernels.runtime.settings import turned_on
from ...nn.parameter import Parameter
from ..program import Value
from ..trace.arguments import Copies
from ..trace.effects import hooks_of, unrepeated
from ..trace.escapes import KEPT, containers, kept_outside
from ..trace.listening import tracing_with
from ..trace.scalars import leave_scalars
from ..trace.sizes import NEW, Differs, Lifted, Result, Sizes, Trace, Varying, marks
from ..trace.traced import Number, Traced, Watched
from ..trace.tracer import ELSEWHERE, Tracer
from ..trace.untrace import as_real
from .guard_failures import difference, left_behind, modes_now
from .guards import Place, Surroundings, Wrapper, is_iterator
from .program_entry import Entry
from .replay import Miss

GIVEN_UP = 3  # traces one after the other without a program, after which a function runs eagerly
LIMIT = 8  # programs that a function keeps
MAX_OPERATORS = 10_000  # of one program, which takes a quarter of a minute to compile, and less if they are alike
_all: WeakSet[Compiled] = WeakSet()
_tracing = RLock()  # Tensors are lifted for all threads
_log = getLogger("retrograd.compiler")


class Compiled(Wrapper):
    """What ``compile`` returns for a function: call it as the function."""

    def __init__(
        self,
        function: Callable[..., Any],
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
        self.own: list[Entry] = []  # programs of single sizes, beside those of several
        self.eager = ""  # why it runs eagerly, where it does
        self.why = ""  # why the last trace gave no program
        self.seconds = 0.0  # spent on compiling
        self.traces = 0
        self._failures = 0.0  # a tenth where another thread was in the way, which may be gone at the next call
        self._wasted = 0, 0  # programs that made room before any call replayed them or another; and replays then
        self._free: set[Any] = set()  # numbers that have varied: indices of arguments, identities of places
        update_wrapper(self, function)
        _all.add(self)

    def __repr__(self) -> str:
        return f"<compiled {getattr(self.function, '__qualname__', type(self.function).__name__)}>"

    def __reduce__(self) -> Any:
        """A copy has no programs yet."""
        return Compiled, (self.function, *self._options)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """As a method: a compiled function for each instance."""
        if instance is None:
            return self
        name = f"_compiled_{self.function.__name__}"
        bound = vars(instance).get(name)
        if bound is None:
            bound = Compiled(self.function.__get__(instance, owner), *self._options)
            vars(instance)[name] = bound
        return bound

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        stance = modes.stance
        if (
            self.eager
            or (modes.observers and not all(observer.counts for observer in modes.observers))
            or modes.level is not None
            or stance == "force_eager"
            or not turned_on("RETROGRAD_COMPILE")
        ):
            return self.function(*args, **kwargs)
        leaves, structure = _taken_apart(args, kwargs)
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
            if sizes is not None and room and sizes.often(leaves):
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
        if not _tracing.acquire(blocking=False):  # another thread traces, and what it has lifted fits no program
            with _tracing:
                pass
            return self(*args, **kwargs)
        _tracing.release()
        differences = [difference(entry, leaves, structure, casts) for entry in (*self.own, *self.entries)]
        because = "; ".join(dict.fromkeys(differences))
        if stance == "fail_on_recompile":
            why = f": {because}" if because else ""
            raise RuntimeError(f"{self!r} has no program for this call, and the stance is 'fail_on_recompile'{why}")
        if because:
            _log.info("%r is traced again: %s", self, because)
        return self._trace((args, kwargs), leaves, structure, other_sizes, because)

    def summary(self) -> str:
        """How many programs there are, what compiling took, and what a replay takes since."""
        if self.eager:
            return f"compiled: nothing; {self.eager}"
        programs = [*self.own, *self.entries]
        calls = sum(entry.calls for entry in programs)
        spent = sum(entry.seconds for entry in programs)
        each = f", {calls} replays of {1e3 * spent / calls:.3g} ms" if calls else ""
        return f"compiled: {len(programs)} programs in {self.seconds:.2f} s{each}"

    def explain(self, *args: object, **kwargs: object) -> str:
        """The programs in words: instructions by line, what was fused, memory, guards.

        With arguments it makes one more call with them, a real one, which is measured.

        Returns:
            The text.

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
            self(*args, **kwargs)  # traced, if need be
            for entry in (*self.own, *self.entries):
                arrays = entry.enter(leaves) if entry.trace.structure == structure else None
                if arrays is not None and arrays is not NEW:
                    return explanation(entry, leaves, arrays)
        return (
            "\n\n".join(explanation(entry, None, None) for entry in (*self.own, *self.entries))
            or f"{name}: no program yet; call it"
        )

    # Tracing

    def _trace(
        self,
        arguments: Any,
        leaves: list[Any],
        structure: Structure,
        other_sizes: list[Entry] | None,
        because: str = "it has become a common size",
    ) -> Any:
        """Trace a call; ``other_sizes`` are programs that fit but for sizes, None where one of this size is wanted."""
        started, casts = time.perf_counter(), _casts()
        with _tracing:
            result, trace, why = self._traced(arguments, leaves, structure)
        if trace is None:
            self._failures += GIVEN_UP if why.endswith(_SHORTEN) else 0.1 if why == ELSEWHERE else 1
            self.why = why
            if self._failures >= GIVEN_UP:
                self._give_up(why)
        else:
            self._failures = 0
            if other_sizes is None:
                entry = Entry(trace, self.function, getattr(self.function, "__name__", "program"))
                entry.casts, entry.because = casts, because
                self.own.append(entry)
            else:
                self._keep(trace, casts, other_sizes, because)
        self.traces += 1
        self.seconds += time.perf_counter() - started
        return result

    def _keep(self, trace: Trace, casts: Any, other_sizes: list[Entry], because: str) -> None:
        """Make a program of a trace, or find that it is one that is there at another size."""
        label, apart = getattr(self.function, "__name__", "program"), ""
        full = len(self.entries) >= self.limit
        every = bool(self.dynamic) or self.dynamic is None and full
        if every or other_sizes or any(map(marks, trace.leaves)):
            for entry in other_sizes:
                assert entry.trace.sizes is not None
                try:
                    with _tracing:
                        changed = entry.trace.sizes.learn(trace)
                except Differs as why:
                    apart = apart or str(why)
                    continue
                if changed:
                    made = Entry(entry.trace.sizes.made(), self.function, label)
                    for kept in ("casts", "calls", "seconds", "apart", "because"):
                        setattr(made, kept, getattr(entry, kept))
                    self.entries = [made if other is entry else other for other in self.entries]
                return
            marked: Varying = {index: marks(leaf) for index, leaf in enumerate(trace.leaves)}
            trace = Sizes(trace, None if every else marked).made()
        if full:
            least = min(self.entries, key=lambda entry: entry.calls)
            self.entries.remove(least)
            replays = sum(entry.calls for entry in (*self.own, *self.entries))
            wasted, before = self._wasted
            self._wasted = (wasted if replays == before else 0) + (least.calls == 0), replays
            if self._wasted[0] > self.limit:
                differs = least.trace.surroundings.changed() or "arguments, modes or sizes"
                self._give_up(f"hardly any call fits a program that was made before: {differs}")
                return
        entry = Entry(trace, self.function, label)
        entry.casts, entry.apart, entry.because = casts, apart, because
        self.entries.insert(0, entry)

    def _give_up(self, why: str) -> None:
        """Run eagerly from now on."""
        self.eager = why
        self.entries, self.own = [], []
        warnings.warn(f"compile: {self!r} runs eagerly: {why}", stacklevel=4)

    def _traced(
        self, arguments: Any, leaves: list[Any], structure: Structure, fixed: bool = False
    ) -> tuple[Any, Trace | None, str]:
        """What the function returns, run eagerly and traced; the trace, or None and why there is none.

        Numbers that vary are inputs, unless they are ``fixed``.
        """
        surroundings = Surroundings(self.function, leaves)
        tracer = Tracer(not self.fallback, self.max_operators, surroundings.exact)
        fixed = fixed or float in surroundings.exact
        program = tracer.program
        free_leaves = set() if fixed else self._free_leaves(leaves, structure)
        free = [] if fixed else self._free_places(surroundings)
        places: list[tuple[Place, Any, Any]] = []  # what stood there, and what stands for it meanwhile
        given = list(leaves)
        mode = tracing_with(tracer)
        try:
            for index, leaf in enumerate(leaves):
                if isinstance(leaf, Tensor):
                    tracer.arguments.setdefault(id(leaf), index)
                    tracer.lift(leaf, ("argument", index))
                elif is_iterator(leaf):
                    given[index] = Watched(leaf, tracer)
                elif is_array(leaf) or index in free_leaves:
                    given[index] = self._input(tracer, leaf, ("argument", index))
            for tensor_ in surroundings.tensors:
                tracer.lift(tensor_)
                if tensor_._requires and tensor_._node is None:
                    tracer.lift_grad(tensor_)
            for array, _ in surroundings.arrays:
                tracer.known[id(array)] = array
            for place in surroundings.iterators:
                places.append((place, place.value, Watched(place.value, tracer)))
            for place in surroundings.large_arrays:
                places.append((place, place.value, self._input(tracer, place.value, ("place", place))))
            for place in free:
                places.append((place, place.value, self._input(tracer, place.value, ("place", place))))
            _exchange(places)
            args, kwargs = structure.unflatten(given)
            copies = Copies(arguments, (args, kwargs), dict(zip(map(id, given), leaves, strict=True)))
            modes_before = modes_now(), _casts()
            with mode:
                result = self.function(*args, **kwargs)
                tracer.sync()
                found, result_structure = flatten(result)
                results = self._results(tracer, found, leaves)
                split, cotangents, gradients = self._backward(tracer, found, results, leaves)
                for why in filter(None, (unrepeated(tracer.outside.values()), left_behind(modes_before, _casts()))):
                    tracer.breaks(why)
            if tracer.refusal is not None:  # which the function has caught
                raise tracer.refusal
        except BaseException as error:
            self._restore(tracer, places)
            untouched = not (tracer.has_acted() or surroundings.changed())
            tracer.look_for_escapes()  # of what was made so far, the function may have kept a part
            if tracer.refusal is not None and error is not tracer.refusal and isinstance(error, Exception):
                raise tracer.refusal from error
            if isinstance(error, TypeError) and tracer.has_numbers:  # functions in C want a float itself
                if untouched:
                    if free or free_leaves:
                        return self._traced(arguments, leaves, structure, True)
                    if self.fallback:
                        return self.function(*arguments[0], **arguments[1]), None, f"a stand-in of a number: {error}"
                error.add_note(_STAND_IN)
            raise
        made_here = self._restore(tracer, places)
        grads = set(map(id, made_here))
        why = "it changes a list or dict among its arguments" if copies.give_back() else ""
        tracer.release(found)
        for index, x in enumerate(found):
            if isinstance(x, Tensor):
                for alias in sharers(x):
                    if type(alias.array) is Traced:
                        alias.array = as_real(alias.array)
                        made_here.append(alias)
            elif type(x) in (Traced, Number):
                found[index] = x.numbers
        value = result_structure.unflatten(found)
        del given, args, kwargs, result, copies  # what is still held from now on is held outside
        x = alias = None
        tracer.look_for_escapes()
        if not tracer.broken and kept_outside(made_here, found, containers(value), grads):
            tracer.broken = KEPT
        why = why or tracer.broken or surroundings.drawn()
        if surroundings.unseen:
            why = why or "it can read an iterator in a list, dict or set, which a replay would not advance"
        why = why or surroundings.changed() and f"a variable changes in every call: {surroundings.changed()}"
        if why:
            return value, None, why + _SHORTEN if tracer.too_long else why
        made = [result.value for result in results if type(result.value) is Value]
        program.split = leave_scalars(program, made, split)
        trace = Trace(program, structure, leaves, results, result_structure, surroundings)
        trace.free = {place.identity for place in free}
        trace.free_leaves = free_leaves
        trace.cotangents, trace.gradients = cotangents, gradients
        sources = dict(program.inputs)
        for entry in tracer.outside.values():
            if sources[entry.first][0] in ("tensor", "argument"):
                trace.outside.append(Lifted(entry.tensor, entry.first, entry.requires, entry.hooks))
                if entry.read or entry.accumulated and not entry.cleared:
                    trace.grads.append((entry.tensor, entry.start_grad is not None))
        return value, trace, ""

    @staticmethod
    def _restore(tracer: Tracer, places: list[tuple[Place, Any, Any]]) -> list[Tensor]:
        """Let Tensors and variables be what they are outside of a trace; what gradients were made in it."""
        made = tracer.finish()
        for place, value, instead in places:
            now = place.value
            if now is instead:
                place.value = value
            elif type(now) in (Traced, Number):  # which the function has put there
                place.value = as_real(now)
        places.clear()
        return made

    @staticmethod
    def _input(tracer: Tracer, value: object, source: tuple[str, Any]) -> Any:
        """An argument that is no Tensor as an input of the program."""
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

    def _results(self, tracer: Tracer, found: list[Any], leaves: Sequence[Any]) -> list[Result]:
        """What the leaves of the result are made of."""
        results: list[Result] = []
        arguments = {id(leaf): index for index, leaf in enumerate(leaves) if isinstance(leaf, Tensor)}
        roots: dict[Value, tuple[str, Any]] = {}
        grads: dict[int, tuple[str, Any]] = {}
        for entry in tracer.outside.values():
            index = arguments.get(id(entry.tensor))
            roots[entry.node.root] = ("tensor", entry.tensor) if index is None else ("argument", index)
            if entry.tensor._grad is not None:
                grads[id(entry.tensor._grad)] = roots[entry.node.root]
        numbers: dict[int, int] = {}  # of the results that are Tensors
        for number, x in enumerate(found):
            node = tracer.node_of_result(x)
            if isinstance(x, Tensor) and numbers.setdefault(id(x), number) != number:
                results.append(Result("again", numbers[id(x)]))
            elif isinstance(x, Tensor) and id(x) in arguments:
                results.append(Result("argument", arguments[id(x)]))
            elif id(x) in grads:
                if x._requires:
                    tracer.breaks("it returns a gradient that requires grad")
                results.append(Result("gradient", grads[id(x)]))
            elif node is None or id(x) in tracer.outside:
                results.append(Result("same", x))
            elif isinstance(x, Tensor):
                if x._requires and x._node is None:
                    tracer.breaks("it returns a leaf that requires grad and was made in the call")
                if x.__dict__ or hooks_of(x):
                    tracer.breaks("it sets an attribute or a hook of a Tensor that it returns")
                results.append(Result("tensor", node, x._requires, roots.get(node.root), x._base is not None))
                roots.setdefault(node.root, ("result", len(results) - 1))
            else:
                results.append(Result("array" if type(x) is Traced else "number", node))
        return results

    def _backward(self, tracer: Tracer, found: list[Any], results: list[Result], leaves: Sequence[Any]) -> Any:
        """The backward part, where results require grad."""
        pairs = [
            (x, result)
            for x, result in zip(found, results, strict=True)
            if result.requires and not _forget_spent(tracer, x, result)
        ]
        outputs = [x for x, _ in pairs]
        if not outputs or not tracer.recording:
            return None, [], []
        split = len(tracer.program.instructions)
        arguments = {id(leaf): index for index, leaf in enumerate(leaves) if isinstance(leaf, Tensor)}
        wanted: dict[Any, tuple[str, Any]] = {}
        for entry in list(tracer.outside.values()):
            x = entry.tensor
            if x._requires and entry.requires:
                made = x._node
                if x._hooks is not None or made is not None and (made.hooks or made.plan.node_hooks):
                    tracer.breaks("hooks on a Tensor from outside of the function")
                    return None, [], []  # a walk would call them, which the eager call does not
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
        gradients = Walk(set(wanted), True, False, beyond=False).run(roots)
        if not tracer.recording:  # the walk has met what cannot be written down
            return None, [], []
        gradients_of = [(gradients.get(edge), source) for edge, source in wanted.items()]
        return split, cotangents, [(None if g is None else g.node, source) for g, source in gradients_of]

    # Numbers

    def _free_leaves(self, leaves: Sequence[Any], structure: Structure) -> set[int]:
        """Arguments that are numbers and have had several values so far."""
        for entry in self.entries:
            if entry.trace.structure == structure:
                for index, (now, before) in enumerate(zip(leaves, entry.trace.leaves, strict=True)):
                    if type(now) in (int, float) and type(before) is type(now) and now != before:
                        self._free.add(index)
        return {index for index, leaf in enumerate(leaves) if index in self._free and type(leaf) in (int, float)}

    def _free_places(self, surroundings: Surroundings) -> list[Place]:
        """Variables that are numbers and have had several values so far."""
        for entry in self.entries:
            for place, before in entry.trace.surroundings.places.values():
                now = place.value
                if type(now) in (int, float) and type(before) is type(now) and now != before:
                    self._free.add(place.identity)
        return [place for place in surroundings.numbers if place.identity in self._free]


def _exchange(places: list[tuple[Place, Any, Any]]) -> None:
    for place, _, instead in places:
        place.value = instead


def _forget_spent(tracer: Tracer, x: Tensor, result: Result) -> bool:
    """Whether a walk inside of the function has freed the result's graph: then every replay gives one that is freed."""
    node = x._node
    if node is None or all(other.saved is not None for other in reachable([node])[0]):
        return False
    result.requires, result.spent = False, tracer.rules.plan_of(node)
    return True


def forget() -> None:
    """Let all compiled functions trace again."""
    for compiled in list(_all):
        compiled.entries, compiled.own, compiled.eager = [], [], ""
        compiled._failures, compiled._wasted = 0, (0, 0)


def _taken_apart(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Structure]:
    """``flatten`` of a call's arguments, at once where all of them are leaves."""
    if kwargs or not _LEAVES.issuperset(map(type, args)):
        return flatten((args, kwargs))
    return list(args), _structure_of(len(args))


@cache
def _structure_of(count: int) -> Structure:
    return flatten(((0,) * count, {}))[1]


_SHORTEN = ", which would take long to compile: compile one step of the loop instead, or pass a larger max_operators"
_STAND_IN = (
    "While a function is compiled, a number that item() gives is a stand-in, which json, Decimal, timedelta and others "
    "written in C do not take. Return the number and convert it outside; with fallback=True the function runs eagerly"
)
_LEAVES = frozenset((Tensor, Parameter, np.ndarray, int, float, bool, str))


def _casts() -> tuple[Any, ...]:
    """Which casts autocast makes on this thread; nothing where nobody has asked for it."""
    return casting[0]() if casting else ()
