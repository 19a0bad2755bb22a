"""Checkpoint: save and resume a training run exactly, with one file."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.graph.modes import is_grad_enabled, set_grad_enabled
from ..core.tensor.tensor import new_tensor
from ..data.generator import generator_state, numpy_generator, set_generator_state
from ..distributed.objects import by_first
from ..ops.make.generators import Generator, default_generator, get_rng_state
from ..safetensors_format import require_library
from ..serialization import CorruptFileError, Packed, pack, read_file, write_file

VERSION = 1


class CheckpointError(RuntimeError):
    """A checkpoint is truncated or damaged, or has other parts than this training run."""


class Progress(NamedTuple):
    """The position of a resumed training run.

    Attributes:
        step: the step at which the checkpoint was saved.
        metadata: the metadata saved with it.
    """

    step: int
    metadata: dict[str, Any]


class Checkpoint:
    """Saves and resumes a training run; its losses are bitwise equal to those of an uninterrupted run.

    With several processes, all of them call ``save`` and ``resume``: rank 0 writes and reads, and the state of a
    sharded optimizer is gathered, so that the file does not depend on the number of processes.

    One safetensors file holds the state of every part, the states of the random generators, the step and metadata. It
    is written to a temporary file, flushed to disk and renamed, so that a crash leaves the last complete file. Any
    program that reads safetensors finds the weights as ``model.weight`` and so on.

    Args:
        path: the name of the checkpoint file.
        model: the trained module.
        optimizer: the optimizer of the model.
        scheduler: the learning-rate scheduler.
        loader: the ``DataLoader``, which continues after its last batch. Model, optimizer,
            scheduler and loader may be None.
        generators: further random generators that the training uses (``retrograd.Generator`` or NumPy's), by name.
        **parts: anything else with ``state_dict`` and ``load_state_dict``, such as an average of the weights.

    Raises:
        ImportError: the safetensors library (extra ``weights``) is not installed.
        TypeError: a part lacks ``state_dict`` or ``load_state_dict``, or a generator is not a random generator.

    >>> import tempfile, os
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
        model: object = None,
        optimizer: object = None,
        scheduler: object = None,
        loader: object = None,
        generators: Mapping[str, Any] | None = None,
        **parts: object,
    ) -> None:
        require_library()  # fail before the training, not after its first epoch
        self.path = Path(path)
        usual = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "loader": loader}
        self.parts = {name: _plain(part) for name, part in {**usual, **parts}.items() if part is not None}
        for name, part in self.parts.items():
            if not (hasattr(part, "state_dict") and hasattr(part, "load_state_dict")):
                raise TypeError(f"Checkpoint: {name}, a {type(part).__name__}, needs state_dict and load_state_dict")
        self.generators = dict(generators or {})
        for generator in self.generators.values():
            numpy_generator(generator)  # raises TypeError if this is not a generator

    def save(self, step: int, metadata: Mapping[str, object] | None = None) -> None:
        """Write the state of the run after ``step`` steps, with JSON metadata.

        If an error is raised, the path still has the previous or the new checkpoint, complete.

        Raises:
            TypeError: a state or the metadata cannot be stored, or ``step`` is not an integer.
            OSError: the file cannot be written.
        """
        for part in self.parts.values():
            if hasattr(part, "consolidate_state_dict"):
                part.consolidate_state_dict()
        by_first(partial(self._write, operator.index(step), metadata))

    def _write(self, step: int, metadata: Mapping[str, object] | None) -> None:
        packed = Packed()
        parts = pack({name: part.state_dict() for name, part in self.parts.items()}, "", packed)
        random = {
            "default": get_rng_state().tolist(),
            "generators": {name: _state_of(generator) for name, generator in self.generators.items()},
        }
        run = {"version": VERSION, "step": step, "random": random, "metadata": dict(metadata or {})}
        run = pack(run, "run", packed)
        packed.tie()
        write_file(self.path, packed.arrays, {"parts": parts, "run": run})

    def resume(self) -> Progress | None:
        """Restore every part from the checkpoint; return None if there is none.

        If an error or an interrupt is raised, the parts and the random generators are unchanged.

        Raises:
            CheckpointError: the file is truncated or damaged, or does not have the parts of this run.
            MemoryError: the checkpoint does not fit in memory next to the run.
            OSError: the file cannot be read.
        """
        saved = by_first(self._read)
        if saved is None:
            return None
        states, run = saved
        snapshot = _Snapshot(self.parts.values(), self.generators.values())
        try:
            for name, part in self.parts.items():
                self._load(name, part.load_state_dict, states[name])
            for name, generator in self.generators.items():
                self._load(name, partial(_set_state, generator), run["random"]["generators"][name])
            # Last, because loaders may use the default generator's saved state.
            self._load("default generator", partial(_set_state, default_generator), run["random"]["default"])
            return Progress(run["step"], run["metadata"])
        except BaseException:
            snapshot.restore()
            raise

    def _read(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return the states of this run's parts and the file's metadata; None if there is no file."""
        try:
            saved = read_file(self.path, new_tensor, checked=True)
        except FileNotFoundError:
            return None
        except CorruptFileError as error:
            raise CheckpointError(str(error)) from None
        match saved:
            case {"parts": dict(parts), "run": {"version": int(version)}} if version != VERSION:
                raise CheckpointError(f"{self.path}: the file has version {version}, expected {VERSION}")
            case {
                "parts": dict(parts),
                "run": {
                    "version": int(),
                    "step": int(),
                    "metadata": dict(),
                    "random": {"default": list(), "generators": dict(generators)},
                } as run,
            }:
                pass
            case _:
                raise CheckpointError(f"{self.path}: not a checkpoint of a training run")
        for kind, found, own in (("", parts, self.parts), ("the generators ", generators, self.generators)):
            if found.keys() != own.keys():
                names = f"{kind}{sorted(found, key=str)}, this run has {sorted(own)}"
                raise CheckpointError(f"{self.path}: the checkpoint has {names}")
        return parts, run

    def _load(self, name: str, load: Callable[[Any], Any], state: object) -> None:
        try:
            load(state)
        except MemoryError:
            raise
        except Exception as error:  # an invalid state may raise any error
            raise CheckpointError(f"{self.path}: the state of the {name} does not fit this run: {error}") from error


class _Snapshot:
    """A copy of the state of a run's parts and random generators."""

    def __init__(self, parts: Iterable[Any], generators: Iterable[Any]) -> None:
        held = [part for part in map(_own_share, parts) if part is not None]
        self._parts = [(part, dict(_attributes(part)), deepcopy(part.state_dict())) for part in held]
        self._generators = [(generator, _state_of(generator)) for generator in (*generators, default_generator)]
        self._grad_enabled = is_grad_enabled()

    def restore(self) -> None:
        """Restore the state; an interrupt restarts the restoration, which otherwise would be incomplete."""
        while True:
            try:
                self._restore()
                return
            except KeyboardInterrupt:
                continue

    def _restore(self) -> None:
        for part, attributes, state in self._parts:
            # Restoring attributes brings back the original objects. Loading the state restores the values of objects
            # that were written in place (a model's arrays, a loader's generators), but may also assign attributes.
            _restore_attributes(part, attributes)
            with suppress(Exception):
                part.load_state_dict(state)
            _restore_attributes(part, attributes)
        for generator, state in self._generators:
            _set_state(generator, state)
        set_grad_enabled(self._grad_enabled)  # an interrupt during loading can leave grad mode off


def _plain(part: object) -> Any:
    """Return the module inside a DistributedDataParallel, so that the file does not depend on the wrapper."""
    from ..nn.parallel.distributed import DistributedDataParallel

    return part.module if isinstance(part, DistributedDataParallel) else part


def _own_share(part: Any) -> Any:
    """Return the optimizer of this process's parameters for a sharded optimizer, and other parts themselves."""
    return part.optim if hasattr(part, "consolidate_state_dict") else part


def _attributes(part: object) -> dict[str, object]:
    return getattr(part, "__dict__", {})


def _restore_attributes(part: object, attributes: dict[str, object]) -> None:
    own = _attributes(part)
    own.update(attributes)
    for name in own.keys() - attributes.keys():
        del own[name]


def _state_of(generator: Any) -> Any:
    return generator.get_state().tolist() if isinstance(generator, Generator) else generator_state(generator)


def _set_state(generator: Any, state: Any) -> None:
    if isinstance(generator, Generator):
        generator.set_state(new_tensor(np.array(state, np.uint8)))
    else:
        set_generator_state(generator, state)
