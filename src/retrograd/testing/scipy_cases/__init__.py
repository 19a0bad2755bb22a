"""Example calls of the functions of ``retrograd.scipy``, which its tests run through the operator harness.

Each module covers the module of SciPy of that name (``signal`` also ``scipy.fft``) and has ``CASES``, a list of
``Case`` with names such as ``linalg.expm`` for ``retrograd.scipy.linalg.expm``. The reference is SciPy's function of
that name, unless a case specifies another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from operator import attrgetter
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...ops.table.registry import Operator
from ..case import Call, Case

Function = Callable[..., Any]
Draw = Callable[..., Array]  # draw(low, high, *shape)

MODULES = ("interpolate", "linalg", "ndimage", "signal", "sparse", "special", "stats")


def scipy_cases() -> Iterator[tuple[Operator, Case]]:
    """Yield the cases of every module with the functions that they test."""
    for module in MODULES:
        for case in import_module(f"{__name__}.{module}").CASES:
            yield Operator(case.name, function(f"retrograd.scipy.{case.name}"), "scipy"), case


class function:
    """A function that looks ``path`` up when it is called; ``target()`` returns the object."""

    def __init__(self, path: str) -> None:
        self.root, _, rest = path.partition("scipy.")
        self.module, *self.names = rest.split(".")

    def target(self) -> Any:
        return attrgetter(".".join(self.names))(import_module(f"{self.root}scipy.{self.module}"))

    def __call__(self, *args: object, **kwargs: object) -> Any:
        return self.target()(*args, **kwargs)


def case(name: str, *calls: Callable[..., Call], **options: Any) -> Case:
    """Return the case of a function of SciPy; each call draws its arrays with ``draw(low, high, *shape)``."""

    def drawn(rng: np.random.Generator) -> Iterator[Call]:
        for call in calls:
            yield call(lambda low, high, *shape: rng.uniform(low, high, shape))

    options.setdefault("reference", function(f"scipy.{name}"))
    options.setdefault("dtypes", ("float32",))
    return Case(name, drawn, torch="", **options)
