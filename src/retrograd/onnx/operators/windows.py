"""Padding of windows, from ONNX's ``auto_pad``, ``pads`` and ``ceil_mode``."""

from __future__ import annotations

from typing import Any

from ...core.tensor.tensor import Tensor
from ...nn import functional as F
from ..table import Attributes


def pads_of(at: Attributes, sizes: Any, kernel: Any, strides: Any, dilations: Any) -> list[tuple[int, int]]:
    """Return the padding before and after each axis."""
    mode, rank = at("auto_pad", "NOTSET"), len(kernel)
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        found = []
        for size, k, s, d in zip(sizes, kernel, strides, dilations, strict=True):
            whole = max((-(-size // s) - 1) * s + d * (k - 1) + 1 - size, 0)
            half = whole // 2
            found.append((half, whole - half) if mode == "SAME_UPPER" else (whole - half, half))
        return found
    pads = [0] * (2 * rank) if mode == "VALID" else at("pads", [0] * (2 * rank))
    return list(zip(pads[:rank], pads[rank:], strict=True))


def padded(x: Tensor, pads: list[tuple[int, int]], value: float = 0.0) -> Tensor:
    """Pad the last axes of ``(N, C, ...)``."""
    widths = [width for pair in reversed(pads) for width in pair]
    return F.pad(x, widths, value=value) if any(widths) else x


def with_ceiling(
    pads: list[tuple[int, int]], sizes: Any, kernel: Any, strides: Any, dilations: Any
) -> list[tuple[int, int]]:
    """Return the padding for a truncated last window, which must start in the input or the padding before it."""
    found = []
    for (before, after), size, k, s, d in zip(pads, sizes, kernel, strides, dilations, strict=True):
        reach = d * (k - 1) + 1
        count = -(-(size + before + after - reach) // s) + 1
        if (count - 1) * s >= size + before:
            count -= 1
        found.append((before, max(after, (count - 1) * s + reach - size - before)))
    return found
