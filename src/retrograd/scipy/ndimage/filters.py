"""Filters that are correlations with a kernel, with SciPy's boundary modes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._generated import toplevel as ops
from ...core.tensor.tensor import Tensor
from ..decorators import ArrayLike, differentiable, floats, located
from ..signal.convolution import convolved, extended

ndimage = differentiable("scipy.ndimage", images=True)

Mode = str | Sequence[str]
Number = float | Sequence[float]


def _image(input: ArrayLike, output: object, *others: ArrayLike) -> tuple[Tensor, ...]:
    if output is not None:
        raise NotImplementedError("scipy.ndimage of Tensors: output must be None; the result is a new Tensor")
    return floats(input, *others)


def _located(input: ArrayLike, output: object, *places: ArrayLike) -> tuple[Tensor, ...]:
    """Return an image, which may be complex, and real coordinates or widths, in one precision."""
    _image(input, output)
    *found, x = located("scipy.ndimage", places, input)
    return x, *found


def _along(x: Tensor, weights: Tensor, axis: int, mode: str, cval: float, origin: int) -> Tensor:
    size = weights.shape[0]
    before = size // 2 + origin
    if weights.ndim != 1 or size < 1:
        raise RuntimeError("no filter weights given")
    if not 0 <= before < size:
        raise ValueError(f"Invalid origin; origin must satisfy -({size} // 2) <= origin <= ({size} - 1) // 2")
    n = x.shape[axis]
    whole = extended(x, before, size - 1 - before, axis, mode, cval)
    total: Any = 0.0
    for k in range(size):
        total = total + ops.narrow(whole, axis, k, n) * weights[k]
    return total


@ndimage
def correlate1d(
    input: ArrayLike,
    weights: ArrayLike,
    axis: int = -1,
    output: None = None,
    mode: str = "reflect",
    cval: float = 0.0,
    origin: int = 0,
) -> Tensor:
    """Return the correlation of an image with a kernel along one axis; both have derivatives.

    >>> rg.scipy.ndimage.correlate1d(rg.tensor([1.0, 2.0, 4.0]), [-1.0, 0.0, 1.0])
    tensor([1., 3., 2.])
    """
    x, kernel = _image(input, output, weights)
    return _along(x, kernel.conj(), axis, mode, cval, origin)


@ndimage
def convolve1d(
    input: ArrayLike,
    weights: ArrayLike,
    axis: int = -1,
    output: None = None,
    mode: str = "reflect",
    cval: float = 0.0,
    origin: int = 0,
) -> Tensor:
    """Return the convolution of an image with a kernel along one axis; both have derivatives.

    >>> rg.scipy.ndimage.convolve1d(rg.tensor([1.0, 2.0, 4.0]), [1.0, 0.0, -1.0])
    tensor([1., 3., 2.])
    """
    x, kernel = _image(input, output, weights)
    return _along(x, ops.flip(kernel, (0,)), axis, mode, cval, -origin - (kernel.shape[0] % 2 == 0))


def _each(value: object, count: int, name: str) -> list[Any]:
    if isinstance(value, str) or not isinstance(value, (Sequence, Tensor, np.ndarray)) or np.ndim(value) == 0:
        return [value] * count
    if len(value) != count:
        raise RuntimeError(f"sequence argument must have length equal to input rank: {name} has {len(value)}")
    return [value[i] for i in range(count)]


def _correlated(x: Tensor, kernel: Tensor, mode: Mode, cval: float, origins: list[int]) -> Tensor:
    if kernel.ndim != x.ndim:
        raise RuntimeError("filter weights array has incorrect shape.")
    whole = x
    for axis, how in enumerate(_each(mode, x.ndim, "mode")):
        size = kernel.shape[axis]
        before = size // 2 + origins[axis]
        if not 0 <= before < size:
            raise ValueError("invalid origin")
        whole = extended(whole, before, size - 1 - before, axis, how, cval)
    axes = tuple(range(x.ndim))
    if kernel.array.size > 64:
        return convolved(whole, ops.flip(kernel, axes), "valid", axes)
    total: Any = 0.0
    for place in np.ndindex(*kernel.shape):
        part = whole[tuple([slice(start, start + n) for start, n in zip(place, x.shape, strict=True)])]
        total = total + part * kernel[place]
    return total


@ndimage
def correlate(
    input: ArrayLike,
    weights: ArrayLike,
    output: None = None,
    mode: Mode = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
) -> Tensor:
    """Return the correlation of an image with a kernel of its dimensions, differentiable with respect to both.

    >>> rg.scipy.ndimage.correlate(rg.tensor([1.0, 2.0, 4.0]), [-1.0, 0.0, 1.0])
    tensor([1., 3., 2.])
    """
    x, kernel = _image(input, output, weights)
    return _correlated(x, kernel.conj(), mode, cval, _each(origin, x.ndim, "origin"))


@ndimage
def convolve(
    input: ArrayLike,
    weights: ArrayLike,
    output: None = None,
    mode: Mode = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
) -> Tensor:
    """Return the convolution of an image with a kernel of its dimensions, differentiable with respect to both.

    >>> rg.scipy.ndimage.convolve(rg.tensor([1.0, 2.0, 4.0]), [1.0, 0.0, -1.0])
    tensor([1., 3., 2.])
    """
    x, kernel = _image(input, output, weights)
    origins = [-o - (n % 2 == 0) for o, n in zip(_each(origin, x.ndim, "origin"), kernel.shape, strict=True)]
    return _correlated(x, ops.flip(kernel, tuple(range(kernel.ndim))), mode, cval, origins)


def _gaussian(sigma: Tensor, order: int, radius: int) -> Tensor:
    """Return a normalized Gaussian, or its derivative of the given order, which is a polynomial times the Gaussian."""
    x = np.arange(-radius, radius + 1).astype(sigma.array.dtype)
    phi = ops.exp(sigma**-2 * (-0.5 * x * x))
    phi = phi / phi.sum()
    q: list[Any] = [1.0]
    for _ in range(order):  # (q phi)' = (q' - q x / sigma^2) phi
        slope = [k * q[k] for k in range(1, len(q))]
        product = [0.0, *[-c / sigma**2 for c in q]]
        q = [
            (slope[k] if k < len(slope) else 0.0) + (product[k] if k < len(product) else 0.0)
            for k in range(len(product))
        ]
    factor: Any = 0.0
    for k, c in enumerate(q):
        factor = factor + c * x**k
    return phi * factor


def _smoothed(
    x: Tensor, sigma: Tensor, axis: int, order: int, mode: str, cval: float, truncate: float, radius: int | None
) -> Tensor:
    if order < 0 or radius is not None and radius < 0:
        raise ValueError("order and radius must be non-negative")
    reach = int(truncate * float(sigma.detach().item()) + 0.5) if radius is None else radius
    return _along(x, ops.flip(_gaussian(sigma, order, reach), (0,)), axis, mode, cval, 0)


@ndimage
def gaussian_filter1d(
    input: ArrayLike,
    sigma: ArrayLike,
    axis: int = -1,
    order: int = 0,
    output: None = None,
    mode: str = "reflect",
    cval: float = 0.0,
    truncate: float = 4.0,
    *,
    radius: int | None = None,
) -> Tensor:
    """Return the image smoothed along one axis, or its derivative; differentiable, also with respect to ``sigma``.

    >>> rg.scipy.ndimage.gaussian_filter1d(rg.tensor([0.0, 1.0, 0.0]), 0.5)
    tensor([0.1067, 0.7866, 0.1067])
    """
    x, width = _located(input, output, sigma)
    return _smoothed(x, width.real, axis, order, mode, cval, truncate, radius)


@ndimage
def gaussian_filter(
    input: ArrayLike,
    sigma: ArrayLike,
    order: int | Sequence[int] = 0,
    output: None = None,
    mode: Mode = "reflect",
    cval: float = 0.0,
    truncate: float = 4.0,
    *,
    radius: int | Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
) -> Tensor:
    """Return the image smoothed along its axes, differentiable with respect to the image and ``sigma``.

    >>> rg.scipy.ndimage.gaussian_filter(rg.tensor([0.0, 1.0, 0.0]), 0.5)
    tensor([0.1067, 0.7866, 0.1067])
    """
    x, widths = _located(input, output, sigma)
    widths = widths.real
    chosen = range(x.ndim) if axes is None else (axes,) if isinstance(axes, int) else axes
    count = len(chosen)
    columns = zip(
        chosen,
        _each(widths, count, "sigma"),
        _each(order, count, "order"),
        _each(mode, count, "mode"),
        _each(radius, count, "radius"),
        strict=True,
    )
    for axis, width, degree, how, reach in columns:
        if float(width.detach().item()) > 1e-15:
            x = _smoothed(x, width, axis, degree, how, cval, truncate, reach)
    return x


@ndimage
def uniform_filter1d(
    input: ArrayLike,
    size: int,
    axis: int = -1,
    output: None = None,
    mode: str = "reflect",
    cval: float = 0.0,
    origin: int = 0,
) -> Tensor:
    """Return means over ``size`` elements along one axis.

    >>> rg.scipy.ndimage.uniform_filter1d(rg.tensor([0.0, 3.0, 0.0]), 3)
    tensor([1., 1., 1.])
    """
    (x,) = _image(input, output)
    if size < 1:
        raise RuntimeError("incorrect filter size")
    return _along(x, x.new_full((size,), 1 / size), axis, mode, cval, origin)


@ndimage
def uniform_filter(
    input: ArrayLike,
    size: int | Sequence[int] = 3,
    output: None = None,
    mode: Mode = "reflect",
    cval: float = 0.0,
    origin: int | Sequence[int] = 0,
    *,
    axes: Sequence[int] | None = None,
) -> Tensor:
    """Return means over boxes.

    >>> rg.scipy.ndimage.uniform_filter(rg.tensor([0.0, 3.0, 0.0]))
    tensor([1., 1., 1.])
    """
    (x,) = _image(input, output)
    chosen = range(x.ndim) if axes is None else (axes,) if isinstance(axes, int) else axes
    count = len(chosen)
    for axis, n, how, start in zip(
        chosen, _each(size, count, "size"), _each(mode, count, "mode"), _each(origin, count, "origin"), strict=True
    ):
        if n > 1:
            x = _along(x, x.new_full((n,), 1 / n), axis, how, cval, start)
    return x


def _edges(input: ArrayLike, axis: int, output: object, mode: Mode, cval: float, beside: list[float]) -> Tensor:
    (x,) = _image(input, output)
    modes = _each(mode, x.ndim, "mode")
    axis %= x.ndim
    result = _along(x, x.new_tensor([-1.0, 0.0, 1.0]), axis, modes[axis], cval, 0)
    for other in range(x.ndim):
        if other != axis:
            result = _along(result, x.new_tensor(beside), other, modes[other], cval, 0)
    return result


@ndimage
def sobel(input: ArrayLike, axis: int = -1, output: None = None, mode: Mode = "reflect", cval: float = 0.0) -> Tensor:
    """Return Sobel's estimate of the derivative along an axis.

    >>> rg.scipy.ndimage.sobel(rg.tensor([1.0, 2.0, 4.0]))
    tensor([1., 3., 2.])
    """
    return _edges(input, axis, output, mode, cval, [1.0, 2.0, 1.0])


@ndimage
def prewitt(input: ArrayLike, axis: int = -1, output: None = None, mode: Mode = "reflect", cval: float = 0.0) -> Tensor:
    """Return Prewitt's estimate of the derivative along an axis.

    >>> rg.scipy.ndimage.prewitt(rg.tensor([1.0, 2.0, 4.0]))
    tensor([1., 3., 2.])
    """
    return _edges(input, axis, output, mode, cval, [1.0, 1.0, 1.0])


def _summed(x: Tensor, mode: Mode, part: Callable[[Tensor, int, str], Tensor]) -> Tensor:
    if x.ndim == 0:
        return x.clone()  # as SciPy does for 0-d images
    total: Any = 0.0
    for axis, how in enumerate(_each(mode, x.ndim, "mode")):
        total = total + part(x, axis, how)
    return total


@ndimage
def laplace(input: ArrayLike, output: None = None, mode: Mode = "reflect", cval: float = 0.0) -> Tensor:
    """Return the sum of second differences along all axes.

    >>> rg.scipy.ndimage.laplace(rg.tensor([1.0, 2.0, 4.0]))
    tensor([ 1.,  1., -2.])
    """
    (x,) = _image(input, output)
    kernel = x.new_tensor([1.0, -2.0, 1.0])
    return _summed(x, mode, lambda x, axis, how: _along(x, kernel, axis, how, cval, 0))


def _second_order(
    x: Tensor, widths: Tensor, axis: int, order: int, mode: Mode, cval: float, options: dict[str, Any]
) -> Tensor:
    orders = [order if place == axis else 0 for place in range(x.ndim)]
    return gaussian_filter(x, widths, orders, None, mode, cval, **options)


@ndimage
def gaussian_laplace(
    input: ArrayLike,
    sigma: ArrayLike,
    output: None = None,
    mode: Mode = "reflect",
    cval: float = 0.0,
    **options: object,
) -> Tensor:
    """Return the sum of second derivatives of the smoothed image, differentiable, also with respect to ``sigma``.

    >>> rg.scipy.ndimage.gaussian_laplace(rg.zeros(3), 1.0)
    tensor([0., 0., 0.])
    """
    x, widths = _located(input, output, sigma)
    return _summed(x, "", lambda x, axis, how: _second_order(x, widths, axis, 2, mode, cval, options))


@ndimage
def gaussian_gradient_magnitude(
    input: ArrayLike,
    sigma: ArrayLike,
    output: None = None,
    mode: Mode = "reflect",
    cval: float = 0.0,
    **options: object,
) -> Tensor:
    """Return the length of the gradient of the smoothed image; where the length is 0, the derivative is not finite.

    >>> rg.scipy.ndimage.gaussian_gradient_magnitude(rg.zeros(3), 1.0)
    tensor([0., 0., 0.])
    """
    x, widths = _located(input, output, sigma)
    squares = _summed(x, "", lambda x, axis, how: _second_order(x, widths, axis, 1, mode, cval, options) ** 2)
    return ops.sqrt(squares) if x.ndim else squares
