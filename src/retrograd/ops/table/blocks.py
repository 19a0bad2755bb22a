"""Long chains of elementwise NumPy calls, run block by block so that what lies between the calls stays in the cache."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.arrays.layout import memory_order

BLOCK = 16384


def in_blocks(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function of one array, elementwise with the same dtype, which takes large NumPy arrays in blocks."""

    @wraps(function)
    def apply_in_blocks(x: Any) -> Any:
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


def in_single(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of one array (and parameters), which computes float16 in float32 and rounds once."""

    @wraps(function)
    def computed(x: Array, *args: object, **params: object) -> Array:
        if x.dtype.char == "e":
            return function(x.astype(np.float32), *args, **params).astype(np.float16)
        return function(x, *args, **params)

    return computed
