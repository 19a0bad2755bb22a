"""Arrays of random numbers, from a generator."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from math import ceil, pi, prod
from typing import Any, cast

import numpy as np

from ...core.arrays import Array
from ...core.arrays.dtypes import DType
from ...core.arrays.python_numbers import bounds
from ...core.graph.modes import modes, watchers
from ...core.opaque_calls import LoopMissing
from ...kernels import SLOW, compiled, loop
from ...kernels.runtime.result_arrays import empty
from ...kernels.runtime.threads import launch
from .generators import Generator, default_generator

Draw = Callable[..., Any]


def drawn_from(draw: Draw, *arrays: Array) -> Array:
    """Draw random numbers elementwise from distributions whose parameters are arrays."""
    if modes.level is not None:
        return modes.level.drawn_from(draw, arrays)
    return draw(*arrays) if modes.tracer is None else modes.tracer.drawn(draw, arrays, {})


def source_of(generator: Generator | None) -> Generator:
    """Return the generator, or the default one for None."""
    if generator is None:
        return default_generator
    if not isinstance(generator, Generator):
        raise TypeError(f"expected a retrograd.Generator, got {type(generator).__name__}")
    return generator


def _wide(dtype: DType) -> DType:
    """Return the dtype in which NumPy draws random numbers of a dtype; float16 is rounded from float32."""
    return np.dtype(np.float32) if dtype.itemsize < 4 else dtype


def _noted(draw: Draw, *args: object, **kwargs: object) -> Array:
    """Draw, and pass the observers a function that draws the same numbers again."""
    given = next((x for x in (*args, *kwargs.values()) if isinstance(x, Generator)), None)
    source = source_of(given)
    state = source.get_state()
    array = draw(*args, **kwargs)

    def again() -> Array:
        now = source.get_state()
        source.set_state(state)
        try:
            return draw(*args, **kwargs)
        finally:
            source.set_state(now)

    for observer in modes.observers:
        observer.made(array, again)
    return array


def per_example(place: int) -> Callable[[Draw], Draw]:
    """Decorate a draw of numbers, so that ``vmap`` can share or repeat it; argument number ``place`` is the shape."""

    def enter(draw: Draw) -> Draw:
        @wraps(draw)
        def drawn(xp: object, *args: Any, **kwargs: object) -> Array:
            if modes.level is None and modes.tracer is None:
                return _noted(draw, xp, *args, **kwargs) if watchers else draw(xp, *args, **kwargs)
            bare = xp
            while hasattr(bare, "_xp"):  # the module for Batched arrays may wrap the one for Traced arrays
                bare = bare._xp
            if modes.level is None:
                return modes.tracer.drawn(draw, (bare, *args), kwargs)

            def of_shape(shape: tuple[int, ...]) -> Array:
                return draw(bare, *args[:place], shape, *args[place + 1 :], **kwargs)

            return modes.level.drawn(of_shape, tuple(args[place]))

        return drawn

    return enter


def _drawn(draw: Draw, name: str, unit: object, source: Generator, shape: tuple[int, ...], dtype: DType) -> Array:
    """Return ``draw(prod(shape))``, numbers of 32 bits each: of many numbers, all threads draw parts by a loop."""
    bits, size = cast(np.random.PCG64, source.numpy.bit_generator), prod(shape)
    if size < SLOW or compiled() is None:
        return draw(size).reshape(shape)
    out = empty(shape, dtype)
    flat = out.reshape(-1)
    with bits.lock:
        before = bits.state
        first, numbers = before["has_uint32"], before["state"]  # half of an output may be left
        last = size - (size - first) % 2
        flat[:first] = draw(first)
        words = [n >> shift & (1 << 64) - 1 for n in (numbers["state"], numbers["inc"]) for shift in (64, 0)]
        given = np.array(words, np.uint64), unit, flat[first:last]
        try:
            launch(loop("loops.statistics.draw_loops", name), (last - first) // 2, SLOW, *given)
        except LoopMissing:
            flat[first:] = draw(size - first)
        else:
            bits.advance((last - first) // 2)
            flat[last:] = draw(size - last)
    return out


@per_example(0)
def uniform(xp: object, shape: tuple[int, ...], dtype: DType, generator: Generator | None = None) -> Array:
    """Draw uniform numbers in [0, 1): multiples of 2^-8, 2^-11, 2^-24 or 2^-53, by dtype, so 1 is never returned."""
    source = source_of(generator)
    if dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        real, imaginary = (uniform(xp, shape, part, generator) for _ in range(2))
        return (real + 1j * imaginary).astype(dtype)
    if dtype.itemsize < 4:
        wide = uniform(xp, shape, _wide(dtype), generator)
        digits = 8 if dtype.kind == "V" else 11
        return (np.floor(wide * 2**digits) * 2**-digits).astype(dtype)
    if xp is np:
        if dtype == np.float32:
            draw = partial(source.numpy.random, dtype=dtype)
            return _drawn(draw, "uniform", np.float32(2.0**-24), source, shape, dtype)
        return source.numpy.random(shape, dtype)
    digits = 24 if dtype.itemsize == 4 else 53
    bits = source.bits(xp, prod(shape)) >> np.uint64(64 - digits)
    return (bits.astype(dtype) * dtype.type(2.0**-digits)).reshape(shape)


@per_example(0)
def standard_normal(xp: Any, shape: tuple[int, ...], dtype: DType, generator: Generator | None = None) -> Array:
    """Draw from the normal distribution with mean 0 and variance 1 (complex: the variances of both parts sum to 1)."""
    if dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        real, imaginary = (standard_normal(xp, shape, part, generator) for _ in range(2))
        return ((real + 1j * imaginary) * 0.5**0.5).astype(dtype)
    if xp is np:
        return source_of(generator).numpy.standard_normal(shape, _wide(dtype)).astype(dtype, copy=False)
    count = prod(shape)
    half = (count + 1) // 2  # The Box-Muller transform returns two numbers per pair of uniform numbers.
    radius = xp.sqrt(-2 * xp.log1p(-uniform(xp, (half,), np.dtype(np.float64), generator)))
    angle = 2 * pi * uniform(xp, (half,), np.dtype(np.float64), generator)
    return xp.concatenate((radius * xp.cos(angle), radius * xp.sin(angle)))[:count].astype(dtype).reshape(shape)


def check_within(dtype: DType, low: int, high: int) -> None:
    """Check that integers in [low, high) are in the range of a dtype.

    Raises:
        RuntimeError: an end is out of the dtype's range, or the dtype is complex.
    """
    if dtype.kind == "c":
        raise RuntimeError(f"random integers are not defined for complex numbers, got {dtype}")
    least, most = (0, 1) if dtype.kind == "b" else bounds(dtype)
    if low < least:
        raise RuntimeError(f"the smallest integer, {low}, is out of bounds for {dtype}")
    if high - 1 > most:
        raise RuntimeError(f"the largest integer, {high - 1}, is out of bounds for {dtype}")


@per_example(2)
def integers(xp: object, low: int, high: int, shape: tuple[int, ...], generator: Generator | None = None) -> Array:
    """Draw uniform integers in [low, high), as int64."""
    if xp is np:
        return source_of(generator).numpy.integers(low, high, shape, np.int64)
    # The remainder of 64 random bits is biased by at most (high - low) / 2^64.
    bits = source_of(generator).bits(xp, prod(shape)) % np.uint64(high - low)
    return (bits.astype(np.int64) + low).reshape(shape)


@per_example(0)
def random_mask(xp: Any, shape: tuple[int, ...], probability: float, generator: Generator | None = None) -> Array:
    """Draw bools that are True with a given probability, which the CPU rounds to a multiple of 2^-24."""
    if xp is np:  # from the first 24 of 32 random bits per element; NumPy's draw of integers has more overhead
        source, least = source_of(generator), np.float32(probability)

        def draw(count: int) -> Array:
            return source.numpy.random(count, np.float32) < least

        return _drawn(draw, "below", ceil(float(least) * 2**24), source, shape, np.dtype(np.bool_))
    bits = (source_of(generator).bits(xp, prod(shape)) >> np.uint64(32)).astype(np.uint32).reshape(shape)
    bound = round(probability * 2**32)
    return bits < np.uint32(bound) if bound < 1 << 32 else xp.ones(shape, bool)


@per_example(0)
def permutation(xp: Any, shape: tuple[int, ...], generator: Generator | None = None) -> Array:
    """Return random permutations of the integers from 0 on, along the last dimension."""
    source, count = source_of(generator), shape[-1]
    if xp is not np:
        return xp.argsort(source.bits(xp, prod(shape)).reshape(shape), axis=-1)
    rows = [source.numpy.permutation(count) for _ in range(prod(shape[:-1]))]
    return np.stack(rows).reshape(shape) if rows else np.zeros(shape, np.int64)
