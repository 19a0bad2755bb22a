"""Find the repeated calls of a Python loop while it is traced.

``CallLog`` numbers each call of a primitive by its operation and its shapes. When the last calls repeat the calls
of the previous period, ``block`` describes one period: for each input of each call, where its value comes from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias
from weakref import ref

import numpy as np

from ...core.arrays.dtypes import DType
from ...core.graph.modes import modes
from ...core.graph.nodes import Node, edge_of
from ...core.graph.primitive import Primitive
from ...core.tensor.tensor import Tensor
from ...ops.indexing.indexing import GETITEM
from ...ops.linear.products.einsum import EINSUM, EINSUM2
from ...ops.math.arithmetic import ADD, DIV, MUL, SUB
from ...ops.shape.joining import UNBIND
from ..passes.matrix_products import PRODUCTS
from ..program import Value, equal
from ..trace.traced_arrays import Traced

MIN_CALLS = 64  # number of repeated calls after which a loop is assumed
MAX_PERIOD = 5000
MAX_BYTES = 1 << 12  # maximum bytes of a NumPy array that a call reads
MAX_STACKED = 1 << 10  # maximum bytes of a Tensor that differs between periods and is not a row of one Tensor
MAX_PRODUCT = 1 << 20  # maximum multiplications of a matrix product in a loop that is followed
_PRODUCTS = frozenset((EINSUM, EINSUM2))  # beside those that declare it
_WINDOW = 6  # number of successive calls that are compared to find a period
_ARITHMETIC = frozenset((ADD, SUB, MUL, DIV))
Params: TypeAlias = dict[str, object]
Identity: TypeAlias = tuple[Value, int | None]  # the value of a Tensor, and its position in the graph

OWN, BEFORE, SAME, SLICE, PLAIN, NUMBER, ARRAY = range(7)


class Unknown(Exception):
    """A call cannot be compared with another call."""


@dataclass(slots=True)
class Source:
    """Where an input of a call comes from.

    Attributes:
        kind: ``OWN``, a result of the same period; ``BEFORE``, of the previous period; ``SAME``, a Tensor from outside;
            ``SLICE``, another Tensor from outside in each period; ``PLAIN``, a constant; ``NUMBER``, another number in
            each period; ``ARRAY``, a NumPy array with constant elements.
        index: the index of the result in its period, or of the source among those of its kind.
        requires: whether the Tensor requires grad.
        detached: whether the input has no history although the result has one.
        known: the identity of a Tensor that stays the same, the form of a slice, the constant, the dtype of numbers, or
            a copy of the array.
    """

    kind: int
    index: int
    requires: bool
    detached: bool
    known: object


@dataclass(slots=True)
class Call:
    """A call of a primitive.

    Attributes:
        reads: for each input the identity of a Tensor, a number, or a copy of an array.
        results: the identities of the results.
        row: whether the call is ``x[i]``, where ``i`` may be another number in each period.
        shares: for each result, whether it shares the memory of the first input.
        inputs, made: the inputs, and references to the results, while the call may belong to a loop.
    """

    code: int
    primitive: Primitive
    params: Params
    reads: list[object]
    results: list[Identity]
    grad: bool
    row: bool
    shares: tuple[bool, ...]
    site: object
    inputs: Sequence[object]
    made: Sequence[ref[Tensor]]


@dataclass(slots=True)
class Block:
    """One period of repeated calls.

    Attributes:
        sources: for each call, the sources of its inputs.
        first: for each call, the index of its first result among the results of all calls.
        count: the number of results of all calls.
        counts: the number of sources of each kind.
        recorded: the calls of the same and of earlier periods that are recorded and belong to the loop, too.
    """

    calls: list[Call]
    sources: list[list[Source]]
    first: list[int]
    count: int
    counts: dict[int, int]
    recorded: list[list[Call]]


class CallLog:
    """The calls since the last event that is not a call of a primitive."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}
        self.clear()

    def clear(self) -> None:
        """Forget the calls."""
        self.calls: list[Call] = []
        self._made: dict[Value, tuple[int, int]] = {}  # the position of a call, and the index of its result
        self._seen: dict[tuple[int, ...], int] = {}  # the last position of each window of codes
        self._period = self._equal = 0
        self._phase = -1
        self._kept = 0  # the first call whose inputs are kept
        self.unbound: dict[Value, tuple[Tensor, int]] = {}  # rows of a Tensor that a loop iterates over

    def add(
        self,
        primitive: Primitive,
        inputs: Sequence[object],
        params: Params,
        outputs: Sequence[Tensor],
        tracer: object,
        site: object,
    ) -> None:
        """Append a call. Raise ``Unknown`` if the call cannot be compared with other calls."""
        key: list[object] = [id(primitive), modes.grad_enabled]
        reads: list[object] = []
        open_ = primitive in _ARITHMETIC and len(inputs) == 2
        for x in inputs:
            kind = type(x)
            if isinstance(x, Tensor):
                if not kind.__module__.startswith("retrograd."):
                    raise Unknown  # a class of the user, whose results may be changed
                read = identity(x, tracer)
                reads.append(read)
                value = read[0]
                key.append((value.shape, value.dtype, value.strides, x._requires))
                open_ = open_ and value.dtype.kind == "f"
            elif kind is int or kind is float:
                reads.append(x)
                key.append(kind)
            elif kind is np.ndarray and isinstance(x, np.ndarray) and x.nbytes <= MAX_BYTES:
                reads.append(x.copy())
                key.append(frozen(x))
            elif kind is tuple:
                raise Unknown
            else:
                reads.append(x)
                key.append(frozen(x))
        row = is_row(primitive, params)
        if not open_:
            key += [frozen(x) for x in reads if type(x) is int or type(x) is float]
        if not row:
            key.append(frozen(params))
        results: list[Identity] = []
        memory = inputs[0]._storage if inputs and isinstance(inputs[0], Tensor) else None
        for x in outputs:
            made = identity(x, tracer)
            results.append(made)
            value = made[0]
            if value in self._made or any(type(read) is tuple and read[0] is value for read in reads):
                raise Unknown  # the Tensor was written in place: earlier calls have read its old value
            key.append((value.shape, value.dtype, value.strides, x._requires))
        shares = tuple([primitive.view and memory is not None and x._storage is memory for x in outputs])
        code = self._numbers.setdefault(tuple(key), len(self._numbers))
        at = len(self.calls)
        for k, (value, _) in enumerate(results):
            self._made[value] = at, k
        if primitive is UNBIND and params.get("dim") == 0 and isinstance(inputs[0], Tensor):
            self.unbound.update({value: (inputs[0], k) for k, (value, _) in enumerate(results)})
        grad, references = modes.grad_enabled, [ref(x) for x in outputs]
        self.calls.append(
            Call(code, primitive, dict(params), reads, results, grad, row, shares, site, inputs, references)
        )
        self._compare(at, code)

    def _compare(self, at: int, code: int) -> None:
        """Update the period, and the number of calls that equal the call one period earlier."""
        calls = self.calls
        if self._period and calls[at - self._period].code == code:
            self._equal += 1
            window = tuple([call.code for call in calls[at - _WINDOW + 1 :]])
        else:
            window = tuple([call.code for call in calls[max(at - _WINDOW + 1, 0) :]])
            seen = self._seen.get(window)
            self._period = 0 if seen is None or at - seen > MAX_PERIOD else at - seen
            self._equal, self._phase = _WINDOW, -1
        self._seen[window] = at
        kept = self._period + max(self._period, MIN_CALLS) + _WINDOW if self._period else _WINDOW
        for call in calls[self._kept : max(self._kept, at + 1 - kept)]:
            call.inputs = call.made = ()
        self._kept = max(self._kept, at + 1 - kept)

    def block(self) -> Block | None:
        """Return the last period of calls, if a loop is likely and its next period begins now."""
        period = self._period
        if not period or self._equal < max(period, MIN_CALLS):
            return None
        end = len(self.calls)
        if self._phase < 0:
            self._phase = self._best_phase(end, period)
        if end % period != self._phase:
            return None
        self._equal = self._period = 0  # the next search starts with no calls
        return self._described(end, period)

    def _best_phase(self, end: int, period: int) -> int:
        """Return the phase of the boundary that fewest values cross; on ties, the next boundary."""
        lengths: dict[tuple[int, int], int] = {}  # from the call that makes a value to its last reader
        for at in range(end - period, end):
            for read in self.calls[at].reads:
                place = self._made.get(read[0]) if type(read) is tuple else None
                if place is not None and place[0] >= end - 2 * period:
                    made = place[0] % period, place[1]
                    lengths[made] = max(lengths.get(made, 0), at - place[0])
        change = np.zeros(3 * period + 2, np.int64)
        for (at, _), length in lengths.items():
            change[at + 1] += 1
            change[at + length + 1] -= 1
        crossing = np.cumsum(change)[: 3 * period].reshape(3, period).sum(0)
        return min(range(period), key=lambda phase: (int(crossing[phase]), (phase - end) % period))

    def _described(self, end: int, period: int) -> Block | None:
        """Return the block of the last calls; None if these are not a loop."""
        start = end - period
        calls = self.calls[start:end]
        if any(map(_is_costly, calls)):
            return None
        first: list[int] = []
        count = 0
        for call, other in zip(calls, self.calls[start - period : start], strict=True):
            first.append(count)
            count += len(call.results)
            if call.row and equal(call.params, other.params):
                call.row = False
        found = self._sources(start, period, first)
        if found is None:
            return None
        sources, counts = found
        recorded: list[list[Call]] = []
        for begin in range(start, period - 1, -period):
            block = self.calls[begin : begin + period]
            if any(len(call.inputs) != len(call.reads) for call in block):
                break
            before = self.calls[begin - period : begin]
            if any(call.code != other.code for call, other in zip(before, calls, strict=True)):
                break
            if begin != start and not _alike(self._sources(begin, period, first, calls), sources):
                break
            recorded.insert(0, block)
        return Block(calls, sources, first, count, counts, recorded)

    def _sources(
        self, start: int, period: int, first: Sequence[int], like: Sequence[Call] = ()
    ) -> tuple[list[list[Source]], dict[int, int]] | None:
        """Return the sources of the inputs of all calls of a period, and the number of sources of each kind."""
        counts = dict.fromkeys(range(7), 0)
        known: dict[tuple[int, object], int] = {}
        sources: list[list[Source]] = []
        calls, earlier = self.calls[start : start + period], self.calls[start - period : start]
        for at, (call, before) in enumerate(zip(calls, earlier, strict=True)):
            if like and not like[at].row and not equal(call.params, like[at].params):
                return None
            row: list[Source] = []
            for read, other in zip(call.reads, before.reads, strict=True):
                if type(read) is tuple:
                    source = self._source(read, other, start, period, first)
                elif type(read) is np.ndarray:
                    source = Source(ARRAY, 0, False, False, read)
                elif equal(read, other):
                    source = Source(PLAIN, 0, False, False, read)
                else:
                    source = Source(NUMBER, 0, False, False, call.results[0][0].dtype)
                if source is None or (like[at] if like else call).row and source.kind != SAME:
                    return None
                if source.kind in (SAME, SLICE, NUMBER):
                    key = source.kind, source.known if source.kind == SAME else (at, len(row))
                    source.index = known.setdefault(key, counts[source.kind])
                    counts[source.kind] = max(counts[source.kind], source.index + 1)
                row.append(source)
            sources.append(row)
        return sources, counts

    def _source(self, read: Identity, earlier: object, start: int, period: int, first: Sequence[int]) -> Source | None:
        """Return the source of a Tensor."""
        value, edge = read
        requires = edge is not None
        place = self._made.get(value)
        if place is None or place[0] < start - period:
            if read == earlier:
                return Source(SAME, 0, requires, False, read)
            if place is not None and place[0] >= start - 2 * period:
                return None  # computed before the last period
            if value not in self.unbound and value.nbytes > MAX_STACKED:
                return None  # different Tensors, such as the parameters of successive layers
            return Source(SLICE, 0, requires, False, (value.shape, value.dtype, value.strides))
        at, k = place
        made = self.calls[at].results[k]
        if made != read and edge is not None:
            return None
        kind, begin = (OWN, start) if at >= start else (BEFORE, start - period)
        return Source(kind, first[at - begin] + k, requires, made != read, None)


def _is_costly(call: Call) -> bool:
    """Return whether a call is a matrix product that takes long: the backward pass must not compute it again."""
    if call.primitive.computes not in PRODUCTS and call.primitive not in _PRODUCTS:
        return False
    sizes = [read[0].size for read in (*call.reads, *call.results) if isinstance(read, tuple)]
    return prod(sizes) > MAX_PRODUCT**2  # (m, k) @ (k, n): the product of the sizes is (m * k * n) ** 2


def _alike(found: tuple[list[list[Source]], dict[int, int]] | None, sources: list[list[Source]]) -> bool:
    """Return whether the calls of two periods have the same sources."""
    return found is not None and all(
        (a.kind, a.index, a.requires, a.detached) == (b.kind, b.index, b.requires, b.detached)
        and equal(a.known, b.known)
        for row, other in zip(found[0], sources, strict=True)
        for a, b in zip(row, other, strict=True)
    )


def identity(x: Tensor, tracer: object) -> Identity:
    """Return a key that identifies a Tensor in a trace."""
    array = x.array
    if type(array) is not Traced or array.tracer is not tracer or type(array.numbers) is not np.ndarray:
        raise Unknown
    if not x._requires:
        return array.node, None
    edge = edge_of(x)  # inside vmap, even a snapshot of a leaf has the leaf as its edge
    return array.node, edge.sequence if isinstance(edge, Node) else -id(edge)


def is_row(primitive: Primitive, params: Params) -> bool:
    """Return whether a call is ``x[i]``."""
    if primitive is not GETITEM:
        return False
    index = params.get("index")
    return type(index) is tuple and len(index) == 2 and type(index[0]) is int and index[1] is Ellipsis


def frozen(x: object) -> object:
    """Return a hashable key of an argument. Keys of two arguments are equal only if the arguments are
    interchangeable."""
    kind = type(x)
    if kind is int or kind is str or kind is bool or x is None or x is Ellipsis:
        return kind, x
    if kind is float or kind is complex:
        return kind, repr(x)
    if isinstance(x, (tuple, list)) and kind in (tuple, list):
        return kind, tuple([frozen(item) for item in x])
    if isinstance(x, dict) and kind is dict:
        return kind, tuple([(name, frozen(item)) for name, item in x.items()])
    if isinstance(x, slice):
        return kind, frozen((x.start, x.stop, x.step))
    if isinstance(x, np.ndarray) and kind is np.ndarray and x.nbytes <= MAX_BYTES and x.dtype.kind in "biufc":
        return kind, x.shape, x.dtype.str, x.strides, x.tobytes()
    if isinstance(x, np.dtype):
        return DType, x.str
    if isinstance(x, type) and issubclass(x, np.generic):
        return kind, x
    raise Unknown
