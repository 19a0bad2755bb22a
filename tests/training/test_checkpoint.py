"""Checkpoints: bit-identical resuming, damaged files, and kills while they are written."""

import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import retrograd as rg
from retrograd.training import Checkpoint, CheckpointError

pytest.importorskip("safetensors")

PROGRAM = Path(__file__).with_name("train_program.py")
_spec = importlib.util.spec_from_file_location("train_program", PROGRAM)
train_program = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(train_program)


@pytest.fixture(autouse=True)
def keep_random_state():
    state = rg.get_rng_state()
    yield
    rg.set_rng_state(state)


def losses_of(folder, steps, **options):
    losses = {}
    run = train_program.Run(folder)
    run.train(steps, losses.__setitem__, **options)
    return losses, run


@pytest.mark.parametrize("stop", [1, 6, 7, 8, 13, 20])  # inside an epoch of 7 batches, and at its ends
def test_resuming_gives_the_losses_of_an_uninterrupted_run(tmp_path, stop):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    wanted, whole = losses_of(tmp_path / "a", 30, save_at=lambda step: False)
    first, _ = losses_of(tmp_path / "b", stop, save_at=lambda step: step == stop)
    rg.rand(17)  # what happens in between does not matter
    second, resumed = losses_of(tmp_path / "b", 30, save_at=lambda step: False)
    assert {**first, **second} == wanted
    assert sorted(second) == list(range(stop + 1, 31))
    for name, value in whole.model.state_dict().items():
        np.testing.assert_array_equal(resumed.model.state_dict()[name].numpy(), value.numpy())
        if name in whole.ema.averages:
            np.testing.assert_array_equal(resumed.ema.averages[name].numpy(), whole.ema.averages[name].numpy())
    assert resumed.stopping.best == whole.stopping.best


def start(folder, steps, width):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(rg.__file__).parents[1]), environment.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), str(folder), str(steps), str(width)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def unfinished(folder):
    return [name for name in os.listdir(folder) if name.endswith(".tmp")]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="kill -9")
def test_a_kill_at_any_moment_leaves_the_last_good_checkpoint(tmp_path):
    kills = int(os.environ.get("RETROGRAD_KILLS", "12"))
    random = np.random.default_rng(0)
    printed = {}
    seen = 0
    caught_writing = 0
    for kill in range(kills):
        process = start(tmp_path, 10**6, 2000)  # at this size most of the time is spent in writing
        try:
            # The first line means: resumed, trained a step, saved it.
            lines = [process.stdout.readline()]
            assert lines[0], process.stderr.read()
            time.sleep(random.uniform(0, 0.1))
            if kill % 2:  # while a file is being written
                deadline = time.monotonic() + 10
                while not unfinished(tmp_path) and time.monotonic() < deadline:
                    pass
                time.sleep(random.uniform(0, 0.002))
        finally:
            process.send_signal(signal.SIGKILL)
            lines += process.communicate()[0].splitlines()
        for line in lines:
            if line.endswith("\n") or line is not lines[-1]:
                step, _, loss = line.strip().partition(" ")
                assert printed.setdefault(int(step), loss) == loss  # a step that is trained again has the same loss
        caught_writing += bool(unfinished(tmp_path))
        run = train_program.Run(tmp_path, width=2000)
        progress = run.checkpoint.resume()
        assert progress.step >= max(seen, *printed)  # what was reported saved is there
        seen = progress.step
        assert len(unfinished(tmp_path)) <= 1  # each run removed what the one before it left
    assert caught_writing > 0
    run.checkpoint.save(*progress)
    assert not unfinished(tmp_path)
    print(f"{kills} kills, {caught_writing} of them while a file was being written; every checkpoint was whole")


def small(folder, width=3):
    model = rg.nn.Linear(width, 1)
    optimizer = rg.optim.Adam(model.parameters())
    model(rg.ones(1, width)).sum().backward()
    optimizer.step()
    return model, Checkpoint(Path(folder) / "run.safetensors", model=model, optimizer=optimizer)


def test_every_truncation_and_damage_is_refused_and_changes_nothing(tmp_path):
    model, checkpoint = small(tmp_path)
    checkpoint.save(1)
    data = checkpoint.path.read_bytes()
    before = model.weight.tolist()
    random = np.random.default_rng(0)
    for length in [*range(0, len(data), 97), len(data) - 1]:
        checkpoint.path.write_bytes(data[:length])
        with pytest.raises(CheckpointError, match="run.safetensors"):
            checkpoint.resume()
    header = int.from_bytes(data[:8], "little") + 8
    for position in random.integers(header, len(data), 50):
        checkpoint.path.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        with pytest.raises(CheckpointError, match="checksum"):
            checkpoint.resume()
    assert model.weight.tolist() == before
    checkpoint.path.write_bytes(data)
    assert checkpoint.resume().step == 1


def test_a_damaged_header_is_never_taken_for_good(tmp_path):
    model, checkpoint = small(tmp_path)
    checkpoint.save(7, {"note": "text"})
    data = checkpoint.path.read_bytes()
    good = {name: value.tolist() for name, value in model.state_dict().items()}
    header = int.from_bytes(data[:8], "little") + 8
    for position in range(8, header):
        checkpoint.path.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        try:
            progress = checkpoint.resume()
        except CheckpointError:
            continue
        # A change that has no meaning, such as in the padding or the format's name.
        assert progress == (7, {"note": "text"})
        assert {name: value.tolist() for name, value in model.state_dict().items()} == good


def test_checkpoints_of_other_runs_are_refused(tmp_path):
    model, checkpoint = small(tmp_path)
    checkpoint.save(1)
    with pytest.raises(CheckpointError, match=r"holds \['model', 'optimizer'\], this run has \['model'\]"):
        Checkpoint(checkpoint.path, model=model).resume()
    with pytest.raises(CheckpointError, match=r"model does not fit[\s\S]*size mismatch"):
        small(tmp_path, width=4)[1].resume()
    with pytest.raises(CheckpointError, match="generators"):
        parts = {"model": model, "optimizer": checkpoint.parts["optimizer"]}
        Checkpoint(checkpoint.path, **parts, generators={"a": rg.Generator()}).resume()
    rg.save(model.state_dict(), checkpoint.path)
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        checkpoint.resume()


def test_what_cannot_be_saved_leaves_the_last_checkpoint(tmp_path):
    _, checkpoint = small(tmp_path)
    checkpoint.save(1)
    with pytest.raises(TypeError, match="run.metadata.bad"):
        checkpoint.save(2, {"bad": object()})
    assert checkpoint.resume().step == 1
    with pytest.raises(TypeError, match="no state_dict"):
        Checkpoint(tmp_path / "x", model=3)


def test_the_weights_are_there_for_other_programs(tmp_path):
    from safetensors.numpy import load_file

    model, checkpoint = small(tmp_path)
    checkpoint.save(1)
    np.testing.assert_array_equal(load_file(checkpoint.path)["model.weight"], model.weight.detach().numpy())
