"""Run long chains of elementwise NumPy calls block by block, so that intermediate results stay in the cache."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.arrays.fp_warnings import silent_forms, silently
from ...core.arrays.layout import memory_order
from ...kernels import Reference

BLOCK = 16384


def in_blocks(function: Callable[[Any], object]) -> Callable[[Any], Any]:
    """Decorate an elementwise function that keeps the dtype of its array: large NumPy arrays are computed in blocks."""

    @wraps(function)
    def apply_in_blocks(x: object) -> Any:
        if x.__class__ is not np.ndarray:
            return function(x)
        if not x.flags.c_contiguous:
            order = memory_order(x)
            dense = x.transpose(order)
            return apply_in_blocks(dense).transpose(np.argsort(order)) if dense.flags.c_contiguous else function(x)
        if x.size <= BLOCK:
            return function(x)
        flat = x.reshape(-1)
        out = np.empty_like(flat)
        for start in range(0, flat.size, BLOCK):
            out[start : start + BLOCK] = function(flat[start : start + BLOCK])
        return out.reshape(x.shape)

    return apply_in_blocks


def wide(x: Array) -> Array:
    """Return 16-bit numbers in float32, and other arrays as they are."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 else x


def widened(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Decorate a function of one array so that 16-bit arrays are computed in float32, and the result stays float32."""
    return wraps(function)(lambda x: function(wide(x)))


def in_single(function: Reference) -> Reference:
    """Decorate a function of one array (and parameters) so that float16 is computed in float32 and rounded once."""

    def rounded(x: Array, *args: object, **params: object) -> Array:
        return function(x.astype(np.float32), *args, **params).astype(np.float16)

    def enter(function: Reference, rounded: Reference) -> Reference:
        @wraps(function)
        def computed(x: Array, *args: object, **params: object) -> Array:
            return rounded(x, *args, **params) if x.dtype.char == "e" else function(x, *args, **params)

        return computed

    computed = enter(function, rounded)
    silent_forms[computed] = lambda: enter(silently(function), silently(rounded))
    return computed
