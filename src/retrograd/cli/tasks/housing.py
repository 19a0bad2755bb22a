"""California house prices by linear regression or an MLP, compared with closed-form least squares."""

from dataclasses import dataclass

import numpy as np

import retrograd as rg
from retrograd import data, nn
from retrograd.data import TensorDataset
from retrograd.models import MLP
from retrograd.nn import functional as F
from retrograd.training import R2Score, plots

from ..console import Table
from ..training.report import Plot, Section, Text
from .base import Array, Predict, Split, Task, predictions, shuffled

UNIT = "(100,000 $)"
DECIDING = 3  # number of test rows that the explanation singles out
HIDDEN = (128, 128, 64)  # sizes of the MLP's hidden layers


class Housing(Task):
    """Mean squared error and R2, the share of the variance explained.

    The regression and the closed form use the raw features in float64; the MLP uses logarithms of four of them.
    """

    score = "r2"

    def __init__(self, model: str, batch_size: int, seed: int, order: rg.Generator) -> None:
        table = data.housing()
        features = table.features
        if model == "mlp":
            # Counts and averages of rooms, people and households have tails of a hundred standard deviations; their
            # logarithms do not.
            features = np.column_stack([features[:, :2], np.log(features[:, 2:6]), features[:, 6:]])
        self.names = table.feature_names
        dtype = np.float64 if model == "linear" else np.float32
        self.fit, test = standardized_split(features, table.target[:, None], np.random.default_rng(seed), dtype)
        super().__init__(
            linear(features.shape[1]) if model == "linear" else MLP([8, *HIDDEN, 1]),
            shuffled(TensorDataset(self.fit.inputs, self.fit.targets), batch_size, order),
            test,
        )

    def loss(self, output: rg.Tensor, targets: rg.Tensor) -> rg.Tensor:
        return F.mse_loss(output, targets)

    def figures(self, loss: float, output: Array, targets: Array) -> tuple[dict[str, float], int]:
        return {"loss": loss}, len(targets)

    def evaluate(self, predict: Predict) -> dict[str, float]:
        figures = super().evaluate(predict)
        return {**figures, "test_r2": 1 - figures["test_loss"] / float(self.test.targets.var())}

    def references(self) -> dict[str, float]:
        exact = least_squares(self.fit)
        return {f"{split.name}, least squares": errors(exact, split)[0] for split in (self.fit, self.test)}

    def sections(self, predict: Predict, seed: int) -> list[Section]:
        """The model's errors, compared with least squares on the same features."""
        exact = least_squares(self.fit)
        rows = [
            [name, *(f"{figure:.4f}" for split in (self.fit, self.test) for figure in errors(model, split))]
            for name, model in ((type(self.model).__name__, predict), ("least squares", exact))
        ]
        columns = ["model", "train MSE", "train R2", "test MSE", "test R2"]
        sections: list[Section] = [Table("Comparison with the closed form", columns, rows)]
        if isinstance(self.model, nn.Linear):
            sections += [self.weights(exact), *self.why(predict, exact)]
        if plots.available():
            predicted, actual = predictions(predict, self.test)[:, 0], self.test.targets[:, 0]
            fit = plots.predicted_against_actual(predicted, actual, unit=UNIT)
            rest = plots.residuals(predicted, actual, unit=UNIT)
            sections.append(Plot("predicted", "Median house value of the test rows: predicted against actual", fit))
            sections.append(Plot("residuals", "Residuals of the test rows", rest))
        return sections

    def why(self, predict: Predict, exact: "LeastSquares") -> list[Section]:
        """Explain why the trained weights do better on the test rows than the solution of least squares, if they do."""
        ours, best = ((model(self.test.inputs) - self.test.targets)[:, 0] ** 2 for model in (predict, exact))
        if ours.mean() >= best.mean():
            return []
        deciding = np.argsort(ours - best)[:DECIDING]
        rest = np.delete(np.arange(len(ours)), deciding)
        far = np.abs(self.test.inputs[deciding]).max(axis=1).max()
        share = (best - ours)[deciding].sum() / (best - ours).sum()
        part = "all" if share >= 1 else f"{share:.0%}"
        return [
            Text(
                "Why SGD does better than least squares on the test rows",
                "Least squares has the lowest error of all linear models on the training rows, not on other rows.\n"
                f"{DECIDING} of the {len(ours):,} test rows, up to {far:.0f} standard deviations from the mean of the "
                f"training rows, account for {part} of the difference. SGD stops before the weights have their full "
                f"length, so its predictions for such rows are less extreme.\n"
                f"Without these {DECIDING} rows the test MSE is {ours[rest].mean():.4f} for SGD and "
                f"{best[rest].mean():.4f} for least squares.",
            )
        ]

    def weights(self, exact: "LeastSquares") -> Table:
        weight, bias = (value.numpy().reshape(-1) for value in self.model.state_dict().values())
        columns = [*self.names, "bias"], [*weight, *bias], exact.solution[:, 0]
        rows = [[name, f"{ours:.4f}", f"{best:.4f}"] for name, ours, best in zip(*columns, strict=True)]
        return Table("Weights, for standardized features", ["feature", "SGD", "least squares"], rows)


@dataclass(frozen=True)
class LeastSquares:
    """The linear model with the least mean squared error: a weight per feature, then the bias, ``(n + 1, 1)``."""

    solution: Array

    def __call__(self, inputs: Array) -> Array:
        return inputs @ self.solution[:-1] + self.solution[-1]


def least_squares(split: Split) -> LeastSquares:
    """Return the closed-form solution."""
    return LeastSquares(np.linalg.lstsq(np.column_stack([split.inputs, np.ones(len(split.inputs))]), split.targets)[0])


def errors(predict: Predict, split: Split) -> tuple[float, float]:
    """Return mean squared error and R2."""
    predicted, score = predict(split.inputs), R2Score()
    score.update(predicted, split.targets)
    return float(((predicted - split.targets) ** 2).mean()), score.value


def linear(features: int) -> nn.Linear:
    """Return a linear layer in float64 that starts at zero."""
    model = nn.Linear(features, 1, dtype=rg.float64)
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    return model


def standardized_split(
    x: Array, y: Array, random: np.random.Generator, dtype: type[np.floating] = np.float64
) -> tuple[Split, Split]:
    """Split rows 80/20 at random into train and test; standardize features by the training rows."""
    train, test = np.split(random.permutation(len(y)), [int(0.8 * len(y))])
    x = ((x - x[train].mean(axis=0)) / x[train].std(axis=0)).astype(dtype)
    y = y.astype(dtype)
    return Split("train", x[train], y[train]), Split("test", x[test], y[test])
