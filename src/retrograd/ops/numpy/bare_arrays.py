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

from ...core.devices import Wrapping
from ...core.modes import modes
from ...core.tensor import Tensor
from .alternatives import alternative


def _public(module: str) -> str:
    """The part of a module's name that users know."""
    return ".".join(itertools.takewhile(lambda part: not part.startswith("_"), module.split(".")))


def _named_in(frame: FrameType, module: str) -> str:
    """The public function that a frame of NumPy or SciPy is, or wraps; empty for none."""
    public, name = _public(module), frame.f_code.co_name
    if name == "__init__":
        name = type(frame.f_locals.get("self")).__name__
    if hasattr(sys.modules[public], name):
        return f"{public}.{name}"
    if "wrap" in frame.f_code.co_name:
        for value in frame.f_locals.values():  # the wrapped function is among them
            home = _public(getattr(value, "__module__", None) or "")
            wrapped = getattr(value, "__name__", None) or getattr(value, "name", None)
            if home.startswith("scipy.") and isinstance(wrapped, str) and hasattr(sys.modules[home], wrapped):
                return f"{home}.{wrapped}"
    return ""


def _calling_function() -> tuple[str, str]:
    """The outermost function of NumPy or SciPy that is being called, and the distribution whose method it is."""
    frame: FrameType | None = sys._getframe(3)
    found = distribution = ""
    while frame is not None and (module := frame.f_globals.get("__name__", "")).startswith(("numpy.", "scipy.")):
        owner = type(frame.f_locals.get("self")).__name__
        if named := _named_in(frame, module):
            found, distribution = named, ""
        elif module.startswith("scipy.stats.") and owner.endswith("_gen"):
            found, distribution = f"scipy.stats.{frame.f_code.co_name}", owner.removesuffix("_gen")
        elif _public(module).startswith("scipy."):
            found = found or _public(module) + "."
        frame = frame.f_back
    return found, distribution


def _advice() -> str:
    function, distribution = _calling_function()
    if function.startswith("scipy"):
        method = f"{distribution}.{function.rpartition('.')[2]}" if distribution else ""
        shown = f"scipy.stats.{method}" if method else function.rstrip(".")
        instead = alternative(function, distribution)
        return f"{shown} computes with bare arrays; use {instead or 'NumPy functions'}, or tensor.detach()"
    if function.startswith("numpy.polynomial"):
        return f"{function} computes with bare arrays; use np.polyval, np.polymul and their kind, or tensor.detach()"
    return (
        "join Tensors with np.stack, np.concatenate, retrograd.r_, retrograd.c_ or np.array([...], like=tensor), where "
        "np.array, np.r_, np.c_ and functions that are given a list of Tensors make bare arrays; draw random numbers "
        "without parameters and scale them: mean + std * np.random.normal(size=n). np.asarray(tensor.detach()) has no "
        "gradient"
    )


def _array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
    # Integers have no gradient, and inside no_grad none is wanted.
    if self.requires_grad and modes.grad_enabled and (dtype is None or np.dtype(dtype).kind not in "biu"):
        raise RuntimeError(
            f"a Tensor that requires grad cannot become a NumPy array without losing its gradient: {_advice()}"
        )
    if isinstance(self.array, Wrapping):
        try:
            return self.array.__array__(dtype, copy)  # type: ignore[attr-defined]
        except RuntimeError as error:
            raise RuntimeError(f"{str(error).rstrip('.')}: {_advice()}") from None
    if not isinstance(self.array, np.ndarray):
        raise TypeError(f"can't convert a Tensor on {self.device} to a NumPy array; use tensor.cpu() first")
    if copy is False and dtype is not None and np.dtype(dtype) != self.array.dtype:
        raise ValueError(f"np.asarray: a copy is needed to convert {self.array.dtype} to {np.dtype(dtype)}")
    array = self.array if dtype is None else self.array.astype(dtype, copy=False)
    return array.copy() if copy and array is self.array else array


Tensor.__array__ = _array  # type: ignore[method-assign,assignment]
