"""Apply the elementwise updates of optimizers to arrays, in place and in cache-sized blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.arrays import Array
from ..core.arrays.dtypes import INEXACT, float16, float32
from ..elements.updates import Operations, updates
from ..kernels.loops.elements import updates as loops

if TYPE_CHECKING:
    from ..core.tensor.tensor import Tensor
    from ..ops.linear.sparse.sparse import SparseTensor
    from .hyperparameters import ParamGroup

BLOCK = 1 << 15  # elements per block: six float32 arrays of a block fit in the second-level cache


def _in_single(function: Callable[..., Array]) -> Callable[..., Array]:
    """Return ``function`` on float16 arrays computed in float32, where squares do not overflow."""

    def compute(*operands: Any) -> Array:
        wide = [x.astype(float32) if hasattr(x, "astype") else x for x in operands]
        return function(*wide).astype(float16)

    return compute


_NUMPY = Operations(
    where=np.where,
    sqrt=np.sqrt,
    absolute=np.abs,
    maximum=np.maximum,
    minimum=np.minimum,
    neutral=lambda number: number == 1,
    absent=lambda number: number == 0,
)
_UPDATES, _HALF_UPDATES = updates(_NUMPY), updates(replace(_NUMPY, wide=_in_single))


def update_arrays(name: str, arrays: list[Array], factors: Sequence[float], rates: Sequence[float]) -> None:
    """Apply an update in cache-sized blocks. All arrays are written except the second, the gradient."""
    if arrays[0].dtype.kind == "c":  # real and imaginary parts are separate numbers
        for part in ("real", "imag"):
            update_arrays(name, [getattr(array, part) for array in arrays], factors, rates)
        return
    if arrays[0].dtype.kind == "V":  # bfloat16 is stored in two bytes per number, and computed in float32
        wide = [array.astype(float32) for array in arrays]
        update_arrays(name, wide, factors, rates)
        for array, result in zip((arrays[0], *arrays[2:]), (wide[0], *wide[2:])):
            array[...] = result
        return
    if all(array.flags.c_contiguous for array in arrays):
        arrays = [array.reshape(-1) for array in arrays]
    p = arrays[0]
    update, given = (_HALF_UPDATES if p.dtype == float16 else _UPDATES)[name], (tuple(factors), tuple(rates))
    length = len(p)
    rows = max(1, BLOCK * length // max(1, p.size)) if isinstance(p, np.ndarray) else max(1, length)
    for start in range(0, length, rows):
        p, g, *state = [array[start : start + rows] for array in arrays] if rows < length else arrays
        for array, result in zip((p, *state), update(p, g, *state, *given)):
            if result is not array:
                array[...] = result


def update_sparse(optimizer: Any, parameter: Tensor, gradient: SparseTensor, group: ParamGroup) -> None:
    """Update a parameter at the coordinates of its gradient.

    Raises:
        RuntimeError: the optimizer does not take sparse gradients, or not with ``weight_decay``.
    """
    if not optimizer.takes_sparse_gradients:
        hint = "please consider SparseAdam instead"
        raise RuntimeError(f"{type(optimizer).__name__} does not support sparse gradients, {hint}")
    if group.get("weight_decay"):
        raise RuntimeError(f"{type(optimizer).__name__}: weight_decay option is not compatible with sparse gradients")
    gradient = gradient.coalesce()
    optimizer._update_at(tuple(gradient.indices().array), parameter, gradient.values().array, group)


def decay_towards(average: Array, value: Array, rate: float) -> None:
    """Update an exponential moving average: ``average += rate * (value - average)``."""
    update_arrays("averaged", [average, value], (rate, 1 - rate), ())


class Unscaled:
    """Gradients that ``step_with_scaling`` must multiply by ``factor``, in place, at the latest after the step."""

    def __init__(self, gradients: Sequence[Array], factor: Array) -> None:
        self.waiting = {id(array): array for array in gradients}
        self.factor = factor

    def take(self, gradients: Sequence[Array]) -> float:
        """Return the factor by which the caller must multiply these gradients in its own loop.

        If a gradient was taken before or occurs twice, the factor is 1, and this method multiplies the other gradients.
        """
        found = [self.waiting.pop(id(array), None) for array in gradients]
        if all(array is not None for array in found):
            return float(self.factor)
        self._multiply([array for array in found if array is not None])
        return 1.0

    def finish(self) -> None:
        """Multiply the gradients that no update has taken."""
        self._multiply(list(self.waiting.values()))
        self.waiting.clear()

    def _multiply(self, gradients: Sequence[Array]) -> None:
        for array in gradients:
            np.multiply(array, self.factor, out=array)


def step_with_scaling(
    optimizer: Any, step: Callable[[object], object], gradients: Sequence[Array], factor: Array
) -> None:
    """Multiply an optimizer's gradients by a factor, in place, and step; a compiled loop does both in one pass."""
    unscaled = Unscaled(gradients, factor)
    if optimizer.step_is_watched():
        unscaled.finish()
    optimizer._unscaled = unscaled
    try:
        step(optimizer)
    finally:
        optimizer._unscaled = None
        unscaled.finish()


def average_all(averages: Sequence[Array], values: Sequence[Array], rate: float) -> None:
    """Apply ``decay_towards`` to many arrays; integers are copied, not averaged."""
    rows = list(zip(averages, values, strict=True))
    if rows and loops.takes(rows, "averaged", 2):
        loops.update("averaged", rows, (), (rate, 1 - rate))
        return
    for average, value in rows:
        if average.dtype.kind in INEXACT:
            decay_towards(average, value, rate)
        else:
            average[...] = value
