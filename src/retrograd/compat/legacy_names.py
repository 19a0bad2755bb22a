"""Look up legacy names of PyTorch by module, such as ``retrograd.FloatTensor``."""

from __future__ import annotations

import re
import sys
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

from ..core.missing_names import legacy_names
from ..core.tensor import tensor
from ..ops.table import registry
from . import absent
from .paths import PATHS, names_in

# Per module the sources of its legacy names, which are searched in this order; see ``paths``.
SOURCES: dict[str, tuple[str, ...]] = {
    "retrograd": (
        "compat.modules.toplevel:retrograd",
        "compat.modules.toplevel:retrograd.dtypes",
        "compat.types:retrograd",
        "compat.storages:retrograd",
        "compat.modules.functions:retrograd",
        "compat.modules.internals.control_flow:retrograd",
        "compat.modules.internals.foreach:retrograd",
        "compat.modules.internals.private:retrograd",
    ),
    "retrograd.autograd": ("compat.types:autograd",),
    "retrograd.autograd.function": ("compat.types:autograd",),
    "retrograd.compiler": ("compat.modules.compilers:compiler",),
    "retrograd.nn": ("compat.modules.nn:nn",),
    "retrograd.func": ("compat.modules.functorch:func",),
    "retrograd.nn.attention": ("compat.modules.nn:nn.attention",),
    "retrograd.nn.functional": ("compat.modules.functions:nn.functional",),
    "retrograd.nn.init": ("compat.modules.nn:nn.init", "compat.modules.internals.private:nn.init"),
    "retrograd.nn.parameter": ("compat.modules.nn:nn", "compat.modules.internals.private:nn.parameter"),
    "retrograd.nn.utils": ("compat.modules.nn:nn.utils",),
    "retrograd.onnx": ("compat.modules.jit:onnx", "compat.modules.internals.private:onnx"),
    "retrograd.ops": ("compat.modules.internals.library:ops",),
    "retrograd.optim.optimizer": (
        "compat.modules.nn:optim.optimizer",
        "compat.modules.internals.private:optim.optimizer",
    ),
    "retrograd.optim.lr_scheduler": ("compat.modules.nn:optim.lr_scheduler",),
    "retrograd.random": ("compat.modules.toplevel:random",),
    "retrograd.serialization": ("compat.files.allowed_names:serialization",),
    "retrograd.sparse": ("compat.calls:sparse",),
    "retrograd.testing": ("compat.modules.utils:testing",),
    "retrograd.utils": ("compat.modules.internals.private:utils",),
    "retrograd.utils.checkpoint": ("compat.modules.utils:utils.checkpoint",),
}

# The same for private names that scientific packages import.
_PRIVATE = "compat.modules.science"
SCIENCE: dict[str, tuple[str, ...]] = {
    "retrograd": tuple(
        f"{_PRIVATE}.{file}:retrograd" for file in ("distributions", "functional", "futures", "questions")
    ),
    "retrograd.autograd.functional": (f"{_PRIVATE}.functional:autograd.functional",),
    "retrograd.distributions.constraints": (f"{_PRIVATE}.distributions:constraints",),
    "retrograd.distributions.kl": (f"{_PRIVATE}.distributions:kl",),
    "retrograd.distributions.transforms": (f"{_PRIVATE}.distributions:transforms",),
    "retrograd.distributions.utils": (f"{_PRIVATE}.distributions:utils",),
    "retrograd.distributed": (f"{_PRIVATE}.questions:distributed",),
    "retrograd.nn.init": (f"{_PRIVATE}.questions:nn.init",),
    "retrograd.sparse": (f"{_PRIVATE}.questions:sparse",),
    "retrograd.nn.utils.stateless": (f"{_PRIVATE}.functional:stateless",),
    "retrograd.serialization": (f"{_PRIVATE}.functional:serialization",),
    "retrograd.optim.lbfgs": (f"{_PRIVATE}.functional:lbfgs",),
}

# Modules that are also an attribute of another module.
_SAME_MODULE = {"retrograd.nn.functional.grad": "retrograd.nn.grad"}

# Packages whose modules PyTorch has, too.
_PUBLIC = frozenset(["autograd", "distributed", "distributions", "nn", "onnx", "optim", "quasirandom", "signal"])

# Modules that a hint searches for a missing name.
_SEARCHED = ("", "nn", "nn.functional", "nn.init", "nn.utils", "optim", "optim.lr_scheduler", "linalg", "fft",
             "special", "autograd", "func", "data", "cuda", "amp")  # fmt: skip


def attribute(module: str, name: str) -> Any:
    """Return the value of a legacy name of a module. The module itself does not change.

    Raises:
        AttributeError: the name does not exist; the message suggests a similar one.
    """
    for source in (*SOURCES.get(module, ()), *SCIENCE.get(module, ())):
        names = names_in(source)
        if name in names:
            return names[name]
    path = _SAME_MODULE.get(f"{module}.{name}", f"{module}.{name}")
    if path in PATHS or path in sys.modules or _is_submodule(module, name):
        found = import_module(path)
        name_as_torch()
        return found
    standing = absent.find(module.removeprefix("retrograd").lstrip("."), name)
    if standing is not None:
        return standing
    raise AttributeError(missing(module, name))


def name_as_torch() -> None:
    """If Retrograd is torch, make its loaded modules report missing names under PyTorch's module names."""
    for name, module in () if tensor.arrays_keep_dtype else list(sys.modules.items()):
        if name.startswith("retrograd.") and name.split(".", 2)[1] in _PUBLIC and "._" not in name:
            vars(module).setdefault("__getattr__", legacy_names(name))


def missing(module: str, name: str) -> str:
    """Return the message for a name that a module does not have. Programs of PyTorch get PyTorch's names."""
    hint = _hint(module, name)
    if tensor.arrays_keep_dtype:
        return f"module {module!r} has no attribute {name!r}{hint}"
    module = f"torch{module.removeprefix('retrograd')}"  # Retrograd is torch in this program
    hint = re.sub(r"\bretrograd\b", "torch", hint)
    if hint:  # most likely a misspelled name, which PyTorch does not have either
        end = "" if hint.endswith("?") else "."
        said = f"What Retrograd lacks of PyTorch is listed in {absent.DOCUMENTATION}"
    else:
        end, said = ".", absent.sentence(f"{module}.{name}")
    return f"module {module!r} has no attribute {name!r}{hint}{end} {said}"


def _is_submodule(module: str, name: str) -> bool:
    """Return whether the package has a file for a submodule that has not been imported yet."""
    path = getattr(sys.modules.get(module), "__path__", [])
    return not name.startswith("_") and PathFinder.find_spec(f"{module}.{name}", path) is not None


@lru_cache(1000)  # programs ask for the same name again and again, by hasattr
def _hint(module: str, name: str) -> str:
    """Return the end of an error message: where the name is defined, or similar names. It may be empty."""
    if name.startswith("_"):
        return ""
    here = module.removeprefix("retrograd").lstrip(".")
    places = [place for place in _SEARCHED if place != here and name in _public_names(place)]
    if places:
        return f": {name} is in {' and '.join(f'retrograd.{place}'.rstrip('.') for place in places[:2])}"
    if any(entry.name == name and entry.namespace == "Tensor" for entry in registry.OPERATORS.values()):
        return f": {name} is a method of Tensors"
    legacy = [other for source in SOURCES.get(module, ()) for other in names_in(source) if not other.startswith("_")]
    close = _similar(name, _public_names(here), 3, 0.75) or _similar(name, legacy, 1, 0.85)
    if close:
        return f"; did you mean {' or '.join(close)}?"
    for place in _SEARCHED:
        close = _similar(name, _public_names(place), 1, 0.85)
        if close:
            return f"; did you mean {f'retrograd.{place}'.rstrip('.')}.{close[0]}?"
    return ""


def _similar(name: str, names: list[str], n: int, cutoff: float) -> list[str]:
    """Return names that differ only in case, else names that continue the name after ``_``, else similar names.

    >>> _similar("Relu", ["relu", "ReLU", "ELU"], 3, 0.75), _similar("mse", ["mse_loss", "mm"], 3, 0.75)
    (['ReLU', 'relu'], ['mse_loss'])
    """
    same = sorted(other for other in names if other.lower() == name.lower())
    longer = sorted(other for other in names if other.startswith(f"{name}_")) if len(name) > 2 else []
    return (same or longer)[:n] or get_close_matches(name, names, n, cutoff)


def _public_names(place: str) -> list[str]:
    """Return the names that a module offers, without what it imports for its own use."""
    try:
        module = import_module(f"retrograd.{place}".rstrip("."))
    except ImportError:
        module = sys.modules["retrograd"]
    names = {name: getattr(module, name) for name in dir(module) if not name.startswith("_")}
    return [
        name
        for name, value in names.items()
        if not isinstance(value, (ModuleType, bool))
        and getattr(value, "__module__", "retrograd").partition(".")[0] == "retrograd"
    ]
