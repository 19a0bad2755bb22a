"""Special functions under PyTorch's names."""

from ._generated import special as _names
from ._generated.special import *  # noqa: F403

__all__: list[str] = []
__all__ += _names.__all__
