"""Optimize a program before it is replayed: each file is one pass, or a part of the fusion pass.

A pass takes a list of instructions and returns another; ``optimized`` calls the passes in order, and ``compiler.run``
calls it. The code generators of ``cpu``, ``cuda`` and ``loops`` import ``expressions`` and the fusion.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...kernels import compiled
from ..program import Instruction, Value


def optimized(instructions: Sequence[Instruction], gives: Sequence[Value]) -> list[Instruction]:
    """Return a program that computes the same results by fewer instructions.

    Args:
        gives: the results of the program.
    """
    if compiled() is None:  # without the library's loops no pass is faster
        return list(instructions)
    from .constants import without_repeats
    from .destinations import request_results
    from .expressions import keeps_shapes
    from .grouping import grouped
    from .matrix_products import accumulated
    from .maxima import maxima_first
    from .order import versions
    from .overwriting import overwritten

    made = {out for step in instructions for out in step.outs}
    takes = [x for step in instructions for x in step.reads() if x not in made]
    steps = [step.changed(checks=False) if step.checks and keeps_shapes(step) else step for step in instructions]
    steps = maxima_first(accumulated(without_repeats(steps, takes, gives), gives), gives)
    return request_results(overwritten(grouped(versions(steps, takes), gives), takes, gives))


__all__ = ["optimized"]
