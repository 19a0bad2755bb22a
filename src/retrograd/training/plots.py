"""Plots of training in one style, drawn by Matplotlib (the extra ``plots``) without a display."""

from __future__ import annotations

import importlib.util
import io
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = np.ndarray
Curve = tuple[Sequence[float], Sequence[float]]  # x and y values

INSTALL = "plots need Matplotlib: pip install 'retrograd[plots]'"
COLORS = ("#3b82c4", "#e07b39", "#3f9b62", "#b0559b", "#8f7a3c", "#5b6abf", "#c2474f", "#2f9a9a")
GUIDE: dict[str, Any] = {"color": "#888888", "linestyle": "--", "linewidth": 1}
POINTS: dict[str, Any] = {"s": 5, "alpha": 0.25, "linewidths": 0, "color": COLORS[0]}
STEPS = (1, 2, 5, 10)  # distances between tick labels, times a power of ten
PAPER, INK = "#ffffff", "#222222"
DARK_PAPER, DARK_INK = "#17191d", "#d6d6d6"


def color(index: int) -> str:
    """Return the color of curve number ``index``."""
    return COLORS[index % len(COLORS)]


def available() -> bool:
    """Return whether Matplotlib can be imported; before version 3.11 it fails for users without a home folder."""
    if importlib.util.find_spec("matplotlib") is None:
        return False
    try:
        importlib.import_module("matplotlib.figure")
    except RuntimeError:
        return False
    return True


def new_figure(width: float, height: float) -> Figure:
    """Return an empty figure; sizes are in inches. Raises ImportError if Matplotlib is missing."""
    # A Figure without pyplot needs no global state and no display, and is drawn by Agg.
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(INSTALL) from error
    return Figure(figsize=(width, height), dpi=150, layout="constrained")


def label(axes: Axes, title: str, xlabel: str, ylabel: str = "") -> None:
    """Set title, axis labels and the common frame."""
    axes.set_title(title)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(ylabel)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def whole_numbers(axes: Axes) -> None:
    """Show tick labels on the x axis at integers only: epochs, steps."""
    from matplotlib.ticker import MaxNLocator

    left, right = axes.get_xlim()
    if right - left <= 1:  # widen the axis of a single step, which would have fractions as labels
        axes.set_xlim(math.floor(left), math.ceil(right))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, steps=STEPS, integer=True))


def draw_curve(axes: Axes, across: Sequence[float], values: Sequence[float], **style: Any) -> None:
    """Draw a line; isolated points, which a line would not show, are drawn as markers."""
    up = np.asarray(values, dtype=float)
    known = np.pad(np.isfinite(up), 1)
    alone = known[1:-1] & ~known[:-2] & ~known[2:]
    style = {"linewidth": 1.6, **style}
    if alone.any():
        style |= {"marker": "o", "markersize": 4.5, "markevery": np.flatnonzero(alone).tolist()}
    axes.plot(across, up, **style)


def log_scale(axes: Axes) -> None:
    """Make the y axis logarithmic with few, plain labels; it stays linear if no value is positive.

    Values that are not positive are not shown on a logarithmic axis.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

    values = np.concatenate([np.asarray(line.get_ydata(), dtype=float) for line in axes.lines] or [np.zeros(0)])
    values = values[np.isfinite(values) & (values > 0)]
    if not values.size:
        return
    axes.set_yscale("log", nonpositive="mask")
    if values.max() == values.min():
        axes.set_ylim(values.min() / 2, values.max() * 2)
    low, high = axes.get_ylim()
    decades = math.log10(high / low)
    if decades < 1:
        axes.yaxis.set_major_locator(MaxNLocator(nbins=6, steps=STEPS))
    else:
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if decades < 3 else (1,), numticks=9))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_formatter(NullFormatter())


def legend_below(figure: Figure) -> None:
    """Draw one legend for the whole figure below it."""
    handles = {label: handle for axes in figure.axes for handle, label in zip(*axes.get_legend_handles_labels())}
    if handles:
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=3, frameon=False)


def render(figure: Figure, dark: bool = False) -> bytes:
    """Return the figure as PNG, on a white or a dark background."""
    from matplotlib.text import Text

    paper, ink = (DARK_PAPER, DARK_INK) if dark else (PAPER, INK)
    figure.set_facecolor(paper)
    for axes in figure.axes:
        axes.set_facecolor(paper)
        axes.tick_params(colors=ink, which="both")
        for spine in axes.spines.values():
            spine.set_edgecolor(ink)
    for text in figure.findobj(Text):
        text.set_color(ink)
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def render_light_and_dark(figure: Figure) -> tuple[bytes, bytes]:
    """Return the figure as PNG on a white and on a dark background, with the same layout, computed once."""
    light, layout = render(figure), figure.get_layout_engine()
    figure.set_layout_engine(None)  # reuse the layout of the first rendering, which takes half of its time
    try:
        return light, render(figure, dark=True)
    finally:
        figure.set_layout_engine(layout)


def learning_curves(
    curves: Mapping[str, Curve],
    *,
    steps: Curve | None = None,
    references: Mapping[str, float] | None = None,
    xlabel: str = "epoch",
    ylabel: str = "loss",
    title: str = "Loss",
) -> Figure:
    """Return a figure of curves on a logarithmic scale; steps are a thin line, and references are dashed."""
    figure = new_figure(6.0, 3.9)
    axes = figure.add_subplot()
    if steps is not None:
        draw_curve(axes, *steps, color="#888888", alpha=0.6, linewidth=0.7, label="each step")
    for index, (name, curve) in enumerate(curves.items()):
        draw_curve(axes, *curve, color=color(index), label=name)
    for index, (name, value) in enumerate((references or {}).items()):
        axes.axhline(value, color=color(index), linestyle="--", linewidth=1, label=name)
    label(axes, title, xlabel, ylabel)
    log_scale(axes)
    whole_numbers(axes)
    legend_below(figure)
    return figure


def predicted_against_actual(predicted: Array, actual: Array, *, unit: str = "") -> Figure:
    """Return a scatter plot of predicted over actual values, with the diagonal.

    Raises ImportError if Matplotlib is missing, ValueError if the shapes differ.
    """
    _same_shape(predicted, actual)
    figure = new_figure(5.0, 4.9)
    axes = figure.add_subplot()
    axes.scatter(actual, predicted, **POINTS)
    middle = float(actual.mean())
    axes.axline((middle, middle), slope=1, **GUIDE, label="predicted = actual")
    label(axes, "Predicted against actual", f"actual {unit}".strip(), f"predicted {unit}".strip())
    legend_below(figure)
    return figure


def residuals(predicted: Array, actual: Array, *, unit: str = "") -> Figure:
    """Return a figure of the residuals, actual minus predicted: over the predicted value, and their distribution.

    Raises ImportError if Matplotlib is missing, ValueError if the shapes differ.
    """
    _same_shape(predicted, actual)
    difference = actual - predicted
    figure = new_figure(5.0, 6.8)
    scatter, histogram = figure.subplots(2, 1)
    scatter.scatter(predicted, difference, **POINTS)
    scatter.axhline(0, **GUIDE)
    label(scatter, "Residuals", f"predicted {unit}".strip(), f"actual - predicted {unit}".strip())
    histogram.hist(difference, bins=60, color=COLORS[0])
    histogram.axvline(0, **GUIDE)
    label(histogram, "Distribution of the residuals", f"actual - predicted {unit}".strip(), "examples")
    return figure


def _same_shape(predicted: Array, actual: Array) -> None:
    if predicted.shape != actual.shape:
        raise ValueError(f"predicted has shape {predicted.shape}, actual {actual.shape}; they must be equal")
