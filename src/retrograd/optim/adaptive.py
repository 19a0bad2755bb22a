"""Optimizers with a step size of its own for every coordinate, from the history of its gradient."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..core.devices import backend_of
from ..core.tensor import Tensor, new_tensor
from .optimizer import (
    Optimizer,
    check_flags,
    check_not_negative,
    decay_towards,
    decay_towards_square,
    descend,
    descent,
    number,
)


class Adagrad(Optimizer):
    r"""Divide by the root of the sum of all squared gradients.

    ``s += g**2``; ``p -= lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps)``.

    Args:
        params: the parameters, or groups of them.
        lr: the learning rate.
        lr_decay: how fast it falls.
        weight_decay: L2 penalty.
        initial_accumulator_value: where ``s`` starts.
        eps: keeps the division finite.
        maximize: climb instead.
        foreach, fused: accepted, without meaning here.
        differentiable: not supported.

    Raises:
        ValueError: a negative hyper-parameter.

    Source: Duchi, Hazan and Singer, Adaptive subgradient methods for online learning and stochastic optimization, 2011.

    >>> import retrograd as rg
    >>> x = rg.tensor(3.0, requires_grad=True)
    >>> (x * x).backward()
    >>> rg.optim.Adagrad([x], lr=0.5).step()
    >>> x.item()
    2.5
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_not_negative(
            "Adagrad",
            lr=lr,
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            eps=eps,
        )
        check_flags("Adagrad", foreach, fused, differentiable)
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for parameter in group["params"]:
                self._begin(parameter)

    def _begin(self, parameter: Tensor) -> None:
        start = self.defaults["initial_accumulator_value"]
        total = self._zeros_like(parameter)
        total.array[...] = complex(start, start) if total.array.dtype.kind == "c" else start
        self.state[parameter] = {"step": self._scalar(0), "sum": total}

    def _update(self, parameter: Tensor, gradient: Any, group: dict[str, Any]) -> None:
        lr, eps = number(group["lr"]), number(group["eps"])
        weight_decay, maximize = number(group["weight_decay"]), group["maximize"]
        if not self.state[parameter]:
            self._begin(parameter)
        state = self.state[parameter]
        rate = lr / (1 + (self._count_step(state) - 1) * number(group["lr_decay"]))
        for p, g, a, b, total in self._blocks(parameter, gradient, state["sum"], scratch=2):
            d = descent(p, g, a, weight_decay, maximize)
            total += np.multiply(d, d, out=b)
            np.sqrt(total, out=b)
            b += eps
            descend(p, rate, d, b, a)


class Adadelta(Optimizer):
    r"""Steps in the units of the parameter: the root mean square of past moves over that of past gradients.

    ``v += (1 - rho) * (g**2 - v)``, ``d = sqrt((u + eps) / (v + eps)) * g``, ``u += (1 - rho) * (d**2 - u)``, ``p -=
    lr * d``.

    Args:
        params: the parameters, or groups of them.
        lr: scales the moves.
        rho: how slowly the averages move.
        eps: keeps the division finite, and the first moves alive.
        weight_decay: L2 penalty.
        maximize: climb instead.
        foreach, capturable: accepted, without meaning here.
        differentiable: not supported.

    Raises:
        ValueError: a negative hyper-parameter, or ``rho`` outside [0, 1].

    Source: Zeiler, ADADELTA: an adaptive learning rate method, 2012.

    >>> import retrograd as rg
    >>> x = rg.tensor(3.0, requires_grad=True)
    >>> (x * x).backward()
    >>> rg.optim.Adadelta([x]).step()
    >>> 2.99 < x.item() < 3.0
    True
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_not_negative("Adadelta", lr=lr, eps=eps, weight_decay=weight_decay)
        check_flags("Adadelta", foreach, None, differentiable)
        if not 0 <= rho <= 1:
            raise ValueError(f"Invalid rho value: {rho} (Adadelta wants 0 <= rho <= 1)")
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _update(self, parameter: Tensor, gradient: Any, group: dict[str, Any]) -> None:
        lr, eps, rho = number(group["lr"]), number(group["eps"]), number(group["rho"])
        weight_decay, maximize = number(group["weight_decay"]), group["maximize"]
        state = self.state[parameter]
        if not state:
            state["step"] = self._scalar(0)
            state["square_avg"], state["acc_delta"] = self._zeros_like(parameter), self._zeros_like(parameter)
        self._count_step(state)
        for p, g, a, b, c, v, u in self._blocks(
            parameter, gradient, state["square_avg"], state["acc_delta"], scratch=3
        ):
            d = descent(p, g, a, weight_decay, maximize)
            decay_towards_square(v, d, rho, b)
            np.sqrt(np.add(u, eps, out=c), out=c)
            np.sqrt(np.add(v, eps, out=b), out=b)
            move = np.divide(c, b, out=c)  # of roots: the quotient of the squares may leave the numbers' range
            move *= d
            decay_towards_square(u, move, rho, b)
            move *= lr
            p -= move


class RMSprop(Optimizer):
    r"""Divide by the root of the moving average of squared gradients.

    ``v += (1 - alpha) * (g**2 - v)``, ``d = g / (sqrt(v) + eps)``; with ``centered`` the square of the gradient's
    moving average is taken off ``v`` under the root; with momentum ``b = momentum * b + d`` and ``p -= lr * b``, else
    ``p -= lr * d``.

    Args:
        params: the parameters, or groups of them.
        lr: the learning rate.
        alpha: how slowly the average moves.
        eps: keeps the division finite.
        weight_decay: L2 penalty.
        momentum: how much of the last move is kept.
        centered: divide by the gradient's standard deviation.
        maximize: climb instead.
        foreach, capturable: accepted, without meaning here.
        differentiable: not supported.

    Raises:
        ValueError: a negative hyper-parameter.

    Source: Tieleman and Hinton, lecture 6.5 of Neural Networks for Machine Learning, 2012; Graves, Generating
    sequences with recurrent neural networks, 2013 (centered).

    >>> import retrograd as rg
    >>> x = rg.tensor(3.0, requires_grad=True)
    >>> (x * x).backward()
    >>> rg.optim.RMSprop([x], lr=0.1, alpha=0.75).step()
    >>> round(x.item(), 4)
    2.8
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_not_negative("RMSprop", lr=lr, eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        check_flags("RMSprop", foreach, None, differentiable)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def _update(self, parameter: Tensor, gradient: Any, group: dict[str, Any]) -> None:
        lr, eps, alpha = number(group["lr"]), number(group["eps"]), number(group["alpha"])
        weight_decay, maximize = number(group["weight_decay"]), group["maximize"]
        momentum, centered = number(group["momentum"]), group["centered"]
        state = self.state[parameter]
        if not state:
            state["step"] = self._scalar(0)
            state["square_avg"] = self._zeros_like(parameter)
            if momentum > 0:
                state["momentum_buffer"] = self._zeros_like(parameter)
            if centered:
                state["grad_avg"] = self._zeros_like(parameter)
        self._count_step(state)
        buffers = (state["grad_avg"] if centered else None, state["momentum_buffer"] if momentum > 0 else None)
        for p, g, a, b, v, mean, velocity in self._blocks(
            parameter, gradient, state["square_avg"], *buffers, scratch=2
        ):
            d = descent(p, g, a, weight_decay, maximize)
            decay_towards_square(v, d, alpha, b)
            if centered:
                decay_towards(mean, d, 1 - alpha, b)
                # mean**2 <= v: where the square overflows, v has, and their difference is infinite, not inf - inf
                np.minimum(np.multiply(mean, mean, out=b), np.finfo(b.dtype).max, out=b)
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


class Rprop(Optimizer):
    r"""Steps by the gradient's sign only; their sizes grow while the sign stays and shrink when it turns.

    Where ``g`` and the last ``g`` agree in sign the step size grows by ``etas[1]``; where they differ it shrinks by
    ``etas[0]`` and the coordinate rests for a step. ``p -= sign(g) * size``. For full batches.

    Args:
        params: the parameters, or groups of them.
        lr: the step size at the start.
        etas: by how much it shrinks and grows.
        step_sizes: its bounds.
        maximize: climb instead.
        foreach, capturable: accepted, without meaning here.
        differentiable: not supported.

    Raises:
        ValueError: a negative ``lr``, or not ``0 < etas[0] < 1 < etas[1]``.

    Source: Riedmiller and Braun, A direct adaptive method for faster backpropagation learning: the RPROP algorithm,
    1993.

    >>> import retrograd as rg
    >>> x = rg.tensor([3.0, -200.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> rg.optim.Rprop([x], lr=0.5).step()
    >>> x.detach()
    tensor([   2.5, -199.5])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_not_negative("Rprop", lr=lr)
        check_flags("Rprop", foreach, None, differentiable)
        if not 0 < etas[0] < 1 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]} (Rprop wants 0 < etas[0] < 1 < etas[1])")
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _update(self, parameter: Tensor, gradient: Any, group: dict[str, Any]) -> None:
        lr, (shrink, grow), (smallest, largest) = number(group["lr"]), group["etas"], group["step_sizes"]
        state = self.state[parameter]
        if not state:
            array = parameter.array
            start = complex(lr, lr) if array.dtype.kind == "c" else lr
            state["step"] = self._scalar(0)
            state["prev"] = self._zeros_like(parameter)
            state["step_size"] = new_tensor(backend_of(array).xp.full_like(array, start))
        self._count_step(state)
        for p, g, a, b, last, size in self._blocks(parameter, gradient, state["prev"], state["step_size"], scratch=2):
            d = descent(p, g, a, 0, group["maximize"])
            agreement = np.multiply(d, last, out=b)
            turned = agreement < 0
            size *= np.where(agreement > 0, grow, np.where(turned, shrink, 1.0))
            np.minimum(np.maximum(size, smallest, out=size), largest, out=size)
            last[...] = np.where(turned, 0, d)
            b[...] = last > 0
            b -= last < 0  # NaN has no sign: its coordinate rests, as in PyTorch
            b *= size
            p -= b
