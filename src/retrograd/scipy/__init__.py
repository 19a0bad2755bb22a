"""SciPy's functions on Tensors, with SciPy's names, signatures and errors, where SciPy computes with bare arrays.

``retrograd.scipy.linalg`` stands for ``scipy.linalg``, and so on: what a module does not define itself is SciPy's own.
A function without a Tensor among its arguments calls SciPy's. Programs import this package; so does the error of a
conversion, to name the function to use. It may import what lies below ``func``, and SciPy only inside functions.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

from ..core.missing_names import legacy_names as _legacy_names

if TYPE_CHECKING:
    from . import fft as fft
    from . import interpolate as interpolate
    from . import linalg as linalg
    from . import ndimage as ndimage
    from . import signal as signal
    from . import special as special
    from . import stats as stats

_MODULES = (
    "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal", "sparse", "special", "stats",
)  # fmt: skip

if not TYPE_CHECKING:
    _legacy_name = _legacy_names(__name__)

    def __getattr__(name: str) -> _Any:
        return _import_module(f"{__name__}.{name}") if name in _MODULES else _legacy_name(name)


__all__: list[str] = []
