"""``hub``: models from the network are not had here; each function says what to do instead."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NoReturn


def _refuse(name: str, instead: str) -> NoReturn:
    raise RuntimeError(f"hub.{name}: nothing is loaded from the network, and no stranger's code is run; {instead}")


def get_dir() -> str:
    """The folder where PyTorch keeps what it loads."""
    cache = os.environ.get("TORCH_HOME") or os.path.join(os.environ.get("XDG_CACHE_HOME", "~/.cache"), "torch")
    return str(Path(cache).expanduser() / "hub")


def load(repo_or_dir: str, model: str, *args: Any, **kwargs: Any) -> NoReturn:
    """Not to be had.

    Raises:
        RuntimeError: always.
    """
    _refuse("load", f"import {model!r} from a copy of {repo_or_dir} on this machine")


def load_state_dict_from_url(url: str, model_dir: str | None = None, map_location: Any = None, **options: Any) -> Any:
    """The state dict in PyTorch's cache, if an earlier program left it there.

    Raises:
        RuntimeError: it is not there.
    """
    from ..serialization import load as load_file

    path = Path(model_dir or Path(get_dir()) / "checkpoints") / (options.get("file_name") or url.rpartition("/")[2])
    if not path.exists():
        _refuse("load_state_dict_from_url", f"put {url} at {path}")
    return load_file(path, map_location=map_location or "cpu")


load_url = load_state_dict_from_url


def list(github: str, *args: Any, **kwargs: Any) -> NoReturn:
    """Not to be had.

    Raises:
        RuntimeError: always.
    """
    _refuse("list", f"look at {github} in a browser")


def download_url_to_file(url: str, dst: str, *args: Any, **kwargs: Any) -> NoReturn:
    """Not to be had.

    Raises:
        RuntimeError: always.
    """
    _refuse("download_url_to_file", f"load {url} to {dst} by other means")
