"""Callbacks of training: early stopping, and learning rate schedules."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from ..core.tensor.tensor import Tensor
from ..optim import lr_scheduler
from .net import Callback, NeuralNet


class EarlyStopping(Callback):
    """Stop training when a measure has not improved for some epochs.

    Args:
        monitor: the name of the measure in the history.
        patience: the number of epochs without improvement before training stops.
        threshold: the smallest change that counts as an improvement.
        threshold_mode: ``"rel"``, relative to the best value, or ``"abs"``.
        lower_is_better: whether the measure is minimized.
        load_best: restore the weights of the best epoch at the end.

    Raises:
        ValueError: ``threshold_mode`` is unknown.

    >>> from retrograd.sklearn import EarlyStopping
    >>> EarlyStopping(patience=3).patience
    3
    """

    def __init__(
        self,
        monitor: str = "valid_loss",
        patience: int = 5,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        lower_is_better: bool = True,
        load_best: bool = False,
    ) -> None:
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"EarlyStopping: threshold_mode must be 'rel' or 'abs', got {threshold_mode!r}")
        self.monitor, self.patience, self.load_best = monitor, patience, load_best
        self.threshold, self.threshold_mode, self.lower_is_better = threshold, threshold_mode, lower_is_better

    def on_train_begin(self, net: NeuralNet, **kwargs: object) -> None:
        self.misses_ = 0
        self.best_: float | None = None
        self.weights_: dict[str, Tensor] | None = None

    def on_epoch_end(self, net: NeuralNet, **kwargs: object) -> None:
        value = net.history[-1].get(self.monitor)
        if value is None:
            raise ValueError(
                f"EarlyStopping: monitor must be one of {', '.join(net.history[-1])}, got {self.monitor!r}; validation "
                "measures need train_split=ValidSplit()"
            )
        if self.best_ is None or self._better(value):
            self.misses_, self.best_ = 0, value
            if self.load_best:
                self.weights_ = deepcopy(net.module_.state_dict())
            return
        self.misses_ += 1
        if self.misses_ == self.patience:
            if net.verbose:
                print(f"Stopping since {self.monitor} has not improved in the last {self.patience} epochs.")
            net.stop_training()

    def _better(self, value: float) -> bool:
        assert self.best_ is not None
        step = self.threshold * (abs(self.best_) if self.threshold_mode == "rel" else 1)
        return value < self.best_ - step if self.lower_is_better else value > self.best_ + step

    def on_train_end(self, net: NeuralNet, **kwargs: object) -> None:
        if self.weights_ is not None:
            net.module_.load_state_dict(self.weights_)
            self.weights_ = None


class LRScheduler(Callback):
    """Change the learning rate by a schedule of ``optim.lr_scheduler``.

    Args:
        policy: the scheduler class or its name.
        monitor: the measure that ``ReduceLROnPlateau`` reads.
        step_every: ``"epoch"`` or ``"batch"``.
        kwargs: arguments of the scheduler class.

    Raises:
        ValueError: ``policy`` or ``step_every`` is unknown.

    >>> from retrograd.sklearn import LRScheduler
    >>> LRScheduler("StepLR", step_size=10).policy
    'StepLR'
    """

    def __init__(
        self,
        policy: str | type[lr_scheduler.LRScheduler] = "StepLR",
        monitor: str = "train_loss",
        step_every: str = "epoch",
        **kwargs: Any,
    ) -> None:
        if isinstance(policy, str) and not hasattr(lr_scheduler, policy):
            raise ValueError(f"LRScheduler: policy must be a scheduler of optim.lr_scheduler, got {policy!r}")
        if step_every not in ("epoch", "batch"):
            raise ValueError(f"LRScheduler: step_every must be 'epoch' or 'batch', got {step_every!r}")
        self.policy, self.monitor, self.step_every, self.kwargs = policy, monitor, step_every, kwargs

    def on_train_begin(self, net: NeuralNet, **kwargs: object) -> None:
        policy = getattr(lr_scheduler, self.policy) if isinstance(self.policy, str) else self.policy
        options = {"step_size": 10} if policy is lr_scheduler.StepLR and not self.kwargs else self.kwargs
        self.lr_scheduler_ = policy(net.optimizer_, **options)

    def on_epoch_end(self, net: NeuralNet, **kwargs: object) -> None:
        if self.step_every == "batch":
            return
        if isinstance(self.lr_scheduler_, lr_scheduler.ReduceLROnPlateau):
            self.lr_scheduler_.step(net.history[-1, self.monitor])
        else:
            self.lr_scheduler_.step()

    def on_batch_end(self, net: NeuralNet, **kwargs: object) -> None:
        if self.step_every == "batch" and kwargs.get("training"):
            self.lr_scheduler_.step()
