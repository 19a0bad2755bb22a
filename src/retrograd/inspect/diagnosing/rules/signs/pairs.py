"""Check losses of pairs: compare which pairs a step brings together with which pairs are similar in the data."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .....core.tensor.tensor import new_tensor
from ....record import Record
from ...kinds import Case
from ...probes.replay import Changes, Program
from ...step_recorder import Call, Opened, Source, Step

_LEAST_PAIRS = 6  # the least number of pairs that are brought together, and of pairs that are pushed apart
_OPPOSITE = 0.9  # the least share of comparisons that contradict the data
_MOST_CALLS = 3  # the most calls of one network: an anchor and two examples to compare


def opposite_pairs(case: Case) -> tuple[Record, str] | None:
    """Return the line of a contrastive loss that brings together the pairs that differ most in the data.

    One network computes both sides of each pair. A step brings a pair together if the loss grows with the distance of
    the two outputs; the distances of the inputs of such pairs are compared with those of the other pairs. If a step
    pushes all pairs apart, their inputs are compared with those of different rows.
    """
    program, step = case.program, case.step
    if program is None or step is None or program.step is not step:
        return None
    for entries in _sides(step):
        pairs = list(_measured(program, step, entries))
        where = _weighted(step, entries) or step.producer(program.source)
        if not pairs or where is None:
            continue
        distances, pulls = (np.concatenate([pair[n] for pair in pairs]) for n in range(2))
        together, apart = distances[pulls > 0], distances[pulls < 0]
        if min(len(together), len(apart)) >= _LEAST_PAIRS:
            share = float((together[:, None] > apart[None]).mean())
            if share > _OPPOSITE:
                what = (
                    "the loss brings pairs together whose inputs differ more than those of the pairs that it pushes "
                    f"apart, in {share:.0%} of comparisons of {len(together)} with {len(apart)} pairs: alike and "
                    "unlike are exchanged"
                )
                return where.record, what
        alone = len(pairs) == 1 and len(apart) >= max(_LEAST_PAIRS, _OPPOSITE * len(distances))
        share = float((distances < pairs[0][2]).mean()) if alone else 0.0
        if share > _OPPOSITE and _is_matched(step, entries):
            what = (
                f"the loss pushes the outputs for the two inputs of a pair apart in {len(apart)} of {len(distances)} "
                f"pairs, and these inputs are nearer to each other than to those of the next pair in {share:.0%}: "
                "pairs that are alike are treated as unlike"
            )
            return where.record, what
    return None


def _sides(step: Step) -> list[list[Opened]]:
    """Return, for each module that is called two or three times on data of one shape, these calls; outermost first."""
    known: dict[int, list[Opened]] = {}
    for entry in step.modules:
        data = len(entry.inputs) == len(entry.outputs) == 1 and entry.grad_enabled and entry.outputs[0].call >= 0
        if data and not step.leaves(entry.inputs[0]) and next(entry.module.parameters(), None) is not None:
            known.setdefault(id(entry.module), []).append(entry)
    several = [x for x in known.values() if 2 <= len(x) <= _MOST_CALLS]
    return [x for x in several if len({y.shapes for y in x}) == 1 and len(x[0].shapes[0]) > 1]


def _measured(
    program: Program, step: Step, entries: list[Opened]
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield three arrays for the first call and each other call, with one number per pair.

    They are the distance of the inputs, the slope of the loss along the difference of the outputs, and the distance
    from an input to an input of the next pair.
    """
    first = entries[0]
    for second in entries[1:]:
        a, b = (_input(step, entry) for entry in (first, second))
        pulls = _pulls(program, step, first, second)
        if a is None or b is None or a.shape != b.shape or pulls is None or len(pulls) != len(a):
            continue
        distances, others = (np.sqrt(((a - x) ** 2).sum(axis=1)) for x in (b, np.roll(b, 1, axis=0)))
        if distances.any():
            yield distances, pulls, others


def _input(step: Step, entry: Opened) -> np.ndarray | None:
    """Return the floating-point input of a call, one flat row per example."""
    reader = next((x for x in step.calls[entry.start : entry.end] if entry.inputs[0].call in _calls(x)), None)
    x = None if reader is None else next(y for y in reader.inputs if y.leaf is None and y.call == entry.inputs[0].call)
    array = step.array(x) if x is not None and Case.has_array(step, x) else None
    if getattr(getattr(array, "dtype", None), "kind", "") != "f":
        return None
    return np.asarray(array, np.float64).reshape(len(np.asarray(array)), -1)


def _calls(call: Call) -> list[int]:
    return [x.call for x in call.inputs if x.leaf is None]


def _pulls(program: Program, step: Step, first: Opened, second: Opened) -> np.ndarray | None:
    """Return for each pair how the loss changes as the second output moves away from the first."""
    index, other = second.outputs[0].call, first.outputs[0].call
    a, b = (step.array(Source(i, 0, None, None)) if step.calls[i].outputs else None for i in (index, other))
    if a is None or b is None:
        return None
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


def _is_matched(step: Step, entries: list[Opened]) -> bool:
    """Return whether a matrix of all pairs is computed from the outputs, as in losses that find matching partners."""
    count = entries[0].shapes[0][0]
    reached = {x.call for entry in entries for x in entry.outputs}
    for call in step.calls[min(reached) + 1 :]:
        if any(x.call in reached for x in call.inputs):
            reached.add(call.index)
            if call.shape == (count, count) and call.name not in ("linear",):
                return True
    return False


def _weighted(step: Step, entries: list[Opened]) -> Call | None:
    """Return the first call that multiplies a result of the outputs by data with one number per pair."""
    count = entries[0].shapes[0][0]
    reached = {x.call for entry in entries for x in entry.outputs}
    for call in step.calls[max(reached) + 1 :]:
        if not any(x.call in reached for x in call.inputs):
            continue
        reached.add(call.index)
        data = [shape for place, shape in enumerate(call.shapes) if not call.needs(place)]
        if call.name in ("mul", "where") and any(shape[:1] == (count,) for shape in data):
            return call
    return None
