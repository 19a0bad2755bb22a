"""Train copies on several recorded batches and measure the loss on another: does the gain of an edit generalize?

Most mistakes do not keep a network from memorizing a single batch. Therefore the calls of a recorded step are repeated
with the data of other recorded steps that made the same calls.
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

_MOST = 5  # the most batches of a trial
STEPS = 60  # the number of steps of a trial


class Carried(NamedTuple):
    """The loss before training, and the losses on a held-out batch after training with an edit and without."""

    start: float
    fixed: float
    plain: float


def batches(run: Run, program: Program) -> list[Changes]:
    """Return the changes that run a program on the data of recorded steps with the same calls, its own step last.

    A step is used if the program with these changes reproduces the step's recorded loss.
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
    """Return the losses on the last of several batches for copies that were trained on the other batches.

    ``edit`` has further changes for each batch, or is another program; ``options`` is as in ``Edit``. Return None if
    the steps for trials are used up, or a loss is not finite.
    """
    known = batches(run, program)
    seen = len(known) - 1 or 1
    steps = budget.share(2, most, of_proof=True)
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
    """Return a sentence with the losses of copies, with an edit and as written, on a batch not used for training.

    The sentence is empty unless the loss with the edit is less than ``below`` times the loss as written and the last
    loss of the run. ``how`` describes the edit; ``most`` bounds the steps, by default the number of steps of the run.
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
    """Return a program in which each call of a module has separate weights; later calls get permuted elements."""
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
