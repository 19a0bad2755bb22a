"""Names of ``nn.init`` without the underscore: deprecated, and still in programs."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any

from ..nn import init as _init


def _deprecated(name: str) -> Callable[..., Any]:
    present = getattr(_init, name + "_")

    @wraps(present)
    def function(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(f"nn.init.{name} is now deprecated in favor of nn.init.{name}_.", FutureWarning, stacklevel=2)
        return present(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    return function


constant = _deprecated("constant")
dirac = _deprecated("dirac")
eye = _deprecated("eye")
kaiming_normal = _deprecated("kaiming_normal")
kaiming_uniform = _deprecated("kaiming_uniform")
normal = _deprecated("normal")
orthogonal = _deprecated("orthogonal")
sparse = _deprecated("sparse")
uniform = _deprecated("uniform")
xavier_normal = _deprecated("xavier_normal")
xavier_uniform = _deprecated("xavier_uniform")

__all__ = [
    "constant",
    "dirac",
    "eye",
    "kaiming_normal",
    "kaiming_uniform",
    "normal",
    "orthogonal",
    "sparse",
    "uniform",
    "xavier_normal",
    "xavier_uniform",
]
