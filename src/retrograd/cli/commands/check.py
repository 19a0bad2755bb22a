"""`retrograd check`: compare every operator's gradients with central differences, and check its transforms."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from retrograd.ops.table import registry

from ..console import ProgressLine, Table, UserError, plural, print_table
from ..parser import Subparsers, suggestion

if TYPE_CHECKING:
    from retrograd.testing.case import Case

# Compare fewer rows and columns of large Jacobians than the tests do, so that checking all takes seconds.
MOST_ROWS = 8

# By column of the table: the order of derivatives that the operator must have for this check.
CHECKS = {"max difference": 1, "second order": 2, "forward mode": 1, "vmap": 0}

# An operator whose optional library is missing does not count as failed.
MISSING = re.compile(r"retrograd\[\w+\]")


EXAMPLES = """\
  retrograd check                     all operators, a row for each family: a minute or two
  retrograd check gelu linalg.inv     two operators
  retrograd check fft --order 1       a namespace, first derivatives only
"""


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "check",
        help="check the gradients of every operator",
        description="Compare gradients with central differences, forward mode with reverse, and vmap with a loop. The "
        "differences shown are relative. Without names, the table has one row per family of operators. The exit code "
        "is 1 if an operator fails.",
        examples=EXAMPLES,
    )
    parser.add_argument(
        "operators",
        nargs="*",
        metavar="OPERATOR",
        help="a name such as 'gelu' or 'linalg.inv', a namespace such as 'fft', or a family (default: all)",
    )
    parser.add_argument("--order", type=int, choices=(1, 2), default=2, help="the highest order to check (default: 2)")
    parser.add_argument("--failed-only", action="store_true", help="show only operators that fail")
    parser.add_argument("-v", "--verbose", action="store_true", help="one row per operator")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    cases = chosen_cases(options.operators)
    results = []
    with ProgressLine("operator", len(cases)) as progress:
        for count, case in enumerate(cases, start=1):
            results.append(check(case, options.order))
            progress.update(count)
    if options.verbose or options.operators or options.failed_only:
        shown = [result for result in results if result.findings or not options.failed_only]
        if shown:
            print_table(Table("Gradients", ["operator", "calls", *CHECKS, "passed"], [row(r) for r in shown]))
    else:
        families = {family(result.case): None for result in results}
        rows = [family_row(name, [r for r in results if family(r.case) == name]) for name in sorted(families)]
        print_table(Table("Gradients", ["family", "operators", *CHECKS, "passed"], rows))
    for result in results:
        for name, finding in result.findings.items():
            print(f"{result.case.name}, {name}: {finding}")
    for name in CHECKS:
        errors = [result.errors[name] for result in results if name in result.errors]
        print(f"{name}: at most {max(errors, default=0.0):.1e} over {plural(len(errors), 'operator')}")
    failed = sum(bool(result.findings) for result in results)
    skipped = sum(bool(result.missing) for result in results)
    need = "needs" if skipped == 1 else "need"
    note = f", {skipped} {need} an extra that is not installed" if skipped else ""
    print(f"{len(results) - failed - skipped} of {plural(len(results), 'operator')} passed{note}")
    return 1 if failed else 0


@dataclass(frozen=True)
class Result:
    """An operator's case and its calls; by check, the largest relative error and the failure, if any."""

    case: Case
    calls: int
    errors: dict[str, float]
    findings: dict[str, str]
    missing: str = ""  # the missing extra that the operator needs


def row(result: Result) -> list[str]:
    passed = "no" if result.findings else f"needs {result.missing}" if result.missing else "yes"
    return [result.case.name, str(result.calls), *(cell([result], name) for name in CHECKS), passed]


def family_row(name: str, results: Sequence[Result]) -> list[str]:
    passed = sum(not result.findings and not result.missing for result in results)
    count = str(len(results))
    return [name, count, *(cell(results, name) for name in CHECKS), f"{passed} of {count}"]


def cell(results: Sequence[Result], name: str) -> str:
    """Return the largest error of a check as text."""
    if any(name in result.findings for result in results):
        return "FAILED"
    errors = [result.errors[name] for result in results if name in result.errors]
    return f"{max(errors):.1e}" if errors else "-"


def all_cases() -> Iterator[Case]:
    """Return the cases of all operators. The harness is not imported for other commands."""
    from retrograd.testing import cases

    return cases.all_cases()


def check_functions() -> dict[str, Callable[..., float]]:
    """Return the harness's check of each column of the table."""
    from retrograd.testing import harness, mapping

    first = partial(harness.check_gradient, most=MOST_ROWS)
    second = partial(harness.check_second_order, most=MOST_ROWS)
    return dict(zip(CHECKS, (first, second, harness.check_forward_mode, mapping.check_vmap), strict=True))


def check(case: Case, highest: int = 2) -> Result:
    """Run the checks of derivatives up to the operator's order, and up to order `highest`."""
    result = Result(case, sum(1 for _ in case.calls(np.random.default_rng(0))), {}, {})
    for name, function in check_functions().items():
        if min(case.order, highest) < CHECKS[name]:
            continue
        try:
            result.errors[name] = function(registry.OPERATORS[case.name], case)
        except AssertionError as error:
            result.findings[name] = str(error)
        except Exception as error:  # an operator may raise any error; each is a finding
            extra = MISSING.search(str(error))
            if extra:
                return replace(result, missing=extra[0])
            result.findings[name] = f"{type(error).__name__}: {error}"
    return result


def family(case: Case) -> str:
    """Return the module that defines the operator."""
    return registry.OPERATORS[case.name].function.__module__.rpartition(".")[2]


def chosen_cases(names: Sequence[str]) -> list[Case]:
    """Return the named cases, or all; raise UserError for an unknown name.

    A name is the name of an operator (with or without its namespace), of a namespace, or of a family.
    """
    cases = sorted(all_cases(), key=lambda case: case.name)
    if not names:
        return cases
    named: dict[str, dict[str, Case]] = {}
    # The last key wins: a full name before a namespace ('fft' is both), a namespace before a last part or a family.
    for key in (
        family,
        lambda case: registry.OPERATORS[case.name].name,
        lambda case: registry.OPERATORS[case.name].namespace,
        lambda case: case.name,
    ):
        groups: dict[str, dict[str, Case]] = {}
        for case in cases:
            groups.setdefault(key(case), {})[case.name] = case
        named |= groups
    named.pop("", None)
    chosen: dict[str, Case] = {}
    for name in names:
        if name not in named:
            raise UserError(f"unknown operator {name!r}{suggestion(name, named)}")
        chosen |= named[name]
    return sorted(chosen.values(), key=lambda case: case.name)
