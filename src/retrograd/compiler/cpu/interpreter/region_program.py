"""A region as code that a loop of the library executes, instead of an LLVM module."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ....core.arrays.blas import SEVERAL
from ....core.opaque_calls import LoopMissing
from ....kernels import compiled, loop
from ....kernels.loops.regions import region_code as at
from ..machine_code import ITEMS
from ..region_steps import Buffer, Step, Unlowered, checked_pairs
from .step_code import StepCode


@cache
def execute() -> Callable[..., object] | None:
    """Return the loop that executes regions, or None if there is none."""
    if compiled() is None:
        return None
    try:
        found: Callable[..., object] = loop("loops.regions.region_loops", "execute").entry(0, 0)
    except LoopMissing:
        return None
    return found


class Repeated(NamedTuple):
    """A loop around a region: see ``StepCode.begin``."""

    rows: dict[Buffer, int]
    pairs: Sequence[tuple[Buffer, Buffer, bool, int]]
    reverse: bool


class RegionProgram:
    """The code of a region, or of a loop.

    The argument of ``call`` is a tuple: the inputs; the results; for a loop the number of repetitions and a second
    array for each carry; the thread pool if the program is ``threaded``; and the arena.

    Attributes:
        arena: the bytes of the arena.
        threaded: whether threads share products.
        multiplies: whether BLAS would use several threads for a product.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        inputs: Sequence[Buffer],
        outs: Sequence[Buffer],
        arena: int,
        repeated: Repeated | None = None,
    ) -> None:
        buffers = {buffer: number for number, buffer in enumerate([*inputs, *outs])}
        products = [step for step in steps if step.name == "gemm"]
        self.threaded = any(step.parts[0] > 1 for step in products)
        self.multiplies = any(step.flops >= SEVERAL for step in products)
        last = len(buffers) + (0 if repeated is None else 1 + len(repeated.pairs)) + self.threaded
        if last + 1 >= at.MAX_BUFFERS:
            raise Unlowered(f"more than {at.MAX_BUFFERS - 2} arrays")
        code = StepCode(buffers, last, last - 1 if self.threaded else -1, at.HEAD + -(-arena // 64) * 64)
        for pair in checked_pairs(steps):
            code.separate(*pair)
        begin = code.begin(len(buffers), *repeated) if repeated is not None else 0
        for step in steps:
            code.append(step)
        if begin:
            code.end(begin)
        self.arena = code.arena_bytes
        self._code = np.array([at.HEADER + len(code.words), last + 1, *code.words], np.int64)
        run = execute()
        if run is None:
            raise Unlowered("the library of loops is missing")
        self.call = _caller(run, self._code.ctypes.data)


def _caller(run: Callable[..., object], address: int) -> Callable[[tuple[Any, ...]], int]:
    """Return the function that runs code at an address on inputs, results and arena, and returns 0 if no check failed.

    It is a closure because a region of small arrays takes a few microseconds.
    """
    items, status = ITEMS, at.STATUS  # Python 3.14 has another layout of tuples

    def call(given: tuple[Any, ...]) -> int:
        run(id(given) + items, address)
        found: int = given[-1][status]
        return found

    return call
