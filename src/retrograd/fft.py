"""Discrete Fourier transforms under PyTorch's names."""

from typing import TYPE_CHECKING

from ._generated import fft as _names
from .core.missing_names import legacy_names, operator_names

__all__: list[str] = []
__all__ += _names.__all__

if TYPE_CHECKING:
    from ._generated.fft import *  # noqa: F403
else:
    __getattr__, __dir__ = operator_names(__name__, _names.HOMES, legacy_names(__name__))
