"""Several processes do what one would: collectives, gradients, training, checkpoints."""

from __future__ import annotations

import json

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.training import Checkpoint
from tests.distributed.launch import needs_mpi, program, run

pytestmark = [pytest.mark.slow, needs_mpi]
pytest.importorskip("mpi4py")


# The command without plots, which take most of the time of a short run.
UNDRAWN = "import sys\nsys.modules['matplotlib'] = None\nfrom retrograd.cli import main\nsys.exit(main())"


def rights(lines):
    """How many ranks said so: their lines may run into each other."""
    return "".join(lines).count("right")


@pytest.mark.parametrize("count", [1, 2, 3])
def test_collectives_agree_with_numpy(count):
    assert rights(program(count, "collectives.py")) == count


@pytest.mark.parametrize("count", [1, 3])
def test_differentiable_collectives_agree_with_differences(count):
    assert rights(program(count, "gradients.py")) == count


@pytest.mark.parametrize("count", [1, 2, 3])
def test_gradients_are_means_over_ranks_and_checkpoints_are_those_of_one_process(count, tmp_path):
    path = tmp_path / "run.safetensors"
    assert rights(program(count, "parallel.py", path)) == count
    model = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 2)).double()
    groups = [{"params": list(model[0].parameters())}, {"params": list(model[2].parameters())}]
    optimizer = rg.optim.AdamW(groups, lr=1.0)
    assert Checkpoint(path, model=model, optimizer=optimizer).resume().step == 3
    assert len(optimizer.state) == 4 and optimizer.param_groups[1]["lr"] == 0.1


@pytest.mark.every(2)
@pytest.mark.parametrize("kind", ["transformer", "mlp"])
def test_any_number_of_processes_has_the_losses_of_one(kind, pytestconfig):
    counts = (1, 2, 3, 4) if pytestconfig.getoption("--long") else (1, 3)
    losses = [json.loads(program(count, "losses.py", kind)[0]) for count in counts]
    assert len(losses[0]) == 50 and losses[0][-1] < losses[0][0]
    for several in losses[1:]:
        np.testing.assert_allclose(several, losses[0], rtol=0, atol=1e-10)


def test_the_command_trains_and_resumes_with_any_number_of_processes(tmp_path):
    pytest.importorskip("safetensors")

    def train(count, *arguments):
        result = run(count, "-c", UNDRAWN, "train", "housing", "--model", "linear", *arguments)
        assert result.returncode == 0, result.stderr
        return result.stdout.splitlines()

    def losses(folder):
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        return [row["loss"] for row in rows if "loss" in row], [set(row) for row in rows]

    train(1, "--steps", "40", "--out", tmp_path / "one")
    lines = train(2, "--steps", "20", "--out", tmp_path / "several")
    assert len([line for line in lines if line.startswith("step ")]) == 10
    assert len([line for line in lines if line.startswith("report: ")]) == 1
    train(3, "--steps", "40", "--resume", tmp_path / "several")
    one, several = losses(tmp_path / "one"), losses(tmp_path / "several")
    np.testing.assert_allclose(several[0], one[0], rtol=1e-12)
    assert several[1][:20] == one[1][:20] and several[1][-1] == one[1][-1]
