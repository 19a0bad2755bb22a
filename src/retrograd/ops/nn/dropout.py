"""Dropout: elements or whole channels set to zero (or to SELU's negative saturation) at random while training."""

from __future__ import annotations

from typing import Any

from ...core.devices import array_module
from ...core.errors import InvalidValue, describe
from ...core.mutation import apply_inplace
from ...core.primitive import Primitive, apply, operand
from ...core.tensor import Tensor, new_tensor
from ..make.random_arrays import random_mask
from ..table.masks import KEEP
from ..table.registry import operator

_SATURATION = -1.7580993408473766  # of SELU: minus its scale times its alpha


def _dropout(x: Any, keep: Any, scale: float) -> Any:
    out = KEEP(x, keep)
    out *= scale
    return out


def _dropout_in_place(out: Any, x: Any, keep: Any, scale: float) -> None:
    out[...] = _dropout(x, keep, scale)


# The mask is kept as bools, a quarter of what float32 takes.
DROPOUT: Primitive = Primitive(
    "dropout",
    _dropout,
    "x",
    [lambda g, keep, scale: DROPOUT(g, keep=keep, scale=scale)],
    elementwise=True,
    write=_dropout_in_place,
)


def _check(name: str, input: Any, p: float) -> Tensor:
    x = operand(input)
    if not 0.0 <= p <= 1.0:
        raise InvalidValue(f"the dropout probability has to be between 0 and 1, but got {p}")
    if x.array.dtype.kind not in "fc":
        raise RuntimeError(f"wanted a floating Tensor, got {describe(x)}")
    return x


def _dropped(x: Tensor, shape: tuple[int, ...], p: float, inplace: bool) -> Tensor:
    """Zero with probability p, one decision per element of ``shape``; the rest is scaled by 1 / (1 - p)."""
    params = {"keep": random_mask(array_module(x), shape, 1 - p), "scale": 1 / (1 - p) if p < 1 else 1.0}
    return apply_inplace(DROPOUT, x, **params) if inplace else apply(DROPOUT, (x,), params)


@operator(namespace="nn.functional", method=False, real=True)
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Each element zero with probability ``p``, the others scaled by 1 / (1 - p) (Srivastava et al., 2014).

    Without ``training`` the input itself.

    Raises:
        ValueError: ``p`` is not between 0 and 1.

    >>> rg.nn.functional.dropout(rg.ones(3), 1.0)
    tensor([0., 0., 0.])
    """
    x = _check("dropout", input, p)
    return _dropped(x, x.array.shape, p, inplace) if training and p > 0 else x


def _channelwise(name: str, input: Any, p: float, training: bool, inplace: bool, dims: tuple[int, ...]) -> Tensor:
    x = _check(name, input, p)
    if x.array.ndim not in dims:
        raise RuntimeError(f"wanted {dims[0]} or {dims[-1]} dimensions, got {describe(x)}")
    if not training or p == 0:
        return x
    channels = x.array.ndim - dims[0] + 1  # dimensions in front of the spatial ones
    shape = x.array.shape[:channels] + (1,) * (x.array.ndim - channels)
    return _dropped(x, shape, p, inplace)


@operator(namespace="nn.functional", method=False, real=True)
def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels of (N, C, L) or (C, L) zero with probability ``p``, the others scaled by 1 / (1 - p).

    Raises:
        ValueError: ``p`` is not between 0 and 1.
        RuntimeError: the input has other than 2 or 3 dimensions.

    >>> rg.nn.functional.dropout1d(rg.ones(1, 2), 1.0)
    tensor([[0., 0.]])
    """
    return _channelwise("dropout1d", input, p, training, inplace, (2, 3))


@operator(namespace="nn.functional", method=False, real=True)
def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels of (N, C, H, W) or (C, H, W) zero with probability ``p``, the others scaled by 1 / (1 - p).

    Raises:
        ValueError: ``p`` is not between 0 and 1.
        RuntimeError: the input has other than 3 or 4 dimensions.

    >>> rg.nn.functional.dropout2d(rg.ones(1, 1, 2), 1.0)
    tensor([[[0., 0.]]])
    """
    return _channelwise("dropout2d", input, p, training, inplace, (3, 4))


@operator(namespace="nn.functional", method=False, real=True)
def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels of (N, C, D, H, W) or (C, D, H, W) zero with probability ``p``, the others scaled by 1 / (1 - p).

    Raises:
        ValueError: ``p`` is not between 0 and 1.
        RuntimeError: the input has other than 4 or 5 dimensions.

    >>> rg.nn.functional.dropout3d(rg.ones(1, 1, 1, 2), 1.0)
    tensor([[[[0., 0.]]]])
    """
    return _channelwise("dropout3d", input, p, training, inplace, (4, 5))


def _saturated(x: Tensor, shape: tuple[int, ...], p: float, inplace: bool) -> Tensor:
    """SELU's saturation with probability p, then an affine map that keeps mean 0 and variance 1."""
    if p == 1:
        return _dropped(x, shape, p, inplace)
    xp = array_module(x)
    keep = random_mask(xp, shape, 1 - p)
    a = ((1 - p) * (1 + p * _SATURATION**2)) ** -0.5
    b = -a * _SATURATION * p
    shift = new_tensor(((~keep) * (a * _SATURATION) + b).astype(x.array.dtype))
    params = {"keep": keep, "scale": a}
    return apply_inplace(DROPOUT, x, **params).add_(shift) if inplace else apply(DROPOUT, (x,), params) + shift


@operator(namespace="nn.functional", method=False, real=True)
def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout for SELU networks: dropped elements saturate, mean and variance stay (Klambauer et al., 2017).

    Raises:
        ValueError: ``p`` is not between 0 and 1.

    >>> rg.nn.functional.alpha_dropout(rg.ones(3), 0.5, training=False)
    tensor([1., 1., 1.])
    """
    x = _check("alpha_dropout", input, p)
    return _saturated(x, x.array.shape, p, inplace) if training and p > 0 else x


@operator(namespace="nn.functional", method=False, real=True)
def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """As ``alpha_dropout``, but whole channels (of dimension 1) are dropped.

    Raises:
        ValueError: ``p`` is not between 0 and 1.
        RuntimeError: the input has fewer than two dimensions.

    >>> rg.nn.functional.feature_alpha_dropout(rg.ones(1, 2, 2), 0.5, training=False).shape
    (1, 2, 2)
    """
    x = _check("feature_alpha_dropout", input, p)
    if x.array.ndim < 2:
        raise RuntimeError(f"wanted at least 2 dimensions, got {describe(x)}")
    shape = x.array.shape[:2] + (1,) * (x.array.ndim - 2)
    return _saturated(x, shape, p, inplace) if training and p > 0 else x
