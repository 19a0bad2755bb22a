"""The tables: rules of primitives, and of public operators that are written as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..building import Builder
from ..recording import Call

Rule = Callable[[Builder, Call], Any]
Accepts = Callable[..., bool]

PRIMITIVES: dict[str, Rule] = {}
WHOLE: dict[str, tuple[Accepts, Callable[..., Any]]] = {}


def primitive(*names: str) -> Callable[[Rule], Rule]:
    """Enter ``rule(builder, call)``, which gives the names of the outputs, for primitives."""

    def enter(rule: Rule) -> Rule:
        PRIMITIVES.update(dict.fromkeys(names, rule))
        return rule

    return enter


def always(*args: object, **kwargs: object) -> bool:
    """Any call is written as a whole."""
    return True


def whole(*names: str, accepts: Accepts = always) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter ``rule(builder, *args, **kwargs)`` for public operators that are not taken apart where it accepts them."""

    def enter(rule: Callable[..., Any]) -> Callable[..., Any]:
        WHOLE.update(dict.fromkeys(names, (accepts, rule)))
        return rule

    return enter
