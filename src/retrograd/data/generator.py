"""Convert any generator argument to a NumPy generator, and save and restore generator states."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from ..ops.make.generators import Generator, default_generator

GeneratorLike: TypeAlias = Generator | np.random.Generator


def numpy_generator(generator: object = None) -> np.random.Generator:
    """Return ``generator`` itself, the generator inside a ``retrograd.Generator``, or for None the global generator."""
    if generator is None:
        generator = default_generator
    numpy = getattr(generator, "numpy", generator)
    if not isinstance(numpy, np.random.Generator):
        raise TypeError(
            f"generator: expected a retrograd.Generator or a numpy.random.Generator, got {type(generator).__name__}"
        )
    return numpy


def generator_state(generator: np.random.Generator) -> dict[str, Any]:
    """Return the state of ``generator`` as Python numbers, lists and dicts, which JSON and checkpoints support."""
    return _plain(generator.bit_generator.state)


def set_generator_state(generator: np.random.Generator, state: dict[str, Any]) -> None:
    """Restore a state from ``generator_state``; ValueError if it belongs to another kind of generator."""
    if not isinstance(state, dict):
        raise ValueError(f"set_generator_state: the state must be a dictionary, got {type(state).__name__}")
    # NumPy does not check the position in MT19937's key and in Philox's buffer, and would read out of bounds.
    inner = state.get("state")
    for position, limit in (
        (inner.get("pos", 0) if isinstance(inner, dict) else 0, 624),
        (state.get("buffer_pos", 0), 4),
    ):
        if not 0 <= position <= limit:
            raise ValueError(f"set_generator_state: the state's position must be between 0 and {limit}, got {position}")
    generator.bit_generator.state = state


def _plain(value: object) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
