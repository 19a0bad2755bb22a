"""Rearrange channels and pixels: pixel_shuffle and related operators."""

from __future__ import annotations

from ...core.errors import describe
from ...core.graph.primitive import apply1, operand
from ...core.tensor.tensor import Tensor
from ..table.arguments import integer
from ..table.registry import operator
from ..table.types import Operand
from .conversion import CONTIGUOUS
from .permutation import PERMUTE
from .shape import RESHAPE, apply_view


def _channels(input: Operand, factor: int, argument: str) -> tuple[Tensor, tuple[int, ...], int, int, int, int]:
    x = operand(input)
    r = integer(factor, argument)
    if x.ndim < 3:
        raise RuntimeError(f"expected at least 3 dimensions, got {describe(x)}")
    if r <= 0:
        raise RuntimeError(f"{argument} must be positive, got {r}")
    *batch, channels, height, width = x.array.shape
    return x, tuple(batch), channels, height, width, r


def _reordered(x: Tensor, shape: tuple[int, ...], order: tuple[int, ...]) -> Tensor:
    return apply_view(PERMUTE, apply_view(RESHAPE, x, {"shape": shape}), {"dims": order})


@operator(namespace="nn.functional", method=False)
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """``out[.., c, h r + i, w r + j] = input[.., c r^2 + i r + j, h, w]``: channels become pixels.

    Derivative: ``g`` unshuffled.
    Shape: (*, C r^2, H, W) to (*, C, H r, W r), ``r = upscale_factor``.

    Args:
        input: images.
        upscale_factor: the factor by which height and width grow.

    Raises:
        RuntimeError: the number of channels is not a multiple of ``r^2``, or there are fewer than three dimensions.

    Source: Shi et al., Real-Time Single Image and Video Super-Resolution Using an Efficient Sub-Pixel Convolutional
        Neural Network, 2016

    >>> rg.nn.functional.pixel_shuffle(rg.arange(4).reshape(4, 1, 1), 2)
    tensor([[[0, 1],
             [2, 3]]])
    """
    x, batch, channels, height, width, r = _channels(input, upscale_factor, "upscale_factor")
    if channels % (r * r):
        raise RuntimeError(f"the channels of {describe(x)} must be a multiple of upscale_factor² = {r * r}")
    n = len(batch)
    order = (*range(n), n, n + 3, n + 1, n + 4, n + 2)
    x = _reordered(x, (*batch, channels // (r * r), r, r, height, width), order)
    return apply_view(RESHAPE, x, {"shape": (*batch, channels // (r * r), height * r, width * r)})


@operator(namespace="nn.functional", method=False, like=pixel_shuffle)
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """``out[.., c r^2 + i r + j, h, w] = input[.., c, h r + i, w r + j]``: the inverse of ``pixel_shuffle``.

    Derivative: ``g`` shuffled.
    Shape: (*, C, H r, W r) to (*, C r^2, H, W), ``r = downscale_factor``.

    Args:
        downscale_factor: the factor by which height and width shrink.

    Raises:
        RuntimeError: height or width is not a multiple of r, or there are fewer than three dimensions.

    >>> rg.nn.functional.pixel_unshuffle(rg.arange(4).reshape(1, 2, 2), 2).shape
    (4, 1, 1)
    """
    x, batch, channels, height, width, r = _channels(input, downscale_factor, "downscale_factor")
    if height % r or width % r:
        raise RuntimeError(f"height and width of {describe(x)} must be multiples of downscale_factor = {r}")
    n = len(batch)
    order = (*range(n), n, n + 2, n + 4, n + 1, n + 3)
    x = _reordered(x, (*batch, channels, height // r, r, width // r, r), order)
    return apply_view(RESHAPE, x, {"shape": (*batch, channels * r * r, height // r, width // r)})


@operator(namespace="nn.functional", method=False)
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """``out[n, k G + g, *] = input[n, g K + k, *]``: the channels of G groups of K channels, interleaved.

    Derivative: ``g`` with the channels in the original order.
    Shape: (N, C, *, *), preserved; ``C = G K``.

    Args:
        input: images, channels in dimension 1.
        groups: the number of groups G.

    Raises:
        RuntimeError: the number of channels is not a multiple of ``groups``, or there are fewer than three dimensions.

    Source: Zhang et al., ShuffleNet, 2018

    >>> rg.nn.functional.channel_shuffle(rg.arange(4).reshape(1, 4, 1), 2).reshape(-1)
    tensor([0, 2, 1, 3])
    """
    x = operand(input)
    count = integer(groups, "groups")
    if x.ndim < 3 or count <= 0 or x.array.shape[1] % count:
        raise RuntimeError(
            f"expected at least 3 dimensions and a number of channels divisible by {count}, got {describe(x)}"
        )
    n, channels, *rest = x.array.shape
    order = (0, 2, 1, *range(3, 3 + len(rest)))
    x = apply1(CONTIGUOUS, _reordered(x, (n, count, channels // count, *rest), order))
    return apply_view(RESHAPE, x, {"shape": (n, channels, *rest)})
