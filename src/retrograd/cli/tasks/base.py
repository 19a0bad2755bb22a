"""The interface of a task: a model and its data, a loss and a score, and the sections of its report."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import retrograd as rg
from retrograd import nn
from retrograd.data import DataLoader
from retrograd.data.dataset import Indexed
from retrograd.nn import functional as F

from ..console import UserError
from ..training import processes
from ..training.report import Section

Array = np.ndarray
Predict = Callable[[Array], Array]
BATCH = 500  # batch size of evaluation


@dataclass(frozen=True)
class Split:
    """Inputs and targets of examples."""

    name: str
    inputs: Array
    targets: Array

    def batches(self) -> Iterator[tuple[Array, Array]]:
        for start in range(0, len(self.inputs), BATCH):
            yield self.inputs[start : start + BATCH], self.targets[start : start + BATCH]


@dataclass
class Task:
    """A model, its training batches, and its evaluation split.

    Subclasses define the loss, and the sum over a batch of the figure named by `score`.
    """

    model: nn.Module
    train: DataLoader[object]
    test: Split

    score = ""
    vocabulary = ""

    def loss(self, output: rg.Tensor, targets: rg.Tensor) -> rg.Tensor:
        """Return the mean loss over the targets, without ignored targets such as padding."""
        raise NotImplementedError

    def figures(self, loss: float, output: Array, targets: Array) -> tuple[dict[str, float], int]:
        """Return a batch's figures, and the number of targets over which they are means."""
        raise NotImplementedError

    def count(self, targets: Array) -> int:
        """Return the number of targets over which the loss is a mean."""
        return len(targets)

    def augment(self, inputs: Array) -> Array:
        """Return the inputs of a batch with data augmentation."""
        return inputs

    def evaluate(self, predict: Predict) -> dict[str, float]:
        """Return the mean figures of the test split."""
        total, sums = 0, dict[str, float]()
        batches = list(self.test.batches())
        for inputs, targets in batches[processes.part(len(batches))]:
            output = predict(inputs)
            with rg.no_grad():
                loss = self.loss(rg.from_numpy(output), rg.from_numpy(targets)).item()
            figures, count = self.figures(loss, output, targets)
            total += count
            for name, value in figures.items():
                sums[name] = sums.get(name, 0.0) + value * count
        sums, total = processes.added(sums, total)
        return {f"{self.test.name}_{name}": value / total for name, value in sums.items()}

    def columns(self) -> dict[str, Any]:
        """Return how the columns of a table are encoded, as plain data for a checkpoint."""
        return {}

    def references(self) -> dict[str, float]:
        """Return losses to compare with, by name, for training and test data (in the order of the curves)."""
        return {}

    def sections(self, predict: Predict, seed: int) -> list[Section]:
        """Return the report's sections about the trained model, other than its curves."""
        return []


class Classification(Task):
    """Cross entropy and accuracy; targets equal to `PADDING` are ignored."""

    PADDING = -100
    score = "accuracy"

    def loss(self, output: rg.Tensor, targets: rg.Tensor) -> rg.Tensor:
        return F.cross_entropy(output.flatten(0, -2), targets.flatten(), ignore_index=self.PADDING)

    def count(self, targets: Array) -> int:
        return int((targets != self.PADDING).sum())

    def figures(self, loss: float, output: Array, targets: Array) -> tuple[dict[str, float], int]:
        count = self.count(targets)
        correct = int((output.argmax(axis=-1) == targets).sum())
        return {"loss": loss, "accuracy": correct / count}, count


def predictions(predict: Predict, split: Split) -> Array:
    """Return the model's output for the whole split."""
    return np.concatenate([predict(inputs) for inputs, _ in split.batches()])


def shuffled(dataset: Indexed[object], batch_size: int, order: rg.Generator) -> DataLoader[Any]:
    """Return a loader of all examples, shuffled each epoch, without a smaller last batch."""
    check_batch_size(batch_size, dataset)
    return DataLoader(dataset, batch_size, shuffle=True, drop_last=True, generator=order)


def check_batch_size(batch_size: int, dataset: Any) -> None:
    """Raise UserError for a batch larger than the data."""
    if batch_size > len(dataset):
        raise UserError(f"--batch-size {batch_size} is more than the {len(dataset)} training examples")
