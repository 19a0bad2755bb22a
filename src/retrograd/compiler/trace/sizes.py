"""Programs for several sizes.

At another batch size or length a function mostly performs the same operations with other constants: a length in a
reshape, a bound of a slice, the reciprocal of a count. The traces at two sizes are compared, and the constants that
differ become inputs of the common program, the ``slots``; their values are stored for each size. Python code may branch
on a size, so nothing is extrapolated: the first call at a new size runs eagerly under a trace, which is compared and
not compiled. If only constants differ, they are stored for that size. A trace that differs in more, as for sizes 0 and
1, becomes a separate program. Passes and regions rely on shapes, so the common program runs instruction by
instruction; a size that occurs often gets an optimized program as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ...core.arrays import Array
from ...core.tensor.tensor import Tensor, is_dense
from ...func.nests import Structure
from ...ops.table.arguments import dimension
from ..program import (
    PLAIN,
    Arguments,
    Instruction,
    Program,
    Source,
    Value,
    equal,
    is_dataclass_instance,
    same_function,
    values_in,
)
from ..run.guards import Surroundings

NEW = "sizes that are not known yet"  # returned in place of arrays if a call fits except for its sizes
_NONE: frozenset[int] = frozenset()
_MAX_SIZES = 4096  # maximum number of sizes that are stored
FREQUENT_CALLS = 16  # number of calls at one size after which that size gets an optimized program

Varying = dict[int, frozenset[int]] | None  # dims that may vary, by argument; None: all dims of all arguments


@dataclass(slots=True)
class Result:
    """How to return one leaf of the function's result.

    ``kind`` says what ``value`` is: the program's value for ``tensor``, ``array`` and ``number``; an object for
    ``same``; the index of an ``argument``, or of a result that is returned ``again``; the source of a leaf for its
    ``gradient``. ``alias`` is the Tensor, or the index of the argument or result, whose memory a Tensor shares.
    """

    kind: str
    value: Any
    requires: bool = False
    alias: Source | None = None
    related: bool = False  # a view, which follows the history of its base
    spent: Any = None  # the plan of the Tensor's node, if a backward pass within the function has freed the graph


class Lifted(NamedTuple):
    """A Tensor from outside of the function, as it was before the trace."""

    tensor: Tensor
    value: Value
    requires: bool
    hooks: Arguments


@dataclass(slots=True)
class Trace:
    """The result of one trace."""

    program: Program
    structure: Structure  # the structure of the arguments
    leaves: list[Any]
    results: list[Result]
    result_structure: Structure
    surroundings: Surroundings
    free: set[tuple[int, Any]] = field(default_factory=set)  # places that each replay reads
    free_leaves: set[int] = field(default_factory=set)  # number arguments that are inputs
    grads: list[tuple[Tensor, bool]] = field(default_factory=list)  # leaves, and whether they had a gradient before
    outside: list[Lifted] = field(default_factory=list)
    cotangents: list[Value] = field(default_factory=list)
    # Each gradient, with the source of the input that it belongs to.
    gradients: list[tuple[Value | None, Source]] = field(default_factory=list)
    leading: list[int] = field(default_factory=list)  # for each gradient, the bits of the cotangents that lead to it
    sizes: Sizes | None = None  # None if the program serves a single size


class Differs(Exception):
    """Two traces cannot share a program."""


class Sizes:
    """The common program of several sizes.

    Attributes:
        trace: the program, with slots among its inputs.
        slots: the values of constants that depend on the sizes.
        known: the constants for the slots, by the shapes and strides of all arguments.
        calls: the number of calls, by size.
    """

    def __init__(self, trace: Trace, varying: Varying) -> None:
        self.varying = varying
        self.slots: list[Value] = []
        self.known: dict[object, Arguments] = {size_key(trace): ()}
        self.calls: dict[object, int] = {}
        self._sized = [index for index, _ in array_arguments(trace)]
        self.trace = replace(trace, sizes=self)
        self.trace.program = _comparable(trace)

    def merged_trace(self) -> Trace:
        """Return a copy of the trace to compile; the passes may change it."""
        program = Program()
        source = self.trace.program
        program.inputs = [*source.inputs, *[(slot, ("slot", k)) for k, slot in enumerate(self.slots)]]
        program.instructions = [copy(instruction) for instruction in source.instructions]
        program.split, program.count = source.split, source.count
        program.varies = len(self.known) > 1
        return replace(self.trace, program=program)

    def learn(self, other: Trace) -> bool:
        """Add the constants of a trace at another size.

        Returns:
            Whether the program has new slots.

        Raises:
            Differs: the trace needs a separate program.
        """
        key = size_key(other)
        if self.varying is not None:
            for (index, now), (_, before) in zip(array_arguments(other), array_arguments(self.trace), strict=False):
                free = self.varying.get(index, ())
                if any(a != b and k not in free for k, (a, b) in enumerate(zip(now.shape, before.shape, strict=False))):
                    raise Differs("a dim that is not marked as dynamic has another length")
        comparison = _Comparison(self.slots)
        changed = comparison.traces(self.trace, replace(other, program=_comparable(other)))
        new = comparison.new
        constants = (*[comparison.found[slot] for slot in self.slots], *[now for _, _, now in new])
        if key in self.known:
            raise Differs("its constants differ although the sizes are the same")
        earlier = tuple([was for _, was, _ in new])
        self.known = {sizes: (*values, *earlier) for sizes, values in list(self.known.items())[-_MAX_SIZES:]}
        self.known[key] = constants
        self.slots += [slot for slot, _, _ in new]
        self.trace = changed
        return bool(new) or len(self.known) == 2

    def count_call(self, leaves: Sequence[Any]) -> bool:
        """Count a call; return whether its size has just occurred often enough for an optimized program."""
        if len(self.known) == 1:
            return False  # the program of a single size is optimized already
        arrays = [x.array if is_dense(x) else x for x in (leaves[index] for index in self._sized)]
        key = tuple([step for array in arrays for step in (array.shape, array.strides)])
        count = self.calls[key] = self.calls.get(key, 0) + 1
        return count == FREQUENT_CALLS

    def describe(self) -> list[str]:
        """Describe the sizes for ``explain``."""
        return [
            f"sizes: {len(self.known)} known, with {len(self.slots)} constants that depend on them; a new size runs "
            f"eagerly once, and one with {FREQUENT_CALLS} calls gets a program of its own"
        ]


def mark_dynamic(x: Tensor, index: int | Sequence[int], *, min: int | None = None, max: int | None = None) -> None:
    """Let a dim of an argument vary within one program of a compiled function.

    Args:
        x: the Tensor that the function will be called with.
        index: the dim, or several.
        min, max: accepted for compatibility with PyTorch and ignored; each length is checked at its first call.

    Raises:
        IndexError: ``x`` has no such dim.

    >>> mean = rg.compile(lambda x: x.mean(0))
    >>> for length in (2, 3, 4):
    ...     x = rg.ones(length, 3)
    ...     rg.compiler.mark_dynamic(x, 0)
    ...     y = mean(x)
    >>> len(mean.entries)
    1
    """
    dims = (index,) if isinstance(index, int) else index
    x.__dict__["_dynamic_dims"] = dynamic_dims(x) | {dimension(dim, x.array.ndim) for dim in dims}


def mark_static(x: object, index: int | Sequence[int] | None = None) -> None:
    """Remove marks of ``mark_dynamic``, by default all."""
    if is_dense(x):
        dims = (index,) if isinstance(index, int) else range(x.array.ndim) if index is None else index
        x.__dict__["_dynamic_dims"] = dynamic_dims(x) - {dimension(dim, x.array.ndim) for dim in dims}


def dynamic_dims(x: Tensor) -> frozenset[int]:
    """Return the dims of an argument that are marked as dynamic."""
    return x.__dict__.get("_dynamic_dims", _NONE) if is_dense(x) else _NONE


def size_key(trace: Trace) -> Any:
    """Return the shapes and strides of all array arguments."""
    return tuple([step for _, value in array_arguments(trace) for step in (value.shape, value.strides)])


def array_arguments(trace: Trace) -> list[tuple[int, Value]]:
    """Return the array arguments, with their indices."""
    arguments = [(source[1], value) for value, source in trace.program.inputs if source[0] == "argument"]
    return [(index, value) for index, value in arguments if value.shape is not None]


def _comparable(trace: Trace) -> Program:
    """Return the program without unused inputs, and with explicit guards of data-dependent shapes."""
    program = trace.program
    made = copy(program)
    read = {value for instruction in program.instructions for value in instruction.reads()}
    read.update(result.value for result in trace.results if type(result.value) is Value)
    read.update(value for value, _ in trace.gradients if value is not None)
    made.inputs = [(value, source) for value, source in program.inputs if value in read or source[0] == "argument"]
    made.instructions = []
    for index, instruction in enumerate(program.instructions):
        if index == program.split:
            made.split = len(made.instructions)
        if instruction.checks:
            instruction = copy(instruction)
            instruction.checks = False
        made.instructions.append(instruction)
        if instruction is not program.instructions[index]:
            shaped = [out for out in instruction.outs if out.shape is not None]
            layouts = tuple([(out.shape, out.strides if instruction.view else None) for out in shaped])
            guard = Instruction("guard", _have_layouts, (layouts, *shaped))
            guard.operator, guard.site, guard.backward = instruction.operator, instruction.site, instruction.backward
            made.instructions.append(guard)
    if program.split == len(program.instructions):
        made.split = len(made.instructions)
    return made


def _have_layouts(layouts: Any, *arrays: Array) -> bool:
    pairs = zip(arrays, layouts, strict=True)
    return all(array.shape == shape and strides in (None, array.strides) for array, (shape, strides) in pairs)


class _Comparison:
    """Compare two traces, instruction by instruction."""

    def __init__(self, slots: Sequence[Value]) -> None:
        self.known = set(slots)
        self.found: dict[Value, Any] = {}  # the other trace's constant for each slot
        self.new: list[tuple[Value, Any, Any]] = []  # a slot, and the constants of both traces
        self.pairs: dict[Value, Value] = {}

    def traces(self, mine: Trace, other: Trace) -> Trace:
        """Return the trace with a slot for each constant that differs."""
        a, b = mine.program, other.program
        self._of = (mine, other)
        if len(a.instructions) != len(b.instructions) or a.split != b.split or len(a.inputs) != len(b.inputs):
            self._differs("it has another number of instructions or inputs")
        for (value, source), (value_, source_) in zip(a.inputs, b.inputs, strict=True):
            if self._source(source, 0) != self._source(source_, 1):
                self._differs("it reads other Tensors or numbers")
            self._pair(value, value_)
        self._program = program = copy(a)
        program.instructions = [self._instruction(x, y) for x, y in zip(a.instructions, b.instructions, strict=True)]
        if [self._result(x, 0) for x in mine.results] != [self._result(x, 1) for x in other.results]:
            self._differs("its results differ in kind")
        for table in ("grads", "outside"):
            if len(getattr(mine, table)) != len(getattr(other, table)):
                self._differs("it reads other Tensors")
        if [self._pairs_with(g, source, 0) for g, source in mine.gradients] != [
            self._pairs_with(g, source, 1) for g, source in other.gradients
        ] or mine.leading != other.leading:
            self._differs("gradients flow to other inputs")
        results = [self._merged_result(x, y) for x, y in zip(mine.results, other.results, strict=True)]
        if mine.result_structure != other.result_structure:
            self._differs("its results have another structure")
        return replace(mine, program=program, results=results)

    def _differs(self, why: str, instruction: Instruction | None = None) -> None:
        site = "" if instruction is None or instruction.site is None else f" at {instruction.site}"
        raise Differs(why + site)

    def _source(self, source: Source, side: int) -> Any:
        """Return a source in terms that are comparable between both traces."""
        kind, what = source
        if is_dense(what):
            for index, leaf in enumerate(self._of[side].leaves):
                if leaf is what:
                    return kind, "argument", index
            return kind, id(what)
        return kind, what if isinstance(what, int) else getattr(what, "identity", what)

    def _pair(self, x: Value, y: Value) -> None:
        alike = (x.shape is None) == (y.shape is None) and x.dtype == y.dtype
        if not alike or x.shape is not None and len(x.shape) != len(y.shape):
            self._differs("an array has another dtype or number of dims")
        self.pairs[x] = y
        if self.pairs.get(x.root) is not y.root:
            self._differs("an array is a view of another array")

    def _instruction(self, x: Instruction, y: Instruction) -> Instruction:
        fields = ("kind", "primitive", "several", "view", "paths", "backward")
        if any(getattr(x, field) != getattr(y, field) for field in fields):
            self._differs(f"it calls {y.name} in place of {x.name}", y)
        same = x.kind == "primitive" or same_function(x.function, y.function)  # a forward may depend on the size
        if not same or len(x.outs) != len(y.outs):
            self._differs(f"it calls {y.name} in place of {x.name}", y)
        try:
            args, kwargs = self._merged(x.args, y.args, True), self._merged(x.kwargs, y.kwargs, True)
        except Differs as error:
            self._differs(f"{y.name} has {error}", y)
        if [self.pairs.get(v) for v in x.writes] != list(y.writes):
            self._differs(f"{y.name} writes to another array", y)
        for out, out_ in zip(x.outs, y.outs, strict=True):
            self._pair(out, out_)
        if args is x.args and kwargs is x.kwargs:
            return x
        made = copy(x)
        made.give(args, kwargs)
        return made

    def _merged(self, x: Any, y: Any, open_: bool = False) -> Any:
        """Return the argument ``x`` with slots where ``y`` has other constants."""
        kind = type(x)
        if kind is Value:
            if x in self.known:
                if next(values_in(y), None) is not None:
                    raise Differs("an array in place of a number")
                self.found[x] = y
            elif self.pairs.get(x) is not y:
                raise Differs("another array")
            return x
        if kind is not type(y):
            if _plain(x) and _plain(y) and not open_:
                return self._slot(x, y)
            raise Differs("an argument of another type")
        if not open_ and next(values_in(x), None) is None and next(values_in(y), None) is None:
            if equal(x, y):
                return x
            if _plain(x) and _plain(y):
                return self._slot(x, y)
        if isinstance(x, (tuple, list)) and len(x) == len(y):
            items = [self._merged(a, b) for a, b in zip(x, y, strict=True)]
            if all(a is b for a, b in zip(x, items, strict=True)):
                return x
            return kind(*items) if hasattr(x, "_fields") else kind(items)
        if kind is dict and list(x) == list(y):
            entries = {name: self._merged(x[name], y[name]) for name in x}
            return x if all(entries[name] is x[name] for name in x) else entries
        if kind is slice:
            return slice(*[self._merged(getattr(x, k), getattr(y, k)) for k in ("start", "stop", "step")])
        if hasattr(kind, "with_key") and (x.basic, x.repeats) == (y.basic, y.repeats):
            key = self._merged(x.key, y.key)
            return x if key is x.key else x.with_key(key)
        if x is y:
            return x
        raise Differs(f"another {kind.__name__}")

    def _slot(self, x: object, y: object) -> Value:
        slot = self._program.value(None)
        self.new.append((slot, x, y))
        return slot

    # Results

    def _value(self, value: Any, side: int) -> Any:
        return self.pairs.get(value) if side == 0 else value

    def _result(self, result: Any, side: int) -> Any:
        value, alias = result.value, result.alias
        if result.kind in ("tensor", "array", "number"):
            value = None if value in self.known else self._value(value, side)
        elif result.kind == "same":
            value = None if _plain(value) else id(value)
        alias = alias and self._source(alias, side)
        kind = "same" if value is None else result.kind
        return kind, value, result.requires, alias, result.related, result.spent is None

    def _merged_result(self, x: Result, y: Result) -> Result:
        if x.kind != "same" and x.value not in self.known or x.kind == "same" and not _plain(x.value):
            return x
        merged = self._merged(x.value, y.value)
        return replace(x, kind="number", value=merged) if type(merged) is Value else x

    def _pairs_with(self, value: Value | None, source: Any, side: int) -> Any:
        return (None if value is None else self._value(value, side)), self._source(source, side)


def _plain(x: object) -> bool:
    """Return whether a constant may become a slot."""
    if isinstance(x, (tuple, list)):
        return all(map(_plain, x))
    if type(x) is slice:
        return _plain((x.start, x.stop, x.step))
    return isinstance(x, PLAIN) or is_dataclass_instance(x) and all(map(_plain, vars(x).values()))
