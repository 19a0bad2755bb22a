"""Checkpoints: bit-identical resuming, damaged files, and kills while they are written."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import retrograd as rg
from retrograd.files import replacing
from retrograd.safetensors_format import read
from retrograd.serialization import Packed, pack, write_file
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
    kills = int(os.environ.get("RETROGRAD_KILLS", "6"))
    random = np.random.default_rng(0)
    printed = {}
    seen = 0
    caught_writing = 0
    for kill in range(10 * kills):
        if kill >= kills and caught_writing:
            break
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
    print(f"{kill} kills, {caught_writing} of them while a file was being written; every checkpoint was whole")


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


@pytest.mark.slow
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
    with pytest.raises(CheckpointError, match=r"the checkpoint has \['model', 'optimizer'\], this run has \['model'\]"):
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
    with pytest.raises(TypeError, match="needs state_dict"):
        Checkpoint(tmp_path / "x", model=3)


def test_without_the_library_no_training_begins_that_cannot_be_saved(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ImportError, match=r"pip install 'retrograd\[weights\]'"):
        small(tmp_path)
    assert not os.listdir(tmp_path)


def test_the_weights_are_there_for_other_programs(tmp_path):
    from safetensors.numpy import load_file

    model, checkpoint = small(tmp_path)
    checkpoint.save(1)
    np.testing.assert_array_equal(load_file(checkpoint.path)["model.weight"], model.weight.detach().numpy())


# ------------------------------------------------------------------------------------- a refused or interrupted resume


def everything(run):
    """All that resuming changes, as JSON and bytes."""
    packed = Packed()
    states = {name: part.state_dict() for name, part in run.checkpoint.parts.items()}
    states["noise"] = run.noise.bit_generator.state["state"]["key"], run.noise.bit_generator.state["state"]["pos"]
    states["more"], states["default"] = run.more_noise.get_state(), rg.get_rng_state()
    structure = pack(states, "", packed)
    attributes = [sorted(vars(part)) for part in run.checkpoint.parts.values()]
    resumes = run.loader._resumes, run.optimizer._stepped
    return json.dumps(structure), {name: array.tobytes() for name, array in packed.arrays.items()}, attributes, resumes


def trained(folder, steps):
    """A run that saved its last step, inside an epoch, and whose parts have all moved."""
    folder.mkdir(exist_ok=True)
    run = train_program.Run(folder)
    run.train(steps, lambda step, loss: None, save_at=lambda step: step == steps)
    return run


def structure_of(path):
    arrays, metadata = read(path)
    return arrays, json.loads(metadata["retrograd"])


SPOILED = {
    "model": lambda parts, random: parts["model"].pop("4.bias"),
    "optimizer": lambda parts, random: parts["optimizer"]["param_groups"].append({}),
    "optimizer-number": lambda parts, random: parts.update(optimizer=3),
    "scheduler": lambda parts, random: parts["scheduler"].pop("_schedulers"),
    "scheduler-method": lambda parts, random: parts["scheduler"].update(
        load_state_dict=1, get_lr=2, _not_in_state=[], _schedulers=[]
    ),
    "loader": lambda parts, random: parts["loader"].update(batches_in_epoch=8),
    "loader-text": lambda parts, random: parts.update(loader="text"),
    "loader-generators": lambda parts, random: parts["loader"]["generators"][0].pop("state"),
    "ema": lambda parts, random: parts["ema"].update(averages={}),
    "ema-list": lambda parts, random: parts["ema"].update(averages=[]),
    "stopping": lambda parts, random: parts["stopping"].pop("best_weights"),
    "noise": lambda parts, random: random["generators"].update(noise={"bit_generator": "PCG64"}),
    "noise-position": lambda parts, random: random["generators"]["noise"]["state"].update(pos=10**9),
    "more": lambda parts, random: random["generators"].update(more=[300] * 64),
    "more-short": lambda parts, random: random["generators"].update(more=[1]),
    "default": lambda parts, random: random.update(default=[[1]] * 64),
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED.keys())
def test_a_refused_resume_changes_nothing(tmp_path, spoil):
    run = trained(tmp_path, 9)
    arrays, structure = structure_of(run.checkpoint.path)
    spoil(structure["parts"], structure["run"]["random"])
    write_file(run.checkpoint.path, arrays, structure)
    other = trained(tmp_path / "other", 12)
    other.checkpoint.path = run.checkpoint.path
    groups, before = other.optimizer.param_groups, everything(other)
    with pytest.raises(CheckpointError, match="run.safetensors: "):
        other.checkpoint.resume()
    assert everything(other) == before
    assert other.optimizer.param_groups is groups
    assert other.scheduler.optimizer is other.optimizer


@pytest.mark.parametrize(
    "spoil",
    [
        lambda saved: saved["run"].pop("step"),
        lambda saved: saved["run"].update(step="7"),
        lambda saved: saved["run"].update(metadata=[]),
        lambda saved: saved["run"].update(random={}),
        lambda saved: saved.update(parts=[]),
        lambda saved: saved.update(run={"$": "tensor", "name": "model.4.bias"}),
        lambda saved: saved["run"].pop("version"),
    ],
)
def test_a_file_that_is_no_checkpoint_is_refused(tmp_path, spoil):
    run = trained(tmp_path, 2)
    arrays, structure = structure_of(run.checkpoint.path)
    spoil(structure)
    write_file(run.checkpoint.path, arrays, structure)
    with pytest.raises(CheckpointError, match="not a checkpoint"):
        run.checkpoint.resume()
    write_file(run.checkpoint.path, arrays, {**structure, "run": {"version": 2}, "parts": {}})
    with pytest.raises(CheckpointError, match="has version 2, expected 1"):
        run.checkpoint.resume()


class InterruptAtLine:
    """Raises KeyboardInterrupt when the lines of those numbers, counted from here in that file, are reached."""

    def __init__(self, *numbers, file=""):
        self.numbers, self.count, self.file = numbers, 0, str(PACKAGE / file)

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self.trace)

    def __exit__(self, *error):
        sys.settrace(self.before)

    def trace(self, frame, event, argument):
        if not frame.f_code.co_filename.startswith(self.file):
            return None
        self.count += event == "line"
        if event == "line" and self.count in self.numbers:
            raise KeyboardInterrupt
        return self.trace


PACKAGE = Path(rg.__file__).parent


@pytest.mark.every(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    "file", ["", "core/graph/modes.py"]
)  # anywhere, and where the recording is switched off and on
def test_an_interrupted_resume_changes_nothing(tmp_path, file, pytestconfig):
    places = 150 if pytestconfig.getoption("--long") else 75
    run, counted, other = trained(tmp_path / "a", 9), trained(tmp_path / "b", 12), trained(tmp_path / "c", 12)
    counted.checkpoint.path = other.checkpoint.path = run.checkpoint.path
    lines = InterruptAtLine(file=file)
    with lines:
        counted.checkpoint.resume()
    rg.rand(17)
    before = everything(other)
    for first in range(1, lines.count, max(1, lines.count // places)):
        for numbers in ((first,), (first, first + lines.count // 8)):  # the second one meets the way back
            with pytest.raises(KeyboardInterrupt), InterruptAtLine(*numbers, file=file):
                other.checkpoint.resume()
            assert everything(other) == before, numbers
            assert rg.is_grad_enabled()
    assert other.checkpoint.resume().step == 9
    assert everything(other)[:2] == everything(counted)[:2]


def test_resuming_leaves_the_file_that_another_process_is_writing(tmp_path):
    _, checkpoint = small(tmp_path)
    checkpoint.save(1)
    with replacing(checkpoint.path) as stream:
        stream.write(checkpoint.path.read_bytes())
        assert len(unfinished(tmp_path)) == 1
        assert checkpoint.resume().step == 1
        checkpoint.save(2)
        assert len(unfinished(tmp_path)) == 1
    assert not unfinished(tmp_path)
    assert checkpoint.resume().step == 1


def test_resuming_where_nothing_can_be_read_says_so(tmp_path):
    model, _ = small(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError, match="folder"):
        Checkpoint(tmp_path / "folder", model=model).resume()
    (tmp_path / "link").symlink_to(tmp_path / "nothing")
    assert Checkpoint(tmp_path / "link", model=model).resume() is None


def test_a_step_that_is_no_integer_is_refused(tmp_path):
    _, checkpoint = small(tmp_path)
    with pytest.raises(TypeError, match="integer"):
        checkpoint.save(2.7)
    checkpoint.save(np.int64(3))
    assert checkpoint.resume().step == 3


def test_parts_of_any_name_are_saved(tmp_path):
    model, _ = small(tmp_path)
    parts = {"$": model, "run": rg.nn.Linear(1, 1), "a.b": rg.nn.Linear(1, 1)}
    checkpoint = Checkpoint(tmp_path / "run", **parts)
    checkpoint.save(1)
    assert checkpoint.resume().step == 1
