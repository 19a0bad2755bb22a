"""Window functions under PyTorch's names."""

from .._generated import windows as _names
from .._generated.windows import *  # noqa: F403

__all__: list[str] = []
__all__ += _names.__all__
