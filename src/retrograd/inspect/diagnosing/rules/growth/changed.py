"""Detect how a program changes gradients between the backward pass and the step: factors, signs, decay by hand."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from .....core.source_location import Site
from ...findings import figure
from ...kinds import Case, Found, HasPlace, Place
from ...probes.proof import STEPS, train
from ...probes.replay import NOTHING, Edit
from ...step_recorder import Step, start_of
from ..program_text import code_lines

_CLOSE = 1e-3  # the largest relative deviation of a changed gradient from ``factor * gradient + decay * parameter``
_LEARNS = 0.8  # a copy learns if its last loss is below this share of its first loss
_LEAST_DECAY = 1e-2
_SHRUNK = 0.05  # factors of gradients below this one are a finding


class Changed(NamedTuple):
    """The change of gradients between the backward pass and the step: the step finds ``factor * gradient + decay *
    parameter``."""

    factor: float
    decay: float


def changed_gradients(step: Step) -> Changed | None:
    """Return how the program changed all gradients of the first step; None if unchanged or changed in another way."""
    found: list[tuple[float, float]] = []
    for key, (before, _) in step.left_by.items():
        (after, _), value = step.used.get(key, (None, 0)), step.values.get(key)
        if after is None or value is None or after.shape != before.shape or before.size < 2:
            continue
        g, p, now = (np.asarray(x, np.float64).reshape(-1) for x in (before, value, after))
        square = float(g.dot(g))
        if not square or not np.isfinite(now).all() or not math.isfinite(square):
            continue
        factor, decay = float(now.dot(g)) / square, 0.0
        if float(np.abs(now - factor * g).max()) > _CLOSE * float(np.abs(now).max()):
            matrix = np.array([[square, float(g.dot(p))], [float(g.dot(p)), float(p.dot(p))]])
            if abs(float(np.linalg.det(matrix))) <= 1e-9 * matrix[0, 0] * matrix[1, 1]:
                continue
            factor, decay = (float(x) for x in np.linalg.solve(matrix, [float(now.dot(g)), float(now.dot(p))]))
            if float(np.abs(now - factor * g - decay * p).max()) > _CLOSE * float(np.abs(now).max()):
                return None
        found.append((factor, decay))
    if not found:
        return None
    factor, decay = (float(x) for x in np.median(np.array(found), axis=0))
    spread = max(abs(x - factor) for x, _ in found)
    return Changed(factor, decay) if spread <= 0.01 * abs(factor) and (factor != 1 or decay) else None


def changing_line(step: Step, near: Site | None) -> HasPlace | None:
    """Return the line of the last call that computed a gradient for the step, or else a line that clips gradients."""
    starts = {start for _, start in step.used.values()}
    for call in reversed(step.calls):
        arrays = [call.outputs[0]] if call.outputs else []
        if call.inplace and call.inputs[0].call < 0:
            arrays.append(call.inputs[0].value if call.inputs[0].leaf is None else call.inputs[0].leaf.array)
        if any(start_of(x) in starts for x in arrays if x is not None):
            return call.record
    lines = code_lines(near.file) if near is not None else []
    clips = (n for n, x in enumerate(lines, start=1) if "clip_grad" in x and "import" not in x)
    number = next(clips, None)
    return None if number is None or near is None else Place(near.file, number)


def decayed_by_hand(case: Case) -> Found | None:
    """Return the finding for a multiple of the parameters that the program adds to their gradients, if a copy without
    this decay learns."""
    first, main = case.run.first, case.main
    changed = changed_gradients(first) if first is not None and case.stuck else None
    if first is None or main is None or changed is None or changed.decay < _LEAST_DECAY or case.program is None:
        return None
    most = case.budget.share(1, STEPS)
    curve = train(case.run, case.program, NOTHING, NOTHING, {}, "", Edit(""), case.budget, most=most)
    if len(curve) < 5 or not curve[-1] < _LEARNS * curve[0]:
        return None
    what = (
        f"the program adds {figure(changed.decay)} times the parameters to their gradients, and the loss does not "
        f"fall; a copy without this lowers that of a recorded batch from {figure(curve[0])} to {figure(curve[-1])}."
    )
    fix = f"lower this factor, from {figure(changed.decay)} to 1e-4"
    why = "the recorded step does not have this change"
    return Found(changing_line(first, main.stepped) or main.stepped, {}, message=what, fix=fix, unproved=why)


def shrunk(case: Case) -> tuple[HasPlace, float] | None:
    """Return the line that makes gradients much smaller before the step, and the factor."""
    first, main = case.run.first, case.main
    changed = changed_gradients(first) if first is not None else None
    if first is None or main is None or changed is None or not 0 < changed.factor < _SHRUNK:
        return None
    scaled = any(root.scale != 1 for root in first.roots)
    where = None if scaled else changing_line(first, main.stepped)
    return None if where is None else (where, changed.factor)
