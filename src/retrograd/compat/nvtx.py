"""``cuda.nvtx``: marks in the profiles of NVIDIA's tools, which need a GPU."""

from __future__ import annotations

from .cuda import _cupy


def range_push(msg: str) -> int:
    """Begin a range."""
    _cupy().cuda.nvtx.RangePush(msg)
    return 0


def range_pop() -> int:
    """End the range begun last."""
    _cupy().cuda.nvtx.RangePop()
    return 0


def mark(msg: str) -> None:
    """Mark a moment."""
    _cupy().cuda.nvtx.Mark(msg)
