"""The operators of neural networks as functions, under PyTorch's names."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    from ..ops.registry import OPERATORS

    for key in (f"nn.functional.{name}", name):
        if key in OPERATORS:
            function = globals()[name] = OPERATORS[key].function
            return function
    raise AttributeError(f"module 'retrograd.nn.functional' has no attribute {name!r}")
