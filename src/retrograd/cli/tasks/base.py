"""What a task is: a model and its data, a loss and a score, and what there is to show at the end."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import retrograd as rg
from retrograd import nn
from retrograd.data import DataLoader
from retrograd.nn import functional as F

from ..console import UserError
from ..training import processes
from ..training.report import Section

Array = np.ndarray
Predict = Callable[[Array], Array]
BATCH = 500  # examples at once, where nothing is learned


@dataclass(frozen=True)
class Split:
    """Inputs and targets, sample by sample."""

    name: str
    inputs: Array
    targets: Array

    def batches(self) -> Iterator[tuple[Array, Array]]:
        for start in range(0, len(self.inputs), BATCH):
            yield self.inputs[start : start + BATCH], self.targets[start : start + BATCH]


@dataclass
class Task:
    """A model, the batches it is trained on, and the split it is measured on.

    Subclasses give the loss, and the sum of what `score` names over a batch.
    """

    model: nn.Module
    train: DataLoader[Any]
    test: Split

    score = ""
    vocabulary = ""

    def loss(self, output: rg.Tensor, targets: rg.Tensor) -> rg.Tensor:
        """The mean loss over the targets that count."""
        raise NotImplementedError

    def figures(self, loss: float, output: Array, targets: Array) -> tuple[dict[str, float], int]:
        """A batch's figures, and over how many targets they are means."""
        raise NotImplementedError

    def count(self, targets: Array) -> int:
        """How many of a batch's targets the loss is a mean over."""
        return len(targets)

    def augment(self, inputs: Array) -> Array:
        """The inputs of a batch as they are trained on."""
        return inputs

    def evaluate(self, predict: Predict) -> dict[str, float]:
        """The means over the test split."""
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

    def references(self) -> dict[str, float]:
        """Losses to compare the model's with, by name, in the order of the curves: train, test."""
        return {}

    def sections(self, predict: Predict, seed: int) -> list[Section]:
        """What the report shows of the trained model, beside its curves."""
        return []


class Classification(Task):
    """Cross entropy and accuracy; targets of `PADDING` do not count."""

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
    """The model's output for the whole split."""
    return np.concatenate([predict(inputs) for inputs, _ in split.batches()])


def shuffled(dataset: Any, batch_size: int, order: rg.Generator) -> DataLoader[Any]:
    """All examples in a new order each epoch, without a last, smaller batch."""
    check_batch_size(batch_size, dataset)
    return DataLoader(dataset, batch_size, shuffle=True, drop_last=True, generator=order)


def check_batch_size(batch_size: int, dataset: Any) -> None:
    """UserError for a batch larger than the data."""
    if batch_size > len(dataset):
        raise UserError(f"--batch-size {batch_size} is more than the {len(dataset)} examples to train on")
