"""The checkpoint of `retrograd train`, read back without the data it was trained on."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import retrograd as rg
from retrograd.safetensors_format import require_library

from .console import UserError

FILE = "checkpoint.safetensors"


def require_safetensors() -> None:
    """UserError where checkpoints can be neither written nor read: said before the work, not after it."""
    try:
        require_library()
    except ImportError as error:
        raise UserError(str(error)) from None


@dataclass(frozen=True)
class SavedRun:
    """What `retrograd train` left in the file at `path`: its settings, and its model's weights after so many steps."""

    path: Path
    config: dict[str, Any]
    vocabulary: str
    step: int
    weights: dict[str, rg.Tensor]


def read_run(path: Path) -> SavedRun:
    """The run in a checkpoint, or in the folder that holds it.

    Raises UserError for a missing file and one that is no checkpoint of a run, CorruptFileError for a damaged one.
    """
    require_safetensors()
    path = path / FILE if path.is_dir() else path
    if not path.is_file():
        raise UserError(f"there is no checkpoint {path}")
    state = rg.load(path)
    try:
        run = state["run"]
        metadata = run["metadata"]
        return SavedRun(path, metadata["config"], metadata["vocabulary"], run["step"], state["parts"]["model"])
    except (KeyError, TypeError):
        raise UserError(f"{path} is no checkpoint of 'retrograd train'") from None
