"""Each plot is a PNG file drawn without a screen; a missing Matplotlib is named with the extra that installs it."""

import importlib.util
import sys

import numpy as np
import pytest

from retrograd.cli import plots

needs_matplotlib = pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="needs matplotlib")


@needs_matplotlib
def test_plots_are_png_files(tmp_path):
    random = np.random.default_rng(0)
    actual = random.normal(size=50)
    predicted = actual + random.normal(size=50)
    plots.loss_curves(tmp_path / "loss.png", {"train": [3.0, 2.0], "test": [3.5, 2.5]}, references={"best": 1.5})
    plots.predicted_against_actual(tmp_path / "fit.png", predicted, actual)
    plots.residuals(tmp_path / "residuals.png", predicted, actual, unit="(m)")
    sizes = set()
    for name in ("loss.png", "fit.png", "residuals.png"):
        data = (tmp_path / name).read_bytes()
        assert data.startswith(b"\x89PNG\r\n\x1a\n")
        sizes.add(len(data))
    assert len(sizes) == 3


@needs_matplotlib
@pytest.mark.parametrize("draw", [plots.predicted_against_actual, plots.residuals])
def test_plots_refuse_different_shapes(tmp_path, draw):
    with pytest.raises(ValueError, match=r"\(2,\).*\(3,\)"):
        draw(tmp_path / "x.png", np.zeros(2), np.zeros(3))


def test_missing_matplotlib_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"retrograd\[plots\]"):
        plots.loss_curves(tmp_path / "x.png", {"train": [1.0]})
