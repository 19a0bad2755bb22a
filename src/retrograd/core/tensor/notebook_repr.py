"""How notebooks show Tensors and modules: their HTML is made in another room, which is loaded when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

_ROOM = "retrograd.inspect.notebook"


def shown_by(module: str, function: str) -> Callable[[Any], str]:
    """A method ``_repr_html_`` that hands the object to a function of that room."""

    def _repr_html_(self: Any) -> str:
        return getattr(import_module(f"{_ROOM}.{module}"), function)(self)

    return _repr_html_
