"""Every operator. Importing the package enters all of them in the table and on Tensor."""

from importlib import import_module as _import_module

from .._generated.operators import MODULES as _MODULES
from ..core.missing_names import legacy_names as _legacy_names

for _module in _MODULES:
    _import_module(f"retrograd.{_module}")

__getattr__ = _legacy_names(__name__)  # ops.aten
