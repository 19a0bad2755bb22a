"""`retrograd train housing`: linear regression on California housing by plain stochastic gradient descent.

The problem has a closed-form solution, so the run ends by setting what the gradients found beside it.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import retrograd as rg
from retrograd.data import housing as load_housing

from . import plots
from .arguments import output_folder
from .console import Progress, Table, UserError, print_table
from .info import environment
from .metrics import MetricsWriter
from .report import write_report
from .settings import Settings

Array = NDArray[Any]
COLUMNS = ("epoch", "seconds", "train_mse", "test_mse", "train_r2", "test_r2")
UNIT = "(100,000 $)"
DIVERGED = -1000.0  # An R2 this low is a loss a thousand times the variance: no noisy epoch, but a step too large.


def run(options: Settings) -> int:
    """Train, and leave metrics, plots and a report in the folder `options.out`."""
    if (
        options.steps
        or options.checkpoint
        or options.tensorboard
        or options.device != "cpu"
        or options.optimizer != "sgd"
    ):
        raise UserError("--steps, --resume, --tensorboard, --device and --optimizer need --model mlp")
    folder = output_folder(options.out)
    random = np.random.default_rng(options.seed)
    data = load_housing()
    split = standardized_split(data.features, data.target, random)
    print(f"California housing: {len(split.y_train)} rows to train on, {len(split.y_test)} to test")

    exact = least_squares(split.x_train, split.y_train)
    history: list[dict[str, float]] = []
    start = time.perf_counter()
    with Progress("epoch", options.epochs) as progress, MetricsWriter(folder, COLUMNS) as metrics:
        for epoch, model in enumerate(descend(split, options, random), start=1):
            row = {"epoch": epoch, "seconds": round(time.perf_counter() - start, 3), **evaluate(model, split)}
            if not row["train_r2"] > DIVERGED:
                raise UserError(f"the loss has grown to {row['train_mse']:.3g} by epoch {epoch}; try a smaller --lr")
            metrics.write(row)
            history.append(row)
            progress.update(epoch, {"train MSE": row["train_mse"], "test MSE": row["test_mse"]})

    results = results_table({f"SGD, {options.epochs} epochs": history[-1], "least squares": evaluate(exact, split)})
    print_table(results)
    figures = draw(folder, history, model, exact, split) if plots.available() else {}
    if not figures:
        print(plots.INSTALL)
    write_report(
        folder / "report.html",
        "California housing: linear regression by SGD",
        results=[results, weights_table(data.feature_names, model, exact)],
        figures=figures,
        config={name: getattr(options, name) for name in ("epochs", "batch_size", "lr", "seed", "out")},
        environment=environment(),
    )
    print(f"report: {folder / 'report.html'}")
    return 0


@dataclass(frozen=True)
class Split:
    """Rows to train on and rows to test on: features (rows, 8), standardized, and targets (rows,)."""

    x_train: Array
    y_train: Array
    x_test: Array
    y_test: Array


@dataclass(frozen=True)
class Linear:
    """y = x @ weight + bias."""

    weight: Array
    bias: float

    def __call__(self, x: Array) -> Array:
        return x @ self.weight + self.bias


def standardized_split(x: Array, y: Array, random: np.random.Generator) -> Split:
    """Split the rows 80/20 at random; shift and scale the features by the training rows' mean and deviation."""
    order = random.permutation(len(y))
    train, test = np.split(order, [int(0.8 * len(y))])
    mean, deviation = x[train].mean(axis=0), x[train].std(axis=0)
    x = (x - mean) / deviation
    return Split(x[train], y[train], x[test], y[test])


def descend(split: Split, options: Settings | argparse.Namespace, random: np.random.Generator) -> Iterator[Linear]:
    """Minimize the mean squared error by SGD on shuffled batches; yields the model after each epoch."""
    x, y = rg.from_numpy(split.x_train), rg.from_numpy(split.y_train)
    # On the CPU even where a GPU answers: steps this small would spend their time launching kernels.
    w = rg.zeros(x.shape[1], dtype=x.dtype, device="cpu", requires_grad=True)
    b = rg.zeros((), dtype=x.dtype, device="cpu", requires_grad=True)
    for _ in range(options.epochs):
        order = random.permutation(len(split.y_train))
        # A learning rate too large overflows; the caller sees that in the loss and says so.
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, len(order), options.batch_size):
                rows = order[start : start + options.batch_size]
                loss = ((x[rows] @ w + b - y[rows]) ** 2).mean()
                loss.backward()
                with rg.no_grad():
                    for parameter in (w, b):
                        parameter -= options.lr * parameter.grad
                        parameter.grad = None
        yield Linear(w.detach().numpy().copy(), b.item())


def least_squares(x: Array, y: Array) -> Linear:
    """The model with the least mean squared error, in closed form."""
    solution = np.linalg.lstsq(np.column_stack([x, np.ones(len(x))]), y)[0]
    return Linear(solution[:-1], float(solution[-1]))


def evaluate(model: Linear, split: Split) -> dict[str, float]:
    """Mean squared error and R2, the share of the variance explained, on both parts of the split."""
    figures: dict[str, float] = {}
    with np.errstate(over="ignore", invalid="ignore"):
        for part, x, y in (("train", split.x_train, split.y_train), ("test", split.x_test, split.y_test)):
            mse = float(((model(x) - y) ** 2).mean())
            figures |= {f"{part}_mse": mse, f"{part}_r2": 1 - mse / float(y.var())}
    return figures


def results_table(models: dict[str, dict[str, float]]) -> Table:
    names = ("train_mse", "test_mse", "train_r2", "test_r2")
    rows = [[model, *(f"{figures[name]:.6f}" for name in names)] for model, figures in models.items()]
    return Table("Results", ["model", "train MSE", "test MSE", "train R2", "test R2"], rows)


def weights_table(features: tuple[str, ...], model: Linear, exact: Linear) -> Table:
    columns = ((*features, "bias"), (*model.weight, model.bias), (*exact.weight, exact.bias))
    rows = [[name, f"{ours:.4f}", f"{best:.4f}"] for name, ours, best in zip(*columns, strict=True)]
    return Table("Weights, for standardized features", ["feature", "SGD", "least squares"], rows)


def draw(folder: Path, history: list[dict[str, float]], model: Linear, exact: Linear, split: Split) -> dict[str, Path]:
    """Draw the run's figures into the folder; returns the files by caption."""
    best = evaluate(exact, split)
    losses, fit, rest = folder / "loss.png", folder / "predicted.png", folder / "residuals.png"
    plots.loss_curves(
        losses,
        {part: [row[f"{part}_mse"] for row in history] for part in ("train", "test")},
        references={f"{part}, least squares": best[f"{part}_mse"] for part in ("train", "test")},
        ylabel="mean squared error",
    )
    predicted = model(split.x_test)
    plots.predicted_against_actual(fit, predicted, split.y_test, unit=UNIT)
    plots.residuals(rest, predicted, split.y_test, unit=UNIT)
    return {
        "Loss after each epoch, on the rows trained on and on the test rows": losses,
        "Median house value of the test rows: predicted against actual": fit,
        "Residuals of the test rows": rest,
    }
