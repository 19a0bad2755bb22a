"""Many small checks in one test, since most of them take less time than a test of their own does."""

from collections.abc import Callable, Iterable

import retrograd as rg


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
