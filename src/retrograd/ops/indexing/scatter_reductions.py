"""Reductions of all values written to one position: the primitives of ``scatter_reduce``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import array_module
from ...core.arrays.dtypes import FLOATING
from ...core.arrays.unbuffered import Reduction, ufunc_at
from ...core.graph.primitive import Primitive
from ..table.composites import raw
from .batching import writing
from .indexing import ERASE, READ, Index, adding, copied


def _reduced_at(ufunc: Reduction, identity: Callable[[Any], object]) -> tuple[Callable[..., Any], Callable[..., None]]:
    """Return the forward and the in-place form of a reduction."""

    def write(out: Any, x: Any, src: Any, index: Index, include_self: bool) -> None:
        if not include_self:
            out[index.key] = identity(out.dtype)
        ufunc_at(ufunc, out, index.key, src)

    def forward(x: Any, src: object, index: Index, include_self: bool) -> Array:
        out = copied(x)
        write(out, x, src, index, include_self)
        return out

    return forward, write


ADD = adding("scatter_add")


def _lowest(dtype: Any) -> float:
    return -np.inf if dtype.kind in FLOATING else False if dtype.kind == "b" else np.iinfo(dtype).min


def _highest(dtype: Any) -> float:
    return np.inf if dtype.kind in FLOATING else True if dtype.kind == "b" else np.iinfo(dtype).max


def _extreme_shares(
    g: Array, x: Array, src: Array, ans: Array, index: Index, include_self: bool
) -> tuple[Any, Any, Any]:
    """Return g divided among the elements equal to the extreme value, and masks of these elements in x and src."""
    x, src, ans = raw(x), raw(src), raw(ans)
    mine, theirs = x == ans, src == ans[index.key]
    if not include_self:
        mine[index.key] = False
    count = ADD(mine.astype(ans.dtype), theirs.astype(ans.dtype), index=index)
    return g / count, mine, theirs


def _extreme_rule(
    g: Array, x: Array, src: Array, ans: Array, index: Index, include_self: bool, needs: tuple[bool, ...]
) -> tuple[Any, Any]:
    share, mine, theirs = _extreme_shares(g, x, src, ans, index, include_self)
    return share * mine if needs[0] else None, READ(share, index=index) * theirs if needs[1] else None


def _prod_rule(
    g: Array, x: Array, src: Array, index: Index, include_self: bool, needs: tuple[bool, ...]
) -> tuple[Any, Any]:
    """The gradient of each factor is g times the product of the other factors at its position, which is correct for
    zeros."""
    xp = array_module(x)
    ones = xp.ones_like(raw(x))
    gx = gsrc = None
    if needs[0]:
        gx = g * SCATTER_PROD(ones, src, index=index, include_self=True)
        gx = gx if include_self else ERASE(gx, index=index)
    if needs[1]:
        zero = raw(src) == 0
        nonzero = src + zero.astype(ones.dtype)
        count = ADD(xp.zeros_like(ones), zero.astype(ones.dtype), index=index)[index.key]
        product = READ(SCATTER_PROD(x, nonzero, index=index, include_self=include_self), index=index)
        gsrc = READ(g, index=index) * (product / nonzero) * (count == zero)
    return gx, gsrc


def _reduction(name: str, ufunc: Reduction, identity: Callable[[Any], object], rule: Any) -> Primitive:
    forward, write = _reduced_at(ufunc, identity)
    return Primitive(
        name,
        forward,
        "x src",
        vjp=rule,
        write=write,
        signals=True,
        piecewise_linear=True,
        contiguous=True,
        batch=writing,
    )


SCATTER_PROD: Primitive = _reduction("scatter_prod", "multiply", lambda dtype: 1, _prod_rule)
SCATTER_AMAX: Primitive = _reduction("scatter_amax", "maximum", _lowest, _extreme_rule)
SCATTER_AMIN: Primitive = _reduction("scatter_amin", "minimum", _highest, _extreme_rule)
