"""``hub``: functions read PyTorch's cache. They download nothing, and errors name the alternative."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn, Self

try:
    from tqdm.auto import tqdm
except ImportError:

    class tqdm:  # type: ignore[no-redef]
        """The iterable, without a progress bar."""

        def __init__(self, iterable: Iterable[object] = (), *args: object, **options: object) -> None:
            self._iterable = iterable

        def __iter__(self) -> Iterator[object]:
            return iter(self._iterable)

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *args: object) -> None:
            pass

        def update(self, n: float = 1) -> None:
            """Do nothing."""

        def close(self) -> None:
            """Do nothing."""


def _refuse(name: str, instead: str) -> NoReturn:
    raise RuntimeError(f"hub.{name}: Retrograd loads nothing from the network and runs no code of others; {instead}")


_directory: str | None = None


def _get_torch_home() -> str:
    """Return the folder of PyTorch's files in the user's home. torchvision stores data sets there."""
    cache = os.environ.get("TORCH_HOME") or os.path.join(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "torch")
    return str(Path(cache).expanduser())


def get_dir() -> str:
    """Return the folder of PyTorch's downloads, or the folder given to ``set_dir``."""
    return _directory or os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Set the folder of downloaded files."""
    global _directory
    _directory = os.path.expanduser(d)


def load(repo_or_dir: str, model: str, *args: object, **kwargs: object) -> NoReturn:
    """Raise an error: nothing is downloaded.

    Raises:
        RuntimeError: always.
    """
    _refuse("load", f"import {model!r} from a copy of {repo_or_dir} on this machine")


def load_state_dict_from_url(url: str, model_dir: str | None = None, map_location: Any = None, **options: Any) -> Any:
    """Return the state dict of a file in PyTorch's cache.

    Raises:
        RuntimeError: the file is not in the cache.
    """
    from ...serialization import load as load_file

    path = Path(model_dir or Path(get_dir()) / "checkpoints") / (options.get("file_name") or url.rpartition("/")[2])
    if not path.exists():
        _refuse("load_state_dict_from_url", f"put {url} at {path}")
    return load_file(path, map_location=map_location or "cpu")


load_url = load_state_dict_from_url


def list(github: str, *args: object, **kwargs: object) -> NoReturn:
    """Raise an error: nothing is downloaded.

    Raises:
        RuntimeError: always.
    """
    _refuse("list", f"open {github} in a browser")


def download_url_to_file(url: str, dst: str, *args: object, **kwargs: object) -> NoReturn:
    """Raise an error: nothing is downloaded.

    Raises:
        RuntimeError: always.
    """
    _refuse("download_url_to_file", f"download {url} to {dst} with a browser or curl")
