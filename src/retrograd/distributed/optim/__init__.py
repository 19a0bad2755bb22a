"""Optimizers for distributed training, as in ``torch.distributed.optim``."""

from typing import TYPE_CHECKING

from ...core.missing_names import legacy_names
from .zero_redundancy import ZeroRedundancyOptimizer

__all__ = ["ZeroRedundancyOptimizer"]

if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
