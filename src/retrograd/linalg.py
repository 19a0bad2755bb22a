"""Linear algebra under PyTorch's names."""

from ._generated import linalg as _names
from ._generated.linalg import *  # noqa: F403

__all__: list[str] = []
__all__ += _names.__all__
