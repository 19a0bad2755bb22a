"""Resize with one matrix of interpolation weights per axis, and sample at coordinates."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import _generated
from ...core.tensor.tensor import Tensor
from ...nn import functional as F
from ..table import Attributes, checked_shape, constant, ints, operator

rg = _generated.toplevel


@operator("Resize")
def resize(
    at: Attributes, x: Tensor, roi: Tensor | None = None, scales: Tensor | None = None, sizes: Tensor | None = None
) -> Tensor:
    axes = [axis % x.ndim for axis in at("axes", range(x.ndim))]
    given = [] if scales is None else [float(value) for value in scales.detach().numpy().reshape(-1)]
    wanted = ints(sizes)
    if wanted:
        policy = at("keep_aspect_ratio_policy", "stretch")
        given = [size / x.shape[axis] for size, axis in zip(wanted, axes, strict=True)]
        if policy != "stretch":
            scale = min(given) if policy == "not_larger" else max(given)
            given = [scale] * len(axes)
            wanted = [math.floor(scale * x.shape[axis] + 0.5) for axis in axes]
    else:
        wanted = [math.floor(x.shape[axis] * scale) for axis, scale in zip(axes, given, strict=True)]
    regions = None if roi is None or not roi.numel() else roi.detach().numpy().astype(np.float64)
    dtype = x.dtype
    if dtype.kind not in "fV":
        x = x.to(np.float32)
    for place, (axis, size, scale) in enumerate(zip(axes, wanted, given, strict=True)):
        crop = at("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
        if size == x.shape[axis] and scale == 1 and not crop:
            continue
        region = (0.0, 1.0) if regions is None else (regions[place], regions[place + len(axes)])
        checked_shape("Resize", [*x.shape[:axis], size, *x.shape[axis + 1 :]])
        places = _input_coordinates(at, x.shape[axis], size, scale, region)
        x = _along(at, x, axis, places, scale)
    return x if x.dtype == dtype else rg.round(x).to(dtype) if at("mode", "nearest") != "nearest" else x.to(dtype)


def _input_coordinates(at: Attributes, length: int, size: int, scale: float, region: Any) -> np.ndarray:
    """Return the coordinate in the input of each element of the output."""
    mode, i = at("coordinate_transformation_mode", "half_pixel"), np.arange(size, dtype=np.float64)
    if mode == "asymmetric":
        return i / scale
    if mode == "align_corners":
        whole = length * scale  # the length of the result, which may be fractional
        return i * (length - 1) / (whole - 1) if whole > 1 else np.zeros(size)
    if mode == "tf_crop_and_resize":
        start, end = region
        if size > 1:
            return start * (length - 1) + i * (end - start) * (length - 1) / (size - 1)
        return np.full(size, 0.5 * (start + end) * (length - 1))
    if mode == "pytorch_half_pixel" and size == 1:
        return np.zeros(size)
    found = (i + 0.5) / scale - 0.5
    if mode == "half_pixel_symmetric":
        exact = length * scale
        return length / 2 * (1 - size / exact) + found
    if mode not in ("half_pixel", "pytorch_half_pixel"):
        raise ValueError(f"Resize: coordinate_transformation_mode {mode!r} is not supported")
    return found


def _along(at: Attributes, x: Tensor, axis: int, places: np.ndarray, scale: float) -> Tensor:
    mode, length = at("mode", "nearest"), x.shape[axis]
    outside = at("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
    beyond = (places < 0) | (places > length - 1) if outside else np.zeros(len(places), bool)
    if mode == "nearest":
        how = at("nearest_mode", "round_prefer_floor")
        rounded = {
            "round_prefer_floor": lambda: np.ceil(places - 0.5),
            "round_prefer_ceil": lambda: np.floor(places + 0.5),
            "floor": lambda: np.floor(places),
            "ceil": lambda: np.ceil(places),
        }[how]()
        index = constant(rounded.clip(0, length - 1), np.int64, x)
        y = rg.index_select(x, axis, index)
    else:
        weights = _weights(at, mode, places, length, scale)
        matrix = constant(weights, x.dtype if x.dtype.kind == "f" else np.float32, x)
        y = rg.movedim(rg.movedim(x, axis, -1) @ matrix.T, -1, axis)
    if not beyond.any():
        return y
    shape = [1] * y.ndim
    shape[axis] = len(beyond)
    value = rg.full_like(y, at("extrapolation_value", 0.0))
    return rg.where(constant(beyond.reshape(shape), bool, x), value, y)


def _weights(at: Attributes, mode: str, places: Any, length: int, scale: float) -> np.ndarray:
    """Return the matrix ``(new, old)`` of linear or cubic interpolation."""
    wide = min(scale, 1.0) if at("antialias", 0) else 1.0  # downsampling widens the kernel
    reach = (1 if mode == "linear" else 2) / wide
    first = np.floor(places - reach).astype(int) + 1
    taps = first[:, None] + np.arange(math.ceil(2 * reach))
    distance = np.abs(places[:, None] - taps) * wide
    if mode == "linear":
        values = np.clip(1 - distance, 0, None)
    elif mode == "cubic":
        a = at("cubic_coeff_a", -0.75)
        near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
        far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
        values = np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))
    else:
        raise ValueError(f"Resize: mode {mode!r} is not supported")
    inside = (taps >= 0) & (taps < length)
    if at("exclude_outside", 0):
        values = values * inside
    values = values / values.sum(1, keepdims=True)
    matrix = np.zeros((len(places), length))
    np.add.at(matrix, (np.arange(len(places))[:, None], taps.clip(0, length - 1)), values)
    return matrix


@operator("Upsample")
def upsample(at: Attributes, x: Tensor, scales: Tensor) -> Tensor:
    at.set_default("coordinate_transformation_mode", "asymmetric")
    at.set_default("nearest_mode", "floor")
    return resize(at, x, None, scales)


@operator("GridSample")
def grid_sample(at: Attributes, x: Tensor, grid: Tensor) -> Tensor:
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(at("mode", "linear"), at("mode", "linear"))
    return F.grid_sample(
        x, grid, mode=mode, padding_mode=at("padding_mode", "zeros"), align_corners=bool(at("align_corners", 0))
    )


@operator("AffineGrid")
def affine_grid(at: Attributes, theta: Tensor, size: Tensor) -> Tensor:
    return F.affine_grid(theta, ints(size), bool(at("align_corners", 0)))
