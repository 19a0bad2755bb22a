"""``backends``: which libraries there are, and switches for them. Their submodules are imported with it."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    if name in ("cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "opt_einsum"):
        return import_module(f"retrograd.backends.{name}")
    raise AttributeError(f"module 'retrograd.backends' has no attribute {name!r}")
