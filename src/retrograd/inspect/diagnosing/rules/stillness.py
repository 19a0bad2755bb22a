"""What does not change: parameters whose gradient is exactly zero, and the operator at which it becomes zero."""

from __future__ import annotations

from ..kinds import Case
from ..recording import Call, Source, Step

# Operators with constant pieces: their derivative is 0 wherever it exists.
FLAT = frozenset({"round", "floor", "ceil", "trunc", "sign", "sgn", "heaviside", "floor_divide", "fix"})

# Operators that are constant outside of a range.
_BOUNDED = frozenset({"clamp", "clamp_min", "clamp_max", "hardtanh", "relu6", "hardsigmoid", "minimum", "maximum"})


def depending(step: Step, read: set[int]) -> set[int]:
    """Return the calls whose results depend on these leaves, also through cuts."""
    found: set[int] = set()
    for call in step.calls:
        if any(y.leaf is not None and id(y.leaf) in read or y.call in found for y in call.inputs):
            found.add(call.index)
    return found


def trained(case: Case) -> set[int]:
    """Return the ids of the parameters of optimizers that step."""
    return {id(p) for x in case.run.optimizers if x.steps for p in x.parameters}


def blocks(case: Case) -> list[tuple[Step, Call]]:
    """Return the calls that get a gradient and pass none to parameters that an optimizer trains, latest first.

    A parameter counts if its gradient was exactly zero in all recorded steps.
    """
    still = set(case.still) & trained(case) or set(case.still) if case.still else set()
    step = case.step
    if step is None or not still:
        return []
    depends = depending(step, still)
    return [
        (step, call)
        for call in step.passed()
        if call.index in depends and _arrives(call) and _passes_nothing(step, call, still, depends)
    ]


def flat_operator(case: Case) -> tuple[Step, Call] | None:
    """Return the call of an operator with constant pieces after which no gradient is left."""
    return next((x for x in blocks(case) if x[1].name in FLAT and x[1].record.call in FLAT), None)


def saturated(case: Case) -> tuple[Step, Call] | None:
    """Return the call that cuts off all elements of what it gets, so that no gradient passes it."""
    return next((x for x in blocks(case) if x[1].name in _BOUNDED), None)


def names_below(case: Case, step: Step, call: Call) -> str:
    """Return the names of the parameters below a call whose gradient is zero, the first three of them."""
    names = [step.name(p) for p in step.leaves(Source(call.index, 0, None, None)) if id(p) in case.still]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _arrives(call: Call) -> bool:
    g = call.record.gradients
    return g is not None and not g.minimum == g.maximum == 0


def _passes_nothing(step: Step, call: Call, still: set[int], depends: set[int]) -> bool:
    given = [x for place, x in enumerate(call.inputs) if call.needs(place) and not x.cut]
    given = [x for x in given if x.call in depends or id(x.leaf) in still]
    return bool(given) and all(_is_zero(step, x, still) for x in given)


def _is_zero(step: Step, x: Source, still: set[int]) -> bool:
    """Return whether the gradient with respect to an input is zero, whatever reads the input."""
    if x.call < 0:
        return id(x.leaf) in still
    g = step.calls[x.call].record.gradients
    return g is None or g.minimum == g.maximum == 0
