"""What caller and helpers of the pool do without Python's lock: to launch a loop, to wait for one, to take its parts.

They meet in a block of memory (``thread_memory.py``). A launch is *open* from when the caller writes it
until the caller has finished its own parts. Helpers may join until then, and the caller returns when all of them have
left. One thread takes each part. Two callers never launch at once: the second caller computes all of its parts itself.
"""
# mypy: disable-error-code="no-untyped-def, type-arg, attr-defined, call-arg, var-annotated"

from __future__ import annotations

import time
from inspect import signature

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from . import thread_memory as at
from .levels import machine
from .loop_calls import Loop
from .numba_functions import Shared, njit, routine

_PREEMPTED = 50_000  # nanoseconds between two looks for work: somebody else ran in between, and needs the core
_AWAKE = 500_000  # nanoseconds for which a helper looks without pause: after that it sleeps between two looks
_LOOKS = 2000  # of a caller at the helpers' work, before it does the same
_MONOTONIC = getattr(time, "CLOCK_MONOTONIC", 1)
_WORD = ir.IntType(64)
_HINT = ir.IntType(32)
_WAITS = {  # the instruction for loops that wait
    "x86_64": ("llvm.x86.sse2.pause", []),
    "AMD64": ("llvm.x86.sse2.pause", []),
    "aarch64": ("llvm.aarch64.hint", [_HINT(1)]),
    "arm64": ("llvm.aarch64.hint", [_HINT(1)]),
}


def _word(builder, address):
    return builder.inttoptr(address, _WORD.as_pointer())


@intrinsic
def load(typing_context, address):
    """The word at an address."""

    def generate(context, builder, signature, arguments):
        return builder.load_atomic(_word(builder, arguments[0]), "seq_cst", 8)

    return types.int64(types.int64), generate


@intrinsic
def store(typing_context, address, value):
    """Write the word at an address."""

    def generate(context, builder, signature, arguments):
        builder.store_atomic(arguments[1], _word(builder, arguments[0]), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def add(typing_context, address, value):
    """Add to the word at an address; what it was before."""

    def generate(context, builder, signature, arguments):
        return builder.atomic_rmw("add", _word(builder, arguments[0]), arguments[1], "seq_cst")

    return types.int64(types.int64, types.int64), generate


@intrinsic
def exchange(typing_context, address, value):
    """Write the word at an address; what it was before."""

    def generate(context, builder, signature, arguments):
        return builder.atomic_rmw("xchg", _word(builder, arguments[0]), arguments[1], "seq_cst")

    return types.int64(types.int64, types.int64), generate


@intrinsic
def pause(typing_context):
    """Tell the processor that this loop waits."""

    def generate(context, builder, signature, arguments):
        name, words = _WAITS.get(machine(), (None, []))
        if name:
            kind = ir.FunctionType(ir.VoidType(), [word.type for word in words])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, name), words)
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def call(typing_context, address, arguments):
    """Call the C function at an address with words; the int it returns."""

    def generate(context, builder, signature, values):
        words = cgutils.unpack_tuple(builder, values[1])
        function = ir.FunctionType(ir.IntType(32), [_WORD] * len(words)).as_pointer()
        return builder.call(builder.inttoptr(values[0], function), words)

    return types.int32(types.int64, arguments), generate


@intrinsic
def _clock_words(typing_context):
    """The address of two words in the caller's frame."""

    def generate(context, builder, signature, arguments):
        return builder.ptrtoint(cgutils.alloca_once(builder, ir.ArrayType(_WORD, 2)), _WORD)

    return types.int64(), generate


@njit
def _take_parts(words):
    function, data, total, part = (
        load(words + at.TASK),
        load(words + at.DATA),
        load(words + at.TOTAL),
        load(words + at.PART),
    )
    while True:
        start = add(words + at.NEXT, part)
        if start >= total:
            return
        if call(function, (data, start, min(total, start + part))) != 0:
            store(words + at.FAILED, 1)


@routine
def launch(words, threads, start, total, part, function, data):
    """Work off ``function(data, start, stop)`` on the parts of ``range(total)``; return when nobody works any more.

    Raises MemoryError where a part did.
    """
    if threads <= 1 or part >= total or exchange(words + at.BUSY, 1) != 0:
        if call(function, (data, start, total)) != 0:
            raise MemoryError
        return
    store(words + at.TASK, function)
    store(words + at.DATA, data)
    store(words + at.TOTAL, total)
    store(words + at.PART, part)
    store(words + at.WANTED, threads - 1)
    store(words + at.JOINED, 0)
    store(words + at.FAILED, 0)
    store(words + at.NEXT, 0)
    store(words + at.OPEN, add(words + at.LAUNCHES, 1) + 1)
    _take_parts(words)
    store(words + at.OPEN, 0)
    looks = 0
    while load(words + at.INSIDE) != 0:
        pause()
        looks += 1
        if looks > _LOOKS:  # a helper may wait for a core: the system gives it one that lies idle
            call(load(words + at.SLEEP), (at.NAP,))
    failed = load(words + at.FAILED)
    store(words + at.BUSY, 0)
    if failed != 0:
        raise MemoryError


@njit
def _serve(words):
    """Join launches until there was none for some time, Python wants the thread, or somebody else needs the core."""
    clock_words = _clock_words()
    last = mode = looks = 0
    since = worked = looked = _now(words, clock_words)
    while load(words + at.CALLED) == 0:
        number = load(words + at.OPEN)
        if number != 0 and number != last:
            last = number
            add(words + at.INSIDE, 1)
            if load(words + at.OPEN) != 0 and add(words + at.JOINED, 1) < load(words + at.WANTED):
                if load(words + at.MODE) != mode:
                    mode = load(words + at.MODE)
                    call(load(words + at.SET_MODE), (mode,))
                _take_parts(words)
                since = worked = looked = _now(words, clock_words)
            add(words + at.INSIDE, -1)
            continue
        pause()
        looks += 1
        if looks % 32 == 0:
            now = _now(words, clock_words)
            if number != 0:  # the caller is still at work, and may launch the next thing soon
                since = now
            if now - since > load(words + at.SPIN) or now - looked > _PREEMPTED:
                return
            if now - worked > _AWAKE:
                call(load(words + at.SLEEP), (at.NAP,))
            else:
                call(load(words + at.YIELD), ())  # the caller may be waiting for this very core
            looked = _now(words, clock_words)


@njit
def _now(words, clock_words):
    call(load(words + at.CLOCK), (_MONOTONIC, clock_words))
    return load(clock_words) * 1_000_000_000 + load(clock_words + 8)


serve = Loop(__name__, "serve", _serve)


apart = njit(noalias=True, error_model="numpy")


def shared(*fastmath, noalias=False):
    """Make of a loop for a part of its range, ``body(*args, start, stop)``, a ``Loop`` that ``threads.launch`` shares.

    ``noalias`` promises that what it writes lies in no other argument. What comes first among its arguments says how:
    the words' address, threads, start, total, and the size of a part.
    """

    def make(body):
        part = njit(fastmath=set(fastmath), error_model="numpy", noalias=noalias)(body)
        assert [*signature(body).parameters][-2:] == ["start", "stop"], body
        return Loop(body.__module__, body.__name__, Shared(part, launch, 5))

    return make
