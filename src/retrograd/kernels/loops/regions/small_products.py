"""Products of small matrices in regions, by register tiles."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...tiles.tiles import BYTES, MOST, ROWS, size_of, tile_of
from ..elements.basic_loops import _compiled

_step = _compiled()
_size_of: Callable[..., int] = size_of


def _tiles(rows: int, whole: bool, most: int, wide: int) -> Callable[..., None]:
    """Return a function that computes some rows of up to ``most`` vectors of a product."""
    one, two, three = [tile_of(rows, min(count, most), whole, wide=wide) for count in (1, 2, MOST)]

    def compute_tile(
        count: int, x: int, down: int, along: int, b: int, across: int, inner: int, y: int, out_step: int,
        zero: object, live: int,
    ) -> None:  # fmt: skip
        if count == 1:
            one(x, down, along, b, across, inner, y, out_step, zero, live, x, 0)
        elif count == 2:
            two(x, down, along, b, across, inner, y, out_step, zero, live, x, 0)
        else:
            three(x, down, along, b, across, inner, y, out_step, zero, live, x, 0)

    compiled: Callable[..., None] = _step(compute_tile)
    return compiled


def _panel(whole: bool, most: int = MOST, wide: int = BYTES) -> Callable[..., None]:
    """Return a function that computes some vectors of all rows of a product."""
    half = ROWS // 2
    many, some, one = [_tiles(rows, whole, most, wide) for rows in (ROWS, half, 1)]

    def compute_panel(
        count: int, rows: int, a: int, down: int, along: int, b: int, across: int, inner: int, out: int, out_step: int,
        zero: object, live: int,
    ) -> None:  # fmt: skip
        while rows > 0:
            if rows >= ROWS:
                many(count, a, down, along, b, across, inner, out, out_step, zero, live)
                done = ROWS
            elif rows >= half:
                some(count, a, down, along, b, across, inner, out, out_step, zero, live)
                done = half
            else:
                one(count, a, down, along, b, across, inner, out, out_step, zero, live)
                done = 1
            rows, a, out = rows - done, a + done * down, out + done * out_step

    compiled: Callable[..., None] = _step(compute_panel)
    return compiled


_whole_panel, _part_panel, _half_panel = _panel(True), _panel(False), _panel(True, 1, BYTES // 2)


@_step
def small_product(words: np.ndarray, first: int, buffers: np.ndarray, zero: object) -> None:
    """Multiply two small matrices by register tiles, without flushing denormals."""
    rows, inner, columns = words[first + 3], words[first + 4], words[first + 5]
    a, down, along = buffers[words[first + 6]] + words[first + 7], words[first + 8], words[first + 9]
    b, across = buffers[words[first + 10]] + words[first + 11], words[first + 12]
    out, out_step = buffers[words[first + 13]] + words[first + 14], words[first + 15]
    lanes = BYTES // _size_of(zero)
    while columns > 0:
        count = min(MOST, (columns + lanes - 1) // lanes)
        live = min(lanes, columns - (count - 1) * lanes)
        if 2 * live == lanes and count > 1:
            count, live = count - 1, lanes  # writes with a mask are slow
        if live == lanes:
            _whole_panel(count, rows, a, down, along, b, across, inner, out, out_step, zero, live)
        elif 2 * live == lanes:
            _half_panel(count, rows, a, down, along, b, across, inner, out, out_step, zero, live)
        else:
            _part_panel(count, rows, a, down, along, b, across, inner, out, out_step, zero, live)
        columns, b, out = columns - count * lanes, b + count * BYTES, out + count * BYTES
