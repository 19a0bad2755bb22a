"""Steps of a region: kernel calls on places in memory; the layout of the arena, in which live arrays do not overlap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...core.arrays import Array
from ...core.arrays.dtypes import DType
from ..program import Instruction, Value
from ..run.arenas import Block, place_blocks
from .emission import Body, Kernel, broadcast_strides, collapsed, constant, type_of


class Unlowered(Exception):
    """An instruction cannot be in a region; the message says why."""


class Buffer:
    """Memory of an input, in the arena, or of a new result.

    ``low`` and ``high`` are the range of bytes of an input that steps access, relative to its data pointer.
    """

    __slots__ = ("first", "high", "index", "kind", "last", "low", "nbytes", "source", "written")

    def __init__(self, kind: str, nbytes: int, source: object = None) -> None:
        self.kind = kind  # "input", "arena" or "out"
        self.nbytes = nbytes
        self.source = source  # the value, array or number of an input
        self.index = -1  # position of an input or result in the tuple; offset in the arena
        self.first = self.last = -1
        self.low = self.high = 0
        self.written = False


class Place(NamedTuple):
    """An array in a buffer."""

    buffer: Buffer
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    def span(self) -> tuple[int, int]:
        """Return the range of bytes of the array, relative to the buffer."""
        low = high = self.offset
        for length, stride in zip(self.shape, self.strides, strict=True):
            if stride < 0:
                low += (length - 1) * stride
            else:
                high += (length - 1) * stride
        return low, high + self.dtype.itemsize

    def may_overlap(self, other: Place) -> bool:
        """Return whether two arrays may overlap."""
        if self.buffer is not other.buffer:
            return False
        (low, high), (other_low, other_high) = self.span(), other.span()
        return low < other_high and other_low < high

    @property
    def dense(self) -> bool:
        """Whether the array is contiguous in row-major order."""
        return self.strides == row_major(self.shape, self.dtype.itemsize)


def row_major(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """Return the strides of a new array."""
    strides: list[int] = []
    for length in reversed(shape):
        strides.append(itemsize)
        itemsize *= length
    return tuple(reversed(strides))


def stand_in_of(place: Place, make: Callable[[int, type], Array] = np.empty) -> Array:
    """Return an array with the shape and strides of a place."""
    low, high = Place(place.buffer, 0, *place[2:]).span()
    memory = make(high - low, np.uint8)
    return np.ndarray(place.shape, place.dtype, memory, -low, place.strides)


@dataclass(eq=False)
class Step:
    """A call of a kernel. The first operands are written; ``make`` writes the kernel."""

    name: str
    operands: list[Place]
    writes: int  # the number of operands that are written
    make: Callable[[Step], Kernel]
    instruction: Instruction | None = None
    checked: bool = False  # whether the kernel checks assumptions of the trace
    flops: float = 0.0
    parts: tuple[int, int, int, int] = (1, 1, 0, 1)  # blocks, minimum blocks per part, block size, parts per thread
    content: Any = None  # a description of the kernel, from which the interpreter's code is written

    def reads(self) -> list[Place]:
        """Return the operands that are only read."""
        return self.operands[self.writes :]


Operand = Place | tuple[Any, Any]  # an array, or a constant with its dtype
Emit = Callable[[Body, Sequence[str]], str]  # writes one operation on elements


class Lowers(Protocol):
    """The methods of ``lowering.Lowering`` that functions for single instructions call."""

    interpreted: bool
    most: int

    def add(self, step: Step) -> None: ...
    def cast(self, x: Operand, dtype: DType, like: Place) -> Place: ...
    def copy(self, source: Operand, target: Place) -> None: ...
    def map(
        self, name: str, out: Place, inputs: Sequence[Operand], emit: Emit | None, dtypes: Sequence[DType], dtype: DType
    ) -> None: ...
    def new(self, shape: Sequence[int], dtype: DType, strides: Sequence[int] | None = None) -> Place: ...
    def operand(self, x: object) -> Operand: ...
    def place(self, x: object) -> Place: ...
    def result(self, value: Value) -> Place: ...


@dataclass(eq=False)
class Node:
    """One operation on elements. Takes operands by number (from 1), earlier nodes (from -1 down), and constants."""

    emit: Emit
    takes: list[int | str]
    dtype: DType


@dataclass(eq=False)
class Map(Step):
    """A step that computes each element of one array from broadcast arrays, through nodes."""

    nodes: list[Node] = field(default_factory=list)

    def absorb(self, other: Map, at: int, inputs: Sequence[Place]) -> None:
        """Replace operand ``at`` by the nodes of the step that computes it from ``inputs``."""
        shift = len(other.nodes)
        known: dict[object, int] = {}
        moved: list[int] = []
        operands = [place for k, place in enumerate(self.operands) if k != at]
        for k, place in enumerate(operands):
            known.setdefault((place.buffer, *place[1:]), k) if k else None
        for place in inputs:
            key = (place.buffer, *place[1:])
            if key not in known:
                known[key] = len(operands)
                operands.append(place)
            moved.append(known[key])

        def mine(take: int | str) -> int | str:
            if isinstance(take, str):
                return take
            if take < 0:
                return take - shift
            if take == at:
                return -shift
            return take - (take > at)

        def theirs(take: int | str) -> int | str:
            return take if isinstance(take, str) or take < 0 else moved[take - 1]

        first = [Node(node.emit, [theirs(take) for take in node.takes], node.dtype) for node in other.nodes]
        self.nodes = first + [Node(node.emit, [mine(take) for take in node.takes], node.dtype) for node in self.nodes]
        self.operands = operands
        self.name = f"{other.name}+{self.name}"


def map_step(
    name: str, out: Place, inputs: Sequence[Operand], emit: Emit | None, dtypes: Sequence[DType], dtype: DType
) -> Map:
    """Return ``out = emit(inputs)``: inputs are cast to ``dtypes``, the result from ``dtype`` to that of ``out``."""
    operands = [out]
    nodes: list[Node] = []
    takes: list[int | str] = []
    for given, wanted in zip(inputs, dtypes, strict=True):
        if not isinstance(given, Place):
            takes.append(constant(given[0], wanted))
            continue
        place = Place(given.buffer, given.offset, out.shape, broadcast_strides(given.shape, given.strides, out.shape),
                      given.dtype)  # fmt: skip
        at = next((k for k, known in enumerate(operands) if k and known == place), len(operands))
        if at == len(operands):
            operands.append(place)
        if given.dtype == wanted:
            takes.append(at)
        else:
            old, new = given.dtype, wanted
            nodes.append(Node(_caster(old, new), [at], new))
            takes.append(-len(nodes))
    if emit is not None:
        nodes.append(Node(emit, takes, dtype))
    elif not nodes:
        nodes.append(Node(lambda b, x: x[0], takes, dtype))
    if out.dtype != dtype:
        nodes.append(Node(_caster(dtype, out.dtype), [-len(nodes)], out.dtype))
    return Map(name, operands, 1, _map_kernel, nodes=nodes)  # type: ignore[arg-type]


def _caster(old: DType, new: DType) -> Emit:
    try:
        Body().cast("%x", old, new)
    except TypeError as error:
        raise Unlowered(str(error)) from None
    return lambda b, x: b.cast(x[0], old, new)


def _map_kernel(step: Map) -> Kernel:
    body = Body()
    out, *inputs = step.operands
    lengths, steps = collapsed(out.shape, *[place.strides for place in step.operands])
    # An operand that is the output itself uses the output's pointer; other operands do not overlap the output.
    pointers = ["%p0" if place[:4] == out[:4] else f"%p{k}" for k, place in enumerate(inputs, start=1)]

    def element(indices: list[str]) -> None:
        found = [
            body.load(body.address(pointer, indices, strides), place.dtype)
            for pointer, strides, place in zip(pointers, steps[1:], inputs, strict=True)
        ]
        made: list[str] = []
        for node in step.nodes:
            takes = [t if isinstance(t, str) else found[t - 1] if t > 0 else made[-t - 1] for t in node.takes]
            made.append(node.emit(body, takes))
        body.store(made[-1], body.address("%p0", indices, steps[0]), out.dtype)

    if step.parts[0] > 1:  # shared steps have one dimension
        first, last = body.part(step.parts[2], lengths[0])
        body.loop(first, last, 1, lambda index: element([index]))
    else:
        body.nest(lengths, element)
    body.do("ret void")
    return kernel_of(step, body)


def kernel_of(step: Step, body: Body) -> Kernel:
    """Return the kernel of a step, with alias attributes of its pointers."""
    out = step.operands[: step.writes]
    parameters = []
    for k, place in enumerate(step.operands):
        others = step.operands if k < step.writes else out
        alone = not any(place.may_overlap(other) for other in others if other is not place and other[:4] != place[:4])
        read = not any(place.may_overlap(other) for other in out)
        parameters.append(f"ptr {'noalias ' if alone else ''}{'readonly ' if read else ''}%p{k}")
    return Kernel(", ".join(parameters), tuple(body.lines), tuple(sorted(body.declared)))


def check_step(place: Place, seen: str) -> Step:
    """Return a step that compares a number with an LLVM constant."""

    def make(step: Step) -> Kernel:
        body = Body()
        value = body.load("%p0", place.dtype)
        how = "fcmp oeq" if place.dtype.kind == "f" else "icmp eq"
        same = body.give(f"{how} {type_of(place.dtype)} {value}, {seen}")
        body.do(f"ret i1 {same}")
        return kernel_of(step, body)._replace(result="i1")

    return Step("check", [place], 0, make, checked=True, content=seen)


def checked_pairs(steps: Sequence[Step]) -> list[tuple[Buffer, Buffer]]:
    """Return the pairs of inputs, one of them written, that must not overlap, as they did not in the trace."""
    found: dict[tuple[Buffer, Buffer], None] = {}
    for step in steps:
        for place in step.operands[: step.writes]:
            for other in step.operands:
                pair = place.buffer, other.buffer
                if pair[0] is not pair[1] and pair[::-1] not in found and all(b.kind == "input" for b in pair):
                    found[pair] = None
    return list(found)


def set_lifetimes(steps: Sequence[Step]) -> list[Buffer]:
    """Set the lifetime of each buffer, and the byte range that steps access; return the buffers."""
    found: dict[Buffer, None] = {}
    for number, step in enumerate(steps):
        for at, place in enumerate(step.operands):
            buffer = place.buffer
            low, high = place.span()
            if buffer not in found:
                found[buffer] = None
                buffer.first, buffer.low, buffer.high, buffer.written = number, low, high, False
            buffer.last = number
            buffer.low, buffer.high = min(buffer.low, low), max(buffer.high, high)
            buffer.written = buffer.written or at < step.writes
    return list(found)


def plan_arena(buffers: Sequence[Buffer]) -> int:
    """Set the offset of each buffer in the arena; return the bytes of the arena."""
    inside = [buffer for buffer in buffers if buffer.kind == "arena"]
    blocks = [Block(buffer.nbytes, buffer.first, buffer.last) for buffer in inside]
    size = place_blocks(blocks)
    for buffer, block in zip(inside, blocks, strict=True):
        buffer.index = block.offset
    return size
