"""Well-formed checkpoints of something else are refused in one sentence by generate, evaluate and train --resume."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest

from retrograd.cli import main
from retrograd.safetensors_format import read
from retrograd.serialization import write_file
from tests.helpers.small_sets import use_small_sets

pytest.importorskip("safetensors")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The checkpoint of a run of one step: its arrays and its structure."""
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        use_small_sets(patch)
        assert main(["train", "names", "--steps", "1", "--batch-size", "16", "--out", str(folder)]) == 0
    arrays, metadata = read(folder / "checkpoint.safetensors")
    return arrays, json.loads(metadata["retrograd"])


@pytest.fixture
def checkpoint(trained, tmp_path, monkeypatch, capsys):
    """Change the checkpoint by a function of its arrays and structure; what a command then says, and its exit code."""
    use_small_sets(monkeypatch)

    def changed(command, change):
        arrays, structure = dict(trained[0]), copy.deepcopy(trained[1])
        change(arrays, structure)
        path = tmp_path / "checkpoint.safetensors"
        write_file(path, arrays, structure)
        lines = {
            "generate": ["generate", str(path), "--length", "3"],
            "evaluate": ["evaluate", str(path)],
            "resume": ["train", "names", "--resume", str(path), "--steps", "2"],
        }
        capsys.readouterr()
        code = main(lines[command])
        return code, capsys.readouterr().err

    return changed


def refused(result):
    code, error = result
    assert code == 2 and error.startswith("retrograd: error: ") and error.count("\n") == 1, result
    return error


def weights(arrays):
    return sorted(name for name in arrays if name.startswith("model."))


@pytest.mark.slow
def test_the_checkpoint_itself_is_taken(checkpoint):
    for command in ("generate", "evaluate", "resume"):
        assert checkpoint(command, lambda arrays, structure: None)[0] == 0


@pytest.mark.parametrize("command", ["generate", "evaluate", "resume"])
def test_a_missing_weight_is_named(checkpoint, command):
    def without(arrays, structure):
        structure["parts"]["model"].pop("head.weight")

    assert "head.weight" in refused(checkpoint(command, without))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_text_is_not_drawn_from_weights_that_are_not_finite(checkpoint, value):
    def poisoned(arrays, structure):
        name = weights(arrays)[0]
        arrays[name] = np.full_like(arrays[name], value)

    assert "not finite" in refused(checkpoint("generate", poisoned))


CONFIGS = {
    "task": [3, None, [], "mnist", "nothing", ["names"]],
    "model": ["cnn", None, 1, []],
    "batch_size": ["64", None, 0, -1, 2**70, 1.5, []],
    "seed": [-1, None, "0", 2**64, 0.5],
    "lr": ["fast", -1.0, 0, [], {}],
    "optimizer": ["lbfgs", 3, None],
    "device": ["cuda:77", 3, None],
    "epochs": [-1, "many", [], 2**80],
    "threads": [0, "x", 10**9],
    "compile": ["yes", 1, None],
    "other": [1],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in CONFIGS for value in CONFIGS[name]])
def test_settings_that_no_run_has_are_refused(checkpoint, name, value):
    def change(arrays, structure):
        structure["run"]["metadata"]["config"][name] = value

    refused(checkpoint("resume", change))
    if name in ("task", "model", "batch_size", "seed") and value != "mnist":
        for command in ("generate", "evaluate"):
            refused(checkpoint(command, change))


@pytest.mark.parametrize("vocabulary", [None, 3, "", "ab", "aa\n", ["a"], {"a": 1}])
def test_a_vocabulary_that_fits_no_model_is_refused(checkpoint, vocabulary):
    def change(arrays, structure):
        structure["run"]["metadata"]["vocabulary"] = vocabulary

    refused(checkpoint("generate", change))


LOOPS = {
    "completed": [-1, "1", None, 7],
    "history": [3, [3], [{"step": "1"}], [{}], [{"step": 1, "train_loss": 0.5}], [{"step": 9}]],
    "seconds": [None, [1], ["a", "b"]],
    "means": [3, {"loss": 3}, {"loss": ["a", 1]}],
    "losses": [None, 3, {}],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in LOOPS for value in LOOPS[name]])
def test_a_loop_that_stands_nowhere_is_refused(checkpoint, name, value):
    def change(arrays, structure):
        structure["parts"]["loop"][name] = value

    refused(checkpoint("resume", change))


@pytest.mark.parametrize(("name", "value"), [("batches_given", -1), ("batches_given", None), ("epoch_start", [None])])
def test_a_loader_that_stands_nowhere_is_refused(checkpoint, name, value):
    def change(arrays, structure):
        structure["parts"]["loader"][name] = value

    refused(checkpoint("resume", change))


@pytest.mark.parametrize("part", ["model", "optimizer", "loader", "loop"])
@pytest.mark.parametrize("value", [None, 3, [], {}, {"a": 1}, "text"])
def test_a_part_of_another_kind_is_refused(checkpoint, part, value):
    def change(arrays, structure):
        structure["parts"][part] = value

    refused(checkpoint("resume", change))


def test_an_optimizer_without_its_settings_is_refused_at_its_first_step(checkpoint):
    def change(arrays, structure):
        for group in structure["parts"]["optimizer"]["param_groups"]:
            group.pop("betas", None)
            group["eps"] = "small"

    refused(checkpoint("resume", change))
