"""Silence for floating-point flags: log(0) is -inf and 0/0 is NaN here, without a warning.

``numpy.errstate`` costs more than a small operator. Its state lives in a context variable, which is ten times cheaper
to set directly; where a NumPy version keeps it elsewhere, ``errstate`` serves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Self

import numpy as np

from ..graph.modes import AtomicExit

_extobj_contextvar: Any = None
_SILENT: Any = None
try:
    from numpy._core import umath

    _SILENT = umath._make_extobj(all="ignore")
    _extobj_contextvar = umath._extobj_contextvar
except (ImportError, AttributeError):  # pragma: no cover - depends on the NumPy version
    pass


if _extobj_contextvar is not None:

    class silent(AtomicExit):
        """A context manager under which NumPy raises no floating-point warning."""

        __slots__ = ()

        def __enter__(self) -> Self:
            found = _extobj_contextvar.get()
            try:
                self.close = partial(_extobj_contextvar.reset, _extobj_contextvar.set(_SILENT))
            except BaseException:
                _extobj_contextvar.set(found)
                raise
            return self

    def silenced(function: Callable[..., Any], *args: object, **kwargs: object) -> Any:
        """What the function returns, run without floating-point warnings."""
        found = _extobj_contextvar.get()
        try:  # as in ``without_fp_warnings`` below
            _extobj_contextvar.set(_SILENT)
            return function(*args, **kwargs)
        finally:
            _extobj_contextvar.set(found)

    def silently(function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, run without floating-point warnings."""
        look, put, state = _extobj_contextvar.get, _extobj_contextvar.set, _SILENT

        def without_fp_warnings(*args: object, **kwargs: object) -> Any:
            found = look()
            try:  # signals come after a call: with ``put`` outside, between its effect and the protection from it
                put(state)
                return function(*args, **kwargs) if kwargs else function(*args)
            finally:
                put(found)

        return without_fp_warnings

else:  # pragma: no cover - depends on the NumPy version
    silent = partial(np.errstate, all="ignore")  # type: ignore[misc,assignment]

    def silenced(function: Callable[..., Any], *args: object, **kwargs: object) -> Any:
        """What the function returns, run without floating-point warnings."""
        with silent():
            return function(*args, **kwargs)

    def silently(function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, run without floating-point warnings."""
        return np.errstate(all="ignore")(function)
