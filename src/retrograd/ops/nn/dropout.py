"""Dropout: set random elements or channels to zero (or to SELU's negative saturation) during training."""

from __future__ import annotations

from warnings import warn

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import array_module
from ...core.arrays.dtypes import INEXACT
from ...core.errors import InvalidValue, describe
from ...core.graph.primitive import Primitive, apply, operand
from ...core.source_location import user_level
from ...core.tensor.mutation import apply_inplace
from ...core.tensor.tensor import Tensor, new_tensor
from ...kernels.loops.elements.elementwise import kept
from ..make.random_arrays import random_mask
from ..table.elementwise_primitives import KEEP, elementwise
from ..table.registry import operator
from ..table.types import Operand

_SATURATION = -1.7580993408473766  # the limit of SELU at -inf: minus its scale times its alpha


def _dropout(x: Array, keep: Array, scale: float) -> Array:
    out = kept(x, keep, scale)
    if out is not None:
        return out
    out = KEEP(x, keep)
    out *= scale
    return out


# The mask is saved as bools, which need a quarter of the memory of float32.
DROPOUT: Primitive = elementwise(
    "dropout",
    _dropout,
    "x",
    [lambda g, keep, scale: DROPOUT(g, keep=keep, scale=scale)],
    compiled="fd",
    reference=lambda x, keep, scale: np.where(keep, x, 0) * scale,
)


def _check(input: Operand, p: float) -> Tensor:
    x = operand(input)
    if not 0.0 <= p <= 1.0:
        raise InvalidValue(f"the dropout probability has to be between 0 and 1, but got {p}")
    return x


def _check_floating(x: Tensor) -> None:
    """Raise an error for dtypes that are not floating; not called if the input is returned unchanged."""
    if x.array.dtype.kind not in INEXACT:
        raise RuntimeError(f"expected a floating Tensor, got {describe(x)}")


def _dropped(x: Tensor, shape: tuple[int, ...], p: float, inplace: bool) -> Tensor:
    """Set to zero with probability p, one decision per element of ``shape``; scale the rest by 1 / (1 - p)."""
    _check_floating(x)
    params = {"keep": random_mask(array_module(x), shape, 1 - p), "scale": 1 / (1 - p) if p < 1 else 1.0}
    return apply_inplace(DROPOUT, x, **params) if inplace else apply(DROPOUT, (x,), params)


@operator(namespace="nn.functional", method=False, real=True, raises="probability")
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """``input / (1 - p)`` with probability ``1 - p``, else 0, elementwise; without ``training`` the input itself.

    Derivative: ``g / (1 - p)`` where the element was not dropped, else 0.
    Dtype: real floating, preserved; any if nothing is dropped.

    Args:
        p: the probability of setting an element to 0.

    Raises:
        RuntimeError: dropout is applied to an input that is not floating.

    Source: Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov, "Dropout", 2014.

    >>> F.dropout(rg.ones(3), 1.0)
    tensor([0., 0., 0.])
    """
    x = _check(input, p)
    return _dropped(x, x.array.shape, p, inplace) if training and p > 0 else x


def _channelwise(x: Tensor, channels: int, p: float, training: bool, inplace: bool) -> Tensor:
    """Apply dropout with one decision per index of the first ``channels`` dimensions."""
    return _dropped(x, _decisions(x, channels, p), p, inplace) if training and p > 0 else x


def _decisions(x: Tensor, channels: int, p: float) -> tuple[int, ...]:
    """Return the shape of the random decisions; too few dimensions are an error only if numbers are drawn (PyTorch)."""
    if x.array.ndim < channels and p < 1 and x.array.size:
        raise RuntimeError(f"expected at least {channels} dimensions, got {describe(x)}")
    return x.array.shape[:channels] + (1,) * (x.array.ndim - channels)


@operator(namespace="nn.functional", method=False, real=True, like=dropout)
def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """``input / (1 - p)`` with probability ``1 - p``, else 0, whole channels at a time.

    Derivative: ``g / (1 - p)`` where the channel was not dropped, else 0.
    Shape: ``(N, C, L)`` or ``(C, L)``; the result has the input's shape.

    Raises:
        RuntimeError: the input has other than 2 or 3 dimensions, or dropout is applied and it is not floating.

    Source: Tompson, Goroshin, Jain, LeCun, Bregler, "Efficient object localization using convolutional networks", 2015.

    >>> F.dropout1d(rg.ones(1, 2), 1.0)
    tensor([[0., 0.]])
    """
    x = _check(input, p)
    if x.array.ndim not in (2, 3):
        raise RuntimeError(f"expected 2 or 3 dimensions, got {describe(x)}")
    return _channelwise(x, x.array.ndim - 1, p, training, inplace)


@operator(namespace="nn.functional", method=False, real=True, like=dropout1d)
def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """``input / (1 - p)`` with probability ``1 - p``, else 0, whole channels at a time.

    Shape: ``(N, C, H, W)``; inputs ``(N, C, *)`` of other shapes give a warning, and three dimensions are read as
    ``(N, C, L)``, as in PyTorch. The result has the input's shape.

    Raises:
        RuntimeError: dropout is applied to an input that has fewer than 2 dimensions or is not floating.

    >>> F.dropout2d(rg.ones(1, 1, 1, 2), 1.0)
    tensor([[[[0., 0.]]]])
    """
    x = _check(input, p)
    if x.array.ndim not in (0, 1, 4):
        warn(
            f"dropout2d: expected (N, C, H, W), got {x.array.ndim} dimensions; the first two are read as N and C",
            stacklevel=user_level(),
        )
    return _channelwise(x, 2, p, training, inplace)


@operator(namespace="nn.functional", method=False, real=True, like=dropout1d)
def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """``input / (1 - p)`` with probability ``1 - p``, else 0, whole channels at a time.

    Shape: ``(N, C, D, H, W)`` or ``(C, D, H, W)``; other inputs ``(C, *)`` give a warning. The result has the input's
    shape.

    Raises:
        RuntimeError: the input has no dimensions, or dropout is applied and it is not floating.

    >>> F.dropout3d(rg.ones(1, 1, 1, 2), 1.0)
    tensor([[[[0., 0.]]]])
    """
    x = _check(input, p)
    if x.array.ndim not in (0, 4, 5):
        text = f"dropout3d: expected (N, C, D, H, W), got {x.array.ndim} dimensions; the first is read as C"
        warn(text, stacklevel=user_level())
    return _channelwise(x, 2 if x.array.ndim == 5 else 1, p, training, inplace)


def _saturated(x: Tensor, shape: tuple[int, ...], p: float, inplace: bool) -> Tensor:
    """Set to SELU's saturation with probability p, then apply an affine map that preserves mean 0 and variance 1."""
    _check_floating(x)
    if p == 1:
        return _dropped(x, shape, p, inplace)
    xp = array_module(x)
    keep = random_mask(xp, shape, 1 - p)
    a = ((1 - p) * (1 + p * _SATURATION**2)) ** -0.5
    b = -a * _SATURATION * p
    shift = new_tensor(((~keep) * (a * _SATURATION) + b).astype(x.array.dtype))
    params = {"keep": keep, "scale": a}
    return apply_inplace(DROPOUT, x, **params).add_(shift) if inplace else apply(DROPOUT, (x,), params) + shift


@operator(namespace="nn.functional", method=False, real=True, like=dropout)
def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """``a input + b`` with probability ``1 - p``, else ``a s + b``, elementwise: dropout for SELU networks.

    ``s = -1.7581`` is the limit of SELU at -inf; ``a = 1 / sqrt((1 - p) (1 + p s^2))`` and ``b = -a s p`` keep mean 0
    and variance 1.

    Derivative: ``a g`` where the element was not saturated, else 0.

    Args:
        p: the probability of saturation; with 1 all elements become 0.

    Source: Klambauer, Unterthiner, Mayr, Hochreiter, "Self-normalizing neural networks", 2017.

    >>> F.alpha_dropout(rg.ones(3), 0.5, training=False)
    tensor([1., 1., 1.])
    """
    x = _check(input, p)
    return _saturated(x, x.array.shape, p, inplace) if training and p > 0 else x


@operator(namespace="nn.functional", method=False, real=True, shape="channels", like=alpha_dropout)
def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """``a input + b`` with probability ``1 - p``, else ``a s + b``: ``alpha_dropout`` of whole channels.

    Derivative: ``a g`` where the channel was not saturated, else 0.

    Raises:
        RuntimeError: dropout is applied to an input that is not floating or has fewer than two dimensions.

    >>> F.feature_alpha_dropout(rg.ones(1, 2, 2), 0.5, training=False).shape
    (1, 2, 2)
    """
    x = _check(input, p)
    return _saturated(x, _decisions(x, 2, p), p, inplace) if training and p > 0 else x
