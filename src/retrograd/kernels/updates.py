"""Optimizers' steps over all parameters of a group at once, by the loops in ``update_loops.py``.

The references are the ``_update`` methods of ``retrograd.optim``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import USEFUL, WORTH_SHARING, compiled, loop, suits
from .threads import launch


def takes(moved: Sequence[Sequence[Any]]) -> bool:
    """Whether the loops are to be used on these parameters, each given as its arrays: itself, gradient, state."""
    total = sum([arrays[0].size for arrays in moved])
    return total >= USEFUL and all(suits(array) for arrays in moved for array in arrays) and compiled() is not None


def update(name: str, moved: Sequence[Sequence[Any]], rates: Any, factors: Sequence[float], *flags: bool) -> None:
    """Run the loop of an optimizer.

    Args:
        name: the loop's.
        moved: per parameter its arrays, whose memory is written: itself, gradient, state.
        rates: per parameter the numbers that differ from one to the other.
        factors: the numbers of the group.
        flags: whatever else the loop takes.
    """
    width = max(map(len, moved))
    table = np.zeros((len(moved), width), np.intp)
    for row, arrays in zip(table, moved, strict=True):
        row[: len(arrays)] = [array.ctypes.data for array in arrays]
    bounds = np.zeros(len(moved) + 1, np.intp)
    np.cumsum([arrays[0].size for arrays in moved], out=bounds[1:])
    numbers = np.array(rates, np.float32), np.array(factors, np.float32)
    launch(loop("update_loops", name), int(bounds[-1]), WORTH_SHARING, table, bounds, *numbers, *flags)
