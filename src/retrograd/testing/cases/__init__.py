"""Example calls of every operator, which ``retrograd check`` and the operator harness run.

Each module covers a family of ``ops`` and has ``CASES``, a list of ``Case``; a comment that begins with the name of a
module of the family precedes that module's cases. An operator of the table without a case fails the tests.
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
