"""The private name of the schedulers' base, which other people's schedulers subclass."""

from ..optim.lr_scheduler.base import LRScheduler

_LRScheduler = LRScheduler
__all__ = ["_LRScheduler"]
