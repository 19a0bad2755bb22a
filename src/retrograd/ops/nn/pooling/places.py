"""Read, write and add elements at positions of the flattened spatial axes."""

from __future__ import annotations

from math import prod

from ....core.arrays import Array
from ....core.arrays.devices import array_module
from ....core.graph.primitive import Primitive
from ...table.batching import folded
from ..spatial.windows import Ints


def _rows(x: Array) -> Array:
    return x.reshape((x.shape[0] * x.shape[1], prod(x.shape[2:])))


def _read_at(x: Array, index: Array, size: Ints) -> Array:
    xp = array_module(x)
    rows = _rows(x)
    places = _rows(index) + xp.arange(rows.shape[0])[:, None] * rows.shape[1]
    return xp.take(rows.reshape((-1,)), places).reshape(index.shape)


def _add_at(values: Array, index: Array, size: Ints) -> Array:
    xp = array_module(values)
    count, length = values.shape[0] * values.shape[1], prod(size)
    shape = (*values.shape[:2], *size)
    if not values.size or not length:
        return xp.zeros(shape, dtype=values.dtype)
    places = _rows(index) + xp.arange(count)[:, None] * length
    total = xp.bincount(places.reshape((-1,)), weights=values.reshape((-1,)), minlength=count * length)
    return total.astype(values.dtype).reshape(shape)


def _write_at(values: Array, index: Array, size: Ints) -> Array:
    xp = array_module(values)
    out = xp.zeros((*values.shape[:2], *size), dtype=values.dtype)
    if values.size:
        rows = xp.arange(values.shape[0] * values.shape[1])[:, None]
        _rows(out)[rows, _rows(index)] = _rows(values)
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
