"""Trainings on several recorded batches, measured on another one: whether what an edit lets a copy learn carries over.

A network memorizes a single batch under most mistakes. The calls of a recorded step are given the data of other
recorded steps that made the same calls.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ....core.tensor.tensor import Tensor, new_tensor
from ..findings import figure
from ..run import Run
from ..step_recorder import Array, Inputs, Params, Step
from .proof import train_over
from .replay import NOTHING, Budget, Changes, Program, Replacement, reproduces

if TYPE_CHECKING:
    from ....nn.base.module import Module
    from ..kinds import Case

_MOST = 5  # batches
STEPS = 60  # of a trial


class Carried(NamedTuple):
    """The loss before training, and the losses of a batch that no copy was trained with, with an edit and without."""

    start: float
    fixed: float
    plain: float


def batches(run: Run, program: Program) -> list[Changes]:
    """Return the changes that give a program the data of recorded steps that made the same calls, the last step last.

    A batch counts if the program has the loss of its step with them.
    """
    root = next((n for n, x in enumerate(program.step.roots) if x.source == program.source), -1)
    found: list[Changes] = []
    for step in run.steps:
        changes = None if step is program.step else data_of(program, step)
        if changes is None or not 0 <= root < len(step.roots):
            continue
        if reproduces(program, step.roots[root].value, {**program.values, **step.values}, changes):
            found.append(changes)
    return [*found[1 - _MOST :], NOTHING]


def data_of(program: Program, step: Step) -> Changes | None:
    """Return the constants, random numbers and parameters of the calls of another step, if it made the same calls."""
    drawn: dict[int, Replacement] = {}
    inputs: dict[tuple[int, int], Array] = {}
    params: dict[int, Params] = {}
    for index in program.order:
        mine = program.step.calls[index]
        other = step.calls[index] if index < len(step.calls) else None
        if other is None or other.name != mine.name or len(other.inputs) != len(mine.inputs):
            return None
        params[index] = other.params
        if mine.record.creates and other.outputs and not mine.record.requires_grad:
            drawn[index] = partial(_given, other.outputs)
        for place, (x, y) in enumerate(zip(mine.inputs, other.inputs, strict=True)):
            if (x.call < 0) != (y.call < 0) or x.leaf is not y.leaf:
                return None
            if x.leaf is None and (x.call < 0 or program.is_given(x)) and hasattr(y.value, "dtype"):
                inputs[index, place] = y.value
    return Changes(drawn, params, inputs)


def _given(outputs: Inputs, *args: object, **params: object) -> Inputs:
    return tuple(map(new_tensor, outputs))


def carried_over(
    run: Run,
    program: Program,
    edit: Changes | Program,
    budget: Budget,
    most: int = STEPS,
    options: Mapping[str, float] = MappingProxyType({}),
) -> Carried | None:
    """Return the losses of the last of several batches for copies that were trained on those before it.

    An edit is what changes besides for each batch, or another program; ``options`` is as in ``Edit``. None if the steps
    for trials are used up, or a loss is not finite.
    """
    known = batches(run, program)
    budget.allow(2 * STEPS)
    seen = len(known) - 1 or 1
    steps = budget.share(2, most)
    if steps < 2 * seen:
        return None
    fixed_by, given = (edit, known) if isinstance(edit, Program) else (program, [_both(x, edit) for x in known])
    try:
        fixed, plain = (
            train_over(run, one, data[:seen], steps // seen, budget, data[-1], factors)
            for one, data, factors in ((fixed_by, given, options), (program, known, {}))
        )
    except Exception:
        return None
    return None if fixed is None or plain is None else Carried(plain[0], fixed[-1], plain[-1])


def gain(case: Case, edit: Changes, how: str, below: float, most: int = 0) -> str:
    """Return what copies reach with an edit, and as written, on a batch that they were not trained with.

    It is empty unless the edit brings the loss below this share of the loss as written, and of that of the whole run.
    ``how`` says what the copies do, and ``most`` bounds the steps, which are those of the run.
    """
    program = case.program
    if program is None or program.step is not case.step:
        return ""
    carried = carried_over(case.run, program, edit, case.budget, most or len(case.losses))
    if carried is None or not carried.fixed < below * min(carried.plain, carried.start if most else case.ends()[1]):
        return ""
    return (
        f"Copies of the network {how} reach a loss of {figure(carried.fixed)} on a recorded batch that they were not "
        f"trained with, as written {figure(carried.plain)}."
    )


def untied(program: Program, module: Module, starts: Mapping[int, Array]) -> Program:
    """Return a program in which each call of a module has weights of its own, later ones with exchanged elements."""
    step, rng = program.step, np.random.default_rng(0)
    own = {id(p): p for p in module.parameters()}
    calls = list(step.calls)
    for entry in [x for x in step.modules if x.module is module][1:]:
        copied: dict[int, Tensor] = {}
        for key, p in own.items():
            values = np.asarray(starts.get(key, p.array))
            copied[key] = new_tensor(rng.permutation(values.reshape(-1)).reshape(values.shape))
            copied[key].requires_grad = p._requires
        for index in range(entry.start, entry.end):
            call = calls[index] = copy.copy(step.calls[index])
            call.inputs = tuple(
                [x if id(x.leaf) not in copied else x._replace(leaf=copied[id(x.leaf)]) for x in call.inputs]
            )
    other = Program(replace(step, calls=calls), program.source, program.moving, program.scale)
    other.values = program.values
    return other


def _both(given: Changes, edit: Changes) -> Changes:
    calls, params = {**given.calls, **edit.calls}, {**given.params, **edit.params}
    return replace(edit, calls=calls, params=params, inputs={**given.inputs, **edit.inputs})
