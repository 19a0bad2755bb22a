"""In-place activation functions of ``nn.functional``: ``relu_(x)`` is ``relu(x, inplace=True)``."""

from __future__ import annotations

from ....core.tensor.tensor import Tensor
from ...table.registry import operator
from .piecewise import _threshold
from .rectifiers import _celu, _relu, _selu, elu, hardtanh, leaky_relu


@operator(namespace="nn.functional", method=False, name="relu_", like=_relu)
def relu_(input: Tensor) -> Tensor:
    """``max(input, 0)``; the input is overwritten and returned.

    >>> F.relu_(rg.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return _relu(input, inplace=True)


@operator(namespace="nn.functional", method=False, name="leaky_relu_", like=leaky_relu)
def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """``input`` where it is positive, else ``negative_slope * input``; the input is overwritten and returned.

    >>> F.leaky_relu_(rg.tensor([-1.0, 2.0]), 0.5)
    tensor([-0.5,  2. ])
    """
    return leaky_relu(input, negative_slope, inplace=True)


@operator(namespace="nn.functional", method=False, name="elu_", like=elu)
def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """``input`` where it is positive, else ``alpha (exp(input) - 1)``; the input is overwritten and returned.

    >>> F.elu_(rg.tensor([0.0, 2.0]))
    tensor([0., 2.])
    """
    return elu(input, alpha, inplace=True)


@operator(namespace="nn.functional", method=False, name="celu_", like=_celu)
def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """``input`` where it is positive, else ``alpha (exp(input / alpha) - 1)``; the input is overwritten and returned.

    >>> F.celu_(rg.tensor([0.0, 2.0]))
    tensor([0., 2.])
    """
    return _celu(input, alpha, inplace=True)


@operator(namespace="nn.functional", method=False, name="selu_", like=_selu)
def selu_(input: Tensor) -> Tensor:
    """``scale input`` above 0, else ``scale alpha (exp(input) - 1)``; the input is overwritten and returned.

    >>> F.selu_(rg.tensor([0.0, 1.0]))
    tensor([0.    , 1.0507])
    """
    return _selu(input, inplace=True)


@operator(namespace="nn.functional", method=False, name="hardtanh_", like=hardtanh)
def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """``min(max(input, min_val), max_val)``; the input is overwritten and returned.

    >>> F.hardtanh_(rg.tensor([-3.0, 0.5]))
    tensor([-1. ,  0.5])
    """
    return hardtanh(input, min_val, max_val, inplace=True)


@operator(namespace="nn.functional", method=False, name="threshold_", like=_threshold)
def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """``input`` where it is greater than ``threshold``, else ``value``; the input is overwritten and returned.

    >>> F.threshold_(rg.tensor([-1.0, 2.0]), 0.5, -9.0)
    tensor([-9.,  2.])
    """
    return _threshold(input, threshold, value, inplace=True)
