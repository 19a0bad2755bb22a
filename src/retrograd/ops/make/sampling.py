"""Sampling with given probabilities and from distributions, and random numbers written to a Tensor in place."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import all_examples, backend_of
from ...core.arrays.dtypes import FLOATING, INEXACT, DType, precision
from ...core.arrays.python_numbers import bounds
from ...core.errors import describe
from ...core.graph.primitive import Primitive, apply, operand
from ...core.tensor.mutation import COPY, apply_inplace
from ...core.tensor.tensor import Tensor, new_tensor
from ..table.arguments import integer, number
from ..table.batching import given
from ..table.elementwise_primitives import ZEROS
from ..table.registry import operator
from ..table.types import Number, Operand
from .generators import Generator, default_generator
from .random_arrays import check_within, drawn_from, integers, standard_normal, uniform

_DOUBLE = np.dtype(np.float64)

# Samples have zero derivatives with respect to probabilities, as in PyTorch.
BERNOULLI: Primitive = Primitive(
    "bernoulli", lambda x, sample: sample, "x", [lambda g: ZEROS(g)], batch=given("sample")
)


def _check_probabilities(p: Array) -> None:
    p = all_examples(p)
    if p.size and not bool(((p >= 0) & (p <= 1)).all()):
        raise RuntimeError(f"expected probabilities between 0 and 1, got values out of range in {describe(p)}")


@operator(real=True, derivative="zero")
def bernoulli(input: Tensor, p: float | None = None, *, generator: Generator | None = None) -> Tensor:
    """``1`` with probability ``input``, or ``p`` if given; else ``0``.

    Dtype: floating; with ``p`` any but complex. The result has the input's dtype.

    Args:
        input: the probabilities of 1, or with ``p`` only the shape.
        p: one probability for all elements.

    Raises:
        RuntimeError: a probability is not between 0 and 1, or the input is not floating.

    >>> rg.bernoulli(rg.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    x = operand(input)
    array = x.array
    if p is None and array.dtype.kind not in FLOATING:
        raise RuntimeError(f"expected floating probabilities, got {describe(x)}")
    _check_probabilities(array if p is None else np.asarray(number(p, "p")))
    xp = backend_of(array).xp
    draws = uniform(xp, array.shape, _DOUBLE, generator) < (array if p is None else p)
    return apply(BERNOULLI, (x,), {"sample": draws.astype(array.dtype)})


@operator(differentiable=False)
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """``P(out = i) = input[i] / sum(input)``: positions drawn in proportion to the weights, for each row.

    Shape: (n) to (num_samples); (m, n) to (m, num_samples).
    Dtype: floating; the result is int64.

    Args:
        input: weights, at least 0; they need not sum to 1.
        num_samples: the number of positions per row.
        replacement: whether a position may be drawn again.

    Raises:
        RuntimeError: weights are negative, not finite or all zero, or fewer than ``num_samples`` can be drawn.

    Source: without replacement Efraimidis and Spirakis, Weighted random sampling with a reservoir, 2006.

    >>> rg.multinomial(rg.tensor([0.0, 1.0, 0.0]), 3, replacement=True)
    tensor([1, 1, 1])
    """
    x = operand(input)
    weights = x.array
    if weights.dtype.kind not in FLOATING or weights.ndim not in (1, 2):
        raise RuntimeError(f"expected a floating vector or matrix of weights, got {describe(x)}")
    xp = backend_of(weights).xp
    choices = weights.shape[-1]
    if num_samples <= 0:
        raise RuntimeError(f"cannot sample n_sample <= 0 samples, got {num_samples}")
    if not choices:
        raise RuntimeError(f"there is no position to draw from {describe(x)}")
    if not replacement and num_samples > choices:
        raise RuntimeError(f"cannot sample {num_samples} > {choices} (the length of a row) without replacement")
    numbers = all_examples(weights)
    if not bool((np.isfinite(numbers) & (numbers >= 0)).all()):
        raise RuntimeError("the weights contain inf, nan or a negative element")
    if not bool((numbers.sum(axis=-1) > 0).all()):
        raise RuntimeError("the weights of a row sum to zero")
    rows = weights.reshape(-1, choices).astype(np.float64)
    if replacement:
        bounds = rows.cumsum(axis=-1)
        points = uniform(xp, (len(rows), num_samples), _DOUBLE, generator) * bounds[:, -1:]
        if len(rows) != 1:
            sample = (points[:, :, None] >= bounds[:, None, :]).sum(axis=-1)
        else:
            sample = xp.searchsorted(bounds[0], points[0], side="right").reshape(1, -1)
        # Rounding must not select a position after the last one with a positive weight.
        last = choices - 1 - (rows[:, ::-1] > 0).argmax(axis=-1)
        sample = xp.minimum(sample, last[:, None])
    else:
        # Draw an exponential waiting time for each position, with its weight as rate, and select the shortest times.
        waits = -xp.log1p(-uniform(xp, rows.shape, _DOUBLE, generator))
        order = xp.where(rows > 0, waits / xp.where(rows > 0, rows, 1), np.inf)
        sample = xp.argsort(order, axis=-1)[:, :num_samples]
    return new_tensor(sample.reshape((*weights.shape[:-1], num_samples)).astype(np.int64, copy=False))


# In-place forms


def _write(x: Tensor, draw: Callable[[Any], Array]) -> Tensor:
    sample = draw(backend_of(x.array).xp)
    return apply_inplace(COPY, x, new_tensor(sample.astype(x.array.dtype, copy=False)))


def _check_floating(x: Tensor) -> None:
    if x.array.dtype.kind not in INEXACT:
        raise NotImplementedError(f"not implemented for {describe(x)}; expected a floating dtype")


def _lower_bound(bound: float, keywords: dict[str, Any]) -> float:
    """Return the argument ``from``, a reserved word, which can only be passed by ``**keywords``."""
    if keywords and list(keywords) != ["from"]:
        raise TypeError(f"got unexpected keyword arguments {', '.join(keywords)}")
    return keywords.get("from", bound)


@operator(namespace="Tensor", name="uniform_", differentiable=False, derivative="overwritten")
def uniform_(
    self: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None, **keywords: Number
) -> Tensor:
    """Fill the Tensor with numbers uniform on ``[from, to)``.

    Dtype: floating and complex, whose parts are both drawn from ``[from, to)``.

    Args:
        from_: the lower bound; also under PyTorch's name ``from``.
        to: the upper bound.

    Raises:
        RuntimeError: ``from`` is greater than ``to``, or ``to - from`` is beyond the range of the dtype.

    >>> rg.zeros(3).uniform_(-1, 1).shape
    (3,)
    """
    low = _lower_bound(from_, keywords)
    _check_floating(self)
    if low > to:
        raise RuntimeError(f"expects a range [from, to), got from={low} > to={to}")
    kind = self.array.dtype
    part = self.array.real.dtype
    if to - low > bounds(part)[1]:
        raise RuntimeError(f"the range [from, to) is wider than the range of {kind}, got from={low}, to={to}")
    start = kind.type(low if part == kind else complex(low, low))
    return _write(self, lambda xp: uniform(xp, self.array.shape, kind, generator) * part.type(to - low) + start)


@operator(
    namespace="Tensor",
    name="normal_",
    differentiable=False,
    derivative="overwritten",
    dtype="floating and complex",
    args="mean, std",
)
def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """``self[i] ~ N(mean, std^2)``: fill the Tensor with normal numbers.

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


@operator(namespace="Tensor", name="exponential_", differentiable=False, real=True, like=uniform_)
def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill the Tensor with numbers x >= 0 of density ``lambd * e^(-lambd * x)``.

    Args:
        lambd: the rate, above 0.

    Raises:
        RuntimeError: the rate is not positive.

    >>> bool((rg.zeros(3).exponential_() >= 0).all())
    True
    """
    _check_floating(self)
    if not lambd > 0:
        raise RuntimeError(f"expects lambd > 0, got {lambd}")
    # In float16, uniform numbers may round to 0, whose logarithm is infinite; use the smallest positive number instead.
    least = 2.0**-24 if self.array.dtype == np.float16 and lambd < math.inf else 0.0

    def draw(xp: Any) -> Array:
        sample = -xp.log1p(-uniform(xp, self.array.shape, _DOUBLE, generator)) / lambd
        return xp.maximum(sample, least) if least else sample

    return _write(self, draw)


@operator(namespace="Tensor", name="bernoulli_", differentiable=False, real=True, derivative="overwritten")
def bernoulli_(self: Tensor, p: Operand = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fill the Tensor with ``1`` with probability ``p``, else ``0``, drawn for each element.

    Dtype: any but complex.

    Args:
        p: a probability, or several that broadcast to the Tensor.

    Raises:
        RuntimeError: a probability is not between 0 and 1.

    >>> rg.zeros(2).bernoulli_(1.0)
    tensor([1., 1.])
    """
    array = operand(p, "p").array
    _check_probabilities(array)
    return _write(self, lambda xp: uniform(xp, self.array.shape, _DOUBLE, generator) < array)


def _integer_bounds(bounds: tuple[int | None, ...], keywords: dict[str, int | None]) -> tuple[int | None, int | None]:
    """Return the arguments ``from`` and ``to`` of ``random_``; a single positional argument is ``to``."""
    named = {"from" if name == "from_" else name: value for name, value in keywords.items()}
    if set(named) - {"from", "to"}:
        raise TypeError(f"got unexpected keyword arguments {', '.join(named)}")
    if len(bounds) + len(named) > 2:
        raise TypeError(f"expected at most two bounds, from and to, got {bounds} and {named}")
    if bounds:
        places = ("to",) if len(bounds) == 1 and "to" not in named else ("from", "to")
        named |= dict(zip(places, bounds))
    return named.get("from"), named.get("to")


@operator(namespace="Tensor", name="random_", differentiable=False, derivative="overwritten", dtype="any")
def random_(self: Tensor, *bounds: int | None, generator: Generator | None = None, **keywords: int | None) -> Tensor:
    """Fill the Tensor with integers uniform on ``from, ..., to - 1``: ``random_()``, ``random_(to)`` or
    ``random_(from, to)``.

    Args:
        bounds: ``to``, or ``from`` and ``to``; also by these names. ``from`` is the smallest integer, by default 0, and
            ``to`` one more than the largest. With ``to=None`` the largest is the end of the range in which the dtype
            represents every integer.

    Raises:
        RuntimeError: ``from`` is not less than ``to``, or the dtype does not hold the integers between them.

    >>> rg.zeros(2).random_(1)
    tensor([0., 0.])
    """
    low, to = _integer_bounds(bounds, keywords)
    dtype = self.array.dtype
    if to is None:
        if dtype.kind in FLOATING:
            most = round(2 / precision(dtype))
        else:
            most = 1 if dtype.kind == "b" else int(np.iinfo(dtype).max)
        to = most if low is None and most == 2**63 - 1 else most + 1
    low, to = integer(low or 0, "from"), integer(to, "to")
    if low >= to:
        raise RuntimeError(f"expects from to be less than to, got from={low} >= to={to}")
    check_within(dtype, low, to)
    first, bound = _represented(dtype, low, to) if dtype.kind in FLOATING else (low, to)
    return _write(self, lambda xp: integers(xp, first, bound, self.array.shape, generator))


def _represented(dtype: DType, low: int, to: int) -> tuple[int, int]:
    """Return the bounds moved inward to numbers of a floating dtype; warn if it lacks some integers between them."""
    exact = round(2 / precision(dtype))  # the dtype represents all integers up to this one
    for name, bound in (("from", low), ("to - 1", to - 1)):
        if not -exact <= bound <= exact:
            warnings.warn(
                f"random_: {name} is out of bounds [{-exact}, {exact}]: {dtype} does not represent all "
                "integers beyond, so some are not drawn",
                UserWarning,
                stacklevel=4,
            )
    digits = exact.bit_length() - 1
    steps = [1 << max(0, abs(bound).bit_length() - digits) for bound in (low, to - 1)]
    first, last = -(-low // steps[0]) * steps[0], (to - 1) // steps[1] * steps[1]
    return (first, last + 1) if first <= last else (low, to)


# Samples have zero derivatives, as in PyTorch.
POISSON: Primitive = Primitive("poisson", lambda x, sample: sample, "x", [lambda g: ZEROS(g)], batch=given("sample"))


@operator(method=False, real=True, dtype="floating", derivative="zero")
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Counts k with probability ``input^k e^-input / k!``.

    Args:
        input: the rates, not negative.

    Raises:
        RuntimeError: a rate is negative, or the input is not floating.

    >>> rg.poisson(rg.zeros(2))
    tensor([0., 0.])
    """
    x = operand(input)
    if x.dtype.kind not in FLOATING:
        raise RuntimeError(f"expected floating rates, got {describe(x)}")
    if x.array.size and not bool((all_examples(x.array) >= 0).all()):
        raise RuntimeError(f"expected rates >= 0, got negative ones in {describe(x)}")
    source = default_generator if generator is None else generator

    def draw(rates: Array) -> Array:
        counts = source.numpy.poisson(backend_of(rates).to_numpy(rates).astype(np.float64))
        return backend_of(rates).asarray(np.asarray(counts), dtype=x.dtype)

    return apply(POISSON, (x,), {"sample": drawn_from(draw, x.array)})


@operator(namespace="Tensor", name="log_normal_", differentiable=False, real=True)
def log_normal_(self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None) -> Tensor:
    """Fill the Tensor with ``e^(mean + std * z)``, where z is normal with mean 0 and variance 1.

    Derivative: zero for the overwritten values.
    Dtype: floating.

    Args:
        mean: the mean of the logarithm.
        std: the standard deviation of the logarithm, above 0.

    Raises:
        RuntimeError: ``std`` is not positive.

    >>> bool((rg.zeros(3).log_normal_() > 0).all())
    True
    """
    _check_floating(self)
    mean, std = number(mean, "mean"), number(std, "std")
    if not std > 0:
        raise RuntimeError(f"expects std > 0, got {std}")
    return _write(self, lambda xp: xp.exp(standard_normal(xp, self.array.shape, _DOUBLE, generator) * std + mean))


@operator(namespace="Tensor", name="cauchy_", differentiable=False, real=True, like=log_normal_)
def cauchy_(self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill the Tensor with numbers x of density ``sigma / (pi ((x - median)^2 + sigma^2))``.

    Args:
        median: the median.
        sigma: half the width of the density at half its height, above 0.

    Raises:
        RuntimeError: ``sigma`` is not positive.

    >>> rg.zeros(3).cauchy_().shape
    (3,)
    """
    _check_floating(self)
    median, sigma = number(median, "median"), number(sigma, "sigma")
    if not sigma > 0:
        raise RuntimeError(f"expects sigma > 0, got {sigma}")
    return _write(
        self, lambda xp: median + sigma * xp.tan(np.pi * (uniform(xp, self.array.shape, _DOUBLE, generator) - 0.5))
    )


@operator(namespace="Tensor", name="geometric_", differentiable=False, real=True, derivative="overwritten")
def geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Fill the Tensor with counts ``k = 1, 2, ...`` of probability ``(1 - p)^(k - 1) p``.

    Dtype: all but bool and complex.

    Args:
        p: the probability of success in each trial, in ``(0, 1)``.

    Raises:
        RuntimeError: ``p`` is not between 0 and 1.

    >>> bool((rg.zeros(3).geometric_(0.5) >= 1).all())
    True
    """
    if not 0 < p < 1:
        raise RuntimeError(f"expects p in (0, 1), got {p}")
    return _write(
        self, lambda xp: xp.floor(xp.log1p(-uniform(xp, self.array.shape, _DOUBLE, generator)) / np.log1p(-p)) + 1
    )
