"""Loop: means, evaluation, checkpoints and safe interruption around a training step."""

from __future__ import annotations

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np

from ..core.arrays.fp_warnings import silent
from ..data import DataLoader
from ..distributed.objects import on_any_rank
from .checkpoint import Checkpoint
from .metrics import AverageMeter

Figures = Mapping[str, float]
Row = dict[str, float]
Path = str | os.PathLike[str]


class DivergenceError(RuntimeError):
    """A loss is no longer finite.

    Attributes:
        name: the name of the value, such as ``"loss"``.
        value: infinity or NaN.
        step: the number of the step.

    >>> from retrograd.training import DivergenceError
    >>> str(DivergenceError("loss", float("nan"), 7))
    'the loss is nan at step 7; try a smaller learning rate, or clip the gradients'
    """

    def __init__(self, name: str, value: float, step: int) -> None:
        super().__init__(f"the {name} is {value} at step {step}; try a smaller learning rate, or clip the gradients")
        self.name = name
        self.value = value
        self.step = step


class Interrupted(KeyboardInterrupt):
    """Raised after Ctrl-C, when the step in progress is finished and the checkpoint, if the loop has one, is written.

    Attributes:
        step: the number of finished steps.

    >>> from retrograd.training import Interrupted
    >>> str(Interrupted(7))
    'stopped after step 7'
    """

    def __init__(self, step: int) -> None:
        super().__init__(f"stopped after step {step}")
        self.step = step


class Loop:
    """Calls a training step for each batch, and evaluates and saves checkpoints.

    The program's ``step`` updates the parameters with one batch. The loop accumulates the means of the returned
    values, calls ``evaluate`` and writes a checkpoint after each epoch and at the end, and stops if a loss is not
    finite. At Ctrl-C it finishes the step, writes a checkpoint and raises ``Interrupted``, a KeyboardInterrupt. A
    resumed loop continues bit for bit like an uninterrupted one. With several processes, each has a loop, and all stop
    at the same step.

    Args:
        step: a function that takes a batch and returns a dictionary of mean values, including ``"loss"``, and the
            number of examples in the batch.
        loader: the batches, iterated once per epoch; it has a length.
        steps: the total number of training steps.
        evaluate: a function that returns further values for the history, such as the accuracy on a test set.
        checkpoint: the name of the checkpoint file; by default no checkpoint is written.
        metadata: JSON data for the checkpoint.
        **parts: other parts of the checkpoint (see ``Checkpoint``): ``model``, ``optimizer``, ``scheduler`` ...

    Attributes:
        completed: the number of completed steps.
        losses: the loss of each step.
        history: a row for each evaluation: epoch, step, seconds in steps so far, the means since the last row under
            names with the prefix ``train_``, the values of ``evaluate``, and ``examples_per_second``.
        saved: the number of steps in the checkpoint; None if there is none.

    >>> from retrograd.training import Loop
    >>> data = rg.data.TensorDataset(rg.arange(8.0).reshape(8, 1), 3 * rg.arange(8.0).reshape(8, 1))
    >>> model = rg.nn.Linear(1, 1)
    >>> optimizer = rg.optim.SGD(model.parameters(), lr=0.02)
    >>> def step(batch):
    ...     x, y = batch
    ...     loss = rg.nn.functional.mse_loss(model(x), y)
    ...     optimizer.zero_grad()
    ...     loss.backward()
    ...     optimizer.step()
    ...     return {"loss": loss.item()}, len(x)
    >>> loop = Loop(step, rg.data.DataLoader(data, batch_size=4), steps=400)
    >>> loop.run()
    >>> loop.completed, loop.history[-1]["epoch"], loop.history[-1]["train_loss"] < 1e-3
    (400, 200, True)
    """

    def __init__(
        self,
        step: Callable[[Any], tuple[Figures, int]],
        loader: DataLoader[Any] | Collection[Any],
        steps: int,
        *,
        evaluate: Callable[[], Figures] = dict,
        checkpoint: Path | None = None,
        metadata: Mapping[str, object] | None = None,
        **parts: Any,
    ) -> None:
        if steps < 1 or not len(loader):
            raise ValueError(f"Loop: expected at least one step and one batch, got {steps} and {len(loader)}")
        self.loader = loader
        self.steps = steps
        self.completed = 0
        self.losses: list[float] = []
        self.history: list[Row] = []
        self.saved: int | None = None
        self._step = step
        self._evaluate = evaluate
        self._metadata = metadata
        self._parts = {**parts, "loader": loader, "loop": self}
        self._checkpoint = None if checkpoint is None else Checkpoint(checkpoint, **self._parts)
        self._seconds = 0.0  # seconds in steps, in total and since the last evaluation
        self._recent_seconds = 0.0
        self._means: dict[str, AverageMeter] = {}

    def run(self, on_step: Callable[[Loop], object] | None = None) -> None:
        """Train until the last step.

        Args:
            on_step: called after each step, and after its evaluation, if any.

        Raises:
            Interrupted: after Ctrl-C.
            DivergenceError: a loss is infinite or NaN. The previous checkpoint is kept.
            OSError: the checkpoint cannot be written; the previous checkpoint is kept.
        """
        with _interrupts() as interrupted, silent():  # DivergenceError reports a loss that overflows
            while self.completed < self.steps:
                for batch in self.loader:
                    self._train(batch)
                    if self.completed % len(self.loader) == 0 or self.completed == self.steps:
                        self._record()
                    if on_step is not None:
                        on_step(self)
                    stopping = on_any_rank(interrupted.is_set())
                    if self.evaluated or stopping:
                        self.save()
                    if stopping:
                        raise Interrupted(self.completed)
                    if self.completed == self.steps:
                        break

    @property
    def evaluated(self) -> bool:
        """Whether an evaluation followed the last step, so that the last row of ``history`` belongs to it."""
        return bool(self.history) and self.history[-1]["step"] == self.completed

    def recent(self) -> Row:
        """The means over the current or just completed epoch, and ``examples_per_second``."""
        examples = max((mean.count for mean in self._means.values()), default=0)
        means = {name: mean.avg for name, mean in self._means.items()}
        return means | {"examples_per_second": examples / self._recent_seconds if self._recent_seconds else 0.0}

    def save(self) -> None:
        """Write the checkpoint, if the loop has one."""
        if self._checkpoint is not None:
            self._checkpoint.save(self.completed, self._metadata)
            self.saved = self.completed

    def resume(self, path: Path | None = None) -> bool:
        """Continue from the loop's checkpoint, or from the file ``path``; return False if there is none.

        Raises:
            CheckpointError: the file is damaged, or has other parts than this run.
        """
        checkpoint = self._checkpoint if path is None else Checkpoint(path, **self._parts)
        progress = None if checkpoint is None else checkpoint.resume()
        if progress is None:
            return False
        self.saved = progress.step
        return True

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the loop, which the checkpoint stores."""
        return {
            "completed": self.completed,
            "losses": np.array(self.losses),
            "history": self.history,
            "seconds": [self._seconds, self._recent_seconds],
            "means": {name: [mean.sum, mean.count] for name, mean in self._means.items()},
        }

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Restore a state from ``state_dict()``.

        Raises:
            ValueError: the state is invalid for this loop.
        """
        match state:
            case {
                "completed": int(completed),
                "losses": losses,
                "history": list(history),
                "seconds": [int() | float() as seconds, int() | float() as recent],
                "means": dict(means),
            }:
                pass
            case _:
                raise ValueError(
                    "Loop: the state must have completed, losses, history, seconds and means as from state_dict()"
                )
        losses = np.asarray(losses)
        if completed < 0 or losses.shape != (completed,) or losses.dtype.kind not in "fViu":
            raise ValueError(f"Loop: the state has {completed} steps and losses of shape {losses.shape}")
        for row in history:
            if not isinstance(row, dict) or not all(map(_is_number, row.values())) or row.keys() != history[0].keys():
                raise ValueError(f"Loop: the state has an invalid row of the history: {row!r:.80}")
            if not isinstance(step := row.get("step"), int) or not 0 < step <= completed:
                raise ValueError(
                    f"Loop: the state has {completed} steps, but the history has a row of step {row.get('step')!r:.80}"
                )
        meters = {}
        for name, mean in means.items():
            if not isinstance(mean, list) or len(mean) != 2 or not all(map(_is_number, mean)):
                raise ValueError(f"Loop: the state has a mean that is not a sum and a count: {mean!r:.80}")
            meters[name] = AverageMeter()
            meters[name].sum, meters[name].count = mean
        self.completed, self.losses, self.history = completed, losses.tolist(), list(history)
        self._seconds, self._recent_seconds = seconds, recent
        self._means = meters

    def _train(self, batch: object) -> None:
        start = time.perf_counter()
        if self.evaluated:
            self._means, self._recent_seconds = {}, 0.0
        figures, count = self._step(batch)
        _check_finite("loss", figures["loss"], self.completed + 1)
        self.completed += 1
        self.losses.append(figures["loss"])
        for name, value in figures.items():
            self._means.setdefault(name, AverageMeter()).update(value, count)
        self._seconds += time.perf_counter() - start
        self._recent_seconds += time.perf_counter() - start

    def _record(self) -> None:
        means = self.recent()
        speed = round(means.pop("examples_per_second"), 1)
        epoch, part = divmod(self.completed, len(self.loader))
        row: Row = {
            "epoch": epoch + round(part / len(self.loader), 4) if part else epoch,
            "step": self.completed,
            "seconds": round(self._seconds, 3),
            **{f"train_{name}": value for name, value in means.items()},
            **self._evaluate(),
            "examples_per_second": speed,
        }
        for name, value in row.items():
            if name.endswith("loss"):
                _check_finite(name.replace("_", " "), value, self.completed)
        self.history.append(row)


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 2**63 or value != value


def _check_finite(name: str, value: float, step: int) -> None:
    if not math.isfinite(value):
        raise DivergenceError(name, value, step)


@contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """Yield an event that the first Ctrl-C sets; a second Ctrl-C interrupts immediately."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event  # only the main thread receives signals
        return
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: FrameType | None) -> None:
        event.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, note)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)
