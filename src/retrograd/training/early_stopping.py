"""EarlyStopping: stop a training run that no longer improves."""

from __future__ import annotations

from math import inf
from typing import Any, SupportsFloat

from ..core.tensor.tensor import Tensor
from ..nn.base.module import Module


class EarlyStopping:
    """Detects that a metric has not improved for more than ``patience`` epochs; can restore the best weights.

    Args:
        patience: the number of epochs without improvement that are allowed.
        min_delta: the minimum size of an improvement.
        mode: ``"min"`` or ``"max"``, the direction of improvement.
        model: the model whose weights of the best epoch are copied for ``restore``.

    Raises:
        ValueError: an unknown mode, or a negative ``patience`` or ``min_delta``.

    >>> from retrograd.training import EarlyStopping
    >>> stopping = EarlyStopping(patience=1)
    >>> [stopping.step(loss) for loss in (1.0, 0.5, 0.6, 0.7)]
    [False, False, False, True]
    >>> stopping.best, stopping.best_epoch
    (0.5, 1)
    """

    def __init__(
        self, patience: int = 10, min_delta: float = 0.0, mode: str = "min", model: Module | None = None
    ) -> None:
        if mode not in ("min", "max"):
            raise ValueError(f"EarlyStopping: mode must be 'min' or 'max', got {mode!r}")
        if patience < 0 or not min_delta >= 0:
            raise ValueError(f"EarlyStopping: patience and min_delta must not be negative, got {patience}, {min_delta}")
        self.patience = patience
        self.min_delta = min_delta
        self.mode = mode
        self.model = model
        self.best = inf if mode == "min" else -inf
        self.best_epoch = -1
        self.epoch = -1
        self._best_weights: dict[str, object] | None = None

    def step(self, metric: SupportsFloat) -> bool:
        """Add an epoch with its metric; return True if training should stop. NaN is never an improvement."""
        value = float(metric.item() if isinstance(metric, Tensor) else metric)
        self.epoch += 1
        gain = self.best - value if self.mode == "min" else value - self.best
        if gain > self.min_delta:
            self.best = value
            self.best_epoch = self.epoch
            if self.model is not None:
                self._best_weights = {name: tensor.clone() for name, tensor in self.model.state_dict().items()}
        return self.epoch - self.best_epoch > self.patience

    def restore(self) -> None:
        """Load the weights of the best epoch into the model.

        Raises:
            RuntimeError: no model was given, or ``step`` was never called.
        """
        if self.model is None or self._best_weights is None:
            raise RuntimeError("EarlyStopping: no weights to restore; pass model= and call step() at least once")
        self.model.load_state_dict(self._best_weights)

    def state_dict(self) -> dict[str, Any]:
        """Return the best metric with its weights, and the number of epochs."""
        return {
            "best": self.best,
            "best_epoch": self.best_epoch,
            "epoch": self.epoch,
            "best_weights": self._best_weights,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state from ``state_dict()``."""
        self.best, self.best_epoch, self.epoch = state["best"], state["best_epoch"], state["epoch"]
        self._best_weights = state["best_weights"]
