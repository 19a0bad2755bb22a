"""Functions that packages above the engine register for it: legacy names, legacy calls, HTML for notebooks.

The engine does not import these packages. ``retrograd._hooks`` puts one function per purpose into ``provided``; each
function imports its package when it is first called.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

provided: dict[str, Callable[..., Any]] = {}


def legacy_names(module: str) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module: a legacy name of PyTorch's, or an AttributeError with a hint."""

    known: dict[str, Any] = {}  # not in the module itself, which stays as it is

    def __getattr__(name: str) -> Any:
        if name in known:
            return known[name]
        if name.startswith("__") and name not in (
            "__future__",
            "__config__",
        ):  # asked for by Python itself, at every import
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        known[name] = provided["legacy_name"](module, name)
        return known[name]

    return __getattr__


class LegacyMethod:
    """A legacy method or property of a class: the first use enters all of them in the places of these."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type) -> Any:
        provided["legacy_methods"]()
        return getattr(owner if instance is None else instance, self.name)


def legacy_call(name: str, function: Callable[..., Any], args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
    """The result of a call that failed as it stands, read as a legacy form; NotImplemented if it is none."""
    return provided["legacy_call"](name, function, args, kwargs)


def repr_html(purpose: str) -> Callable[[Any], str]:
    """The method ``_repr_html_`` of a class, by which notebooks show its instances."""

    def _repr_html_(self: object) -> str:
        html: str = provided[purpose](self)
        return html

    return _repr_html_
