"""Generators of random numbers, and the default generator.

On the CPU a ``Generator`` draws from NumPy's PCG64. On a GPU, number n is a hash (SplitMix64) of the seed and the
counter n, so a seed gives the same numbers on every machine.
"""

from __future__ import annotations

import os
from functools import cached_property
from typing import Any

import numpy as np

from ...core.arrays.devices import Device, backend_of
from ...core.errors import describe
from ...core.graph.modes import modes, watchers
from ...core.tensor.tensor import Tensor, new_tensor

_MASK = (1 << 64) - 1


def _not_in_a_program(what: str) -> None:
    """Break a trace, since replays continue from a generator's current state; ``what`` is the reason reported."""
    if watchers and modes.tracer is not None:
        modes.tracer.breaks(what)


class Generator:
    """A source of random numbers with a seed and a state that can be stored.

    Args:
        device: accepted for compatibility; one generator serves every device.

    >>> a, b = rg.Generator().manual_seed(1), rg.Generator().manual_seed(1)
    >>> bool((rg.rand(3, generator=a) == rg.rand(3, generator=b)).all())
    True
    """

    def __init__(self, device: str | Device = "cpu") -> None:
        self.device = Device(device)
        self.manual_seed(67280421310721)  # the seed that a new PyTorch generator has

    def manual_seed(self, seed: int) -> Generator:
        """Start again from a seed.

        Args:
            seed: any integer of 64 bits; negative ones count from ``2^64`` down.

        Returns: this generator.

        Raises:
            ValueError: the seed does not fit in 64 bits.

        >>> rg.Generator().manual_seed(-1).initial_seed() == 2**64 - 1
        True
        """
        seed = int(seed)
        if not -(1 << 63) <= seed <= _MASK:
            raise ValueError(f"manual_seed: the seed must fit in 64 bits, got {seed}")
        _not_in_a_program("a generator is seeded")
        self._seed = seed & _MASK
        self._counter = 0
        self.__dict__.pop("numpy", None)
        return self

    @cached_property
    def numpy(self) -> np.random.Generator:
        """NumPy's generator, created at the first draw; its creation takes a quarter of the package's import time."""
        return np.random.Generator(np.random.PCG64(self._seed))

    def initial_seed(self) -> int:
        """The seed this generator started from."""
        return self._seed

    def seed(self) -> int:
        """Start again from a seed that the operating system draws, and return that seed."""
        self.manual_seed(int.from_bytes(os.urandom(8), "little"))
        return self._seed

    def clone_state(self) -> Generator:
        """Return a new generator with the same state.

        >>> a = rg.Generator()
        >>> rg.equal(rg.rand(3, generator=a.clone_state()), rg.rand(3, generator=a))
        True
        """
        return Generator(self.device).set_state(self.get_state())

    def get_offset(self) -> int:
        """Raise RuntimeError, as PyTorch's generators of the CPU do: the generator has no offset, only a state."""
        raise RuntimeError("get_offset: the generator does not use an offset; use get_state")

    def set_offset(self, offset: int) -> Generator:
        """Raise RuntimeError; see ``get_offset``."""
        raise RuntimeError("set_offset: the generator does not use an offset; use set_state")

    def graphsafe_get_state(self) -> Generator:
        """Raise NotImplementedError, as PyTorch's generators of the CPU do: the state is for recorded CUDA graphs."""
        raise NotImplementedError("graphsafe_get_state is not supported in this Generator; use get_state")

    def graphsafe_set_state(self, state: Generator) -> Generator:
        """Raise NotImplementedError; see ``graphsafe_get_state``."""
        raise NotImplementedError("graphsafe_set_state is not supported in this Generator; use set_state")

    def get_state(self) -> Tensor:
        """The state as 64 bytes: a Tensor of uint8 on the CPU.

        >>> rg.Generator().get_state().shape
        (64,)
        """
        state: Any = self.numpy.bit_generator.state
        numbers = (
            (self._seed, 8),
            (self._counter, 8),
            (state["state"]["state"], 16),
            (state["state"]["inc"], 16),
            (state["has_uint32"], 8),
            (state["uinteger"], 8),
        )
        return new_tensor(
            np.frombuffer(b"".join(number.to_bytes(size, "little") for number, size in numbers), np.uint8).copy()
        )

    def set_state(self, new_state: Tensor) -> Generator:
        """Restore the state that ``get_state`` returned.

        Args:
            new_state: the result of ``get_state``.

        Returns: this generator.

        Raises:
            TypeError: the state is not a Tensor.
            RuntimeError: the Tensor is not the state of a generator.

        >>> generator = rg.Generator()
        >>> state = generator.get_state()
        >>> first = rg.rand(1, generator=generator)
        >>> bool(rg.rand(1, generator=generator.set_state(state)) == first)
        True
        """
        _not_in_a_program("the state of a generator is set")
        if not isinstance(new_state, Tensor):
            raise TypeError(f"set_state: expected a Tensor, got {type(new_state).__name__}")
        if new_state.array.dtype != np.uint8 or new_state.array.shape != (64,):
            raise RuntimeError(f"set_state: expected the 64 bytes that get_state returns, got {describe(new_state)}")
        data = backend_of(new_state.array).to_numpy(new_state.array).tobytes()
        parts = [
            int.from_bytes(data[start:stop], "little")
            for start, stop in zip((0, 8, 16, 32, 48, 56), (8, 16, 32, 48, 56, 64))
        ]
        self._seed, self._counter = parts[:2]
        self.numpy.bit_generator.state = {
            "bit_generator": "PCG64",
            "state": {"state": parts[2], "inc": parts[3]},
            "has_uint32": parts[4],
            "uinteger": parts[5],
        }
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (str(self.device), self.get_state().array)

    def bits(self, xp: Any, count: int) -> Any:
        """Return the next ``count`` 64-bit integers of the stream for devices other than the CPU."""
        with np.errstate(over="ignore"):
            step = np.uint64(0x9E3779B97F4A7C15)
            start = np.uint64((_mix(self._seed) + self._counter * int(step)) & _MASK)
            z = xp.arange(1, count + 1, dtype=np.uint64) * step + start
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        self._counter += count
        return z ^ (z >> np.uint64(31))


def _mix(seed: int) -> int:
    """Apply one step of SplitMix64, so that consecutive seeds give unrelated streams."""
    z = (seed + 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def _restored(device: str, state: object) -> Generator:
    return Generator(device).set_state(new_tensor(state))


default_generator = Generator()
default_generator.seed()


def manual_seed(seed: int) -> Generator:
    """Start the default generator, which every function without ``generator`` draws from, again from a seed.

    Args:
        seed: any integer of 64 bits; negative ones count from ``2^64`` down.

    Returns: the default generator.

    Raises:
        RuntimeError: the seed does not fit in 64 bits.

    >>> rg.manual_seed(0).initial_seed()
    0
    """
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Start the default generator again from a seed that the operating system draws, and return that seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed the default generator started from."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The state of the default generator as 64 bytes: a Tensor of uint8 on the CPU.

    >>> state = rg.get_rng_state()
    >>> first = rg.rand(1)
    >>> rg.set_rng_state(state)
    >>> bool(rg.rand(1) == first)
    True
    """
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Restore the state of the default generator that ``get_rng_state`` returned.

    Args:
        new_state: the result of ``get_rng_state``.

    Raises:
        TypeError: the state is not a Tensor.
        RuntimeError: the Tensor is not the state of a generator.
    """
    default_generator.set_state(new_state)
