"""Every operator. Importing the package enters all of them in the table and on Tensor."""

from importlib import import_module as _import_module
from pkgutil import iter_modules as _iter_modules

for _module in sorted(info.name for info in _iter_modules(__path__)):
    _import_module(f"{__name__}.{_module}")
