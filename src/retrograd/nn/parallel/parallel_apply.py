"""Modules called one after the other, each with its part of the batch."""

from __future__ import annotations

from typing import Any


def parallel_apply(modules: Any, inputs: Any, kwargs_tup: Any = None, devices: Any = None) -> list[Any]:
    """Each module's result for its part of the batch, one after the other."""
    options = kwargs_tup or [{}] * len(modules)
    parts = [part if isinstance(part, (list, tuple)) else (part,) for part in inputs]
    return [module(*part, **option) for module, part, option in zip(modules, parts, options, strict=True)]
