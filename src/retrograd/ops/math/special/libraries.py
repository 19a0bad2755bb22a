"""Special functions that NumPy lacks: SciPy's on the CPU, CuPy's own on a GPU, imported when first called."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import backend_of


def library_for(x: Array) -> ModuleType:
    """Return the module with special functions for the array.

    Raises:
        RuntimeError: SciPy is not installed.
    """
    try:
        return import_module("cupyx.scipy.special" if backend_of(x).name == "cupy" else "scipy.special")
    except ImportError:
        raise RuntimeError("needs SciPy, which is not installed: pip install 'retrograd[special]'") from None


def from_library(name: str, output: int | None = None) -> Callable[..., Any]:
    """Return the library's function, with results in the dtype of the arrays; ``output`` selects one of its results."""

    def forward(*inputs: Any) -> Any:
        array = next((value for value in inputs if hasattr(value, "dtype")), None)
        library = library_for(np.empty(0) if array is None else array)
        function = getattr(library, name, None)
        if function is None:
            raise RuntimeError(f"{library.__name__} has no {name}")
        results = function(*inputs)
        result = results if output is None else results[output]
        return result.item() if array is None else result.astype(array.dtype)

    return forward
