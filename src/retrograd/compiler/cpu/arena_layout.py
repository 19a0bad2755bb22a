"""Lay out the arena of a region: arrays that live at the same time do not overlap."""

from __future__ import annotations

from collections.abc import Sequence

from ..run.arenas import Block, place_blocks
from .steps import Buffer, Step


def set_lifetimes(steps: Sequence[Step]) -> list[Buffer]:
    """Set the lifetime of each buffer, and the byte range that steps access; return the buffers."""
    found: dict[Buffer, None] = {}
    for number, step in enumerate(steps):
        for at, place in enumerate(step.operands):
            buffer = place.buffer
            low, high = place.span()
            if buffer not in found:
                found[buffer] = None
                buffer.first, buffer.low, buffer.high, buffer.written = number, low, high, False
            buffer.last = number
            buffer.low, buffer.high = min(buffer.low, low), max(buffer.high, high)
            buffer.written = buffer.written or at < step.writes
    return list(found)


def plan(buffers: Sequence[Buffer]) -> int:
    """Set the offset of each buffer in the arena; return the bytes of the arena."""
    inside = [buffer for buffer in buffers if buffer.kind == "arena"]
    blocks = [Block(buffer.nbytes, buffer.first, buffer.last) for buffer in inside]
    size = place_blocks(blocks)
    for buffer, block in zip(inside, blocks, strict=True):
        buffer.index = block.offset
    return size
