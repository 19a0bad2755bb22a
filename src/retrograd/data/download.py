"""Find, download and verify the files of the named data sets."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..files import replacing

Progress = Callable[[str, int, int | None], None]
"""Called during a download with the file's name, the bytes received so far, and the total if it is known."""

_CHUNK = 1 << 16
_SECONDS_WITHOUT_AN_ANSWER = 30


class DataError(RuntimeError):
    """A named data set is not available. The message is one line that says what to do."""


class DataUnavailable(DataError):
    """A file is not on this machine and could not be downloaded."""


class DataCorrupt(DataError):
    """A file is damaged, truncated or not the expected file. Corrupt files are never used."""


@dataclass(frozen=True)
class RemoteFile:
    """A file of a data set: its path, its URLs, and the expected content.

    ``size`` and ``sha256`` describe the decompressed bytes. ``md5_of_download`` is for mirrors that publish no other
    checksum, and is not checked for local files, which may have been decompressed or compressed again. ``problem``
    takes decompressed bytes of the right size and returns what is wrong with them, or None.
    """

    path: str
    urls: tuple[str, ...]
    size: int
    sha256: str | None = None
    md5_of_download: str | None = None
    problem: Callable[[bytes], str | None] | None = None


def cache_folder() -> Path:
    """The folder of downloads: the platform's cache folder, on Linux ``retrograd`` in ``XDG_CACHE_HOME``."""
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return Path(local or _home() / "AppData" / "Local") / "retrograd" / "Cache"
    if sys.platform == "darwin":
        return _home() / "Library" / "Caches" / "retrograd"
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(xdg) if os.path.isabs(xdg) else _home() / ".cache") / "retrograd"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        raise DataUnavailable(
            "this user has no home folder for downloads; set RETROGRAD_DATA or XDG_CACHE_HOME"
        ) from None


def data_folders() -> list[Path]:
    """The folders to search: the one that ``RETROGRAD_DATA`` names, if set, then the cache folder."""
    named = os.environ.get("RETROGRAD_DATA")
    if not named:
        return [cache_folder()]
    with contextlib.suppress(DataUnavailable):
        return [Path(named), cache_folder()]
    return [Path(named)]


def read(file: RemoteFile, download: bool = True, progress: Progress | None = None) -> bytes:
    """Return the verified, decompressed content of a local file, or of a download if ``download`` is true."""
    for folder in data_folders():
        for path in (folder / f"{file.path}.gz", folder / file.path):
            if path.is_file():
                return _read_local(file, path)
    if not download:
        raise DataUnavailable(_advice(file, "is not on this machine"))
    return _download(file, progress)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file atomically and durably: after a crash or power failure it is complete or absent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as stream:
        stream.write(content)


def _read_local(file: RemoteFile, path: Path) -> bytes:
    try:
        stored = path.read_bytes()
    except OSError as error:
        raise DataUnavailable(f"{path} cannot be read: {error.strerror}") from error
    try:
        return _verified(file, stored, compressed=path.suffix == ".gz")
    except DataCorrupt as error:
        raise DataCorrupt(f"{path} {error}; delete it to download it again") from error


def _verified(file: RemoteFile, stored: bytes, compressed: bool) -> bytes:
    content = stored
    if compressed:
        try:
            with gzip.open(io.BytesIO(stored)) as stream:
                # Read one byte more than expected, because reading to the end verifies gzip's checksum.
                content = stream.read(file.size + 1)
        except (EOFError, OSError, zlib.error) as error:
            raise DataCorrupt(f"is corrupt ({error})") from error
    if len(content) != file.size:
        found = f"more than {file.size}" if len(content) > file.size else len(content)
        raise DataCorrupt(f"is corrupt (it has {found} bytes, expected {file.size})")
    if file.sha256 is not None and hashlib.sha256(content).hexdigest() != file.sha256:
        raise DataCorrupt(f"is corrupt (its SHA-256 is not {file.sha256})")
    if file.problem is not None and (problem := file.problem(content)):
        raise DataCorrupt(f"is corrupt ({problem})")
    return content


def _download(file: RemoteFile, progress: Progress | None) -> bytes:
    # Imported lazily: with urllib.request these modules take half of the time of `import retrograd.data`.
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.parse import urlsplit

    failures = []
    for url in file.urls:
        host = urlsplit(url).netloc or url
        try:
            stored = _fetch(file, url, progress)
            if file.md5_of_download and hashlib.md5(stored, usedforsecurity=False).hexdigest() != file.md5_of_download:
                raise DataCorrupt(f"is corrupt (the MD5 of the download is not {file.md5_of_download})")
            content = _verified(file, stored, compressed=url.endswith(".gz"))
        except (OSError, HTTPException, DataCorrupt) as error:
            failures.append(f"{host}: {' '.join(str(error).split()).strip('<>')}")
            if isinstance(error, HTTPError):
                error.close()  # an HTTPError is also the response, with an open connection
            continue
        path = cache_folder() / (f"{file.path}.gz" if url.endswith(".gz") else file.path)
        try:
            write_atomically(path, stored)
        except OSError as error:
            raise DataUnavailable(f"{path} cannot be written: {error.strerror}") from error
        return content
    raise DataUnavailable(_advice(file, f"could not be downloaded ({'; '.join(failures)})"))


def _fetch(file: RemoteFile, url: str, progress: Progress | None) -> bytes:
    import urllib.request

    request = urllib.request.Request(url, headers={"User-Agent": "retrograd"})
    with urllib.request.urlopen(request, timeout=_SECONDS_WITHOUT_AN_ANSWER) as response:
        length = response.headers.get("Content-Length")
        total = int(length) if length and length.isdigit() else None
        received = bytearray()
        while chunk := response.read(_CHUNK):
            received += chunk
            if len(received) > 2 * file.size + _CHUNK:  # gzip expands incompressible data by far less
                raise DataCorrupt("is corrupt (the download is larger than the file)")
            if progress is not None:
                progress(Path(file.path).name, len(received), total)
    if total is not None and len(received) != total:
        raise DataCorrupt(f"is corrupt (the download ended after {len(received)} of {total} bytes)")
    return bytes(received)


def _advice(file: RemoteFile, problem: str) -> str:
    places = " or ".join(str((folder / file.path).parent) for folder in data_folders())
    name = Path(file.path).name
    return f"{name} {problem}: download it from {file.urls[0]} and save it, as {name} or {name}.gz, into {places}"
