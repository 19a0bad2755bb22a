"""Scalars: NumPy gives them where a Tensor has an array without dimensions, whose memory may be viewed and written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..program import Instruction, Program, Value


def as_array(x: Any) -> Any:
    """An array without dimensions of NumPy's scalar."""
    return np.asarray(x)


def no_scalar(x: Any) -> Any:
    """An array of NumPy's scalar; any other array as it is."""
    return np.asarray(x) if isinstance(x, np.generic) else x


def leave_scalars(program: Program, outputs: Sequence[Value], split: int | None) -> int | None:
    """Take ``as_array`` out of a program in which nobody views or writes such memory.

    Returns:
        Where the backward part begins then, for ``split`` where it began.
    """
    instructions = program.instructions
    outs = {out for step in instructions if step.kind == "primitive" or _is_array(step) for out in step.outs}
    used = [v for step in instructions for v in (*step.outs, *step.writes) if v.root is not v or v in step.writes]
    if any(value.root.shape == () and value.root in outs for value in used) or len(set(outputs)) < len(outputs):
        return split  # and copies of arrays are arrays, those of scalars are not
    made = {step.args[0]: step.outs[0] for step in instructions if _is_array(step)}
    for step in instructions:
        if not made.keys().isdisjoint(step.outs):
            step.outs = tuple([made.get(out, out) for out in step.outs])
    program.instructions = [step for step in instructions if not _is_array(step)]
    return None if split is None else split - sum(map(_is_array, instructions[:split]))


def _is_array(step: Instruction) -> bool:
    return step.function is as_array
