"""Update many arrays by one call of the loops in ``update_loops.py``: optimizers' steps over all parameters of a group,
the norm of all gradients and their scaling, averages of weights.

The updates are those of ``elements/updates.py``; the references of other calls are next to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import accumulate, chain
from typing import Any

import numpy as np

from ....core.arrays import Array
from ....core.opaque_calls import LoopMissing
from ... import SEVERAL, WORTH_SHARING, compiled, loop
from ...runtime.threads import launch

SQUARES = "squares"  # the loop of ``sum_of_squares``
BLOCK = 1 << 14  # number of elements in a block whose squares are summed together
SCALED = 1 << 12  # number of a gradient's elements that are scaled at a time, before the step reads them
STATES = 2  # the largest number of arrays of state of an update that has a loop


def takes(rows: Sequence[Sequence[Any]], name: str, numbers: int, least: int = SEVERAL) -> bool:
    """Return whether to use the loop ``name``, with this number of factors, on these rows of arrays.

    The arrays of a row must have one size, and all rows together at least ``least`` elements.
    """
    total, dtype = 0, None
    for row in rows:
        for array in row:
            if type(array) is not np.ndarray or array.dtype.char not in "fd" or not array.flags.carray:
                return False
            dtype = dtype or array.dtype
            if array.dtype is not dtype:
                return False
        total += row[0].size
    return total >= least and compiled() is not None and (name == SQUARES or _is_there(name, dtype, numbers))


@cache
def _is_there(name: str, dtype: Any, numbers: int) -> bool:
    """Return whether the loop exists; checked before ``update``, whose callers have already counted the step."""
    rates = np.zeros((1, 0), dtype), _scalars(dtype, *[0.0] * numbers), dtype.type(1)
    try:
        loop("loops.elements.update_loops", name).entry(0, 1, 0, 0, 0, _table([[rates[0]]]), _bounds(1)[0], *rates)
    except LoopMissing:
        return False
    return True


def update(
    name: str, rows: Sequence[Sequence[Any]], rates: object, factors: Sequence[float], scale: float = 1.0
) -> None:
    """Run a loop.

    Args:
        name: the name of the loop.
        rows: for each parameter its arrays, which are written: up to four of one dtype and size.
        rates: for each parameter the numbers that differ between parameters, or nothing.
        factors: the numbers shared by all parameters.
        scale: a factor by which the second array of each row is multiplied first, in place.
    """
    dtype = rows[0][0].dtype
    bounds, total = _bounds(*[row[0].size for row in rows])
    numbers = np.array(rates, dtype).reshape(len(rows), -1), _scalars(dtype, *factors), dtype.type(scale)
    launch(loop("loops.elements.update_loops", name), total, WORTH_SHARING, _table(rows), bounds, *numbers)


def sum_of_squares(arrays: Sequence[Any]) -> float:
    """Return the sum over all arrays in double precision; the result does not depend on the number of threads."""
    return float(_sums_of_blocks(arrays)[0].sum())


def sums_of_squares(arrays: Sequence[Array]) -> Array:
    """Return the sum over each array, none of which is empty, in double precision."""
    sums, bounds = _sums_of_blocks(arrays)
    return np.add.reduceat(sums, bounds[:-1])


def _sums_of_blocks(arrays: Sequence[Array]) -> tuple[Array, Array]:
    """Return the sum over each block of each array, and the offsets of the arrays' blocks."""
    sizes = [array.size for array in arrays]
    bounds, total = _bounds(*[-(-size // BLOCK) for size in sizes])
    out = np.empty(total)
    table = _table([[array] for array in arrays]), bounds, np.array(sizes, np.intp)
    launch(loop("loops.elements.update_loops", SQUARES), len(out), 1, *table, out, arrays[0].dtype.type(0))
    return out, bounds


@lru_cache(maxsize=64)
def _bounds(*sizes: int) -> tuple[Any, int]:
    """Return the offset of each row among all elements, followed by their total number."""
    bounds = np.array([0, *accumulate(sizes)], np.intp)
    return bounds, int(bounds[-1])


@lru_cache(maxsize=64)
def _scalars(dtype: np.dtype, *numbers: float) -> tuple[Array, ...]:
    return tuple(map(dtype.type, numbers))


def _table(rows: Sequence[Sequence[Any]]) -> Array:
    """Return the addresses of array objects, from which the loop reads data pointers: NumPy's attribute is slow."""
    return np.array(list(map(id, chain.from_iterable(rows))), np.int64).reshape(len(rows), -1)
