"""The activations of ``nn.functional`` that write over their input: ``relu_(x)`` is ``relu(x, inplace=True)``."""

from __future__ import annotations

from ....core.tensor import Tensor
from ...table.registry import operator
from .piecewise import _threshold
from .rectifiers import _celu, _relu, _selu, elu, hardtanh, leaky_relu


@operator(namespace="nn.functional", method=False, name="relu_", dtype="number", raises="bools or complex")
def relu_(input: Tensor) -> Tensor:
    """``max(input, 0)``; the input is overwritten and returned.

    Derivative: ``g`` where the input is positive or NaN, else 0; 0 at 0.

    >>> F.relu_(rg.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return _relu(input, inplace=True)


@operator(namespace="nn.functional", method=False, name="leaky_relu_", dtype="real")
def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """``input`` where it is positive, else ``negative_slope * input``; the input is overwritten and returned.

    Derivative: ``g`` above 0, ``g negative_slope`` below and at 0.

    Args:
        input: the Tensor that is written.

    >>> F.leaky_relu_(rg.tensor([-1.0, 2.0]), 0.5)
    tensor([-0.5,  2. ])
    """
    return leaky_relu(input, negative_slope, inplace=True)


@operator(namespace="nn.functional", method=False, name="elu_", like=leaky_relu_)
def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """``input`` where it is positive, else ``alpha (exp(input) - 1)``; the input is overwritten and returned.

    Derivative: ``g`` above 0, ``g alpha exp(input)`` below and at 0.

    Args:
        alpha: minus the limit far below 0.

    >>> F.elu_(rg.tensor([0.0, 2.0]))
    tensor([0., 2.])
    """
    return elu(input, alpha, inplace=True)


@operator(namespace="nn.functional", method=False, name="celu_", like=elu_)
def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """``input`` where it is positive, else ``alpha (exp(input / alpha) - 1)``; the input is overwritten and returned.

    Derivative: ``g`` above 0, ``g exp(input / alpha)`` below and at 0.

    Raises:
        RuntimeError: ``alpha`` is 0.

    >>> F.celu_(rg.tensor([0.0, 2.0]))
    tensor([0., 2.])
    """
    return _celu(input, alpha, inplace=True)


@operator(namespace="nn.functional", method=False, name="selu_", dtype="real")
def selu_(input: Tensor) -> Tensor:
    """``scale input`` above 0, else ``scale alpha (exp(input) - 1)``; the input is overwritten and returned.

    Derivative: ``g scale`` above 0, ``g scale alpha exp(input)`` below and at 0; the constants are those of ``selu``.

    >>> F.selu_(rg.tensor([0.0, 1.0]))
    tensor([0.    , 1.0507])
    """
    return _selu(input, inplace=True)


@operator(namespace="nn.functional", method=False, name="hardtanh_", dtype="number")
def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """``min(max(input, min_val), max_val)``; the input is overwritten and returned.

    Derivative: ``g`` between the bounds, 0 outside and at the bounds.

    Args:
        input: the Tensor that is written.

    Raises:
        ValueError: ``min_val`` is greater than ``max_val``.

    >>> F.hardtanh_(rg.tensor([-3.0, 0.5]))
    tensor([-1. ,  0.5])
    """
    return hardtanh(input, min_val, max_val, inplace=True)


@operator(namespace="nn.functional", method=False, name="threshold_", dtype="number")
def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """``input`` where it is greater than ``threshold``, else ``value``; the input is overwritten and returned.

    Derivative: ``g`` above the threshold, 0 below and at it.

    Args:
        input: the Tensor that is written.
        threshold: the bound.
        value: what replaces elements up to the bound.

    Raises:
        NotImplementedError: the input holds bools.

    >>> F.threshold_(rg.tensor([-1.0, 2.0]), 0.5, -9.0)
    tensor([-9.,  2.])
    """
    return _threshold(input, threshold, value, inplace=True)
