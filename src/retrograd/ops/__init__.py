"""Every operator. Importing the package enters all of them in the table and on Tensor."""

import sys
from importlib import import_module as _import_module
from pkgutil import iter_modules as _iter_modules

for _module in sorted(info.name for info in _iter_modules(__path__)):
    try:
        _import_module(f"{__name__}.{_module}")
    except (ImportError, SyntaxError) as error:  # while families are being written
        print("ops not importable:", _module, error, file=sys.stderr)
