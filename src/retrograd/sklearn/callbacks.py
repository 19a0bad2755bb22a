"""What is called while a network is trained: the moments, early stopping, and schedules of the learning rate."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from ..optim import lr_scheduler


class Callback:
    """Called with the estimator at each moment of training; every method does nothing until a subclass says otherwise.

    Arguments after the estimator come by keyword, so that a method may name those that it reads and take ``**kwargs``.
    """

    def initialize(self) -> Callback:
        """Called before a training from the start; gives itself."""
        return self

    def on_train_begin(self, net: Any, **kwargs: object) -> None:
        """Training begins; ``X`` and ``y`` are what was given."""

    def on_train_end(self, net: Any, **kwargs: object) -> None:
        """It has ended."""

    def on_epoch_begin(self, net: Any, **kwargs: object) -> None:
        """An epoch begins."""

    def on_epoch_end(self, net: Any, **kwargs: object) -> None:
        """It has ended; ``net.history[-1]`` tells how."""

    def on_batch_begin(self, net: Any, **kwargs: object) -> None:
        """A batch comes; ``training`` says whether for training."""

    def on_batch_end(self, net: Any, **kwargs: object) -> None:
        """The optimizer has stepped, or the batch was one of validation; ``loss`` is its loss."""

    def on_grad_computed(self, net: Any, **kwargs: object) -> None:
        """The gradients are there, the optimizer steps next."""


class EarlyStopping(Callback):
    """Ends training when a measure has not improved for some epochs.

    Args:
        monitor: its name in the history.
        patience: how many epochs without improvement end it.
        threshold: how much better counts as better.
        threshold_mode: ``"rel"``, a share of the best, or ``"abs"``.
        lower_is_better: whether it falls as things get better.
        load_best: give the module the best epoch's weights at the end.

    Raises:
        ValueError: another ``threshold_mode``.

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

    def on_train_begin(self, net: Any, **kwargs: object) -> None:
        self.misses_ = 0
        self.best_: float | None = None
        self.weights_: Any = None

    def on_epoch_end(self, net: Any, **kwargs: Any) -> None:
        value = net.history[-1].get(self.monitor)
        if value is None:
            raise ValueError(
                f"EarlyStopping: an epoch has no {self.monitor!r}, only {', '.join(net.history[-1])}; measures of "
                "validation need train_split=ValidSplit()"
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

    def on_train_end(self, net: Any, **kwargs: Any) -> None:
        if self.weights_ is not None:
            net.module_.load_state_dict(self.weights_)
            self.weights_ = None


class LRScheduler(Callback):
    """Changes the learning rate by a schedule of ``optim.lr_scheduler``.

    Args:
        policy: its class, or the name of that.
        monitor: what ``ReduceLROnPlateau`` looks at.
        step_every: ``"epoch"`` or ``"batch"``.
        kwargs: what the class is made with.

    Raises:
        ValueError: no such schedule, or another ``step_every``.

    >>> from retrograd.sklearn import LRScheduler
    >>> LRScheduler("StepLR", step_size=10).policy
    'StepLR'
    """

    def __init__(
        self, policy: Any = "StepLR", monitor: str = "train_loss", step_every: str = "epoch", **kwargs: Any
    ) -> None:
        if isinstance(policy, str) and not hasattr(lr_scheduler, policy):
            raise ValueError(f"LRScheduler: optim.lr_scheduler has no {policy!r}")
        if step_every not in ("epoch", "batch"):
            raise ValueError(f"LRScheduler: step_every must be 'epoch' or 'batch', got {step_every!r}")
        self.policy, self.monitor, self.step_every, self.kwargs = policy, monitor, step_every, kwargs

    def on_train_begin(self, net: Any, **kwargs: Any) -> None:
        policy = getattr(lr_scheduler, self.policy) if isinstance(self.policy, str) else self.policy
        options = {"step_size": 10} if policy is lr_scheduler.StepLR and not self.kwargs else self.kwargs
        self.lr_scheduler_ = policy(net.optimizer_, **options)

    def on_epoch_end(self, net: Any, **kwargs: Any) -> None:
        if self.step_every == "batch":
            return
        if isinstance(self.lr_scheduler_, lr_scheduler.ReduceLROnPlateau):
            self.lr_scheduler_.step(net.history[-1, self.monitor])
        else:
            self.lr_scheduler_.step()

    def on_batch_end(self, net: Any, **kwargs: object) -> None:
        if self.step_every == "batch" and kwargs.get("training"):
            self.lr_scheduler_.step()
