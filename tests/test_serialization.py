"""save and load: safetensors files, to and from PyTorch programs."""

import errno
import io
import json
import os
import pickle
import stat
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest

import retrograd as rg
from retrograd import safetensors_format, serialization
from retrograd.files import replacing
from retrograd.serialization import CorruptFileError

safetensors = pytest.importorskip("safetensors")


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
    np.testing.assert_array_equal(ours.float().numpy(), values.float().numpy())


def test_bfloat16_is_kept_in_files_and_read_as_float32_where_its_library_is_missing(tmp_path, monkeypatch):
    pytest.importorskip("ml_dtypes")
    state = {"a": rg.tensor([1.0, -2.5], dtype=rg.bfloat16), "n": {"b": rg.zeros(0, dtype=rg.bfloat16)}}
    rg.save(state, tmp_path / "a.safetensors")
    found = rg.load(tmp_path / "a.safetensors")
    assert found["a"].dtype == found["n"]["b"].dtype == rg.bfloat16
    assert found["a"].tolist() == [1.0, -2.5] and (found["a"] * 2).sum().item() == -3.0
    monkeypatch.setattr(safetensors_format, "bfloat16_or_none", lambda: None)
    found = rg.load(tmp_path / "a.safetensors")
    assert found["a"].dtype == rg.float32 and found["a"].tolist() == [1.0, -2.5]


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


def test_tensors_that_share_memory_share_it_when_they_are_loaded(tmp_path):
    base, weight = rg.arange(12.0).reshape(3, 4), rg.nn.Parameter(rg.ones(2))
    state = {
        "a": base[1:, ::2], "base": base, "t": base.T, "same": base, "flat": base.reshape(-1), "w": weight,
        "tied": [weight, weight.detach()], "array": base.numpy(), "expanded": base[0, 1].expand(2, 2),
        "other": base + 0,
    }  # fmt: skip
    rg.save(state, tmp_path / "a.safetensors")
    found = rg.load(tmp_path / "a.safetensors")
    assert_same(
        {name: value for name, value in found.items() if name not in ("w", "tied")},
        {name: value for name, value in state.items() if name not in ("w", "tied")},
    )
    assert found["same"] is found["base"] and found["tied"][0] is found["w"]
    found["base"][1, 2] = 99.0
    found["base"][0, 1] = 77.0
    assert found["a"][0, 1] == found["t"][2, 1] == found["flat"][6] == found["array"][1, 2] == 99.0
    assert found["expanded"].tolist() == [[77.0, 77.0], [77.0, 77.0]] and found["other"][1, 2] == 6.0
    found["tied"][1][0] = 5.0
    assert found["w"].tolist() == [5.0, 1.0]
    x = found["w"].requires_grad_()
    loss = (x**2).sum()
    found["tied"][1].mul_(10)
    loss.backward()
    assert x.grad.tolist() == [10.0, 2.0]


def test_tied_weights_are_whole_for_other_programs(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file

    model = rg.nn.Sequential(rg.nn.Linear(2, 2), rg.nn.Linear(2, 2))
    model[1].weight = model[0].weight
    rg.save(model.state_dict(), tmp_path / "a.safetensors")
    theirs = load_file(tmp_path / "a.safetensors")
    assert torch.equal(theirs["0.weight"], theirs["1.weight"])
    ours = rg.load(tmp_path / "a.safetensors")
    ours["0.weight"].zero_()
    assert ours["1.weight"].tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_files_one_after_the_other_in_a_stream_are_read_one_by_one():
    stream = io.BytesIO(b"")
    stream.write(b"first")
    states = [{"a": rg.ones(3), "n": [1]}, {"epoch": 3}, {}, {"x": rg.zeros(0), "y": rg.tensor(True)}]
    for state in states:
        rg.save(state, stream)
    stream.seek(5)
    for state in states:
        assert_same(rg.load(stream), state)
    with pytest.raises(CorruptFileError, match="the stream: "):
        rg.load(stream)


def test_a_device_can_be_chosen(tmp_path):
    from tests.helpers.guarded import guarded_backend

    rg.save({"a": rg.ones(2)}, tmp_path / "a.safetensors")
    with guarded_backend():
        moved = rg.load(tmp_path / "a.safetensors", map_location="cuda")["a"]
        assert moved.is_cuda
        rg.save({"a": moved * 2}, tmp_path / "a.safetensors")
    assert rg.load(tmp_path / "a.safetensors")["a"].tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"a": {"b": object()}}, "a.b must be a Tensor, .*, got object"),
        ({"a": {1, 2}}, "a must be a Tensor, .*, got set"),
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


@pytest.mark.parametrize("state", [None, [1], {"a": [rg.ones(1)]}], ids=repr)
@pytest.mark.parametrize("name", [b'"retrograd":', b'"retrograd.crc32":'])
def test_a_damaged_name_in_the_metadata_is_noticed(tmp_path, state, name):
    rg.save(state, tmp_path / "a")
    data = (tmp_path / "a").read_bytes()
    assert name in data
    (tmp_path / "a").write_bytes(data.replace(name, name.replace(b"d", b"`")))
    with pytest.raises(CorruptFileError, match="checksum"):
        rg.load(tmp_path / "a")


def test_no_pickle_is_loaded(tmp_path):
    path = tmp_path / "model.pt"
    path.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(CorruptFileError, match="pickle"):
        rg.load(path)
    torch = pytest.importorskip("torch")
    torch.save({"a": print}, path)
    with pytest.raises(pickle.UnpicklingError, match="builtin.*print"):
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


def test_a_missing_file_and_a_missing_folder_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing.safetensors"):
        rg.load(tmp_path / "nothing.safetensors")
    with pytest.raises(FileNotFoundError, match="nowhere/a.safetensors'$"):
        rg.save({"a": rg.ones(1)}, tmp_path / "nowhere" / "a.safetensors")


@pytest.mark.slow
def test_without_the_library_the_extra_is_named_and_nothing_is_written(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"older")
    program = (
        "import sys; sys.modules['safetensors'] = None; import retrograd as rg\n"
        "for action in (lambda: rg.save({'a': rg.ones(2)}, sys.argv[1]), lambda: rg.load(sys.argv[1])):\n"
        "    try: action()\n"
        "    except ImportError as error: print(error)"
    )
    said = subprocess.check_output([sys.executable, "-c", program, str(path)], text=True)
    assert said == "saved files need the safetensors library: pip install 'retrograd[weights]'\n" * 2
    assert path.read_bytes() == b"older" and os.listdir(tmp_path) == ["a"]


# ------------------------------------------------------------------------------------- what is saved can be loaded


@pytest.mark.parametrize("dtype", [">f2", ">f4", ">f8", ">i2", ">i4", ">i8", ">u2", ">u4", ">u8", ">c8"])
def test_big_endian_arrays_are_saved_little_endian(tmp_path, dtype):
    values = np.array([[1, 2, 3], [4, 5, 6]]).astype(dtype)
    rg.save({"x": values, "scalar": values[0, 0:1].reshape(()), "column": values[:, 1], "t": values.T}, tmp_path / "a")
    found = rg.load(tmp_path / "a")
    assert found["x"].dtype.isnative
    np.testing.assert_array_equal(found["x"], values)
    np.testing.assert_array_equal(found["column"], values[:, 1])
    np.testing.assert_array_equal(found["t"], values.T)
    assert found["scalar"].shape == () and found["scalar"] == 1


def test_headers_that_begin_like_a_pickle_or_a_zip_file_can_be_loaded(tmp_path):
    lengths = set()  # the file's first bytes are the header's length
    for size in [*range(420, 470, 8), *range(930, 980, 8), *range(1190, 1230, 8), *range(19_050, 19_100, 8)]:
        state = {"text": "." * size, "x": rg.ones(1)}
        rg.save(state, tmp_path / "a")
        assert_same(rg.load(tmp_path / "a"), state)
        lengths.add((tmp_path / "a").read_bytes()[:2])
    assert {b"\x80\2", b"\x80\4", b"\x80\5", b"PK"} <= lengths


@pytest.mark.parametrize(
    "state",
    [
        {0: rg.ones(1), "1": rg.zeros(1), 1: rg.ones(2)},
        {True: {2.5: rg.ones(1)}, "$": rg.ones(1)},
        {"$": rg.ones(1)},
        {"": rg.ones(1), "a": {"": rg.ones(2)}},
        {"a.b": rg.ones(1), "a": {"b": rg.ones(2)}, "a.b_": rg.ones(3)},
        {"__metadata__": rg.ones(1), "a": {"$": "tensor", "name": "a"}},
        {"\ud800": rg.ones(1), "text": ["\udfff"], "\n\0é漢": rg.ones(3)},
        {"\udfff": [rg.ones(2)], "?": rg.ones(1)},
        {"empty": {}, "list": [], "tuple": (), "nested": [[], ((),)]},
        {},
        None,
        [],
        3,
        rg.ones(2),
        np.ones(2),
        {"a": np.ones(2)},
        {"a": rg.tensor([float("nan"), float("inf"), -0.0])},
        {"mixed": [rg.ones(3, dtype=rg.bool), rg.ones(5, dtype=rg.float64), rg.ones(1, dtype=rg.int16)]},
        {"numbers": [10**400, -1, 1e308, float("inf"), 5e-324, True, None]},
    ],
    ids=repr,
)
def test_odd_states_come_back_as_they_were(tmp_path, state):
    rg.save(state, tmp_path / "a")
    assert_same(rg.load(tmp_path / "a"), state)


def test_what_is_saved_is_what_the_library_reads(tmp_path):
    from safetensors.numpy import load_file

    state = {
        "odd": rg.ones(3, dtype=rg.bool),
        "double": rg.arange(5, dtype=rg.float64),
        "half": rg.ones(7, dtype=rg.float16),
        "empty": rg.ones(0, 4),
        "scalar": rg.tensor(2.0),
        "é": rg.ones(1, dtype=rg.uint8),
    }
    rg.save(state, tmp_path / "a")
    theirs = load_file(tmp_path / "a")
    assert set(theirs) == set(state)
    for name, value in state.items():
        np.testing.assert_array_equal(theirs[name], value.numpy())
        assert theirs[name].dtype == value.dtype and theirs[name].shape == value.shape
    data = (tmp_path / "a").read_bytes()
    length = int.from_bytes(data[:8], "little")
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__":  # a reader that maps the file needs every element at a multiple of its size
            assert (8 + length + entry["data_offsets"][0]) % state[name].element_size() == 0


def test_a_file_without_tensors_is_one_to_the_library_too(tmp_path):
    # safetensors issue 601: its versions up to 0.4.3 write a broken header where there is metadata alone.
    rg.save({"epoch": 3}, tmp_path / "a")
    with safetensors.safe_open(tmp_path / "a", "np") as theirs:
        assert list(theirs.keys()) == [] and json.loads(theirs.metadata()["retrograd"]) == {"epoch": 3}


def test_what_was_loaded_can_be_saved_to_the_same_path(tmp_path):
    # safetensors issue 762: arrays that lie in the mapped file become zeros when it is written again.
    rg.save({"a": rg.arange(3.0)}, tmp_path / "a")
    state = rg.load(tmp_path / "a")
    for _ in range(2):
        rg.save(state, tmp_path / "a")
        assert state["a"].tolist() == rg.load(tmp_path / "a")["a"].tolist() == [0, 1, 2]


def test_a_file_of_an_earlier_version_is_loaded(tmp_path):
    from safetensors.numpy import save_file

    text = json.dumps({"a": {"$": "tensor", "name": "a"}, "n": {"$": "items", "items": [[1, 2]]}})
    a = np.arange(3, dtype=np.float32)
    checksum = zlib.crc32(a.tobytes(), zlib.crc32(b"a <f4 (3,)", zlib.crc32(text.encode())))
    save_file({"a": a}, tmp_path / "a", {"format": "pt", "retrograd.crc32": str(checksum), "retrograd": text})
    found = rg.load(tmp_path / "a")
    assert found["a"].tolist() == [0, 1, 2] and found["n"] == {1: 2}


def nested(depth):
    state = []
    for _ in range(depth):
        state = [state]
    return state


def test_what_is_nested_too_deeply_is_refused_when_it_is_saved(tmp_path):
    rg.save({"a": nested(90)}, tmp_path / "a")
    assert rg.load(tmp_path / "a") == {"a": nested(90)}
    endless = {}
    endless["again"] = endless
    for state in (nested(101), nested(100_000), endless):
        with pytest.raises(ValueError, match="nested more than 100 levels deep"):
            rg.save(state, tmp_path / "a")


@pytest.mark.parametrize("dtype", ["U3", "S3", "O", "M8[s]", "f4,f4", "g", "G"])
def test_arrays_of_dtypes_that_the_format_has_not_are_named(tmp_path, dtype):
    if np.dtype(dtype) in (np.float64, np.complex128):
        pytest.skip("long double is double on this platform")
    with pytest.raises(TypeError, match="a.b is an array of dtype"):
        rg.save({"a": {"b": np.zeros(2, dtype)}}, tmp_path / "a")
    assert not os.listdir(tmp_path)


@pytest.mark.slow
def test_more_text_than_readers_accept_is_refused_when_it_is_saved(tmp_path):
    with pytest.raises(
        ValueError, match="save: the names, numbers and strings are too long .*; convert long lists to Tensors"
    ):
        rg.save("." * 100_000_000, tmp_path / "a")
    assert not os.listdir(tmp_path)


def test_a_tensor_that_is_changed_while_it_is_written_is_no_saved_file(tmp_path, monkeypatch):
    rg.save({"a": rg.ones(3)}, tmp_path / "a")
    serialize, state = serialization.serialize, {"a": rg.zeros(3)}

    def change_and_serialize(*args):
        state["a"].array[1] = 5
        return serialize(*args)

    monkeypatch.setattr(serialization, "serialize", change_and_serialize)
    with pytest.raises(RuntimeError, match="changed while it was written"):
        rg.save(state, tmp_path / "a")
    assert rg.load(tmp_path / "a")["a"].tolist() == [1, 1, 1]


# ------------------------------------------------------------------------------------- foreign and hostile files


def write_raw(path, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def entry(dtype="F32", shape=(1,), offsets=(0, 4)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def structured(structure):
    """A header whose checksum is right, with four zeros as the Tensor a."""
    text = structure if isinstance(structure, str) else json.dumps(structure)
    checksum = zlib.crc32(bytes(4), zlib.crc32(b"a <f4 (1,)", zlib.crc32(text.encode())))
    return {"__metadata__": {"retrograd": text, "retrograd.crc32": str(checksum)}, "a": entry()}


HOSTILE = {
    "no-object": [1],
    "null": b"null",
    "no-json": b"{",
    "no-utf-8": b'{"a\xff": 1}',
    "deep": b"[" * 100_000 + b"]" * 100_000,
    "deep-entry": b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "long-number": b'{"a": ' + b"9" * 10_000 + b"}",
    "twice": b'{"a":' + json.dumps(entry()).encode() + b',"a":' + json.dumps(entry("U8", (4,))).encode() + b"}",
    "metadata-list": {"__metadata__": [1], "a": entry()},
    "metadata-number": {"__metadata__": {"n": 1}, "a": entry()},
    "metadata-structure": {"__metadata__": {"retrograd": {"a": 1}}, "a": entry()},
    "entry-number": {"a": 3},
    "entry-empty": {"a": {}},
    "dtype-unknown": {"a": entry("F8_E4M3", (4,))},
    "dtype-odd": {"a": entry("F", (4,))},
    "dtype-list": {"a": entry(["F32"])},
    "dtype-huge": {"a": entry("I99999999999999999999")},
    "shape-negative": {"a": entry(shape=(-1, -1))},
    "shape-float": {"a": entry(shape=(1.0,))},
    "shape-bool": {"a": entry(shape=(True,))},
    "shape-huge": {"a": entry(shape=(1 << 62, 1 << 62, 4))},
    "shape-beyond": {"a": entry(shape=(1 << 80,), offsets=(0, 1 << 82))},
    "shape-empty-huge": {"a": entry(shape=(1 << 62, 1 << 62, 0), offsets=(0, 0)), "b": entry()},
    "shape-65": {"a": entry(shape=(1,) * 65)},
    "shape-other": {"a": entry(shape=(2,))},
    "offsets-beyond": {"a": entry(offsets=(0, 8), shape=(2,))},
    "offsets-reversed": {"a": entry(offsets=(4, 0))},
    "offsets-hole": {"a": entry("U8", (1,), (0, 1)), "b": entry("U8", (1,), (3, 4))},
    "offsets-overlap": {"a": entry(), "b": entry()},
    "offsets-three": {"a": entry(offsets=(0, 2, 4))},
    "offsets-short": {"a": entry("U8", (3,), (0, 3))},
    "structure-no-json": structured("{"),
    "structure-deep": structured("[" * 100_000 + "]" * 100_000),
    "structure-deeper-than-unpack": structured("[" * 900 + "]" * 900),
    "structure-twice": structured('{"a": 1, "a": 2}'),
    "structure-unknown": structured({"$": "program", "name": "a"}),
    "structure-list-kind": structured({"$": ["tensor"]}),
    "structure-null-kind": structured({"$": None}),
    "structure-no-tensor": structured({"$": "tensor", "name": "b"}),
    "structure-no-name": structured({"$": "tensor"}),
    "structure-list-name": structured({"$": "array", "name": ["a"]}),
    "structure-items": structured({"$": "items", "items": 3}),
    "structure-items-odd": structured({"$": "items", "items": [[1, 2, 3]]}),
    "structure-items-key": structured({"$": "items", "items": [[[1], 2]]}),
    "structure-tuple": structured({"$": "tuple"}),
    "structure-same": structured({"$": "tensor", "name": "a", "same": "b"}),
    "structure-same-list": structured({"$": "tensor", "name": "a", "same": ["a"]}),
    "structure-view-of-itself": structured({"$": "tensor", "name": "a", "view": ["a", 0, [1]]}),
    "structure-view-outside": structured({"$": "tensor", "name": "a", "view": ["a", 1, [1]]}),
    "structure-view-before": structured({"$": "tensor", "name": "a", "view": ["a", -1, [1]]}),
    "structure-view-axes": structured({"$": "tensor", "name": "a", "view": ["a", 0, [1, 1]]}),
    "structure-view-of-none": structured({"$": "tensor", "name": "a", "view": ["b", 0, [1]]}),
    "structure-view-odd": structured([{"$": "tensor", "name": "a", "view": [0]}]),
    "checksum": {"__metadata__": {"retrograd.crc32": "x"}, "a": entry()},
    "surrogate": {"\ud800": entry()},
    "line-breaks": {"a": entry("\n\x1b[2J" * 1000)},
    "deep-unknown": json.dumps({"a": {**entry(), "b": 0}}).encode().replace(b": 0", b":" + b"[" * 10**5 + b"]" * 10**5),
}


@pytest.mark.parametrize("header", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_file_is_refused_in_one_line(tmp_path, header):
    if header == HOSTILE["structure-deeper-than-unpack"] and sys.version_info >= (3, 12):
        pytest.skip("Python reads lists of this depth")
    write_raw(tmp_path / "a.safetensors", header, bytes(4))
    with pytest.raises(CorruptFileError, match="a.safetensors: ") as caught:
        rg.load(tmp_path / "a.safetensors")
    assert str(caught.value).isprintable() and len(str(caught.value)) < 400
    assert ("checksum" in str(caught.value)) == (header == HOSTILE["checksum"])


def test_truth_values_are_0_or_1(tmp_path):
    write_raw(tmp_path / "a", {"a": entry("BOOL", (4,), (0, 4))}, b"\0\1\1\0")
    assert rg.load(tmp_path / "a")["a"].tolist() == [False, True, True, False]
    write_raw(tmp_path / "a", {"a": entry("BOOL", (4,), (0, 4))}, b"\0\1\2\0")
    with pytest.raises(CorruptFileError, match="booleans other than 0 and 1"):
        rg.load(tmp_path / "a")


@pytest.mark.parametrize("length", [0, 1, 5, 100_000_001, 2**63, 2**64 - 1])
def test_a_hostile_length_of_header_is_refused(tmp_path, length):
    (tmp_path / "a").write_bytes(length.to_bytes(8, "little") + b"{}  ")
    with pytest.raises(CorruptFileError, match="truncated or damaged"):
        rg.load(tmp_path / "a")


def test_a_foreign_file_is_a_dictionary_of_tensors(tmp_path):
    write_raw(tmp_path / "a", {"__metadata__": None, "x": entry()}, np.float32([7]).tobytes())
    assert_same(rg.load(tmp_path / "a"), {"x": rg.tensor([7.0])})
    write_raw(tmp_path / "a", {"__metadata__": {"by": "another"}, "b": entry(offsets=(4, 8)), "a": entry()}, bytes(8))
    assert set(rg.load(tmp_path / "a")) == {"a", "b"}
    write_raw(tmp_path / "a", {})
    assert rg.load(tmp_path / "a") == {}


# ------------------------------------------------------------------------------------- what is at the path

posix = pytest.mark.skipif(os.name != "posix", reason="POSIX files")


def permissions(path):
    return stat.S_IMODE(path.stat().st_mode)


@posix
def test_a_new_file_gets_its_mode_from_the_umask_and_keeps_it(tmp_path):
    path = tmp_path / "a"
    for mask, mode in ((0o022, 0o644), (0o077, 0o600), (0o002, 0o664)):
        before = os.umask(mask)
        try:
            rg.save({"a": rg.ones(1)}, path)
        finally:
            os.umask(before)
        assert permissions(path) == mode
        path.unlink()
    rg.save({"a": rg.ones(1)}, path)
    for mode in (0o600, 0o640, 0o664, 0o777):
        path.chmod(mode)
        rg.save({"a": rg.ones(1)}, path)
        assert permissions(path) == mode


@posix
def test_links_are_followed(tmp_path):
    (tmp_path / "runs").mkdir()
    target, link, dangling = tmp_path / "runs" / "1", tmp_path / "latest", tmp_path / "dangling"
    rg.save({"a": rg.zeros(1)}, target)
    link.symlink_to("runs/1")
    rg.save({"a": rg.ones(1)}, link)
    assert link.is_symlink() and rg.load(target)["a"].tolist() == [1.0]
    dangling.symlink_to("runs/2")
    rg.save({"a": rg.ones(1)}, dangling)
    assert dangling.is_symlink() and rg.load(tmp_path / "runs" / "2")["a"].tolist() == [1.0]
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    with pytest.raises(OSError, match="loop"):
        rg.save({"a": rg.ones(1)}, loop)


@posix
@pytest.mark.parametrize("kind", ["fifo", "folder", "socket", "device", "link"])
def test_what_is_no_regular_file_is_neither_replaced_nor_read(tmp_path, kind):
    path = tmp_path / kind
    if kind == "folder":
        path.mkdir()
    elif kind == "device":  # one of the test's own: a defect must not cost the machine its /dev/null
        try:
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        except PermissionError:
            pytest.skip("only the superuser makes devices")
    else:
        target = tmp_path / "target" if kind == "link" else path
        os.mknod(target, 0o666 | (stat.S_IFSOCK if kind == "socket" else stat.S_IFIFO))
        if kind == "link":
            path.symlink_to(target)
    before = path.stat()
    for action in (lambda path: rg.save({"a": rg.ones(1)}, path), rg.load):
        with pytest.raises(OSError, match=str(path)):
            action(path)
    assert path.stat() == before and not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]


@posix
def test_a_read_only_file_is_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "a"
    rg.save({"a": rg.ones(1)}, path)
    path.chmod(0o444)
    if os.geteuid() == 0:  # who may write everywhere
        monkeypatch.setattr(os, "access", lambda *args: False)
    with pytest.raises(PermissionError, match=str(path)):
        rg.save({"a": rg.zeros(1)}, path)
    assert rg.load(path)["a"].tolist() == [1.0] and os.listdir(tmp_path) == ["a"]


@pytest.mark.slow
@posix
def test_a_full_disk_is_an_error_that_names_the_file_and_leaves_the_old_one(tmp_path):
    path = tmp_path / "a"
    rg.save({"a": rg.ones(1)}, path)
    program = (
        "import resource, sys, retrograd as rg; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "try: rg.save({'a': rg.zeros(1_000_000)}, sys.argv[1])\n"
        "except OSError as error: print(error)"
    )
    said = subprocess.check_output([sys.executable, "-c", program, str(path)], text=True)
    assert said == f"[Errno {errno.EFBIG}] {os.strerror(errno.EFBIG)}: '{path}'\n"
    assert rg.load(path)["a"].tolist() == [1.0] and os.listdir(tmp_path) == ["a"]


linux = pytest.mark.skipif(sys.platform != "linux", reason="what Linux has")

LIMITED = """
import resource, sys, retrograd as rg
path, action, room = sys.argv[1], sys.argv[2], int(sys.argv[3])
rg.load(path + ".small")  # the libraries are there before the limit is
state = {"a": rg.zeros(1 << 28, dtype=rg.uint8)} if action == "save" else None
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + room, used + room))
try: rg.save(state, path) if action == "save" else rg.load(path)
except MemoryError as error: print(error)
"""


@pytest.mark.every(2)
@pytest.mark.slow
@linux
@pytest.mark.parametrize(
    ("action", "size", "room"),  # room for nothing, for some of the copies
    [
        ("load", 1 << 40, 1 << 32),
        ("load", 1 << 28, 3 << 27),
        ("save", 1 << 28, 1 << 27),
        ("save", 1 << 28, 3 << 27),
        ("save", 1 << 28, 5 << 27),
    ],
)
def test_too_little_memory_says_how_much_was_wanted(tmp_path, action, size, room):
    # The library itself would end the process, or raise what no `except Exception` catches.
    path = tmp_path / "a"
    rg.save({"a": rg.ones(1)}, tmp_path / "a.small")
    text = json.dumps({"a": entry("U8", (size,), (0, size))}).encode()
    if action == "load":
        with open(path, "wb") as file:  # a sparse file, which takes no space
            file.write(len(text).to_bytes(8, "little") + text)
            file.truncate(8 + len(text) + size)
        wanted = f"{path}: not enough memory for two copies of its {8 + len(text) + size:,} bytes\n"
    else:
        wanted = "save: not enough memory for copies of 268,435,4"
    command = [sys.executable, "-c", LIMITED, str(path), action, str(room)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.startswith(wanted) and done.stderr == "" and done.returncode == 0
    assert path.exists() == (action == "load")


@linux
def test_an_error_on_the_way_through_a_file_names_it():
    with pytest.raises(OSError, match="/proc/self/mem"):
        rg.load("/proc/self/mem")


def test_names_of_any_kind_can_be_saved_to(tmp_path):
    for name in ("n" * 255, "run[1].safetensors", "é漢", "line\nbreak", ".hidden", "a b*?"):
        for value in (1.0, 2.0):
            rg.save({"a": rg.tensor(value)}, tmp_path / name)
            assert rg.load(tmp_path / name)["a"].item() == value
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]


# ------------------------------------------------------------------------------------- several writers


@posix
def test_a_dead_writers_file_is_removed_and_a_living_ones_kept(tmp_path):
    program = (
        "import sys, time\nfrom retrograd.files import replacing\n"
        "with replacing(sys.argv[1]) as stream:\n    print('writing', flush=True)\n    time.sleep(60)"
    )
    path = tmp_path / "a"
    writers = [
        subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        assert [writer.stdout.readline() for writer in writers] == ["writing\n"] * 2
        others = [".a.notes.tmp", ".a.1.tmp", "a.tmp", ".a.b.1-0123456789abcdef.tmp"]
        for name in others:
            (tmp_path / name).write_text("of the user's")
        writers[0].kill()
        writers[0].wait()
        assert len(os.listdir(tmp_path)) == len(others) + 2
        rg.save({"a": rg.ones(1)}, path)
        left = set(os.listdir(tmp_path)) - {"a", *others}
        assert len(left) == 1 and f".{writers[1].pid}-" in left.pop()
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()
    rg.save({"a": rg.ones(1)}, path)
    assert set(os.listdir(tmp_path)) == {"a", *others}


def test_threads_may_save_to_one_path_at_once(tmp_path):
    path = tmp_path / "a"
    rg.save({"a": rg.ones(1000)}, path)

    def save(value):
        for _ in range(10):
            rg.save({"a": rg.full((1000,), value)}, path)
            found = rg.load(path)["a"]
            assert (found == found[0]).all()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(save, [1.0, 2.0, 3.0, 4.0]))
    assert os.listdir(tmp_path) == ["a"]


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_an_interrupt_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, step):
    path = tmp_path / "a"
    rg.save({"a": rg.ones(1)}, path)

    def interrupt(*args):
        raise KeyboardInterrupt

    @contextmanager
    def half_written(path):
        with replacing(path) as stream:
            stream.write(b"half")
            interrupt()
            yield stream

    if step == "write":
        monkeypatch.setattr("retrograd.serialization.replacing", half_written)
    else:
        monkeypatch.setattr(os, step, interrupt)
    with pytest.raises(KeyboardInterrupt):
        rg.save({"a": rg.zeros(1)}, path)
    assert rg.load(path)["a"].tolist() == [1.0] and os.listdir(tmp_path) == ["a"]


def test_a_state_dict_keeps_its_order(tmp_path):
    state = {f"{n}.weight": rg.ones(1) for n in (10, 2, 0, 1, 9, 8)}
    rg.save(state, tmp_path / "model.safetensors")
    assert list(rg.load(tmp_path / "model.safetensors")) == list(state)


def test_names_of_other_programs_files_come_in_alphabetical_order(tmp_path):
    numpy_files = pytest.importorskip("safetensors.numpy")
    numpy_files.save_file({name: np.ones(1) for name in "gcdaebf"}, tmp_path / "model.safetensors")
    assert list(rg.load(tmp_path / "model.safetensors")) == list("abcdefg")
