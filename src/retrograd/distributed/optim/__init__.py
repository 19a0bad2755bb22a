"""Optimizers of models that several processes train, as in ``torch.distributed.optim``."""

from .zero_redundancy import ZeroRedundancyOptimizer

__all__ = ["ZeroRedundancyOptimizer"]
