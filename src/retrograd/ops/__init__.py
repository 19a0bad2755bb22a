"""All operators. Importing the package registers them in the operator table and as methods of Tensor."""

import gc as _gc
from importlib import import_module as _import_module

from .._generated.operators import MODULES as _MODULES
from ..core.missing_names import legacy_names as _legacy_names

# The modules create many objects and no garbage: the garbage collector would take a tenth of the import time.
_collecting = _gc.isenabled()
_gc.disable()
try:
    for _module in _MODULES:
        _import_module(f"retrograd.{_module}")
finally:
    if _collecting:
        _gc.enable()

__getattr__ = _legacy_names(__name__)  # ops.aten
