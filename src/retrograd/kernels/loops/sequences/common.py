"""Helpers of the loops over sequences: matrices at an address, prefetches, copies of vectors, teams of threads."""
# mypy: disable-error-code="no-untyped-def, call-arg, arg-type, attr-defined"

from __future__ import annotations

from numba import carray, types
from numba.extending import intrinsic

from ...runtime.numba_functions import njit
from ...runtime.thread_memory import NAP
from ...runtime.thread_protocol import call, exchange, load, pause, store
from ...tiles.tiles import BYTES, LINE, address_of, prefetch, size_of
from ..elements.basic_loops import _loop, like
from .recurrent import HEAD


@intrinsic
def _pointer(typing_context, address, number):
    """Return the address as a pointer to numbers like ``number``."""

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(number)(types.int64, number), generate


@njit
def matrix_at(address, rows, columns, number):
    """Return the row-major matrix of numbers like ``number`` at an address."""
    return carray(_pointer(address, number), (rows, columns))


@intrinsic
def _fetch(typing_context, address):
    """Prefetch the cache line at an address, which need not be valid."""

    def generate(context, builder, signature, arguments):
        prefetch(builder, arguments[0], 0)
        return context.get_dummy_value()

    return types.void(types.int64), generate


@njit
def units_of(part, parts, size, number):
    """Return the range of units of a part; all but the last are whole vectors of numbers like ``number``."""
    lanes = BYTES // size_of(number)
    vectors = -(-size // lanes)
    return vectors * part // parts * lanes, min(size, vectors * (part + 1) // parts * lanes)


# Byte offsets of the words of a part of a team's steps, in different cache lines: the number of steps that are done,
# whether its thread is there, and whether each step was claimed.
_DONE, _PRESENT, _CLAIMS = 64, 128, 192
_PATIENCE = 1000  # number of polls after which a thread of a team computes the part of another one
_LOOKS = 2000  # number of polls after which a waiting thread sleeps between polls


@njit
def next_task(parts_at, team, batch, block, most, steps, stop, task):
    """Return the next task of a thread of a team: a step and a part of it, for rows ``low`` to ``high`` of a batch.

    Threads may share the steps of a recurrence: each computes its own parts of a step, whose weights stay in its cache,
    after all parts of the step before. The thread that claims a part first computes it. A thread that is not there, or
    does not come for long, loses a step of its part to another thread, so that a launch ends with any number of them.

    Items are blocks of rows, of which a thread processes some together, up to ``most`` rows. With several parts, the
    first of ``team``, items are the parts of successive blocks. ``team`` also contains the address of ``usleep`` or 0,
    and ``parts_at`` is the address of ``HEAD + 8 * steps`` bytes for each item, all 0 before the launch.

    A task is (step, part, low, high, begin, end, item): the thread's parts of the block are ``begin`` to ``end``, and
    ``item`` is its next one. The task before the first has the step ``steps``, as the result after the last one.
    """
    step, part, low, high, begin, end, item = task
    parts, sleep = team
    while True:
        if step < steps:
            words = parts_at + low // block * parts * (HEAD + 8 * steps)
            step, part = _next_part(words, parts, begin, end, step, part, steps, sleep)
        if step < steps or item >= stop:
            return step, part, low, high, begin, end, item
        begin, end, low = item % parts, min(parts, item % parts + stop - item), item // parts * block
        high = min(low + most, stop * block, batch) if parts == 1 else min(low + block, batch)
        item += -(-(high - low) // block) if parts == 1 else end - begin
        step, part = -1, end - 1


@njit
def _next_part(words, parts, begin, end, step, part, steps, sleep):
    if end - begin == parts:  # no other thread has parts of this block
        return (step, part + 1) if part + 1 < end else (step + 1, begin)
    size = HEAD + 8 * steps
    if step >= 0:
        store(words + part * size + _DONE, step + 1)
    for own in range(begin, end):
        if load(words + own * size + _PRESENT) == 0:
            store(words + own * size + _PRESENT, 1)
    looks = 0
    while True:
        step = steps
        for other in range(parts):
            step = min(step, load(words + other * size + _DONE))
        if step == steps:
            return steps, begin
        for place in range(parts):
            part = (begin + place) % parts
            here, own = words + part * size, place < end - begin
            claim = here + _CLAIMS + 8 * step
            if not own and looks <= _PATIENCE and load(here + _PRESENT) != 0:
                continue
            if load(claim) == 0 and exchange(claim, 1) == 0:
                if not own:
                    store(here + _PRESENT, 0)
                return step, part
        pause()
        looks += 1
        if looks > _LOOKS and sleep != 0:
            call(sleep, (NAP,))


@njit
def address(x):
    """Return where the elements of x begin in memory."""
    return address_of(x)


@njit
def area(x, row, apart, gates, size, u, v):
    """Return the place of the units ``u`` to ``v`` of some gates, in rows of x that are ``apart`` rows apart.

    It is the first address, the distance of rows, the number of gates, their distance, and the bytes of a gate's units.
    """
    step, item = x.strides[0], x.itemsize
    return address_of(x) + row * step + u * item, apart * step, gates, size * item, (v - u) * item


@njit
def fetch_rows(areas, start, stop):
    """Prefetch the rows ``start`` to ``stop`` of each area."""
    for row in range(start, stop):
        for begin, apart, gates, across, length in areas:
            for gate in range(gates):
                for place in range(0, length, LINE):
                    _fetch(begin + row * apart + gate * across + place)


@_loop
def copy(row, out):
    """Fill ``out`` from a vector that may be longer; an ``out`` of uint16 contains bfloat16 numbers."""
    for j in range(out.size):
        out[j] = like(row[j], out)
