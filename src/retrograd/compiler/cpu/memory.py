"""Where in the arena arrays lie: those that live at the same time apart, all others one over the other."""

from __future__ import annotations

from collections.abc import Sequence

from ..run.arenas import Block, arranged
from .steps import Buffer, Step


def note_lives(steps: Sequence[Step]) -> list[Buffer]:
    """The buffers of all operands, with the first and the last step that touches each, and the bytes of inputs."""
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
    """Give each buffer of the arena its offset; the bytes of the arena."""
    inside = [buffer for buffer in buffers if buffer.kind == "arena"]
    blocks = [Block(buffer.nbytes, buffer.first, buffer.last) for buffer in inside]
    size = arranged(blocks)
    for buffer, block in zip(inside, blocks, strict=True):
        buffer.index = block.offset
    return size
