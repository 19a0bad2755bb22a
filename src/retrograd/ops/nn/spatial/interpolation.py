"""Interpolation: resizing of images and volumes along their spatial axes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import index as as_integer
from typing import Any

import numpy as np

from ....core.arrays import Array
from ....core.arrays.dtypes import FLOATING, DType
from ....core.errors import InvalidValue, describe
from ....core.graph.primitive import apply, operand
from ....core.tensor.tensor import Tensor, new_tensor
from ...table.arguments import number
from ...table.registry import operator
from ...table.types import Size
from ..pooling.adaptive import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from .resampling import RESAMPLE, AxisMap, in_fixed_point
from .sliding_windows import Ints

CUBIC = -0.75  # the free parameter of cubic convolution (Keys, 1981), as in PyTorch
CUBIC_ANTIALIASED = -0.5
SMALL = 128  # PyTorch uses its kernel for small images if height plus width of the result are at most this

# For each mode the number of spatial axes (None: any), and whether it accepts align_corners.
MODES: dict[str, tuple[int | None, bool]] = {
    "nearest": (None, False),
    "nearest-exact": (None, False),
    "area": (None, False),
    "linear": (1, True),
    "bilinear": (2, True),
    "bicubic": (2, True),
    "lanczos": (2, True),
    "trilinear": (3, True),
}


def _cubic(t: Array, a: float) -> Array:
    t = np.abs(t)
    near = ((a + 2) * t - (a + 3)) * t * t + 1
    far = (((t - 5) * t + 8) * t - 4) * a
    return np.where(t < 1, near, np.where(t < 2, far, 0.0))


_FILTERS = {
    "bilinear": (1, lambda t: np.maximum(1 - np.abs(t), 0)),
    "bicubic": (2, lambda t: _cubic(t, CUBIC_ANTIALIASED)),
    "lanczos": (3, lambda t: np.where(np.abs(t) < 3, np.sinc(t) * np.sinc(t / 3), 0.0)),
}


@lru_cache(maxsize=512)
def axis_map(mode: str, size: int, out: int, factor: float | None, align: bool, antialias: bool) -> AxisMap | None:
    """Return the map that interpolates one axis from ``size`` to ``out`` elements; None for the identity."""
    if size == out and (antialias or mode != "bicubic"):
        return None  # even if the factor is not 1, as in PyTorch
    steps = np.arange(out)
    if align:
        scale = (size - 1) / (out - 1) if out > 1 else 0.0
        source = steps * scale
    else:
        scale = 1 / factor if factor else size / out
        source = (steps + 0.5) * scale - 0.5
    if antialias:
        return _antialiased(mode, size, scale * (steps + 0.5), scale)
    if mode == "bicubic":
        whole = np.floor(source)
        offsets = np.arange(-1, 3)[:, None]
        weight = _cubic(source - whole - offsets, CUBIC)
        return AxisMap(np.clip(whole.astype(np.intp) + offsets, 0, size - 1), weight, size)
    source = np.maximum(source, 0)
    below = np.minimum(source.astype(np.intp), size - 1)
    # At and after the last element, only the last element counts.
    fraction = np.where(below < size - 1, source - below, 0)
    counts = np.where(below < size - 1, 2, 1)
    index = np.stack([below, np.minimum(below + 1, size - 1)])
    return AxisMap(index, np.stack([1 - fraction, fraction]), size, counts)


@lru_cache(maxsize=512)
def nearest_map(exact: bool, size: int, out: int, factor: float | None, dtype: DType, small: bool) -> AxisMap | None:
    """Return the element that each output repeats along one axis; None for the identity.

    PyTorch has two kernels. The one for small images computes in single precision and ignores the factor for an axis
    whose length is unchanged or doubled; the other computes in the dtype and uses the factor.
    """
    steps = np.arange(out)
    if small and not exact and out in (size, 2 * size):
        nearest = steps // (out // size)
    else:
        precision = np.dtype(np.float32 if small or dtype != np.float64 else np.float64)
        ratio = precision.type(1 / factor if factor else precision.type(size) / precision.type(out))
        places: Any = steps.astype(precision)
        if exact and small:
            places = (steps + 0.5) * float(ratio)
        elif exact:
            half = precision.type(0.5)
            places = np.maximum((places + half) * ratio - half, 0) + half
        else:
            places = places * ratio
        nearest = np.floor(places.astype(np.float32)).astype(np.intp)
    nearest = np.minimum(nearest, size - 1)
    return None if size == out and bool((nearest == steps).all()) else AxisMap(nearest[None], None, size)


def _antialiased(mode: str, size: int, center: np.ndarray, scale: float) -> AxisMap:
    """Return the antialiasing filter, which is widened by the reduction factor so that every element contributes."""
    reach, kernel = _FILTERS[mode]
    support = reach * max(scale, 1.0)
    first = np.maximum((center - support + 0.5).astype(np.intp), 0)
    last = np.minimum((center + support + 0.5).astype(np.intp), size)
    terms = np.arange(int((last - first).max()))[:, None]
    inside = first + terms < last
    weight = np.where(inside, kernel((first + terms - center + 0.5) / max(scale, 1.0)), 0.0)
    return AxisMap(np.minimum(first + terms, last - 1), weight / weight.sum(axis=0), size, last - first)


@operator(namespace="nn.functional", method=False, raises="positive size", shape="spatial")
def interpolate(
    input: Tensor,
    size: Size | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """``sum_j w_ij input[n, c, j]``: the input resized along its spatial axes.

    Output i is at position ``(i + 1/2) * scale - 1/2`` of the input, where ``scale`` is the ratio of the lengths or ``1
    / scale_factor``; with ``align_corners`` at ``i * (L - 1) / (O - 1)``.

    Derivative: the transpose of the map: each element gets ``g`` times its weight in each output.
    Dtype: real floating, preserved; also uint8 for the nearest modes and for images.

    Args:
        size: the spatial size of the result, one integer or one per axis.
        scale_factor: the factor by which each axis is enlarged, instead of ``size``.
        mode: ``"nearest"`` (at ``floor(i * scale)``, for compatibility), ``"nearest-exact"``, ``"linear"``
            (3-D), ``"bilinear"``, ``"bicubic"`` (4-D), ``"trilinear"`` (5-D), ``"area"`` (``adaptive_avg_pool``), or
            ``"lanczos"`` (4-D, with ``antialias``).
        align_corners: align the centers of the corner elements of input and output, instead of their outer corners.
        recompute_scale_factor: compute the scale from the rounded output size instead of ``scale_factor``.
        antialias: widen the filter where the image shrinks (``"bilinear"``, ``"bicubic"``, ``"lanczos"``).

    Raises:
        ValueError: neither or both of ``size`` and ``scale_factor`` are given, or an argument is not supported by the
            mode.
        NotImplementedError: the mode is unknown, or not defined for this number of dimensions or dtype.

    Source: bicubic: Keys, "Cubic convolution interpolation for digital image processing", 1981, with ``a = -0.75``, and
        -0.5 with ``antialias``.

    >>> F.interpolate(rg.tensor([[[1.0, 2.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    >>> F.interpolate(rg.tensor([[[1.0, 2.0]]]), size=3, mode="linear", align_corners=True)
    tensor([[[1. , 1.5, 2. ]]])
    """
    x = operand(input)
    axes, shape = x.array.ndim - 2, x.array.shape
    needed, aligns = MODES.get(mode, (0, True))
    if needed is not None and needed != axes or not 1 <= axes <= 3:
        wanted = "; ".join(f"{name} {'3D to 5D' if n is None else f'{n + 2}D'}" for name, (n, _) in MODES.items())
        raise NotImplementedError(f"mode {mode!r} does not exist for {describe(x)}; the modes are {wanted}")
    if not aligns and align_corners is not None:
        raise InvalidValue(f"align_corners can't be set with mode {mode!r}")
    if antialias and mode not in _FILTERS:
        raise InvalidValue(f"antialias needs one of the modes {', '.join(_FILTERS)}, got {mode!r}")
    if mode == "lanczos" and (align_corners or not antialias):
        raise InvalidValue("mode 'lanczos' needs antialias=True, and align_corners=False")
    out, factors = _sizes(x, axes, size, scale_factor, mode, recompute_scale_factor)
    if mode == "area":
        return (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[axes - 1](x, out)
    if min(out) < 1 or 0 in shape[1:]:
        raise RuntimeError(f"input and output sizes should be greater than 0, got {describe(x)} and size {out}")
    dtype = x.array.dtype
    bytes_ = dtype.char == "B"
    if dtype.kind not in FLOATING and not (bytes_ and (mode.startswith("nearest") or axes == 2)):
        raise NotImplementedError(f"mode {mode!r} is not implemented for {x.dtype}, got {describe(x)}")
    lengths = tuple(zip(shape[2:], out, factors))
    if mode.startswith("nearest"):
        small = axes == 2 and sum(out) <= SMALL
        maps = tuple([nearest_map(mode == "nearest-exact", *given, dtype, small) for given in lengths])
    else:
        # A window of the cubic filter may extend beyond the image even if the size is unchanged.
        maps = tuple([axis_map(mode, *given, bool(align_corners), antialias) for given in lengths])
    if bytes_ and not mode.startswith("nearest"):
        return new_tensor(in_fixed_point(x.array, maps))
    return apply(RESAMPLE, (x,), {"maps": maps})


def _sizes(
    x: Tensor,
    axes: int,
    size: Size | None,
    scale_factor: float | Sequence[float] | None,
    mode: str,
    recompute: bool | None,
) -> tuple[Ints, tuple[float | None, ...]]:
    if (size is None) == (scale_factor is None):
        raise InvalidValue("exactly one of size and scale_factor should be defined")
    given = size if scale_factor is None else scale_factor
    values: tuple[Any, ...] = tuple(given) if isinstance(given, (tuple, list)) else (given,) * axes
    if len(values) != axes:
        name = "size" if scale_factor is None else "scale_factor"
        raise InvalidValue(f"{name} must be one number or {axes} for {describe(x)}, got {describe(given)}")
    if scale_factor is None:
        if recompute:
            raise InvalidValue("recompute_scale_factor is not meaningful with an explicit size")
        try:
            return tuple([as_integer(value) for value in values]), (None,) * axes
        except TypeError:
            raise TypeError(f"size must be an integer or integers, got {describe(size)}") from None
    factors = tuple([float(number(value, "scale_factor")) for value in values])
    out = tuple([int(length * factor) for length, factor in zip(x.array.shape[2:], factors)])
    return out, (None,) * axes if recompute or mode == "area" else factors


@operator(namespace="nn.functional", method=False, like=interpolate)
def upsample(
    input: Tensor,
    size: Size | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """``interpolate(input, size, scale_factor, mode, align_corners)``, under its older name.

    Args:
        size, scale_factor, mode, align_corners: as in ``interpolate``.

    >>> F.upsample(rg.tensor([[[1.0, 2.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    return interpolate(input, size, scale_factor, mode, align_corners)


@operator(namespace="nn.functional", method=False, raises="positive size", shape="spatial")
def upsample_nearest(
    input: Tensor, size: Size | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """``interpolate(input, size, scale_factor)`` with mode ``"nearest"``.

    Derivative: each element gets the sum of ``g`` over the outputs that repeat it.
    Dtype: real floating and uint8, preserved.

    Args:
        size, scale_factor: as in ``interpolate``.

    Raises:
        ValueError: neither or both of ``size`` and ``scale_factor`` are given.

    >>> F.upsample_nearest(rg.tensor([[[1.0, 2.0]]]), 4)
    tensor([[[1., 1., 2., 2.]]])
    """
    return interpolate(input, size, scale_factor)


@operator(namespace="nn.functional", method=False, dtype="real", like=upsample_nearest)
def upsample_bilinear(
    input: Tensor, size: Size | None = None, scale_factor: float | Sequence[float] | None = None
) -> Tensor:
    """``interpolate(input, size, scale_factor)`` with mode ``"bilinear"`` and ``align_corners``.

    Derivative: each element gets ``g`` times its weight in each output.
    Shape: ``(N, C, H, W)``; the result has the given spatial size.

    Raises:
        NotImplementedError: the input is not 4-D, or not real floating.

    >>> F.upsample_bilinear(rg.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), 3)[0, 0, 0]
    tensor([1. , 1.5, 2. ])
    """
    return interpolate(input, size, scale_factor, "bilinear", align_corners=True)
