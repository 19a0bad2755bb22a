"""``retrograd.data`` under PyTorch's name: ``from retrograd.utils.data import DataLoader, TensorDataset``."""

from typing import TYPE_CHECKING

from ..core.missing_names import legacy_names
from ..data import *  # noqa: F403
from ..data import __all__ as __all__

__path__: list[str] = []  # a package in PyTorch; an import hook finds its submodules

if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
