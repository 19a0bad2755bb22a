"""Memory shared with other libraries by DLPack, files of whole objects, and processes that know ``torch``."""

import io
import pickle
import subprocess
import sys
import textwrap
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import pytest

import retrograd as rg
from retrograd import serialization
from retrograd.serialization import CorruptFileError

nn = rg.nn


def test_numpy_and_retrograd_see_each_others_writes():
    x = rg.zeros(3)
    array = np.from_dlpack(x)
    x[0] = 1
    assert array.tolist() == [1.0, 0.0, 0.0]
    array = np.zeros(2)
    rg.from_dlpack(array)[1] = 2
    assert array.tolist() == [0.0, 2.0]
    y = rg.from_dlpack(np.zeros((2, 3)).T)
    assert y.shape == (3, 2) and y.stride() == (1, 3) and y.dtype == rg.float64
    assert rg.from_dlpack(np.array([True, False])).dtype == rg.bool
    assert np.from_dlpack(rg.tensor([True, False])).tolist() == [True, False]


def test_pytorch_and_retrograd_see_each_others_writes():
    torch = pytest.importorskip("torch")
    theirs = torch.zeros(2, 2)
    ours = rg.from_dlpack(theirs)
    ours[0, 1] = 3
    assert theirs.tolist() == [[0.0, 3.0], [0.0, 0.0]]
    back = torch.from_dlpack(ours)
    back[1, 0] = 4
    assert ours.tolist() == [[0.0, 3.0], [4.0, 0.0]]
    assert rg.from_dlpack(torch.tensor([True])).dtype == rg.bool
    capsule = rg.utils.dlpack.to_dlpack(ours)
    assert torch.utils.dlpack.from_dlpack(capsule).tolist() == ours.tolist()
    assert rg.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(theirs)).tolist() == ours.tolist()
    assert tuple(map(int, theirs.__dlpack_device__())) == ours.__dlpack_device__() == (1, 0)


def test_memory_is_copied_where_that_is_asked_for():
    array = np.zeros(2)
    rg.from_dlpack(array, copy=True)[0] = 1
    assert array.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("make", [lambda: rg.ones(1, requires_grad=True), lambda: rg.ones(1, requires_grad=True) * 2])
def test_a_tensor_that_requires_grad_is_not_exported(make):
    with pytest.raises(BufferError, match="requires grad"):
        np.from_dlpack(make())


def test_what_knows_nothing_of_dlpack_is_refused():
    with pytest.raises(TypeError, match="__dlpack__"):
        rg.from_dlpack([1.0])


# Files of whole objects


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 3), nn.LSTM(3, 4))
        self.register_buffer("scale", rg.ones(1))

    def forward(self, x):
        return self.layers(x)[0] * self.scale


@pytest.fixture
def saves_objects(monkeypatch):
    monkeypatch.setattr(serialization, "saves_objects", True)


def saved(value):
    stream = io.BytesIO()
    rg.save(value, stream)
    stream.seek(0)
    return stream


def old(value):
    """A file of whole objects as earlier versions wrote it."""
    return io.BytesIO(b"retrograd objects\n" + pickle.dumps(value, 4))


def test_a_module_is_saved_whole_under_retrograd_run_alone():
    with pytest.raises(TypeError, match="state_dict"):
        rg.save(Net(), io.BytesIO())


def test_a_saved_module_is_loaded_whole_where_the_program_trusts_it(saves_objects, tmp_path):
    model, x = Net(), rg.ones(1, 2)
    rg.save(model, tmp_path / "model.pt")
    for path in (tmp_path / "model.pt", saved(model), old(model)):
        loaded = rg.load(path, weights_only=False)
        assert type(loaded) is Net and loaded(x).tolist() == model(x).tolist()


def test_by_default_only_classes_that_the_program_lists_are_made(saves_objects):
    model = Net()
    for options in ({}, {"weights_only": True}):
        for file in (saved(model), old(model)):
            with pytest.raises(pickle.UnpicklingError, match="Net.*weights_only=False"):
                rg.load(file, **options)
    with rg.serialization.safe_globals([Net]):
        assert type(rg.load(saved(model))) is type(rg.load(old(model))) is Net
    with pytest.raises(pickle.UnpicklingError):
        rg.load(saved(model))


def test_modules_of_this_package_need_no_listing(saves_objects):
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8), 1)
    for loaded in (rg.load(saved(model)), rg.load(old(model))):
        assert {name: x.tolist() for name, x in loaded.state_dict().items()} == {
            name: x.tolist() for name, x in model.state_dict().items()
        }
        assert repr(loaded) == repr(model) and loaded(rg.ones(2, 3, 4)).shape == (2, 3, 4)


class Malicious:
    def __reduce__(self):
        return print, ("run",)


@pytest.mark.parametrize("value", [Malicious(), [Malicious()], {"model": nn.Linear(1, 1), "other": Malicious()}])
def test_the_files_own_code_is_not_run_unless_asked_for(saves_objects, capsys, value):
    with pytest.raises(pickle.UnpicklingError, match=r"builtins\.print"):
        rg.load(saved(value))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("name", ["os.system", "retrograd.nn.init.np", "retrograd.ops.make.creation.import_module"])
def test_nothing_else_of_this_package_is_handed_out(saves_objects, name):
    module, _, attribute = name.rpartition(".")
    content = f"c{module}\n{attribute}\n.".encode()
    with pytest.raises(pickle.UnpicklingError):
        rg.load(io.BytesIO(b"retrograd objects\n" + content))


def test_a_truncated_file_of_objects_says_so(saves_objects):
    content = saved(Net()).getvalue()
    with rg.serialization.safe_globals([Net]), pytest.raises((CorruptFileError, pickle.UnpicklingError)):
        rg.load(io.BytesIO(content[: len(content) // 2]))


@dataclass
class Settings:
    rate: float = 1.0
    names: list = field(default_factory=list)

    def describe(self):
        return self.rate


class Colour(Enum):
    RED = 1


class Slotted:
    __slots__ = ("value",)


def test_listed_classes_are_made_with_their_attributes(saves_objects):
    slotted = Slotted()
    slotted.value = [1]
    value = {"settings": Settings(2.0, [rg.ones(1)]), "colour": Colour.RED, "slotted": slotted}
    with rg.serialization.safe_globals([Settings, Colour, Slotted]):
        for file in (saved(value), old(value)):
            found = rg.load(file)
            assert found["settings"].names[0].tolist() == [1.0] and found["settings"].rate == 2.0
            assert found["colour"] is Colour.RED and found["slotted"].value == [1]


def test_no_attribute_in_a_file_takes_a_methods_place(saves_objects):
    settings, linear, net, tensor = Settings(), nn.Linear(1, 1), Net(), rg.ones(1)
    settings.__dict__["describe"] = "replaced"
    linear.__dict__["forward"] = net.__dict__["forward"] = nn.functional.relu
    tensor.__dict__["backward"] = nn.functional.relu
    with rg.serialization.safe_globals([Settings, Net]):
        for value, name in ((settings, "describe"), (linear, "forward"), (net, "forward"), (tensor, "backward")):
            for file in (saved(value), old(value)):
                with pytest.raises(CorruptFileError, match=f"replaces {name}"):
                    rg.load(file)


def noted(module, args):
    return None


def test_hooks_of_a_loaded_module_are_functions_that_the_program_has_listed(saves_objects):
    model = nn.Linear(1, 1)
    model.register_forward_pre_hook(nn.functional.relu)
    with pytest.raises(CorruptFileError, match="hooks that the program did not list"):
        rg.load(saved(model))
    model = nn.Linear(1, 1)
    model.register_forward_pre_hook(noted)
    with rg.serialization.safe_globals([noted]):
        assert rg.load(saved(model))(rg.ones(1, 1)).shape == (1, 1)


def test_whole_objects_keep_memory_that_is_shared(saves_objects):
    model = Net()
    state = {"model": model, "weight": model.layers[0].weight.detach(), "same": model.scale}
    found = rg.load(saved(state), weights_only=False)
    found["weight"][0, 0] = 42.0
    assert found["model"].layers[0].weight[0, 0].item() == 42.0 and found["same"] is found["model"].scale


# Other processes


def run(tmp_path, source):
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(source))
    done = subprocess.run(
        [sys.executable, "-m", "retrograd.as_torch", str(script)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_processes_of_a_program_know_torch(tmp_path):
    out = run(
        tmp_path,
        """
        import torch
        import torch.multiprocessing as mp

        def work(queue, x):
            import torch.nn.functional as F
            queue.put((hasattr(torch, "is_retrograd"), F.relu(x * 2).tolist()))

        if __name__ == "__main__":
            for start in ("spawn", "forkserver"):
                context = mp.get_context(start)
                queue = context.Queue()
                process = context.Process(target=work, args=(queue, torch.tensor([1.0, -1.0])))
                process.start()
                print(start, queue.get(timeout=60))
                process.join()
        """,
    )
    assert out == "spawn (True, [2.0, 0.0])\nforkserver (True, [2.0, 0.0])\n"


@pytest.mark.slow
def test_a_program_writes_archives_wherever_the_name_is_not_of_safetensors(tmp_path):
    pytest.importorskip("safetensors")
    out = run(
        tmp_path,
        """
        import io, os, torch
        os.chdir(os.path.dirname(__file__))
        state = torch.nn.Linear(2, 1).state_dict()
        for name in ("a.pt", "a.ckpt", "a", "a.safetensors"):
            torch.save(state, name)
            with open(name, "rb") as file:
                print(name, file.read(2) == b"PK", torch.load(name)["weight"].equal(state["weight"]))
        torch.save(obj=torch.nn.Linear(2, 1), f="m.pt")
        print(torch.load(f="m.pt"))
        stream = io.BytesIO()
        torch.save([1], stream)
        torch.save([2], stream)
        stream.seek(0)
        print(torch.load(stream), torch.load(stream))
        """,
    )
    assert out == (
        "a.pt True True\na.ckpt True True\na True True\na.safetensors False True\n"
        "Linear(in_features=2, out_features=1, bias=True)\n[1] [2]\n"
    )
    theirs = pytest.importorskip("torch")
    for name in ("a.pt", "a.ckpt", "a"):
        assert theirs.load(tmp_path / name, weights_only=True)["weight"].shape == (1, 2)


@pytest.mark.slow
def test_a_program_formats_tensors_of_one_number_as_the_number(tmp_path):
    out = run(tmp_path, "import torch\nx = torch.tensor(0.5)\nprint(f'{x} {x:.3f} {torch.ones(1)}')")
    assert out == "0.5 0.500 tensor([1.])\n"


def _fail(rank, kind):
    import os
    import signal
    import time

    if rank == 0:
        time.sleep(60)  # ended when the other one fails
    if kind == "error":
        raise ValueError("too small")
    if kind == "exit":
        os._exit(3)
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("kind", "error", "code", "signal"),
    [("error", "Raised", None, None), ("exit", "Exited", 3, None), ("kill", "Exited", -9, "SIGKILL")],
)
def test_a_process_that_fails_ends_the_others_and_the_error_says_how_it_failed(kind, error, code, signal):
    from retrograd.multiprocessing.spawn import ProcessException, start_processes

    context = start_processes(_fail, (kind,), nprocs=2, join=False, start_method="fork")
    with pytest.raises(ProcessException, match="(?i)process 1 terminated") as raised:
        context.join()
    failed = pickle.loads(pickle.dumps(raised.value))
    assert type(failed).__name__ == f"Process{error}Exception"
    assert (failed.error_index, getattr(failed, "exit_code", None), getattr(failed, "signal_name", None)) == (
        1, code, signal,
    )  # fmt: skip
    assert failed.pid == context.pids()[1]
    assert ("ValueError: too small" in str(failed)) is (kind == "error")
    assert not any(process.is_alive() for process in context.processes)


def test_processes_run_a_function_with_their_rank():
    import multiprocessing

    queue = multiprocessing.get_context("fork").SimpleQueue()
    rg.multiprocessing.start_processes(_put, (queue,), nprocs=2, start_method="fork")
    assert sorted([queue.get(), queue.get()]) == [0, 2]


def _put(rank, queue):
    queue.put(2 * rank)
