"""Asks all questions of a run, in the order of their importance, and tries the edits."""

from __future__ import annotations

import time

from ...core.arrays.fp_warnings import silent
from .findings import Finding
from .kinds import KINDS, Case, Found, Kind, finding
from .probes.proof import prove, sentence
from .probes.state import undisturbed
from .rules import ORDER
from .run import Run

_PROVED = 3  # of the first findings
SECONDS = 20.0  # the most time for all proofs


def examine(run: Run) -> list[Finding]:
    """Return the findings of a run, the most important first; nothing of the program changes."""
    case = Case(run)
    found: list[tuple[Kind, Found]] = []
    with undisturbed(), silent():
        for name in ORDER:
            one = KINDS[name]
            result = one.rule(case)
            if result is not None:
                found.append((one, result))
        end = time.perf_counter() + SECONDS
        return [_with_proof(case, one, x, end, number < _PROVED) for number, (one, x) in enumerate(found)]


def _with_proof(case: Case, one: Kind, found: Found, end: float, first: bool) -> Finding:
    curves, said = found.curves, ""
    if curves is not None:
        said = sentence(found.edit.text if found.edit is not None else "with the edit", curves)
    elif found.edit is not None and first and time.perf_counter() < end:
        curves, said = prove(case.run, case.program, found.edit, end)
    elif found.edit is None:
        said = "Not proved: the edit is not one that the doctor can apply to a recorded step."
    return finding(one, found, curves, said)

