"""Interpolation: resizing of images, and sampling of them at the points of a grid."""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from math import prod
from operator import index as as_integer
from typing import Any

import numpy as np

from ....core.devices import array_module
from ....core.errors import InvalidValue, describe
from ....core.primitive import Primitive, apply, operand
from ....core.tensor import Tensor, new_tensor
from ...table.arguments import number
from ...table.registry import operator
from ..pooling.adaptive import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from .patches import Ints
from .resampling import RESAMPLE, AxisMap

CUBIC = -0.75  # the free parameter of cubic convolution (Keys, 1981), as PyTorch has it
CUBIC_ANTIALIASED = -0.5

# Modes, the number of spatial axes they are for (None: any), and whether align_corners has a meaning.
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


def _cubic(t: Any, a: float) -> Any:
    """The kernel of cubic convolution at distance t."""
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
def axis_map(mode: str, size: int, out: int, align: bool, factor: float | None, antialias: bool) -> AxisMap | None:
    """How one axis is interpolated from ``size`` to ``out`` elements; None where nothing changes."""
    if mode in ("nearest", "nearest-exact"):
        # PyTorch finds the nearest element in single precision, whatever the dtype.
        ratio = np.float32(1 / factor if factor else np.float32(size) / np.float32(out))
        middle = np.float32(0 if mode == "nearest" else 0.5)
        nearest = np.floor((np.arange(out, dtype=np.float32) + middle) * ratio).astype(np.intp)
        return None if size == out and not factor else AxisMap(np.minimum(nearest, size - 1)[None], None, size)
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
    if size == out and scale == 1:
        return None
    source = np.maximum(source, 0)
    below = np.minimum(source.astype(np.intp), size - 1)
    fraction = np.clip(source - below, 0, 1)
    return AxisMap(np.stack([below, np.minimum(below + 1, size - 1)]), np.stack([1 - fraction, fraction]), size)


def _antialiased(mode: str, size: int, center: np.ndarray, scale: float) -> AxisMap:
    """Where the image shrinks the filter is widened by as much, so that every element counts."""
    reach, kernel = _FILTERS[mode]
    support = reach * max(scale, 1.0)
    first = np.maximum((center - support + 0.5).astype(np.intp), 0)
    last = np.minimum((center + support + 0.5).astype(np.intp), size)
    terms = np.arange(int((last - first).max()))[:, None]
    inside = first + terms < last
    weight = np.where(inside, kernel((first + terms - center + 0.5) / max(scale, 1.0)), 0.0)
    return AxisMap(np.minimum(first + terms, last - 1), weight / weight.sum(axis=0), size)


@operator(namespace="nn.functional", method=False)
def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resize ``(N, C, L)``, ``(N, C, H, W)`` or ``(N, C, D, H, W)`` along its spatial axes.

    An output at place i stands at ``(i + 1/2) * scale - 1/2`` of the input, ``scale`` being the ratio of the lengths or
    ``1 / scale_factor``; with ``align_corners`` at ``i * (L - 1) / (O - 1)``. It is a weighted mean of the elements
    around.

    Args:
        size: the spatial size wanted, one integer or one per axis.
        scale_factor: by how much to enlarge each axis, instead of ``size``.
        mode: ``"nearest"`` (at ``floor(i * scale)``, as older programs have it), ``"nearest-exact"``, ``"linear"``
            (3-D), ``"bilinear"``, ``"bicubic"`` (4-D), ``"trilinear"`` (5-D), ``"area"`` (``adaptive_avg_pool``), or
            ``"lanczos"`` (4-D, with ``antialias``).
        align_corners: let the centers of the corner elements, not their corners, keep their place.
        recompute_scale_factor: take the scale from the sizes, not from ``scale_factor``.
        antialias: widen the filter where the image shrinks (``"bilinear"``, ``"bicubic"``, ``"lanczos"``).

    Raises:
        ValueError: neither or both of ``size`` and ``scale_factor`` are given, or the arguments don't go together.
        NotImplementedError: the mode does not exist, or not for this rank or dtype.
        RuntimeError: a size is not positive.

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
        raise NotImplementedError(f"mode {mode!r} does not exist for {describe(x)}; there are {wanted}")
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
    if x.dtype.kind != "f" and (x.dtype != np.uint8 or not mode.startswith("nearest")):
        raise NotImplementedError(f"mode {mode!r} is not implemented for {x.dtype}, got {describe(x)}")
    # A window of the cubic filter may leave the image even where the size stays.
    maps = tuple(
        [
            axis_map(mode, length, t, bool(align_corners), factor, antialias)
            for length, t, factor in zip(shape[2:], out, factors)
        ]
    )
    return apply(RESAMPLE, (x,), {"maps": maps})


def _sizes(
    x: Tensor, axes: int, size: Any, scale_factor: Any, mode: str, recompute: bool | None
) -> tuple[Ints, tuple[float | None, ...]]:
    """The spatial size wanted, and the scale factors to go by (None: by the sizes)."""
    if (size is None) == (scale_factor is None):
        raise InvalidValue("exactly one of size and scale_factor should be defined")
    given = size if scale_factor is None else scale_factor
    values = tuple(given) if isinstance(given, (tuple, list)) else (given,) * axes
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


@operator(namespace="nn.functional", method=False)
def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: bool | None = None
) -> Tensor:
    """``interpolate`` under its older name.

    >>> F.upsample(rg.tensor([[[1.0, 2.0]]]), scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    """
    return interpolate(input, size, scale_factor, mode, align_corners)


@operator(namespace="nn.functional", method=False)
def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """``interpolate`` with mode ``"nearest"``.

    >>> F.upsample_nearest(rg.tensor([[[1.0, 2.0]]]), 4)
    tensor([[[1., 1., 2., 2.]]])
    """
    return interpolate(input, size, scale_factor)


@operator(namespace="nn.functional", method=False)
def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """``interpolate`` with mode ``"bilinear"`` and aligned corners.

    >>> F.upsample_bilinear(rg.tensor([[[[1.0, 2.0], [3.0, 4.0]]]]), 3)[0, 0, 0]
    tensor([1. , 1.5, 2. ])
    """
    return interpolate(input, size, scale_factor, "bilinear", align_corners=True)


# Sampling at given places. With a cotangent y of the result it is one trilinear form
#
#     S(x, w, y) = sum over n, c, p, t of  y[n, c, p] w[n, p, t] x[n, c, index[n, p, t]]
#
# whose derivatives by y, x and w are the primitives SAMPLE, SPREAD and SAMPLE_WEIGHT, as for a convolution. x is laid
# out as (N, C, L), its spatial axes flattened.


def _sample(x: Any, w: Any, index: Any, length: int) -> Any:
    total: Any = None
    for term in range(w.shape[2]):
        values = _picked(x, index[:, :, term])
        values *= w[:, None, :, term]
        total = values if total is None else array_module(x).add(total, values, out=total)
    return total


def _picked(x: Any, index: Any) -> Any:
    """``x[n, c, index[n, p]]``."""
    xp = array_module(x)
    n, channels, length = x.shape
    rows = (xp.arange(n * channels) * length).reshape((n, channels, 1))
    return xp.take(x.reshape((-1,)), rows + index[:, None, :])


def _spread(y: Any, w: Any, index: Any, length: int) -> Any:
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
        lambda g, w, index, length: SPREAD(g, w, index=index, length=length),
        lambda g, x, index, length: SAMPLE_WEIGHT(x, g, index=index, length=length),
    ],
    promote="strict",
)
SPREAD: Primitive = Primitive(
    "grid_sample_input",
    _spread,
    "y w",
    [
        lambda g, w, index, length: SAMPLE(g, w, index=index, length=length),
        lambda g, y, index, length: SAMPLE_WEIGHT(g, y, index=index, length=length),
    ],
    promote="strict",
)
SAMPLE_WEIGHT: Primitive = Primitive(
    "grid_sample_weight",
    _sample_weight,
    "x y",
    [
        lambda g, y, index, length: SPREAD(y, g, index=index, length=length),
        lambda g, x, index, length: SAMPLE(x, g, index=index, length=length),
    ],
    promote="strict",
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
    inside = (x.array > 0) & (x.array < length - 1)
    xp = array_module(x)
    fixed = xp.clip(xp.nan_to_num(x.array, nan=0.0), 0, length - 1)
    return np.where(new_tensor(inside), x, new_tensor(fixed))


def _bring_inside(x: Any, length: int, padding_mode: str, align: bool) -> Any:
    if padding_mode == "reflection":
        x = _reflected(x, 0.0, length - 1.0) if align else _reflected(x, -0.5, length - 0.5)
    return x if padding_mode == "zeros" else _clipped(x, length)


def _axis_terms(x: Tensor, length: int, mode: str, padding_mode: str, align: bool) -> list[tuple[Any, Any, Any]]:
    """Per term along one axis: the place read, whether it is inside, and its weight."""
    xp = array_module(x)
    if mode != "bicubic":
        x = _bring_inside(x, length, padding_mode, align)
    if mode == "nearest":
        # The weight is 1 wherever the point is: a gradient of zero, as PyTorch gives it.
        never = new_tensor(xp.zeros(x.array.shape, dtype=bool))
        return [(*_place(xp, xp.rint(x.array), length), np.where(never, x, 1.0))]
    whole = xp.floor(x.array)
    fraction = x - new_tensor(whole)
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


@operator(
    namespace="nn.functional",
    method=False,
    note="at whole coordinates the gradient by the grid is the one from above; clipped coordinates have none",
)
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """The input at the points of a grid: ``(N, C, H, W)`` at ``(N, H', W', 2)``, or 5-D at ``(N, D', H', W', 3)``.

    The last axis of the grid is (x, y) or (x, y, z), in units where -1 and 1 are the ends of the input's axes: with
    ``align_corners`` the centers of the corner elements, else their outer edges.

    Args:
        mode: ``"bilinear"`` (in 5-D trilinear), ``"nearest"``, or ``"bicubic"`` (4-D).
        padding_mode: what lies outside: ``"zeros"``, the ``"border"``, or a ``"reflection"``.
        align_corners: by default False.

    Raises:
        ValueError: the mode or padding mode does not exist.
        RuntimeError: the shapes or dtypes do not match.

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
    given = f"input {describe(x)} and grid {describe(points)}"
    if axes not in (2, 3) or points.array.ndim != axes + 2:
        raise RuntimeError(f"expected 4D or 5D input and a grid of the same rank, got {given}")
    if points.array.shape[0] != shape[0] or points.array.shape[-1] != axes:
        raise RuntimeError(f"expected a grid with batch {shape[0]} and last dimension {axes}, got {given}")
    if x.dtype != points.dtype or x.dtype.kind != "f":
        raise RuntimeError(f"expected input and grid of one floating dtype, got {given}")
    if 0 in shape[2:]:
        raise RuntimeError(f"expected input with non-empty spatial dimensions, got {given}")
    if mode == "bicubic" and axes != 2:
        raise RuntimeError(f"mode 'bicubic' only supports 4D input, got {given}")
    align = bool(align_corners)
    size, out = shape[2:], points.array.shape[1:-1]
    points = points.reshape(shape[0], prod(out), axes)
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
    for each in product(*terms):
        index: Any = 0
        inside: Any = True
        weight: Any = None
        for (place, valid, factor), length in zip(each, size):
            index = index * length + place
            inside = inside & valid
            weight = factor if weight is None else weight * factor
        weights.append(np.where(new_tensor(inside), weight, 0.0))
        indices.append(index)
    return xp.stack(indices, axis=-1), np.stack(weights, axis=-1)


@operator(namespace="nn.functional", method=False)
def affine_grid(theta: Tensor, size: Any, align_corners: bool | None = None) -> Tensor:
    """The grid for ``grid_sample`` that an affine map makes: each point of the regular grid, times ``theta``.

    Args:
        theta: ``(N, 2, 3)`` for images, ``(N, 3, 4)`` for volumes.
        size: the size of the result of ``grid_sample``: ``(N, C, H, W)`` or ``(N, C, D, H, W)``.
        align_corners: whether -1 and 1 are the centers of the corner elements, not their outer edges; by default False.

    Returns:
        ``(N, H, W, 2)`` or ``(N, D, H, W, 3)``.

    Raises:
        NotImplementedError: the size has neither four nor five elements.
        ValueError: theta does not fit, is not floating, or a size is not positive.

    >>> F.affine_grid(rg.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]]), (1, 1, 1, 2))
    tensor([[[[-0.5,  0. ],
              [ 0.5,  0. ]]]])
    """
    t = operand(theta, "theta")
    sizes = tuple([as_integer(length) for length in size])
    axes = len(sizes) - 2
    if t.dtype.kind != "f":
        raise InvalidValue(f"expected theta to have floating point type, but got {describe(t)}")
    if axes not in (2, 3):
        raise NotImplementedError(f"only supports 4D and 5D sizes, got {sizes}")
    if t.array.ndim != 3 or t.array.shape[1:] != (axes, axes + 1):
        raise InvalidValue(f"expected theta (N, {axes}, {axes + 1}) for size {sizes}, got {describe(t)}")
    if min(sizes) < 1:
        raise InvalidValue(f"expected non-zero, positive output size, got {sizes}")
    if t.array.shape[0] != sizes[0]:
        raise RuntimeError(f"theta {describe(t)} and size {sizes} differ in the batch")
    coordinates = []
    for length in sizes[2:]:
        places = np.linspace(-1, 1, length) if length > 1 else np.zeros(1)
        coordinates.append(places if align_corners else places * ((length - 1) / length))
    mesh = np.meshgrid(*coordinates, indexing="ij")
    # x, the last axis, comes first; the constant 1 carries the shift.
    base = np.stack([*mesh[::-1], np.ones(sizes[2:])], axis=-1).reshape(-1, axes + 1)
    points = array_module(t).asarray(base, dtype=t.dtype)
    result = new_tensor(points) @ t.transpose(1, 2)
    return result.reshape(sizes[0], *sizes[2:], axes)
