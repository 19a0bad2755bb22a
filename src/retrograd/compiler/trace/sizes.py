"""Sizes that vary within one program.

At another batch size or length a function mostly does the same with other constants: a length in a reshape, a bound of
a slice, one over a count. Its traces at two sizes are compared, and the constants that differ become inputs of the one
program, the ``slots``; which numbers to put there is kept for each size. What happens at a size that was never seen
nobody can tell, for Python may choose by it. So its first call is traced, which is an eager call, and the trace is
compared, which compiles nothing: where only constants differ they are kept beside the size. Nothing is extrapolated.
A trace that differs in more, as sizes 0 and 1 may, is a program of its own. Passes and regions rely on shapes, so the
program of all sizes runs instruction by instruction; a size that comes again and again gets one of its own besides.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, is_dataclass, replace
from functools import partial
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from ...core.tensor.tensor import Tensor
from ...func.nests import Structure
from ...ops.table.arguments import dimension
from ..program import Instruction, Program, Value, values_in
from ..run.guards import Surroundings

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis), np.dtype, np.generic, np.ndarray)
NEW = "sizes that are not known yet"  # instead of arrays, where all else fits
_NONE: frozenset[int] = frozenset()
_MANY = 4096  # sizes that are remembered
OFTEN = 16  # calls at one size after which it gets a program of its own

Varying = dict[int, frozenset[int]] | None  # which dims of which arguments may vary; None: all of all


@dataclass(slots=True)
class Result:
    """A leaf of what the function returns: ``kind`` is tensor, array or number (of ``value``), or ``same`` object.

    Or it is an ``argument`` of that number, the result of that number ``again``, or the ``gradient`` that a leaf has.

    ``requires`` where a gradient flows to it, and ``alias``: the Tensor, or the number of the argument or of the other
    result, whose memory a Tensor shares.
    """

    kind: str
    value: Any
    requires: bool = False
    alias: tuple[str, Any] | None = None
    related: bool = False  # a view, which follows the history of what it is a view of
    spent: Any = None  # the plan of its node, where the function itself has walked its graph and freed it


class Lifted(NamedTuple):
    """A Tensor from outside of the function, as it was before the trace."""

    tensor: Tensor
    value: Value
    requires: bool
    hooks: tuple[Any, ...]


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
    outside: list[Lifted] = field(default_factory=list)
    cotangents: list[Value] = field(default_factory=list)
    gradients: list[tuple[Value | None, Any]] = field(default_factory=list)  # and whose they are, a source
    sizes: Sizes | None = None  # where sizes may vary


class Differs(Exception):
    """Two traces are not one program."""


class Sizes:
    """The program of several sizes.

    Attributes:
        trace: the program, with slots among its inputs.
        slots: the values of constants that follow the sizes.
        known: the constants for the slots, by the shapes and strides of all arguments.
        calls: how often the program ran at a size.
    """

    def __init__(self, trace: Trace, varying: Varying) -> None:
        self.varying = varying
        self.slots: list[Value] = []
        self.known: dict[Any, tuple[Any, ...]] = {key_of(trace): ()}
        self.calls: dict[Any, int] = {}
        self._sized = [index for index, _ in sized(trace)]
        self.trace = replace(trace, sizes=self)
        self.trace.program = _comparable(trace)

    def made(self) -> Trace:
        """The trace that a program is made of; the passes may change it."""
        program = Program()
        source = self.trace.program
        program.inputs = [*source.inputs, *[(slot, ("slot", k)) for k, slot in enumerate(self.slots)]]
        program.instructions = [copy(instruction) for instruction in source.instructions]
        program.split, program.count = source.split, source.count
        program.varies = len(self.known) > 1
        return replace(self.trace, program=program)

    def learn(self, other: Trace) -> bool:
        """Take the constants of a trace at another size.

        Returns:
            Whether there are slots that there have not been.

        Raises:
            Differs: it is another program.
        """
        key = key_of(other)
        if self.varying is not None:
            for (index, now), (_, before) in zip(sized(other), sized(self.trace), strict=False):
                free = self.varying.get(index, ())
                if any(a != b and k not in free for k, (a, b) in enumerate(zip(now.shape, before.shape, strict=False))):
                    raise Differs("a dim that was not marked as dynamic has another length")
        comparison = _Comparison(self.slots)
        changed = comparison.traces(self.trace, replace(other, program=_comparable(other)))
        new = comparison.new
        constants = (*[comparison.found[slot] for slot in self.slots], *[now for _, _, now in new])
        if key in self.known:
            raise Differs("at the same sizes it has other constants")
        earlier = tuple([was for _, was, _ in new])
        self.known = {sizes: (*values, *earlier) for sizes, values in list(self.known.items())[-_MANY:]}
        self.known[key] = constants
        self.slots += [slot for slot, _, _ in new]
        self.trace = changed
        return bool(new) or len(self.known) == 2

    def often(self, leaves: Sequence[Any]) -> bool:
        """Count a call; whether its size has now come so often that a program of its own pays."""
        if len(self.known) == 1:
            return False  # passes have worked on it
        arrays = [x.array if isinstance(x, Tensor) else x for x in (leaves[index] for index in self._sized)]
        key = tuple([step for array in arrays for step in (array.shape, array.strides)])
        count = self.calls[key] = self.calls.get(key, 0) + 1
        return count == OFTEN

    def words(self) -> list[str]:
        """For ``explain``."""
        return [
            f"sizes: {len(self.known)} known, {len(self.slots)} constants follow them; a new one is run eagerly once, "
            f"to be compared; one that has come {OFTEN} times gets a program of its own"
        ]


def mark_dynamic(x: Tensor, index: int | Sequence[int], *, min: int | None = None, max: int | None = None) -> None:
    """Let a dim of an argument vary within one program of a compiled function.

    Args:
        x: the Tensor that the function is going to be called with.
        index: the dim, or several.
        min, max: taken for PyTorch's sake; every length is compared when it first comes.

    Raises:
        IndexError: there is no such dim.

    >>> mean = rg.compile(lambda x: x.mean(0))
    >>> for length in (2, 3, 4):
    ...     x = rg.ones(length, 3)
    ...     rg.compiler.mark_dynamic(x, 0)
    ...     y = mean(x)
    >>> len(mean.entries)
    1
    """
    dims = (index,) if isinstance(index, int) else index
    x.__dict__["_dynamic_dims"] = marks(x) | {dimension(dim, x.array.ndim) for dim in dims}


def mark_static(x: Any, index: int | Sequence[int] | None = None) -> None:
    """Take marks of ``mark_dynamic`` away, all of them by default."""
    if isinstance(x, Tensor):
        dims = (index,) if isinstance(index, int) else range(x.array.ndim) if index is None else index
        x.__dict__["_dynamic_dims"] = marks(x) - {dimension(dim, x.array.ndim) for dim in dims}


def marks(x: Any) -> frozenset[int]:
    """The dims of an argument that are marked as dynamic."""
    return x.__dict__.get("_dynamic_dims", _NONE) if isinstance(x, Tensor) else _NONE


def key_of(trace: Trace) -> Any:
    """The shapes and strides of all arrays among the arguments."""
    return tuple([step for _, value in sized(trace) for step in (value.shape, value.strides)])


def sized(trace: Trace) -> list[tuple[int, Value]]:
    """The arrays among the arguments, with their numbers there."""
    arguments = [(source[1], value) for value, source in trace.program.inputs if source[0] == "argument"]
    return [(index, value) for index, value in arguments if value.shape is not None]


def _comparable(trace: Trace) -> Program:
    """The program without inputs that nobody reads, and with the comparisons of shapes as instructions."""
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
            guard = Instruction("guard", _have_shapes, (tuple([out.shape for out in shaped]), *shaped))
            guard.operator, guard.site, guard.backward = instruction.operator, instruction.site, instruction.backward
            made.instructions.append(guard)
    if program.split == len(program.instructions):
        made.split = len(made.instructions)
    return made


def _have_shapes(shapes: Any, *arrays: Any) -> bool:
    return all(array.shape == shape for array, shape in zip(arrays, shapes, strict=True))


class _Comparison:
    """Two traces, walked side by side."""

    def __init__(self, slots: Sequence[Value]) -> None:
        self.known = set(slots)
        self.found: dict[Value, Any] = {}  # the other trace's constant for each slot
        self.new: list[tuple[Value, Any, Any]] = []  # a slot, and the constants of both traces
        self.pairs: dict[Value, Value] = {}

    def traces(self, mine: Trace, other: Trace) -> Trace:
        """The trace with a slot for each constant that differs."""
        a, b = mine.program, other.program
        self._of = (mine, other)
        if len(a.instructions) != len(b.instructions) or a.split != b.split or len(a.inputs) != len(b.inputs):
            self._differs("it has another number of instructions")
        for (value, source), (value_, source_) in zip(a.inputs, b.inputs, strict=True):
            if self._source(source, 0) != self._source(source_, 1):
                self._differs("it reads other Tensors or numbers")
            self._pair(value, value_)
        self._program = program = copy(a)
        program.instructions = [self._instruction(x, y) for x, y in zip(a.instructions, b.instructions, strict=True)]
        if [self._result(x, 0) for x in mine.results] != [self._result(x, 1) for x in other.results]:
            self._differs("its results are other ones")
        for table in ("grads", "outside"):
            if len(getattr(mine, table)) != len(getattr(other, table)):
                self._differs("it reads other Tensors")
        if [self._pairs_with(g, source, 0) for g, source in mine.gradients] != [
            self._pairs_with(g, source, 1) for g, source in other.gradients
        ]:
            self._differs("other gradients flow")
        results = [self._merged_result(x, y) for x, y in zip(mine.results, other.results, strict=True)]
        if mine.result_structure != other.result_structure:
            self._differs("its results are other ones")
        return replace(mine, program=program, results=results)

    def _differs(self, why: str, instruction: Instruction | None = None) -> None:
        site = "" if instruction is None or instruction.site is None else f" at {instruction.site}"
        raise Differs(why + site)

    def _source(self, source: tuple[str, Any], side: int) -> Any:
        """A source in words that mean the same in both traces."""
        kind, what = source
        if isinstance(what, Tensor):
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
            self._differs("an array is a view of something else")

    def _instruction(self, x: Instruction, y: Instruction) -> Instruction:
        fields = ("kind", "primitive", "several", "view", "paths", "backward")
        if any(getattr(x, field) != getattr(y, field) for field in fields):
            self._differs(f"{y.name} stands for {x.name}", y)
        same = x.kind == "primitive" or _same_function(x.function, y.function)  # which changes once arrays are large
        if not same or len(x.outs) != len(y.outs):
            self._differs(f"{y.name} stands for {x.name}", y)
        try:
            args, kwargs = self._merged(x.args, y.args, True), self._merged(x.kwargs, y.kwargs, True)
        except Differs as error:
            self._differs(f"{y.name} has {error}", y)
        if [self.pairs.get(v) for v in x.writes] != list(y.writes):
            self._differs(f"{y.name} writes into something else", y)
        for out, out_ in zip(x.outs, y.outs, strict=True):
            self._pair(out, out_)
        if args is x.args and kwargs is x.kwargs:
            return x
        made = copy(x)
        made.args, made.kwargs = args, kwargs
        return made

    def _merged(self, x: Any, y: Any, open_: bool = False) -> Any:
        """The argument ``x`` with slots where ``y`` has other constants."""
        kind = type(x)
        if kind is Value:
            if x in self.known:
                if next(values_in(y), None) is not None:
                    raise Differs("an array for a number")
                self.found[x] = y
            elif self.pairs.get(x) is not y:
                raise Differs("another array")
            return x
        if kind is not type(y):
            if _plain(x) and _plain(y) and not open_:
                return self._slot(x, y)
            raise Differs("an argument of another kind")
        if not open_ and next(values_in(x), None) is None and next(values_in(y), None) is None:
            if _equal(x, y):
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
        raise Differs(f"a {kind.__name__} that is another one")

    def _slot(self, x: Any, y: Any) -> Value:
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

    def _merged_result(self, x: Any, y: Any) -> Any:
        if x.kind != "same" and x.value not in self.known or x.kind == "same" and not _plain(x.value):
            return x
        merged = self._merged(x.value, y.value)
        return replace(x, kind="number", value=merged) if type(merged) is Value else x

    def _pairs_with(self, value: Any, source: Any, side: int) -> Any:
        return (None if value is None else self._value(value, side)), self._source(source, side)


def _plain(x: Any) -> bool:
    """Whether a constant may be another one at another size."""
    if isinstance(x, (tuple, list)):
        return all(map(_plain, x))
    if type(x) is slice:
        return _plain((x.start, x.stop, x.step))
    return isinstance(x, _PLAIN) or _is_record(x) and all(map(_plain, vars(x).values()))


def _equal(x: Any, y: Any) -> bool:
    if x is y:
        return True
    kind = type(x)
    if kind is not type(y):
        return False
    if isinstance(x, (tuple, list)):
        return len(x) == len(y) and all(map(_equal, x, y))
    if kind is slice:
        return _equal((x.start, x.stop, x.step), (y.start, y.stop, y.step))
    if kind is dict:
        return list(x) == list(y) and all(_equal(x[name], y[name]) for name in x)
    if isinstance(x, np.ndarray):
        return (x.dtype, x.shape, x.strides) == (y.dtype, y.shape, y.strides) and x.tobytes() == y.tobytes()
    if isinstance(x, (float, complex, np.generic)):
        return repr(x) == repr(y)
    if _is_record(x):
        return _equal(vars(x), vars(y))
    return bool(x == y) if isinstance(x, _PLAIN) else _same_function(x, y)


def _is_record(x: Any) -> bool:
    return is_dataclass(x) and not isinstance(x, type) and hasattr(x, "__dict__")


def _same_function(x: Any, y: Any) -> bool:
    if x is y:
        return True
    if isinstance(x, partial) and isinstance(y, partial):
        return _equal((x.func, x.args, x.keywords), (y.func, y.args, y.keywords))
    if type(x) is not FunctionType or type(y) is not FunctionType or x.__code__ is not y.__code__:
        return False
    cells = [[cell.cell_contents for cell in f.__closure__ or ()] for f in (x, y)]
    return _equal((x.__defaults__, *cells[0]), (y.__defaults__, *cells[1]))
