"""Schedulers that combine other schedulers, in sequence or at the same time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from ..optimizer import Optimizer
from .base import LRScheduler, assign, rates_of
from .plateau import ReduceLROnPlateau


class _CompositeLR(LRScheduler):
    """The base class of schedulers that combine other schedulers."""

    _not_in_state = ("optimizer", "_schedulers")
    _schedulers: Sequence[LRScheduler]

    def _check_parts(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None) -> Optimizer:
        me = type(self).__name__
        if len(schedulers) < 1:
            raise ValueError(f"{me} expects at least one scheduler, but got no scheduler.")
        for index, scheduler in enumerate(schedulers):
            if not hasattr(scheduler, "optimizer"):
                raise TypeError(f"{me} at index {index} should have `optimizer` as its attribute.")
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    f"{me} does not support ReduceLROnPlateau, whose step needs a metric; got one at index {index}"
                )
            optimizer = scheduler.optimizer if optimizer is None else optimizer
            if scheduler.optimizer is not optimizer:
                raise ValueError(
                    f"{me} expects all schedulers to belong to the same optimizer; "
                    f"schedulers[{index}] has another optimizer"
                )
        assert optimizer is not None
        return optimizer

    def _initial_step(self) -> None:
        # The schedulers have already stepped, so a warning on scheduler.step() before optimizer.step() does not apply.
        stepped, self.optimizer._stepped = self.optimizer._stepped, True
        try:
            super()._initial_step()
        finally:
            self.optimizer._stepped = stepped

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "_schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(state)


class SequentialLR(_CompositeLR):
    """Use one scheduler after the other: the next scheduler starts, at its epoch 0, at each milestone.

    Args:
        schedulers: schedulers of this optimizer.
        milestones: the epochs at which the second, the third, ... scheduler starts.

    Raises:
        ValueError: ``schedulers`` is empty, a scheduler has another optimizer, or there is not one milestone less than
            schedulers.

    >>> optimizer = rg.optim.SGD([rg.zeros(1, requires_grad=True)], lr=1.0)
    >>> warmup = rg.optim.lr_scheduler.ConstantLR(optimizer, factor=0.25, total_iters=2)
    >>> decay = rg.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> scheduler = rg.optim.lr_scheduler.SequentialLR(optimizer, [warmup, decay], milestones=[2])
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> rates
    [0.25, 0.25, 1.0, 0.5]
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        self._check_parts(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"SequentialLR expects one scheduler more than milestones, but got {len(schedulers)} schedulers and "
                f"{len(milestones)} milestones"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Every scheduler made its first step when it was created: undo these steps, and start the first scheduler.
        for group in optimizer.param_groups:
            assign(group, "lr", group["initial_lr"])
        undo_first_step(schedulers)
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def step(self) -> None:
        """Advance to the next epoch, at which the active scheduler sets the learning rates."""
        self.last_epoch += 1
        index = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[index]
        if index and self._milestones[index - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


def undo_first_step(schedulers: Sequence[LRScheduler]) -> None:
    for scheduler in schedulers:
        if isinstance(scheduler, _CompositeLR):
            undo_first_step(scheduler._schedulers)
        else:
            scheduler.last_epoch -= 1


class ChainedScheduler(_CompositeLR):
    """Use several chainable schedulers at the same time: their ratios are multiplied.

    Args:
        schedulers: schedulers of one optimizer.
        optimizer: the optimizer of the schedulers; by default the optimizer of the first scheduler.

    Raises:
        ValueError: ``schedulers`` is empty, or a scheduler has another optimizer.

    >>> optimizer = rg.optim.SGD([rg.zeros(1, requires_grad=True)], lr=1.0)
    >>> warmup = rg.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5, total_iters=4)
    >>> decay = rg.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> scheduler = rg.optim.lr_scheduler.ChainedScheduler([warmup, decay])
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        self.optimizer = self._check_parts(schedulers, optimizer)
        self._schedulers = schedulers
        self._last_lr = rates_of(self.optimizer)

    def step(self) -> None:
        """Step every scheduler."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = rates_of(self.optimizer)
