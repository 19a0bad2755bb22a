"""Random numbers for the families, drawn from the library's default generator."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from ..._generated.toplevel import empty, log_softmax, rand, randn
from ...core.arrays import Array
from ...core.arrays.devices import backend_of
from ...core.arrays.dtypes import limits
from ...core.graph.primitive import apply
from ...core.tensor.tensor import Tensor, new_tensor
from ...ops.make.generators import default_generator
from ...ops.make.random_arrays import drawn_from
from ...ops.table.elementwise_primitives import elementwise
from ..utils import eps_of, tiny_of
from .beta_derivative import DIRICHLET
from .gamma_derivative import RELATIVE_SLOPE
from .von_mises_derivative import VON_MISES

Shape = Sequence[int]


def drawn_on_host(draw: Callable[..., np.ndarray], like: Tensor, *parameters: Tensor) -> Tensor:
    """Draw numbers on the CPU with NumPy's generator; the result has the device of ``like``.

    Args:
        draw: takes NumPy's generator and the parameters as arrays of float64.
        like: a Tensor with the dtype and device of the result.
        parameters: the parameters of the distribution, in the shape of the result.
    """

    def on_host(*arrays: Array) -> Array:
        backend = backend_of(arrays[0])
        numbers = [backend.to_numpy(array).astype(np.float64) for array in arrays]
        return backend.asarray(np.asarray(draw(default_generator.numpy, *numbers)).astype(like.dtype))

    return new_tensor(drawn_from(on_host, *[x.array for x in parameters]))


def _log_gamma(concentration: Tensor) -> Tensor:
    """Draw logarithms of gamma samples in float64: if x has shape a + 1 and u is uniform, x u^(1/a) has shape a."""

    def draw(generator: np.random.Generator, a: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(generator.standard_gamma(a + 1)) - generator.standard_exponential(a.shape) / a

    return drawn_on_host(draw, concentration.detach().double(), concentration)


def _gamma_rule(g: Array, a: Array, ans: Array) -> Array:
    return g * ans * RELATIVE_SLOPE(a, np.log(np.maximum(ans, limits(ans.dtype).tiny)))


_GAMMA = elementwise("standard_gamma", lambda a, drawn: drawn, "a", [_gamma_rule])
_LOG_GAMMA = elementwise(
    "standard_log_gamma", lambda a, drawn: drawn, "a", [lambda g, a, ans: g * RELATIVE_SLOPE(a, ans)]
)


def standard_gamma(concentration: Tensor) -> Tensor:
    """Draw from gamma distributions with these shape parameters and rate 1, with implicit gradients.

    As in PyTorch, samples are not smaller than the smallest normal number, where densities are finite.

    >>> a = rg.tensor(1e4, requires_grad=True)
    >>> from retrograd.distributions.sampling.draws import standard_gamma
    >>> standard_gamma(a).backward()
    >>> bool((a.grad - 1).abs() < 0.1)
    True
    """
    drawn = _log_gamma(concentration).exp().to(dtype=concentration.dtype).clamp(min=tiny_of(concentration))
    return apply(_GAMMA, (concentration,), {"drawn": drawn.array})


def standard_log_gamma(concentration: Tensor) -> Tensor:
    """Draw logarithms of ``standard_gamma`` samples."""
    drawn = _log_gamma(concentration).to(dtype=concentration.dtype).clamp(min=math.log(tiny_of(concentration)))
    return apply(_LOG_GAMMA, (concentration,), {"drawn": drawn.array})


def dirichlet(concentration: Tensor) -> Tensor:
    """Draw from Dirichlet distributions with concentrations along the last dimension, with implicit gradients.

    Samples are computed from logarithms of gamma samples, which may all underflow to 0. As in PyTorch, samples lie
    between the smallest normal number and the largest number below 1, where densities are finite.
    """
    drawn = log_softmax(_log_gamma(concentration), -1).exp().to(dtype=concentration.dtype)
    drawn = drawn.clamp(min=tiny_of(drawn), max=1 - eps_of(drawn) / 2)
    return apply(DIRICHLET, (concentration,), {"drawn": drawn.array})


def standard_von_mises(concentration: Tensor) -> Tensor:
    """Draw from von Mises distributions around 0 with these concentrations, with implicit gradients."""

    def draw(generator: np.random.Generator, k: np.ndarray) -> np.ndarray:
        return generator.vonmises(0.0, k)

    drawn = drawn_on_host(draw, concentration.detach(), concentration)
    return apply(VON_MISES, (concentration,), {"drawn": drawn.array})


def uniform(shape: Shape, like: Tensor) -> Tensor:
    """Draw uniform numbers in [0, 1), with the dtype and device of a Tensor."""
    return rand(tuple(shape), dtype=like.dtype, device=like.device)


def normal(shape: Shape, like: Tensor) -> Tensor:
    """Draw standard normal numbers, with the dtype and device of a Tensor."""
    return randn(tuple(shape), dtype=like.dtype, device=like.device)


def exponential(shape: Shape, like: Tensor) -> Tensor:
    """Draw from the exponential distribution of rate 1, with the dtype and device of a Tensor."""
    return empty(tuple(shape), dtype=like.dtype, device=like.device).exponential_()
