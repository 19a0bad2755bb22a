"""Train a recorded step with and without an edit, from the same state, and compare the losses."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

from ....core.arrays.devices import backend_of
from ....core.tensor.tensor import Tensor
from ....optim.optimizer import Optimizer
from ..findings import JSON, figure
from ..run import Optimized, Run
from .replay import NOTHING, Changes, Edit, Program, copies

STEPS = 30


def prove(run: Run, program: Program | None, edit: Edit, end: float) -> tuple[dict[str, JSON] | None, str]:
    """Return the two curves of an edit, and a sentence on them."""
    curves = compare(run, program, edit, end)
    if curves is None:
        return None, "Not proved: the recorded step could not be run again."
    return curves, sentence(edit.text, curves)


def compare(run: Run, program: Program | None, edit: Edit, end: float = math.inf) -> dict[str, JSON] | None:
    """Return the losses with and without an edit, both measured by the loss as it is after the edit."""
    if program is None:
        return None
    try:
        fixed = train(run, program, edit.changes, edit.changes, edit.options, "", edit, end)
        plain = train(run, program, NOTHING, edit.changes, {}, edit.without, edit, end)
    except Exception:
        return None
    return None if len(fixed) < 3 or len(plain) < 3 else {"with": list(fixed), "without": list(plain)}


def sentence(text: str, curves: Any) -> str:
    """Return the sentence that compares two curves."""
    fixed, plain = curves["with"], curves["without"]
    count = min(len(fixed), len(plain)) - 1
    said = (
        f"Tried for {count} steps from the same state: {text} {figure(fixed[0])} -> {figure(fixed[-1])}, "
        f"without {figure(plain[0])} -> {figure(plain[-1])}."
    )
    return said if better(curves) else f"{said} This does not prove the edit."


def better(curves: Any) -> bool:
    """Return whether the edit lowered the loss clearly more."""
    fixed, plain = curves["with"], curves["without"]
    if not math.isfinite(fixed[-1]):
        return False
    if not math.isfinite(plain[-1]):
        return True
    gain, other = fixed[0] - fixed[-1], plain[0] - plain[-1]
    return gain > 0 and gain > max(1.2 * other, other + 0.02 * abs(fixed[0]))


def train(
    run: Run,
    program: Program,
    changes: Changes,
    measured: Changes,
    options: Mapping[str, float],
    how: str,
    edit: Edit,
    end: float = math.inf,
    steps: int = STEPS,
) -> list[float]:
    """Return the losses of a training on the recorded batch, by ``measured``, with ``changes``."""
    optimized = run.main
    values = dict(program.step.values)
    if edit.start:
        for one in run.optimizers:
            values.update(one.start)
    leaves = copies(program, values)
    held = None if optimized is None or edit.everything else {id(p) for p in optimized.parameters}
    mine = {key: x for key, x in leaves.items() if held is None or key in held} or leaves
    optimizer = None if how == "none" else optimizer_like(optimized, mine, options)
    losses: list[float] = []
    for number in range(steps + 1):
        loss = program.run(leaves, changes)
        if loss.array.size != 1:
            loss = loss.sum()
        same = changes is measured
        losses.append(_number(loss) if same else _number(program.run(leaves, measured)))
        if number == steps or time.perf_counter() > end or not math.isfinite(losses[-1]):
            break
        if how != "carry":
            for x in leaves.values():
                x.grad = None
        loss.backward()
        if optimizer is not None:
            optimizer.step()
    return losses


def optimizer_like(
    optimized: Optimized | None, leaves: Mapping[int, Tensor], options: Mapping[str, float]
) -> Optimizer:
    """Return an optimizer of the same class and options for copies of its parameters, with options multiplied."""
    from ....optim.sgd import SGD

    if optimized is None:
        return SGD(list(leaves.values()), lr=0.01)
    like = optimized.optimizer
    groups: list[dict[str, Any]] = []
    rest = dict(leaves)
    for group in like.param_groups:
        mine = [rest.pop(id(p)) for p in group["params"] if id(p) in rest]
        if mine:
            own = {key: x for key, x in group.items() if key not in ("params", "param_names")}
            own["lr"] = group.get("initial_lr", group.get("lr"))
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


def _number(x: Tensor) -> float:
    return float(backend_of(x.array).to_numpy(x.array).sum())
