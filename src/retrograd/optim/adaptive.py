"""Optimizers with a step size per element, computed from the history of its gradients."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from ..core.arrays.devices import backend_of
from ..core.tensor.tensor import Tensor, new_tensor
from .hyperparameters import Fraction, LearningRate, NotNegative, ParamGroup, Range, hyperparameters, number, numbers
from .optimizer import LoopCall, Optimizer, ParamsT, UpdateForm
from .steps import decay_towards, decay_towards_square, descend, descent


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

    def _update(self, parameter: Tensor, gradient: Tensor, group: ParamGroup) -> None:
        eps, (rate,) = number(group["eps"]), self._rates(parameter, group)
        for p, g, a, b, total in self._blocks(parameter, gradient, self.state[parameter]["sum"], scratch=2):
            d = descent(p, g, a, group)
            total += np.multiply(d, d, out=b)
            np.sqrt(total, out=b)
            b += eps
            descend(p, rate, d, b, a)

    def _loop(self, group: ParamGroup) -> LoopCall | None:
        return "adagrad", ("sum",), (number(group["eps"]),)

    def _rates(self, parameter: Tensor, group: ParamGroup) -> tuple[float]:
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

    def _update(self, parameter: Tensor, gradient: Tensor, group: ParamGroup) -> None:
        lr, eps, rho = numbers(group, "lr", "eps", "rho")
        state, _ = self._begin(parameter, "square_avg", "acc_delta")
        averages = state["square_avg"], state["acc_delta"]
        for p, g, a, b, c, v, u in self._blocks(parameter, gradient, *averages, scratch=3):
            d = descent(p, g, a, group)
            decay_towards_square(v, d, rho, b)
            np.sqrt(np.add(u, eps, out=c), out=c)
            np.sqrt(np.add(v, eps, out=b), out=b)
            delta = np.divide(c, b, out=c)  # divide the square roots, since the quotient of the squares may overflow
            delta *= d
            decay_towards_square(u, delta, rho, b)
            delta *= lr
            p -= delta

    def _loop(self, group: ParamGroup) -> LoopCall | None:
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

    def _update(self, parameter: Tensor, gradient: Tensor, group: ParamGroup) -> None:
        lr, eps, alpha, momentum = numbers(group, "lr", "eps", "alpha", "momentum")
        names = ["square_avg", *(["grad_avg"] if group["centered"] else []), *(["momentum_buffer"] if momentum else [])]
        state, _ = self._begin(parameter, *names)
        buffers = [state[name] if name in names else None for name in ("square_avg", "grad_avg", "momentum_buffer")]
        for p, g, a, b, v, mean, velocity in self._blocks(parameter, gradient, *buffers, scratch=2):
            d = descent(p, g, a, group)
            decay_towards_square(v, d, alpha, b)
            if mean is not None:
                decay_towards(mean, d, 1 - alpha, b)
                # mean**2 <= v, so v is inf where mean**2 overflows; clip mean**2, since inf - inf would be NaN
                np.minimum(np.multiply(mean, mean, out=b), float(np.finfo(b.dtype).max), out=b)
                np.sqrt(np.subtract(v, b, out=b), out=b)
            else:
                np.sqrt(v, out=b)
            b += eps
            if velocity is None:
                descend(p, lr, d, b, a)
            else:
                velocity *= momentum
                velocity += np.divide(d, b, out=b)
                p -= np.multiply(velocity, lr, out=b)

    def update_form(self, group: ParamGroup) -> UpdateForm | None:
        """Return the form ``rmsprop`` with the options."""
        lr, eps, alpha, momentum, decay = numbers(group, "lr", "eps", "alpha", "momentum", "weight_decay")
        if group["maximize"] or group["centered"] or type(self)._update is not RMSprop._update:
            return None
        state = ("square_avg", "step", *(["momentum_buffer"] if momentum else []))
        return UpdateForm(("rmsprop", decay != 0, momentum != 0), (lr, eps, alpha, 1 - alpha, momentum, decay), state)

    def _loop(self, group: ParamGroup) -> LoopCall | None:
        lr, eps, alpha, momentum = numbers(group, "lr", "eps", "alpha", "momentum")
        if group["centered"]:
            return None
        names = ("square_avg", *(["momentum_buffer"] if momentum else []))
        return "rmsprop", names, (lr, eps, alpha, 1 - alpha, momentum)


class Rprop(Optimizer):
    r"""Use only the sign of the gradient; a step size per element grows while the sign stays the same, else shrinks.

    If ``g`` and the previous ``g`` have the same sign, the step size is multiplied by ``etas[1]``; if they have
    opposite signs, it is multiplied by ``etas[0]`` and the element is not updated in this step. Otherwise
    ``p -= sign(g) * size``. For full batches.

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

    def _update(self, parameter: Tensor, gradient: Tensor, group: ParamGroup) -> None:
        (less, more), (smallest, largest) = group["etas"], group["step_sizes"]
        self._rates(parameter, group)
        state, number_of = self.state[parameter], parameter.array.real.dtype.type
        for p, g, a, b, last, size in self._blocks(parameter, gradient, state["prev"], state["step_size"], scratch=2):
            d = descent(p, g, a, group)
            agreement = np.multiply(d, last, out=b)
            turned = agreement < 0
            size *= np.where(agreement > 0, number_of(more), np.where(turned, number_of(less), number_of(1)))
            np.minimum(np.maximum(size, smallest, out=size), largest, out=size)
            last[...] = np.where(turned, 0, d)
            b[...] = last > 0
            b -= last < 0  # elements with a NaN gradient are not updated, as in PyTorch
            b *= size
            p -= b

    def _loop(self, group: ParamGroup) -> LoopCall | None:
        return "rprop", ("prev", "step_size"), (*group["etas"], *group["step_sizes"])

    def _rates(self, parameter: Tensor, group: ParamGroup) -> tuple[()]:
        state, _ = self._begin(parameter, "prev")
        if "step_size" not in state:
            array, lr = parameter.array, number(group["lr"])
            start = complex(lr, lr) if array.dtype.kind == "c" else lr
            state["step_size"] = new_tensor(backend_of(array).xp.full_like(array, start))
        return ()
