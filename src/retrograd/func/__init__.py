"""Function transforms: derivatives as functions of functions."""

from typing import TYPE_CHECKING

from ..core.fallback import legacy_names
from .forward import jvp as jvp

if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
