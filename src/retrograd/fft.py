"""Discrete Fourier transforms under PyTorch's names."""

from ._generated import fft as _names
from ._generated.fft import *  # noqa: F403

__all__: list[str] = []
__all__ += _names.__all__
