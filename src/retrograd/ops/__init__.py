"""Every operator. Importing the package enters all of them in the table and on Tensor."""

from importlib import import_module as _import_module
from pkgutil import walk_packages as _walk_packages

for _module in sorted(info.name for info in _walk_packages(__path__, f"{__name__}.")):
    _import_module(_module)
