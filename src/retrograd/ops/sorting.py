"""Sorting and selecting along a dimension: results that are elements of the input, and where they stood."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core.devices import array_module
from ..core.primitive import Primitive
from ..core.tensor import Tensor


class ValuesIndices(NamedTuple):
    """Selected elements and their indices along the dimension."""

    values: Tensor
    indices: Tensor


# Elements picked along a dimension, and their derivative. max(dim), median, sort, topk, cummax ... are all of them picks.


def _mesh(index: Any, dim: int) -> tuple[Any, ...]:
    """What indexes an array at ``index`` along ``dim`` and at its own place along the others."""
    xp = array_module(index)
    places: list[Any] = []
    for axis, length in enumerate(index.shape):
        places.append(xp.arange(length).reshape([-1 if axis == other else 1 for other in range(index.ndim)]))
    places[dim] = index
    return tuple(places)


def _pick(x: Any, index: Any, dim: int, keepdim: bool = True) -> Any:
    out = x[_mesh(index, dim)] if x.ndim else x.copy()
    return out if keepdim or not x.ndim else out.reshape(x.shape[:dim] + x.shape[dim + 1 :])


def _place(x: Any, index: Any, dim: int, shape: tuple[int, ...]) -> Any:
    if not shape:
        return x.copy()
    xp = array_module(x)
    out = xp.zeros(shape, x.dtype)
    xp.add.at(out, _mesh(index, dim), x)
    return out


def _place_once(x: Any, index: Any, dim: int, shape: tuple[int, ...]) -> Any:
    if not shape:
        return x.copy()
    out = array_module(x).zeros(shape, x.dtype)
    out[_mesh(index, dim)] = x
    return out


def picking(name: str, *, repeats: bool = False) -> Primitive:
    """A primitive that takes from x, along ``dim``, the elements at ``index`` (with its size there; one, without ``keepdim``).

    ``repeats`` says that an element may be taken several times, so that its cotangents must be added.
    """
    place = Primitive(
        f"{name}_backward",
        _place if repeats else _place_once,
        "x index",
        [lambda g, index, dim: pick(g, index, dim=dim, keepdim=True), None],
    )
    pick = Primitive(
        name,
        _pick,
        "x index",
        [lambda g, index, x_shape, dim: place(g.reshape(index.shape), index, dim=dim, shape=x_shape), None],
    )
    return pick
