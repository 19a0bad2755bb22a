"""SciPy's functions on Tensors, differentiable, with SciPy's names, signatures and errors.

A name that ``retrograd.scipy.linalg`` does not define is looked up in ``scipy.linalg``, and so on for other modules.
Without a Tensor among the arguments, a function calls SciPy's function of that name. If SciPy's own function gets a
Tensor, the error names the function of this package. This package may import all packages below ``func``, and SciPy
only inside functions; ``array_api`` and ``polynomial`` import it.
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
