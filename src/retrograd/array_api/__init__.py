"""The array API standard (https://data-apis.org/array-api) on Tensors: one namespace with the standard's names.

``Tensor.__array_namespace__`` returns this module; libraries such as SciPy and scikit-learn then compute on Tensors
and their gradients. ``table`` lists the functions that NumPy has under the same name and arguments, ``functions`` has
the others. Dtypes promote by NumPy's rules, as the standard says; the functions of ``retrograd`` use PyTorch's rules.
Only users and ``Tensor.__array_namespace__`` import this package.
"""

import math as _math
import sys as _sys
from collections.abc import Callable as _Callable
from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING
from typing import Any as _Any

import numpy as _np

from ..core.tensor.tensor import Tensor as _Tensor
from . import functions as _functions
from . import table as _table

__array_api_version__ = "2025.12"

e, inf, nan, pi, newaxis = _math.e, _math.inf, _math.nan, _math.pi, None


def _extension(name: str, signatures: str, further: dict[str, _Callable[..., _Tensor]]) -> _ModuleType:
    """Create and register the module of the standard's extension ``name``, so that ``import`` finds it."""
    module = _ModuleType(f"{__name__}.{name}", f"The extension ``{name}`` of the array API standard on Tensors.")
    module.__dict__.update(_table.functions_of(signatures, name), **further)
    _sys.modules[module.__name__] = module
    return module


if TYPE_CHECKING:

    def __getattr__(name: str) -> _Any: ...

else:
    globals().update(_functions.DTYPES, **_table.functions_of(_table.MAIN), **_functions.MAIN)
    linalg = _extension("linalg", _table.LINALG, _functions.LINALG)
    fft = _extension("fft", _table.FFT, _functions.FFT)
    special = _functions.Special()

    def __getattr__(name: str) -> _Any:
        """Return a function that is not in the standard, but that xarray expects, as in CuPy's namespace."""
        if name in ("cross", "cumprod", "cumsum", "einsum", "gradient", "lib", "pad", "quantile", "transpose"):
            return getattr(_np, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__: list[str] = [_name for _name in dict(globals()) if not _name.startswith("_") and _name != "TYPE_CHECKING"]
__all__ += ["__array_api_version__", "__array_namespace_info__"]
