"""The compiled loops that find nonzero elements in blocks of flat memory."""

from __future__ import annotations

import numpy as np

from ...runtime.thread_protocol import shared


@shared()
def counts(x: np.ndarray, block: int, out: np.ndarray, start: int, stop: int) -> None:
    for number in range(start, stop):
        count = 0
        for value in x[number * block : (number + 1) * block]:
            count += value != 0
        out[number] = count


@shared()
def coordinates(
    x: np.ndarray, shape: np.ndarray, block: int, begins: np.ndarray, out: np.ndarray, start: int, stop: int
) -> None:
    """Write the coordinates of nonzero elements of each block to ``out``, from row ``begins[block]`` on."""
    found, lead = np.empty(block, np.int64), np.empty(shape.size, np.int64)
    last = shape.size - 1
    width = shape[last]
    for number in range(start, stop):
        part = x[number * block : (number + 1) * block]
        count = 0
        for j in range(part.size):  # without a branch, which would be mispredicted
            found[count] = j
            count += part[j] != 0
        row = -1
        for i in range(count):
            place = number * block + found[i]
            if row < 0 or place >= (row + 1) * width:
                row = rest = place // width
                for axis in range(last - 1, -1, -1):
                    lead[axis] = rest % shape[axis]
                    rest //= shape[axis]
            at = begins[number] + i
            for axis in range(last):
                out[at, axis] = lead[axis]
            out[at, last] = place - row * width
