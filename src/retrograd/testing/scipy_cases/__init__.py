"""Example calls of the functions of ``retrograd.scipy``: what its tests run through the operator harness.

Each module covers a module of SciPy and has ``CASES``, a list of ``Case`` whose names are ``linalg.expm`` for
``retrograd.scipy.linalg.expm``; the reference is SciPy's function of that name, unless a case gives another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

from ...ops.table.registry import Operator
from ..case import Case

MODULES = ("special",)


def scipy_cases() -> Iterator[tuple[Operator, Case]]:
    """Yield the cases of every module with the functions that they test."""
    for module in MODULES:
        for case in import_module(f"{__name__}.{module}").CASES:
            yield Operator(case.name, function(f"retrograd.scipy.{case.name}"), "scipy"), case


def function(path: str) -> Callable[..., Any]:
    """Return a function that looks up what ``path`` names when it is called."""
    module, _, name = path.rpartition(".")

    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(import_module(module), name)(*args, **kwargs)

    return call
