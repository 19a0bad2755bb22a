"""Schedulers with cosine annealing and cyclical learning rates."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any

from ...ops.table.documentation import like
from ..hyperparameters import ParamGroup
from ..optimizer import Optimizer
from .base import LRScheduler, assign, checked_optimizer, per_group, rates_of


class CosineAnnealingLR(LRScheduler):
    """Cosine annealing from the initial learning rate to ``eta_min`` in ``T_max`` epochs, and back.

    ``lr = eta_min + (initial_lr - eta_min) * (1 + cos(pi * epoch / T_max)) / 2``, if nothing else changes the ``lr``.

    Args:
        T_max: the number of epochs from the initial learning rate to ``eta_min``.
        eta_min: the smallest learning rate.

    Source: Loshchilov and Hutter, SGDR: stochastic gradient descent with warm restarts, 2017 (without the restarts).

    >>> optimizer = rg.optim.SGD([rg.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = rg.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> round(scheduler.get_last_lr()[0], 4)
    0.5
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        rates, epoch, half = rates_of(self.optimizer), self.last_epoch, math.pi / self.T_max
        if self._is_initial:
            return rates
        if self._step_count == 1 and epoch > 0:
            return [self._closed_form(base) for base in self.base_lrs]
        if (epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            # The previous learning rate is the minimum, so the ratio below is undefined.
            rise = (1 - math.cos(half)) / 2
            return [rate + (base - self.eta_min) * rise for rate, base in zip(rates, self.base_lrs)]
        ratio = (1 + math.cos(half * epoch)) / (1 + math.cos(half * (epoch - 1)))
        return [ratio * (rate - self.eta_min) + self.eta_min for rate in rates]

    def _closed_form(self, base: float) -> float:
        return self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2


@like(CosineAnnealingLR)
class CosineAnnealingWarmRestarts(LRScheduler):
    """Cosine annealing to ``eta_min`` that restarts after ``T_0`` epochs, then after ``T_0 * T_mult``, and so on.

    The argument of ``step(epoch)`` may be fractional.

    Args:
        T_0: the number of epochs until the first restart.
        T_mult: the factor by which the number of epochs until the next restart grows.

    Raises:
        ValueError: ``T_0`` or ``T_mult`` is not a positive integer, or the epoch is negative.

    Source: Loshchilov and Hutter, SGDR: stochastic gradient descent with warm restarts, 2017.

    >>> optimizer = rg.optim.SGD([rg.zeros(1, requires_grad=True)], lr=1.0)
    >>> scheduler = rg.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> [round(rate, 4) for rate in rates]
    [1.0, 0.5, 1.0, 0.5]
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if not isinstance(T_0, int) or T_0 <= 0:
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if not isinstance(T_mult, int) or T_mult < 1:
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (int, float)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        height = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Advance to the next epoch, or to the given epoch, which may be fractional."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        elif epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        else:
            self.T_cur, self.T_i = epoch, self.T_0
            while self.T_cur >= self.T_i and self.T_mult > 1:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
            self.T_cur %= self.T_i
        self.last_epoch = math.floor(epoch)
        self._set(self.get_lr())


class _MomentumCycle(LRScheduler):
    """A scheduler that also changes momentum (or beta1), inversely to the learning rate."""

    cycle_momentum: bool
    use_beta1: bool

    def _begin_momentum(self, base_momentum: object, max_momentum: object, begins: bool) -> None:
        if not self.cycle_momentum:
            return
        defaults = self.optimizer.defaults
        if "momentum" not in defaults and "betas" not in defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in defaults
        self.base_momentums = per_group("base_momentum", self.optimizer, base_momentum)
        self.max_momentums = per_group("max_momentum", self.optimizer, max_momentum)
        if begins:
            for group, lowest, highest in zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums):
                group["base_momentum"], group["max_momentum"] = lowest, highest
                self._set_momentum(group, highest)

    def _set_momentum(self, group: ParamGroup, momentum: float) -> None:
        if self.use_beta1:
            group["betas"] = (momentum, *group["betas"][1:])
        else:
            group["momentum"] = momentum


class CyclicLR(_MomentumCycle):
    """Cycle between ``base_lr`` and ``max_lr``: up in ``step_size_up`` batches, down in ``step_size_down``.

    Args:
        base_lr, max_lr: the bounds, numbers or lists with one number per group.
        step_size_up, step_size_down: the numbers of batches in which the learning rate rises and falls;
            ``step_size_down`` is ``step_size_up`` by default.
        mode: the amplitude of the cycles: ``"triangular"``, constant; ``"triangular2"``, halved after each cycle;
            ``"exp_range"``, ``gamma**batch``.
        gamma: see ``mode``.
        scale_fn: instead of ``mode``, the amplitude as a function of the number of the cycle or of the batch.
        scale_mode: the argument of ``scale_fn``: ``"cycle"`` or ``"iterations"`` (batches).
        cycle_momentum: also change momentum (or beta1), inversely to the learning rate.
        base_momentum, max_momentum: the bounds of the momentum, numbers or lists with one number per group.
        last_epoch: the number of batches already done; -1 to start.

    Raises:
        ValueError: the mode is unknown, a list has the wrong length, or the optimizer has no momentum.

    Source: Smith, Cyclical learning rates for training neural networks, 2017.

    >>> optimizer = rg.optim.SGD([rg.zeros(1, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> scheduler = rg.optim.lr_scheduler.CyclicLR(optimizer, base_lr=0.0, max_lr=1.0, step_size_up=2)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> rates
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """

    _not_in_state = ("optimizer", "_scale_fn_custom")

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = checked_optimizer(optimizer)
        base_lrs = per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, base_lrs):
                assign(group, "lr", rate)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError(f"mode must be 'triangular', 'triangular2' or 'exp_range' without scale_fn, got {mode!r}")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode if scale_fn is not None else "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        self._begin_momentum(base_momentum, max_momentum, last_epoch == -1)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """Return the amplitude relative to that of the first cycle."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 1 / 2.0 ** (x - 1) if self.mode == "triangular2" else self.gamma**x

    def get_lr(self) -> list[float]:
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, lowest, highest in zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums):
                self._set_momentum(group, highest - (highest - lowest) * height * scale)
        return [low + (high - low) * height * scale for low, high in zip(self.base_lrs, self.max_lrs)]

    def state_dict(self) -> dict[str, Any]:
        function = self._scale_fn_custom
        kept = None if function is None or isinstance(function, types.FunctionType) else dict(vars(function))
        return {**super().state_dict(), "_scale_fn_custom": kept}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        if state_dict["_scale_fn_custom"] is not None:
            vars(self._scale_fn_custom).update(state_dict["_scale_fn_custom"])


@like(CyclicLR)
class OneCycleLR(_MomentumCycle):
    """One cycle of ``total_steps`` batches: up from ``max_lr / div_factor`` to ``max_lr``, then down to nearly zero.

    Args:
        max_lr: the largest learning rate, a number or a list with one number per group.
        total_steps: the number of batches in the cycle; by default ``epochs * steps_per_epoch``.
        epochs, steps_per_epoch: numbers whose product replaces ``total_steps`` if that is None.
        pct_start: the fraction of the batches with increasing learning rate.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        div_factor: the largest learning rate divided by the initial one.
        final_div_factor: the initial learning rate divided by the final one.
        three_phase: before the final decrease, return to the initial learning rate in a phase of the same length as
            the increase.

    Raises:
        ValueError: an argument is out of range, there are too many steps, or the optimizer has no momentum.

    Source: Smith and Topin, Super-convergence: very fast training of neural networks using large learning rates, 2018.

    >>> optimizer = rg.optim.SGD([rg.zeros(1, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> schedule = {"total_steps": 5, "pct_start": 0.4, "anneal_strategy": "linear", "div_factor": 4.0}
    >>> scheduler = rg.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, **schedule)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [1.0]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = checked_optimizer(optimizer)
        if total_steps is None and (epochs is None or steps_per_epoch is None):
            raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
        counts = (
            {"total_steps": total_steps}
            if total_steps is not None
            else {"epochs": epochs, "steps_per_epoch": steps_per_epoch}
        )
        self.total_steps = 1
        for name, count in counts.items():
            if not isinstance(count, int) or count <= 0:
                raise ValueError(f"Expected positive integer {name}, but got {count}")
            self.total_steps *= count
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_func_type = anneal_strategy
        top = pct_start * self.total_steps - 1
        end = self.total_steps - 1
        # For each phase: the batch at which the phase ends, and the keys of learning rate and momentum at both ends.
        up = (top, "initial_lr", "max_lr", "max_momentum", "base_momentum")
        if three_phase:
            down = (2 * top, "max_lr", "initial_lr", "base_momentum", "max_momentum")
            phases = [up, down, (end, "initial_lr", "min_lr", "max_momentum", "max_momentum")]
        else:
            phases = [up, (end, "max_lr", "min_lr", "base_momentum", "max_momentum")]
        names = ("end_step", "start_lr", "end_lr", "start_momentum", "end_momentum")
        self._schedule_phases: list[dict[str, Any]] = [dict(zip(names, phase)) for phase in phases]
        max_lrs = per_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, max_lrs):
                group["initial_lr"] = rate / div_factor
                group["max_lr"] = rate
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        self._begin_momentum(base_momentum, max_momentum, last_epoch == -1)
        super().__init__(optimizer, last_epoch)

    def _anneal(self, start: float, end: float, share: float) -> float:
        if self._anneal_func_type == "linear":
            return (end - start) * share + start
        return end + (start - end) / 2 * (math.cos(math.pi * share) + 1)

    def get_lr(self) -> list[float]:
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The specified number of total steps is {self.total_steps}")
        begin = 0.0
        for phase in self._schedule_phases[:-1]:
            if step <= phase["end_step"]:
                break
            begin = phase["end_step"]
        else:
            phase = self._schedule_phases[-1]
        share = (step - begin) / (phase["end_step"] - begin)
        groups = self.optimizer.param_groups
        if self.cycle_momentum:
            for group in groups:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                self._set_momentum(group, self._anneal(*ends, share))
        return [self._anneal(group[phase["start_lr"]], group[phase["end_lr"]], share) for group in groups]
