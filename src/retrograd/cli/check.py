"""`retrograd check`: the gradients of every operator against central differences, by the operator harness."""

import argparse
import difflib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from retrograd.ops.table.registry import OPERATORS
from retrograd.testing import harness
from retrograd.testing.case import Case
from retrograd.testing.cases import all_cases

from .console import Progress, Table, UserError, print_table

# Fewer rows and columns of large Jacobians than the tests compare, so that a check of all takes seconds.
MOST_ROWS = 8

# By column of the table: the harness's check, and how many times an operator must be differentiable for it.
CHECKS: dict[str, tuple[Callable[..., float], int]] = {
    "max difference": (partial(harness.check_gradient, most=MOST_ROWS), 1),
    "second order": (partial(harness.check_second_order, most=MOST_ROWS), 2),
    "forward mode": (harness.check_forward_mode, 1),
}

# An operator whose optional library is absent is not wrong.
MISSING = re.compile(r"retrograd\[\w+\]")


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "check",
        help="check the gradients of every operator",
        description="Compare gradients with central differences, and forward mode with reverse. The differences shown "
        "are relative. The exit code is 1 when an operator fails.",
    )
    parser.add_argument("operators", nargs="*", metavar="OPERATOR", help="a name such as 'linalg.inv' (default: all)")
    parser.add_argument("--order", type=int, choices=(1, 2), default=2, help="the highest order to check (default: 2)")
    parser.add_argument("--failed-only", action="store_true", help="leave the operators that pass out of the table")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    cases = chosen_cases(options.operators)
    results = []
    with Progress("operator", len(cases)) as progress:
        for count, case in enumerate(cases, start=1):
            results.append(check(case, options.order))
            progress.update(count)
    rows = [result.row() for result in results if result.findings or not options.failed_only]
    if rows:
        print_table(Table("Gradients", ["operator", "calls", *CHECKS, "passed"], rows))
    for result in results:
        for name, finding in result.findings.items():
            print(f"{result.case.name}, {name}: {finding}")
    for name in CHECKS:
        errors = [result.errors[name] for result in results if name in result.errors]
        print(f"{name}: {max(errors, default=0.0):.1e} at most, over {len(errors)} operators")
    failed = sum(bool(result.findings) for result in results)
    skipped = sum(bool(result.missing) for result in results)
    note = f", {skipped} need an extra that is not installed" if skipped else ""
    print(f"{len(results) - failed - skipped} of {len(results)} operators passed{note}")
    return 1 if failed else 0


@dataclass(frozen=True)
class Result:
    """An operator's case and its calls, by check the largest relative error, and by failed check what was found."""

    case: Case
    calls: int
    errors: dict[str, float]
    findings: dict[str, str]
    missing: str = ""  # the extra without which the operator does not run here

    def row(self) -> list[str]:
        cells = []
        for name in CHECKS:
            error = self.errors.get(name)
            cells.append("FAILED" if name in self.findings else "-" if error is None else f"{error:.1e}")
        passed = "no" if self.findings else f"needs {self.missing}" if self.missing else "yes"
        return [self.case.name, str(self.calls), *cells, passed]


def check(case: Case, highest: int = 2) -> Result:
    """Run every check that the operator's order and the highest wanted one allow."""
    result = Result(case, sum(1 for _ in case.calls(np.random.default_rng(0))), {}, {})
    for name, (function, order) in CHECKS.items():
        if min(case.order, highest) < order:
            continue
        try:
            result.errors[name] = function(OPERATORS[case.name], case)
        except AssertionError as error:
            result.findings[name] = str(error)
        except Exception as error:  # whatever an operator raises is a finding about it, not the end of the check
            extra = MISSING.search(str(error))
            if extra:
                return replace(result, missing=extra[0])
            result.findings[name] = f"{type(error).__name__}: {error}"
    return result


def chosen_cases(names: Sequence[str]) -> list[Case]:
    """The cases of the named operators, or all; UserError for a name that no operator has."""
    cases = sorted(all_cases(), key=lambda case: case.name)
    known = [case.name for case in cases]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise UserError(f"no operator is called {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    return [case for case in cases if not names or case.name in names]
