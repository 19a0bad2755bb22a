"""Legacy names by module: what ``retrograd.FloatTensor`` and its kind are, or an AttributeError with a hint."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from .hints import hint
from .paths import PATHS

# Where a module's legacy names are looked up, in this order; each room lists them in its ``__all__``.
SOURCES: dict[str, tuple[str, ...]] = {
    "retrograd": ("toplevel", "constructors", "functions", "sparse"),
    "retrograd.autograd": ("variable",),
    "retrograd.data": ("data",),
    "retrograd.nn": ("modules",),
    "retrograd.nn.functional": ("functions",),
    "retrograd.nn.init": ("init",),
    "retrograd.nn.utils": ("nn_utils",),
    "retrograd.optim.optimizer": ("optimizers",),
    "retrograd.optim.lr_scheduler": ("schedulers",),
    "retrograd.testing": ("testing",),
    "retrograd.utils.data": ("data",),
}


def attribute(module: str, name: str) -> Any:
    """The legacy name of a module, which from now on has it.

    Raises:
        AttributeError: there is no such name; the message says where one like it is.
    """
    for source in SOURCES.get(module, ()):
        room = import_module(f"{__package__}.{source}")
        if name in room.__all__:
            value = getattr(room, name)
            setattr(sys.modules[module], name, value)
            return value
    path = f"{module}.{name}"
    if path in PATHS or path in sys.modules:
        return import_module(path)
    raise AttributeError(f"module {module!r} has no attribute {name!r}{hint(module, name)}")
