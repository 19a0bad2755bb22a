"""NumPy scalars in a program, where eager calls have 0-d arrays.

A NumPy function returns a scalar for a 0-d result. The memory of a Tensor may be viewed and written, so a Tensor needs
an array.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...core.arrays import Array
from ..program import Instruction, Program, Value


def as_array(x: object) -> Array:
    """Return a 0-d array for a NumPy scalar."""
    return np.asarray(x)


def ensure_array(x: Array) -> Array:
    """Return a 0-d array for a NumPy scalar, and any other array unchanged."""
    return np.asarray(x) if isinstance(x, np.generic) else x


def drop_scalar_conversions(program: Program, outputs: Sequence[Value], split: int | None) -> int | None:
    """Remove ``as_array`` from a program that neither views nor writes 0-d results.

    Returns:
        The index at which the backward part begins afterwards; ``split`` is the index before.
    """
    instructions = program.instructions
    outs = {out for step in instructions if step.kind == "primitive" or _is_array(step) for out in step.outs}
    used = [v for step in instructions for v in (*step.outs, *step.writes) if v.root is not v or v in step.writes]
    if any(value.root.shape == () and value.root in outs for value in used) or len(set(outputs)) < len(outputs):
        return split  # a copy of an array is an array, a copy of a scalar is a scalar
    made = {step.args[0]: step.outs[0] for step in instructions if _is_array(step)}
    for step in instructions:
        if not made.keys().isdisjoint(step.outs):
            step.outs = tuple([made.get(out, out) for out in step.outs])
    program.instructions = [step for step in instructions if not _is_array(step)]
    return None if split is None else split - sum(map(_is_array, instructions[:split]))


def _is_array(step: Instruction) -> bool:
    return step.function is as_array
