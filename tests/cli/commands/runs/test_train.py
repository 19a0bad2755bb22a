"""`retrograd train`, `generate` and `evaluate` in reduced form: files, resuming bit for bit, Ctrl-C, both engines."""

import csv
import json
import os
import signal
import sys
from importlib.util import find_spec

import numpy as np
import pytest

import retrograd as rg
from retrograd import data
from retrograd.cli import main, tasks
from retrograd.cli.training.checkpoints import FILE, read_run
from retrograd.cli.training.recipes import RECIPES, Recipe
from retrograd.cli.training.trainers import EngineTrainer, ManualTrainer
from retrograd.data import ImageData
from retrograd.models import MLP, CharTransformer, NamesLSTM, generate
from retrograd.training import Loop, plots
from tests.helpers.small_sets import use_small_sets

pytest.importorskip("safetensors")
pytestmark = pytest.mark.slow
needs_data = pytest.mark.skipif("RETROGRAD_DATA" not in os.environ, reason="RETROGRAD_DATA names no data folder")


@pytest.fixture(autouse=True)
def without_plots(monkeypatch):
    """Drawing takes most of the time of short runs; some of them turn it on again."""
    monkeypatch.setattr(plots, "available", lambda: False)


@pytest.fixture
def small_data(monkeypatch):
    use_small_sets(monkeypatch)
    monkeypatch.setattr(tasks.images, "HIDDEN", (64, 64, 64))


RUNS = {
    "mnist-cnn": "mnist --batch-size 32 --steps 10",
    "mnist-mlp": "mnist --model mlp --batch-size 32 --steps 10",
    "mnist-manual": "mnist --engine manual --batch-size 32 --steps 10",
    "fashion": "fashion --batch-size 64 --steps 5",
    "shakespeare": "shakespeare --batch-size 4 --steps 6",
    "names-lstm": "names --batch-size 16 --steps 12",
    "names-transformer": "names --model transformer --batch-size 16 --steps 12",
    "housing": "housing --batch-size 512 --epochs 2",
    "housing-mlp": "housing --model mlp --batch-size 512 --epochs 2",
}


@pytest.mark.parametrize("line", RUNS.values(), ids=RUNS)
def test_run_leaves_metrics_checkpoint_weights_and_report(small_data, tmp_path, capsys, line, monkeypatch):
    draws = line == RUNS["mnist-cnn"] and find_spec("matplotlib") is not None
    monkeypatch.setattr(plots, "available", lambda: draws)
    assert main(["train", *line.split(), "--out", str(tmp_path)]) == 0
    steps, rows = metrics_of(tmp_path)
    with (tmp_path / "metrics.csv").open(newline="") as file:
        assert [{k: float(v) for k, v in row.items()} for row in csv.DictReader(file)] == rows
    assert all(np.isfinite(value) for row in rows for value in row.values())
    saved = read_run(tmp_path)
    assert [step["step"] for step in steps] == list(range(1, saved.step + 1))
    assert saved.step == rows[-1]["step"]
    loop = rg.load(tmp_path / FILE)["parts"]["loop"]
    assert loop["history"] == rows
    assert loop["losses"].tolist() == [step["loss"] for step in steps]
    assert (tmp_path / "weights.safetensors").exists()
    report = (tmp_path / "report.html").read_text()
    parameters = sum(tensor.numel() for tensor in saved.weights.values())
    for text in ("Results", "parameters", "steps"):
        assert text in report
    if saved.config["model"] != "cnn":  # whose running means are no parameters
        assert f"{parameters - tied(saved.weights):,}" in report
    part = "validation" if saved.vocabulary else "test"
    assert ("Samples" in report) == bool(saved.vocabulary)
    assert ("Confusion matrix" in report and "Wrong answers" in report) == (line.split()[0] in ("mnist", "fashion"))

    assert (tmp_path / "error.png").exists() == draws

    capsys.readouterr()
    assert main(["evaluate", str(tmp_path)]) == 0
    figures = dict(line.rsplit(maxsplit=1) for line in capsys.readouterr().out.splitlines()[2:])
    assert float(figures[f"{part} loss"]) == pytest.approx(rows[-1][f"{part}_loss"], abs=6e-5)


def metrics_of(folder):
    """The rows of single steps, and of evaluations."""
    lines = [json.loads(text) for text in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if "loss" in line], [line for line in lines if "loss" not in line]


def tied(weights):
    """Numbers that stand in a state dict twice."""
    return weights["head.weight"].numel() if "position.weight" in weights else 0


@pytest.mark.parametrize("run", ["mnist-manual", "shakespeare", "names-lstm", "housing"])
def test_resumed_run_is_bit_identical(small_data, tmp_path, run):
    line = ["train", *RUNS[run].split()]
    whole, halves = tmp_path / "whole", tmp_path / "halves"
    assert main([*line, "--out", str(whole)]) == 0
    # Inside an epoch, so that sums and the order of the data must go on, too.
    with pytest.MonkeyPatch.context() as patch:
        interrupt_after(patch, 3)
        assert main([*line, "--out", str(halves)]) == 130
    assert read_run(halves).step == 3
    assert main(["train", line[1], "--resume", str(halves)]) == 0
    one, other = rg.load(whole / FILE), rg.load(halves / FILE)
    assert one["run"]["step"] == other["run"]["step"]
    assert_identical(one["run"]["random"], other["run"]["random"], "random")
    clocks = [part["loop"].pop("seconds") for part in (one["parts"], other["parts"])]
    assert all(len(clock) == 2 for clock in clocks)
    for row in one["parts"]["loop"]["history"] + other["parts"]["loop"]["history"]:
        assert row.pop("seconds") > 0 and row.pop("examples_per_second") > 0
    assert_identical(one["parts"], other["parts"], "parts")
    assert metrics_of(whole)[0] == metrics_of(halves)[0]


def interrupt_after(patch, steps):
    """Send this process SIGINT in the step of that number."""
    train = Loop._train

    def interrupted(self, batch):
        if self.completed == steps - 1:
            signal.raise_signal(signal.SIGINT)
        return train(self, batch)

    patch.setattr(Loop, "_train", interrupted)


def assert_identical(a, b, where):
    if isinstance(a, dict):
        assert a.keys() == b.keys(), where
        for key in a:
            assert_identical(a[key], b[key], f"{where}.{key}")
    elif isinstance(a, np.ndarray | rg.Tensor):
        a, b = np.asarray(a), np.asarray(b)
        assert a.dtype == b.dtype and np.array_equal(a, b), where
    else:
        assert a == b, where


def test_manual_layers_and_engine_give_the_same_losses(small_data):
    recipe = RECIPES["mnist"]["mlp"]
    losses = []
    for make in (EngineTrainer, ManualTrainer):
        task = tasks.make_task({"task": "mnist", "model": "mlp", "batch_size": 32, "seed": 3})
        trainer = make(task, recipe)
        losses.append([trainer.step(x.numpy(), y.numpy(), 1.0)[0] for _ in range(2) for x, y in task.train])
    assert len(losses[0]) == 16
    assert losses[0][-1] < losses[0][0] / 2
    np.testing.assert_allclose(losses[0][:3], losses[1][:3], rtol=2e-6)
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)


@needs_data
def test_mnist_mlp_learns_in_twenty_steps(tmp_path, monkeypatch):
    digits = data.mnist()
    parts = digits.train_images[:12_000], digits.train_labels[:12_000], digits.test_images[:2000]
    monkeypatch.setattr(data, "mnist", lambda: ImageData(*parts, digits.test_labels[:2000]))
    assert main(["train", "mnist", "--engine", "manual", "--steps", "20", "--out", str(tmp_path)]) == 0
    assert metrics_of(tmp_path)[1][-1]["test_accuracy"] > 0.8


def test_housing_mlp_beats_linear_regression(tmp_path):
    assert main(["train", "housing", "--model", "mlp", "--epochs", "4", "--out", str(tmp_path)]) == 0
    assert metrics_of(tmp_path)[1][-1]["test_r2"] > 0.72


def test_config_file_gives_settings_and_the_command_line_overrules_it(small_data, tmp_path):
    config = tmp_path / "run.toml"
    config.write_text(f'model = "mlp"\nbatch-size = 64\nsteps = 2\nlr = 1e-3\nout = "{tmp_path / "run"}"\n')
    assert main(["train", "mnist", "--config", str(config), "--steps", "3"]) == 0
    saved = read_run(tmp_path / "run")
    assert saved.step == 3
    assert (saved.config["batch_size"], saved.config["lr"]) == (64, 1e-3)


def test_generated_text_begins_with_the_prompt_and_repeats_from_its_seed(small_data, tmp_path, capsys):
    main(["train", "shakespeare", "--batch-size", "4", "--steps", "4", "--out", str(tmp_path)])
    texts = []
    for seed in ("1", "1", "2"):
        capsys.readouterr()
        line = ["generate", str(tmp_path), "--prompt", "to be", "--length", "80", "--top-k", "5", "--seed", seed]
        assert main(line) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0].startswith("to be") and len(texts[0]) > 40
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("train mnist --model rnn", "rnn"),
        ("train mnist --epochs 1 --steps 1", "not both"),
        ("train mnist --engine manual --model cnn", "--model mlp"),
        ("train mnist --engine manual --optimizer adam --batch-size 8", "adam"),
        ("train mnist --config missing.toml", "missing.toml"),
        ("train mnist --resume nowhere", "nowhere"),
        ("train mnist --device tpu", "tpu"),
        ("train mnist --batch-size 100000", "--batch-size"),
        ("train mnist --device cpu:1", "'cpu'"),
        ("train shakespeare --batch-size 100000", "--batch-size"),
        ("train housing --batch-size 99999999999999999999", "--batch-size"),
        ("train housing --seed 18446744073709551616", "--seed"),
        ("train housing --steps 9999999999999999999999", "--steps"),
        ("train housing --threads 1000000000", "--threads"),
        ("generate nowhere", "nowhere"),
        ("generate x --temperature -1", "--temperature"),
        ("evaluate nowhere", "nowhere"),
    ],
)
def test_mistakes_are_one_line(small_data, tmp_path, monkeypatch, capsys, text, names):
    monkeypatch.chdir(tmp_path)
    assert main(text.split()) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and names in error


@pytest.mark.parametrize(
    ("content", "names"),
    [("lr = ", "TOML"), ("rate = 1", "rate"), ("lr = -1", "lr"), ('model = "rnn"', "rnn"), ("tensorboard = 3", "true")],
)
def test_bad_config_is_one_line(tmp_path, capsys, content, names):
    (tmp_path / "run.toml").write_text(content)
    assert main(["train", "mnist", "--config", str(tmp_path / "run.toml")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and names in error


def test_missing_data_is_one_line(monkeypatch, tmp_path, capsys):
    def unavailable():
        raise data.DataUnavailable("put mnist/train-images-idx3-ubyte there")

    monkeypatch.setattr(data, "mnist", unavailable)
    assert main(["train", "mnist", "--out", str(tmp_path)]) == 2
    assert "train-images" in capsys.readouterr().err


def test_resume_refuses_another_task_and_changed_settings(small_data, tmp_path, capsys):
    main(["train", "mnist", "--model", "mlp", "--batch-size", "64", "--steps", "2", "--out", str(tmp_path)])
    for line in ("fashion", "mnist --batch-size 32", "mnist"):
        capsys.readouterr()
        assert main(["train", *line.split(), "--resume", str(tmp_path)]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert main(["train", "mnist", "--resume", str(tmp_path), "--steps", "4"]) == 0
    assert read_run(tmp_path).step == 4


def test_divergence_is_one_line(tmp_path, capsys):
    line = "train housing --model mlp --optimizer sgd --lr 1e6 --epochs 1"
    assert main([*line.split(), "--out", str(tmp_path)]) == 2
    assert "smaller --lr" in capsys.readouterr().err


def test_a_damaged_checkpoint_and_another_file_are_told(small_data, tmp_path, capsys):
    main(["train", "housing", "--steps", "2", "--out", str(tmp_path)])
    (tmp_path / FILE).write_bytes((tmp_path / FILE).read_bytes()[:-5])
    for line in (["evaluate", str(tmp_path)], ["train", "housing", "--resume", str(tmp_path)]):
        capsys.readouterr()
        assert main(line) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and "damaged" in error
    assert main(["evaluate", str(tmp_path / "weights.safetensors")]) == 2
    assert "not a checkpoint of 'retrograd train'" in capsys.readouterr().err


def test_tensorboard_writes_event_files(small_data, tmp_path):
    pytest.importorskip("tensorboardX")
    line = "train mnist --model mlp --batch-size 64 --steps 2 --tensorboard"
    assert main([*line.split(), "--out", str(tmp_path)]) == 0
    assert list((tmp_path / "tensorboard").glob("*tfevents*"))


def test_tensorboard_without_its_package_is_one_line(small_data, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    assert (
        main(["train", "mnist", "--model", "mlp", "--batch-size", "64", "--tensorboard", "--out", str(tmp_path)]) == 2
    )
    assert "retrograd[tensorboard]" in capsys.readouterr().err


def test_rate_rises_then_falls():
    recipe = Recipe(epochs=1, batch_size=1, lr=1.0, warmup=0.1, floor=0.1)
    rates = [recipe.rate(step, 1000) for step in range(1000)]
    assert rates.index(max(rates)) == 100 and max(rates) == 1.0
    assert rates[-1] == pytest.approx(0.1, abs=1e-4)
    linear = Recipe(epochs=1, batch_size=1, lr=1.0, decay="linear")
    assert [linear.rate(step, 4) for step in range(4)] == [1.0, 0.75, 0.5, 0.25]


def test_shifted_images_are_the_images_moved():
    image = np.zeros((50, 1, 28, 28), np.float32)
    image[:, :, 14, 14] = 1.0
    moved = tasks.images.shifted(image)
    places = np.argwhere(moved[:, 0] == 1.0)
    assert len(places) == 50
    assert set(np.abs(places[:, 1:] - 14).ravel()) == {0, 1, 2}


@pytest.mark.parametrize("model", [CharTransformer(9, context=6, layers=2, heads=2, channels=8), NamesLSTM(9)])
def test_language_models_do_not_see_what_comes_after(model):
    text = rg.randint(0, 9, (2, 6))
    changed = text.clone()
    changed[:, 4:] = (changed[:, 4:] + 1) % 9
    before, after = model(text), model(changed)
    np.testing.assert_allclose(before[:, :4].detach().numpy(), after[:, :4].detach().numpy(), rtol=1e-5, atol=1e-6)
    assert not np.allclose(before[:, 4:].detach().numpy(), after[:, 4:].detach().numpy())


def test_a_long_text_is_evaluated_on_evenly_spaced_pieces_of_its_last_tenth():
    text = "".join(np.random.default_rng(0).choice(list("ab\n"), 2_000_000))
    passages = tasks.language.Passages(text, "transformer", 4, rg.Generator().manual_seed(0))
    inputs, targets = passages.test.inputs, passages.test.targets
    validation = tasks.language.encode(text[1_800_000:], passages.vocabulary)
    assert inputs.shape == targets.shape == (tasks.language.EVALUATED, tasks.language.CONTEXT)
    assert (inputs[:, 1:] == targets[:, :-1]).all()
    assert (inputs[0] == validation[:64]).all()
    assert (inputs[1024] == validation[64 * (3124 // 2) :][:64]).all()


def test_transformer_ties_its_embeddings_and_starts_near_uniform():
    model = CharTransformer(65)
    assert model.head.weight is model.token.weight
    assert sum(p.numel() for p in model.parameters()) == 65 * 128 + 64 * 128 + 4 * (12 * 128**2 + 2 * 128) + 128
    logits = model(rg.randint(0, 65, (2, 64)))
    loss = rg.nn.functional.cross_entropy(logits.flatten(0, 1), rg.randint(0, 65, (128,))).item()
    assert loss == pytest.approx(np.log(65), abs=0.1)


def test_generate_at_temperature_zero_takes_the_likeliest_and_stops():
    class Counts:
        """The next number is the likeliest."""

        context, training = 4, False

        def parameters(self):
            return iter([rg.zeros(1)])

        def eval(self):
            return self

        def train(self, mode):
            return self

        def __call__(self, text):
            return rg.nn.functional.one_hot((text + 1) % 7, 7).float()

    assert generate(Counts(), [2], 10, temperature=0) == [3, 4, 5, 6, 0, 1, 2, 3, 4, 5]
    assert generate(Counts(), [2], 10, top_k=1, stop=5) == [3, 4, 5]


def test_mlp_needs_two_sizes():
    with pytest.raises(ValueError, match="at least two"):
        MLP([3])


def test_a_watched_run_writes_its_page_and_prints_alarms(small_data, tmp_path, capsys):
    line = "train mnist --model mlp --batch-size 64 --steps 30 --watch --lr 1e-4"
    assert main([*line.split(), "--out", str(tmp_path)]) == 0
    assert "watched: no alarms" in capsys.readouterr().out
    page = (tmp_path / "watch.html").read_text()
    assert '"steps":[0,10,20]' in page and "0.weight" in page or "1.weight" in page
    line = "train mnist --model mlp --optimizer sgd --batch-size 64 --steps 30 --watch --lr 50"
    main([*line.split(), "--out", str(tmp_path)])
    assert "alarm at step" in capsys.readouterr().out
    assert main(["train", "mnist", "--engine", "manual", "--watch", "--out", str(tmp_path)]) == 2
    assert "--engine manual" in capsys.readouterr().err
