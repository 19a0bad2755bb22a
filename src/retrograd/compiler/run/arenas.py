"""Plan the memory of a replay from the lifetimes of its arrays.

An instruction lists the arrays that its call requests (``Instruction.asked``). A requested array that does not leave
the program has a place in one arena, from its instruction to the last instruction that reads the array or a view of it;
arrays that live at the same time do not overlap. Arrays that leave have memory of their own: results, values for the
backward part, and values that effects read. A new gradient may reuse the memory of the leaf's last gradient, if nothing
else refers to that memory. Where arenas are large, it holds other arrays, too, until the new gradient is computed: a
``Host``. Each running replay has an arena of its own, so threads can replay one program at once; programs that run one
after the other share an arena. A replay that raises drops its arena.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakSet, WeakValueDictionary

import numpy as np

from ...core.arrays import Array
from ...core.arrays.dtypes import DType
from ...core.arrays.layout import empty_lines, place_of
from ...core.arrays.memory import caches
from ...core.tensor.tensor import Tensor
from ..program import Asked, Instruction, Value
from ..trace.effects import clear_grad, reusable_grad, run_step, set_grad

CACHE_LINE = 64  # bytes of a cache line, to which arrays are aligned
MIN_PLANNED_BYTES = 1 << 12  # minimum bytes of an array that is planned; NumPy caches small arrays itself
MIN_LENT_BYTES = 1 << 18  # minimum bytes of an array in a gradient's memory, and of the gradient
MIN_LENDING_ARENA = 1 << 23  # minimum bytes of an arena, above which arrays may lie in gradients' memory


class Block:
    """Memory that is in use from one instruction to another; ``offset`` says where in the arena it lies, or in the
    memory of the gradient ``host``."""

    __slots__ = ("first", "host", "last", "nbytes", "offset")

    def __init__(self, nbytes: int, first: int, last: int) -> None:
        self.nbytes = nbytes
        self.first, self.last = first, last
        self.offset = -1
        self.host: Host | None = None


class Host:
    """Memory of a leaf's new gradient, free for blocks from instruction ``opens`` until ``closes`` computes it."""

    __slots__ = ("asked", "blocks", "closes", "leaf", "opens")

    def __init__(self, leaf: Any, asked: Asked, opens: int, closes: int) -> None:
        self.leaf = leaf
        self.asked = asked
        self.opens, self.closes = opens, closes
        self.blocks: list[Block] = []

    def takes(self, block: Block) -> bool:
        """Place the block, if there is room for it as long as it is in use; return whether it has been placed."""
        if block.first < self.opens or block.last >= self.closes:
            return False
        room = prod(self.asked.shape) * self.asked.dtype.itemsize - CACHE_LINE  # the first cache line may be cut
        at, _ = _gap(block, [other for other in self.blocks if _meet(other, block)])
        if at + block.nbytes > room:
            return False
        block.offset, block.host = at, self
        self.blocks.append(block)
        return True


def _meet(one: Block, other: Block) -> bool:
    """Return whether two blocks are in use at once."""
    return other.first <= one.last and one.first <= other.last


def _gap(block: Block, beside: Iterable[Block]) -> tuple[int, int]:
    """Return the offset of the smallest gap between placed blocks that fits, and the bytes up to the block's end."""
    at, best, least = 0, -1, 0
    for other in sorted(beside, key=lambda other: other.offset):
        gap = other.offset - at
        if gap >= block.nbytes and (best < 0 or gap < least):
            best, least = at, gap
        at = max(at, -(-(other.offset + other.nbytes) // CACHE_LINE) * CACHE_LINE)
    offset = best if best >= 0 else at
    return offset, offset + block.nbytes


def place_in_hosts(blocks: Sequence[Block], hosts: Iterable[Host]) -> None:
    """Place blocks in the memory of gradients where that reduces the bytes in use at once."""
    hosts = sorted(hosts, key=lambda host: host.closes)
    # Blocks that are small or have been tried in all hosts.
    found = {block for block in blocks if block.nbytes < MIN_LENT_BYTES}
    used = [0] * (max((block.last for block in blocks), default=-1) + 1)
    for block in blocks:
        for number in range(block.first, block.last + 1):
            used[number] += block.nbytes
    while sum(used) and hosts:
        peak = max(range(len(used)), key=used.__getitem__)
        live = [x for x in blocks if x not in found and x.first <= peak <= x.last]
        moved = False
        for block in sorted(live, key=lambda block: -block.nbytes):
            found.add(block)
            if any(host.takes(block) for host in hosts):  # the host that closes first takes it
                moved = True
                for number in range(block.first, block.last + 1):
                    used[number] -= block.nbytes
        if not moved:
            return


def place_blocks(blocks: Iterable[Block]) -> int:
    """Set the offset of each block, largest first, to the smallest gap that fits; return the bytes of the arena."""
    placed: list[Block] = []
    size = 0
    for block in sorted(blocks, key=lambda block: -block.nbytes):
        block.offset, _ = _gap(block, [other for other in placed if _meet(other, block)])
        placed.append(block)
        size = max(size, block.offset + block.nbytes)
    return size


def aligned(size: int) -> Array:
    """Return ``size`` bytes of memory that begin at a cache line."""
    memory = np.empty(size + CACHE_LINE, np.uint8)
    away = -memory.ctypes.data % CACHE_LINE
    return memory[away : away + size]


class Slot(NamedTuple):
    """The place of an array that a call requests."""

    block: Block
    shape: tuple[int, ...]
    dtype: DType


class _Arena:
    """Memory, and the plan whose arrays were last created in it."""

    def __init__(self, size: int) -> None:
        self.memory = aligned(size)
        self.plan: Any = None
        self.arrays: tuple[tuple[Any, ...], ...] = ()


_idle: WeakValueDictionary[int, _Arena] = WeakValueDictionary()  # plans hold the references
_plans: WeakSet[Plan] = WeakSet()
_lock = Lock()


class Plan:
    """The places of all arrays that some instructions request.

    Args:
        takes: the values from outside.
        gives: the values that leave.
        cleared: the number of the instruction before which the program clears gradients.

    Attributes:
        slots: by instruction, a slot for each requested array, or None for new memory.
        reused: by instruction, for each requested array the leaf whose last gradient may be its memory, or None.
        leaving: by instruction with slots, the values that leave.
        hosts: by instruction and number of the requested array, gradients whose memory holds other arrays first.
        size: the bytes of the arena.
        outside: the roots of values that leave, and of values from outside of the program.
    """

    def __init__(
        self, instructions: Sequence[Instruction], takes: Iterable[Value], gives: Iterable[Value], cleared: int = 0
    ) -> None:
        last: dict[Value, int] = {}
        leaving = {value.root for value in (*takes, *gives)}
        for number, step in enumerate(instructions):
            for value in (*step.reads(), *step.outs):
                last[value.root] = number
            if step.kind == "effect":
                leaving.update(value.root for value in step.reads())
        leaves, opens = _reusable_gradients(instructions, {value.root for value in (*takes, *gives)}, cleared)
        hosts: dict[tuple[int, int], Host] = {}  # by instruction, and number of the requested array
        self.slots: dict[int, tuple[Slot | None, ...]] = {}
        self.reused: dict[int, tuple[object, ...]] = {}
        self.leaving: dict[int, list[Value]] = {}
        blocks: list[Block] = []
        for number, step in enumerate(instructions):
            found: list[Slot | None] = []
            spent: list[object] = []
            for asked in step.asked:
                shape, dtype, out = asked
                nbytes = prod(shape) * dtype.itemsize
                root = None if out is None else step.outs[out].root
                spent.append(None if root is None or nbytes < MIN_PLANNED_BYTES else leaves.get((number, root)))
                if spent[-1] is not None and nbytes >= MIN_LENT_BYTES and number > opens:
                    hosts[number, len(found)] = Host(spent[-1], asked, opens, number)
                if nbytes < MIN_PLANNED_BYTES or root in leaving or dtype.hasobject:
                    found.append(None)
                else:
                    blocks.append(Block(nbytes, number, number if root is None else last[root]))
                    found.append(Slot(blocks[-1], shape, dtype))
            if any(leaf is not None for leaf in spent):
                self.reused[number] = tuple(spent)
            if any(found):
                self.slots[number] = tuple(found)
                self.leaving[number] = [x for x in step.outs if x.root in leaving and x.shape is not None]
        self.size = place_blocks(blocks)
        if self.size >= MIN_LENDING_ARENA and hosts:
            place_in_hosts([block for block in blocks if not self.leaving[block.first]], hosts.values())
            self.size = place_blocks(block for block in blocks if block.host is None)
        self.hosts = {place: host for place, host in hosts.items() if host.blocks}
        self.outside = leaving
        self._arena: _Arena | None = None
        if self.size:
            _plans.add(self)

    def enter(self) -> _Arena:
        """Return an arena for one replay; its ``arrays`` belong to the instructions with slots, in order."""
        with _lock:
            arena = max(_idle.values(), key=lambda arena: arena.memory.size, default=None)
            if arena is None or arena.memory.size < self.size:
                arena = _Arena(self.size)
            else:
                del _idle[id(arena)]
            self._arena = arena
        if arena.plan is not self:
            arena.plan, arena.arrays = self, self._arrays(arena.memory)
        return arena

    def leave(self, arena: _Arena) -> None:
        """Release the arena at the end of a replay."""
        with _lock:
            if self._arena is None:
                self._arena = arena
            _idle[id(arena)] = arena

    def _arrays(self, memory: Array) -> tuple[tuple[Any, ...], ...]:
        return tuple(
            tuple(
                [
                    None if x is None or x.block.host is not None else np.ndarray(*x[1:], memory, x.block.offset)
                    for x in slots
                ]
            )
            for slots in self.slots.values()
        )


def _reusable_gradients(
    instructions: Sequence[Instruction], outer: set[Value], cleared: int
) -> tuple[dict[tuple[int, Value], Any], int]:
    """Find the leaves whose new gradient only they refer to, by the instruction and the root of the gradient; and the
    first instruction before which no check can need the last gradients any more.

    An instruction counts only if it follows all checks from before gradients are cleared: if such a check fails, the
    leaves must still have their gradients. A region runs its checks first.
    """
    first = opens = 0
    for number, step in enumerate(instructions):
        region = step.kind == "native"
        for part in step.parts if region else (step,):
            if part.number < cleared and (part.kind == "guard" or part.checks):
                first, opens = number + (not region), number + 1
    makers = {out.root: n for n, step in enumerate(instructions[first:], first) for out in step.outs if out.root is out}
    effects = [step for step in instructions if step.kind == "effect"]
    given = [(step.args[0], step.args[1].root) for step in effects if step.function is set_grad]
    gone = _cleared_between(effects)
    roots = [root for _, root in given]
    seen = {v.root for step in effects if step.function not in (set_grad, run_step) for v in step.reads()} | outer
    found = {
        (makers[root], root): leaf
        for leaf, root in given
        if root in makers and root not in seen and roots.count(root) == 1 and leaf not in gone
    }
    return found, opens


def _cleared_between(effects: Sequence[Instruction]) -> set[object]:
    """Return the leaves whose gradient is cleared before another one is set, as by an optimizer in a hook.

    The next replay finds no memory of their gradients, and memory that it allocated early would be in use for longer.
    """
    last = max((n for n, step in enumerate(effects) if step.function is set_grad), default=-1)
    new: set[object] = set()
    found: set[object] = set()
    for step in effects[:last]:
        if step.function is set_grad:
            new.add(step.args[0])
        elif step.function is clear_grad and step.args[0] in new:
            found.add(step.args[0])
    return found


def host_memory(leaf: Tensor, shape: tuple[int, ...], dtype: DType) -> Array:
    """Return the memory of a leaf's gradient, which the leaf loses, or new memory if another object may refer to it."""
    array = reusable_grad(leaf)
    if array is None or array.shape != shape or array.dtype != dtype:
        return empty_lines(shape, dtype)
    return array


def lend(memory: Array, shape: tuple[int, ...], dtype: DType, offset: int) -> Array:
    """Return an array in the memory of a gradient, ``offset`` bytes behind the gradient's first cache line."""
    return np.ndarray(shape, dtype, memory, -place_of(memory) % CACHE_LINE + offset)


def empty_arenas() -> None:
    """Free the memory of all arenas that no replay is using."""
    with _lock:
        for plan in list(_plans):
            plan._arena = None
        _idle.clear()


caches.append(empty_arenas)
