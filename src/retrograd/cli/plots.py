"""The figures of a training run, drawn to PNG files by Matplotlib (the extra `plots`), without a screen."""

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INSTALL = "plots need Matplotlib: pip install 'retrograd[plots]'"
POINTS: dict[str, Any] = {"s": 5, "alpha": 0.25, "linewidths": 0}
GUIDE: dict[str, Any] = {"color": "#666666", "linestyle": "--", "linewidth": 1}

Array = NDArray[np.floating[Any]]


def available() -> bool:
    """Whether Matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def loss_curves(
    path: Path,
    curves: Mapping[str, Sequence[float]],
    *,
    references: Mapping[str, float] | None = None,
    xlabel: str = "epoch",
    ylabel: str = "loss",
    title: str = "Loss",
) -> None:
    """Draw each curve over 1, 2, 3, ... on a logarithmic scale, and each reference value as a dashed line.

    Raises ImportError when Matplotlib is missing.
    """
    figure = _figure(7.0, 4.2)
    axes = figure.add_subplot()
    for index, (label, values) in enumerate(curves.items()):
        axes.plot(range(1, len(values) + 1), values, color=f"C{index}", label=label, linewidth=1.6)
    for index, (label, value) in enumerate((references or {}).items()):
        axes.axhline(value, color=f"C{index}", linestyle="--", linewidth=1, label=label)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("{x:.3g}")
    _label(axes, title, xlabel, ylabel)
    axes.legend(frameon=False)
    figure.savefig(path)


def predicted_against_actual(path: Path, predicted: Array, actual: Array, *, unit: str = "") -> None:
    """Draw a point for each example: its actual value across, the predicted one up; the diagonal is perfection.

    Raises ImportError when Matplotlib is missing, ValueError when the two shapes differ.
    """
    _same_shape(predicted, actual)
    figure = _figure(5.6, 5.2)
    axes = figure.add_subplot()
    axes.scatter(actual, predicted, **POINTS)
    middle = float(actual.mean())
    axes.axline((middle, middle), slope=1, **GUIDE, label="predicted = actual")
    _label(axes, "Predicted against actual", f"actual {unit}".strip(), f"predicted {unit}".strip())
    axes.legend(frameon=False)
    figure.savefig(path)


def residuals(path: Path, predicted: Array, actual: Array, *, unit: str = "") -> None:
    """Draw the residuals, actual less predicted: over the predicted value, and their distribution.

    Raises ImportError when Matplotlib is missing, ValueError when the two shapes differ.
    """
    _same_shape(predicted, actual)
    difference = actual - predicted
    figure = _figure(9.0, 4.2)
    scatter, histogram = figure.subplots(1, 2)
    scatter.scatter(predicted, difference, **POINTS)
    scatter.axhline(0, **GUIDE)
    _label(scatter, "Residuals", f"predicted {unit}".strip(), f"actual - predicted {unit}".strip())
    histogram.hist(difference, bins=60)
    histogram.axvline(0, **GUIDE)
    _label(histogram, "Distribution of the residuals", f"actual - predicted {unit}".strip(), "examples")
    figure.savefig(path)


def _figure(width: float, height: float) -> "Figure":
    # A Figure of its own needs neither pyplot's global state nor a display, and draws by Agg.
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(INSTALL) from error
    return Figure(figsize=(width, height), dpi=120, layout="constrained")


def _label(axes: "Axes", title: str, xlabel: str, ylabel: str) -> None:
    axes.set_title(title)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def _same_shape(predicted: Array, actual: Array) -> None:
    if predicted.shape != actual.shape:
        raise ValueError(f"predicted has shape {predicted.shape}, actual {actual.shape}; they must be the same")
