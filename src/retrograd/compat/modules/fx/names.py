"""Names in generated code: unique identifiers, and the public names of functions."""

from __future__ import annotations

import builtins
import inspect
import keyword
import math
import operator
import re
import sys
from collections.abc import Callable
from functools import cache
from types import ModuleType

from ....ops.table.registry import OPERATORS

_NOT_IN_NAMES = re.compile(r"\W", re.ASCII)
_NUMBERED = re.compile(r"(.*?)_(\d+)", re.DOTALL)

# Names that generated code may use itself, with their values.
GENERATED = {
    "inf": math.inf, "nan": math.nan, "NoneType": type(None), "torch": None, "device": None, "fx_pytree": None,
    "pytree": None,
}  # fmt: skip


class Namespace:
    """A set of identifiers. ``create_name`` returns a new identifier that is neither a keyword nor a builtin."""

    def __init__(self) -> None:
        self._owners: dict[int, str] = {}
        self._objects: list[object] = []  # keeps the keys of _owners alive
        self._used: set[str] = set()
        self._last: dict[str, int] = {}

    def create_name(self, candidate: str, obj: object) -> str:
        """Return an identifier like ``candidate``, always the same one for the same object (other than None)."""
        if obj is not None and id(obj) in self._owners:
            return self._owners[id(obj)]
        candidate = _NOT_IN_NAMES.sub("_", candidate) or "_unnamed"
        if candidate[0].isdigit():
            candidate = f"_{candidate}"
        numbered = _NUMBERED.fullmatch(candidate)
        if numbered is None or candidate in self._used:
            number = self._last.get(candidate, 0)
            base = candidate
        else:
            base, number = numbered[1], int(numbered[2])
        name = candidate
        while name in self._used or _is_taken(name, obj):
            number += 1
            name = f"{base}_{number}"
        self._used.add(name)
        self._last[base] = number
        if obj is not None:
            self.associate(name, obj)
        return name

    def associate(self, name: str, obj: object) -> None:
        """Make later calls of ``create_name`` return ``name`` for the object."""
        self._owners[id(obj)] = name
        self._objects.append(obj)
        self._used.add(name)

    def release(self, name: str, obj: object) -> None:
        """Forget the name of an object."""
        if self._owners.get(id(obj)) == name:
            del self._owners[id(obj)]
        self._used.discard(name)


def _is_taken(name: str, obj: object) -> bool:
    if name in keyword.kwlist:
        return True
    if name in GENERATED:
        return True
    return hasattr(builtins, name) and getattr(builtins, name) is not obj


def root() -> str:
    """Return the name of the package in generated code: ``torch`` in a program that imports it, else ``retrograd``."""
    return "torch" if getattr(sys.modules.get("torch"), "is_retrograd", False) else "retrograd"


@cache
def _public_functions() -> dict[int, str]:
    names: dict[int, str] = {}
    for space in ("", "nn.functional", "linalg", "fft", "special", "sparse", "nn.init", "autograd", "func", "signal"):
        module: ModuleType = sys.modules["retrograd"]
        for part in space.split(".") if space else ():
            module = getattr(module, part)
        for name in module.__dir__():  # ``setdefault`` keeps the first of several names of an operator
            value = None if name.startswith("_") else getattr(module, name)
            if callable(value) and not isinstance(value, type):
                names.setdefault(id(value), f"{space}.{name}".lstrip("."))
    for qualified, entry in OPERATORS.items():
        if entry.namespace != "Tensor":
            names.setdefault(id(entry.function), qualified)
    return names


def public_name(function: object) -> str | None:
    """Return the path in the package under which users find a function of the package, or None."""
    name = _public_functions().get(id(function))
    if name is None:
        module = getattr(function, "__module__", None) or ""
        own = str(getattr(function, "__qualname__", ""))
        if module.partition(".")[0] != "retrograd" or "<" in own:
            return None
        path = module.partition(".")[2].replace("compat.modules.fx.tracer", "fx._symbolic_trace")
        if "." not in own and getattr(sys.modules["retrograd"], own, None) is function:
            return own
        found: object = sys.modules[module]
        for part in own.split("."):
            found = getattr(found, part, None)
        name = f"{path}.{own}".lstrip(".") if found is function else None
    return name


def qualified_name(function: Callable[..., object]) -> str:
    """Return how code names a function: ``torch.relu``, ``operator.add``, ``math.sqrt``."""
    own = str(getattr(function, "__name__", type(function).__name__))
    if getattr(builtins, own, None) is function:
        return own
    if getattr(operator, own, None) is function:
        return f"operator.{own}"
    public = public_name(function)
    if public is not None:
        return f"{root()}.{public}"
    if own == "<lambda>":
        try:
            own = inspect.getsource(function).split("=")[0].strip()
        except (OSError, TypeError):
            own = "_lambda"
    module = getattr(function, "__module__", None)
    return own if module in (None, "__main__") and "." in own else f"{module}.{own}"
