"""Fuse instructions on a GPU to kernels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ..passes.constants import without_repeats
from ..passes.expressions import keeps_shapes, row_major, steps_of
from ..passes.grouping import Part, Target, grouped, sum_of
from ..passes.layouts import fits
from ..passes.order import versions
from ..program import Instruction, Value
from .cpp_expressions import DTYPES, GPU
from .kernels import CudaLoop, Module
from .update_kernels import with_updates


def fused(instructions: Sequence[Instruction], gives: Sequence[Value], module: Module) -> list[Instruction]:
    """Return a program that computes the same results with fewer kernels.

    Args:
        module: receives the kernels.
    """
    made = {out for step in instructions for out in step.outs}
    takes = [x for step in instructions for x in step.reads() if x not in made]
    steps = [step.changed(checks=False) if step.checks and keeps_shapes(step) else step for step in instructions]
    steps = with_updates(steps, module)
    target = Target(part_of, _same_axes, partial(CudaLoop, module=module), True, False)
    return grouped(versions(without_repeats(steps, takes, gives), takes), gives, target)


def part_of(step: Instruction) -> Part | None:
    """Return an instruction as a part of a kernel, or None."""
    if step.kind not in ("array", "primitive", "whole") or step.writes or len(step.outs) != 1 or step.several:
        return None
    (out,) = step.outs
    if step.view or out.shape is None or not out.on_gpu or out.root is not out or not out.size:
        return None
    total = sum_of(step)
    if total is not None:
        return Part(total.of.shape, [], total) if total.of.dtype in DTYPES and total.of.size else None
    steps = steps_of(step, GPU)
    if steps is None or not row_major(out) or out.dtype not in DTYPES:
        return None
    part = Part(out.shape, steps, None)
    arrays = [x for x in part.reads if x.shape is not None]
    return part if all(x.on_gpu and _aligned(x) and fits(x, out.shape) for x in arrays) else None


def _aligned(value: Value) -> bool:
    """Return whether all strides are multiples of the element size."""
    return all(stride % value.dtype.itemsize == 0 for stride in value.strides)


def _same_axes(shape: tuple[int, ...], arrays: Sequence[Value], reduced: Sequence[frozenset[int]]) -> bool:
    """Return whether one kernel can compute all sums, that is, whether they reduce the same axes."""
    return len(set(reduced)) <= 1 and all(reduced)
