"""Legacy names by module: what ``retrograd.FloatTensor`` and its kind are, or an AttributeError with a hint."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import PathFinder
from typing import Any

from .hints import hint
from .paths import PATHS

# Where a module's legacy names are looked up, in this order; each room lists them in its ``__all__``.
SOURCES: dict[str, tuple[str, ...]] = {
    "retrograd": ("toplevel", "constructors", "functions", "rarer"),
    "retrograd.autograd": ("variable",),
    "retrograd.autograd.function": ("variable",),
    "retrograd.compiler": ("dynamo",),
    "retrograd.nn": ("modules",),
    "retrograd.func": ("functorch",),
    "retrograd.nn.attention": ("attention_backends",),
    "retrograd.nn.functional": ("functions",),
    "retrograd.nn.init": ("init",),
    "retrograd.nn.parameter": ("modules",),
    "retrograd.nn.utils": ("nn_utils",),
    "retrograd.onnx": ("onnx",),
    "retrograd.ops": ("library",),
    "retrograd.optim.optimizer": ("optimizers",),
    "retrograd.optim.lr_scheduler": ("schedulers",),
    "retrograd.serialization": ("files.object_files",),
    "retrograd.sparse": ("sparse",),
    "retrograd.testing": ("testing",),
    "retrograd.utils.checkpoint": ("checkpoint",),
}

# Modules that are an attribute of another module, too.
_SAME_MODULE = {"retrograd.nn.functional.grad": "retrograd.nn.grad"}


def attribute(module: str, name: str) -> Any:
    """What a legacy name of a module stands for; the module itself stays as it is.

    Raises:
        AttributeError: there is no such name; the message says where one like it is.
    """
    for source in SOURCES.get(module, ()):
        room = import_module(f"{__package__}.{source}")
        if name in room.__all__:
            return getattr(room, name)
    path = _SAME_MODULE.get(f"{module}.{name}", f"{module}.{name}")
    if path in PATHS or path in sys.modules or _is_submodule(module, name):
        return import_module(path)
    raise AttributeError(f"module {module!r} has no attribute {name!r}{hint(module, name)}")


def _is_submodule(module: str, name: str) -> bool:
    """Whether a file of the package's own has the name, which nobody has imported yet."""
    path = getattr(sys.modules.get(module), "__path__", [])
    return not name.startswith("_") and PathFinder.find_spec(f"{module}.{name}", path) is not None
