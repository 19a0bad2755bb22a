"""ReduceLROnPlateau: reduce the learning rate when a metric no longer improves."""

from __future__ import annotations

import math
import warnings
from typing import SupportsFloat

from ...core.tensor.tensor import Tensor
from ..hyperparameters import number
from ..optimizer import Optimizer
from .base import EPOCH_IS_DEPRECATED, LRScheduler, assign, checked_optimizer, per_group, rates_of


class ReduceLROnPlateau(LRScheduler):
    """Multiply the learning rate by ``factor`` if the metric in ``step`` has not improved for ``patience`` epochs.

    Args:
        mode: whether a smaller (``"min"``) or a larger (``"max"``) metric is better.
        factor: the factor of the learning rate, below 1.
        patience: the number of epochs without improvement that have no effect.
        threshold: the smallest improvement, relative to the best (``threshold_mode="rel"``) or absolute (``"abs"``).
        threshold_mode: see ``threshold``.
        cooldown: the number of epochs after a reduction that are not counted.
        min_lr: the smallest learning rate, or a list with one per group.
        eps: the smallest change; smaller changes are not applied.

    Raises:
        ValueError: ``factor`` is 1 or more, the mode is unknown, or ``min_lr`` has the wrong length.

    >>> optimizer = rg.optim.SGD([rg.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = rg.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    >>> for loss in (3.0, 2.0, 2.0, 2.0):
    ...     scheduler.step(loss)
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | list[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1:
            raise ValueError(f"Factor should be < 1.0, got {factor}")
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown! Use 'min' or 'max'.")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown! Use 'rel' or 'abs'.")
        self.optimizer = checked_optimizer(optimizer)
        self.factor = factor
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.min_lrs = per_group("min_lr", optimizer, min_lr)
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.last_epoch = 0
        self._last_lr = rates_of(optimizer)
        self.best = math.inf if mode == "min" else -math.inf
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        """Whether the cooldown after the last reduction has not ended."""
        return self.cooldown_counter > 0

    def step(self, metrics: SupportsFloat, epoch: int | None = None) -> None:
        """Advance to the next epoch with its metric, and reduce the learning rates if the metric has not improved."""
        current = float(metrics.item() if isinstance(metrics, Tensor) else metrics)
        if epoch is not None:
            warnings.warn(EPOCH_IS_DEPRECATED, UserWarning, stacklevel=2)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(current):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = rates_of(self.optimizer)

    def _is_better(self, value: float) -> bool:
        sign = 1 if self.mode == "min" else -1
        if self.threshold_mode == "rel":
            return sign * value < sign * self.best * (1 - sign * self.threshold)
        return sign * value < sign * self.best - self.threshold

    def _reduce(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"ReduceLROnPlateau has {len(self.min_lrs)} min_lrs, but the optimizer now has {len(groups)} param "
                    "groups; extend min_lrs"
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, lowest in zip(groups, self.min_lrs):
            old = number(group["lr"])
            new = max(old * self.factor, lowest)
            if old - new > self.eps:
                assign(group, "lr", new)
