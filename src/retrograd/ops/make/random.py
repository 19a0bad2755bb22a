"""Tensors drawn from random distributions."""

from __future__ import annotations

from collections.abc import Callable
from math import pi, prod
from typing import Any

import numpy as np

from ...core.devices import backend_of
from ...core.dtypes import DType, get_default_dtype
from ...core.errors import describe
from ...core.mutation import COPY, apply_inplace
from ...core.primitive import Primitive, apply, operand
from ...core.tensor import Tensor, new_tensor
from ..table.arguments import integer, number
from ..table.masks import ZEROS
from ..table.registry import operator
from .creation import made, shape_of, size_keyword, with_grad
from .generators import Generator, default_generator

# Arrays of random numbers


def _source(generator: Any) -> Generator:
    if generator is None:
        return default_generator
    if not isinstance(generator, Generator):
        raise TypeError(f"wanted a retrograd.Generator, got {type(generator).__name__}")
    return generator


def _drawn_in(dtype: DType) -> DType:
    """float16 is rounded from float32."""
    return np.dtype(np.float32) if dtype.itemsize < 4 else dtype


def uniform(xp: Any, shape: tuple[int, ...], dtype: DType, generator: Any = None) -> Any:
    """Numbers evenly in [0, 1): multiples of 2^-11, 2^-24 or 2^-53, by dtype, so that 1 is never reached."""
    source = _source(generator)
    if dtype.itemsize < 4:
        return (uniform(xp, shape, _drawn_in(dtype), generator) * 2**11).astype(np.int16).astype(dtype) / dtype.type(
            2**11
        )
    if xp is np:
        return source.numpy.random(shape, dtype)
    digits = 24 if dtype.itemsize == 4 else 53
    bits = source.bits(xp, prod(shape)) >> np.uint64(64 - digits)
    return (bits.astype(dtype) * dtype.type(2.0**-digits)).reshape(shape)


def standard_normal(xp: Any, shape: tuple[int, ...], dtype: DType, generator: Any = None) -> Any:
    """Numbers from the normal distribution with mean 0 and variance 1 (complex: of both parts together)."""
    if dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        real, imaginary = (standard_normal(xp, shape, part, generator) for _ in range(2))
        return ((real + 1j * imaginary) * 0.5**0.5).astype(dtype)
    if xp is np:
        return _source(generator).numpy.standard_normal(shape, _drawn_in(dtype)).astype(dtype, copy=False)
    count = prod(shape)
    half = (count + 1) // 2  # Box and Muller make two of each pair of uniform numbers.
    radius = xp.sqrt(-2 * xp.log1p(-uniform(xp, (half,), np.dtype(np.float64), generator)))
    angle = 2 * pi * uniform(xp, (half,), np.dtype(np.float64), generator)
    return xp.concatenate((radius * xp.cos(angle), radius * xp.sin(angle)))[:count].astype(dtype).reshape(shape)


def integers(xp: Any, low: int, high: int, shape: tuple[int, ...], generator: Any = None) -> Any:
    """Integers evenly in [low, high), as int64."""
    if xp is np:
        return _source(generator).numpy.integers(low, high, shape, np.int64)
    # Taking a remainder of 64 bits favours some integers, by at most one in 2^64 / (high - low).
    bits = _source(generator).bits(xp, prod(shape)) % np.uint64(high - low)
    return (bits.astype(np.int64) + low).reshape(shape)


def kept(xp: Any, shape: tuple[int, ...], probability: float, generator: Any = None) -> Any:
    """Bools that hold with a probability."""
    if xp is np:
        # 32 bits an element, compared as they are, cost half of what floating numbers do.
        bits = _source(generator).numpy.integers(0, 1 << 32, shape, np.uint32)
    else:
        bits = (_source(generator).bits(xp, prod(shape)) >> np.uint64(32)).astype(np.uint32).reshape(shape)
    bound = round(probability * 2**32)
    return bits < np.uint32(bound) if bound < 1 << 32 else xp.ones(shape, bool)


def _floating(name: str, dtype: Any) -> DType:
    kind = get_default_dtype() if dtype is None else np.dtype(dtype)
    if kind.kind not in "fc":
        raise NotImplementedError(f"not implemented for {kind}; wanted a floating dtype")
    return kind


# New Tensors

Draw = Callable[[Any, tuple[int, ...], DType, Any], Any]


def _new(
    name: str,
    draw: Draw,
    size: tuple[Any, ...],
    dtype: Any,
    device: Any,
    requires_grad: bool,
    generator: Any,
    keywords: dict[str, Any],
) -> Tensor:
    shape = shape_of(size, size_keyword(name, keywords))
    kind = _floating(name, dtype)
    return made(lambda xp: draw(xp, shape, kind, generator), device, requires_grad)


@operator(method=False, differentiable=False)
def rand(
    *size: Any,
    generator: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **keywords: Any,
) -> Tensor:
    """Numbers drawn evenly from [0, 1).

    Raises:
        RuntimeError: a length is negative.

    >>> rg.rand(2, 3).shape
    (2, 3)
    """
    return _new("rand", uniform, size, dtype, device, requires_grad, generator, keywords)


@operator(method=False, differentiable=False)
def randn(
    *size: Any,
    generator: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **keywords: Any,
) -> Tensor:
    """Numbers drawn from the normal distribution with mean 0 and variance 1.

    Raises:
        RuntimeError: a length is negative.

    >>> rg.randn(2, 3).shape
    (2, 3)
    """
    return _new("randn", standard_normal, size, dtype, device, requires_grad, generator, keywords)


@operator(method=False, differentiable=False, real=True)
def rand_like(
    input: Tensor, *, generator: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Numbers drawn evenly from [0, 1), in the shape, dtype and device of ``input``.

    >>> rg.rand_like(rg.zeros(2, 3)).shape
    (2, 3)
    """
    x = operand(input)
    dtype, device = x.dtype if dtype is None else dtype, x.device if device is None else device
    return _new("rand_like", uniform, (x.shape,), dtype, device, requires_grad, generator, {})


@operator(method=False, differentiable=False)
def randn_like(
    input: Tensor, *, generator: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Numbers drawn from the standard normal distribution, in the shape, dtype and device of ``input``.

    >>> rg.randn_like(rg.zeros(2, 3)).shape
    (2, 3)
    """
    x = operand(input)
    dtype, device = x.dtype if dtype is None else dtype, x.device if device is None else device
    return _new("randn_like", standard_normal, (x.shape,), dtype, device, requires_grad, generator, {})


@operator(method=False, differentiable=False)
def randint(
    low: int = 0,
    high: Any = None,
    size: Any = None,
    *,
    generator: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Integers drawn evenly from ``low`` to ``high - 1``: ``randint(high, size)`` or ``randint(low, high, size)``.

    Raises:
        RuntimeError: ``low`` is not less than ``high``.

    >>> rg.randint(5, (2,)).dtype
    dtype('int64')
    """
    if size is None:
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    if size is None:
        raise TypeError("the size is missing; call randint(low, high, size)")
    low, high = integer(low, "low"), integer(high, "high")
    if low >= high:
        raise RuntimeError(f"expected low to be less than high, got low={low} and high={high}")
    shape = shape_of((size,))
    kind = np.dtype(np.int64 if dtype is None else dtype)
    return made(lambda xp: integers(xp, low, high, shape, generator).astype(kind, copy=False), device, requires_grad)


@operator(method=False, differentiable=False, real=True)
def randint_like(
    input: Tensor,
    low: int | None = None,
    high: int | None = None,
    *,
    generator: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Integers drawn evenly from ``low`` (0) to ``high - 1``, in the shape, dtype and device of ``input``.

    >>> rg.randint_like(rg.zeros(2, 3), 5).shape
    (2, 3)
    """
    x = operand(input)
    if high is None:
        low, high = 0, integer(low, "high")
    dtype, device = x.dtype if dtype is None else dtype, x.device if device is None else device
    return randint(
        low or 0, high, x.shape, generator=generator, dtype=dtype, device=device, requires_grad=requires_grad
    )


@operator(method=False, differentiable=False)
def randperm(
    n: int, *, generator: Any = None, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """The integers 0 to ``n - 1`` in random order.

    Raises:
        RuntimeError: ``n`` is negative.

    >>> rg.randperm(4).sort().values
    tensor([0, 1, 2, 3])
    """
    shape = shape_of((integer(n, "n"),))
    kind = np.dtype(np.int64 if dtype is None else dtype)

    def draw(xp: Any) -> Any:
        if xp is np:
            return _source(generator).numpy.permutation(shape[0]).astype(kind, copy=False)
        return xp.argsort(_source(generator).bits(xp, shape[0])).astype(kind, copy=False)

    return made(draw, device, requires_grad)


@operator(method=False, differentiable=False, real=True)
def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Any = None,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Numbers drawn from normal distributions: of given mean and standard deviation each, or of one and of a size.

    Args:
        mean: a Tensor, or a number.
        std: a Tensor that broadcasts with it, or a number.
        size: the size, where mean and std are numbers.
        generator: where the numbers come from; by default the default generator.
        dtype: the dtype, where mean and std are numbers.
        device: the device, where mean and std are numbers.
        requires_grad: whether the result needs a gradient.

    Raises:
        RuntimeError: a standard deviation is negative.

    >>> rg.normal(0.0, 1.0, (2, 3)).shape, rg.normal(rg.zeros(3), 2.0).shape
    ((2, 3), (3,))
    """
    deviation = operand(std, "std").array
    if deviation.size and not bool((deviation >= 0).all()):
        raise RuntimeError("expects every std >= 0")
    if size is not None:
        noise = randn(size, generator=generator, dtype=dtype, device=device)
    else:
        tensors = [value for value in (mean, std) if isinstance(value, Tensor)]
        if not tensors:
            raise TypeError("wanted a Tensor for mean or std, or a size")
        shape = np.broadcast_shapes(*[value.shape for value in tensors])
        noise = randn(shape, generator=generator, dtype=tensors[0].dtype, device=tensors[0].device)
    result = noise.array * deviation + operand(mean, "mean").array
    return with_grad(new_tensor(result.astype(noise.array.dtype, copy=False)), requires_grad)


# The derivative of what is drawn by probabilities is zero, as PyTorch has it.
BERNOULLI: Primitive = Primitive("bernoulli", lambda x, drawn: drawn, "x", [lambda g: ZEROS(g)])


def _check_probabilities(p: Any) -> None:
    if p.size and not bool(((p >= 0) & (p <= 1)).all()):
        raise RuntimeError(f"expected probabilities between 0 and 1, got others among {describe(p)}")


@operator(real=True)
def bernoulli(input: Tensor, p: float | None = None, *, generator: Any = None) -> Tensor:
    """0 or 1 per element: 1 with the probability that the input says, or ``p``. The gradient is zero.

    Raises:
        RuntimeError: a probability is not between 0 and 1, or the input is not floating.

    >>> rg.bernoulli(rg.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    x = operand(input)
    array = x.array
    if p is None and array.dtype.kind != "f":
        raise RuntimeError(f"wanted floating probabilities, got {describe(x)}")
    _check_probabilities(array if p is None else np.asarray(number(p, "p")))
    xp = backend_of(array).xp
    draws = uniform(xp, array.shape, np.dtype(np.float64), generator) < (array if p is None else p)
    return apply(BERNOULLI, (x,), {"drawn": draws.astype(array.dtype)})


@operator(differentiable=False)
def multinomial(input: Tensor, num_samples: int, replacement: bool = False, *, generator: Any = None) -> Tensor:
    """Positions drawn with probabilities in proportion to the weights of the last dimension, for each row.

    Args:
        input: weights, a vector or a matrix; they need not sum to 1.
        num_samples: how many positions per row.
        replacement: whether one may be drawn again.
        generator: where the random numbers come from; by default the default generator.

    Raises:
        RuntimeError: weights are negative, not finite or all zero, or fewer than ``num_samples`` can be drawn.

    >>> rg.multinomial(rg.tensor([0.0, 1.0, 0.0]), 3, replacement=True)
    tensor([1, 1, 1])
    """
    x = operand(input)
    weights = x.array
    if weights.dtype.kind != "f" or weights.ndim not in (1, 2):
        raise RuntimeError(f"wanted a floating vector or matrix of weights, got {describe(x)}")
    xp = backend_of(weights).xp
    choices = weights.shape[-1]
    if num_samples <= 0:
        raise RuntimeError(f"cannot sample n_sample <= 0 samples, got {num_samples}")
    if not replacement and num_samples > choices:
        raise RuntimeError(f"cannot sample {num_samples} > {choices} (the length of a row) without replacement")
    if not bool((xp.isfinite(weights) & (weights >= 0)).all()):
        raise RuntimeError("the weights contain inf, nan or a negative element")
    if not bool((weights.sum(axis=-1) > 0).all()):
        raise RuntimeError("the weights of a row sum to zero")
    double = np.dtype(np.float64)
    rows = weights.reshape(-1, choices).astype(np.float64)
    if replacement:
        bounds = rows.cumsum(axis=-1)
        points = uniform(xp, (len(rows), num_samples), double, generator) * bounds[:, -1:]
        drawn = (points[:, :, None] >= bounds[:, None, :]).sum(axis=-1) if len(rows) > 1 else None
        if drawn is None:
            drawn = xp.searchsorted(bounds[0], points[0], side="right").reshape(1, -1)
        # Rounding must not reach past the last position that has a weight.
        last = choices - 1 - (rows[:, ::-1] > 0).argmax(axis=-1)
        drawn = xp.minimum(drawn, last[:, None])
    else:
        # The smallest of exponential waiting times with these rates (Efraimidis and Spirakis, 2006).
        waits = -xp.log1p(-uniform(xp, rows.shape, double, generator))
        order = xp.where(rows > 0, waits / xp.where(rows > 0, rows, 1), np.inf)
        drawn = xp.argsort(order, axis=-1)[:, :num_samples]
    return new_tensor(drawn.reshape((*weights.shape[:-1], num_samples)).astype(np.int64, copy=False))


# Written over a Tensor


def _write(x: Tensor, draw: Callable[[Any], Any]) -> Tensor:
    backend = backend_of(x.array)
    drawn = draw(backend.xp)
    return apply_inplace(COPY, x, new_tensor(drawn.astype(x.array.dtype, copy=False)))


def _check_floating(x: Tensor) -> None:
    if x.array.dtype.kind not in "fc":
        raise NotImplementedError(f"not implemented for {describe(x)}; wanted a floating dtype")


@operator(namespace="Tensor", name="uniform_", differentiable=False, real=True)
def uniform_(self: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Any = None, **keywords: Any) -> Tensor:
    """Write numbers drawn evenly from [from, to) over every element.

    Raises:
        RuntimeError: ``from`` is greater than ``to``.

    >>> rg.zeros(3).uniform_(-1, 1).shape
    (3,)
    """
    low = keywords.pop("from", from_)  # PyTorch's name for it is a reserved word
    if keywords:
        raise TypeError(f"uniform_() got unexpected keyword arguments {', '.join(keywords)}")
    _check_floating(self)
    if low > to:
        raise RuntimeError(f"expects a range [from, to), got from={low} > to={to}")
    kind = self.array.dtype
    return _write(
        self, lambda xp: uniform(xp, self.array.shape, kind, generator) * kind.type(to - low) + kind.type(low)
    )


@operator(namespace="Tensor", name="normal_", differentiable=False)
def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Any = None) -> Tensor:
    """Write numbers drawn from a normal distribution over every element.

    Raises:
        RuntimeError: ``std`` is negative.

    >>> rg.zeros(3).normal_(0.0, 0.02).shape
    (3,)
    """
    _check_floating(self)
    mean, std = number(mean, "mean"), number(std, "std")
    if not std >= 0:
        raise RuntimeError(f"expects std >= 0, got {std}")
    kind = self.array.dtype
    return _write(
        self, lambda xp: standard_normal(xp, self.array.shape, kind, generator) * kind.type(std) + kind.type(mean)
    )


@operator(namespace="Tensor", name="exponential_", differentiable=False, real=True)
def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Any = None) -> Tensor:
    """Write numbers drawn from the exponential distribution of rate ``lambd`` over every element.

    Raises:
        RuntimeError: the rate is not positive.

    >>> bool((rg.zeros(3).exponential_() >= 0).all())
    True
    """
    _check_floating(self)
    if not lambd > 0:
        raise RuntimeError(f"expects lambd > 0, got {lambd}")
    double = np.dtype(np.float64)
    return _write(self, lambda xp: -xp.log1p(-uniform(xp, self.array.shape, double, generator)) / lambd)


@operator(namespace="Tensor", name="bernoulli_", differentiable=False, real=True)
def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Any = None) -> Tensor:
    """Write 1 with probability ``p`` (a number, or a Tensor that broadcasts), else 0, over every element.

    Raises:
        RuntimeError: a probability is not between 0 and 1.

    >>> rg.zeros(2).bernoulli_(1.0)
    tensor([1., 1.])
    """
    array = operand(p, "p").array
    _check_probabilities(array)
    double = np.dtype(np.float64)
    return _write(self, lambda xp: uniform(xp, self.array.shape, double, generator) < array)


@operator(namespace="Tensor", name="random_", differentiable=False)
def random_(
    self: Tensor, from_: int | None = None, to: int | None = None, *, generator: Any = None, **keywords: Any
) -> Tensor:
    """Write integers drawn evenly over every element: ``random_()``, ``random_(to)`` or ``random_(from, to)``.

    Without bounds they reach from 0 to the largest that the dtype represents with all smaller ones.

    Raises:
        RuntimeError: ``from`` is not less than ``to``.

    >>> rg.zeros(2).random_(1)
    tensor([0., 0.])
    """
    low = keywords.pop("from", from_)
    if keywords:
        raise TypeError(f"random_() got unexpected keyword arguments {', '.join(keywords)}")
    dtype = self.array.dtype
    if to is None:
        if dtype.kind == "f":
            most = 2 ** (np.finfo(dtype).nmant + 1)
        else:
            most = 1 if dtype.kind == "b" else int(np.iinfo(dtype).max)
        # One number is the bound; none, the dtype's.
        low, to = (0, most + (most < 2**63 - 1)) if low is None else (0, low)
    low, to = integer(low or 0, "from"), integer(to, "to")
    if low >= to:
        raise RuntimeError(f"expects from to be less than to, got from={low} >= to={to}")
    bound = to
    return _write(self, lambda xp: integers(xp, low, bound, self.array.shape, generator))
