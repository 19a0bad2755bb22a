"""The compiled loops of random numbers: parts of the stream of NumPy's PCG64, with the bits that NumPy draws.

A state of the generator is a number s of 128 bits, and the next one is ``a s + c``, so that any later state follows in
a few steps. An output of 64 bits makes two numbers in single precision, the first one from its lower half.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ...runtime.numba_functions import njit
from ...runtime.thread_protocol import shared

_Words = tuple[np.uint64, np.uint64]  # the upper and the lower half of a number of 128 bits
_FACTOR: _Words = np.uint64(0x2360ED051FC65DA4), np.uint64(0x4385DF649FCCF645)  # a
_ZERO, _ONE = (np.uint64(0), np.uint64(0)), (np.uint64(0), np.uint64(1))
_BLOCK = 256  # number of outputs that are computed before they become numbers, several at once: a multiple of 4


@intrinsic
def _upper_of_product(typing_context: object, x: object, y: object) -> object:
    """Return the upper 64 bits of a product."""
    double = ir.IntType(128)

    def generate(context: object, builder: ir.IRBuilder, signature: object, arguments: Sequence[ir.Value]) -> ir.Value:
        product = builder.mul(*[builder.zext(number, double) for number in arguments])
        return builder.trunc(builder.lshr(product, double(64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


_upper_half: Callable[..., np.uint64] = _upper_of_product


@njit
def _next(s: _Words, a: _Words, c: _Words) -> _Words:
    """Return ``a s + c`` modulo 2^128."""
    low = s[1] * a[1] + c[1]
    return _upper_half(s[1], a[1]) + s[0] * a[1] + s[1] * a[0] + c[0] + np.uint64(low < c[1]), low


@njit
def _steps(count: int, c: _Words) -> tuple[_Words, _Words]:
    """Return a and c of ``count`` steps at once."""
    whole, rest, factor = _ONE, _ZERO, _FACTOR
    while count:
        if count & 1:
            whole, rest = _next(whole, factor, _ZERO), _next(rest, factor, c)
        factor, c = _next(factor, factor, _ZERO), _next(c, factor, c)
        count >>= 1
    return whole, rest


@njit
def _output(s: _Words) -> np.uint64:
    mixed, turn = s[0] ^ s[1], s[0] >> np.uint64(58)
    return mixed >> turn | mixed << (-turn & np.uint64(63))


def _drawing(name: str, number: Callable[..., object]) -> object:
    """Return a loop that draws pairs ``start`` to ``stop`` of ``out``; ``state`` has s and c from before the first."""
    number = njit(number)

    def body(state: np.ndarray, unit: object, out: np.ndarray, start: int, stop: int) -> None:
        words = np.empty(_BLOCK, np.uint64)
        halves = words.view(np.uint32)
        c = state[2], state[3]
        far, more = _steps(4, c)
        # Four streams at once: the multiplications of one wait for each other.
        first = _next((state[0], state[1]), *_steps(start + 1, c))
        second = _next(first, _FACTOR, c)
        third = _next(second, _FACTOR, c)
        fourth = _next(third, _FACTOR, c)
        for begin in range(start, stop, _BLOCK):
            count = min(_BLOCK, stop - begin)
            for k in range(0, count, 4):
                words[k], words[k + 1] = _output(first), _output(second)
                words[k + 2], words[k + 3] = _output(third), _output(fourth)
                first, second = _next(first, far, more), _next(second, far, more)
                third, fourth = _next(third, far, more), _next(fourth, far, more)
            some = out[2 * begin : 2 * (begin + count)]
            for j in range(some.size):
                some[j] = number(np.int32(halves[j] >> np.uint32(8)), unit)

    body.__name__ = name
    return shared(noalias=True)(body)


# From 24 bits: numbers in [0, 1), which are multiples of 2^-24; and whether the 24 bits are less than a number.
uniform = _drawing("uniform", lambda bits, unit: np.float32(bits) * unit)
below = _drawing("below", lambda bits, bound: bits < np.int32(bound))
