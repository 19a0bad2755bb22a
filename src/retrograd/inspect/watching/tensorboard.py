"""Write records as TensorBoard event files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from .alarm_rules import Alarm
from .measures import Distribution, StepRecord


class Board:
    """Writes to the given SummaryWriter, or to a folder through tensorboardX's.

    Raises ImportError for a folder if tensorboardX is not installed, TypeError for any other target.
    """

    def __init__(self, target: Any) -> None:
        self._owned = isinstance(target, (str, os.PathLike))
        self._writer = target
        if self._owned:
            try:
                from tensorboardX import SummaryWriter
            except ImportError:
                raise ImportError(
                    "watch: tensorboard= needs tensorboardX: pip install 'retrograd[tensorboard]'"
                ) from None
            self._writer = SummaryWriter(os.fspath(target))
        elif not hasattr(target, "add_scalar"):
            raise TypeError(f"watch: tensorboard must be a folder or a SummaryWriter, got {type(target).__name__}")

    def write(self, record: StepRecord, raised: Sequence[Alarm]) -> None:
        """Append a record to the curves and to the histograms."""
        figures: dict[str, float] = {
            "watch/gradient_norm": record.total_norm,
            "watch/gradient_norm_before_clipping": record.total_norm_before_clipping,
        }
        if record.loss is not None:
            figures["watch/loss"] = record.loss
        for index, rate in enumerate(record.rates):
            figures[f"watch/learning_rate/{index}" if len(record.rates) > 1 else "watch/learning_rate"] = rate
        figures |= {f"update_ratio/{name}": ratio for name, ratio in record.update_ratios.items()}
        for name, activation in record.activations.items():
            figures |= {f"activation_mean/{name}": activation.mean, f"activation_std/{name}": activation.std}
            if activation.saturated is not None:
                figures[f"saturated/{name}"] = activation.saturated
            if activation.dead is not None:
                figures[f"dead_units/{name}"] = activation.dead
        for title, value in figures.items():
            self._writer.add_scalar(title, value, record.step)
        for folder, table in (("gradients", record.gradients), ("weights", record.weights)):
            for name, found in table.items():
                self._writer.add_scalar(f"{folder}_rms/{name}", found.rms, record.step)
                if found.finite and found.counts.any():
                    self._histogram(f"{folder}/{name}", found, record.step)
        for alarm in raised:
            self._writer.add_text("alarms", str(alarm), record.step)

    def close(self) -> None:
        """Close the writer if it was created here."""
        if self._owned:
            self._writer.close()

    def _histogram(self, title: str, found: Distribution, step: int) -> None:
        # TensorBoard requires an edge below the lowest value.
        span = (found.maximum - found.minimum) or abs(found.maximum) or 1.0
        low, high = (found.minimum, found.maximum) if found.maximum > found.minimum else (
            found.minimum - span / 2, found.minimum + span / 2,
        )  # fmt: skip
        edges = np.linspace(low, high, len(found.counts) + 1)
        counts = found.counts * (found.size / found.counts.sum())
        self._writer.add_histogram_raw(
            title,
            min=found.minimum,
            max=found.maximum,
            num=found.size,
            sum=found.mean * found.size,
            sum_squares=found.norm**2,
            bucket_limits=edges[1:].tolist(),
            bucket_counts=counts.tolist(),
            global_step=step,
        )
