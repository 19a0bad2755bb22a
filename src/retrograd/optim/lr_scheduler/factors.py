"""Schedulers that multiply the learning rate by a factor: a function, at milestones, linear, or polynomial."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..optimizer import Optimizer
from .base import Chainable, LRScheduler, checked_optimizer, rates_of


class _FunctionLR(LRScheduler):
    """A scheduler with one function of the epoch per group. Its state contains callable objects, but no functions."""

    _not_in_state = ("optimizer", "lr_lambdas")

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        groups = len(checked_optimizer(optimizer).param_groups)
        functions = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * groups
        if len(functions) != groups:
            raise ValueError(f"Expected {groups} lr_lambdas, but got {len(functions)}")
        for function in functions:
            if not callable(function):
                raise TypeError(f"lr_lambda should be a function, but got {type(function).__name__}")
        self.lr_lambdas: list[Any] = functions
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        functions = [
            None if isinstance(function, types.FunctionType) else dict(vars(function)) for function in self.lr_lambdas
        ]
        return {**super().state_dict(), "lr_lambdas": functions}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        for function, state in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if state is not None:
                vars(function).update(state)


class LambdaLR(_FunctionLR):
    """Set the learning rate to the initial one times ``lr_lambda(epoch)``.

    Args:
        lr_lambda: a function of the epoch, or a list with one function per group.

    Raises:
        ValueError: the numbers of functions and groups differ.
        TypeError: a function is not callable.

    >>> optimizer = rg.optim.SGD([rg.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = rg.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def get_lr(self) -> list[float]:
        return [base * function(self.last_epoch) for base, function in zip(self.base_lrs, self.lr_lambdas)]


class MultiplicativeLR(_FunctionLR):
    """Multiply the learning rate by ``lr_lambda(epoch)`` each epoch; arguments and errors as ``LambdaLR``.

    >>> optimizer = rg.optim.SGD([rg.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = rg.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
    >>> for _ in range(2):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def get_lr(self) -> list[float]:
        rates = rates_of(self.optimizer)
        if self._is_initial:
            return rates
        return [rate * function(self.last_epoch) for rate, function in zip(rates, self.lr_lambdas)]


class StepLR(Chainable):
    """Decay the learning rate every ``step_size`` epochs: ``lr = initial_lr * gamma**(epoch // step_size)``.

    Args:
        step_size: the number of epochs between two changes.

    >>> optimizer = rg.optim.SGD([rg.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = rg.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    >>> for _ in range(4):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _ratio(self) -> float:
        return self.gamma if self.last_epoch and self.last_epoch % self.step_size == 0 else 1.0

    def _closed_form(self, base: float) -> float:
        return base * self.gamma ** (self.last_epoch // self.step_size)


class MultiStepLR(Chainable):
    """Multiply the learning rate by ``gamma`` at every epoch in ``milestones``.

    Args:
        milestones: the epochs; an epoch that is listed twice counts twice.

    >>> optimizer = rg.optim.SGD([rg.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = rg.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 3], gamma=0.5)
    >>> for _ in range(4):
    ...     optimizer.step()
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones: dict[int, int] = {}
        for milestone in milestones:
            self.milestones[milestone] = self.milestones.get(milestone, 0) + 1
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _ratio(self) -> float:
        return self.gamma ** self.milestones.get(self.last_epoch, 0)

    def _closed_form(self, base: float) -> float:
        return base * self.gamma ** sum(times for epoch, times in self.milestones.items() if epoch <= self.last_epoch)


class ConstantLR(Chainable):
    """Multiply the initial learning rate by ``factor`` until epoch ``total_iters``.

    Args:
        factor: the factor, in ``[0, 1]``.
        total_iters: the first epoch with the initial learning rate.

    Raises:
        ValueError: ``factor`` outside ``[0, 1]``.

    >>> optimizer = rg.optim.SGD([rg.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = rg.optim.lr_scheduler.ConstantLR(optimizer, factor=0.25, total_iters=3)
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if not 0 <= factor <= 1:
            raise ValueError(f"Constant multiplicative factor expected to be between 0 and 1, got {factor}")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _ratio(self) -> float:
        if self.last_epoch == 0:
            return self.factor
        return 1.0 / self.factor if self.last_epoch == self.total_iters else 1.0

    def _closed_form(self, base: float) -> float:
        return base * (1.0 if self.last_epoch >= self.total_iters else self.factor)


class LinearLR(Chainable):
    """Multiply by a factor that changes linearly from ``start_factor`` to ``end_factor`` in ``total_iters`` epochs.

    Args:
        start_factor: the factor at epoch 0, in ``(0, 1]``.
        end_factor: the factor from epoch ``total_iters`` on, in ``[0, 1]``.
        total_iters: the number of epochs in which the factor changes.

    Raises:
        ValueError: ``start_factor`` outside ``(0, 1]`` or ``end_factor`` outside ``[0, 1]``.

    >>> optimizer = rg.optim.SGD([rg.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = rg.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.75]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1:
            raise ValueError(f"Starting multiplicative factor expected to be in (0, 1], got {start_factor}")
        if not 0 <= end_factor <= 1:
            raise ValueError(f"Ending multiplicative factor expected to be between 0 and 1, got {end_factor}")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch: int) -> float:
        return (
            self.start_factor + (self.end_factor - self.start_factor) * min(self.total_iters, epoch) / self.total_iters
        )

    def _ratio(self) -> float:
        if self.last_epoch == 0:
            return self.start_factor
        if self._is_initial or self.last_epoch > self.total_iters:
            return 1.0
        return self._factor(self.last_epoch) / self._factor(self.last_epoch - 1)

    def _closed_form(self, base: float) -> float:
        return base * self._factor(self.last_epoch)


class ExponentialLR(Chainable):
    """Multiply the learning rate by ``gamma`` every epoch: ``lr = initial_lr * gamma**epoch``.

    >>> optimizer = rg.optim.SGD([rg.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = rg.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _ratio(self) -> float:
        return 1.0 if self._is_initial else self.gamma

    def _closed_form(self, base: float) -> float:
        return base * self.gamma**self.last_epoch


class PolynomialLR(Chainable):
    """Multiply the initial learning rate by ``(1 - epoch / total_iters)**power``, until it is 0 at ``total_iters``.

    Args:
        total_iters: the number of epochs until the learning rate is 0.
        power: the power of the polynomial.

    >>> optimizer = rg.optim.SGD([rg.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = rg.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=4)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.75]
    """

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def _ratio(self) -> float:
        if self._is_initial or self.last_epoch > self.total_iters:
            return 1.0
        left = self.total_iters - self.last_epoch
        return (left / (left + 1)) ** self.power

    def _closed_form(self, base: float) -> float:
        return base * (1 - min(self.total_iters, self.last_epoch) / self.total_iters) ** self.power
