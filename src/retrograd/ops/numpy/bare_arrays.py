"""``np.asarray(t)``: the elements as a bare array, refused where the gradient would be lost.

NumPy asks here, too, for what it does not dispatch: lists of Tensors, ``np.array``, ``np.r_``, functions of SciPy that
are no ufuncs. So the error says what to write instead.
"""

from __future__ import annotations

import itertools
import sys
from types import FrameType
from typing import Any

import numpy as np

from ..._generated import special
from ...core.tensor import Tensor


def _calling_function() -> str:
    """The outermost public function of NumPy or SciPy that is being called: ``scipy.special.zeta``; empty for none."""
    frame: FrameType | None = sys._getframe(3)
    found = ""
    while frame is not None and (module := frame.f_globals.get("__name__", "")).startswith(("numpy.", "scipy.")):
        public = ".".join(itertools.takewhile(lambda part: not part.startswith("_"), module.split(".")))
        if hasattr(sys.modules[public], frame.f_code.co_name):
            found = f"{public}.{frame.f_code.co_name}"
        elif public.startswith("scipy.") and public.count(".") == 1 and not found.startswith(public):
            found = f"{public}.{frame.f_code.co_name}"  # a method, of a distribution of scipy.stats
        frame = frame.f_back
    return found


def _advice() -> str:
    function = _calling_function()
    home, _, name = function.rpartition(".")
    if home == "scipy.special" and name in special.__all__:
        return f"{function} computes with bare arrays; use retrograd.special.{name}"
    if home.startswith("scipy"):
        return f"{function} computes with bare arrays and has no rule for Tensors; use tensor.detach()"
    return (
        "join Tensors with np.stack and np.concatenate, where np.array, np.r_, np.c_ and functions that are given a "
        "list of Tensors make bare arrays; np.asarray(tensor.detach()) has no gradient"
    )


def _array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
    if self.requires_grad:
        raise RuntimeError(
            f"a Tensor that requires grad cannot become a NumPy array without losing its gradient: {_advice()}"
        )
    if not isinstance(self.array, np.ndarray):
        raise TypeError(f"can't convert a Tensor on {self.device} to a NumPy array; use tensor.cpu() first")
    if copy is False and dtype is not None and np.dtype(dtype) != self.array.dtype:
        raise ValueError(f"np.asarray: a copy is needed to convert {self.array.dtype} to {np.dtype(dtype)}")
    array = self.array if dtype is None else self.array.astype(dtype, copy=False)
    return array.copy() if copy and array is self.array else array


Tensor.__array__ = _array  # type: ignore[method-assign,assignment]
