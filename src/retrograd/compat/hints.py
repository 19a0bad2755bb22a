"""What to say of a name that a module has not: where it is, or which one was meant."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from difflib import get_close_matches
from importlib import import_module

from ..ops.table.registry import OPERATORS

_ELSEWHERE = ("", "nn", "nn.functional", "nn.init", "nn.utils", "optim", "optim.lr_scheduler", "linalg", "fft",
              "special", "autograd", "func", "data", "cuda", "amp")  # fmt: skip


def hint(module: str, name: str) -> str:
    """The end of an error message, empty where nothing comes to mind."""
    if name.startswith("_"):
        return ""
    here = module.removeprefix("retrograd").lstrip(".")
    places = [place for place in _ELSEWHERE if place != here and name in _public_names(place)]
    if places:
        return f": {name} is in {' and '.join(f'retrograd.{place}'.rstrip('.') for place in places)}"
    if any(entry.name == name and entry.namespace == "Tensor" for entry in OPERATORS.values()):
        return f": {name} is a method of Tensors"
    close = get_close_matches(name, list(_public_names(here)), n=3, cutoff=0.75)
    if close:
        return f"; did you mean {' or '.join(close)}?"
    for place in _ELSEWHERE:
        close = get_close_matches(name, list(_public_names(place)), n=1, cutoff=0.85)
        if close:
            return f"; did you mean {f'retrograd.{place}'.rstrip('.')}.{close[0]}?"
    return ""


def _public_names(place: str) -> Iterator[str]:
    try:
        module = import_module(f"retrograd.{place}".rstrip("."))
    except ImportError:
        module = sys.modules["retrograd"]
    return iter([name for name in vars(module) if not name.startswith("_")])
