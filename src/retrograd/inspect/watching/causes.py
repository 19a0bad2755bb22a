"""What changed in a run before its first alarm: the learning rate, the weight decay, or the parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .measures import Record
from .rules import Alarm, short

_BEFORE = 10  # records before the first alarm in which a change counts as its cause
_JUMP = 2.0  # the least factor of a change


def cause_of(records: Sequence[Record], alarms: Sequence[Alarm]) -> tuple[str, int]:
    """Return a sentence on what came before the first alarm, and its step; an empty sentence if there is no alarm.

    The sentence names a change of the program's settings shortly before the alarm, else the first loss, gradient or
    weight that is not finite, else the alarm itself.
    """
    if not alarms:
        return "", 0
    first = min(alarms, key=lambda alarm: alarm.step)
    others = f"; {len(alarms) - 1} more alarm{'s' * (len(alarms) > 2)} followed" if len(alarms) > 1 else ""
    place = next((i for i, record in enumerate(records) if record.step >= first.step), len(records) - 1)
    for i in range(place, max(0, place - _BEFORE), -1):
        changes = _changes(records[i - 1], records[i])
        if changes:
            step = records[i].step
            when = f"step {step}" if step - records[i - 1].step == 1 else f"steps {records[i - 1].step + 1} to {step}"
            return f"{', '.join(changes)} at {when}; the first alarm came at step {first.step}{others}", step
    return f"step {first.step}: {first}{others}", first.step


def _changes(before: Record, after: Record) -> list[str]:
    """Return what the program changed between two records."""
    found = []
    for name, old, new in (("lr", before.rates, after.rates), ("weight decay", before.decays, after.decays)):
        if len(old) != len(new):
            found.append(f"{len(old)} -> {len(new)} parameter groups")
            continue
        pairs = {pair for pair in zip(old, new, strict=True) if _jumped(*pair)}
        found += [f"{name} {short(a)} -> {short(b)}" for a, b in sorted(pairs)]
    gone, new_names = before.weights.keys() - after.weights.keys(), after.weights.keys() - before.weights.keys()
    found += [f"{len(names)} parameters {verb}" for names, verb in ((gone, "left"), (new_names, "joined")) if names]
    return list(dict.fromkeys(found))


def _jumped(old: float, new: float) -> bool:
    if old == new or not math.isfinite(new):
        return old != new
    low, high = sorted((abs(old), abs(new)))
    return low == 0 or high / low >= _JUMP
