"""Tables of the rules that write primitives and whole public operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..building import Builder
from ..model_calls import Call

Rule = Callable[[Builder, Call], Any]
Accepts = Callable[..., bool]

PRIMITIVES: dict[str, Rule] = {}
WHOLE: dict[str, tuple[Accepts, Callable[..., Any]]] = {}


def primitive(*names: str) -> Callable[[Rule], Rule]:
    """Register ``rule(builder, call)``, which returns the names of the outputs, for primitives."""

    def register(rule: Rule) -> Rule:
        PRIMITIVES.update(dict.fromkeys(names, rule))
        return rule

    return register


def always(*args: object, **kwargs: object) -> bool:
    return True


def whole(*names: str, accepts: Accepts = always) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register ``rule(builder, *args, **kwargs)`` for public operators that are written as one call if ``accepts``."""

    def register(rule: Callable[..., object]) -> Callable[..., Any]:
        WHOLE.update(dict.fromkeys(names, (accepts, rule)))
        return rule

    return register
