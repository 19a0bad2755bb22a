"""Nonlinearities, elementwise and along a dimension."""

from __future__ import annotations

from typing import Any

from ..core.errors import describe
from ..core.tensor import Tensor
from . import functional as F
from . import init
from .module import Module
from .parameter import Parameter, new_parameter


class _Inplace(Module):
    """A nonlinearity whose only argument is whether it overwrites its input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


def _and_inplace(module: Any) -> str:
    return ", inplace=True" if module.inplace else ""


class ReLU(_Inplace):
    """``max(x, 0)``.

    >>> import retrograd as rg
    >>> rg.nn.ReLU()(rg.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, self.inplace)


class SELU(_Inplace):
    """``scale * (max(0, x) + min(0, alpha * (exp(x) - 1)))`` with the constants of Klambauer et al. (2017).

    >>> import retrograd as rg
    >>> rg.nn.SELU()(rg.tensor([0.0, 1.0]))
    tensor([0.    , 1.0507])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)


class SiLU(_Inplace):
    """``x * sigmoid(x)``, also called swish (Hendrycks and Gimpel, 2016).

    >>> import retrograd as rg
    >>> rg.nn.SiLU()(rg.tensor([0.0, 1.0]))
    tensor([0.    , 0.7311])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, self.inplace)


class Mish(_Inplace):
    """``x * tanh(softplus(x))`` (Misra, 2019).

    >>> import retrograd as rg
    >>> rg.nn.Mish()(rg.tensor([0.0, 1.0]))
    tensor([0.    , 0.8651])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, self.inplace)


class Hardswish(Module):
    """``x * min(max(x + 3, 0), 6) / 6`` (Howard et al., 2019).

    >>> import retrograd as rg
    >>> rg.nn.Hardswish()(rg.tensor([-3.0, 3.0]))
    tensor([-0.,  3.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)


class Hardsigmoid(Module):
    """``min(max(x / 6 + 1 / 2, 0), 1)``.

    >>> import retrograd as rg
    >>> rg.nn.Hardsigmoid()(rg.tensor([-4.0, 0.0]))
    tensor([0. , 0.5])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)


class ELU(Module):
    """``x`` where positive, ``alpha * (exp(x) - 1)`` elsewhere (Clevert et al., 2015).

    >>> import retrograd as rg
    >>> rg.nn.ELU()(rg.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}{_and_inplace(self)}"


class CELU(Module):
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))`` (Barron, 2017).

    >>> import retrograd as rg
    >>> rg.nn.CELU()(rg.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}{_and_inplace(self)}"


class LeakyReLU(Module):
    """``x`` where positive, ``negative_slope * x`` elsewhere.

    >>> import retrograd as rg
    >>> rg.nn.LeakyReLU(0.5)(rg.tensor([-1.0, 1.0]))
    tensor([-0.5,  1. ])
    """

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return f"negative_slope={self.negative_slope}{_and_inplace(self)}"


class PReLU(Module):
    """``x`` where positive, ``weight * x`` elsewhere, the slope learned (He et al., 2015).

    Args:
        num_parameters: one slope for all, or one per channel (the second dimension).
        init: the slopes at first.

    >>> import retrograd as rg
    >>> rg.nn.PReLU()(rg.tensor([-1.0, 1.0])).detach()
    tensor([-0.25,  1.  ])
    """

    weight: Parameter

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
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


class Hardtanh(Module):
    """``min(max(x, min_val), max_val)``.

    >>> import retrograd as rg
    >>> rg.nn.Hardtanh()(rg.tensor([-3.0, 0.5]))
    tensor([-1. ,  0.5])
    """

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        if max_val <= min_val:
            raise ValueError(f"Hardtanh: max_val must be larger than min_val, got {min_val} and {max_val}")
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return f"min_val={self.min_val}, max_val={self.max_val}{_and_inplace(self)}"


class ReLU6(Hardtanh):
    """``min(max(x, 0), 6)``.

    >>> import retrograd as rg
    >>> rg.nn.ReLU6()(rg.tensor([-1.0, 8.0]))
    tensor([0., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def forward(self, input: Tensor) -> Tensor:
        return F.relu6(input, self.inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class Threshold(Module):
    """``x`` where greater than ``threshold``, ``value`` elsewhere.

    >>> import retrograd as rg
    >>> rg.nn.Threshold(0.1, 20.0)(rg.tensor([0.0, 1.0]))
    tensor([20.,  1.])
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return f"threshold={self.threshold}, value={self.value}{_and_inplace(self)}"


class GELU(Module):
    """``x * Phi(x)`` with the normal distribution function (Hendrycks and Gimpel, 2016); ``"tanh"`` approximates it.

    >>> import retrograd as rg
    >>> rg.nn.GELU(approximate="tanh")(rg.tensor([0.0, 1.0]))
    tensor([0.    , 0.8412])
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Softplus(Module):
    """``log(1 + exp(beta * x)) / beta``, linear where ``beta * x`` exceeds ``threshold``.

    >>> import retrograd as rg
    >>> rg.nn.Softplus()(rg.tensor([0.0, 30.0]))
    tensor([ 0.6931, 30.    ])
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class Hardshrink(Module):
    """``x`` where ``|x|`` is greater than ``lambd``, 0 elsewhere.

    >>> import retrograd as rg
    >>> rg.nn.Hardshrink()(rg.tensor([-1.0, 0.2]))
    tensor([-1.,  0.])
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return str(self.lambd)


class Softshrink(Module):
    """``sign(x) * max(|x| - lambd, 0)``.

    >>> import retrograd as rg
    >>> rg.nn.Softshrink()(rg.tensor([-1.0, 0.2]))
    tensor([-0.5,  0. ])
    """

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return str(self.lambd)


class Sigmoid(Module):
    """``1 / (1 + exp(-x))``.

    >>> import retrograd as rg
    >>> rg.nn.Sigmoid()(rg.zeros(1))
    tensor([0.5])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.sigmoid(input)


class LogSigmoid(Module):
    """``log(1 / (1 + exp(-x)))``.

    >>> import retrograd as rg
    >>> rg.nn.LogSigmoid()(rg.zeros(1))
    tensor([-0.6931])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class Tanh(Module):
    """``tanh(x)``.

    >>> import retrograd as rg
    >>> rg.nn.Tanh()(rg.zeros(1))
    tensor([0.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.tanh(input)


class Tanhshrink(Module):
    """``x - tanh(x)``.

    >>> import retrograd as rg
    >>> rg.nn.Tanhshrink()(rg.ones(1))
    tensor([0.2384])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


class Softsign(Module):
    """``x / (1 + |x|)``.

    >>> import retrograd as rg
    >>> rg.nn.Softsign()(rg.ones(1))
    tensor([0.5])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class GLU(Module):
    """``a * sigmoid(b)`` of the two halves of a dimension (Dauphin et al., 2016).

    >>> import retrograd as rg
    >>> rg.nn.GLU()(rg.tensor([3.0, 0.0]))
    tensor([1.5])
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class _Along(Module):
    """A function along one dimension."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_Along):
    """``exp(x_i) / sum_j exp(x_j)`` along a dimension.

    >>> import retrograd as rg
    >>> rg.nn.Softmax(dim=0)(rg.zeros(2))
    tensor([0.5, 0.5])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim)


class Softmin(_Along):
    """``exp(-x_i) / sum_j exp(-x_j)`` along a dimension.

    >>> import retrograd as rg
    >>> rg.nn.Softmin(dim=0)(rg.zeros(2))
    tensor([0.5, 0.5])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim)


class LogSoftmax(_Along):
    """``x_i - log(sum_j exp(x_j))`` along a dimension.

    >>> import retrograd as rg
    >>> rg.nn.LogSoftmax(dim=0)(rg.zeros(2))
    tensor([-0.6931, -0.6931])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim)


class Softmax2d(Module):
    """Softmax over the channels at each place of an image: ``(N, C, H, W)`` or ``(C, H, W)``.

    >>> import retrograd as rg
    >>> rg.nn.Softmax2d()(rg.zeros(1, 2, 1, 1)).flatten()
    tensor([0.5, 0.5])
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (3, 4):
            raise ValueError(f"Softmax2d: expected an input of 3 or 4 dimensions, got {describe(input)}")
        return F.softmax(input, -3)
