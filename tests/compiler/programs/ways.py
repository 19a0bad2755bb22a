"""Ways to compile in tests: what only large programs have, in small ones; and quickly, so that thousands are made.

``usual``     as users compile;
``regions``   from the first elements on regions share loops among threads, call BLAS, and have results in arenas;
``loops``     no regions; loops of every size, run by Python itself, so that none has to be compiled;
``mixed``     regions that end at random instructions, and such loops between them; each size soon has its own program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from retrograd.compiler.cpu import fusing, lowering, machine_code, product_kernels, regions
from retrograd.compiler.cpu.steps import Unlowered
from retrograd.compiler.passes import destinations, fused_loops, grouping, matrix_products
from retrograd.compiler.run import arenas, program_entry
from retrograd.compiler.trace import sizes
from retrograd.kernels.loops.matrices.products import TILES

Change = tuple[Any, str, Any]  # a module or class, a name in it, and what it is meanwhile

WAYS = ("usual", "regions", "loops", "mixed")


@contextmanager
def compiling(way: str, seed: int = 0) -> Iterator[None]:
    """Compile this way meanwhile."""
    changes: list[Change] = []
    if way != "usual":
        changes += ARENAS
    if way in ("regions", "mixed"):
        changes += REGIONS
    if way in ("loops", "mixed"):
        changes += loops_of_every_size()
    if way == "loops":
        changes.append(NO_REGIONS)
    if way == "mixed":
        changes += [(lowering.Lowering, "lower", ending_at_random(seed)), (sizes, "FREQUENT_CALLS", 2)]
    patches = [patch.object(holder, name, value) for holder, name, value in changes]
    for change in patches:
        change.start()
    try:
        yield
    finally:
        for change in reversed(patches):
            change.stop()


def ending_at_random(seed: int) -> Callable[..., Any]:
    """``Lowering.lower``, which refuses one instruction in five."""
    rng, lower = np.random.default_rng(seed), lowering.Lowering.lower

    def run(self: Any, instruction: Any) -> None:
        if rng.random() < 0.2:
            raise Unlowered("by chance")
        lower(self, instruction)

    return run


NO_REGIONS: Change = (program_entry, "compiled_regions", lambda steps, *rest: list(steps))

# Loops run by Python


def multiplied(
    x: Any, x_turned: bool, y: Any, y_turned: bool, out: Any, block: int, how: int, taken: Any, cuts: Any,
    start: int, stop: int, times: Any, over: Callable[..., None], given: tuple[Any, ...],
) -> None:  # fmt: skip
    """What ``kernels.matrices.product_loops`` does to blocks of rows, or of columns."""
    product = (x.T if x_turned else x) @ (y.T if y_turned else y)
    m, n = out.shape
    if how == TILES:
        start, stop, block = 0, 2, -(-m // 2)
    for first in range(start * block, min(max(m, n), stop * block), block):
        rows, columns = ((first, min(m, first + block)), (0, n)) if m >= n else ((0, m), (first, min(n, first + block)))
        place = slice(*rows), slice(*columns)
        out[place] = product[place] + times * out[place] if times else product[place]
        over(given, out, *rows, *columns)


def loops_of_every_size(made: Callable[[str], None] = lambda source: None) -> list[Change]:
    """Loops from the second element on, which Python runs; ``made`` is told their sources."""

    def shared(**options: Any) -> Any:
        def loop(body: Any) -> Any:
            return lambda words, threads, start, total, part, *args: body(*args, start, total)

        return loop

    def run(source: str) -> Any:
        scope: dict[str, Any] = {"apart": lambda body: body, "shared": shared}
        exec(source.replace("from retrograd.kernels.runtime.thread_protocol import apart, shared\n", ""), scope)
        scope |= {"_sum": np.sum, "parts": multiplied}
        made(source)
        return scope["loop"]

    return [
        (grouping, "MIN_ELEMENTS", 2), (grouping, "MIN_ROW", 1), (fused_loops, "BLOCK_ELEMENTS", 4),
        (matrix_products, "USEFUL", 0), (fused_loops, "compiled_loop", run), (matrix_products, "compiled_loop", run),
    ]  # fmt: skip


# LLVM without optimization


def _quickly(text: str, _: Any) -> bytes:
    import llvmlite.binding as llvm

    cpu, features = machine_code._processor()
    target = llvm.Target.from_default_triple().create_target_machine(cpu=cpu, features=features, opt=0, jit=True)
    module = llvm.parse_assembly(text)
    module.triple, module.data_layout = target.triple, str(target.target_data)
    module.verify()
    return bytes(target.emit_object(module))


# Bytes; a single number may be a scalar.
ARENAS: list[Change] = [
    (arenas, "MIN_PLANNED_BYTES", 9),
    (destinations, "MIN_PLANNED_BYTES", 9),
]
REGIONS: list[Change] = [
    (machine_code, "_compiled", _quickly), (machine_code, "read_region", lambda key: None),
    (machine_code, "write_region", lambda key, code: None), (fusing, "MIN_SHARED_ELEMENTS", 8), (fusing, "BLOCK", 4),
    (product_kernels, "MAX_LOOP_MULTIPLICATIONS", 8), (regions, "MAX_GIL_OPERATIONS", 0.0),
]  # fmt: skip
