"""Train a recorded step with and without an edit, from the same state, and compare the losses."""

from __future__ import annotations

import linecache
import math
import random
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ....autograd.influence import unobserved
from ....core.arrays.devices import backend_of
from ....core.graph.modes import enable_grad
from ....core.tensor.tensor import Tensor
from ....ops.make.generators import get_rng_state, set_rng_state
from ....optim import optimizer as optimizers
from ....optim.optimizer import Optimizer
from ..findings import figure
from ..run import Optimized, Run
from ..step_recorder import Array, Params
from .replay import NOTHING, Budget, Changes, Curves, Edit, Program, copies, program_of

_CLIPS = re.compile(r"\s*[\w.]*\bclip_grad_norm_\(.*,\s*(?:max_norm\s*=\s*)?(\d+\.?\d*(?:e-?\d+)?)\s*\)")
STEPS = 30
_EXPLODED = 1e3  # a loss of more than this many times the loss with the edit has exploded
_SHORT_TRIAL = "These few steps on one batch show no clear gain by the edit; the diagnosis does not rest on them."


def prove(run: Run, program: Program | None, edit: Edit, budget: Budget) -> tuple[Curves | None, str]:
    """Return the losses with and without an edit, and a sentence that compares them."""
    if edit.of is not None and edit.of is not run.main:
        program = program_of(run, edit.of)
    if program is None:
        return None, "Not proved: the recorded step could not be run again with the loss that it had."
    curves = compare(run, program, edit, budget)
    if curves is None:
        spent = "the steps for trials were used up"
        return None, f"Not proved: {spent if budget.spent else 'with it, too, the loss is soon not finite'}."
    if not curves.own and curves.fixed == curves.plain:
        return None, "Not proved: the loss of the recorded batch does not depend on the edit."
    return curves, sentence(edit, curves)


def compare(run: Run, program: Program | None, edit: Edit, budget: Budget, steps: int = STEPS) -> Curves | None:
    """Return the losses with and without an edit; those without are measured by the edited loss and by their own."""
    if program is None:
        return None
    most = budget.share(2, steps, of_proof=True)  # the curves are the proof if the edit helps
    try:
        fixed = train(run, program, edit.changes, edit.changes, edit.options, "", edit, budget, most=most)
        written = replace(edit, everything=False, frozen=False, values={}, clip=0.0)
        own: list[float] = []
        plain = train(run, program, edit.written, edit.changes, {}, edit.without, written, budget, own=own, most=most)
    except Exception:
        return None
    short = len(fixed) < 3 or len(plain) < 3 and math.isfinite(plain[-1])
    own = [] if repr(own) == repr(plain) else own  # repr, since NaN != NaN
    return None if short else Curves(fixed, plain, own).compared()


def lengthened(run: Run, program: Program | None, edit: Edit, budget: Budget, curves: Curves) -> Curves:
    """Return the curves of an edit over ``STEPS`` steps, if a question had fewer steps left and they show the same."""
    if len(curves.plain) > STEPS or not math.isfinite(curves.fixed[-1]) or not math.isfinite(curves.plain[-1]):
        return curves
    longer = compare(run, program_of(run, edit.of) if edit.of is not None else program, edit, budget)
    return longer if longer is not None and len(longer.plain) > len(curves.plain) and better(longer) else curves


def sentence(edit: Edit, curves: Curves) -> str:
    """Return the sentence that compares two curves."""
    fixed, plain, own = curves
    count = len(plain) - 1
    early = (
        f" after {count} step{'s' * (count != 1)}"
        if len(plain) < len(fixed) and math.isfinite((own or plain)[0])
        else ""
    )
    edited = bool(own) and not edit.one_loss
    measured = ", by the loss after the edit" if edited else ""
    said = (
        f"Tried for {len(fixed) - 1} steps on one recorded batch, from the same state{measured}: {edit.text} "
        f"{_ends(fixed)}, as written {_ends(plain if edited else own or plain)}{early}."
    )
    proved = _ends_lower(fixed, own) if own and edit.one_loss else better(curves)
    if not proved and not own and _stays_below(fixed, plain):
        third = len(plain) // 3
        return f"{said} As written, it rises up to {figure(max(plain[-third:]))} in the last {third} steps."
    return said if proved else f"{said} {_SHORT_TRIAL}"


def _ends(losses: Sequence[float]) -> str:
    return f"{figure(losses[0])} -> {figure(losses[-1])}" if math.isfinite(losses[0]) else figure(losses[0])


def _ends_lower(fixed: Sequence[float], own: Sequence[float]) -> bool:
    """Return whether the loss with an edit falls, and ends clearly below the loss of the unchanged program."""
    margin = 0.02 * abs(fixed[0])
    falls = fixed[-1] < fixed[0] - margin
    return falls and not own[-1] <= fixed[-1] + margin


def _stays_below(fixed: Sequence[float], plain: Sequence[float]) -> bool:
    """Return whether the last third of the oscillating loss ``plain`` is far above the last third of ``fixed``."""
    third = min(len(fixed), len(plain)) // 3
    falls = third > 2 and max(fixed[-third:]) < fixed[0]
    return falls and max(fixed[-third:]) < 0.2 * math.fsum(plain[-third:]) / third


def better(curves: Curves) -> bool:
    """Return whether the loss fell clearly further with the edit than without."""
    fixed, plain, _ = curves
    if not math.isfinite(fixed[-1]):
        return False
    if not math.isfinite(plain[-1]):
        return True
    gain, other = fixed[0] - fixed[-1], plain[0] - plain[-1]
    if fixed[0] > plain[0] and not fixed[-1] < plain[-1]:
        return False  # the loss with the edit falls further only because it starts higher
    if plain[0] > _EXPLODED * abs(fixed[0]) and plain[-1] > _EXPLODED * abs(fixed[-1]):
        return fixed[-1] < fixed[0]  # without the edit, the loss only recovers from an explosion
    return gain > 0 and gain > max(1.2 * other, other + 0.02 * abs(fixed[0]))


def train(
    run: Run,
    program: Program,
    changes: Changes,
    measured: Changes,
    options: Mapping[str, float],
    how: str,
    edit: Edit,
    budget: Budget,
    own: list[float] | None = None,
    most: int = STEPS,
) -> list[float]:
    """Train the recorded step with ``changes`` and return the losses, measured with the changes ``measured``.

    The losses that the training itself minimizes are appended to ``own``.
    """
    from ....nn.utils import clip_grad_norm_

    optimized = edit.of or _optimizer(run, program)
    values = dict(program.values)
    if edit.start:
        values.update(_starts(run, program, optimized))
    values.update(edit.values)
    joined = edit.frozen or edit.changes.joined
    leaves = copies(program, values, joined)
    held = None if optimized is None or edit.everything or edit.frozen else {id(p) for p in optimized.parameters}
    mine = {key: x for key, x in leaves.items() if held is None or key in held}
    optimizer = None if how == "none" or not mine else optimizer_like(optimized, mine, options)
    clip = edit.clip or _clip_of(optimized)
    losses: list[float] = []
    for number in range(most + 1):
        loss = program.run(leaves, changes)
        if loss.array.size != 1:
            loss = loss.sum()
        same = changes is measured
        losses.append(_number(loss) if same else _number(program.run(leaves, measured)))
        if own is not None:
            own.append(_number(loss) if changes is NOTHING else losses[-1])  # not the sum of several passes
        if number == most or not budget.take() or not math.isfinite(losses[-1]):
            break
        if how != "carry":
            for x in leaves.values():
                x.grad = None
        loss.backward()
        if optimizer is not None:
            if clip:
                clip_grad_norm_(list(mine.values()), clip)
            optimizer.step()
    return losses


def _optimizer(run: Run, program: Program) -> Optimized | None:
    """Return the first optimizer with parameters of the recorded step, preferably the main one."""
    known = [x for x in (run.main, *run.optimizers) if x is not None]
    return next((x for x in known if any(id(p) in program.values for p in x.parameters)), run.main)


def _starts(run: Run, program: Program, optimized: Optimized | None) -> dict[int, Array]:
    """Return the initial parameters of an optimizer, and of the optimizers that step in the same iterations."""
    numbers = {number for root in program.step.roots for number in root.optimizers}
    together = [x for number, x in enumerate(run.optimizers) if number in numbers or x is optimized]
    return {key: value for x in together for key, value in x.start.items()}


def _clip_of(optimized: Optimized | None) -> float:
    """Return the literal ``max_norm`` of clip_grad_norm_ in the file that steps the optimizer; 0 if there is none."""
    file = optimized.stepped.file if optimized is not None and optimized.stepped is not None else ""
    found = (_CLIPS.match(line) for line in linecache.getlines(file))
    return next((float(match[1]) for match in found if match is not None), 0.0)


def train_over(
    run: Run,
    program: Program,
    batches: Sequence[Changes],
    epochs: int,
    budget: Budget,
    test: Changes | None = None,
    options: Mapping[str, float] = MappingProxyType({}),
) -> list[float] | None:
    """Train copies from the start on several batches; return the losses, None if one is not finite or the budget ends.

    If ``test`` is given, the last loss is the loss on ``test`` after the training. ``options`` is as in ``Edit``.
    """
    optimized = _optimizer(run, program)
    values = dict(program.values) | _starts(run, program, optimized)
    leaves = copies(program, values)
    held = None if optimized is None else {id(p) for p in optimized.parameters}
    mine = {key: x for key, x in leaves.items() if held is None or key in held or key not in program.step.values}
    if not mine:
        return None
    optimizer = optimizer_like(optimized, mine, options)
    losses: list[float] = []
    for changes in list(batches) * epochs:
        loss = program.run(leaves, changes)
        losses.append(_number(loss))
        if not budget.take() or not math.isfinite(losses[-1]):
            return None
        for x in leaves.values():
            x.grad = None
        (loss if loss.array.size == 1 else loss.sum()).backward()
        optimizer.step()
    return losses if test is None else [*losses, _number(program.run(leaves, test))]


def optimizer_like(
    optimized: Optimized | None, leaves: Mapping[int, Tensor], options: Mapping[str, float]
) -> Optimizer:
    """Return an optimizer of the same class and options for copies of the parameters; multiply some ``options``."""
    from ....optim.sgd import SGD

    if optimized is None:
        return SGD(list(leaves.values()), lr=0.01)
    like = optimized.optimizer
    groups: list[Params] = []
    rest = dict(leaves)
    for place, group in enumerate(like.param_groups):
        mine = [rest.pop(id(p)) for p in group["params"] if id(p) in rest]
        if mine:
            own = {key: x for key, x in group.items() if key not in ("params", "param_names")}
            own["lr"] = _peak(optimized, place)
            groups.append({**own, "params": mine})
    if rest:
        groups.append({"params": list(rest.values())})
    for group in groups:
        for key, factor in options.items():
            if key in group:
                group[key] = group[key] * factor
    made: Optimizer = type(like).__new__(type(like))
    Optimizer.__init__(made, groups, dict(like.defaults))
    return made


def _peak(optimized: Optimized, place: int) -> float:
    """Return the largest learning rate that a parameter group had in the run; without a history, its initial rate."""
    group: dict[str, Any] = optimized.optimizer.param_groups[place]
    seen = [x.rates[place] for x in optimized.history if place < len(x.rates) and x.rates[place] > 0]
    return max(seen) if seen else float(group.get("initial_lr", group.get("lr", 0.0)))


def _number(x: Tensor) -> float:
    return float(backend_of(x.array).to_numpy(x.array).sum())


@contextmanager
def undisturbed() -> Iterator[None]:
    """Run a block without observers and step hooks, and restore the states of all random generators at its end.

    These are Retrograd's generator, NumPy's legacy generator and Python's. Operators in the block are recorded for
    differentiation, whatever the mode around the block.
    """
    ours, of_numpy, of_python = get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
    tables = (optimizers._pre_hooks_of_all, optimizers._post_hooks_of_all)
    hooks = [dict(table) for table in tables]
    for table in tables:
        table.clear()
    try:
        with warnings.catch_warnings(), unobserved(), enable_grad():
            warnings.simplefilter("ignore")  # the program has already seen these warnings
            yield
    finally:
        for table, entries in zip(tables, hooks, strict=True):
            table.update(entries)
        set_rng_state(ours)
        np.random.set_state(of_numpy)  # noqa: NPY002
        random.setstate(of_python)
