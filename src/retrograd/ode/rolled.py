"""Equal steps as one ``func.scan``, which a compiled function compiles once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.tensor.tensor import Tensor, new_tensor
from ..func.loops.scan import scan
from .combine import Leaves
from .explicit import ExplicitMethod
from .system import System


def rolled(system: System, method: ExplicitMethod, times: Sequence[float], y: Leaves, count: int) -> list[Leaves]:
    """Return the states at all times, after ``count`` equal steps between any two."""
    starts = [a + i * (b - a) / count for a, b in zip(times, times[1:], strict=False) for i in range(count)]
    lengths = [(b - a) / count for a, b in zip(times, times[1:], strict=False) for _ in range(count)]
    if len({round(h, 12) for h in lengths}) == 1:
        return _scanned(system, method, starts, lengths[0], y, count)
    states = [y]
    for index in range(0, len(starts), count):
        states += _scanned(system, method, starts[index : index + count], lengths[index], states[-1], count)[1:]
    return states


def _scanned(
    system: System, method: ExplicitMethod, starts: Sequence[float], h: float, y: Leaves, every: int
) -> list[Leaves]:
    """Return the first state and every ``every``-th after it."""
    several = len(starts) > every

    def body(state: Leaves, t: Tensor) -> tuple[Leaves, Any]:
        end = method.step_at(system, t, h, state)
        return end, (end if several else None)

    last, path = scan(body, list(y), new_tensor(np.array(starts, system.dtype)))
    if not several:
        return [y, last]
    return [y, *[[leaf[index] for leaf in path] for index in range(every - 1, len(starts), every)]]
