"""A CSV file of the user: regression or classification of one column by an MLP or a linear model."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import retrograd as rg
from retrograd import nn
from retrograd.data import TensorDataset
from retrograd.models import MLP
from retrograd.nn import functional as F
from retrograd.training import ConfusionMatrix, plots

from ..console import Table, UserError
from ..training.report import Confusion, Plot, Section, Text
from .base import Array, Classification, Predict, Split, Task, predictions, shuffled
from .csv_files import is_missing, read_csv
from .encoding import Encoding, Kind, Number, fit

FEWEST_ROWS = 10
WORSE = 1.2  # the report gives advice if the squared error exceeds this multiple of the error of least squares
TRAIN_FRACTION = 0.8  # the fraction of the rows used for training
HIDDEN = (64, 64)
MOST_SHOWN_CLASSES = 30
MOST_SCORED_ROWS = 2000  # maximum number of rows that are used to compute the importance of columns


class TableTask(Task):
    """A table: 80 percent of its rows are training data, which determine the encoding, the others validation data."""

    def __init__(
        self, encoding: Encoding, train: Split, validation: Split, model: str, batch_size: int, order: rg.Generator
    ) -> None:
        self.encoding = encoding
        self.fitted = train
        dataset = TensorDataset(train.inputs, train.targets)
        loader = shuffled(dataset, min(batch_size, len(dataset)), order)
        super().__init__(table_model(encoding, model), loader, validation)

    def columns(self) -> dict[str, Any]:
        return self.encoding.plain()

    def sections(self, predict: Predict, seed: int) -> list[Section]:
        """The columns, a comparison with simple models, the importance of columns, and wrong answers or residuals."""
        beside = [self.compared(predict), *self.advice(predict)]
        return [self.described(), *beside, self.importance(predict, seed), *self.drawn(predict)]

    def described(self) -> Table:
        rows = [
            [one.name, "number" if isinstance(one, Number) else "text", ", ".join(one.inputs)]
            for one in self.encoding.columns
        ]
        rows += [[name, "left out", why] for name, why in self.encoding.left_out.items()]
        target = self.encoding.target
        rows.append([target.name, f"target: {target.kind}", ", ".join(target.classes) or "standardized"])
        return Table("Columns", ["column", "kind", "inputs of the network"], rows)

    def compared(self, predict: Predict) -> Table:
        raise NotImplementedError

    def advice(self, predict: Predict) -> list[Section]:
        return []

    def drawn(self, predict: Predict) -> list[Section]:
        raise NotImplementedError

    def importance(self, predict: Predict, seed: int) -> Table:
        """Return, for each column, how much the validation loss rises when the column's rows are shuffled."""
        random = np.random.default_rng(seed)
        chosen = random.permutation(len(self.test.inputs))[:MOST_SCORED_ROWS]
        inputs, targets = self.test.inputs[chosen], rg.from_numpy(self.test.targets[chosen])

        def loss(inputs: Array) -> float:
            with rg.no_grad():
                return self.loss(rg.from_numpy(predict(inputs)), targets).item()

        before, start, rises = loss(inputs), 0, []
        for column in self.encoding.columns:
            end = start + len(column.inputs)
            mixed = inputs.copy()
            mixed[:, start:end] = inputs[random.permutation(len(inputs)), start:end]
            rises.append((loss(mixed) - before, column.name))
            start = end
        rows = [[name, f"{rise:+.4f}"] for rise, name in sorted(rises, reverse=True)]
        return Table("Importance: rise of the validation loss with the column shuffled", ["column", "rise"], rows)


class TableRegression(TableTask):
    """Mean squared error of the standardized target, and R2, the share of the variance explained."""

    score = "r2"

    def loss(self, output: rg.Tensor, targets: rg.Tensor) -> rg.Tensor:
        return F.mse_loss(output, targets)

    def figures(self, loss: float, output: Array, targets: Array) -> tuple[dict[str, float], int]:
        return {"loss": loss}, len(targets)

    def evaluate(self, predict: Predict) -> dict[str, float]:
        figures = super().evaluate(predict)
        variance = max(float(self.test.targets.var()), 1e-12)
        return {**figures, "validation_r2": 1 - figures["validation_loss"] / variance}

    def _models(self, predict: Predict) -> dict[str, Predict]:
        """Return this model and the models that it is compared with."""
        ones = np.ones((len(self.fitted.inputs), 1), np.float32)
        solution = np.linalg.lstsq(np.hstack([self.fitted.inputs, ones]).astype(np.float64), self.fitted.targets)[0]
        return {
            "this model": predict,
            "linear least squares": lambda inputs: inputs @ solution[:-1] + solution[-1],
            "mean of the training rows": lambda inputs: np.zeros((len(inputs), 1)),
        }

    def advice(self, predict: Predict) -> list[Section]:
        own, linear, _ = [
            [float(np.square(model(split.inputs) - split.targets).mean()) for split in (self.fitted, self.test)]
            for model in self._models(predict).values()
        ]
        if own[1] <= WORSE * linear[1]:
            return []
        more = "more epochs" if own[0] > linear[0] else "fewer epochs or on more rows"
        said = "Linear least squares predicts the validation rows better than this model"
        return [Text("Advice", f"{said}: train for {more}, or with --model linear.")]

    def compared(self, predict: Predict) -> Table:
        rows = []
        for name, model in self._models(predict).items():
            cells = [name]
            for split in (self.fitted, self.test):
                difference = self.encoding.target.deviation * (model(split.inputs) - split.targets)
                cells += [quantity(np.abs(difference).mean()), quantity(np.sqrt((difference**2).mean()))]
            rows.append(cells)
        headers = [f"{part} {figure}" for part in ("train", "validation") for figure in ("mean error", "RMSE")]
        return Table(f"Errors of {self.encoding.target.name}, in its unit", ["model", *headers], rows)

    def drawn(self, predict: Predict) -> list[Section]:
        if not plots.available():
            return []
        target = self.encoding.target
        predicted, actual = (
            target.mean + target.deviation * values[:, 0].astype(np.float64)
            for values in (predictions(predict, self.test), self.test.targets)
        )
        first = plots.predicted_against_actual(predicted, actual)
        second = plots.residuals(predicted, actual)
        return [
            Plot("predicted", f"{target.name} of the validation rows: predicted against actual", first),
            Plot("residuals", "Residuals of the validation rows", second),
        ]


class TableClassification(TableTask, Classification):
    """Cross entropy and accuracy."""

    def compared(self, predict: Predict) -> Table:
        most, splits = int(np.bincount(self.fitted.targets).argmax()), (self.fitted, self.test)
        right = [(predict(split.inputs).argmax(axis=1) == split.targets).mean() for split in splits]
        constant = [(split.targets == most).mean() for split in splits]
        rows = [
            ["this model", *(f"{share:.2%}" for share in right)],
            [f"always {self.encoding.target.classes[most]}", *(f"{share:.2%}" for share in constant)],
        ]
        return Table("Accuracy", ["model", "train", "validation"], rows)

    def drawn(self, predict: Predict) -> list[Section]:
        classes = self.encoding.target.classes
        if len(classes) > MOST_SHOWN_CLASSES:
            return [Text("Confusion matrix", f"not shown: {len(classes)} classes")]
        confusion = ConfusionMatrix(classes)
        confusion.update(predictions(predict, self.test).argmax(axis=1), self.test.targets)
        return [Confusion("Confusion matrix of the validation rows: true class down, answer across", confusion)]


def table_task(
    path: Path, target: str, kind: Kind | None, model: str, batch_size: int, seed: int, order: rg.Generator
) -> TableTask:
    """Return the task of a CSV file, split at random by the seed.

    Raises UserError for a file that is not a table, or from which nothing can be learned.
    """
    table = read_csv(path)
    cells = table.column(target)
    known = np.array([row for row, cell in enumerate(cells) if not is_missing(cell)], np.int64)
    if len(known) < len(cells):  # rows without a target cannot be used
        table = replace(table, columns={name: [column[row] for row in known] for name, column in table.columns.items()})
    if len(known) < FEWEST_ROWS:
        raise UserError(f"{path} has {len(known)} rows with {target!r}; at least {FEWEST_ROWS} are needed")
    train, validation = np.split(
        np.random.default_rng(seed).permutation(len(known)), [int(TRAIN_FRACTION * len(known))]
    )
    encoding = fit(table, target, kind, train)
    inputs, targets = encoding.encode(table), encoding.encode_target(table)
    splits = Split("train", inputs[train], targets[train]), Split("validation", inputs[validation], targets[validation])
    task = TableClassification if encoding.target.classes else TableRegression
    return task(encoding, *splits, model, batch_size, order)


def quantity(value: float) -> str:
    """Format an error in the unit of a column, with at least four digits.

    >>> from retrograd.cli.tasks.tables import quantity
    >>> quantity(47581.3), quantity(0.0123456)
    ('47,581', '0.01235')
    """
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.4g}"


def table_model(encoding: Encoding, model: str) -> nn.Module:
    """Return the untrained network for an encoding."""
    inputs = len(encoding.inputs)
    if model == "linear":
        return nn.Linear(inputs, encoding.outputs)
    return MLP([inputs, *HIDDEN, encoding.outputs])


class WithEncoding(nn.Module):
    """A trained network whose inputs and outputs are in the units of the table, for export.

    Inputs are ``(N, inputs)``: numbers as in the file (missing numbers: the column's mean), 1 or 0 for each value of a
    text column. The output is the quantity, or the probability of each class.
    """

    mean: rg.Tensor
    deviation: rg.Tensor

    def __init__(self, network: nn.Module, encoding: Encoding) -> None:
        super().__init__()
        means, deviations = [], []
        for column in encoding.columns:
            first = (column.mean, column.deviation) if isinstance(column, Number) else (0.0, 1.0)
            for place in range(len(column.inputs)):
                mean, deviation = first if place == 0 else (0.0, 1.0)
                means.append(mean)
                deviations.append(deviation)
        self.network = network
        self.target = encoding.target
        self.register_buffer("mean", rg.tensor(means))
        self.register_buffer("deviation", rg.tensor(deviations))

    def forward(self, table: rg.Tensor) -> rg.Tensor:
        output = self.network((table - self.mean) / self.deviation)
        if self.target.classes:
            return output.softmax(-1)
        return output * self.target.deviation + self.target.mean
