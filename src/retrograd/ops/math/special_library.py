"""Special functions that NumPy lacks: SciPy's on the CPU, CuPy's own on a GPU, imported when first called."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from ...core.devices import backend_of


def library_for(x: Any, name: str) -> Any:
    """The module with special functions for the array.

    Raises:
        RuntimeError: SciPy is not installed.
    """
    try:
        return import_module("cupyx.scipy.special" if backend_of(x).name == "cupy" else "scipy.special")
    except ImportError:
        raise RuntimeError("needs SciPy, which is not installed; install retrograd[special]") from None


def from_library(name: str) -> Callable[[Any], Any]:
    """A function of one array from the library, in the array's dtype."""

    def forward(x: Any) -> Any:
        return getattr(library_for(x, name), name)(x).astype(x.dtype)

    return forward
