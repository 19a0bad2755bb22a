"""``retrograd.autograd.checkpoint`` under PyTorch's name: ``from retrograd.utils.checkpoint import checkpoint``."""

from typing import TYPE_CHECKING

from ..autograd.checkpoint import checkpoint as checkpoint
from ..autograd.checkpoint import checkpoint_sequential as checkpoint_sequential
from ..core.fallback import legacy_names


def set_checkpoint_debug_enabled(enabled: bool | None) -> None:
    """Taken for compatibility: an error says what differed in any case."""


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
