"""The pictures of training: PNG without a screen, light or dark, with whole numbers and no label on another."""

import importlib.util
import sys

import numpy as np
import pytest

from retrograd.training import plots

needs_matplotlib = pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="needs matplotlib")


@pytest.mark.slow
@needs_matplotlib
def test_figures_are_rendered_as_png_light_and_dark():
    random = np.random.default_rng(0)
    actual = random.normal(size=50)
    predicted = actual + random.normal(size=50)
    figures = [
        plots.learning_curves({"train": ([1, 2], [3.0, 2.0]), "test": ([1, 2], [3.5, 2.5])}, references={"best": 1.5}),
        plots.predicted_against_actual(predicted, actual),
        plots.residuals(predicted, actual, unit="(m)"),
    ]
    pictures = {plots.render(figure, dark=dark) for figure in figures for dark in (False, True)}
    assert len(pictures) == 6
    assert all(picture.startswith(b"\x89PNG\r\n\x1a\n") for picture in pictures)


@needs_matplotlib
@pytest.mark.parametrize("epochs", [1, 2, 7, 30, 1000])
def test_epochs_are_whole_numbers_on_the_axis(epochs):
    across = list(range(1, epochs + 1))
    figure = plots.learning_curves({"train": (across, [1 / epoch for epoch in across])})
    plots.render(figure)
    left, right = figure.axes[0].get_xlim()
    ticks = [tick for tick in figure.axes[0].get_xticks() if left <= tick <= right]
    assert ticks and all(tick == int(tick) for tick in ticks)


@needs_matplotlib
def test_a_single_record_is_drawn_as_a_point():
    figure = plots.learning_curves({"train": ([1], [0.5])})
    before = plots.render(figure)
    (line,) = figure.axes[0].lines
    assert line.get_marker() == "o"
    line.set_marker("")
    assert plots.render(figure) != before


@needs_matplotlib
@pytest.mark.parametrize("values", [[1.0, 0.97], [2.3, 0.2], [300.0, 1e-3], [1e9, 1e-9], [0.5, 0.5], [1.0, 0.0]])
def test_labels_of_a_logarithmic_axis_do_not_collide(values):
    figure = plots.learning_curves({"train": ([1, 2], values)})
    plots.render(figure)
    axes = figure.axes[0]
    low, high = axes.get_ylim()
    labels = [label for label in axes.get_yticklabels(which="both") if low <= label.get_position()[1] <= high]
    boxes = sorted((label.get_window_extent() for label in labels if label.get_text()), key=lambda box: box.y0)
    assert 2 <= len(boxes) <= 12 or values[0] == values[1]
    assert all(below.y1 <= above.y0 for below, above in zip(boxes, boxes[1:]))


@needs_matplotlib
def test_a_logarithmic_axis_has_no_values_below_zero():
    figure = plots.learning_curves({"train": ([1, 2, 3], [0.5, 0.0, 1e-4])})
    plots.render(figure)
    assert figure.axes[0].get_yscale() == "log"
    assert figure.axes[0].get_ylim()[0] > 0
    figure = plots.learning_curves({"train": ([1, 2], [0.0, 0.0])})
    plots.render(figure)
    assert figure.axes[0].get_yscale() == "linear"


@needs_matplotlib
def test_the_legend_stands_beside_the_curves():
    figure = plots.learning_curves({"train": ([1, 2], [3.0, 2.0])}, steps=([1, 1.5, 2], [4.0, 3.0, 2.0]))
    plots.render(figure)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["each step", "train"]
    assert legend.get_window_extent().y1 <= figure.axes[0].get_window_extent().y0


@needs_matplotlib
@pytest.mark.parametrize("draw", [plots.predicted_against_actual, plots.residuals])
def test_plots_refuse_different_shapes(draw):
    with pytest.raises(ValueError, match=r"\(2,\).*\(3,\)"):
        draw(np.zeros(2), np.zeros(3))


def test_missing_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"retrograd\[plots\]"):
        plots.learning_curves({"train": ([1], [1.0])})
