"""Read the checkpoint of `retrograd train` without its training data."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import retrograd as rg
from retrograd import nn
from retrograd.safetensors_format import require_library

from ..console import UserError
from .recipes import RECIPES

FILE = "checkpoint.safetensors"


def require_safetensors() -> None:
    """Raise UserError before any work if checkpoints can be neither written nor read."""
    try:
        require_library()
    except ImportError as error:
        raise UserError(str(error)) from None


@dataclass(frozen=True)
class SavedRun:
    """The content of a checkpoint of `retrograd train`: settings, and the weights after a number of steps."""

    path: Path
    config: dict[str, Any]
    vocabulary: str
    columns: dict[str, Any]  # how the columns of a table are encoded
    step: int
    weights: dict[str, rg.Tensor]


def read_run(path: Path) -> SavedRun:
    """Return the run in a checkpoint, or in the folder that contains one.

    Raises UserError for a missing file or a file that is not a checkpoint of a possible run, CorruptFileError for a
    damaged file.
    """
    require_safetensors()
    path = path / FILE if path.is_dir() else path
    if not path.is_file():
        raise UserError(f"checkpoint {path} does not exist")
    if path.suffix.lower() in (".csv", ".txt", ".onnx"):
        raise UserError(f"expected the folder of a run or its checkpoint, got {path}")
    match rg.load(path):
        case {
            "run": {"metadata": {"config": dict(config), "vocabulary": str(vocabulary)} as metadata, "step": int(step)},
            "parts": {"model": dict(weights)},
        } if _is_config(config) and step >= 0 and len(set(vocabulary)) == len(vocabulary):
            columns = metadata.get("columns")
            return SavedRun(path, config, vocabulary, columns if isinstance(columns, dict) else {}, step, weights)
    raise UserError(f"{path} is not a checkpoint of 'retrograd train'")


def _is_config(config: dict[str, object]) -> bool:
    """Return whether a run's settings name a known task and model, and how the data are drawn."""
    match config:
        case {"task": str(task), "model": str(model), "batch_size": int(size), "seed": int(seed)}:
            needed = {"table": ("data", "target"), "text": ("text",)}.get(task, ())
            if not all(isinstance(config.get(name), str) for name in needed):
                return False
            return model in RECIPES.get(task, {}) and 0 < size < 2**63 and 0 <= seed < 2**64
    return False


def load_weights(model: nn.Module, run: SavedRun) -> None:
    """Load the run's weights into a model.

    Raises UserError if the weights do not fit.
    """
    problem = None
    for name, weight in run.weights.items():
        if not isinstance(weight, rg.Tensor):
            problem = f"{name!r} is not an array"
        elif weight.is_complex():
            problem = f"{name!r} is complex"
    if problem is None:
        try:
            model.load_state_dict(run.weights)
        except (RuntimeError, TypeError, ValueError) as error:
            problem = str(error)
    if problem is not None:
        kind = f"{run.config['task']} --model {run.config['model']}"
        raise UserError(f"{run.path}: the weights do not fit the model of 'retrograd train {kind}': {problem}")
