"""The protocol by which a caller and the workers of the thread pool share a loop without the GIL.

The threads communicate by a block of memory (``thread_memory.py``). A launch is *open* from the moment the caller
publishes it until the caller finds no further part to compute. Workers may join until then, and the caller returns when
all of them have left. Each part is computed by one thread. Only one launch is open at a time: a second caller computes
all of its parts itself.
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

_PREEMPTED = 50_000  # a worker assumes that it was preempted if this many ns pass between two polls
_AWAKE = 500_000  # ns for which an idle worker polls without sleeping between polls
_LOOKS = 2000  # number of polls after which a waiting caller sleeps between polls
_MONOTONIC = getattr(time, "CLOCK_MONOTONIC", 1)
_WORD = ir.IntType(64)
_HINT = ir.IntType(32)
_WAITS = {  # the instruction for spin loops
    "x86_64": ("llvm.x86.sse2.pause", []),
    "AMD64": ("llvm.x86.sse2.pause", []),
    "aarch64": ("llvm.aarch64.hint", [_HINT(1)]),
    "arm64": ("llvm.aarch64.hint", [_HINT(1)]),
}


def _word(builder, address):
    return builder.inttoptr(address, _WORD.as_pointer())


@intrinsic
def load(typing_context, address):
    """Return the word at an address, atomically."""

    def generate(context, builder, signature, arguments):
        return builder.load_atomic(_word(builder, arguments[0]), "seq_cst", 8)

    return types.int64(types.int64), generate


@intrinsic
def store(typing_context, address, value):
    """Write the word at an address, atomically."""

    def generate(context, builder, signature, arguments):
        builder.store_atomic(arguments[1], _word(builder, arguments[0]), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def add(typing_context, address, value):
    """Add to the word at an address, atomically; return its old value."""

    def generate(context, builder, signature, arguments):
        return builder.atomic_rmw("add", _word(builder, arguments[0]), arguments[1], "seq_cst")

    return types.int64(types.int64, types.int64), generate


@intrinsic
def exchange(typing_context, address, value):
    """Write the word at an address, atomically; return its old value."""

    def generate(context, builder, signature, arguments):
        return builder.atomic_rmw("xchg", _word(builder, arguments[0]), arguments[1], "seq_cst")

    return types.int64(types.int64, types.int64), generate


@intrinsic
def pause(typing_context):
    """Hint to the processor that the thread is in a spin loop."""

    def generate(context, builder, signature, arguments):
        name, words = _WAITS.get(machine(), (None, []))
        if name:
            kind = ir.FunctionType(ir.VoidType(), [word.type for word in words])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, name), words)
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def call(typing_context, address, arguments):
    """Call the C function at an address with word arguments; return its int."""

    def generate(context, builder, signature, values):
        words = cgutils.unpack_tuple(builder, values[1])
        function = ir.FunctionType(ir.IntType(32), [_WORD] * len(words)).as_pointer()
        return builder.call(builder.inttoptr(values[0], function), words)

    return types.int32(types.int64, arguments), generate


@intrinsic
def _clock_words(typing_context):
    """Return the address of two words on the stack."""

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
    """Run ``function(data, start, stop)`` on the parts of ``range(total)``; return when all threads have finished.

    Raise MemoryError if a part failed.
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
        if looks > _LOOKS:  # a worker may be preempted: while the caller sleeps, the scheduler can run it
            call(load(words + at.SLEEP), (at.NAP,))
    failed = load(words + at.FAILED)
    store(words + at.BUSY, 0)
    if failed != 0:
        raise MemoryError


@njit
def _serve(words):
    """Join launches until none is open for a while, Python calls the worker, or another process preempts it."""
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
            if number != 0:  # the launch is still open, and another launch may follow soon
                since = now
            if now - since > load(words + at.SPIN) or now - looked > _PREEMPTED:
                return
            if now - worked > _AWAKE:
                call(load(words + at.SLEEP), (at.NAP,))
            else:
                call(load(words + at.YIELD), ())  # the caller may be waiting for this core
            looked = _now(words, clock_words)


@njit
def _now(words, clock_words):
    call(load(words + at.CLOCK), (_MONOTONIC, clock_words))
    return load(clock_words) * 1_000_000_000 + load(clock_words + 8)


serve = Loop(__name__, "serve", _serve)


apart = njit(noalias=True, error_model="numpy")


def shared(*fastmath, noalias=False):
    """Decorate ``body(*args, start, stop)``, a loop on part of a range, as a ``Loop`` for ``threads.launch``.

    ``noalias`` promises that arrays written by the body do not overlap its other arguments. The arguments of the
    ``Loop`` are the address of the words, the number of threads, start, total and the size of a part, then ``args``.
    """

    def make(body):
        part = njit(fastmath=set(fastmath), error_model="numpy", noalias=noalias)(body)
        assert [*signature(body).parameters][-2:] == ["start", "stop"], body
        return Loop(body.__module__, body.__name__, Shared(part, launch, 5))

    return make
