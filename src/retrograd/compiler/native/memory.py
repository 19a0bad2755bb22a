"""Where in the arena arrays lie: those that live at the same time apart, all others one over the other."""

from __future__ import annotations

from collections.abc import Sequence

from .steps import Buffer, Step

LINE = 64  # bytes that arrays are aligned to


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
    """Give each buffer of the arena its offset, the largest first; the bytes of the arena."""
    placed: list[Buffer] = []
    size = 0
    for buffer in sorted((b for b in buffers if b.kind == "arena"), key=lambda b: -b.nbytes):
        offset = 0
        for other in sorted(placed, key=lambda b: b.index):
            if other.first <= buffer.last and buffer.first <= other.last:
                if offset + buffer.nbytes <= other.index:
                    break
                offset = max(offset, -(-(other.index + other.nbytes) // LINE) * LINE)
        buffer.index = offset
        placed.append(buffer)
        size = max(size, offset + buffer.nbytes)
    return size
