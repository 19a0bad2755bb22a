"""Convolutions and transposed convolutions in one to three dimensions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.tensor.tensor import Tensor
from ...nn import functional as F
from ..table import Attributes, operator


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
    """Return a Tensor ``(N, C, ...)`` with its last axes padded."""
    widths = [width for pair in reversed(pads) for width in pair]
    return F.pad(x, widths, value=value) if any(widths) else x


def with_ceiling(
    pads: list[tuple[int, int]], sizes: Any, kernel: Any, strides: Any, dilations: Any
) -> list[tuple[int, int]]:
    """Extend the padding to fit a last window that exceeds it, if the window begins before the padding at the end."""
    found = []
    for (before, after), size, k, s, d in zip(pads, sizes, kernel, strides, dilations, strict=True):
        reach = d * (k - 1) + 1
        count = -(-(size + before + after - reach) // s) + 1
        if (count - 1) * s >= size + before:
            count -= 1
        found.append((before, max(after, (count - 1) * s + reach - size - before)))
    return found


_CONVOLUTIONS: dict[int, Callable[..., Tensor]] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_TRANSPOSED: dict[int, Callable[..., Tensor]] = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def _function(at: Attributes, table: dict[int, Callable[..., Tensor]], rank: int) -> Callable[..., Tensor]:
    if rank not in table:
        raise ValueError(f"{at.type}: 1 to 3 spatial dimensions are supported, got {rank}")
    return table[rank]


@operator("Conv")
def conv(at: Attributes, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    rank = x.ndim - 2
    function = _function(at, _CONVOLUTIONS, rank)
    strides, dilations = at("strides", [1] * rank), at("dilations", [1] * rank)
    pads = pads_of(at, x.shape[2:], weight.shape[2:], strides, dilations)
    if all(before == after for before, after in pads):
        sides: Any = [before for before, _ in pads]
    else:
        x, sides = padded(x, pads), 0
    return function(x, weight, bias, strides, sides, dilations, at("group", 1))


@operator("ConvTranspose")
def conv_transpose(at: Attributes, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    rank = x.ndim - 2
    function = _function(at, _TRANSPOSED, rank)
    kernel, sizes = weight.shape[2:], x.shape[2:]
    strides, dilations = at("strides", [1] * rank), at("dilations", [1] * rank)
    extra = at("output_padding", [0] * rank)
    whole = [
        (n - 1) * s + d * (k - 1) + 1 + e
        for n, s, d, k, e in zip(sizes, strides, dilations, kernel, extra, strict=True)
    ]
    mode = at("auto_pad", "NOTSET")
    wanted = at("output_shape")
    if wanted is None and mode in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [n * s for n, s in zip(sizes, strides, strict=True)]
    if wanted is not None:
        cut = [max(size - length, 0) for size, length in zip(whole, wanted[-rank:], strict=True)]
        missing = [max(length - size, 0) for size, length in zip(whole, wanted[-rank:], strict=True)]
        lower = mode == "SAME_UPPER"
        pads = [(c // 2, c - c // 2) if lower else (c - c // 2, c // 2) for c in cut]
    else:
        pads, missing = pads_of(at, sizes, kernel, strides, dilations), [0] * rank
    # The output padding is at the end, and may exceed the stride; elements that no input reaches equal the bias.
    y = function(x, weight, None, strides, 0, 0, at("group", 1), dilations)
    y = padded(y, [(0, e + m) for e, m in zip(extra, missing, strict=True)])
    index = tuple(slice(before, y.shape[2 + i] - after) for i, (before, after) in enumerate(pads))
    y = y[(slice(None), slice(None), *index)]
    return y if bias is None else y + bias.reshape(-1, *[1] * rank)


@operator("ConvInteger")
def conv_integer(
    at: Attributes, x: Tensor, weight: Tensor, x_zero: Tensor | None = None, w_zero: Tensor | None = None
) -> Tensor:
    x, weight = x.to(np.float64), weight.to(np.float64)
    if x_zero is not None:
        x = x - x_zero.to(np.float64)
    if w_zero is not None:
        zero = w_zero.to(np.float64)
        weight = weight - (zero.reshape(-1, *[1] * (weight.ndim - 1)) if zero.numel() > 1 else zero)
    return conv(at, x, weight).to(np.int32)


@operator("Col2Im")
def col2im(at: Attributes, x: Tensor, image: Tensor, block: Tensor) -> Tensor:
    from ..table import ints

    sizes, kernel = ints(image), ints(block)
    rank = len(sizes)
    if rank != 2:
        raise ValueError(f"Col2Im: only 2 spatial dimensions are supported, got {rank}")
    pads = at("pads", [0] * (2 * rank))
    if pads[:rank] == pads[rank:]:
        sides: Any = pads[:rank]
        grown = sizes
    else:
        sides, grown = 0, [size + b + e for size, b, e in zip(sizes, pads[:rank], pads[rank:], strict=True)]
    y = F.fold(x, grown, kernel, at("dilations", [1] * rank), sides, at("strides", [1] * rank))
    if grown != sizes:
        y = y[..., pads[0] : pads[0] + sizes[0], pads[1] : pads[1] + sizes[1]]
    return y
