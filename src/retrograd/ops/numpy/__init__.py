"""NumPy's functions on Tensors. The rules are imported when NumPy first calls a protocol method.

``protocol`` implements NumPy's protocols, ``function_table`` and ``ufuncs`` look up rules, ``rules`` has the rules by
family, and ``alternatives`` has advice for error messages. ``scipy``, ``func`` and ``array_api`` import modules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.tensor.tensor import Tensor

_UFUNC, _FUNCTION = "__array_ufunc__", "__array_function__"


def _array_ufunc(self: Tensor, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object) -> Any:
    """``__array_ufunc__`` of Tensor."""
    from .ufuncs import array_ufunc

    if Tensor.__array_ufunc__ is _array_ufunc:
        setattr(Tensor, _UFUNC, array_ufunc)
    return array_ufunc(self, ufunc, method, *inputs, **kwargs)


def _array_function(
    self: Tensor, function: Callable[..., object], types: object, args: tuple[object, ...], kwargs: dict[str, Any]
) -> Any:
    """``__array_function__`` of Tensor."""
    from .protocol import array_function

    if Tensor.__array_function__ is _array_function:
        setattr(Tensor, _FUNCTION, array_function)
    return array_function(self, function, types, args, kwargs)


setattr(Tensor, _UFUNC, _array_ufunc)
setattr(Tensor, _FUNCTION, _array_function)
