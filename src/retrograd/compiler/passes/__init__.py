"""What is done to a program before it is replayed: each file is one pass, or what passes stand on."""

from __future__ import annotations

from collections.abc import Sequence

from ...kernels import compiled
from ..program import Instruction, Value


def optimized(instructions: Sequence[Instruction], gives: Sequence[Value]) -> list[Instruction]:
    """A program that computes the same in fewer instructions.

    Args:
        instructions: in the order in which they run.
        gives: the values that are wanted of it.
    """
    if compiled() is None:
        return list(instructions)
    from .destinations import asking
    from .expressions import keeps_shapes
    from .groups import grouped
    from .order import versions
    from .products import accumulated
    from .repeats import without_repeats

    made = {out for step in instructions for out in step.outs}
    takes = [x for step in instructions for x in step.reads() if x not in made]
    steps = [step.changed(checks=False) if step.checks and keeps_shapes(step) else step for step in instructions]
    steps = accumulated(without_repeats(steps, takes, gives), gives)
    return asking(grouped(versions(steps, takes), gives))


__all__ = ["optimized"]
