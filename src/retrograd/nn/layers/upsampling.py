"""Upsampling of images, and permutations of channels and pixels."""

from __future__ import annotations

from .. import functional as F
from ..base.arguments import Size
from ..base.fields import calls_with_fields
from ..base.module import Module


@calls_with_fields(F.interpolate)
class Upsample(Module):
    """Interpolates the spatial dimensions of ``(N, C, *)`` to ``size``, or by ``scale_factor``.

    Raises:
        ValueError: when called, neither or both of size and scale_factor are given, or have a wrong length.
        NotImplementedError: when called, the mode does not support the number of dimensions.

    >>> rg.nn.Upsample(scale_factor=2)(rg.tensor([[[1.0, 2.0]]]))
    tensor([[[1., 1., 2., 2.]]])
    """

    size: Size | None = None
    scale_factor: float | tuple[float, ...] | None = None
    mode: str = "nearest"
    align_corners: bool | None = None
    recompute_scale_factor: bool | None = None

    def __post_init__(self) -> None:
        if isinstance(self.scale_factor, tuple):
            self.scale_factor = tuple(float(factor) for factor in self.scale_factor)
        else:
            self.scale_factor = float(self.scale_factor) if self.scale_factor else None

    def extra_repr(self) -> str:
        what = f"size={self.size!r}" if self.scale_factor is None else f"scale_factor={self.scale_factor!r}"
        return f"{what}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Nearest-neighbor ``Upsample`` of ``(N, C, H, W)``.

    Args:
        size: ``(H', W')``, or one number for both.
        scale_factor: the factors of H and W, or one for both, instead of size.

    >>> rg.nn.UpsamplingNearest2d(scale_factor=2)(rg.ones(1, 1, 2, 3)).shape
    (1, 1, 4, 6)
    """

    def __init__(self, size: Size | None = None, scale_factor: float | tuple[float, float] | None = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Bilinear ``Upsample`` of ``(N, C, H, W)`` with aligned corners; arguments as ``UpsamplingNearest2d``.

    >>> rg.nn.UpsamplingBilinear2d(scale_factor=2)(rg.ones(1, 1, 2, 3)).shape
    (1, 1, 4, 6)
    """

    def __init__(self, size: Size | None = None, scale_factor: float | tuple[float, float] | None = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)


@calls_with_fields(F.pixel_shuffle)
class PixelShuffle(Module):
    """``(*, C * r^2, H, W)`` to ``(*, C, H * r, W * r)`` for the factor r: channels become pixels.

    Args:
        upscale_factor: ``r``.

    Raises:
        RuntimeError: when called, ``r^2`` does not divide the number of channels.

    Source: Shi et al., Real-time single image and video super-resolution, 2016.

    >>> rg.nn.PixelShuffle(3)(rg.ones(1, 9, 4, 4)).shape
    (1, 1, 12, 12)
    """

    upscale_factor: int


@calls_with_fields(F.pixel_unshuffle)
class PixelUnshuffle(Module):
    """``(*, C, H * r, W * r)`` to ``(*, C * r^2, H, W)``: the inverse of ``PixelShuffle``.

    Args:
        downscale_factor: ``r``.

    Raises:
        RuntimeError: when called, ``r`` does not divide height and width.

    >>> rg.nn.PixelUnshuffle(3)(rg.ones(1, 1, 12, 12)).shape
    (1, 9, 4, 4)
    """

    downscale_factor: int


@calls_with_fields(F.channel_shuffle)
class ChannelShuffle(Module):
    """Channel ``i`` of group ``j`` becomes channel ``j`` of group ``i``, for ``(N, C, *)``.

    Args:
        groups: the number of groups, which divides C.

    Raises:
        RuntimeError: when called, ``groups`` does not divide C.

    Source: Zhang et al., ShuffleNet, 2018.

    >>> rg.nn.ChannelShuffle(2)(rg.arange(4.0).reshape(1, 4, 1, 1)).flatten()
    tensor([0., 2., 1., 3.])
    """

    groups: int
