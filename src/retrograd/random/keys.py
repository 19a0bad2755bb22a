"""Random numbers as pure functions of a key, as in ``jax.random``.

A key is a Tensor of two uint64 words: the key of a Philox 4x64 counter-based generator. The numbers are computed from
its words, whose sequence NumPy guarantees, and not by NumPy's distributions, which may change between versions.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi, prod

import numpy as np

from .._generated import toplevel as ops
from ..core.arrays import Array
from ..core.arrays.devices import all_examples, backend_for, backend_of
from ..core.arrays.dtypes import as_dtype
from ..core.errors import describe
from ..core.graph.modes import modes
from ..core.tensor.tensor import Tensor, new_tensor
from ..ops.make.creation import dtype_or_default, shape_of
from ..ops.make.random_arrays import check_within
from ..ops.table.batching import called_per_example
from ..ops.table.types import DTypeLike

Shape = int | Sequence[int]

_NUMBERS, _SPLIT, _FOLD = range(3)  # the counter's last word, so that numbers and new keys have different counters


def key(seed: int) -> Tensor:
    """Return the key of a seed: a Tensor of shape (2,) and dtype uint64.

    Every function of this module returns the same numbers whenever it is called with the same key and arguments. Use
    a key once: ``split`` it to draw several times.

    Args:
        seed: an integer of 64 bits; -1 is the same as ``2^64 - 1``.

    Raises:
        ValueError: the seed does not fit in 64 bits.

    Source: ``jax.random.key``; the generator: J. Salmon et al., Parallel random numbers: as easy as 1, 2, 3, 2011.

    >>> rg.random.normal(rg.random.key(0), (2,))
    tensor([ 0.1166, -0.6835])
    """
    number = int(seed)
    if not -(1 << 63) <= number < 1 << 64:
        raise ValueError(f"key: the seed must fit in 64 bits, got {seed}")
    return new_tensor(backend_for(None).asarray(np.array([number % (1 << 64), 0], np.uint64)))


def split(key: Tensor, num: int = 2) -> Tensor:
    """Return new keys, of shape ``(num, 2)``, whose numbers are independent of each other.

    >>> first, second = rg.random.split(rg.random.key(0))
    >>> keys = rg.random.split(first, 3)
    >>> rg.func.vmap(lambda key: rg.random.uniform(key, (4,)))(keys).shape
    (3, 4)
    """
    if num < 0:
        raise ValueError(f"split: num must not be negative, got {num}")
    return _words(_checked("split", key), (num, 2), _SPLIT)


def fold_in(key: Tensor, data: int | Tensor) -> Tensor:
    """Return the key that belongs to ``key`` and an integer, for example the number of a step or of a process.

    Args:
        data: an integer of 64 bits, or an integer Tensor of one element.

    >>> keys = [rg.random.fold_in(rg.random.key(0), step) for step in range(2)]
    >>> bool((keys[0] == keys[1]).all())
    False
    """
    if not isinstance(data, (int, np.integer)) and not (isinstance(data, Tensor) and data.array.dtype.kind in "iu"):
        raise TypeError(f"fold_in: data must be an integer, got {describe(data)}")
    return _words(_checked("fold_in", key), (2,), _FOLD, data)


def uniform(
    key: Tensor,
    shape: Shape = (),
    dtype: DTypeLike | None = None,
    minval: float | Tensor = 0.0,
    maxval: float | Tensor = 1.0,
) -> Tensor:
    """Return numbers uniform on ``[minval, maxval)``.

    Args:
        dtype: floating, by default the default dtype.
        minval: the lower end; a Tensor broadcasts with the shape, and its gradient is the gradient of the numbers.
        maxval: the upper end.

    Raises:
        NotImplementedError: the dtype is not real and floating.

    >>> bool((rg.random.uniform(rg.random.key(0), (100,), maxval=0.5) < 0.5).all())
    True
    """
    kind = _real("uniform", dtype)
    digits = (
        8 if kind.kind == "V" else {2: 11, 4: 24, 8: 53}[kind.itemsize]
    )  # so few digits that rounding never gives 1
    words = _words(_checked("uniform", key), _lengths(shape))
    numbers = _fractions(words, digits).to(dtype=kind)
    if type(minval) is float and type(maxval) is float and (minval, maxval) == (0.0, 1.0):
        return numbers
    return numbers * (maxval - minval) + minval


def normal(key: Tensor, shape: Shape = (), dtype: DTypeLike | None = None) -> Tensor:
    """Return numbers of the normal distribution with mean 0 and variance 1.

    Args:
        dtype: the dtype of the numbers, floating; by default the default dtype.

    Raises:
        NotImplementedError: numbers of this dtype cannot be drawn.

    >>> draws = rg.func.vmap(rg.random.normal)(rg.random.split(rg.random.key(0), 1000))
    >>> bool(draws.mean().abs() < 0.1)
    True
    """
    kind, lengths = _real("normal", dtype), _lengths(shape)
    first, second = _fractions(_words(_checked("normal", key), (2, *lengths)), 53)
    return (ops.sqrt(-2 * ops.log1p(-first)) * ops.cos(2 * pi * second)).to(dtype=kind)  # Box and Muller


def randint(key: Tensor, shape: Shape, minval: int, maxval: int, dtype: DTypeLike = np.int64) -> Tensor:
    """Return integers uniform on ``[minval, maxval)``.

    Args:
        dtype: the integer dtype of the result.

    Raises:
        ValueError: the interval contains no integer.
        RuntimeError: the dtype cannot represent all integers of the interval.

    >>> dice = rg.random.randint(rg.random.key(0), (100,), 1, 7)
    >>> int(dice.min()), int(dice.max())
    (1, 6)
    """
    kind = as_dtype(dtype)
    if not minval < maxval:
        raise ValueError(f"randint: minval must be below maxval, got {minval} and {maxval}")
    check_within(kind, minval, maxval)
    words = _words(_checked("randint", key), _lengths(shape)).array
    # A remainder of 64 bits favors some integers by at most one in 2^64 / (maxval - minval).
    offsets = words % np.uint64(maxval - minval) if maxval - minval < 1 << 64 else words
    return new_tensor((offsets + np.uint64(minval % (1 << 64))).astype(np.int64).astype(kind))


def bernoulli(key: Tensor, p: float | Tensor = 0.5, shape: Shape | None = None) -> Tensor:
    """Return bools that are True with probability ``p``.

    Args:
        p: the probability; a Tensor broadcasts to the shape.
        shape: the shape of the result; by default the shape of ``p``.

    Raises:
        ValueError: a probability is not in [0, 1].

    >>> rg.random.bernoulli(rg.random.key(0), rg.tensor([0.0, 1.0]))
    tensor([False,  True])
    """
    chance = ops.as_tensor(p).detach()
    values = all_examples(chance.array)
    if modes.tracer is None and not bool(((values >= 0) & (values <= 1)).all()):
        raise ValueError(f"bernoulli: p must lie in [0, 1], got {p}")
    lengths = tuple(chance.shape) if shape is None else _lengths(shape)
    return uniform(key, lengths, np.float64) < ops.broadcast_to(chance, lengths)


def permutation(key: Tensor, x: int | Tensor, axis: int = 0, independent: bool = False) -> Tensor:
    """Return the entries of ``x`` along an axis in random order; an integer ``x`` stands for ``arange(x)``.

    Args:
        independent: give each slice along the axis an order of its own.

    >>> sorted(rg.random.permutation(rg.random.key(0), 4).tolist())
    [0, 1, 2, 3]
    """
    values = ops.arange(x, device=key.device) if isinstance(x, int) else x
    if independent:
        order = ops.argsort(uniform(key, tuple(values.shape), np.float64), axis)
        return ops.take_along_dim(values, order, axis)
    return ops.index_select(values, axis, ops.argsort(uniform(key, values.shape[axis], np.float64)))


def categorical(key: Tensor, logits: Tensor, axis: int = -1, shape: Shape | None = None) -> Tensor:
    """Return positions along an axis, drawn with probabilities proportional to ``exp(logits)``.

    Args:
        logits: logarithms of the weights.
        axis: the axis of the categories.
        shape: the shape of the result, to which the other axes of ``logits`` broadcast; by default their lengths.

    Raises:
        ValueError: the largest weight along the axis is zero, infinite or NaN.

    Source: the Gumbel-max method, as in ``jax.random.categorical``.

    >>> rg.random.categorical(rg.random.key(0), rg.tensor([0.0, 50.0, 0.0]), shape=(3,))
    tensor([1, 1, 1])
    """
    scores = ops.as_tensor(logits).detach()
    place = axis if axis < 0 else axis - scores.ndim  # counted from the end, as the result may have more axes in front
    if modes.tracer is None and not np.isfinite(all_examples(scores.array).max(axis=place)).all():
        raise ValueError("categorical: the largest of the logits along the axis must be finite")
    lengths = list(scores.shape)
    if shape is not None:
        lengths = list(_lengths(shape))
        lengths.insert(len(lengths) + place + 1, scores.shape[axis])
    draws = uniform(key, lengths, np.float64) + 2.0**-54
    return ops.argmax(scores - ops.log(-ops.log(draws)), place)


def _lengths(shape: Shape) -> tuple[int, ...]:
    return shape_of((shape,), {})


def _fractions(words: Tensor, digits: int) -> Tensor:
    """Return the first binary digits of words as float64 numbers in [0, 1)."""
    return new_tensor((words.array >> np.uint64(64 - digits)).astype(np.float64) * 2.0**-digits)


def _real(name: str, dtype: DTypeLike | None) -> np.dtype:
    kind = dtype_or_default(dtype)
    if kind.kind not in "fV":
        raise NotImplementedError(f"{name}: not implemented for {kind}; pass a floating dtype")
    return kind


def _checked(name: str, key: Tensor) -> Tensor:
    if not isinstance(key, Tensor):
        raise TypeError(f"{name}: expected a key from retrograd.random.key, got {type(key).__name__}")
    if key.array.dtype != np.uint64 or key.array.shape != (2,):
        raise TypeError(
            f"{name}: expected one key, uint64(2,), got {describe(key)}; get a key from retrograd.random.key, and map "
            "over several keys with retrograd.func.vmap"
        )
    return key


def _philox(key: Array, shape: tuple[int, ...], purpose: int, data: Array | int = 0) -> Array:
    """Return words of 64 bits, a pure function of the arguments, on the key's device."""
    backend = backend_of(key)
    counter = [0, 0, int(data) % (1 << 64), purpose]
    generator = np.random.Philox(key=backend.to_numpy(key), counter=np.array(counter, np.uint64))
    return backend.asarray(generator.random_raw(prod(shape)).reshape(shape))


@called_per_example
def _words(key: Tensor, shape: tuple[int, ...], purpose: int = _NUMBERS, data: int | Tensor = 0) -> Tensor:
    array = data.array if isinstance(data, Tensor) else data
    if modes.tracer is None:
        return new_tensor(_philox(key.array, shape, purpose, array))
    return new_tensor(modes.tracer.drawn(_philox, (key.array, shape, purpose, array), {}))
