"""Optimizers with a step size per element, computed from the history of its gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from ..core.arrays.devices import backend_of
from ..core.arrays.dtypes import float32, limits
from ..core.tensor.tensor import Tensor, new_tensor
from .hyperparameters import Fraction, LearningRate, NotNegative, ParamGroup, Range, hyperparameters, numbers
from .optimizer import Formula, Optimizer, ParamsT, UpdateForm


class Adagrad(Optimizer):
    r"""Divide by the root of the sum of all squared gradients.

    ``s += g^2``; ``p -= lr * g / ((1 + (t - 1) * lr_decay) * (sqrt(s) + eps))``.

    Args:
        lr_decay: how fast the learning rate decreases with the number of steps t.
        initial_accumulator_value: the value of ``s`` before the first step.

    Source: Duchi, Hazan and Singer, Adaptive subgradient methods for online learning and stochastic optimization, 2011.

    >>> x = rg.tensor(3.0, requires_grad=True)
    >>> (x * x).backward()
    >>> rg.optim.Adagrad([x], lr=0.5).step()
    >>> x.item()
    2.5
    """

    takes_sparse_gradients = True

    def __init__(
        self,
        params: ParamsT,
        lr: LearningRate = 1e-2,
        lr_decay: NotNegative = 0,
        weight_decay: NotNegative = 0,
        initial_accumulator_value: NotNegative = 0,
        eps: NotNegative = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(params, hyperparameters(locals()))
        for group in self.param_groups:
            for parameter in group["params"]:
                self._start(parameter)

    def _start(self, parameter: Tensor) -> None:
        start = self.defaults["initial_accumulator_value"]
        total = self._zeros_like(parameter)
        total.array[...] = complex(start, start) if total.array.dtype.kind == "c" else start
        self.state[parameter] = {"step": self._scalar(0), "sum": total}

    def _formula(self, group: ParamGroup) -> Formula:
        return "adagrad", ("sum",), tuple(numbers(group, "eps"))

    def _rates(self, parameter: Tensor, group: ParamGroup) -> Sequence[float]:
        if not self.state[parameter]:
            self._start(parameter)
        lr, lr_decay = numbers(group, "lr", "lr_decay")
        return (lr / (1 + (self._begin(parameter)[1] - 1) * lr_decay),)


class Adadelta(Optimizer):
    r"""Scale the gradient by the root mean square of past updates divided by that of past gradients.

    ``v += (1 - rho) * (g**2 - v)``, ``d = sqrt((u + eps) / (v + eps)) * g``, ``u += (1 - rho) * (d**2 - u)`` and
    ``p -= lr * d``.

    Args:
        lr: the factor of the steps.
        rho: the decay rate of the averages.
        eps: added to both averages for numerical stability; it determines the first updates.

    Source: Zeiler, ADADELTA: an adaptive learning rate method, 2012.

    >>> x = rg.tensor(3.0, requires_grad=True)
    >>> (x * x).backward()
    >>> rg.optim.Adadelta([x]).step()
    >>> 2.99 < x.item() < 3.0
    True
    """

    def __init__(
        self,
        params: ParamsT,
        lr: LearningRate = 1.0,
        rho: Fraction = 0.9,
        eps: NotNegative = 1e-6,
        weight_decay: NotNegative = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, hyperparameters(locals()))

    def _formula(self, group: ParamGroup) -> Formula:
        lr, eps, rho = numbers(group, "lr", "eps", "rho")
        return "adadelta", ("square_avg", "acc_delta"), (lr, eps, rho, 1 - rho)


class RMSprop(Optimizer):
    r"""Divide by the root of the moving average of squared gradients.

    ``v += (1 - alpha) * (g**2 - v)``, ``d = g / (sqrt(v) + eps)``; with ``centered`` the square of the gradient's
    moving average is subtracted from ``v`` under the root. Then ``p -= lr * d``, or with momentum
    ``b = momentum * b + d`` and ``p -= lr * b``.

    Args:
        alpha: the decay rate of the average.
        momentum: the factor of the momentum buffer ``b``.
        centered: divide by the gradient's standard deviation.

    Source: Tieleman and Hinton, lecture 6.5 of Neural Networks for Machine Learning, 2012; Graves, Generating
    sequences with recurrent neural networks, 2013 (centered).

    >>> x = rg.tensor(3.0, requires_grad=True)
    >>> (x * x).backward()
    >>> rg.optim.RMSprop([x], lr=0.1, alpha=0.75).step()
    >>> round(x.item(), 4)
    2.8
    """

    def __init__(
        self,
        params: ParamsT,
        lr: LearningRate = 1e-2,
        alpha: NotNegative = 0.99,
        eps: NotNegative = 1e-8,
        weight_decay: NotNegative = 0,
        momentum: NotNegative = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, hyperparameters(locals()))

    def _formula(self, group: ParamGroup) -> Formula:
        lr, eps, alpha, momentum = numbers(group, "lr", "eps", "alpha", "momentum")
        centered = bool(group["centered"])
        name = "centered" if centered else "rmsprop"
        states = ("square_avg", *["grad_avg"] * centered)
        factors = (lr, eps, alpha, 1 - alpha, *[1 - (1 - alpha)] * centered)
        if momentum:
            return f"{name}_momentum", (*states, "momentum_buffer"), (*factors, momentum)
        return name, states, factors

    def _all_rates(self, parameters: Sequence[Tensor], group: ParamGroup) -> list[Sequence[float]]:
        rates = super()._all_rates(parameters, group)
        if not group["centered"]:
            return rates
        dtypes = [parameter.array.dtype for parameter in parameters]
        return [(limits(float32 if dtype.kind == "V" else dtype).max,) for dtype in dtypes]

    def update_form(self, group: ParamGroup) -> UpdateForm | None:
        """Return the ``UpdateForm`` of the update ``rmsprop`` or ``rmsprop_momentum``."""
        if group["centered"] or not self._has_formula():
            return None
        name, (first, *others), _ = self._formula(group)
        return UpdateForm(name, (first, *others, "step"), self._factors(group), ())


class Rprop(Optimizer):
    r"""Use only the sign of the gradient; a step size per element grows while the sign stays the same, else shrinks.

    If ``g`` and the previous ``g`` have the same sign, the step size is multiplied by ``etas[1]``; if they have
    opposite signs, it is multiplied by ``etas[0]`` and the element is not updated in this step. Otherwise
    ``p -= sign(g) * size``. Use it with full batches.

    Args:
        lr: the initial step size.
        etas: the factors for opposite and for equal signs.
        step_sizes: the smallest and the largest step size.

    Raises:
        ValueError: ``lr`` is negative, or not ``0 < etas[0] < 1 < etas[1]``.

    Source: Riedmiller and Braun, A direct adaptive method for faster backpropagation learning: RPROP, 1993.

    >>> x = rg.tensor([3.0, -200.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> rg.optim.Rprop([x], lr=0.5).step()
    >>> x.detach()
    tensor([   2.5, -199.5])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: LearningRate = 1e-2,
        etas: Annotated[
            tuple[float, float], Range("0 < etas[0] < 1 < etas[1]", lambda etas: 0 < etas[0] < 1 < etas[1])
        ] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, hyperparameters(locals()))

    def _formula(self, group: ParamGroup) -> Formula:
        return "rprop", ("prev", "step_size"), (*group["step_sizes"], 0.0)

    def _rates(self, parameter: Tensor, group: ParamGroup) -> Sequence[float]:
        state, _ = self._begin(parameter, "prev")
        if "step_size" not in state:
            array, (lr,) = parameter.array, numbers(group, "lr")
            start = complex(lr, lr) if array.dtype.kind == "c" else lr
            state["step_size"] = new_tensor(backend_of(array).xp.full_like(array, start))
        number_of = parameter.array.real.dtype.type  # round the factors to the parameter's dtype, as PyTorch does
        return [float(number_of(eta)) for eta in group["etas"]]
