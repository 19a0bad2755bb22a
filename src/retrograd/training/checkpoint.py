"""Checkpoint: everything a training run needs to go on as if it had never stopped, in one file."""

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
    """A checkpoint that is truncated, damaged, or of another kind of training."""


class Progress(NamedTuple):
    """Where a resumed training run stands.

    Attributes:
        step: the step the checkpoint was saved at.
        metadata: what was saved with it.
    """

    step: int
    metadata: dict[str, Any]


class Checkpoint:
    """Saves and resumes a training run: bit for bit the same losses as without the interruption.

    In several processes all of them call ``save`` and ``resume``: rank 0 writes and reads, the state of a sharded
    optimizer is gathered meanwhile, and the file is that of one process, for any number to go on with.

    One safetensors file holds the state of every part, the states of the random generators, the step and free metadata.
    It is written beside its place, put on the disk and renamed, so a crash or a kill at any moment leaves the last
    whole one. The weights are found in it by any program that reads safetensors, as ``model.weight`` and so on.

    Args:
        path: the file.
        model: the module that is trained.
        optimizer: its optimizer.
        scheduler: the learning rate's scheduler.
        loader: the ``DataLoader``, which goes on at the batch after the last. Any of these may be None.
        generators: further random generators that the training draws from (``retrograd.Generator`` or
            NumPy's), by name.
        **parts: anything else with ``state_dict`` and ``load_state_dict``, such as an average of the weights.

    Raises:
        ImportError: the safetensors library (extra ``weights``) is not installed.
        TypeError: a part without ``state_dict`` and ``load_state_dict``, or a generator that is none.

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
        model: Any = None,
        optimizer: Any = None,
        scheduler: Any = None,
        loader: Any = None,
        generators: Mapping[str, Any] | None = None,
        **parts: Any,
    ) -> None:
        require_library()  # said before the training, not after its first epoch
        self.path = Path(path)
        usual = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "loader": loader}
        self.parts = {name: _plain(part) for name, part in {**usual, **parts}.items() if part is not None}
        for name, part in self.parts.items():
            if not (hasattr(part, "state_dict") and hasattr(part, "load_state_dict")):
                raise TypeError(f"Checkpoint: {name}, a {type(part).__name__}, has no state_dict and load_state_dict")
        self.generators = dict(generators or {})
        for generator in self.generators.values():
            numpy_generator(generator)  # refuses what is none

    def save(self, step: int, metadata: Mapping[str, Any] | None = None) -> None:
        """Write the run as it is after ``step`` steps, with anything that JSON can hold.

        Whatever is raised, the path holds the last checkpoint or this one, whole.

        Raises:
            TypeError: a state or the metadata holds something that cannot be stored, or ``step`` is no integer.
            OSError: the file cannot be written.
        """
        for part in self.parts.values():
            if hasattr(part, "consolidate_state_dict"):
                part.consolidate_state_dict()
        by_first(partial(self._write, operator.index(step), metadata))

    def _write(self, step: int, metadata: Mapping[str, Any] | None) -> None:
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
        """Put every part where ``save`` found it; None where nothing was saved yet.

        Whatever is raised, and whatever interrupts, the parts and the random generators are as they were before.

        Raises:
            CheckpointError: the file is truncated or damaged, or its parts are not this run's.
            MemoryError: the checkpoint does not fit in memory beside the run.
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
            # Last, because a loader may draw from the default generator's saved state.
            self._load("default generator", partial(_set_state, default_generator), run["random"]["default"])
            return Progress(run["step"], run["metadata"])
        except BaseException:
            snapshot.restore()
            raise

    def _read(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The states of this run's parts, and what the file says of the run as a whole; None where there is no file."""
        try:
            saved = read_file(self.path, new_tensor, checked=True)
        except FileNotFoundError:
            return None
        except CorruptFileError as error:
            raise CheckpointError(str(error)) from None
        match saved:
            case {"parts": dict(parts), "run": {"version": int(version)}} if version != VERSION:
                raise CheckpointError(f"{self.path}: of version {version}, this program reads version {VERSION}")
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
                raise CheckpointError(f"{self.path}: holds {names}")
        return parts, run

    def _load(self, name: str, load: Callable[[Any], Any], state: Any) -> None:
        try:
            load(state)
        except MemoryError:
            raise
        except Exception as error:  # the state may be anything, and so may the error
            raise CheckpointError(f"{self.path}: the {name} does not fit this run's: {error}") from error


class _Snapshot:
    """The state of a run's parts and random generators, to go back to."""

    def __init__(self, parts: Iterable[Any], generators: Iterable[Any]) -> None:
        held = [part for part in map(_held, parts) if part is not None]
        self._parts = [(part, dict(_attributes(part)), deepcopy(part.state_dict())) for part in held]
        self._generators = [(generator, _state_of(generator)) for generator in (*generators, default_generator)]
        self._grad_enabled = is_grad_enabled()

    def restore(self) -> None:
        """Go back; an interrupt meanwhile only starts it again, since half of it would be worse."""
        while True:
            try:
                self._restore()
                return
            except KeyboardInterrupt:
                continue

    def _restore(self) -> None:
        for part, attributes, state in self._parts:
            # The attributes go back to the very objects; loading goes back to the values in those that were written in
            # place (a model's arrays, a loader's generators), and may itself assign attributes.
            _restore_attributes(part, attributes)
            with suppress(Exception):
                part.load_state_dict(state)
            _restore_attributes(part, attributes)
        for generator, state in self._generators:
            _set_state(generator, state)
        set_grad_enabled(self._grad_enabled)  # loading switches it off, and an interrupt can come before its `with`


def _plain(part: object) -> Any:
    """The module within one that several processes train: the file knows nothing of them."""
    from ..nn.parallel.distributed import DistributedDataParallel

    return part.module if isinstance(part, DistributedDataParallel) else part


def _held(part: Any) -> Any:
    """What this process holds of a part: of a sharded optimizer its own share, which may be none."""
    return part.optim if hasattr(part, "consolidate_state_dict") else part


def _attributes(part: object) -> dict[str, Any]:
    attributes: dict[str, Any] = getattr(part, "__dict__", {})
    return attributes


def _restore_attributes(part: object, attributes: dict[str, Any]) -> None:
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
