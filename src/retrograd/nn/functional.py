"""The operators of neural networks as functions, under PyTorch's names."""

from .._generated import functional as _names
from .._generated.functional import *  # noqa: F403

__all__: list[str] = []
__all__ += _names.__all__
