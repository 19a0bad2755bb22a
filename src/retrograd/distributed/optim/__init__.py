"""Optimizers for distributed training, as in ``torch.distributed.optim``."""

from .zero_redundancy import ZeroRedundancyOptimizer

__all__ = ["ZeroRedundancyOptimizer"]
