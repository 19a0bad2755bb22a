"""The training loop that every task shares: steps, evaluations, checkpoints, and a stop that loses nothing."""

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import retrograd as rg

from .checkpoints import FILE, save_checkpoint
from .console import UserError
from .recipes import Recipe
from .tasks import Task
from .trainers import Trainer

Row = dict[str, float]


class Interrupted(Exception):
    """The user pressed Ctrl-C; the checkpoint at `path` is of the step after which the loop stopped."""

    def __init__(self, path: Path, step: int) -> None:
        super().__init__(f"stopped after step {step}")
        self.path = path
        self.step = step


@dataclass
class Sums:
    """What has been added up since the last evaluation."""

    loss: float = 0.0
    right: int = 0
    examples: int = 0
    targets: int = 0
    seconds: float = 0.0

    def figures(self, regression: bool) -> Row:
        row = {"loss": self.loss / self.examples}
        if not regression:
            row["accuracy"] = self.right / self.targets
        return row | {"examples_per_second": round(self.examples / self.seconds, 1)}


@dataclass
class Loop:
    """Trains a task for `total` steps.

    `on_step(loop, loss)` is called after each step, `on_evaluation(loop, row)` after each epoch and at the end. A
    checkpoint is written at each evaluation and at an interrupt; a loop that loads one goes on with the same numbers,
    bit for bit, as the loop that wrote it would have.
    """

    task: Task
    trainer: Trainer
    recipe: Recipe
    total: int
    folder: Path
    config: dict[str, Any]
    step: int = 0
    sums: Sums = field(default_factory=Sums)
    history: list[Row] = field(default_factory=list)
    seconds: float = 0.0

    def run(self, on_step: Callable[["Loop", float], None], on_evaluation: Callable[["Loop", Row], None]) -> None:
        """Train up to the last step; Interrupted after Ctrl-C, UserError when the loss is no longer finite."""
        with interrupts() as interrupted:
            while self.step < self.total:
                for inputs, targets in self.task.train:
                    start = time.perf_counter()
                    loss = self._step(inputs.numpy(), targets.numpy())
                    self.sums.seconds += time.perf_counter() - start
                    self.seconds += time.perf_counter() - start
                    on_step(self, loss)
                    if self.step % len(self.task.train) == 0 or self.step == self.total:
                        on_evaluation(self, self._evaluate())
                    if interrupted.is_set():
                        raise Interrupted(self.save(), self.step)
                    if self.step == self.total:
                        break

    def _step(self, inputs: Any, targets: Any) -> float:
        if self.task.augment is not None:
            inputs = self.task.augment(inputs)
        loss, right = self.trainer.step(inputs, targets, self.recipe.rate(self.step, self.total))
        if not math.isfinite(loss):
            raise UserError(f"the loss is {loss} at step {self.step + 1}; try a smaller --lr")
        self.step += 1
        self.sums.loss += loss * len(inputs)
        self.sums.right += right
        self.sums.examples += len(inputs)
        self.sums.targets += int((targets >= 0).sum())  # padding is below zero
        return loss

    def _evaluate(self) -> Row:
        train = {f"train_{name}": value for name, value in self.sums.figures(self.task.regression).items()}
        speed = train.pop("train_examples_per_second")
        epoch = self.step / len(self.task.train)
        row = {"epoch": round(epoch, 4), "step": self.step, "seconds": round(self.seconds, 3), **train}
        row |= {**self.task.evaluate(self.trainer.predict), "examples_per_second": speed}
        self.history.append(row)
        self.sums = Sums()
        self.save()
        return row

    def save(self) -> Path:
        """Write the checkpoint; returns its path."""
        state = {
            "config": self.config,
            "vocabulary": self.task.vocabulary,
            "step": self.step,
            "seconds": self.seconds,
            "sums": vars(self.sums),
            "history": self.history,
            "random": rg.default_generator.get_state(),
            "data": self.task.train.state_dict(),
            **self.trainer.state_dict(),
        }
        save_checkpoint(self.folder / FILE, state)
        return self.folder / FILE

    def load(self, state: dict[str, Any]) -> None:
        """Go on where the loop that saved `state` stood."""
        self.trainer.load_state_dict(state)
        self.task.train.load_state_dict(state["data"])
        rg.default_generator.set_state(state["random"])
        self.step, self.seconds, self.history = state["step"], state["seconds"], state["history"]
        self.sums = Sums(**state["sums"])


@contextmanager
def interrupts() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C sets; a second one interrupts at once, as it does outside."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event  # signals are the main thread's
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
