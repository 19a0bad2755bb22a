"""Nonlinearities, elementwise and along a dimension. The results have the input's shape and dtype."""

from __future__ import annotations

import warnings
from dataclasses import InitVar, field

from ...core.errors import describe
from ...core.tensor.tensor import Tensor
from .. import functional as F
from .. import init
from ..base.arguments import DeviceLike, DTypeLike
from ..base.fields import calls, calls_with_fields, init_from_fields
from ..base.module import Module
from ..parameter import Parameter, new_parameter


@calls_with_fields(F.relu)
class ReLU(Module):
    """``max(x, 0)``, elementwise; shape and dtype are preserved.

    >>> rg.nn.ReLU()(rg.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    inplace: bool = False


@calls_with_fields(F.selu)
class SELU(Module):
    """``scale * (max(0, x) + min(0, alpha * (exp(x) - 1)))``, with constants that preserve mean and variance.

    ``scale = 1.0507...`` and ``alpha = 1.6732...``. Shape and dtype are preserved.

    Source: Klambauer et al., Self-normalizing neural networks, 2017.

    >>> rg.nn.SELU()(rg.tensor([0.0, 1.0]))
    tensor([0.    , 1.0507])
    """

    inplace: bool = False


@calls_with_fields(F.silu)
class SiLU(Module):
    """``x * sigmoid(x)``, also called swish, elementwise; shape and dtype are preserved.

    Source: Hendrycks and Gimpel, Gaussian error linear units, 2016.

    >>> rg.nn.SiLU()(rg.tensor([0.0, 1.0]))
    tensor([0.    , 0.7311])
    """

    inplace: bool = False


@calls_with_fields(F.mish)
class Mish(Module):
    """``x * tanh(log(1 + exp(x)))``, elementwise; shape and dtype are preserved.

    Source: Misra, Mish: a self regularized non-monotonic activation function, 2019.

    >>> rg.nn.Mish()(rg.tensor([0.0, 1.0]))
    tensor([0.    , 0.8651])
    """

    inplace: bool = False


@calls_with_fields(F.hardswish)
class Hardswish(Module):
    """``x * min(max(x + 3, 0), 6) / 6``, elementwise; shape and dtype are preserved.

    Source: Howard et al., Searching for MobileNetV3, 2019.

    >>> rg.nn.Hardswish()(rg.tensor([-3.0, 3.0]))
    tensor([-0.,  3.])
    """

    inplace: bool = field(default=False, repr=False)


@calls_with_fields(F.hardsigmoid)
class Hardsigmoid(Module):
    """``min(max(x / 6 + 1 / 2, 0), 1)``, elementwise; shape and dtype are preserved.

    >>> rg.nn.Hardsigmoid()(rg.tensor([-4.0, 0.0]))
    tensor([0. , 0.5])
    """

    inplace: bool = field(default=False, repr=False)


@calls_with_fields(F.elu)
class ELU(Module):
    """``x`` where positive, ``alpha * (exp(x) - 1)`` elsewhere; shape and dtype are preserved.

    Source: Clevert et al., Fast and accurate deep network learning by exponential linear units, 2016.

    >>> rg.nn.ELU()(rg.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """

    alpha: float = 1.0
    inplace: bool = False


@calls_with_fields(F.celu)
class CELU(Module):
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))``, elementwise; shape and dtype are preserved.

    Raises:
        RuntimeError: when called, ``alpha`` is 0.

    Source: Barron, Continuously differentiable exponential linear units, 2017.

    >>> rg.nn.CELU()(rg.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """

    alpha: float = 1.0
    inplace: bool = False


@calls_with_fields(F.leaky_relu)
class LeakyReLU(Module):
    """``x`` where positive, ``negative_slope * x`` elsewhere; shape and dtype are preserved.

    >>> rg.nn.LeakyReLU(0.5)(rg.tensor([-1.0, 1.0]))
    tensor([-0.5,  1. ])
    """

    negative_slope: float = 0.01
    inplace: bool = False


class PReLU(Module):
    """``x`` where positive, ``weight * x`` elsewhere, with learned slopes; shape and dtype are preserved.

    Args:
        num_parameters: 1 for one slope, or the number of channels (dimension 1) for one slope per channel.
        init: the initial value of the slopes.
        device, dtype: device and dtype of the slopes.

    Source: He et al., Delving deep into rectifiers, 2015.

    >>> rg.nn.PReLU()(rg.tensor([-1.0, 1.0])).detach()
    tensor([-0.25,  1.  ])
    """

    weight: Parameter

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: DeviceLike = None, dtype: DTypeLike = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = new_parameter((num_parameters,), device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the initial slopes."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


@calls_with_fields(F.hardtanh)
class Hardtanh(Module):
    """``min(max(x, min_val), max_val)``, elementwise; shape and dtype are preserved.

    Args:
        min_value, max_value: deprecated names of the bounds.

    Raises:
        ValueError: ``max_val`` is not larger than ``min_val``.

    >>> rg.nn.Hardtanh()(rg.tensor([-3.0, 0.5]))
    tensor([-1. ,  0.5])
    """

    min_val: float = -1.0
    max_val: float = 1.0
    inplace: bool = False
    min_value: InitVar[float | None] = None
    max_value: InitVar[float | None] = None

    def __post_init__(self, min_value: float | None, max_value: float | None) -> None:
        for older, name, value in (("min_value", "min_val", min_value), ("max_value", "max_val", max_value)):
            if value is not None:
                warnings.warn(f"Hardtanh: {older} is deprecated, use {name}", FutureWarning, stacklevel=5)
                setattr(self, name, value)
        if self.max_val <= self.min_val:
            raise ValueError(
                f"{type(self).__name__}: max_val must be larger than min_val, got {self.min_val} and {self.max_val}"
            )


class ReLU6(Hardtanh):
    """``min(max(x, 0), 6)``, elementwise; shape and dtype are preserved.

    >>> rg.nn.ReLU6()(rg.tensor([-1.0, 8.0]))
    tensor([0., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


@calls_with_fields(F.threshold)
class Threshold(Module):
    """``x`` where greater than ``threshold``, ``value`` elsewhere; shape and dtype are preserved.

    >>> rg.nn.Threshold(0.1, 20.0)(rg.tensor([0.0, 1.0]))
    tensor([20.,  1.])
    """

    threshold: float
    value: float
    inplace: bool = False


@calls_with_fields(F.gelu)
class GELU(Module):
    """``x * Phi(x)`` with the normal distribution function Phi, elementwise; shape and dtype are preserved.

    Source: Hendrycks and Gimpel, Gaussian error linear units, 2016.

    >>> rg.nn.GELU(approximate="tanh")(rg.tensor([0.0, 1.0]))
    tensor([0.    , 0.8412])
    """

    approximate: str = "none"


@calls_with_fields(F.softplus)
class Softplus(Module):
    """``log(1 + exp(beta * x)) / beta``, elementwise; shape and dtype are preserved.

    >>> rg.nn.Softplus()(rg.tensor([0.0, 30.0]))
    tensor([ 0.6931, 30.    ])
    """

    beta: float = 1.0
    threshold: float = 20.0


@calls_with_fields(F.hardshrink)
class Hardshrink(Module):
    """``x`` where ``|x|`` is greater than ``lambd``, 0 elsewhere; shape and dtype are preserved.

    >>> rg.nn.Hardshrink()(rg.tensor([-1.0, 0.2]))
    tensor([-1.,  0.])
    """

    lambd: float = 0.5

    def extra_repr(self) -> str:
        return str(self.lambd)


@calls_with_fields(F.softshrink)
class Softshrink(Module):
    """``sign(x) * max(|x| - lambd, 0)``, elementwise; shape and dtype are preserved.

    Raises:
        RuntimeError: when called, ``lambd`` is negative.

    >>> rg.nn.Softshrink()(rg.tensor([-1.0, 0.2]))
    tensor([-0.5,  0. ])
    """

    lambd: float = 0.5

    def extra_repr(self) -> str:
        return str(self.lambd)


@calls(F.sigmoid)
class Sigmoid(Module):
    """``1 / (1 + exp(-x))``, elementwise; shape and dtype are preserved.

    >>> rg.nn.Sigmoid()(rg.zeros(1))
    tensor([0.5])
    """


@calls(F.logsigmoid)
class LogSigmoid(Module):
    """``log(1 / (1 + exp(-x)))``, elementwise; shape and dtype are preserved.

    >>> rg.nn.LogSigmoid()(rg.zeros(1))
    tensor([-0.6931])
    """


@calls(F.tanh)
class Tanh(Module):
    """``tanh(x)``, elementwise; shape and dtype are preserved.

    >>> rg.nn.Tanh()(rg.zeros(1))
    tensor([0.])
    """


@calls(F.tanhshrink)
class Tanhshrink(Module):
    """``x - tanh(x)``, elementwise; shape and dtype are preserved.

    >>> rg.nn.Tanhshrink()(rg.ones(1))
    tensor([0.2384])
    """


@calls(F.softsign)
class Softsign(Module):
    """``x / (1 + |x|)``, elementwise; shape and dtype are preserved.

    >>> rg.nn.Softsign()(rg.ones(1))
    tensor([0.5])
    """


@calls_with_fields(F.glu)
class GLU(Module):
    """``a * sigmoid(b)`` of the two halves of a dimension: ``(*, 2 N, *)`` to ``(*, N, *)``.

    Raises:
        RuntimeError: when called, the dimension's length is odd.

    Source: Dauphin et al., Language modeling with gated convolutional networks, 2017.

    >>> rg.nn.GLU()(rg.tensor([3.0, 0.0]))
    tensor([1.5])
    """

    dim: int = -1


@calls_with_fields(F.softmax)
class Softmax(Module):
    """``exp(x_i) / (sum_j exp(x_j))`` along a dimension; shape and dtype are preserved.

    >>> rg.nn.Softmax(dim=0)(rg.zeros(2))
    tensor([0.5, 0.5])
    """

    dim: int | None = None


@calls_with_fields(F.softmin)
class Softmin(Module):
    """``exp(-x_i) / (sum_j exp(-x_j))`` along a dimension; shape and dtype are preserved.

    >>> rg.nn.Softmin(dim=0)(rg.zeros(2))
    tensor([0.5, 0.5])
    """

    dim: int | None = None


@calls_with_fields(F.log_softmax)
class LogSoftmax(Module):
    """``x_i - log(sum_j exp(x_j))`` along a dimension; shape and dtype are preserved.

    >>> rg.nn.LogSoftmax(dim=0)(rg.zeros(2))
    tensor([-0.6931, -0.6931])
    """

    dim: int | None = None


class Softmax2d(Module):
    """Softmax over the channels of images ``(N, C, H, W)`` or ``(C, H, W)``, at each pixel.

    Raises:
        ValueError: when called, the input has neither 3 nor 4 dimensions.

    >>> rg.nn.Softmax2d()(rg.zeros(1, 2, 1, 1)).flatten()
    tensor([0.5, 0.5])
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: expected an input of 3 or 4 dimensions, got {describe(input)}")
        return F.softmax(input, -3)


@init_from_fields
class _RReLU(Module):
    lower: float = 1.0 / 8
    upper: float = 1.0 / 3
    inplace: bool = False


_RReLU._settings += ("training",)


@calls(F.rrelu)
class RReLU(_RReLU):
    """``x`` where positive, ``a x`` elsewhere; a is random in ``[lower, upper)`` in training, else the bounds' mean.

    Shape: any, preserved.

    Source: Xu et al., Empirical evaluation of rectified activations in convolutional network, 2015.

    >>> rg.nn.RReLU(0.25, 0.75).eval()(rg.tensor([-1.0, 2.0]))
    tensor([-0.5,  2. ])
    """
