"""PyTorch's own files are read, and nothing in them is run; and files that PyTorch reads are written."""

from __future__ import annotations

import io
import pickle
import zipfile
from collections import OrderedDict
from importlib.util import find_spec

import numpy as np
import pytest

import retrograd as rg
from retrograd.compat.files import records
from retrograd.serialization import CorruptFileError

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

HAS_BFLOAT16 = find_spec("ml_dtypes") is not None
FORMS = [True, False]  # of PyTorch's: the zip archive, and the older sequence of pickles


def _saved(value, path, form):
    torch.save(value, path, _use_new_zipfile_serialization=form)
    return path


@pytest.mark.parametrize("form", FORMS)
def test_tensors_and_plain_containers_are_read(tmp_path, form):
    base = torch.arange(12.0).reshape(3, 4)
    value = {
        "model": torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3)).state_dict(),
        "view": base.T[1:, ::2],
        "base": base,
        "list": [1, 2.5, "a", None, True, (3, b"x"), {4}],
        7: OrderedDict(a=torch.tensor(3)),
        "size": torch.Size([2, 3]),
        "dtype": torch.float64,
        "device": torch.device("cpu"),
        "parameter": torch.nn.Parameter(torch.ones(2)),
        "empty": torch.zeros(0, 3),
        "requires": torch.ones(2, requires_grad=True),
    }
    found = rg.load(_saved(value, tmp_path / "a.pt", form))
    for name, tensor in value["model"].items():
        assert np.array_equal(found["model"][name].numpy(), tensor.numpy())
    assert found["view"].tolist() == value["view"].tolist() and found["list"] == value["list"]
    assert found[7]["a"].item() == 3 and found["size"] == (2, 3) and found["dtype"] == rg.float64
    assert isinstance(found["parameter"], rg.nn.Parameter) and found["empty"].shape == (0, 3)
    assert found["requires"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "dtype", ["float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64"]
)
def test_dtypes(tmp_path, form, dtype):
    tensor = torch.tensor([0, 1, 1, 0]).to(getattr(torch, dtype))
    found = rg.load(_saved([tensor], tmp_path / "a.pt", form))[0]
    assert found.dtype.name == (
        "float32" if dtype == "bfloat16" and not HAS_BFLOAT16 else dtype
    ) and found.tolist() == [0, 1, 1, 0]


@pytest.mark.parametrize("form", FORMS)
def test_an_optimizers_state_is_taken_over(tmp_path, form):
    parameter = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.Adam([parameter])
    parameter.sum().backward()
    optimizer.step()
    mine = rg.optim.Adam([rg.ones(2, requires_grad=True)])
    mine.load_state_dict(rg.load(_saved(optimizer.state_dict(), tmp_path / "a.pt", form)))
    assert mine.state_dict()["state"][0]["exp_avg"].tolist() == pytest.approx([0.1, 0.1])


@pytest.mark.parametrize("form", FORMS)
def test_streams_and_map_locations(tmp_path, form):
    stream = io.BytesIO()
    _saved({"a": torch.ones(2)}, stream, form)
    for place in (None, "cpu", rg.device("cpu"), {"cuda:0": "cpu"}, lambda storage, location: storage):
        stream.seek(0)
        assert rg.load(stream, map_location=place, weights_only=True)["a"].tolist() == [1.0, 1.0]


def test_our_own_files_in_streams():
    stream = io.BytesIO()
    rg.save({"a": rg.ones(2), "b": [1]}, stream)
    stream.seek(0)
    found = rg.load(stream, map_location=lambda storage, location: storage)
    assert found["a"].tolist() == [1.0, 1.0] and found["b"] == [1]


class _Call:
    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("form", FORMS)
def test_whatever_else_a_file_names_is_refused_before_it_is_called(tmp_path, form):
    import os

    touched = tmp_path / "touched"
    for harmful in (
        _Call(os.system, f"touch {touched}"),
        _Call(eval, f"open({str(touched)!r}, 'w')"),
        _Call(getattr, {}, "clear"),
        torch.nn.Linear(1, 1),
    ):
        with pytest.raises(pickle.UnpicklingError, match="neither a tensor nor a plain container"):
            rg.load(_saved({"a": harmful}, tmp_path / "a.pt", form))
    assert not touched.exists()


@pytest.mark.parametrize("state", [b"}X\x05\0\0\0numelK\x01s", b"N}X\x05\0\0\0numelK\x01s\x86"])
def test_a_file_cannot_set_attributes_of_what_it_names(tmp_path, state):
    path = _saved([torch.ones(1)], tmp_path / "a.pt", True)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    main = next(name for name in parts if name.endswith("data.pkl"))
    parts[main] = b"\x80\x02ctorch\nSize\n" + state + b"b."
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    with pytest.raises(CorruptFileError, match="sets attributes"):
        rg.load(path)
    assert rg.Size((2, 3)).numel() == 6


@pytest.mark.parametrize("form", FORMS)
def test_damage_is_noticed_and_never_crashes(tmp_path, form):
    path = _saved({"a": torch.arange(6.0), "b": [torch.ones(2, 2)]}, tmp_path / "a.pt", form)
    data = path.read_bytes()
    rng = np.random.default_rng(0)
    for length in range(0, len(data), 37):
        path.write_bytes(data[:length])
        with pytest.raises(CorruptFileError):
            rg.load(path)
    for position in rng.integers(0, len(data), 150):
        changed = bytearray(data)
        changed[position] ^= int(rng.integers(1, 256))
        path.write_bytes(changed)
        try:
            found = rg.load(path)
        except CorruptFileError:
            continue
        assert isinstance(found, (dict, list, tuple, str, int, float, bytes, set, type(None), rg.Tensor))


def test_a_tensor_that_reaches_beyond_its_storage_is_refused(tmp_path):
    path = _saved([torch.arange(6.0).reshape(2, 3)], tmp_path / "a.pt", True)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    main = next(name for name in parts if name.endswith("data.pkl"))
    assert b"K\x02K\x03\x86" in parts[main]
    parts[main] = parts[main].replace(b"K\x02K\x03\x86", b"K\x7fK\x03\x86")
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    with pytest.raises(CorruptFileError, match="exceeds its storage"):
        rg.load(path)


def test_files_one_after_the_other_in_a_stream_are_read_one_by_one():
    stream = io.BytesIO()
    stream.write(b"of the user's")
    for form in (True, False, True, True):
        torch.save({"a": torch.ones(2), "form": form}, stream, _use_new_zipfile_serialization=form)
        rg.save({"b": rg.zeros(3)}, stream)
    pickle.dump("last", stream)
    stream.seek(len(b"of the user's"))
    for form in (True, False, True, True):
        found = rg.load(stream)
        assert found["form"] is form and found["a"].tolist() == [1.0, 1.0]
        assert rg.load(stream)["b"].tolist() == [0.0, 0.0, 0.0]
    assert pickle.load(stream) == "last" and stream.read() == b""


@pytest.mark.parametrize("form", FORMS)
def test_tensors_that_share_memory_in_pytorch_share_it_here(tmp_path, form):
    base = torch.arange(6.0).reshape(2, 3)
    parameter = torch.nn.Parameter(torch.ones(2))
    value = {
        "base": base,
        "row": base[1],
        "t": base.T,
        "same": base,
        "p": parameter,
        "q": parameter,
        "d": parameter.data,
    }
    found = rg.load(_saved(value, tmp_path / "a.pt", form))
    assert found["same"] is found["base"] and found["q"] is found["p"]
    loss = (found["p"] ** 2).sum()
    found["base"][1, 2] = 9.0
    found["d"][0] = 7.0
    assert found["row"][2] == found["t"][2, 1] == 9.0 and found["p"].tolist() == [7.0, 1.0]
    loss.backward()
    assert found["p"].grad.tolist() == [2.0, 2.0]  # of what was saved, not of what was written since


def test_dtypes_that_only_new_tensors_have_and_attributes_are_read(tmp_path):
    tensor, parameter = torch.ones(2), torch.nn.Parameter(torch.ones(1))
    tensor.note, parameter.scale = "kept", 3
    value = [tensor, parameter, torch.arange(3).to(torch.uint16), torch.nn.Buffer(torch.ones(2), persistent=False)]
    found = rg.load(_saved(value, tmp_path / "a.pt", True))
    assert (
        found[0].note == "kept"
        and found[1].scale == 3
        and found[2].dtype == np.uint16
        and found[2].tolist() == [0, 1, 2]
    )
    assert isinstance(found[3], rg.nn.Buffer) and found[3].persistent is False


@pytest.mark.parametrize("form", FORMS)
def test_empty_tensors_of_two_dtypes_may_share_their_memory(tmp_path, form):
    empty = torch.zeros(0, dtype=torch.complex64)
    found = rg.load(_saved([empty, torch.view_as_real(empty)], tmp_path / "a.pt", form))
    assert [(x.dtype, tuple(x.shape)) for x in found] == [(rg.complex64, (0,)), (rg.float32, (0, 2))]


def test_bfloat16_is_read_as_float32_where_its_library_is_missing(tmp_path, monkeypatch):
    base = torch.tensor([1.0, -2.5, 3.0], dtype=torch.bfloat16)
    for form in FORMS:
        path = _saved([base, base[1:]], tmp_path / f"{form}.pt", form)
        monkeypatch.setattr(records, "bfloat16_or_none", lambda: None)
        found = rg.load(path)
        assert found[0].dtype == rg.float32 and found[0].tolist() == [1.0, -2.5, 3.0]
        found[0][2] = 7.0
        assert found[1].tolist() == [-2.5, 7.0]


def test_tensors_go_where_map_location_says(tmp_path):
    from tests.helpers.guarded import guarded_backend

    _saved([x := torch.arange(4.0), x[1:]], tmp_path / "a.pt", True)
    with guarded_backend():
        for place in ("cuda", {"cpu": "cuda"}):
            found = rg.load(tmp_path / "a.pt", map_location=place)
            assert found[0].is_cuda and found[1].tolist() == [1.0, 2.0, 3.0]
            found[0][1] = 9.0
            assert found[1][0] == 9.0
        rg.save({"a": found[0], "b": found[1]}, tmp_path / "b.pt")
    seen = []
    found = rg.load(tmp_path / "b.pt", map_location=lambda storage, location: seen.append(location) or storage)
    assert seen == ["cuda:0"] and found["b"].tolist() == [9.0, 2.0, 3.0]
    with pytest.raises(ZeroDivisionError):  # of the user's, not of the file's
        rg.load(tmp_path / "b.pt", map_location=lambda storage, location: 1 / 0)


def _sparse_tensors(library):
    dense = library.tensor([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]])
    return {
        "rows": dense.to_sparse_csr(),
        "columns": dense.to_sparse_csc(),
        "coordinates": dense.to_sparse(),
        "blocks": library.ones(2, 3, 2).to_sparse(2),
        "twice": library.sparse_coo_tensor(library.tensor([[0, 0], [1, 1]]), library.ones(2), (2, 2)),
        "empty": library.zeros(2, 3).to_sparse(),
        "layouts": [library.strided, library.sparse_coo],
    }


@pytest.mark.filterwarnings("ignore:Sparse")
def test_sparse_tensors_are_exchanged_with_pytorch_in_their_layouts(tmp_path):
    ours, theirs = _sparse_tensors(rg), _sparse_tensors(torch)
    rg.save(ours, tmp_path / "ours.pt")
    for found in (
        torch.load(tmp_path / "ours.pt", weights_only=True),
        rg.load(tmp_path / "ours.pt"),
        rg.load(_saved(theirs, tmp_path / "theirs.pt", True)),
    ):
        assert str(found.pop("layouts")) == str(theirs["layouts"])
        for name, read in found.items():
            written = theirs[name]
            assert str(read.layout) == str(written.layout) and read.to_dense().tolist() == written.to_dense().tolist()
            if name not in ("rows", "columns"):
                assert read.is_coalesced() == written.is_coalesced() and read._nnz() == written._nnz()
    with pytest.raises(CorruptFileError, match=r"before 1\.6"):
        rg.load(_saved(theirs, tmp_path / "theirs.pt", False))


@pytest.mark.parametrize(
    ("layout", "parts", "message"),
    [
        ("sparse_coo", ([[0, 2], [1, 0]], [1.0, 2.0], (2, 2)), "outside of dimension 0"),
        ("sparse_coo", ([[0], [1]], [1.0, 2.0], (2, 2)), "expected indices"),
        ("sparse_coo", ([[1, 0], [1, 0]], [1.0, 2.0], (2, 2), True), "not in order"),
        ("sparse_csr", ([0, 1, 3], [1, 0], [1.0, 2.0], (2, 2)), "expected crow_indices to increase from 0"),
        ("sparse_csr", ([0, 1, 2], [1, 0], (2, 2)), "without indices, values and a size"),
        ("sparse_bsr", ([0, 1, 2], [1, 0], [1.0, 2.0], (2, 2)), "which is not supported"),
        ("strided", (), "which is not supported"),
        ("dense", (), "an unknown layout"),
    ],
)
def test_a_sparse_tensor_whose_parts_do_not_fit_is_refused(layout, parts, message):
    parts = tuple(rg.tensor(part) if isinstance(part, list) else part for part in parts)
    with pytest.raises(CorruptFileError, match=message):
        records.rebuilt_sparse(records.layout_named(f"torch.{layout}"), parts)


def test_a_stream_that_cannot_seek_is_read(tmp_path):
    path = _saved({"a": torch.ones(2)}, tmp_path / "a.pt", True)

    class Pipe(io.BytesIO):
        def seekable(self):
            return False

        def seek(self, *place):
            raise io.UnsupportedOperation("seek")

    assert rg.load(Pipe(path.read_bytes()))["a"].tolist() == [1.0, 1.0]


# What is written


NAMES_OF_DTYPES = (
    "float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64", "complex128",
)  # fmt: skip


def everything():
    base, parameter = rg.arange(12.0).reshape(3, 4), rg.nn.Parameter(rg.ones(2))
    dtypes = {name: rg.tensor([0, 1, 1]).to(getattr(rg, name)) for name in NAMES_OF_DTYPES}
    if HAS_BFLOAT16:
        dtypes["bfloat16"] = rg.tensor([1.5, -2.0], dtype=rg.bfloat16)
    pairs = rg.tensor([1 + 2j, 3j])
    return {
        **dtypes,
        "base": base, "t": base.T, "column": base[:, 1], "step": base[::2, 1:], "same": base, "all": base.reshape(-1),
        "expanded": rg.ones(1).expand(2, 3), "0-d": rg.tensor(3), "empty": rg.zeros(0, 3), "p": parameter,
        "q": parameter, "d": parameter.detach(), "leaf": rg.ones(2, requires_grad=True),
        "result": rg.ones(2, requires_grad=True) * 2,
        "pairs": pairs, "parts": rg.view_as_real(pairs), "u2": rg.from_numpy(np.arange(3, dtype=np.uint16)),
        "buffer": rg.nn.Buffer(rg.ones(2)), "backwards": rg.from_numpy(np.arange(3.0)[::-1]),
    }  # fmt: skip


PLAIN = {
    "od": OrderedDict(b=1, a=2.5), "list": [1, -(2**70), "é\ud800", None, True, (3, b"x"), {4}, [], {}, ()],
    7: {2.5: "a"},
    "numbers": [float("inf"), -0.0, 1j, 10**400], "bytes": bytearray(b"a"),
}  # fmt: skip


def test_pytorch_loads_what_is_written_with_views_ties_and_dtypes(tmp_path):
    state = everything()
    rg.save({"tensors": state, "plain": PLAIN, "size": rg.Size([2]), "dtype": rg.float32}, tmp_path / "a.pt")
    theirs, ours = torch.load(tmp_path / "a.pt", weights_only=True), rg.load(tmp_path / "a.pt")
    assert theirs["plain"] == ours["plain"] == PLAIN and type(theirs["plain"]["od"]) is OrderedDict
    assert type(theirs["size"]) is torch.Size and type(ours["size"]) is rg.Size
    assert theirs["dtype"] is torch.float32 and ours["dtype"] == rg.float32
    for name, tensor in state.items():
        for found in (theirs["tensors"][name], ours["tensors"][name]):
            assert found.tolist() == tensor.tolist() and tuple(found.shape) == tuple(tensor.shape), name
            assert str(found.dtype).rpartition(".")[2] == tensor.dtype.name, name
            assert found.requires_grad == tensor.requires_grad and found.is_leaf, name
            if name != "backwards" and tensor.numel():
                assert tuple(found.stride()) == tuple(tensor.stride()), name
    for found, no_grad in ((theirs["tensors"], torch.no_grad), (ours["tensors"], rg.no_grad)):
        assert found["same"] is found["base"] and found["p"] is found["q"]
        found["base"][0, 1] = 99
        assert found["t"][1, 0] == found["column"][0] == found["step"][0, 0] == found["all"][1] == 99
        with no_grad():
            found["p"][0] = 5
        assert found["d"][0] == 5
        found["pairs"][0] = 7
        assert found["parts"][0].tolist() == [7.0, 0.0]
    assert isinstance(theirs["tensors"]["p"], torch.nn.Parameter) and theirs["tensors"]["buffer"]._is_buffer


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".bin"])
def test_a_training_goes_on_in_pytorch_from_its_written_state(tmp_path, suffix):
    def run(library, model, optimizer):
        for _ in range(3):
            optimizer.zero_grad()
            model(library.ones(4, 2)).pow(2).sum().backward()
            optimizer.step()

    ours = rg.nn.Sequential(rg.nn.Linear(2, 3), rg.nn.Tanh(), rg.nn.Linear(3, 1))
    optimizer = rg.optim.AdamW(ours.parameters(), lr=0.1)
    run(rg, ours, optimizer)
    path = tmp_path / f"a{suffix}"
    rg.save({"model": ours.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, path)
    theirs = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    their_optimizer = torch.optim.AdamW(theirs.parameters(), lr=0.1)
    loaded = torch.load(path, weights_only=True)
    theirs.load_state_dict(loaded["model"])
    their_optimizer.load_state_dict(loaded["optimizer"])
    run(rg, ours, optimizer)
    run(torch, theirs, their_optimizer)
    for name, value in ours.state_dict().items():
        np.testing.assert_allclose(value.numpy(), theirs.state_dict()[name].numpy(), rtol=1e-5)


def test_written_archives_are_mapped_by_pytorch_and_whole_to_other_readers(tmp_path):
    rg.save({"a": rg.arange(5.0), "b": rg.ones(3, dtype=rg.int8)}, tmp_path / "a.pt")
    assert torch.load(tmp_path / "a.pt", mmap=True, weights_only=True)["a"].tolist() == [0, 1, 2, 3, 4]
    with zipfile.ZipFile(tmp_path / "a.pt") as archive:
        assert archive.testzip() is None
        for entry in archive.infolist():
            with open(tmp_path / "a.pt", "rb") as file:
                file.seek(entry.header_offset + 28)
                place = entry.header_offset + 30 + len(entry.filename) + int.from_bytes(file.read(2), "little")
            assert place % 64 == 0


@pytest.mark.parametrize(("large", "many"), [(300, 3), (1 << 32, 3), (300, 1 << 16)])
def test_archives_with_64_bit_numbers_are_read_by_all(tmp_path, monkeypatch, large, many):
    monkeypatch.setattr(records, "_LARGE", large)
    monkeypatch.setattr(records, "_MANY", many)
    state = {"a": rg.arange(100.0), "b": rg.ones(2), "c": rg.arange(90)}
    rg.save(state, tmp_path / "a.pt")
    with zipfile.ZipFile(tmp_path / "a.pt") as archive:
        assert archive.testzip() is None and len(archive.namelist()) == 6
    for found in (rg.load(tmp_path / "a.pt"), torch.load(tmp_path / "a.pt", weights_only=True)):
        assert all(found[name].tolist() == value.tolist() for name, value in state.items())
    stream = io.BytesIO((tmp_path / "a.pt").read_bytes() * 2)
    assert rg.load(stream)["b"].tolist() == rg.load(stream)["b"].tolist() == [1.0, 1.0] and stream.read() == b""


def test_numpys_arrays_are_written_as_pytorch_writes_them_and_read_native(tmp_path):
    value = {"a": np.arange(6, dtype=">f4").reshape(2, 3).T, "b": np.float32(2), "c": np.array(["x", "yz"])}
    rg.save(value, tmp_path / "a.pt")
    for found in (rg.load(tmp_path / "a.pt"), torch.load(tmp_path / "a.pt", weights_only=False)):
        assert np.array_equal(found["a"], value["a"]) and found["a"].dtype == np.float32
        assert found["b"] == 2 and type(found["b"]) is np.float32 and found["c"].tolist() == ["x", "yz"]


@pytest.mark.parametrize(
    ("state", "message"),
    [
        (rg.nn.Linear(1, 1), "the state is a Linear.*state_dict"),
        ({"a": [rg.ones(1), {"b": object()}]}, "a.1.b is a object"),
        ({"a": rg.sum}, "a is a function"),
        ({"a": {"b": rg.from_numpy(np.ones(1, np.longdouble))}}, "a.b has dtype"),
        ({"a": np.array([None])}, "a is a ndarray"),
    ],
)
def test_what_cannot_be_written_is_named_and_leaves_the_old_file(tmp_path, state, message):
    rg.save([1], tmp_path / "a.pt")
    with pytest.raises(TypeError, match=message):
        rg.save(state, tmp_path / "a.pt")
    assert rg.load(tmp_path / "a.pt") == [1] and len(list(tmp_path.iterdir())) == 1


def test_a_stream_without_a_buffer_gets_the_whole_file():
    class Slow(io.RawIOBase):
        def __init__(self):
            self.content = b""

        def writable(self):
            return True

        def write(self, data):
            self.content += bytes(data[:100])
            return min(len(data), 100)

    slow = Slow()
    rg.save({"a": rg.arange(100.0)}, slow)
    assert rg.load(io.BytesIO(slow.content))["a"].tolist() == list(range(100))


def test_every_truncation_and_every_damaged_byte_of_an_archive_is_noticed_or_does_not_matter(tmp_path):
    rg.save({"a": rg.arange(4.0), "b": [1, rg.ones(1)]}, tmp_path / "a.pt")
    data = (tmp_path / "a.pt").read_bytes()
    for length in range(len(data)):
        with pytest.raises(CorruptFileError):
            rg.load(io.BytesIO(data[:length]))
    for position in range(len(data)):
        for bit in (1, 16):
            changed = bytearray(data)
            changed[position] ^= bit
            try:
                found = rg.load(io.BytesIO(changed))
            except CorruptFileError:
                continue
            assert (
                found["a"].tolist() == [0.0, 1.0, 2.0, 3.0] and found["b"][0] == 1 and found["b"][1].tolist() == [1.0]
            )
