"""Initialization of parameters. Each function fills a Tensor in place, without recording, and returns it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil, erf, inf, sqrt
from threading import local
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import describe
from ..core.graph.modes import no_grad
from ..core.missing_names import legacy_names
from ..core.tensor.tensor import Tensor, new_tensor
from ..ops.make.filled import empty
from ..ops.make.generators import Generator
from ..ops.table.documentation import like


class _Here(local):
    draws = True  # whether initializers in this thread draw random numbers


_here = _Here()


@contextmanager
def no_random_weights() -> Iterator[None]:
    """Make ``uniform_``, ``normal_`` and the initializers that call them leave Tensors unchanged.

    This saves time for models whose weights are loaded from a file afterwards.

    >>> with rg.nn.init.no_random_weights():
    ...     layer = rg.nn.Linear(4096, 4096)
    """
    before, _here.draws = _here.draws, False
    try:
        yield
    finally:
        _here.draws = before


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the factor of the standard deviation that preserves the variance through a nonlinearity.

    Args:
        nonlinearity: the name of a function of ``nn.functional``.
        param: the negative slope of ``"leaky_relu"``, 0.01 by default.

    Raises:
        ValueError: the nonlinearity is unknown.

    >>> calculate_gain("relu")
    1.4142135623730951
    """
    linear = (
        "linear",
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_transpose1d",
        "conv_transpose2d",
        "conv_transpose3d",
        "sigmoid",
    )
    if nonlinearity in linear:
        return 1.0
    if nonlinearity == "leaky_relu":
        if param is not None and (isinstance(param, bool) or not isinstance(param, (int, float))):
            raise ValueError(f"calculate_gain: negative_slope {param} is not a valid number")
        return sqrt(2.0 / (1 + (0.01 if param is None else param) ** 2))
    gains = {"tanh": 5.0 / 3, "relu": sqrt(2.0), "selu": 3.0 / 4}
    if nonlinearity not in gains:
        known = ", ".join([*linear, "leaky_relu", *gains])
        raise ValueError(f"calculate_gain: unsupported nonlinearity {nonlinearity!r}; expected one of {known}")
    return gains[nonlinearity]


@no_grad()
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill a Tensor with uniform numbers in ``[a, b)``.

    Args:
        tensor: written in place and returned, of any shape and a floating dtype.
        a, b: the lower and the upper bound.
        generator: the source of random numbers; the global one by default.

    Raises:
        RuntimeError: ``a`` is greater than ``b``.

    >>> bool((rg.nn.init.uniform_(rg.empty(100), 2.0, 3.0) >= 2).all())
    True
    """
    return tensor.uniform_(a, b, generator=generator) if _here.draws else tensor


@like(uniform_)
@no_grad()
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill a Tensor with normal numbers of mean ``mean`` and standard deviation ``std``.

    Args:
        mean, std: mean and standard deviation of the drawn numbers.

    Raises:
        RuntimeError: ``std`` is negative.

    >>> abs(rg.nn.init.normal_(rg.empty(1000), mean=5.0).mean().item() - 5) < 0.2
    True
    """
    return tensor.normal_(mean, std, generator=generator) if _here.draws else tensor


@like(uniform_)
@no_grad()
def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Fill a Tensor with normal numbers of the given mean and standard deviation, truncated to ``[a, b]``.

    Args:
        mean, std: mean and standard deviation before the truncation.

    Raises:
        ValueError: the standard deviation is not positive, or the interval is empty.
        NotImplementedError: the dtype of the Tensor is not real floating.

    >>> rg.nn.init.trunc_normal_(rg.empty(1000)).abs().max().item() <= 2
    True
    """
    _require_floating("trunc_normal_", tensor)
    if std <= 0 or a >= b:
        raise ValueError(f"trunc_normal_: std must be positive and a < b, got std={std}, a={a}, b={b}")
    low, high = (a - mean) / std, (b - mean) / std
    values = _truncated_normal(tensor.numel(), low, high, generator).reshape(tensor.shape)
    # Rounding to the dtype of the Tensor must not produce numbers outside the interval.
    return tensor.copy_(new_tensor(np.clip(mean + std * values, a, b))).clamp_(a, b)


def _require_floating(name: str, tensor: Tensor) -> None:
    if not tensor.is_floating_point():
        raise NotImplementedError(f"{name}: expected a floating Tensor, got {describe(tensor)}")


def _truncated_normal(count: int, low: float, high: float, generator: Generator | None) -> np.ndarray:
    """Draw standard normal numbers in ``[low, high]``, by rejection sampling."""
    if low + high < 0:
        return -_truncated_normal(count, -high, -low, generator)
    mass = (erf(high / sqrt(2)) - erf(low / sqrt(2))) / 2
    nearest = max(low, 0.0)
    # If normal numbers are rarely inside, propose uniform numbers, up to where the density is negligible.
    far = min(high, nearest + 40 / max(nearest, 5.0))
    parts: list[np.ndarray] = []
    found = 0
    while found < count:
        size = 2 * (count - found) + 16
        draws: Any = empty(size, dtype=np.float64, device="cpu")
        if mass > 0.1:
            proposed = draws.normal_(generator=generator).array
            kept = proposed[(proposed >= low) & (proposed <= high)]
        else:
            proposed = low + (far - low) * draws.uniform_(generator=generator).array
            chance = empty(size, dtype=np.float64, device="cpu").uniform_(generator=generator).array
            kept = proposed[chance <= np.exp((nearest**2 - proposed**2) / 2)]
        parts.append(kept)
        found += len(kept)
    return np.concatenate([*parts, np.empty(0)])[:count]


@no_grad()
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill a Tensor with the number ``val``.

    Args:
        tensor: written in place and returned, of any shape and dtype.
        val: the value of every element.

    >>> rg.nn.init.constant_(rg.empty(2), 0.5)
    tensor([0.5, 0.5])
    """
    return tensor.fill_(val)


@like(constant_)
@no_grad()
def ones_(tensor: Tensor) -> Tensor:
    """Fill a Tensor with ones.

    >>> rg.nn.init.ones_(rg.empty(2))
    tensor([1., 1.])
    """
    return tensor.fill_(1)


@like(constant_)
@no_grad()
def zeros_(tensor: Tensor) -> Tensor:
    """Fill a Tensor with zeros.

    >>> rg.nn.init.zeros_(rg.empty(2))
    tensor([0., 0.])
    """
    return tensor.zero_()


@no_grad()
def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with the identity, so that a linear layer preserves its inputs where possible.

    Args:
        tensor: a matrix, written in place and returned.

    Raises:
        ValueError: the Tensor is not a matrix.

    >>> rg.nn.init.eye_(rg.empty(2, 3))
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    if tensor.ndim != 2:
        raise ValueError(f"eye_: only Tensors with 2 dimensions are supported, got {describe(tensor)}")
    return tensor.copy_(new_tensor(np.eye(*tensor.shape)))


@no_grad()
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fill a weight with the Dirac delta, so that a convolution preserves its input channels where possible.

    Args:
        tensor: the weight of a convolution, ``(out, in / groups, *kernel)``.
        groups: the number of groups of the convolution.

    Raises:
        ValueError: the Tensor is not the weight of a convolution, or the groups do not divide its first dimension.

    >>> rg.nn.init.dirac_(rg.empty(1, 1, 3))
    tensor([[[0., 1., 0.]]])
    """
    if tensor.ndim not in (3, 4, 5):
        raise ValueError(f"dirac_: only Tensors with 3, 4, or 5 dimensions are supported, got {describe(tensor)}")
    outputs, inputs, *lengths = tensor.shape
    if outputs % groups:
        raise ValueError(f"dirac_: dim 0 must be divisible by groups={groups}, got {describe(tensor)}")
    values = np.zeros(tensor.shape)
    center = tuple(length // 2 for length in lengths)
    per_group = outputs // groups
    for group in range(groups):
        for channel in range(min(per_group, inputs)):
            values[(group * per_group + channel, channel, *center)] = 1
    return tensor.copy_(new_tensor(values))


# PyTorch's name, which other packages import.
def _calculate_fan_in_and_fan_out(tensor: Tensor, name: str = "init") -> tuple[int, int]:
    """Return fan_in, the number of inputs of an output, and fan_out, the number of outputs of an input."""
    if tensor.ndim < 2:
        raise ValueError(f"{name}: fan in and fan out need a Tensor of at least 2 dimensions, got {describe(tensor)}")
    outputs, inputs, *lengths = tensor.shape
    field = 1
    for length in lengths:
        field *= length
    return inputs * field, outputs * field


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill a Tensor with uniform numbers in ``±gain * sqrt(6 / (fan_in + fan_out))``.

    Args:
        tensor: a weight of at least 2 dimensions, ``(out, in, *kernel)``.
        gain: a factor, see ``calculate_gain``.
        generator: the source of random numbers; the global one by default.

    Raises:
        ValueError: the Tensor has fewer than 2 dimensions.

    Source: Glorot and Bengio, Understanding the difficulty of training deep feedforward neural networks, 2010.

    >>> rg.nn.init.xavier_uniform_(rg.empty(3, 3)).abs().max().item() <= 1
    True
    """
    bound = gain * sqrt(6.0 / sum(_calculate_fan_in_and_fan_out(tensor, "xavier_uniform_")))
    return uniform_(tensor, -bound, bound, generator)


@like(xavier_uniform_, raises="ValueError", source=True)
def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fill a Tensor with normal numbers of standard deviation ``gain * sqrt(2 / (fan_in + fan_out))``.

    >>> rg.nn.init.xavier_normal_(rg.empty(3, 5)).shape
    (3, 5)
    """
    return normal_(
        tensor, 0.0, gain * sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor, "xavier_normal_"))), generator
    )


def _kaiming_std(name: str, tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"{name}: mode {mode!r} is not supported, use 'fan_in' or 'fan_out'")
    fan = _calculate_fan_in_and_fan_out(tensor, name)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / sqrt(fan) if fan else inf


@like(xavier_uniform_)
def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill a Tensor with uniform numbers in ``±gain * sqrt(3 / fan)`` (He et al., 2015).

    Args:
        a: the negative slope of a leaky relu.
        mode: ``"fan_in"`` preserves the variance of activations, ``"fan_out"`` the variance of gradients.
        nonlinearity: the activation function after the layer; see ``calculate_gain``.

    Raises:
        ValueError: the Tensor has fewer than 2 dimensions, or ``mode`` or ``nonlinearity`` is unknown.

    Source: He, Zhang, Ren, Sun, Delving deep into rectifiers, 2015.

    >>> rg.nn.init.kaiming_uniform_(rg.empty(4, 6)).abs().max().item() <= 1
    True
    """
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=2)
        return tensor
    bound = sqrt(3.0) * _kaiming_std("kaiming_uniform_", tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


@like(kaiming_uniform_, raises="ValueError", source=True)
def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fill a Tensor with normal numbers of standard deviation ``gain / sqrt(fan)`` (He et al., 2015).

    >>> rg.nn.init.kaiming_normal_(rg.empty(4, 6), mode="fan_out", nonlinearity="relu").shape
    (4, 6)
    """
    if 0 in tensor.shape:
        warnings.warn("Initializing zero-element tensors is a no-op", stacklevel=2)
        return tensor
    return normal_(tensor, 0.0, _kaiming_std("kaiming_normal_", tensor, a, mode, nonlinearity), generator)


@like(xavier_uniform_, raises="ValueError")
@no_grad()
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Fill a Tensor with a random matrix with orthonormal rows or columns, times ``gain`` (Saxe et al., 2013).

    Args:
        tensor: a Tensor of at least 2 dimensions; all dimensions after the first are flattened.
        gain: a factor.

    Raises:
        NotImplementedError: the Tensor is not real floating.

    >>> w = rg.nn.init.orthogonal_(rg.empty(2, 5))
    >>> rg.allclose(w @ w.T, rg.eye(2), atol=1e-6)
    True
    """
    if tensor.ndim < 2:
        raise ValueError(f"orthogonal_: only Tensors with 2 or more dimensions are supported, got {describe(tensor)}")
    _require_floating("orthogonal_", tensor)
    if tensor.numel() == 0:
        return tensor
    rows = tensor.shape[0]
    columns = tensor.numel() // rows
    draws = empty(rows, columns, dtype=np.float64, device="cpu").normal_(generator=generator).array
    q, r = np.linalg.qr(draws.T if rows < columns else draws)
    # Q alone is not uniformly distributed; multiplying by the signs of R's diagonal makes it so (Mezzadri, 2006).
    q = q * np.sign(np.diag(r))
    return tensor.copy_(new_tensor(gain * (q.T if rows < columns else q).reshape(tensor.shape)))


@like(uniform_, eye_, raises="ValueError")
@no_grad()
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Fill a matrix with normal numbers, a fraction ``sparsity`` of each column set to zero (Martens, 2010).

    Args:
        tensor: a matrix.
        sparsity: the fraction, in ``[0, 1]``, rounded up to whole elements.
        std: the standard deviation of the other elements.

    >>> int((rg.nn.init.sparse_(rg.empty(10, 3), 0.5) == 0).sum())
    15
    """
    if tensor.ndim != 2:
        raise ValueError(f"sparse_: only Tensors with 2 dimensions are supported, got {describe(tensor)}")
    tensor.normal_(0, std, generator=generator)
    draws = empty(*tensor.shape, dtype=np.float64, device="cpu").uniform_(generator=generator).array
    ranks = np.argsort(np.argsort(draws, axis=0), axis=0)
    return tensor.mul_(new_tensor(ranks >= ceil(sparsity * tensor.shape[0])).to(tensor.device))


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
