"""Names that are found at first use: operators and their methods, legacy names, HTML for notebooks.

The engine does not import the packages above it. ``retrograd._hooks`` puts one function per purpose into ``provided``;
each function imports its package when it is first called. A module of operators is imported when one of its public
names or methods is first used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn

provided: dict[str, Callable[..., Any]] = {}


def definitions(tables: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Return the module and the function that define each public name, from a table of modules and their names.

    >>> definitions({"ops.math.arithmetic": "add abs=abs_"})
    {'add': ('ops.math.arithmetic', 'add'), 'abs': ('ops.math.arithmetic', 'abs_')}
    """
    pairs = ((module, name.partition("=")) for module, names in tables.items() for name in names.split())
    return {public: (module, own or public) for module, (public, _, own) in pairs}


def operator_names(
    module: str, homes: dict[str, tuple[str, str]], otherwise: Callable[[str], object] | None = None
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the ``__getattr__`` and ``__dir__`` of a module that offers operators, each imported at first use.

    Args:
        module: the name of the module.
        homes: the module and the function that define each operator, as ``definitions`` returns them.
        otherwise: the ``__getattr__`` for all other names.
    """
    names = vars(sys.modules[module])

    def __getattr__(name: str) -> object:
        if name not in homes:
            if otherwise is None:
                raise AttributeError(f"module {module!r} has no attribute {name!r}")
            return otherwise(name)
        home, own = homes[name]
        value = names[name] = getattr(import_module(f"retrograd.{home}"), own)
        return value

    def __dir__() -> list[str]:
        return list({**homes, **dict.fromkeys(names["__all__"]), **names})

    return __getattr__, __dir__


def legacy_names(module: str) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a module: it finds PyTorch's legacy names, or raises AttributeError with a hint."""

    known: dict[str, object] = {}  # a cache that does not add names to the module

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


class LazyMethod:
    """A method or property of Tensor whose module is imported at the first use; then the method replaces this object.

    The replacement follows the import. During the import another thread may already use the method.
    """

    def __init__(self, owner: type, name: str, module: str) -> None:
        self.owner, self.name, self.module = owner, name, module
        self.value: Any = None

    def loaded(self) -> Any:
        """Import the module and return the method; set it on the class unless the user has replaced the attribute."""
        import_module(self.module)
        if self.value is None:
            raise AttributeError(f"{self.module} does not define Tensor.{self.name}; run tools/generate.py")
        lazy_methods.pop(self.name, None)
        if vars(self.owner).get(self.name) is self:
            setattr(self.owner, self.name, self.value)
        return self.value

    def __get__(self, instance: object, owner: type) -> Any:
        return self.loaded().__get__(instance, owner)

    def __set__(self, instance: object, value: object) -> None:
        self.loaded()
        setattr(instance, self.name, value)


lazy_methods: dict[str, LazyMethod] = {}  # the methods of Tensor that have not been used, by name


def enter_lazy_methods(owner: type, tables: dict[str, str]) -> None:
    """Enter a LazyMethod on the class for each method of the modules that have not been imported."""
    for module, names in tables.items():
        path = f"retrograd.{module}"
        if path not in sys.modules:
            for name in names.split():
                lazy_methods[name] = method = LazyMethod(owner, name, path)
                setattr(owner, name, method)


def legacy_call(name: str, function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
    """Return the result of a failed call, reading its arguments as an older PyTorch did, or NotImplemented."""
    return provided["legacy_call"](name, function, args, kwargs)


def repr_html(purpose: str) -> Callable[[object], str]:
    """Return the method ``_repr_html_`` of a class, which notebooks call to display an instance."""

    def _repr_html_(self: object) -> str:
        return provided[purpose](self)

    return _repr_html_
