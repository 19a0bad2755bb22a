"""Ways to compile in tests: what only large programs have, in small ones; and quickly, so that thousands are made.

``usual``     as users compile;
``regions``   from the first elements on regions share loops among threads, call BLAS, and have results in arenas;
``loops``     no regions; loops of every size;
``mixed``     regions that end at random instructions, and such loops between them; each size soon has its own program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from retrograd.compiler.cpu import fusing, lowering, machine_code, product_kernels, regions
from retrograd.compiler.cpu.region_steps import Unlowered
from retrograd.compiler.passes import destinations, fused_loops, grouping, matrix_products, recomputing
from retrograd.compiler.passes.grouping import grouped
from retrograd.compiler.run import arenas, program_entry
from retrograd.compiler.trace import sizes

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

# Loops


def loops_of_every_size(made: Callable[[], None] = lambda: None) -> list[Change]:
    """Loops from the second element on; ``made`` is called when one is made."""

    class Loop(fused_loops.Loop):
        def __init__(self, group: fused_loops.Group) -> None:
            super().__init__(group)
            made()

    return [
        (grouping, "MIN_ELEMENTS", 2), (grouping, "MIN_ROW", 1), (fused_loops, "BLOCK_ELEMENTS", 4),
        (matrix_products, "USEFUL", 0), (grouped, "__defaults__", (grouping.PROCESSOR._replace(loop=Loop),)),
    ]  # fmt: skip


# LLVM without optimization


def _quickly(text: str) -> bytes:
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
    (arenas, "MIN_LENT_BYTES", 128), (arenas, "MIN_LENDING_ARENA", 0),
    (recomputing, "MIN_ARENA", 0), (recomputing, "MIN_BYTES", 9), (recomputing, "MIN_GAIN", -9.0),
    (recomputing, "MIN_DISTANCE", 1),
]  # fmt: skip
REGIONS: list[Change] = [
    (machine_code, "_compiled", _quickly), (fusing, "MIN_SHARED_ELEMENTS", 8), (fusing, "BLOCK", 4),
    (product_kernels, "MAX_LOOP_MULTIPLICATIONS", 8), (regions, "MAX_GIL_OPERATIONS", 0.0),
]  # fmt: skip
