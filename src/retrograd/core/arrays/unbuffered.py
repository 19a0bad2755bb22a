"""``ufunc.at`` for NumPy and CuPy arrays: an index that occurs several times is applied several times.

CuPy has only ``add``, ``maximum`` and ``minimum``, for the dtypes of its atomic operations; its maxima and minima of
floats ignore NaN, and those of float64 are rounded to float32 (CuPy 14). This module computes the missing cases by
sorting.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, Literal

import numpy as np

from .devices import Wrapping, array_module

_ATOMIC = frozenset("ilqefdILQ")  # the dtypes of CuPy's add.at

Reduction = Literal["add", "multiply", "maximum", "minimum"]


def ufunc_at(name: Reduction, out: Any, key: object, values: object) -> None:
    """Run ``getattr(np, name).at(out, key, values)`` on the device of ``out``."""
    xp = array_module(out)
    if xp is np or isinstance(out, Wrapping):
        getattr(xp, name).at(out, key, values)
    elif name == "add":
        _add_at(xp, out, key, values)
    elif name == "multiply" or out.dtype.kind not in "iu" or out.dtype.char not in _ATOMIC:
        _reduce_groups(xp, name, out, key, values)
    else:
        getattr(xp, name).at(out, key, values)


def _add_at(xp: ModuleType, out: Any, key: object, values: Any) -> None:
    if out.dtype.kind == "c":
        values = xp.asarray(values)
        xp.add.at(out.real, key, values.real)
        xp.add.at(out.imag, key, values.imag)
    elif out.dtype.char in _ATOMIC:
        xp.add.at(out, key, values)
    else:  # Sum in int64: cast back, the sums wrap around as sums in small integers do, and bools are combined by "or".
        total = out.astype(xp.int64)
        xp.add.at(total, key, xp.asarray(values).astype(xp.int64))
        out[...] = total.astype(out.dtype)


def _reduce_groups(xp: ModuleType, name: str, out: Any, key: object, values: Any) -> None:
    """Sort the values by index and reduce the values of each index."""
    places = xp.arange(out.size).reshape(out.shape)[key]
    values = xp.broadcast_to(xp.asarray(values, dtype=out.dtype), places.shape).reshape(-1)
    places = places.reshape(-1)
    if not places.size:
        return
    if name != "multiply":
        order = xp.argsort(values)
        places, values = places[order], values[order]
    order = xp.argsort(places)  # CuPy's sorts are stable
    places, values = places[order], values[order]
    begins = xp.ones(places.shape, dtype=bool)
    begins[1:] = places[1:] != places[:-1]
    ufunc, flat = getattr(xp, name), out.reshape(-1)
    if name == "multiply":
        turn = xp.arange(places.size) - xp.searchsorted(places, places)
        for number in range(int(turn.max()) + 1):
            now = turn == number
            flat[places[now]] *= values[now]
    else:  # the minimum and maximum of a group are its first and last value; NaN is sorted last
        ends = xp.ones(places.shape, dtype=bool)
        ends[:-1] = begins[1:]
        extremes = ufunc(values[begins], values[ends])
        there = places[begins]
        flat[there] = ufunc(flat[there], extremes)
    out[...] = flat.reshape(out.shape)
