"""Fourier transforms of NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...._generated import fft
from ....core.tensor.tensor import Tensor
from ..arguments import Rules, floating, tensor


def _fourier_operand(a: object) -> Tensor:
    """Return the operand as a Tensor; float16 is converted to float32, as in NumPy."""
    x = floating(tensor(a))
    return x.astype(np.float32) if x.array.dtype.char == "e" else x


def _transform(name: str) -> Callable[..., Tensor]:
    def rule(a: object, n: int | None = None, axis: int = -1, norm: object = None) -> Tensor:
        return getattr(fft, name)(_fourier_operand(a), n, axis, norm)

    return rule


def _transform_of_axes(name: str, default: tuple[int, int] | None) -> Callable[..., Tensor]:
    def rule(a: object, s: object = None, axes: object = default, norm: object = None) -> Tensor:
        return getattr(fft, name)(_fourier_operand(a), s, axes, norm)

    return rule


RULES: Rules = {
    **{f"fft.{name}": _transform(name) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")},
    **{f"fft.{name}": _transform_of_axes(name, (-2, -1)) for name in ("fft2", "ifft2", "rfft2", "irfft2")},
    **{f"fft.{name}": _transform_of_axes(name, None) for name in ("fftn", "ifftn", "rfftn", "irfftn")},
    "fft.fftshift": lambda x, axes=None: fft.fftshift(tensor(x), axes),
    "fft.ifftshift": lambda x, axes=None: fft.ifftshift(tensor(x), axes),
}
