"""Namespace."""


def __getattr__(name: str):
    from .ops.registry import OPERATORS

    for key in (f"special.{name}",):
        if key in OPERATORS:
            return OPERATORS[key].function
    raise AttributeError(f"module 'retrograd.special' has no attribute {name!r}")
