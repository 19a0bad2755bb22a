"""What a function's code mentions: globals, imports, and strings that may be names of attributes."""

from __future__ import annotations

import dis
import sysconfig
import types
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import Any

_STDLIB = sysconfig.get_path("stdlib")


def functions_in(member: Any, depth: int = 3) -> Iterator[types.FunctionType]:
    """The functions that a member of a class is made of: one by itself, or those of a property or another wrapper."""
    if isinstance(member, types.FunctionType):
        yield member
    elif depth:
        for name in ("__func__", "fget", "fset", "fdel", "__wrapped__"):
            inside = getattr(member, name, None)
            if inside is not None:
                yield from functions_in(inside, depth - 1)


@lru_cache(1 << 14)
def globals_of(code: types.CodeType) -> tuple[str, ...]:
    """The globals that the code reads, which ``co_names`` does not tell from attributes."""
    found = (step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    return tuple(dict.fromkeys(found))


def texts_in(constants: tuple[Any, ...]) -> Iterator[str]:
    """The strings among constants, by which ``getattr`` and patterns of ``match`` may name attributes."""
    for constant in constants:
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, tuple):
            yield from texts_in(constant)


@lru_cache(1 << 14)
def imports_of(code: types.CodeType) -> tuple[str, ...]:
    return tuple(step.argval for step in dis.get_instructions(code) if step.opname == "IMPORT_NAME")


@lru_cache(1 << 12)
def is_stdlib(file: str) -> bool:
    """Whether a file is one of Python's own library, whose functions nobody changes."""
    return file.startswith((_STDLIB, "<frozen ")) and "site-packages" not in file


@lru_cache(1 << 14)
def asks_identity(code: types.CodeType) -> bool:
    """Whether the code has ``x is True`` or the like."""
    steps = list(dis.get_instructions(code))
    return any(
        step.opname == "IS_OP" and type(before.argval) is bool and before.opname == "LOAD_CONST"
        for before, step in pairwise(steps)
    )
