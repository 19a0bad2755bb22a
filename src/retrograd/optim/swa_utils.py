"""Stochastic weight averaging (Izmailov et al., 2018), and its learning rate scheduler."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from itertools import chain
from typing import Any

from ..core.graph.modes import no_grad
from ..core.tensor.tensor import Tensor
from ..nn.base.module import Module
from ..nn.layers.normalization import _BatchNorm
from ..ops.make.creation import tensor
from .array_updates import average_all
from .lr_scheduler.base import LRScheduler, per_group, rates_of
from .optimizer import Optimizer, writable

Average = Callable[[Tensor, Tensor, Tensor | int], Tensor]
AverageOfLists = Callable[[Sequence[Tensor], Sequence[Tensor], Tensor | int], None]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """Return a function for the exponential moving average ``decay * average + (1 - decay) * parameter``."""
    _check_decay(decay)

    @no_grad()
    def average(ema_param: Tensor, current_param: Tensor, num_averaged: Tensor | int) -> Tensor:
        return decay * ema_param + (1 - decay) * current_param

    return average


def get_swa_avg_fn() -> Average:
    """Return a function for the running mean ``average + (parameter - average) / (count + 1)``."""

    @no_grad()
    def average(averaged_param: Tensor, current_param: Tensor, num_averaged: Tensor | int) -> Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return average


def _of_lists(average: Average) -> AverageOfLists:
    @no_grad()
    def update(averaged: Sequence[Tensor], current: Sequence[Tensor], num_averaged: Tensor | int) -> None:
        for mine, its in zip(averaged, current, strict=True):
            mine.copy_(average(mine, its, num_averaged) if mine.is_floating_point() else its)

    return update


def get_ema_multi_avg_fn(decay: float = 0.999) -> AverageOfLists:
    """Return the in-place form of ``get_ema_avg_fn`` for lists of parameters."""
    _check_decay(decay)
    return _towards(lambda num_averaged: 1 - decay)


def get_swa_multi_avg_fn() -> AverageOfLists:
    """Return the in-place form of ``get_swa_avg_fn`` for lists of parameters."""
    return _towards(lambda num_averaged: 1 / (int(num_averaged) + 1))


def _towards(rate: Callable[[Tensor | int], float]) -> AverageOfLists:
    @no_grad()
    def update(averaged: Sequence[Tensor], current: Sequence[Tensor], num_averaged: Tensor | int) -> None:
        average_all([writable(mine) for mine in averaged], [its.array for its in current], rate(num_averaged))

    return update


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


class AveragedModel(Module):
    """A copy of a model with the averages of its parameters at all calls of ``update_parameters``, by default the mean.

    Args:
        model: the model; its copy is the attribute ``module``.
        device: the device of the copy.
        avg_fn: ``avg_fn(average, parameter, count)`` returns the new average.
        multi_avg_fn: ``multi_avg_fn(averages, parameters, count)`` writes the new averages.
        use_buffers: whether to average the buffers, too, instead of copying them.

    >>> import retrograd as rg
    >>> model = rg.nn.Linear(1, 1, bias=False)
    >>> averaged = rg.optim.swa_utils.AveragedModel(model)
    >>> for value in (1.0, 2.0, 6.0):
    ...     _ = rg.nn.init.constant_(model.weight, value)
    ...     averaged.update_parameters(model)
    >>> averaged.module.weight.item()
    3.0
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: AverageOfLists | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: object, **kwargs: object) -> Any:
        return self.module(*args, **kwargs)

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Add the current parameters of the model to the averages."""

        def tensors(module: Module) -> list[Tensor]:
            buffers = module.buffers() if self.use_buffers else ()
            return [x.detach() for x in chain(module.parameters(), buffers)]

        mine = tensors(self.module)
        its = [x.to(own.device) for own, x in zip(mine, tensors(model), strict=True)]
        if self.n_averaged == 0:  # compare, so that a compiled step does not depend on the exact count
            for own, x in zip(mine, its, strict=True):
                own.copy_(x)
        else:
            update = self.multi_avg_fn or (_of_lists(self.avg_fn) if self.avg_fn else get_swa_multi_avg_fn())
            update(mine, its, self.n_averaged)
        if not self.use_buffers:
            for own, x in zip(self.module.buffers(), model.buffers(), strict=True):
                own.detach().copy_(x.detach().to(own.device))
        self.n_averaged += 1


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: object = None) -> None:
    """Recompute the running statistics of batch normalization, in one pass over the data.

    Args:
        loader: batches, or lists and tuples whose first element is a batch.
        model: the model whose layers are updated.
        device: the device to move the batches to.
    """
    layers = {module: module.momentum for module in model.modules() if isinstance(module, _BatchNorm)}
    if not layers:
        return
    was_training = model.training
    try:
        for layer in layers:
            layer.reset_running_stats()
            layer.momentum = None
        model.train()
        for batch in loader:
            x = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(x if device is None else x.to(device))
    finally:
        for layer, momentum in layers.items():
            layer.momentum = momentum
        model.train(was_training)


class SWALR(LRScheduler):
    """Anneal the learning rate to a fixed value in ``anneal_epochs`` epochs, then keep that value.

    Args:
        optimizer: the optimizer whose learning rates change.
        swa_lr: the final learning rate, or a list with one per group.
        anneal_epochs: the number of epochs of the annealing.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        last_epoch: the number of epochs already done; -1 to start.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: object,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        for group, rate in zip(optimizer.param_groups, per_group("swa_lr", optimizer, swa_lr), strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        self._anneal_strategy = anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _share(self, step: int) -> float:
        """Return the fraction of the annealing that is done, from 0 to 1."""
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list[float]:
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._share(step - 1), self._share(step)
        rates = []
        for group, rate in zip(self.optimizer.param_groups, rates_of(self.optimizer), strict=True):
            goal = group["swa_lr"]
            start = goal if before == 1 else (rate - before * goal) / (1 - before)
            rates.append(goal * now + start * (1 - now))
        return rates
