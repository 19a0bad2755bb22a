"""A run's checkpoint: one safetensors file with all that the run needs to go on, and to be used without its data."""

import importlib.util
from pathlib import Path
from typing import Any

import retrograd as rg
from retrograd.serialization import CorruptFileError

from .console import UserError

FILE = "checkpoint.safetensors"
FORMAT = "retrograd-run-1"


def require_safetensors() -> None:
    """UserError where checkpoints cannot be written: said before the work, not after it."""
    if importlib.util.find_spec("safetensors") is None:
        raise UserError("checkpoints need safetensors: pip install 'retrograd[weights]'")


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write nested dicts and lists of numbers, strings, arrays and Tensors, in one move."""
    rg.save({"format": FORMAT, **state}, path)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """What `save_checkpoint` wrote; `path` may be the folder that holds the file.

    Raises UserError for a missing or damaged file, and for one that is no checkpoint of a run.
    """
    require_safetensors()
    path = path / FILE if path.is_dir() else path
    if not path.is_file():
        raise UserError(f"there is no checkpoint {path}")
    try:
        state: dict[str, Any] = rg.load(path)
    except CorruptFileError as error:
        raise UserError(str(error)) from None
    if state.pop("format", None) != FORMAT:
        raise UserError(f"{path} is no checkpoint of 'retrograd train'")
    return state
