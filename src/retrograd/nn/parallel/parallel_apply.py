"""Call modules in order, each with a part of the batch."""

from __future__ import annotations

from typing import Any


def parallel_apply(modules: Any, inputs: Any, kwargs_tup: Any = None, devices: Any = None) -> list[Any]:
    """Return each module's result for its part of the batch, computed sequentially."""
    options = kwargs_tup or [{}] * len(modules)
    parts = [part if isinstance(part, (list, tuple)) else (part,) for part in inputs]
    return [module(*part, **option) for module, part, option in zip(modules, parts, options, strict=True)]
