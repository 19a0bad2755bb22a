"""How many steps all trials of a run may take, from the sizes of a step, so that findings do not depend on the time."""

from __future__ import annotations

import math
import time

from ..recording import Step

LEAST_STEPS = 50  # which take as long as this number of steps of the program
_SECONDS = 3.0  # of trials with small steps, which are more than that
_MOST_SECONDS = 60.0  # of this process; only a stop

# Seconds of a forward and a backward pass: of a call, of a byte of its inputs, and of a multiplication.
_CALL, _BYTE, _PRODUCT = 60e-6, 1e-9, 2e-10


class Budget:
    """The steps that trials may still take."""

    def __init__(self, step: Step | None) -> None:
        seconds = 0.0 if step is None else estimate(step)
        self.remaining = max(LEAST_STEPS, math.ceil(_SECONDS / seconds)) if seconds else 0
        self._end = time.process_time() + max(_MOST_SECONDS, 4 * LEAST_STEPS * seconds)

    def take(self) -> bool:
        """Take one step; return False if none is left."""
        self.remaining -= 1
        return not self.spent

    @property
    def spent(self) -> bool:
        """Whether no step is left."""
        return self.remaining < 0 or time.process_time() > self._end


def estimate(step: Step) -> float:
    """Return about how many seconds a step takes on one core, from the shapes of its calls."""
    seconds = 0.0
    for call in step.calls:
        sizes = [math.prod(shape) for shape in call.shapes]
        seconds += _CALL + _BYTE * 4 * sum(sizes)
        if not call.elementwise and not call.moves and len(sizes) > 1 and call.shapes[1]:
            seconds += 3 * _PRODUCT * math.prod(call.shape) * sizes[1] / max(1, call.shapes[1][0])
    return seconds
