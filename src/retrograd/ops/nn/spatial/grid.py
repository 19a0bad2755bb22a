"""Sampling at the points of a grid, and the grids of affine maps.

With a cotangent y of the result sampling is one trilinear form

    S(x, w, y) = sum over n, c, p, t of  y[n, c, p] w[n, p, t] x[n, c, index[n, p, t]]

whose derivatives by y, x and w are the primitives SAMPLE, SAMPLE_TRANSPOSE and SAMPLE_WEIGHT, as for a convolution. x
is laid out as (N, C, L), its spatial axes flattened.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from math import prod
from operator import index as as_integer
from typing import Any

import numpy as np
from numpy import ndarray

from ....core.devices import array_module
from ....core.dtypes import FLOATING
from ....core.errors import InvalidValue, describe
from ....core.modes import modes, watchers
from ....core.primitive import Primitive, apply, operand
from ....core.tensor import Tensor, new_tensor
from ...table.batching import folded
from ...table.composites import raw
from ...table.registry import operator
from .interpolation import CUBIC
from .windows import Ints

SMALL = 1 << 12  # elements read up to which they are read at once


def _sample(x: Any, w: Any, index: Any, length: int) -> Any:
    if type(x) is ndarray and index.size * x.shape[1] <= SMALL:
        n, channels, _ = x.shape
        values = x.ravel().take(_rows(n, channels, length)[..., None] + index[:, None])
        values *= w[:, None]
        return np.add.reduce(values, -1)
    total: Any = None
    for term in range(w.shape[2]):
        values = _picked(x, index[:, :, term])
        values *= w[:, None, :, term]
        total = values if total is None else array_module(x).add(total, values, out=total)
    return total


@lru_cache(maxsize=64)
def _rows(n: int, channels: int, length: int) -> Any:
    """Where the planes begin, ``(n, channels, 1)``; not to be written."""
    rows = (np.arange(n * channels) * length).reshape(n, channels, 1)
    rows.flags.writeable = False
    return rows


def _picked(x: Any, index: Any) -> Any:
    """``x[n, c, index[n, p]]``."""
    xp = array_module(x)
    n, channels, length = x.shape
    rows = (xp.arange(n * channels) * length).reshape((n, channels, 1))
    return xp.take(x.reshape((-1,)), rows + index[:, None, :])


def _sample_transpose(y: Any, w: Any, index: Any, length: int) -> Any:
    xp = array_module(y)
    n, channels, _ = y.shape
    rows = (xp.arange(n * channels) * length).reshape((n, channels, 1))
    total: Any = None
    for term in range(w.shape[2]):
        places = (rows + index[:, None, :, term]).reshape((-1,))
        values = (y * w[:, None, :, term]).reshape((-1,))
        added = xp.bincount(places, weights=values, minlength=n * channels * length)
        total = added if total is None else total + added
    return total.astype(y.dtype).reshape((n, channels, length))


def _sample_weight(x: Any, y: Any, index: Any, length: int) -> Any:
    return np.stack([(_picked(x, index[:, :, term]) * y).sum(axis=1) for term in range(index.shape[2])], axis=-1)


SAMPLE: Primitive = Primitive(
    "grid_sample",
    _sample,
    "x w",
    [
        lambda g, w, index, length: SAMPLE_TRANSPOSE(g, w, index=index, length=length),
        lambda g, x, index, length: SAMPLE_WEIGHT(x, g, index=index, length=length),
    ],
    promote="strict",
    batch=folded("index"),
    piecewise_linear=True,
)
SAMPLE_TRANSPOSE: Primitive = Primitive(
    "grid_sample_transpose",
    _sample_transpose,
    "y w",
    [
        lambda g, w, index, length: SAMPLE(g, w, index=index, length=length),
        lambda g, y, index, length: SAMPLE_WEIGHT(g, y, index=index, length=length),
    ],
    promote="strict",
    batch=folded("index"),
)
SAMPLE_WEIGHT: Primitive = Primitive(
    "grid_sample_weight",
    _sample_weight,
    "x y",
    [
        lambda g, y, index, length: SAMPLE_TRANSPOSE(y, g, index=index, length=length),
        lambda g, x, index, length: SAMPLE(x, g, index=index, length=length),
    ],
    promote="strict",
    batch=folded("index"),
)

# The signed distance from the nearest multiple of a period, as |.| of it is a triangle wave; its derivative is 1.
_FROM_PERIOD: Primitive = Primitive(
    "reflect", lambda x, period: x - period * np.rint(x / period), "x", [lambda g: g], elementwise=True
)


def _reflected(x: Any, low: float, high: float) -> Any:
    """Coordinates outside of ``[low, high]`` reflected at its ends, as often as need be."""
    if high <= low:
        return x * 0.0
    return abs(apply(_FROM_PERIOD, (x - low,), {"period": 2 * (high - low)})) + low


def _clipped(x: Any, length: int) -> Any:
    """Coordinates moved to the border; those moved, and those on it, have no gradient."""
    array = raw(x)
    inside = (array > 0) & (array < length - 1)
    xp = array_module(x)
    fixed = xp.clip(xp.nan_to_num(array, nan=0.0), 0, length - 1)
    return np.where(_beside(x, inside), x, _beside(x, fixed))


def _beside(x: Any, constant: Any) -> Any:
    """An array as what x is: a Tensor, whose history is of interest, or itself an array."""
    return new_tensor(constant) if isinstance(x, Tensor) else constant


def _bring_inside(x: Any, length: int, padding_mode: str, align: bool) -> Any:
    if padding_mode == "reflection":
        x = _reflected(x, 0.0, length - 1.0) if align else _reflected(x, -0.5, length - 0.5)
    return x if padding_mode == "zeros" else _clipped(x, length)


def _axis_terms(x: Any, length: int, mode: str, padding_mode: str, align: bool) -> list[tuple[Any, Any, Any]]:
    """Per term along one axis: the place read, whether it is inside, and its weight."""
    xp = array_module(x)
    if mode != "bicubic":
        x = _bring_inside(x, length, padding_mode, align)
    if mode == "nearest":
        # The weight is 1 wherever the point is: a gradient of zero, as PyTorch gives it.
        never = _beside(x, xp.zeros(x.shape, dtype=bool))
        return [(*_place(xp, xp.rint(raw(x)), length), np.where(never, x, raw(x).dtype.type(1)))]
    whole = xp.floor(raw(x))
    fraction = x - _beside(x, whole)
    if mode == "bilinear":
        return [
            (*_place(xp, whole, length), 1 - fraction),
            (*_place(xp, whole + 1, length), fraction),
        ]
    terms = []
    for offset in range(-1, 3):
        place = whole + offset
        if padding_mode != "zeros":
            place = xp.rint(_bring_inside(new_tensor(place), length, padding_mode, align).array)
        terms.append((*_place(xp, place, length), _cubic_weight(fraction, offset)))
    return terms


def _place(xp: Any, place: Any, length: int) -> tuple[Any, Any]:
    """The place as an index, and whether it is inside; NaN is not."""
    inside = (place >= 0) & (place < length)
    return xp.where(inside, place, 0).astype(np.intp), inside


def _cubic_weight(fraction: Any, offset: int) -> Any:
    """The cubic kernel at the distance of the element ``offset`` from the place ``fraction`` after the whole one."""
    t = fraction - offset if offset < 1 else offset - fraction
    if offset in (0, 1):
        return ((CUBIC + 2) * t - (CUBIC + 3)) * t * t + 1
    return (((t - 5) * t + 8) * t - 4) * CUBIC


@operator(namespace="nn.functional", method=False)
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """``sum_t w[n, p, t] input[n, c, index[n, p, t]]``: the input at the points p of a grid, between its elements.

    The last axis of the grid is (x, y) or (x, y, z), in units where -1 and 1 are the ends of the input's axes: with
    ``align_corners`` the centers of the corner elements, else their outer edges.

    Derivative: input: each element gets ``g`` times its weight at each point; grid: by the slope of the weights, at
    whole coordinates that from above; 0 for coordinates that were clipped, and for ``"nearest"``.
    Shape: input ``(N, C, H, W)`` and grid ``(N, H', W', 2)`` to ``(N, C, H', W')``, or 5-D with ``(N, D', H', W', 3)``.
    Dtype: real floating, the same of both.

    Args:
        input: the Tensor.
        grid: the points.
        mode: ``"bilinear"`` (in 5-D trilinear), ``"nearest"``, or ``"bicubic"`` (4-D).
        padding_mode: what lies outside: ``"zeros"``, the ``"border"``, or a ``"reflection"``.
        align_corners: by default False.

    Raises:
        ValueError: the mode or padding mode does not exist.
        RuntimeError: the shapes or dtypes do not match.

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
    if x.dtype != points.dtype or x.dtype.kind not in FLOATING:
        raise RuntimeError(f"expected input and grid of one floating dtype, got {given()}")
    if 0 in shape[2:]:
        raise RuntimeError(f"expected input with non-empty spatial dimensions, got {given()}")
    if mode == "bicubic" and axes != 2:
        raise RuntimeError(f"mode 'bicubic' only supports 4D input, got {given()}")
    align = bool(align_corners)
    size, out = shape[2:], points.array.shape[1:-1]
    points = points.reshape(shape[0], prod(out), axes)
    if type(points.array) is ndarray and not (points._requires and modes.grad_enabled) and not watchers:
        points = points.array  # the places and weights are constants
    terms = []
    for axis, length in enumerate(size):
        point = points[..., axes - 1 - axis]
        place = (point + 1) * ((length - 1) / 2) if align else ((point + 1) * length - 1) / 2
        terms.append(_axis_terms(place, length, mode, padding_mode, align))
    index, weight = _products(x, size, terms)
    flat = x.reshape(shape[0], shape[1], prod(size))
    result = apply(SAMPLE, (flat, weight), {"index": index, "length": prod(size)})
    return result.reshape(shape[0], shape[1], *out)


def _products(x: Tensor, size: Ints, terms: list[list[tuple[Any, Any, Any]]]) -> tuple[Any, Any]:
    """The terms of all axes multiplied out: flat places ``(N, P, T)`` and their weights, zero outside of the input."""
    xp = array_module(x)
    indices, weights = [], []
    for combination in product(*terms):
        index: Any = 0
        inside: Any = True
        weight: Any = None
        for (place, valid, factor), length in zip(combination, size):
            index = index * length + place
            inside = inside & valid
            weight = factor if weight is None else weight * factor
        weights.append(np.where(_beside(weight, inside), weight, raw(weight).dtype.type(0)))
        indices.append(index)
    return xp.stack(indices, axis=-1), np.stack(weights, axis=-1)


@operator(namespace="nn.functional", method=False)
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """``theta @ (x, y, 1)`` for every point of the regular grid: the grid for ``grid_sample`` that an affine map makes.

    Derivative: theta: the sum of the outer products of ``g`` with the points ``(x, y, 1)``.
    Shape: theta ``(N, 2, 3)`` to ``(N, H, W, 2)``, or ``(N, 3, 4)`` to ``(N, D, H, W, 3)``.
    Dtype: real floating; kept.

    Args:
        theta: the maps.
        size: the size of the result of ``grid_sample``: ``(N, C, H, W)`` or ``(N, C, D, H, W)``.
        align_corners: whether -1 and 1 are the centers of the corner elements, not their outer edges; by default False.

    Raises:
        NotImplementedError: the size has neither four nor five elements.
        ValueError: theta does not fit, is not floating, or a size is not positive.
        RuntimeError: theta and size differ in the batch.

    Source: Jaderberg, Simonyan, Zisserman, Kavukcuoglu, "Spatial transformer networks", 2015.

    >>> F.affine_grid(rg.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]), (1, 1, 1, 2))
    tensor([[[[-0.5,  0. ],
              [ 0.5,  0. ]]]])
    """
    t = operand(theta, "theta")
    sizes = tuple([as_integer(length) for length in size])
    axes = len(sizes) - 2
    if t.dtype.kind not in FLOATING:
        raise InvalidValue(f"expected theta to have floating point type, but got {describe(t)}")
    if axes not in (2, 3):
        raise NotImplementedError(f"only supports 4D and 5D sizes, got {sizes}")
    if t.array.ndim != 3 or t.array.shape[1:] != (axes, axes + 1):
        raise InvalidValue(f"expected theta (N, {axes}, {axes + 1}) for size {sizes}, got {describe(t)}")
    if min(sizes) < 1:
        raise InvalidValue(f"expected non-zero, positive output size, got {sizes}")
    if t.array.shape[0] != sizes[0]:
        raise RuntimeError(f"theta {describe(t)} and size {sizes} differ in the batch")
    points = array_module(t).asarray(_regular_grid(sizes[2:], bool(align_corners), t.dtype))
    result = new_tensor(points) @ t.transpose(1, 2)
    return result.reshape(sizes[0], *sizes[2:], axes)


@lru_cache(maxsize=16)
def _regular_grid(size: Ints, align: bool, dtype: Any) -> Any:
    """The points ``(x, y, 1)`` of the regular grid, whose constant 1 carries the shift; not to be written."""
    coordinates = []
    for length in size:
        places = np.linspace(-1, 1, length) if length > 1 else np.zeros(1)
        coordinates.append(places if align else places * ((length - 1) / length))
    mesh = np.meshgrid(*coordinates, indexing="ij")
    points = np.stack([*mesh[::-1], np.ones(size)], axis=-1).reshape(-1, len(size) + 1).astype(dtype)
    points.flags.writeable = False
    return points
