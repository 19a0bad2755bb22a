"""Suppress NumPy's floating-point warnings around operators.

PyTorch returns -inf for log(0) and NaN for 0/0 without a warning, and so does Retrograd. ``numpy.errstate`` costs more
than a small operator, so the context variable that holds its state is set directly, which is ten times cheaper.
``errstate`` is used with NumPy versions that do not expose the variable.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ParamSpec, Self, TypeVar

import numpy as np

from ..graph.modes import AtomicExit

P = ParamSpec("P")
R = TypeVar("R")

# For some functions, a factory of a version that suppresses warnings only around its calls of NumPy: changing NumPy's
# error state takes longer than a short compiled loop, which does not need it.
silent_forms: dict[Callable[..., object], Callable[[], Callable[..., Any]]] = {}

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

    def silenced(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function without floating-point warnings and return its result."""
        found = _extobj_contextvar.get()
        if found is _SILENT:
            return function(*args, **kwargs)
        try:  # as in ``without_fp_warnings`` below
            _extobj_contextvar.set(_SILENT)
            return function(*args, **kwargs)
        finally:
            _extobj_contextvar.set(found)

    def silently(function: Callable[..., R]) -> Callable[..., R]:
        """Decorate a function so that it raises no floating-point warnings."""
        if function in silent_forms:
            return silent_forms[function]()
        look, put, state = _extobj_contextvar.get, _extobj_contextvar.set, _SILENT

        def without_fp_warnings(*args: object, **kwargs: object) -> R:
            found = look()
            if found is state:
                return function(*args, **kwargs) if kwargs else function(*args)
            try:  # entered before the state changes: a signal handler may run right after ``put`` returns
                put(state)
                return function(*args, **kwargs) if kwargs else function(*args)
            finally:
                put(found)

        return without_fp_warnings

else:  # pragma: no cover - depends on the NumPy version
    silent = partial(np.errstate, all="ignore")  # type: ignore[misc,assignment]

    def silenced(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function without floating-point warnings and return its result."""
        with silent():
            return function(*args, **kwargs)

    def silently(function: Callable[..., R]) -> Callable[..., R]:
        """Decorate a function so that it raises no floating-point warnings."""
        return np.errstate(all="ignore")(function)
