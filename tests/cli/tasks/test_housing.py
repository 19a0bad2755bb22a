"""`retrograd train housing`: gradients reach the closed-form solution; every file is written; seeds repeat."""

import csv
import importlib.util
import json

import numpy as np
import pytest

import retrograd as rg
from retrograd.cli import main
from retrograd.cli.tasks import housing
from retrograd.cli.tasks.base import Split
from retrograd.cli.training.checkpoints import read_run
from retrograd.training import plots

NAMES = ("Linear", "least ")


def test_split_is_80_20_and_standardized_by_the_training_rows():
    x = np.arange(300.0).reshape(100, 3) ** 2
    train, test = housing.standardized_split(x, x[:, :1], np.random.default_rng(0))
    assert train.inputs.shape == (80, 3) and test.inputs.shape == (20, 3)
    np.testing.assert_allclose(train.inputs.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(train.inputs.std(axis=0), 1)
    assert abs(test.inputs.mean()) > 1e-3
    assert sorted([*train.targets[:, 0], *test.targets[:, 0]]) == sorted(x[:, 0])


def test_least_squares_has_no_gradient_left():
    random = np.random.default_rng(0)
    x = random.normal(size=(400, 3)) * [1.0, 5.0, 0.1]
    split = Split("train", x, x @ [[1.0], [-2.0], [3.0]] + 0.5 + 0.01 * random.normal(size=(400, 1)))
    residual = housing.least_squares(split)(split.inputs) - split.targets
    np.testing.assert_allclose(split.inputs.T @ residual, 0, atol=1e-9)
    assert residual.sum() == pytest.approx(0, abs=1e-9)


def test_errors_are_mse_and_r2():
    split = Split("train", np.ones((2, 1)), np.array([[1.0], [3.0]]))
    assert housing.errors(lambda x: 2 * x, split) == (1.0, 0.0)


def test_the_regression_starts_at_zero_in_float64():
    model = housing.linear(8)
    assert model.weight.dtype == rg.float64
    assert not any(parameter.detach().numpy().any() for parameter in model.parameters())


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("housing")
    code = main(["train", "housing", "--epochs", "3", "--out", str(folder)])
    return code, folder


@pytest.mark.slow
def test_run_writes_metrics_plots_and_report(finished_run):
    code, folder = finished_run
    assert code == 0
    with (folder / "metrics.csv").open(newline="") as file:
        rows = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    assert [row["epoch"] for row in rows] == [1, 2, 3]
    losses = [row["train_loss"] for row in rows]
    assert losses == sorted(losses, reverse=True)
    report = (folder / "report.html").read_text()
    assert "MedInc" in report and "batch_size" in report and "least squares" in report
    drawn = importlib.util.find_spec("matplotlib") is not None
    names = {path.name for path in folder.glob("*.png")}
    assert names == ({"loss.png", "predicted.png", "residuals.png"} if drawn else set())
    assert report.count("data:image/png;base64,") == (6 if drawn else 0)  # light and dark


def test_run_leaves_a_checkpoint_as_every_task_does(finished_run):
    saved = read_run(finished_run[1])
    assert saved.step == 3 * 258
    assert saved.weights["weight"].shape == (1, 8)


@pytest.mark.slow
def test_the_regression_comes_to_the_closed_form_solution(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(plots, "available", lambda: False)  # drawing takes most of the time
    line = "train housing --epochs 30 --batch-size 256 --lr 0.01"
    assert main([*line.split(), "--out", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {line[:13].strip(): [float(cell) for cell in line[13:].split()] for line in lines if line[:6] in NAMES}
    np.testing.assert_allclose(rows["Linear"][:2], rows["least squares"][:2], atol=0.01)


@pytest.mark.slow
def test_run_repeats_from_its_seed(finished_run, tmp_path, monkeypatch):
    monkeypatch.setattr(plots, "available", lambda: False)  # drawing takes most of the time
    main(["train", "housing", "--steps", "1", "--out", str(tmp_path / "same")])
    main(["train", "housing", "--steps", "1", "--seed", "1", "--out", str(tmp_path / "other")])

    def first(folder):
        return json.loads((folder / "metrics.jsonl").read_text().splitlines()[0])["loss"]

    assert first(tmp_path / "same") == first(finished_run[1])
    assert first(tmp_path / "other") != first(finished_run[1])


def test_divergence_is_told_with_its_remedy(tmp_path, capsys):
    assert main(["train", "housing", "--epochs", "3", "--lr", "1", "--out", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert "smaller --lr" in captured.err
    assert "Traceback" not in captured.err


def test_without_matplotlib_the_run_says_what_to_install(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(plots, "available", lambda: False)
    assert main(["train", "housing", "--epochs", "1", "--out", str(tmp_path)]) == 0
    assert "retrograd[plots]" in capsys.readouterr().out
    assert (tmp_path / "report.html").exists()
    assert not list(tmp_path.glob("*.png"))


def test_the_report_says_which_rows_decide_between_sgd_and_least_squares():
    random = np.random.default_rng(0)
    x = random.normal(size=(500, 8))
    y = x @ np.ones((8, 1)) + random.normal(size=(500, 1))
    task = object.__new__(housing.Housing)
    far = np.vstack([x[400:], np.full((1, 8), 100.0)])
    task.test = Split("test", far, np.vstack([y[400:], [[400.0]]]))
    exact = housing.LeastSquares(np.append(np.ones(8), 0.0)[:, None])
    (section,) = task.why(lambda inputs: 0.9 * exact(inputs), exact)  # shorter weights
    assert "3 of the 101 test rows, up to 100 standard deviations" in section.text and "Without these 3" in section.text
    assert task.why(exact, exact) == []
