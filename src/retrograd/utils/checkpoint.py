"""``retrograd.autograd.checkpoint`` under PyTorch's name: ``from retrograd.utils.checkpoint import checkpoint``."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ..autograd.checkpoint import EARLY_STOP
from ..autograd.checkpoint import checkpoint as checkpoint
from ..autograd.checkpoint import checkpoint_sequential as checkpoint_sequential
from ..core.missing_names import legacy_names
from .selective_checkpoint import CheckpointPolicy as CheckpointPolicy
from .selective_checkpoint import SelectiveCheckpointContext as SelectiveCheckpointContext
from .selective_checkpoint import create_selective_checkpoint_contexts as create_selective_checkpoint_contexts


def set_checkpoint_debug_enabled(enabled: bool | None) -> None:
    """Do nothing; accepted for compatibility. The error always names the difference between the runs."""


@contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Override the argument ``early_stop`` of all checkpoints called inside the block.

    >>> import retrograd as rg
    >>> from retrograd.utils.checkpoint import checkpoint, set_checkpoint_early_stop
    >>> x = rg.ones(2, requires_grad=True)
    >>> with set_checkpoint_early_stop(False):
    ...     y = checkpoint(rg.exp, x, use_reentrant=False)
    """
    token = EARLY_STOP.set(bool(enable))
    try:
        yield
    finally:
        EARLY_STOP.reset(token)


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
