"""Products of small matrices in regions, by register tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...tiles.tiles import (
    BYTES,
    ROWS,
    _one_part,
    _one_row_part,
    _three,
    _three_part,
    _three_row,
    _three_row_part,
    _tile,
    _two_part,
    _two_row_part,
)
from ..elements.basic_loops import _compiled

_step = _compiled()


def _panel(tiles: Sequence[Callable[..., None]], row_tiles: Sequence[Callable[..., None]]) -> Callable[..., None]:
    """Return the computation of one, two or three vectors of all rows of a product."""
    one, two, three = tiles
    one_row, two_row, three_row = row_tiles

    def compute_panel(
        count: int, rows: int, a: int, down: int, along: int, b: int, across: int, inner: int, out: int, out_step: int,
        zero: object, live: int,
    ) -> None:  # fmt: skip
        i = 0
        while i < rows:
            x, y = a + i * down, out + i * out_step
            if rows - i >= ROWS:
                if count == 1:
                    one(x, down, along, b, across, inner, y, out_step, zero, live, x, 0)
                elif count == 2:
                    two(x, down, along, b, across, inner, y, out_step, zero, live, x, 0)
                else:
                    three(x, down, along, b, across, inner, y, out_step, zero, live, x, 0)
                i += ROWS
            else:
                if count == 1:
                    one_row(x, down, along, b, across, inner, y, out_step, zero, live, x, 0)
                elif count == 2:
                    two_row(x, down, along, b, across, inner, y, out_step, zero, live, x, 0)
                else:
                    three_row(x, down, along, b, across, inner, y, out_step, zero, live, x, 0)
                i += 1

    compiled: Callable[..., None] = _step(compute_panel)
    return compiled


_whole_panel = _panel((_tile(ROWS, 1), _tile(ROWS, 2), _three), (_tile(1, 1), _tile(1, 2), _three_row))
_part_panel = _panel((_one_part, _two_part, _three_part), (_one_row_part, _two_row_part, _three_row_part))


@_step
def small_product(words: np.ndarray, first: int, buffers: np.ndarray, zero: object) -> None:
    """Multiply two small matrices by register tiles, without flushing denormals."""
    rows, inner, columns = words[first + 3], words[first + 4], words[first + 5]
    a, down, along = buffers[words[first + 6]] + words[first + 7], words[first + 8], words[first + 9]
    b, across = buffers[words[first + 10]] + words[first + 11], words[first + 12]
    out, out_step = buffers[words[first + 13]] + words[first + 14], words[first + 15]
    lanes = BYTES // words[first + 2]
    while columns > 0:
        count = min(3, (columns + lanes - 1) // lanes)
        live = min(lanes, columns - (count - 1) * lanes)
        if live == lanes:  # writes with a mask are slow
            _whole_panel(count, rows, a, down, along, b, across, inner, out, out_step, zero, live)
        else:
            _part_panel(count, rows, a, down, along, b, across, inner, out, out_step, zero, live)
        columns, b, out = columns - count * lanes, b + count * BYTES, out + count * BYTES
