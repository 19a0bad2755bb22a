"""Checkpoint: everything a training run needs to go on as if it had never stopped, in one file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.tensor import Tensor, new_tensor
from ..data.generator import generator_state, numpy_generator, set_generator_state
from ..ops.make.generators import Generator, get_rng_state, set_rng_state
from ..serialization import Arrays, CorruptFileError, pack, read_file, unpack, write_file

VERSION = 1


class CheckpointError(RuntimeError):
    """A checkpoint that is truncated, damaged, or of another kind of training."""


class Progress(NamedTuple):
    """Where a resumed training run stands."""

    step: int
    metadata: dict[str, Any]


class Checkpoint:
    """Saves and resumes a training run: bit for bit the same losses as without the interruption.

    One safetensors file holds the state of every part, the states of the random generators, the step and free
    metadata. It is written beside its place, put on the disk and renamed, so a crash or a kill at any moment leaves
    the last whole one. The weights are found in it by any program that reads safetensors, as ``model.weight`` and so
    on.

    Args:
        path: the file.
        model, optimizer, scheduler, loader: the usual parts; those that are None are left out.
        generators: further random generators that the training draws from (``retrograd.Generator`` or NumPy's), by
        name. **parts: anything else with ``state_dict`` and ``load_state_dict``, such as an average of the weights.

    >>> import retrograd as rg, tempfile, os
    >>> from retrograd.training import Checkpoint
    >>> path = os.path.join(tempfile.mkdtemp(), "run.safetensors")
    >>> model = rg.nn.Linear(2, 1)
    >>> optimizer = rg.optim.Adam(model.parameters())
    >>> checkpoint = Checkpoint(path, model=model, optimizer=optimizer)
    >>> checkpoint.resume() is None
    True
    >>> checkpoint.save(step=10, metadata={"loss": 0.5})
    >>> checkpoint.resume()
    Progress(step=10, metadata={'loss': 0.5})
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        model: Any = None,
        optimizer: Any = None,
        scheduler: Any = None,
        loader: Any = None,
        generators: Mapping[str, Any] | None = None,
        **parts: Any,
    ) -> None:
        self.path = Path(path)
        usual = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "loader": loader}
        self.parts = {name: part for name, part in {**usual, **parts}.items() if part is not None}
        for name, part in self.parts.items():
            if not (hasattr(part, "state_dict") and hasattr(part, "load_state_dict")):
                raise TypeError(f"Checkpoint: {name}, a {type(part).__name__}, has no state_dict and load_state_dict")
        self.generators = dict(generators or {})
        for generator in self.generators.values():
            numpy_generator(generator)  # refuses what is none

    def save(self, step: int, metadata: Mapping[str, Any] | None = None) -> None:
        """Write the run as it is after ``step`` steps, with anything that JSON can hold.

        Raises:
            TypeError: a state or the metadata holds something that cannot be stored.
            OSError: the file cannot be written; the last one is still there.
        """
        arrays: Arrays = {}
        structure = {name: pack(part.state_dict(), name, arrays) for name, part in self.parts.items()}
        random = {
            "default": get_rng_state().tolist(),
            "generators": {name: _state_of(generator) for name, generator in self.generators.items()},
        }
        run = {"version": VERSION, "step": int(step), "random": random, "metadata": dict(metadata or {})}
        write_file(self.path, arrays, {"parts": structure, "run": pack(run, "run", arrays)})

    def resume(self) -> Progress | None:
        """Put every part where ``save`` found it; None where nothing was saved yet.

        Raises:
            CheckpointError: the file is truncated or damaged, or its parts are not this run's.
        """
        for leftover in self.path.parent.glob(f".{self.path.name}.*.tmp"):
            leftover.unlink(missing_ok=True)  # of a run that was killed while it wrote
        if not self.path.exists():
            return None
        states, run = self._read()
        if set(states) != set(self.parts):
            raise CheckpointError(f"{self.path}: holds {sorted(states)}, this run has {sorted(self.parts)}")
        saved_generators = run["random"]["generators"]
        if set(saved_generators) != set(self.generators):
            raise CheckpointError(
                f"{self.path}: holds the generators {sorted(saved_generators)}, this run has {sorted(self.generators)}"
            )
        for name, part in self.parts.items():
            try:
                part.load_state_dict(states[name])
            except (RuntimeError, ValueError, KeyError, TypeError) as error:
                raise CheckpointError(f"{self.path}: the {name} does not fit this run's: {error}") from error
        for name, state in saved_generators.items():
            _set_state(self.generators[name], state)
        # Last, because a loader may draw from the default generator's saved state.
        set_rng_state(_as_bytes(run["random"]["default"]))
        return Progress(run["step"], run["metadata"])

    def _read(self) -> tuple[dict[str, Any], dict[str, Any]]:
        try:
            arrays, structure = read_file(self.path, checked=True)
        except CorruptFileError as error:
            raise CheckpointError(str(error)) from None
        if not isinstance(structure, dict) or set(structure) != {"parts", "run"}:
            raise CheckpointError(f"{self.path}: not a checkpoint of a training run")
        run = structure["run"]
        if run["version"] != VERSION:
            raise CheckpointError(f"{self.path}: of version {run['version']}, this program reads version {VERSION}")
        tensors = {name: new_tensor(array) for name, array in arrays.items()}
        states: dict[str, Any] = unpack(structure["parts"], tensors)
        return states, unpack(run, tensors)


def _state_of(generator: Any) -> Any:
    return generator.get_state().tolist() if isinstance(generator, Generator) else generator_state(generator)


def _set_state(generator: Any, state: Any) -> None:
    if isinstance(generator, Generator):
        generator.set_state(_as_bytes(state))
    else:
        set_generator_state(generator, state)


def _as_bytes(values: list[int]) -> Tensor:
    return new_tensor(np.array(values, np.uint8))
