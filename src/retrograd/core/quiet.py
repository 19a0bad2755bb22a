"""Silence for floating-point flags: log(0) is -inf and 0/0 is NaN here, without a warning.

``numpy.errstate`` costs more than a small operator. Its state lives in a context variable, which is ten times cheaper
to set directly; where a NumPy version keeps it elsewhere, ``errstate`` serves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

_extobj_contextvar: Any = None
_SILENT: Any = None
try:
    from numpy._core import umath

    _SILENT = umath._make_extobj(all="ignore")
    _extobj_contextvar = umath._extobj_contextvar
except (ImportError, AttributeError):  # pragma: no cover - depends on the NumPy version
    pass


class silent:
    """A context manager under which NumPy raises no floating-point warning."""

    __slots__ = ("_token",)

    if _extobj_contextvar is not None:

        def __enter__(self) -> None:
            self._token = _extobj_contextvar.set(_SILENT)

        def __exit__(self, *error: object) -> None:
            _extobj_contextvar.reset(self._token)

    else:  # pragma: no cover - depends on the NumPy version

        def __enter__(self) -> None:
            self._token = np.errstate(all="ignore")
            self._token.__enter__()

        def __exit__(self, *error: object) -> None:
            self._token.__exit__(*error)


def silently(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, run without floating-point warnings."""
    if _extobj_contextvar is None:  # pragma: no cover - depends on the NumPy version
        return np.errstate(all="ignore")(function)
    enter, leave, state = _extobj_contextvar.set, _extobj_contextvar.reset, _SILENT

    def quiet(*args: Any, **kwargs: Any) -> Any:
        token = enter(state)
        try:
            return function(*args, **kwargs)
        finally:
            leave(token)

    return quiet
