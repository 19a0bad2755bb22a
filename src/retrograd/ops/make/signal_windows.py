"""Window functions as in ``signal.windows``: ``hann(n)`` is symmetric where ``hann_window(n)`` is periodic."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import exp, pi
from typing import Any

from ...core.errors import InvalidValue
from ...core.tensor.tensor import Tensor
from ..table.registry import operator
from ..table.types import DeviceLike, DTypeLike
from .window_functions import BLACKMAN, HANN, kaiser_shape, sampled_window, sum_of_cosines, triangle

_NUTTALL = (0.3635819, 0.4891775, 0.1365995, 0.0106411)


def _half_sine(count: int, sym: bool) -> Callable[[Any, Any], Any]:
    return lambda xp, x: xp.sin(pi * (xp.arange(count) + 0.5) / (count if sym else count + 1))


def _decay(count: int, sym: bool, center: float | None, tau: float) -> Callable[[Any, Any], Any]:
    middle = (count - 1 if sym else count) / 2 if center is None else center
    return lambda xp, x: xp.exp(-xp.abs(xp.arange(count) - middle) / tau)


def _bell(count: int, sym: bool, std: float) -> Callable[[Any, Any], Any]:
    middle = (count - 1 if sym else count) / 2
    return lambda xp, x: xp.exp(-(((xp.arange(count) - middle) / std) ** 2) / 2)


@operator(
    namespace="signal.windows", method=False, differentiable=False, name="bartlett", dtype="default", shape="points"
)
def bartlett(
    M: int,
    *,
    sym: bool = True,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``1 - |x|`` for x in ``[-1, 1]``, a triangle that is 0 at its ends.

    Args:
        sym: True for a symmetric window, False for a periodic one.

    Raises:
        ValueError: the length is negative, or the dtype is not floating.

    Source: F. Harris, On the use of windows for harmonic analysis with the discrete Fourier transform, 1978.

    >>> rg.signal.windows.bartlett(3)
    tensor([0., 1., 0.])
    """
    return sampled_window(M, not sym, triangle, dtype, device, requires_grad, InvalidValue)


@operator(namespace="signal.windows", method=False, differentiable=False, name="blackman", like=bartlett)
def blackman(
    M: int,
    *,
    sym: bool = True,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``0.42 + 0.5 cos(pi x) + 0.08 cos(2 pi x)`` for x in ``[-1, 1]``.

    >>> rg.signal.windows.blackman(3).round(decimals=2)
    tensor([-0.,  1., -0.])
    """
    return sampled_window(M, not sym, sum_of_cosines(BLACKMAN), dtype, device, requires_grad, InvalidValue)


@operator(namespace="signal.windows", method=False, differentiable=False, name="cosine", like=bartlett)
def cosine(
    M: int,
    *,
    sym: bool = True,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``sin(pi (n + 1/2) / M)`` at ``n = 0, 1, ..., M - 1``; in a periodic window divided by ``M + 1``.

    >>> rg.signal.windows.cosine(2)
    tensor([0.7071, 0.7071])
    """
    return sampled_window(M, not sym, _half_sine(M, sym), dtype, device, requires_grad, InvalidValue)


@operator(namespace="signal.windows", method=False, differentiable=False, name="exponential", like=bartlett)
def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``exp(-|n - center| / tau)`` at ``n = 0, 1, ..., M - 1``.

    Args:
        center: where the window is 1, by default the middle; only for periodic windows.
        tau: the number of points over which the window decreases by the factor e.

    Raises:
        ValueError: the length is negative, tau is not positive, a symmetric window has a center, or the dtype is not
            floating.

    >>> rg.signal.windows.exponential(3)
    tensor([0.3679, 1.    , 0.3679])
    """
    if tau <= 0:
        raise InvalidValue(f"tau must be positive, got {tau}")
    if sym and center is not None:
        raise InvalidValue(f"center must be None for symmetric windows, got {center}")
    single = 1.0 if center is None else exp(-abs(center) / tau)
    return sampled_window(M, not sym, _decay(M, sym, center, tau), dtype, device, requires_grad, InvalidValue, single)


@operator(namespace="signal.windows", method=False, differentiable=False, name="gaussian", like=bartlett)
def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``exp(-((n - center) / std)^2 / 2)`` at ``n = 0, 1, ..., M - 1``.

    Args:
        std: the standard deviation, in points.

    Raises:
        ValueError: the length is negative, std is not positive, or the dtype is not floating.

    >>> rg.signal.windows.gaussian(3)
    tensor([0.6065, 1.    , 0.6065])
    """
    if std <= 0:
        raise InvalidValue(f"the standard deviation must be positive, got {std}")
    return sampled_window(M, not sym, _bell(M, sym, std), dtype, device, requires_grad, InvalidValue)


@operator(namespace="signal.windows", method=False, differentiable=False, name="general_cosine", like=bartlett)
def general_cosine(
    M: int,
    *,
    a: Iterable[float],
    sym: bool = True,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``sum_k a_k cos(k pi x)`` for x in ``[-1, 1]``.

    Args:
        a: the weights of the cosines.

    Raises:
        ValueError: the length is negative, there are no weights, or the dtype is not floating.

    >>> rg.signal.windows.general_cosine(3, a=[0.5, 0.5])
    tensor([0., 1., 0.])
    """
    a = list(a)
    if not a:
        raise InvalidValue("the coefficients must not be empty")
    return sampled_window(M, not sym, sum_of_cosines(a), dtype, device, requires_grad, InvalidValue)


@operator(
    namespace="signal.windows",
    method=False,
    differentiable=False,
    name="general_hamming",
    like=bartlett,
    args="alpha constant",
)
def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``alpha + (1 - alpha) cos(pi x)`` for x in ``[-1, 1]``.

    >>> rg.signal.windows.general_hamming(3, alpha=0.5)
    tensor([0., 1., 0.])
    """
    return sampled_window(M, not sym, sum_of_cosines((alpha, 1 - alpha)), dtype, device, requires_grad, InvalidValue)


@operator(namespace="signal.windows", method=False, differentiable=False, name="hamming", like=bartlett)
def hamming(
    M: int,
    *,
    sym: bool = True,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``0.54 + 0.46 cos(pi x)`` for x in ``[-1, 1]``.

    >>> rg.signal.windows.hamming(3)
    tensor([0.08, 1.  , 0.08])
    """
    return sampled_window(M, not sym, sum_of_cosines((0.54, 0.46)), dtype, device, requires_grad, InvalidValue)


@operator(namespace="signal.windows", method=False, differentiable=False, name="hann", like=bartlett)
def hann(
    M: int,
    *,
    sym: bool = True,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``(1 + cos(pi x)) / 2`` for x in ``[-1, 1]``.

    >>> rg.signal.windows.hann(3)
    tensor([0., 1., 0.])
    """
    return sampled_window(M, not sym, sum_of_cosines(HANN), dtype, device, requires_grad, InvalidValue)


@operator(
    namespace="signal.windows", method=False, differentiable=False, name="kaiser", like=bartlett, args="beta of kaiser"
)
def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``I0(beta sqrt(1 - x^2)) / I0(beta)`` for x in ``[-1, 1]``, I0 being the modified Bessel function.

    Raises:
        ValueError: the length is negative, beta is negative, or the dtype is not floating.

    Source: J. Kaiser and R. Schafer, On the use of the I0-sinh window for spectrum analysis, 1980.

    >>> rg.signal.windows.kaiser(2, beta=0.0)
    tensor([1., 1.])
    """
    if beta < 0:
        raise InvalidValue(f"beta must not be negative, got {beta}")
    return sampled_window(M, not sym, kaiser_shape(beta), dtype, device, requires_grad, InvalidValue)


@operator(namespace="signal.windows", method=False, differentiable=False, name="nuttall", like=bartlett)
def nuttall(
    M: int,
    *,
    sym: bool = True,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``0.3635819 + 0.4891775 cos(pi x) + 0.1365995 cos(2 pi x) + 0.0106411 cos(3 pi x)`` for x in ``[-1, 1]``.

    Source: A. Nuttall, Some windows with very good sidelobe behavior, 1981.

    >>> rg.signal.windows.nuttall(3)[1]
    tensor(1.)
    """
    return sampled_window(M, not sym, sum_of_cosines(_NUTTALL), dtype, device, requires_grad, InvalidValue)
