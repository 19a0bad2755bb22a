"""save and load: safetensors files, to and from PyTorch programs."""

import os
import pickle

import numpy as np
import pytest

import retrograd as rg
from retrograd.serialization import CorruptFileError

pytest.importorskip("safetensors")


def nested_state():
    return {
        "model": {"weight": rg.ones(2, 3), "tied.bias": rg.tensor(1.5)},
        "optimizer": {"state": {0: {"step": rg.tensor(3.0), "buffer": None}}, "betas": (0.9, [0.999, float("inf")])},
        "$": "a key of its own",
        "history": [1, 2.5, "text", True, np.float32(0.5), np.arange(3)],
    }


def assert_same(found, wanted):
    assert type(found) is type(wanted) or isinstance(wanted, np.generic)
    if isinstance(wanted, dict):
        assert list(found) == list(wanted)
        for key in wanted:
            assert_same(found[key], wanted[key])
    elif isinstance(wanted, (list, tuple)):
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted):
            assert_same(a, b)
    elif isinstance(wanted, (rg.Tensor, np.ndarray)):
        assert found.dtype == wanted.dtype and found.shape == wanted.shape
        np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))
    else:
        assert found == wanted


def test_nested_states_come_back_as_they_were(tmp_path):
    rg.save(nested_state(), tmp_path / "state.safetensors")
    assert_same(rg.load(tmp_path / "state.safetensors"), nested_state())


DTYPES = ["float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool", "complex64"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3)], ids=str)
def test_dtypes_and_shapes_to_and_from_pytorch(tmp_path, dtype, shape):
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file, save_file

    values = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    rg.save({"a": rg.tensor(values), "b": rg.tensor(values)}, tmp_path / "ours.safetensors")
    theirs = load_file(tmp_path / "ours.safetensors")
    assert theirs["b"].dtype == getattr(torch, dtype)
    np.testing.assert_array_equal(theirs["a"].numpy(), values)
    save_file({"a": torch.tensor(values)}, tmp_path / "theirs.safetensors")
    ours = rg.load(tmp_path / "theirs.safetensors")["a"]
    assert ours.dtype == dtype and ours.shape == shape
    np.testing.assert_array_equal(ours.numpy(), values)
    ours.add_(ours)  # its memory may be written


def test_bfloat16_from_pytorch(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    values = torch.randn(5, 3, generator=torch.Generator().manual_seed(0)).to(torch.bfloat16)
    save_file({"a": values}, tmp_path / "a.safetensors")
    ours = rg.load(tmp_path / "a.safetensors")["a"]
    np.testing.assert_array_equal(ours.numpy(), values.float().numpy())


def test_a_model_and_its_pytorch_twin(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_model, save_model

    def model(nn):
        return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))

    ours, theirs = model(rg.nn), model(torch.nn)
    path = tmp_path / "model.safetensors"
    rg.save(ours.state_dict(), path)
    load_model(theirs, path)
    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    np.testing.assert_allclose(ours(rg.tensor(x)).detach().numpy(), theirs(torch.tensor(x)).detach().numpy(), atol=1e-6)
    for parameter in theirs.parameters():
        parameter.data.mul_(2)
    save_model(theirs, path)
    ours.load_state_dict(rg.load(path))
    np.testing.assert_allclose(ours(rg.tensor(x)).detach().numpy(), theirs(torch.tensor(x)).detach().numpy(), atol=1e-6)


def test_views_and_shared_memory(tmp_path):
    base = rg.arange(12.0).reshape(3, 4)
    rg.save({"t": base.T, "tied": base, "column": base[:, 1]}, tmp_path / "a.safetensors")
    found = rg.load(tmp_path / "a.safetensors")
    np.testing.assert_array_equal(found["t"].numpy(), base.numpy().T)
    np.testing.assert_array_equal(found["column"].numpy(), base.numpy()[:, 1])


def test_a_device_can_be_chosen(tmp_path):
    from tests.guarded import guarded_backend

    rg.save({"a": rg.ones(2)}, tmp_path / "a.safetensors")
    with guarded_backend():
        moved = rg.load(tmp_path / "a.safetensors", map_location="cuda")["a"]
        assert moved.is_cuda
        rg.save({"a": moved * 2}, tmp_path / "a.safetensors")
    assert rg.load(tmp_path / "a.safetensors")["a"].tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"a": {"b": object()}}, "a.b is a object"),
        ({"a": {1, 2}}, "a is a set"),
        ({"a": rg.tensor(1j, dtype=rg.complex128)}, "complex128"),
        ({(1, 2): 3}, "key of type tuple"),
        (rg.nn.Linear(1, 1), "state_dict"),
    ],
)
def test_what_cannot_be_saved_is_named_and_leaves_the_old_file(tmp_path, state, message):
    path = tmp_path / "a.safetensors"
    rg.save({"a": rg.ones(1)}, path)
    with pytest.raises(TypeError, match=message):
        rg.save(state, path)
    assert rg.load(path)["a"].tolist() == [1.0]
    assert os.listdir(tmp_path) == ["a.safetensors"]


def test_no_pickle_is_loaded(tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(CorruptFileError, match="pickle"):
        rg.load(path)
    torch = pytest.importorskip("torch")
    torch.save({"a": torch.ones(1)}, path)
    with pytest.raises(CorruptFileError, match="pickle"):
        rg.load(path)


def test_every_truncation_and_every_damaged_byte_is_noticed(tmp_path):
    path = tmp_path / "a.safetensors"
    rg.save({"a": rg.arange(4.0), "b": [1, rg.ones(1)]}, path)
    data = path.read_bytes()
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(CorruptFileError):
            rg.load(path)
    header = int.from_bytes(data[:8], "little") + 8
    for position in range(header, len(data)):
        path.write_bytes(data[:position] + bytes([data[position] ^ 16]) + data[position + 1 :])
        with pytest.raises(CorruptFileError, match="checksum"):
            rg.load(path)


def test_a_missing_file_and_a_missing_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        rg.load(tmp_path / "nothing.safetensors")
    with pytest.raises(Exception, match="(?i)no such file"):
        rg.save({"a": rg.ones(1)}, tmp_path / "nowhere" / "a.safetensors")


def test_without_the_library(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "safetensors", None)
    with pytest.raises(ImportError, match=r"retrograd\[weights\]"):
        rg.save({"a": rg.ones(1)}, tmp_path / "a.safetensors")
