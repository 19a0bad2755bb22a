"""Special functions under PyTorch's names."""

from typing import TYPE_CHECKING

from ._generated import special as _names
from ._generated.special import *  # noqa: F403
from .core.missing_names import legacy_names

__all__: list[str] = []
__all__ += _names.__all__

if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
