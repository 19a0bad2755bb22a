"""The named data sets: found, downloaded, verified, and refused when damaged."""

import gzip
import hashlib
import http.server
import io
import os
import signal
import subprocess
import sys
import textwrap
import threading
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest

import retrograd.data as data
from retrograd.data import DataCorrupt, DataUnavailable, download, named
from retrograd.data.download import RemoteFile, read

TEXT = b"To be, or not to be: that is the question." * 400


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """The data folder and the cache folder, empty."""
    monkeypatch.setenv("RETROGRAD_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(download, "cache_folder", lambda: tmp_path / "cache")
    return tmp_path / "data", tmp_path / "cache"


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)


@pytest.fixture
def server(tmp_path):
    """A web server on this machine: (the address, the files it offers)."""
    offered: dict[str, bytes] = {}
    lengths: dict[str, int] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            content = offered.get(self.path)
            if content is None:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(lengths.get(self.path, len(content))))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as served:
        thread = threading.Thread(target=served.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{served.server_port}", offered, lengths
        served.shutdown()
        thread.join()


def remote(*urls, name="folder/text.txt", content=TEXT):
    return RemoteFile(
        name, urls or ("http://nowhere.invalid/text.txt",), len(content), hashlib.sha256(content).hexdigest()
    )


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


# ---------------------------------------------------------------------------------------------------- local files


def test_files_are_found_compressed_or_not_in_either_folder(folders, no_network):
    for folder in folders:
        for suffix, content in ((".gz", gzip.compress(TEXT)), ("", TEXT)):
            path = put(folder / f"folder/text.txt{suffix}", content)
            assert read(remote()) == TEXT
            path.unlink()


def test_the_named_folder_comes_first(folders, no_network):
    put(folders[0] / "folder/text.txt", TEXT)
    put(folders[1] / "folder/text.txt", b"damaged")
    assert read(remote()) == TEXT


@pytest.mark.parametrize(
    "damage",
    [
        lambda stored: stored[:-1],
        lambda stored: stored[: len(stored) // 2],
        lambda stored: b"",
        lambda stored: stored[:40] + bytes([stored[40] ^ 1]) + stored[41:],
        lambda stored: stored + b"more",
        lambda stored: gzip.compress(TEXT[:-1]),
        lambda stored: gzip.compress(TEXT + b"."),
        lambda stored: gzip.compress(TEXT.replace(b"question", b"Question", 1)),
        lambda stored: b"<html>Log in to this network</html>",
    ],
    ids=["byte-lost", "half-lost", "empty", "bit-flipped", "appended", "shorter", "longer", "changed", "another"],
)
def test_damaged_files_are_refused(folders, no_network, damage):
    path = put(folders[0] / "folder/text.txt.gz", damage(gzip.compress(TEXT)))
    with pytest.raises(DataCorrupt, match="is corrupt") as caught:
        read(remote())
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [TEXT[:-1], TEXT + b".", TEXT.swapcase(), b""])
def test_damaged_uncompressed_files_are_refused(folders, no_network, content):
    put(folders[0] / "folder/text.txt", content)
    with pytest.raises(DataCorrupt):
        read(remote())


def test_without_network_one_line_says_what_to_do(folders, no_network):
    for load in (data.mnist, data.fashion_mnist, data.shakespeare, data.names):
        for allowed in (True, False):
            with pytest.raises(DataUnavailable) as caught:
                load(download=allowed)
            text = str(caught.value)
            assert "\n" not in text and "http" in text and "save it" in text
            assert str(folders[0]) in text and str(folders[1]) in text
            assert ("no network" in text) == allowed
    assert not folders[1].exists()


def test_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data.cache_folder() == tmp_path / "retrograd"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # the standard says to ignore it
    assert data.cache_folder() == Path.home() / ".cache" / "retrograd"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert data.cache_folder() == Path.home() / "Library" / "Caches" / "retrograd"


# ---------------------------------------------------------------------------------------------------- downloads


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_download_is_verified_kept_and_found_again(folders, server, suffix, monkeypatch):
    address, offered, _ = server
    stored = gzip.compress(TEXT) if suffix else TEXT
    offered[f"/text.txt{suffix}"] = stored
    file = remote(f"{address}/text.txt{suffix}")
    calls = []
    assert read(file, progress=lambda *call: calls.append(call)) == TEXT
    assert calls[-1] == ("text.txt", len(stored), len(stored))
    assert [path.name for path in (folders[1] / "folder").iterdir()] == [f"text.txt{suffix}"]
    offered.clear()
    assert read(file) == TEXT


def test_the_next_mirror_is_tried(folders, server):
    address, offered, lengths = server
    offered.update({"/wrong": TEXT.swapcase(), "/short": TEXT[:-5], "/right": TEXT})
    lengths["/short"] = len(TEXT)
    file = remote(f"{address}/missing", f"{address}/wrong", f"{address}/short", f"{address}/right")
    assert read(file) == TEXT


@pytest.mark.parametrize("fault", ["missing", "wrong", "short", "long"])
def test_a_bad_download_is_never_kept(folders, server, fault):
    address, offered, lengths = server
    offered.update({"/wrong": TEXT.swapcase(), "/short": TEXT[:-5], "/long": TEXT * 20})
    lengths["/short"] = len(TEXT)
    with pytest.raises(DataUnavailable, match="could not be downloaded") as caught:
        read(remote(f"{address}/{fault}"))
    assert "\n" not in str(caught.value)
    assert not folders[1].exists()


def test_the_sum_of_the_download_is_checked(folders, server):
    address, offered, _ = server
    offered["/text.txt"] = TEXT
    sums = {"right": hashlib.md5(TEXT).hexdigest(), "wrong": "0" * 32}
    files = {
        name: RemoteFile("text.txt", (f"{address}/text.txt",), len(TEXT), md5_of_download=md5)
        for name, md5 in sums.items()
    }
    with pytest.raises(DataUnavailable, match="MD5"):
        read(files["wrong"])
    assert read(files["right"]) == TEXT


def test_an_unwritable_cache_is_one_line(folders, server):
    address, offered, _ = server
    offered["/text.txt"] = TEXT
    put(folders[1], b"a file where the folder should be")
    with pytest.raises(DataUnavailable, match="cannot be written") as caught:
        read(remote(f"{address}/text.txt"))
    assert "\n" not in str(caught.value)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = put(tmp_path / "file", b"old")

    def full(*args):
        raise OSError(28, "No space left on device")

    for step in ("fsync", "replace"):
        with monkeypatch.context() as patched:
            patched.setattr(os, step, full)
            with pytest.raises(OSError, match="No space"):
                download.write_atomically(path, b"new")
        assert path.read_bytes() == b"old"
        assert list(tmp_path.iterdir()) == [path]
    download.write_atomically(path, b"new")
    assert path.read_bytes() == b"new"


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL on this platform")
@pytest.mark.parametrize("step", ["progress", "fsync", "replace"])
def test_a_kill_during_a_download_leaves_no_file_of_that_name(tmp_path, server, step):
    address, offered, _ = server
    content = bytes(300_000)
    offered["/zeros"] = content
    program = textwrap.dedent(
        f"""
        import os, signal
        from pathlib import Path
        from retrograd.data import download
        die = lambda *args: os.kill(os.getpid(), signal.SIGKILL)
        download.cache_folder = lambda: Path({str(tmp_path)!r})
        if {step!r} != "progress":
            setattr(os, {step!r}, die)
        file = download.RemoteFile("zeros", ({address + "/zeros"!r},), {len(content)})
        download.read(file, progress=die if {step!r} == "progress" else None)
        """
    )
    environment = {name: value for name, value in os.environ.items() if name != "RETROGRAD_DATA"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, timeout=60)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert not (tmp_path / "zeros").exists()
    offered_file = RemoteFile("zeros", (f"{address}/zeros",), len(content))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(download, "cache_folder", lambda: tmp_path)
        patched.delenv("RETROGRAD_DATA", raising=False)
        assert read(offered_file) == content


# ---------------------------------------------------------------------------------------------------- IDX


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape) + array.tobytes()


def test_idx():
    array = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)
    file = named._IdxFile("test", array.shape)
    assert file.problem(idx(array)) is None
    np.testing.assert_array_equal(file.array(idx(array)), array)
    assert file.array(idx(array)).flags.writeable


@pytest.mark.parametrize(
    "content",
    [
        idx(np.zeros((2, 3, 4), np.uint8))[:-1],
        idx(np.zeros((2, 3, 4), np.uint8)) + b"\0",
        idx(np.zeros((2, 4, 3), np.uint8)),
        idx(np.zeros((24,), np.uint8)),
        b"\0\0\x0d\3" + idx(np.zeros((2, 3, 4), np.uint8))[4:],
        b"\1" + idx(np.zeros((2, 3, 4), np.uint8))[1:],
        idx(np.zeros((2, 3, 4), np.uint8))[:7],
        b"",
    ],
    ids=["short", "long", "transposed", "flat", "floats", "magic", "header", "empty"],
)
def test_idx_of_another_form_is_refused(content):
    assert "IDX" in named._IdxFile("test", (2, 3, 4)).problem(content)


@pytest.fixture
def small_fashion(folders, no_network, monkeypatch):
    """Fashion-MNIST in small, in the data folder."""
    generator = np.random.default_rng(0)
    arrays = [
        generator.integers(256, size=(6, 28, 28), dtype=np.uint8),
        generator.integers(10, size=6, dtype=np.uint8),
        generator.integers(256, size=(3, 28, 28), dtype=np.uint8),
        generator.integers(10, size=3, dtype=np.uint8),
    ]
    files = tuple(f._replace(shape=a.shape) for f, a in zip(named._IDX_FILES, arrays))
    monkeypatch.setattr(named, "_IDX_FILES", files)
    monkeypatch.setattr(named, "_FASHION_MNIST", tuple(file.remote("fashion_mnist", ("http://x/",)) for file in files))
    paths = [put(folders[0] / f"fashion_mnist/{f.name}.gz", gzip.compress(idx(a))) for f, a in zip(files, arrays)]
    return arrays, paths


def test_fashion_mnist_from_files(small_fashion):
    arrays, _ = small_fashion
    images = data.fashion_mnist()
    for found, expected in zip(images, arrays):
        np.testing.assert_array_equal(found, expected)
    assert images.train_images.dtype == np.uint8 and images.train_labels.dtype == np.int64


def test_fashion_mnist_refuses_labels_and_truncation(small_fashion):
    arrays, paths = small_fashion
    good = paths[3].read_bytes()
    labels = arrays[3].copy()
    labels[1] = 10
    put(paths[3], gzip.compress(idx(labels)))
    with pytest.raises(DataCorrupt, match="labels above 9"):
        data.fashion_mnist()
    put(paths[3], good)
    put(paths[0], gzip.compress(idx(arrays[0])[:-1]))
    with pytest.raises(DataCorrupt, match="bytes"):
        data.fashion_mnist()


def test_fashion_mnist_from_decompressed_files(small_fashion):
    arrays, paths = small_fashion
    for path in paths:
        path.unlink()
    paths = [put(path.with_suffix(""), idx(array)) for path, array in zip(paths, arrays)]
    for found, expected in zip(data.fashion_mnist(), arrays):
        np.testing.assert_array_equal(found, expected)
    for path in paths:
        good = path.read_bytes()
        transposed = good[:4] + good[8:12] + good[4:8] + good[12:]
        for bad in (good[:-1], good + b"\0", b"\1" + good[1:], transposed, b"", good[:6]):
            path.write_bytes(bad)
            with pytest.raises(DataCorrupt, match=f"^{path} is corrupt") as caught:
                data.fashion_mnist()
            assert "\n" not in str(caught.value)
        path.write_bytes(good)
    put(paths[1], good[:-1] + b"\x0a")
    with pytest.raises(DataCorrupt, match=f"^{paths[1]} is corrupt"):
        data.fashion_mnist()


def test_downloads_that_are_not_idx_are_never_kept(folders, server):
    address, offered, _ = server
    file = named._IdxFile("test", (2,)).remote("folder", (f"{address}/",))
    offered["/test.gz"] = gzip.compress(idx(np.array([[1, 2]], np.uint8))[:10])
    with pytest.raises(DataUnavailable, match="IDX"):
        read(file)
    assert not folders[1].exists()
    offered["/test.gz"] = gzip.compress(idx(np.array([1, 2], np.uint8)))
    assert read(file) == idx(np.array([1, 2], np.uint8))


@pytest.mark.skipif(os.name != "posix", reason="the umask")
def test_a_download_may_be_read_by_whom_the_umask_lets(tmp_path):
    before = os.umask(0o022)
    try:
        download.write_atomically(tmp_path / "file", b"content")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o644


# ---------------------------------------------------------------------------------------------------- the real ones


def test_housing_is_shipped_and_exact(folders, no_network):
    housing = data.housing()
    table = np.column_stack([housing.features, housing.target])
    assert table.dtype == np.float64 and table.shape == (20640, 9)
    assert hashlib.sha256(table.astype("<f8").tobytes()).hexdigest() == (
        "dfc7196b549ceb93965f28d3f7ccebe691dd64f824df83055fad5dd58e1c15cd"
    )
    assert housing.feature_names == data.HOUSING_COLUMNS[:8]
    housing.features[:] = 0  # the caller's own
    assert data.housing().features[0, 0] == 8.3252


def test_damaged_housing_is_refused(tmp_path, monkeypatch):
    good = named._HOUSING_FILE.read_bytes()
    with np.load(io.BytesIO(good)) as archive:
        table = archive["table"]
    table[7, 3] = np.nextafter(table[7, 3], 9)
    altered = io.BytesIO()
    np.savez_compressed(altered, table=table)
    flipped = bytearray(good)
    flipped[len(good) // 2] ^= 1
    for content in (good[:-30], bytes(flipped), b"", altered.getvalue()):
        monkeypatch.setattr(named, "_HOUSING_FILE", put(tmp_path / "housing.npz", content))
        with pytest.raises(DataCorrupt, match="install retrograd again"):
            data.housing()


real = pytest.mark.skipif("RETROGRAD_DATA" not in os.environ, reason="RETROGRAD_DATA names no folder with the files")


@real
def test_mnist(no_network):
    images = data.mnist()
    assert [array.shape for array in images] == [(60000, 28, 28), (60000,), (10000, 28, 28), (10000,)]
    assert images.train_labels[:5].tolist() == [5, 0, 4, 1, 9]
    assert np.bincount(images.test_labels).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


@real
def test_texts(no_network):
    text, names = data.shakespeare(), data.names()
    assert len(text) == 1_115_394 and len(set(text)) == 65 and text.startswith("First Citizen:")
    assert len(names) == 32_033 and names[0] == "emma" and names[-1] == "zzyzx"
    assert len(set("".join(names))) == 26


def test_utils_data_is_the_same():
    import retrograd.utils.data as utils_data

    assert utils_data.DataLoader is data.DataLoader
    assert set(utils_data.__all__) == set(data.__all__)
