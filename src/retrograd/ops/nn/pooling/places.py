"""Read, write and add elements at positions of the flattened spatial axes."""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import array_module
from ....core.graph.primitive import Primitive
from ...table.batching import folded
from ..spatial.sliding_windows import Ints


def _in_all_planes(index: Array, size: Ints) -> Array:
    """Convert positions in flattened planes to positions in the whole flattened array."""
    return index + array_module(index).asarray(_starts(index.shape[:2], size))


@lru_cache(maxsize=16)
def _starts(planes: Ints, size: Ints) -> Array:
    """Return the position of each plane's first element."""
    starts = np.arange(prod(planes)) * prod(size)
    starts.flags.writeable = False
    return starts.reshape(planes + (1,) * len(size))


def _read_at(x: Array, index: Array, size: Ints) -> Array:
    return x.reshape(-1).take(_in_all_planes(index, size))


def _add_at(values: Array, index: Array, size: Ints) -> Array:
    xp = array_module(values)
    out = xp.zeros((*values.shape[:2], *size), dtype=values.dtype)
    if values.size and out.size:
        places = _in_all_planes(index, size).reshape(-1)
        out.reshape(-1)[...] = xp.bincount(places, weights=values.reshape(-1), minlength=out.size)
    return out


def _write_at(values: Array, index: Array, size: Ints) -> Array:
    out = array_module(values).zeros((*values.shape[:2], *size), dtype=values.dtype)
    if values.size:
        out.reshape(-1)[_in_all_planes(index, size).reshape(-1)] = values.reshape(-1)
    return out


READ_AT: Primitive = Primitive(
    "read_at",
    _read_at,
    "x",
    [lambda g, index, size: ADD_AT(g, index=index, size=size)],
    piecewise_linear=True,
    batch=folded("index"),
)
ADD_AT: Primitive = Primitive(
    "add_at", _add_at, "x", [lambda g, index, size: READ_AT(g, index=index, size=size)], batch=folded("index")
)
WRITE_AT: Primitive = Primitive(
    "max_unpool", _write_at, "x", [lambda g, index, size: READ_AT(g, index=index, size=size)], batch=folded("index")
)
