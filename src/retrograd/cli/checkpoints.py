"""A run's checkpoint: one safetensors file with its arrays, and everything else as JSON in the file's metadata.

No pickle is involved. The file is replaced in one move, so that a kill at any moment leaves the last good one.
"""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from retrograd.core.tensor import Tensor

from .console import UserError

FILE = "checkpoint.safetensors"
FORMAT = "retrograd-run-1"
INSTALL = "checkpoints need safetensors: pip install 'retrograd[weights]'"
_ARRAY = "$array"  # {"$array": key} in the JSON stands for the array that the file holds under the key


def save_arrays(path: Path, arrays: dict[str, np.ndarray], metadata: dict[str, str] | None = None) -> None:
    """Write a safetensors file by writing another beside it, which takes its place once it is on the disk."""
    try:
        from safetensors.numpy import save
    except ImportError as error:
        raise UserError(INSTALL) from error
    content = save({name: np.asarray(array, order="C") for name, array in arrays.items()}, metadata)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write nested dicts and lists of numbers, strings, arrays and Tensors."""
    arrays: dict[str, np.ndarray] = {}
    tree = _without_arrays(state, "", arrays)
    save_arrays(path, arrays, {"format": FORMAT, "state": json.dumps(tree)})


def load_checkpoint(path: Path) -> dict[str, Any]:
    """What `save_checkpoint` wrote, with NumPy arrays; `path` may be the folder that holds the file.

    Raises UserError for a missing or damaged file, and for one that is no checkpoint of a run.
    """
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise UserError(INSTALL) from error
    path = path / FILE if path.is_dir() else path
    if not path.is_file():
        raise UserError(f"there is no checkpoint {path}")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (it is no mapping)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} is damaged or no safetensors file: {error}") from None
    if metadata.get("format") != FORMAT:
        raise UserError(f"{path} is no checkpoint of 'retrograd train'")
    state: dict[str, Any] = _with_arrays(json.loads(metadata["state"]), arrays)
    return state


def _without_arrays(value: Any, key: str, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        arrays[key] = value
        return {_ARRAY: key}
    if isinstance(value, dict):
        return {
            str(name): _without_arrays(item, f"{key}.{name}" if key else str(name), arrays)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_without_arrays(item, f"{key}.{index}", arrays) for index, item in enumerate(value)]
    return value


def _with_arrays(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if isinstance(value, dict):
        if set(value) == {_ARRAY}:
            return arrays[value[_ARRAY]]
        return {name: _with_arrays(item, arrays) for name, item in value.items()}
    return [_with_arrays(item, arrays) for item in value] if isinstance(value, list) else value
