"""Example calls of every operator: what ``retrograd check`` and the operator harness run.

Each module below this package covers the module of the same name in ``ops`` and has ``CASES``, a list of ``Case``. An
operator of the table without a case fails the tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages

from ..case import Case


def all_cases() -> Iterator[Case]:
    """The cases of every family."""
    for module in sorted(info.name for info in walk_packages(__path__, f"{__name__}.") if not info.ispkg):
        yield from import_module(module).CASES
