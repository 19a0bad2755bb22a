"""Names in a function's code: globals, imports, and strings that may be names of attributes."""

from __future__ import annotations

import dis
import sysconfig
import types
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

_STDLIB = sysconfig.get_path("stdlib")


def functions_in(member: object, depth: int = 3) -> Iterator[types.FunctionType]:
    """Yield the functions of a class member: itself, or those inside a property or another wrapper."""
    if isinstance(member, types.FunctionType):
        yield member
    elif depth:
        for name in ("__func__", "fget", "fset", "fdel", "__wrapped__"):
            inside = getattr(member, name, None)
            if inside is not None:
                yield from functions_in(inside, depth - 1)


@lru_cache(1 << 14)
def globals_of(code: types.CodeType) -> tuple[str, ...]:
    """Return the globals that the code reads; ``co_names`` also has attributes."""
    found = (step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"))
    return tuple(dict.fromkeys(found))


def strings_in(constants: tuple[object, ...]) -> Iterator[str]:
    """Yield the strings among constants, which ``getattr`` and ``match`` patterns may use as attribute names."""
    for constant in constants:
        if isinstance(constant, str):
            yield constant
        elif isinstance(constant, tuple):
            yield from strings_in(constant)


@lru_cache(1 << 14)
def imports_of(code: types.CodeType) -> tuple[str, ...]:
    return tuple(step.argval for step in dis.get_instructions(code) if step.opname == "IMPORT_NAME")


@lru_cache(1 << 14)
def mentioned_in(code: types.CodeType) -> frozenset[str]:
    """Return the names in ``co_names`` of the code and of the functions inside it."""
    inner = [mentioned_in(constant) for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return frozenset(code.co_names).union(*inner)


def reachable_names(methods: list[tuple[str, frozenset[str]]], names: set[str]) -> set[str]:
    """Return the names that the functions ``names`` mention, and all functions that these may call.

    Args:
        methods: pairs of a function's name and the names that it mentions. Special methods may be called by any code.
        names: the functions that are called.
    """
    found, rest = set(names), methods
    while called := [method for method in rest if method[0] in found or method[0].startswith("__")]:
        rest = [method for method in rest if method not in called]
        found = found.union(*[mentioned for _, mentioned in called])
    return found


@lru_cache(1 << 12)
def is_stdlib(file: str) -> bool:
    """Return whether a file belongs to the standard library, whose functions are taken as unchanging."""
    return file.startswith((_STDLIB, "<frozen ")) and "site-packages" not in file


@lru_cache(1 << 14)
def exact_number_types(code: types.CodeType) -> frozenset[type]:
    """Return the number types of which the code needs plain objects, as for ``x is True`` or ``type(x) is float``."""
    names = {"type", *code.co_names}.intersection(globals_of(code))
    if "type" in names and ("__name__" in code.co_names or not names.isdisjoint(("int", "float", "complex", "bool"))):
        return frozenset((bool, int, float, complex))
    steps = list(dis.get_instructions(code))
    identity = any(
        step.opname == "IS_OP" and type(before.argval) is bool and before.opname == "LOAD_CONST"
        for before, step in pairwise(steps)
    )
    return frozenset((bool,)) if identity else frozenset()
