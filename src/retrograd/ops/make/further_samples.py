"""Further random numbers: Poisson and other distributions, also written to a Tensor in place."""

from __future__ import annotations

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import all_examples, backend_of
from ...core.arrays.dtypes import FLOATING
from ...core.errors import describe
from ...core.graph.primitive import Primitive, apply, operand
from ...core.tensor.tensor import Tensor
from ..table.arguments import number
from ..table.batching import given
from ..table.elementwise import ZEROS
from ..table.registry import operator
from .generators import Generator, default_generator
from .random_arrays import drawn_from, standard_normal, uniform
from .sampling import _check_floating, _write

_DOUBLE = np.dtype(np.float64)

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
        raise RuntimeError(f"expected rates >= 0, got others among {describe(x)}")
    source = default_generator if generator is None else generator

    def draw(rates: Array) -> Array:
        counts = source.numpy.poisson(backend_of(rates).to_numpy(rates).astype(np.float64))
        return backend_of(rates).asarray(np.asarray(counts), dtype=x.dtype)

    return apply(POISSON, (x,), {"sample": drawn_from(draw, x.array)})


@operator(namespace="Tensor", name="log_normal_", differentiable=False, real=True)
def log_normal_(self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None) -> Tensor:
    """Write ``e^(mean + std * z)``, z being normal with mean 0 and variance 1, over every element.

    Derivative: zero for what was there before.
    Dtype: floating.

    Args:
        mean: the mean of the logarithm.
        std: its standard deviation, above 0.

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
    """Write numbers of density ``sigma / (pi ((x - median)^2 + sigma^2))`` over every element.

    Args:
        median: the median.
        sigma: half the width at half the height, above 0.

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
    """Write counts ``k = 1, 2, ...`` with probability ``(1 - p)^(k - 1) p`` over every element.

    Dtype: all but bool and complex.

    Args:
        p: the probability of an end, in ``(0, 1)``.

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
