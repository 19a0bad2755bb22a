"""Window functions, which weight frames of a signal: ``hann_window(n)`` and ``signal.windows.hann(n)``.

In formulas, x runs over ``[-1, 1]`` from the first to the last point of a symmetric window. A periodic window, for
spectral analysis, is the symmetric window of n + 1 points without the last point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import pi
from typing import Any

from ...core.arrays import Array
from ...core.arrays.dtypes import FLOATING
from ...core.tensor.tensor import Tensor
from ..table.arguments import integer
from ..table.registry import operator
from ..table.types import DeviceLike, DTypeLike
from .creation import create, dtype_or_default


def sampled_window(
    count: int,
    periodic: bool,
    shape: Callable[[Any, Any], Any],
    dtype: DTypeLike | None,
    device: DeviceLike | None,
    requires_grad: bool,
    error: type[Exception] = RuntimeError,
    single: float = 1.0,
) -> Tensor:
    """Sample ``shape(xp, x)`` at ``count`` points from 0 to 1 (periodic: without 1), or return ``single`` for one."""
    kind = dtype_or_default(dtype)
    if kind.kind not in FLOATING:
        raise error(f"expected a floating dtype, got {kind}")
    count = integer(count, "window_length")
    if count < 0:
        raise error(f"the length must not be negative, got {count}")

    def make(xp: Any) -> Array:
        if count <= 1:
            return xp.full(count, single, kind)
        last = count if periodic else count - 1
        return shape(xp, xp.arange(count) / last).astype(kind)

    return create(make, device, requires_grad)


def sum_of_cosines(coefficients: Iterable[float]) -> Callable[[Any, Any], Any]:
    """``sum_k (-1)^k a_k cos(2 pi k x)`` for x in [0, 1]."""
    factors = [float(a) * (-1) ** k for k, a in enumerate(coefficients)]
    return lambda xp, x: sum(a * xp.cos(2 * pi * k * x) for k, a in enumerate(factors))


def triangle(xp: Any, x: Array) -> Array:
    return 1 - xp.abs(2 * x - 1)


def kaiser_shape(beta: float) -> Callable[[Any, Any], Any]:
    def shape(xp: Any, x: Array) -> Any:
        inside = xp.maximum(1 - (2 * x - 1) ** 2, 0)
        return xp.i0(beta * xp.sqrt(inside)) / xp.i0(xp.asarray([float(beta)]))

    return shape


HANN, BLACKMAN = (0.5, 0.5), (0.42, 0.5, 0.08)


@operator(method=False, differentiable=False, dtype="default")
def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``1 - |x|`` for x in ``[-1, 1]``, a triangle that is 0 at its ends.

    Shape: ``(window_length,)``.

    Args:
        window_length: the number n of points.
        periodic: True for a periodic window, for spectral analysis; False for a symmetric one.

    Raises:
        RuntimeError: the length is negative, or the dtype is not floating.

    Source: F. Harris, On the use of windows for harmonic analysis with the discrete Fourier transform, 1978.

    >>> rg.bartlett_window(4)
    tensor([0. , 0.5, 1. , 0.5])
    """
    return sampled_window(window_length, periodic, triangle, dtype, device, requires_grad)


@operator(method=False, differentiable=False, like=bartlett_window)
def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``0.42 + 0.5 cos(pi x) + 0.08 cos(2 pi x)`` for x in ``[-1, 1]``.

    >>> rg.blackman_window(3, periodic=False).round(decimals=2)
    tensor([-0.,  1., -0.])
    """
    return sampled_window(window_length, periodic, sum_of_cosines(BLACKMAN), dtype, device, requires_grad)


@operator(method=False, differentiable=False, like=bartlett_window, args="alpha constant")
def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``alpha + beta cos(pi x)`` for x in ``[-1, 1]``.

    Args:
        beta: the weight of the cosine.

    >>> rg.hamming_window(4)
    tensor([0.08, 0.54, 1.  , 0.54])
    """
    return sampled_window(window_length, periodic, sum_of_cosines((alpha, beta)), dtype, device, requires_grad)


@operator(method=False, differentiable=False, like=bartlett_window)
def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``(1 + cos(pi x)) / 2`` for x in ``[-1, 1]``.

    >>> rg.hann_window(4)
    tensor([0. , 0.5, 1. , 0.5])
    """
    return sampled_window(window_length, periodic, sum_of_cosines(HANN), dtype, device, requires_grad)


@operator(method=False, differentiable=False, like=bartlett_window, args="beta of kaiser")
def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``I0(beta sqrt(1 - x^2)) / I0(beta)`` for x in ``[-1, 1]``, I0 being the modified Bessel function.

    Source: J. Kaiser and R. Schafer, On the use of the I0-sinh window for spectrum analysis, 1980.

    >>> rg.kaiser_window(2, beta=0.0)
    tensor([1., 1.])
    """
    return sampled_window(window_length, periodic, kaiser_shape(beta), dtype, device, requires_grad)
