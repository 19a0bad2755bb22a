"""``retrograd.utils.data`` is ``retrograd.data`` under PyTorch's name."""

from typing import TYPE_CHECKING

from ..core.missing_names import legacy_names
from . import data as data

if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
