"""Many small checks in one test, since most of them take less time than a test of their own does."""

from collections.abc import Callable, Iterable
from functools import partial

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
