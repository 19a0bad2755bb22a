"""Functions that packages above the engine register for it: legacy names, legacy calls, HTML for notebooks.

The engine does not import these packages. ``retrograd._hooks`` puts one function per purpose into ``provided``; each
function imports its package when it is first called.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

provided: dict[str, Callable[..., Any]] = {}


def legacy_names(module: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module: it finds PyTorch's legacy names, or raises AttributeError with a hint."""

    known: dict[str, object] = {}  # a cache outside the module, whose contents do not change

    def __getattr__(name: str) -> Any:
        if name in known:
            return known[name]
        if name.startswith("__") and name not in (
            "__future__",
            "__config__",
        ):  # looked up by Python itself at every import
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        known[name] = provided["legacy_name"](module, name)
        return known[name]

    return __getattr__


class ModuleOfClass(ModuleType):
    """A module named like a class that it contains, such as ``nn.linear``; the error of a call names the class."""

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        parent, _, name = self.__name__.rpartition(".")
        meant = class_named(name, vars(self))
        raise TypeError(f"{self.__name__} is a module and not callable; did you mean {parent}.{meant}?")


def class_named(name: str, namespace: dict[str, object]) -> str | None:
    """Return the class of the namespace whose name differs from the module's name only in case and underscores."""
    plain = name.replace("_", "").lower()
    return next((key for key, value in namespace.items() if key.lower() == plain and isinstance(value, type)), None)


def explain_calls(namespace: dict[str, object]) -> None:
    """Make the error for a call of each submodule in a package's namespace name the class with the module's name."""
    for name, value in namespace.items():
        if type(value) is ModuleType and class_named(name, vars(value)):
            value.__class__ = ModuleOfClass


class LegacyMethod:
    """A placeholder for a legacy method or property of a class; the first use installs all legacy methods."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type) -> Any:
        provided["legacy_methods"]()
        return getattr(owner if instance is None else instance, self.name)


def legacy_call(name: str, function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
    """Return the result of a failed call read as a legacy form of it, or NotImplemented if there is no such form."""
    return provided["legacy_call"](name, function, args, kwargs)


def repr_html(purpose: str) -> Callable[[object], str]:
    """Return the method ``_repr_html_`` of a class, which notebooks call to display an instance."""

    def _repr_html_(self: object) -> str:
        html: str = provided[purpose](self)
        return html

    return _repr_html_
