"""`retrograd train housing`: gradients reach the closed-form solution; every file is written; seeds repeat."""

import argparse
import csv
import importlib.util
import json

import numpy as np
import pytest

from retrograd.cli import housing, main, plots


def synthetic_split(seed=0, rows=400):
    """Rows of a known linear model with noise: y = x @ (1, -2, 3) + 0.5."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, 3)) * [1.0, 5.0, 0.1] + [0.0, 10.0, -3.0]
    y = x @ [1.0, -2.0, 3.0] + 0.5 + 0.01 * random.normal(size=rows)
    return housing.standardized_split(x, y, random)


def options(**changes):
    return argparse.Namespace(**{"epochs": 30, "batch_size": 16, "lr": 0.02, "seed": 0, **changes})


def test_split_is_80_20_and_standardized_by_the_training_rows():
    x = np.arange(300.0).reshape(100, 3) ** 2
    split = housing.standardized_split(x, x[:, 0], np.random.default_rng(0))
    assert split.x_train.shape == (80, 3) and split.x_test.shape == (20, 3)
    np.testing.assert_allclose(split.x_train.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(split.x_train.std(axis=0), 1)
    assert abs(split.x_test.mean()) > 1e-3
    assert sorted([*split.y_train, *split.y_test]) == sorted(x[:, 0])


def test_least_squares_has_no_gradient_left():
    split = synthetic_split()
    exact = housing.least_squares(split.x_train, split.y_train)
    residual = exact(split.x_train) - split.y_train
    np.testing.assert_allclose(split.x_train.T @ residual, 0, atol=1e-9)
    assert residual.sum() == pytest.approx(0, abs=1e-9)


def test_descent_reaches_the_closed_form_solution():
    split = synthetic_split()
    exact = housing.least_squares(split.x_train, split.y_train)
    *_, model = housing.descend(split, options(), np.random.default_rng(1))
    np.testing.assert_allclose(model.weight, exact.weight, atol=2e-3)
    assert model.bias == pytest.approx(exact.bias, abs=2e-3)


def test_one_full_batch_step_is_the_gradient_by_hand():
    split = synthetic_split()
    n = len(split.y_train)
    step = options(epochs=1, batch_size=n, lr=0.1)
    (model,) = housing.descend(split, step, np.random.default_rng(1))
    np.testing.assert_allclose(model.weight, 0.1 * 2 / n * split.x_train.T @ split.y_train, rtol=1e-12)
    assert model.bias == pytest.approx(0.1 * 2 * split.y_train.mean(), rel=1e-12)


def test_evaluate_is_mse_and_r2():
    split = housing.Split(np.ones((2, 1)), np.array([1.0, 3.0]), np.zeros((2, 1)), np.array([0.0, 2.0]))
    figures = housing.evaluate(housing.Linear(np.array([2.0]), 0.0), split)
    assert figures == {"train_mse": 1.0, "train_r2": 0.0, "test_mse": 2.0, "test_r2": -1.0}


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("housing")
    code = main(["train", "housing", "--epochs", "3", "--out", str(folder)])
    return code, folder


def test_run_writes_metrics_plots_and_report(finished_run):
    code, folder = finished_run
    assert code == 0
    with (folder / "metrics.csv").open(newline="") as file:
        from_csv = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]
    from_json = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert from_csv == from_json
    assert [row["epoch"] for row in from_csv] == [1, 2, 3]
    losses = [row["train_mse"] for row in from_csv]
    assert losses == sorted(losses, reverse=True)
    report = (folder / "report.html").read_text()
    assert "MedInc" in report and "batch_size" in report
    drawn = importlib.util.find_spec("matplotlib") is not None
    assert report.count("data:image/png;base64,") == len(list(folder.glob("*.png"))) == (3 if drawn else 0)


def test_run_repeats_from_its_seed(finished_run, tmp_path, capsys):
    main(["train", "housing", "--epochs", "1", "--out", str(tmp_path / "same")])
    main(["train", "housing", "--epochs", "1", "--seed", "1", "--out", str(tmp_path / "other")])

    def first(folder):
        return json.loads((folder / "metrics.jsonl").read_text().splitlines()[0])["train_mse"]

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
