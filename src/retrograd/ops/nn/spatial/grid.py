"""Sampling at the points of a grid, and the grids of affine maps."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import lru_cache
from operator import index as as_integer
from typing import Any

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import array_module
from ....core.arrays.dtypes import FLOATING, conversion_advice
from ....core.errors import InvalidValue, describe
from ....core.graph.primitive import apply, operand
from ....core.source_location import user_level
from ....core.tensor.tensor import Tensor, new_tensor
from ...table.registry import operator
from .grid_primitives import SAMPLE, Way
from .sliding_windows import Ints


@operator(namespace="nn.functional", method=False, dtype="equal real", raises="dtypes")
def grid_sample(
    input: Tensor, grid: Tensor, mode: str = "bilinear", padding_mode: str = "zeros", align_corners: bool | None = None
) -> Tensor:
    """``sum_t w[n, p, t] input[n, c, index[n, p, t]]``: the input, interpolated at the points p of a grid.

    The last axis of the grid is (x, y) or (x, y, z), in units where -1 and 1 are the ends of the input's axes: with
    ``align_corners`` the centers of the corner elements, else their outer edges.

    Derivative: input: each element gets ``g`` times its weight at each point; grid: by the derivative of the weights
    (at whole coordinates the one-sided derivative from above); 0 for clipped coordinates, and for ``"nearest"``.
    Shape: input ``(N, C, H, W)`` and grid ``(N, H', W', 2)`` to ``(N, C, H', W')``, or 5-D with ``(N, D', H', W', 3)``.

    Args:
        grid: the coordinates of the points.
        mode: ``"bilinear"`` (in 5-D trilinear), ``"nearest"``, or ``"bicubic"`` (4-D).
        padding_mode: the values outside the input: ``"zeros"``, ``"border"`` (the nearest element) or ``"reflection"``.
        align_corners: whether -1 and 1 are the centers of the corner elements; by default False.

    Raises:
        ValueError: the mode or padding mode does not exist.

    Source: Jaderberg, Simonyan, Zisserman, Kavukcuoglu, "Spatial transformer networks", 2015.

    >>> x = rg.arange(4.0).reshape(1, 1, 2, 2)
    >>> F.grid_sample(x, rg.tensor([[[[0.0, 0.0], [1.0, -1.0]]]]), align_corners=True)
    tensor([[[[1.5, 1. ]]]])
    """
    x, points = operand(input), operand(grid, "grid")
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise InvalidValue(f"mode must be 'bilinear', 'nearest' or 'bicubic', got {mode!r}")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise InvalidValue(f"padding_mode must be 'zeros', 'border' or 'reflection', got {padding_mode!r}")
    shape, axes = x.array.shape, x.array.ndim - 2

    def given() -> str:
        return f"input {describe(x)} and grid {describe(points)}"

    if axes not in (2, 3) or points.array.ndim != axes + 2:
        raise RuntimeError(f"expected 4D or 5D input and a grid of the same rank, got {given()}")
    if points.array.shape[0] != shape[0] or points.array.shape[-1] != axes:
        raise RuntimeError(f"expected a grid with batch {shape[0]} and last dimension {axes}, got {given()}")
    if x.array.dtype != points.array.dtype or x.array.dtype.kind not in FLOATING:
        raise RuntimeError(
            f"expected input and grid of the same floating dtype, got {given()}{conversion_advice(x, points)}"
        )
    if 0 in shape[2:]:
        raise RuntimeError(f"expected input with non-empty spatial dimensions, got {given()}")
    if mode == "bicubic" and axes != 2:
        raise RuntimeError(f"mode 'bicubic' only supports 4D input, got {given()}")
    way = Way(shape[2:], mode, padding_mode, bool(align_corners))
    return apply(SAMPLE, (x, points), {"way": way})


@operator(namespace="nn.functional", method=False, dtype="real", like=grid_sample)
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """``theta @ (x, y, 1)`` for every point of the regular grid: an affine map as a grid for ``grid_sample``.

    Derivative: theta: the sum of the outer products of ``g`` with the points ``(x, y, 1)``.
    Shape: theta ``(N, 2, 3)`` to ``(N, H, W, 2)``, or ``(N, 3, 4)`` to ``(N, D, H, W, 3)``.

    Args:
        theta: the affine maps, one matrix per example.
        size: the size of the result of ``grid_sample``: ``(N, C, H, W)`` or ``(N, C, D, H, W)``.
        align_corners: whether -1 and 1 are the centers of the corner elements, not their outer edges; by default False.
            True with a dimension of size 1, whose points are then all at 0, causes a warning.

    Raises:
        TypeError: ``theta`` is not a Tensor, array or number.
        NotImplementedError: the size has neither four nor five elements.
        ValueError: theta has a wrong shape or is not floating, or a size is not positive.
        RuntimeError: theta and size differ in the batch size.

    >>> F.affine_grid(rg.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]), (1, 1, 1, 2))
    tensor([[[[-0.5,  0. ],
              [ 0.5,  0. ]]]])
    """
    t = operand(theta, "theta")
    sizes = tuple([as_integer(length) for length in size])
    axes = len(sizes) - 2
    if t.array.dtype.kind not in FLOATING:
        raise InvalidValue(f"expected theta to have floating point type, but got {describe(t)}")
    if axes not in (2, 3):
        raise NotImplementedError(f"only supports 4D and 5D sizes, got {sizes}")
    if t.array.ndim != 3 or t.array.shape[1:] != (axes, axes + 1):
        raise InvalidValue(f"expected theta (N, {axes}, {axes + 1}) for size {sizes}, got {describe(t)}")
    if min(sizes) < 1:
        raise InvalidValue(f"expected non-zero, positive output size, got {sizes}")
    if t.array.shape[0] != sizes[0]:
        raise RuntimeError(f"theta {describe(t)} and size {sizes} differ in the batch size")
    if align_corners and 1 in sizes[2:]:
        message = f"affine_grid: with align_corners=True all points are at 0 along dimensions of size 1, as in {sizes}"
        warnings.warn(message, stacklevel=user_level())
    points = array_module(t).asarray(_regular_grid(sizes[2:], bool(align_corners), t.dtype))
    result = new_tensor(points) @ t.transpose(1, 2)
    return result.reshape(sizes[0], *sizes[2:], axes)


@lru_cache(maxsize=16)
def _regular_grid(size: Ints, align: bool, dtype: Any) -> Array:
    """Return the points ``(x, y, 1)`` of the regular grid; the cached array must not be written."""
    coordinates = []
    for length in size:
        places = np.linspace(-1, 1, length) if length > 1 else np.zeros(1)
        coordinates.append(places if align else places * ((length - 1) / length))
    mesh = np.meshgrid(*coordinates, indexing="ij")
    points = np.stack([*mesh[::-1], np.ones(size)], axis=-1).reshape(-1, len(size) + 1).astype(dtype)
    points.flags.writeable = False
    return points
