"""Many small checks in one test, since most of them take less time than a test of their own does."""

from collections.abc import Callable, Iterable
from functools import partial, wraps

import pytest

import retrograd as rg
from retrograd.ops.table.registry import OPERATORS


def check_all(checks: Iterable[tuple[str, Callable[[], object]]]) -> None:
    """Run every check from the same random state, whatever the others find, and raise all that they found together.

    Raises:
        ExceptionGroup: the errors, each with its traceback; the message names the checks that raised them.
    """
    errors: dict[str, Exception] = {}
    for name, check in checks:
        rg.manual_seed(0)
        try:
            check()
        except Exception as error:
            errors[name] = error
        except pytest.fail.Exception as failed:  # no Exception, which a group wants
            errors[name] = AssertionError(failed.msg).with_traceback(failed.__traceback__)
    if errors:
        raise ExceptionGroup(", ".join(errors), list(errors.values()))


def namespaces(names: Iterable[str]) -> dict[str, list[str]]:
    """Names of operators by where users find them, for tests that take less time than pytest needs for one."""
    found: dict[str, list[str]] = {}
    for name in sorted(names):
        found.setdefault(OPERATORS[name].namespace or "retrograd", []).append(name)
    return found


def check_each(check: Callable[[str], object], names: Iterable[str]) -> None:
    """``check_all`` of one check for many names."""
    check_all((name, partial(check, name)) for name in names)


def in_one_test(parameters: str, cases: Iterable[object]) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Do what ``pytest.mark.parametrize`` does, in one test, for a function that takes no fixtures."""
    names, rows = parameters.split(", "), list(cases)
    given = [dict(zip(names, row if len(names) > 1 else (row,), strict=True)) for row in rows]

    def decorated(test: Callable[..., None]) -> Callable[[], None]:
        def check_cases() -> None:
            check_all((", ".join(map(str, case.values())), partial(test, **case)) for case in given)

        together = wraps(test)(check_cases)
        del together.__wrapped__  # pytest would ask for the parameters as fixtures
        return together

    return decorated
