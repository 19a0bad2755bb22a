"""One way to draw random numbers for samplers and splits: a NumPy generator, wherever it comes from."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ops.make.generators import default_generator


def numpy_generator(generator: Any = None) -> np.random.Generator:
    """The NumPy generator behind ``generator``: itself, a ``retrograd.Generator``'s, or for None the global one."""
    if generator is None:
        generator = default_generator
    numpy = getattr(generator, "numpy", generator)
    if not isinstance(numpy, np.random.Generator):
        raise TypeError(
            f"generator: expected a retrograd.Generator or a numpy.random.Generator, got {type(generator).__name__}"
        )
    return numpy


def generator_state(generator: np.random.Generator) -> dict[str, Any]:
    """The state of ``generator`` in Python numbers, lists and dicts, which JSON and a checkpoint can hold."""
    return _plain(generator.bit_generator.state)


def set_generator_state(generator: np.random.Generator, state: dict[str, Any]) -> None:
    """Puts ``generator`` where ``generator_state`` found it; a state of another kind of generator is a ValueError."""
    if not isinstance(state, dict):
        raise ValueError(f"a generator's state is a dictionary, not a {type(state).__name__}")
    # NumPy takes the position in MT19937's key and in Philox's buffer as it is, and reads beyond their ends.
    inner = state.get("state")
    for position, limit in (
        (inner.get("pos", 0) if isinstance(inner, dict) else 0, 624),
        (state.get("buffer_pos", 0), 4),
    ):
        if not 0 <= position <= limit:
            raise ValueError(f"a generator's state has the position {position}, outside 0 to {limit}")
    generator.bit_generator.state = state


def _plain(value: object) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
