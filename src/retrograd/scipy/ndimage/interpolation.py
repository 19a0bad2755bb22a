"""Interpolate images by splines of order 0 to 3, and transform their geometry.

Axes are processed one after another: a matrix per axis computes the spline coefficients, and each point reads
``(order + 1)^d`` of them, with weights that are differentiable with respect to the point.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..._generated import toplevel as ops
from ...core.arrays import Array
from ...core.tensor.tensor import Tensor
from ...ops.numpy.arguments import tensor
from ...ops.numpy.scipy_special import RULES
from ..decorators import ArrayLike, floats, scipys
from ..signal.convolution import PADS, extended
from .filters import _each, _image, _located, ndimage

Shape = int | Sequence[int]
_EDGE = 12  # pixels that SciPy adds around an image before it computes spline coefficients, in two of the modes


@lru_cache(64)
def _coefficients(n: int, order: int, mode: str) -> Array:
    """Return the matrix that maps ``n`` values to spline coefficients, from SciPy's results for unit vectors."""
    return scipys("scipy.ndimage").spline_filter1d(np.eye(n), order, 0, np.float64, mode)


def _filtered(x: Tensor, order: int, mode: str, axes: Sequence[int]) -> Tensor:
    if order <= 1:
        return x
    for axis in axes:
        if x.shape[axis] > 1:
            matrix = tensor(_coefficients(x.shape[axis], order, mode)).astype(x.dtype)
            x = ops.moveaxis(ops.moveaxis(x, axis, -1) @ matrix.mT, -1, axis)
    return x


def _checked(order: int, mode: str) -> None:
    if not 0 <= order <= 5:
        raise RuntimeError("spline order not supported")
    if order > 3:
        raise NotImplementedError(f"scipy.ndimage of Tensors: order must be 0 to 3, got {order}")
    if mode not in PADS:
        raise RuntimeError("boundary mode not supported")


@ndimage
def spline_filter1d(
    input: ArrayLike, order: int = 3, axis: int = -1, output: type = np.float64, mode: str = "mirror"
) -> Tensor:
    """Return the spline coefficients along one axis.

    >>> rg.scipy.ndimage.spline_filter1d(rg.ones(3), 3)
    tensor([1., 1., 1.])
    """
    _checked(order, mode)
    (x,) = floats(input)
    return _filtered(x, order, mode, [axis])


@ndimage
def spline_filter(input: ArrayLike, order: int = 3, output: type = np.float64, mode: str = "mirror") -> Tensor:
    """Return the spline coefficients along all axes.

    >>> rg.scipy.ndimage.spline_filter(rg.ones(3), 3)
    tensor([1., 1., 1.])
    """
    _checked(order, mode)
    if order < 2:
        raise RuntimeError("spline order not supported")
    (x,) = floats(input)
    return _filtered(x, order, mode, range(x.ndim))


def _folded(x: Tensor, n: int, mode: str) -> Tensor:
    if mode in ("constant", "grid-constant"):
        return x
    if mode == "nearest":
        return ops.clamp(x, -4, n + 3)  # the pixels that a point reads are clamped, not the point
    if n == 1:
        return 0 * x
    if mode == "mirror":
        t = ops.remainder(x, 2.0 * (n - 1))
        return ops.where(t.detach() <= n - 1, t, 2.0 * (n - 1) - t)
    if mode in ("reflect", "grid-mirror"):
        t = ops.remainder(x + 0.5, 2.0 * n)
        return ops.where(t.detach() <= n, t, 2.0 * n - t) - 0.5
    if mode == "grid-wrap":
        return ops.remainder(x, float(n))
    inside = (x.detach() >= 0) & (x.detach() <= n - 1)
    return ops.where(inside, x, ops.remainder(x, float(n - 1)))  # mode "wrap", which has the period n - 1


def _place(index: Tensor, n: int, mode: str) -> Tensor:
    if n == 1:
        return 0 * index
    if mode in ("constant", "wrap", "mirror"):
        t = ops.remainder(index, 2 * (n - 1))
        return ops.where(t <= n - 1, t, 2 * (n - 1) - t)
    if mode in ("reflect", "grid-mirror"):
        t = ops.remainder(index, 2 * n)
        return ops.where(t < n, t, 2 * n - 1 - t)
    return ops.remainder(index, n) if mode == "grid-wrap" else ops.clamp(index, 0, n - 1)


def _weights(x: Tensor, order: int) -> tuple[Tensor, list[Tensor]]:
    """Return the first pixel that each point reads, and the weights of its pixels."""
    start = ops.floor(x.detach() if order % 2 else x.detach() + 0.5)
    y = x - start
    first = start.long() - order // 2
    if order == 0:
        return first, [ops.ones_like(y) + 0 * y]
    if order == 1:
        return first, [1 - y, y]
    if order == 2:
        middle, right = 0.75 - y * y, 0.5 * (y + 0.5) ** 2
        return first, [1 - middle - right, middle, right]
    z = 1 - y
    left, a, b = z**3 / 6, (y * y * (y - 2) * 3 + 4) / 6, (z * z * (z - 2) * 3 + 4) / 6
    return first, [left, a, b, 1 - left - a - b]


def _sampled(x: Tensor, points: list[Tensor], order: int, mode: str, cval: float, prefilter: bool) -> Tensor:
    """Return the values of an image at points, which are given for its first axes."""
    _checked(order, mode)
    if np.iscomplexobj(cval) and x.array.dtype.kind != "c":
        raise ValueError(f"scipy.ndimage: cval of a real image must be real, got {cval}")
    axes = range(len(points))
    if prefilter and order > 1:
        if mode in ("nearest", "grid-constant"):
            for axis in axes:
                x = extended(x, _EDGE, _EDGE, axis, mode, cval)
            points = [at + _EDGE for at in points]
        x = _filtered(x, order, mode, axes)
    rest = x.ndim - len(points)
    outside: Tensor | None = None
    columns = []
    for axis, at in zip(axes, points, strict=True):
        n = x.shape[axis]
        if mode == "constant":
            beyond = (at.detach() < 0) | (at.detach() > n - 1)
            outside = beyond if outside is None else outside | beyond
            at = ops.where(beyond, 0.0, at)
        first, weights = _weights(_folded(at, n, mode), order)
        columns.append([(first + k, weight) for k, weight in enumerate(weights)])
    total: Any = 0.0
    for corner in itertools.product(*columns):
        factor: Any = 1.0
        places, missing = [], None
        for axis, (index, weight) in zip(axes, corner, strict=True):
            n = x.shape[axis]
            if mode == "grid-constant":
                absent = (index < 0) | (index >= n)
                missing = absent if missing is None else missing | absent
            places.append(_place(index, n, mode))
            factor = factor * weight
        value = x[tuple(places)]
        if missing is not None:
            value = ops.where(missing.reshape((*missing.shape, *(1,) * rest)), cval, value)
        total = total + value * factor.reshape((*factor.shape, *(1,) * rest))
    if outside is not None:
        total = ops.where(outside.reshape((*outside.shape, *(1,) * rest)), cval, total)
    return total


@ndimage
def map_coordinates(
    input: ArrayLike,
    coordinates: ArrayLike,
    output: None = None,
    order: int = 3,
    mode: str = "constant",
    cval: float = 0.0,
    prefilter: bool = True,
) -> Tensor:
    """Return the values of an image at coordinates in pixels; image and coordinates have derivatives.

    >>> rg.scipy.ndimage.map_coordinates(rg.tensor([0.0, 1.0, 2.0]), [[0.5, 1.5]], order=1)
    tensor([0.5, 1.5])
    """
    x, points = _located(input, output, coordinates)
    if points.ndim < 1 or points.shape[0] != x.ndim:
        raise RuntimeError("invalid shape for coordinate array")
    return _sampled(x, [points[axis] for axis in range(x.ndim)], order, mode, cval, prefilter)


@ndimage
def affine_transform(
    input: ArrayLike,
    matrix: ArrayLike,
    offset: ArrayLike = 0.0,
    output_shape: tuple[int, ...] | None = None,
    output: None = None,
    order: int = 3,
    mode: str = "constant",
    cval: float = 0.0,
    prefilter: bool = True,
) -> Tensor:
    """Return the image at ``matrix @ o + offset`` for each pixel ``o``; image, matrix and offset have derivatives.

    >>> rg.scipy.ndimage.affine_transform(rg.tensor([0.0, 1.0, 2.0]), [0.5], order=1)
    tensor([0. , 0.5, 1. ])
    """
    x, a, b = _located(input, output, matrix, offset)
    n = x.ndim
    shape = tuple(x.shape) if output_shape is None else tuple(output_shape)
    if a.ndim == 2 and a.shape[1] == n + 1 and a.shape[0] in (n, n + 1):
        a, b = a[:n, :n], a[:n, n]
    if a.ndim not in (1, 2) or a.shape[0] != n or a.ndim == 2 and a.shape[1] != n:
        raise RuntimeError("affine matrix has wrong number of rows")
    b = ops.broadcast_to(b, (n,))
    pixels = tensor(np.indices(shape).astype(x.array.real.dtype))
    points = []
    for axis in range(n):
        at: Tensor = b[axis]
        for other in [axis] if a.ndim == 1 else range(n):
            at = at + (a[axis] if a.ndim == 1 else a[axis, other]) * pixels[other]
        points.append(at)
    return _sampled(x, points, order, mode, cval, prefilter)


@ndimage
def shift(
    input: ArrayLike,
    shift: ArrayLike,
    output: None = None,
    order: int = 3,
    mode: str = "constant",
    cval: float = 0.0,
    prefilter: bool = True,
) -> Tensor:
    """Return the image moved by ``shift`` pixels, one number or one for each axis; image and shift have derivatives.

    >>> rg.scipy.ndimage.shift(rg.tensor([0.0, 1.0, 2.0]), 0.5, order=1, mode="nearest")
    tensor([0. , 0.5, 1.5])
    """
    x, step = _located(input, output, shift)
    steps = ops.broadcast_to(step, (x.ndim,))
    pixels = tensor(np.indices(tuple(x.shape)).astype(x.array.real.dtype))
    points = [pixels[axis] - steps[axis] for axis in range(x.ndim)]
    return _sampled(x, points, order, mode, cval, prefilter)


@ndimage
def zoom(
    input: ArrayLike,
    zoom: float | Sequence[float],
    output: None = None,
    order: int = 3,
    mode: str = "constant",
    cval: float = 0.0,
    prefilter: bool = True,
    *,
    grid_mode: bool = False,
) -> Tensor:
    """Return the image with ``round(zoom * n)`` pixels along each axis, differentiable with respect to the image.

    >>> rg.scipy.ndimage.zoom(rg.tensor([0.0, 1.0]), 1.5, order=1)
    tensor([0. , 0.5, 1. ])
    """
    (x,) = _image(input, output)
    factors = [float(factor) for factor in _each(zoom, x.ndim, "zoom")]
    shape = tuple([round(n * factor) for n, factor in zip(x.shape, factors, strict=True)])
    pixels = np.indices(shape).astype(x.array.real.dtype)
    points = []
    for axis, (n, size) in enumerate(zip(x.shape, shape, strict=True)):
        if grid_mode:
            at = (pixels[axis] + 0.5) * (n / size if size else 1.0) - 0.5
        else:
            at = pixels[axis] * ((n - 1) / (size - 1) if size > 1 else 1.0)
        points.append(tensor(at.astype(pixels.dtype)))
    return _sampled(x, points, order, mode, cval, prefilter)


@ndimage
def rotate(
    input: ArrayLike,
    angle: ArrayLike,
    axes: tuple[int, int] = (1, 0),
    reshape: bool = True,
    output: None = None,
    order: int = 3,
    mode: str = "constant",
    cval: float = 0.0,
    prefilter: bool = True,
) -> Tensor:
    """Return the image turned by an angle in degrees in the plane of two axes; image and angle have derivatives.

    >>> rg.scipy.ndimage.rotate(rg.tensor([[1.0, 2.0], [3.0, 4.0]]), 90, order=1)
    tensor([[2., 4.],
            [1., 3.]])
    """
    x, turn = _located(input, output, angle)
    if x.ndim < 2 or len({axis % x.ndim for axis in axes}) != 2:
        raise ValueError("input array should be at least 2D, and axes should contain two different axes")
    plane = sorted(axis % x.ndim for axis in axes)
    cosine, sine = RULES["cosdg"](turn), RULES["sindg"](turn)
    size = np.array([x.shape[axis] for axis in plane])
    c, s = float(cosine.detach().item()), float(sine.detach().item())
    matrix = np.array([[c, s], [-s, c]])
    out = size
    if reshape:
        corners = matrix @ [[0, 0, size[0], size[0]], [0, size[1], 0, size[1]]]
        out = (np.ptp(corners, axis=1) + 0.5).astype(int)
    centered = [np.arange(n) - (n - 1) / 2 for n in out]
    rows, columns = [tensor(v.astype(x.array.real.dtype)) for v in np.meshgrid(*centered, indexing="ij")]
    points = [
        cosine * rows + sine * columns + (float(size[0]) - 1) / 2,
        cosine * columns - sine * rows + (float(size[1]) - 1) / 2,
    ]
    moved = ops.moveaxis(x, plane, (0, 1))
    return ops.moveaxis(_sampled(moved, points, order, mode, cval, prefilter), (0, 1), plane)
