"""Namespace."""


def __getattr__(name: str):
    from .ops.registry import OPERATORS

    for key in (f"fft.{name}",):
        if key in OPERATORS:
            return OPERATORS[key].function
    raise AttributeError(f"module 'retrograd.fft' has no attribute {name!r}")
