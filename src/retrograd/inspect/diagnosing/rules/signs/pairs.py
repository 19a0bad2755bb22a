"""Losses of pairs: which pairs a step brings together, and which ones are alike in the data."""

from __future__ import annotations

import numpy as np

from .....core.tensor.tensor import new_tensor
from ....record import Record
from ...kinds import Case
from ...probes.replay import Changes, Program
from ...recording import Call, Opened, Source, Step

_LEAST_PAIRS = 6  # of each kind
_OPPOSITE = 0.9  # share of comparisons


def opposite_pairs(case: Case) -> tuple[Record, str] | None:
    """Return the line of a contrastive loss that brings the pairs together that differ most in the data.

    One network computes both sides of each pair. A step brings a pair together if the loss grows with the distance of
    the two outputs, and this is compared with the distance of the two inputs.
    """
    program, step = case.program, case.step
    if program is None or step is None or program.step is not step:
        return None
    for first, second in _sides(step):
        distances = _distances(step, first, second)
        pulls = None if distances is None else _pulls(program, step, first, second)
        if distances is None or pulls is None or len(pulls) != len(distances):
            continue
        together, apart = distances[pulls > 0], distances[pulls < 0]
        if min(len(together), len(apart)) < _LEAST_PAIRS:
            continue
        share = float((together[:, None] > apart[None]).mean())
        where = _weighted(step, {x.call for x in (*first.outputs, *second.outputs)}, len(distances))
        if share > _OPPOSITE and where is not None:
            what = (
                "the loss brings pairs together whose inputs differ more than those of the pairs that it pushes apart, "
                f"in {share:.0%} of comparisons of {len(together)} with {len(apart)} pairs: alike and unlike are "
                "exchanged"
            )
            return where.record, what
    return None


def _sides(step: Step) -> list[tuple[Opened, Opened]]:
    """Return the pairs of calls of one trained module on data of one shape, the outermost ones first."""
    known: dict[int, list[Opened]] = {}
    for entry in step.modules:
        data = len(entry.inputs) == len(entry.outputs) == 1 and entry.grad_enabled and entry.outputs[0].call >= 0
        if data and not step.leaves(entry.inputs[0]) and next(entry.module.parameters(), None) is not None:
            known.setdefault(id(entry.module), []).append(entry)
    return [
        (x[0], x[1]) for x in known.values() if len(x) == 2 and x[0].shapes == x[1].shapes and len(x[0].shapes[0]) > 1
    ]


def _distances(step: Step, first: Opened, second: Opened) -> np.ndarray | None:
    """Return the distances of the inputs of both sides."""
    arrays = []
    for entry in (first, second):
        reader = next((x for x in step.calls[entry.start : entry.end] if entry.inputs[0].call in _calls(x)), None)
        x = None if reader is None else next(y for y in reader.inputs if y.call == entry.inputs[0].call)
        array = step.array(x) if x is not None and Case.has_array(step, x) else None
        if getattr(getattr(array, "dtype", None), "kind", "") != "f":
            return None
        arrays.append(np.asarray(array, np.float64).reshape(len(np.asarray(array)), -1))
    a, b = arrays
    distances: np.ndarray = np.sqrt(((a - b) ** 2).sum(axis=1))
    return distances if a.shape == b.shape and bool(distances.any()) else None


def _calls(call: Call) -> list[int]:
    return [x.call for x in call.inputs if x.leaf is None]


def _pulls(program: Program, step: Step, first: Opened, second: Opened) -> np.ndarray | None:
    """Return the slope of the loss along the difference of both outputs, for each pair."""
    index, other = first.outputs[0].call, second.outputs[0].call
    a, b = (step.array(Source(i, 0, None, None)) for i in (index, other))
    leaf = new_tensor(np.array(a))
    leaf.requires_grad = True
    values = {key: new_tensor(x) for key, x in program.values.items()}
    try:
        program.run(values, Changes(calls={index: lambda *inputs, **params: leaf})).sum().backward()
    except Exception:
        return None
    if leaf.grad is None or leaf.grad.array.shape != np.shape(b):
        return None
    slopes: np.ndarray = (leaf.grad.array * (np.asarray(a) - np.asarray(b))).reshape(len(a), -1).sum(axis=1)
    return slopes


def _weighted(step: Step, outputs: set[int], count: int) -> Call | None:
    """Return the first call that multiplies what follows from both outputs by data for each pair."""
    reached = set(outputs)
    for call in step.calls[max(outputs) + 1 :]:
        if not any(x.call in reached for x in call.inputs):
            continue
        reached.add(call.index)
        data = [shape for place, shape in enumerate(call.shapes) if not call.needs(place)]
        if call.name in ("mul", "where") and any(shape[:1] == (count,) for shape in data):
            return call
    return None
