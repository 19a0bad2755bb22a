"""The activations of ``nn.functional`` that write over their input: ``relu_(x)`` is ``relu(x, inplace=True)``."""

from __future__ import annotations

from collections.abc import Callable

from ...core.tensor import Tensor
from ..table.registry import operator
from .activations import _celu, _relu, _selu, _threshold, elu, hardtanh, leaky_relu


def _enter(name: str) -> Callable[[Callable[..., Tensor]], Callable[..., Tensor]]:
    return operator(namespace="nn.functional", method=False, name=name)


@_enter("relu_")
def relu_(input: Tensor) -> Tensor:
    """As ``relu``, written over the input, which is returned.

    >>> rg.nn.functional.relu_(rg.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return _relu(input, inplace=True)


@_enter("leaky_relu_")
def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """As ``leaky_relu``, written over the input, which is returned.

    >>> rg.nn.functional.leaky_relu_(rg.tensor([-1.0, 2.0]), 0.5)
    tensor([-0.5,  2. ])
    """
    return leaky_relu(input, negative_slope, inplace=True)


@_enter("elu_")
def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """As ``elu``, written over the input, which is returned.

    >>> rg.nn.functional.elu_(rg.tensor([0.0, 2.0]))
    tensor([0., 2.])
    """
    return elu(input, alpha, inplace=True)


@_enter("celu_")
def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """As ``celu``, written over the input, which is returned.

    >>> rg.nn.functional.celu_(rg.tensor([0.0, 2.0]))
    tensor([0., 2.])
    """
    return _celu(input, alpha, inplace=True)


@_enter("selu_")
def selu_(input: Tensor) -> Tensor:
    """As ``selu``, written over the input, which is returned.

    >>> rg.nn.functional.selu_(rg.tensor([0.0, 1.0]))
    tensor([0.    , 1.0507])
    """
    return _selu(input, inplace=True)


@_enter("hardtanh_")
def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """As ``hardtanh``, written over the input, which is returned.

    >>> rg.nn.functional.hardtanh_(rg.tensor([-3.0, 0.5]))
    tensor([-1. ,  0.5])
    """
    return hardtanh(input, min_val, max_val, inplace=True)


@_enter("threshold_")
def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """As ``threshold``, written over the input, which is returned.

    >>> rg.nn.functional.threshold_(rg.tensor([-1.0, 2.0]), 0.5, -9.0)
    tensor([-9.,  2.])
    """
    return _threshold(input, threshold, value, inplace=True)
