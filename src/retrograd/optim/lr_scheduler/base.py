"""LRScheduler, the base class of schedulers, and helpers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import partial, wraps
from typing import Any

from ...core.graph.modes import modes
from ...core.tensor.tensor import Tensor
from ...ops.table.arguments import ChecksOptions
from ..hyperparameters import ParamGroup, number
from ..optimizer import Optimizer

# Descriptions of arguments for the docstrings of all schedulers.
ARGUMENTS = {
    "optimizer": "the optimizer whose learning rates change.",
    "last_epoch": "the number of epochs already done; -1 to start.",
    "gamma": "the factor.",
}

EPOCH_IS_DEPRECATED = "the epoch argument of scheduler.step() is deprecated; call scheduler.step() after each epoch"


def replayed(step: Callable[..., None]) -> Callable[..., None]:
    """Wrap a scheduler's ``step`` so that a compiled function runs it at each call.

    A scheduler counts steps in Python numbers, which the replay of a trace does not update.
    """

    @wraps(step)
    def in_each_call(self: LRScheduler, *args: object, **kwargs: object) -> None:
        tracer = modes.tracer
        if tracer is not None:
            if any(isinstance(x, Tensor) for x in (*args, *kwargs.values())):
                tracer.breaks("it passes a Tensor to a learning rate scheduler")
            elif tracer.acts(partial(step, self, **kwargs), args):
                return
        step(self, *args, **kwargs)

    return in_each_call


class LRScheduler(ChecksOptions):
    """The base class: ``step()``, called after each epoch or batch, sets the ``lr`` of every group to ``get_lr()``.

    Raises:
        TypeError: ``optimizer`` is not an Optimizer.
        KeyError: ``last_epoch`` is given, but a group has no ``initial_lr``.

    >>> optimizer = rg.optim.SGD([rg.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = rg.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    >>> for epoch in range(4):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    optimizer: Optimizer
    last_epoch: int
    _is_initial = False
    _not_in_state: tuple[str, ...] = ("optimizer",)

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = replayed(cls.__dict__["step"])  # type: ignore[method-assign]

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = checked_optimizer(optimizer)
        for index, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", number(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{index}] when resuming a scheduler with "
                    "last_epoch >= 0; load the optimizer's state first"
                )
        self.base_lrs = [number(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._initial_step()

    def _initial_step(self) -> None:
        if modes.tracer is not None:  # a replay would not create a new scheduler
            modes.tracer.breaks("it creates a learning rate scheduler")
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            del self._is_initial

    @replayed
    def step(self, epoch: int | None = None) -> None:
        """Advance to the next epoch and set the learning rates."""
        if self._step_count == 1 and not self.optimizer._stepped:
            warnings.warn(
                "lr_scheduler.step() was called before optimizer.step(); call it afterwards, or the first learning "
                "rate of the schedule is skipped",
                UserWarning,
                stacklevel=2,
            )
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_IS_DEPRECATED, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        if epoch is None:
            self.last_epoch += 1
            rates = self.get_lr()
        else:
            self.last_epoch = epoch
            closed_form = getattr(self, "_closed_form", None)
            rates = self.get_lr() if closed_form is None else [closed_form(base) for base in self.base_lrs]
        self._set(rates)

    def _set(self, rates: Iterable[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            assign(group, "lr", rate)
        self._last_lr = rates_of(self.optimizer)

    def get_lr(self) -> list[float]:
        """Return the learning rates of this epoch, one per group."""
        raise NotImplementedError(f"{type(self).__name__} is missing the required get_lr")

    def get_last_lr(self) -> list[float]:
        """Return the learning rates that the last step set."""
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes except the optimizer, for ``load_state_dict``."""
        return {key: value for key, value in self.__dict__.items() if key not in self._not_in_state}

    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        """Restore the state from ``state_dict()``. Load the optimizer's state, too: it contains the learning rates."""
        self.__dict__.update({key: value for key, value in state_dict.items() if key not in self._not_in_state})


class Chainable(LRScheduler):
    """A scheduler that multiplies the current learning rate by ``_ratio()``."""

    def _ratio(self) -> float:
        """Return the learning rate of this epoch divided by that of the previous epoch."""
        raise NotImplementedError

    def get_lr(self) -> list[float]:
        ratio = self._ratio()
        return [rate * ratio for rate in rates_of(self.optimizer)]


def checked_optimizer(optimizer: object) -> Optimizer:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
    return optimizer


def rates_of(optimizer: Optimizer) -> list[float]:
    return [number(group["lr"]) for group in optimizer.param_groups]


def assign(group: ParamGroup, key: str, value: float) -> None:
    """Set an option of a group; if it is a Tensor, write it in place, since other code may refer to it."""
    if isinstance(group[key], Tensor):
        group[key].array[...] = value
    else:
        group[key] = value


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[float]:
    groups = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [number(value)] * groups
    if len(value) != groups:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups: {len(value)} values for {groups} groups"
        )
    return [number(item) for item in value]
