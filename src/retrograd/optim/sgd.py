"""Stochastic gradient descent, plain, with momentum, and averaged."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..core.tensor import Tensor
from .optimizer import Optimizer, check_flags, check_not_negative, decay_towards, descent, number


class SGD(Optimizer):
    r"""Stochastic gradient descent, with momentum if asked for.

    ``d = g + weight_decay * p``; with momentum ``b = momentum * b + (1 - dampening) * d`` (the first ``b`` is ``d``),
    and ``d = b``, or ``d + momentum * b`` with ``nesterov``; then ``p -= lr * d``.

    Args:
        params: the parameters, or groups of them.
        lr: the learning rate.
        momentum: how much of the last move is kept.
        dampening: takes this part off the gradient that enters the momentum.
        weight_decay: L2 penalty.
        nesterov: look ahead along the momentum.
        maximize: climb instead.
        foreach, fused: accepted, without meaning here.
        differentiable: not supported.

    Raises:
        ValueError: a negative hyper-parameter, or ``nesterov`` without momentum or with dampening.

    Source: Sutskever, Martens, Dahl and Hinton, On the importance of initialization and momentum in deep learning,
    2013.

    >>> import retrograd as rg
    >>> x = rg.tensor(3.0, requires_grad=True)
    >>> optimizer = rg.optim.SGD([x], lr=0.1, momentum=0.9)
    >>> for _ in range(2):
    ...     optimizer.zero_grad()
    ...     (x * x).backward()
    ...     optimizer.step()
    >>> round(x.item(), 4)
    1.38
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_not_negative("SGD", lr=lr, momentum=momentum, weight_decay=weight_decay)
        check_flags("SGD", foreach, fused, differentiable)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def _update(self, parameter: Tensor, gradient: Any, group: dict[str, Any]) -> None:
        lr, momentum = number(group["lr"]), number(group["momentum"])
        weight_decay, maximize = number(group["weight_decay"]), group["maximize"]
        gain = 1 - number(group["dampening"])
        buffer, first = None, False
        if momentum:
            state = self.state[parameter]
            first = state.get("momentum_buffer") is None
            if first:
                state["momentum_buffer"] = self._zeros_like(parameter)
            buffer = state["momentum_buffer"]
        for p, g, a, b, velocity in self._blocks(parameter, gradient, buffer, scratch=2):
            d = descent(p, g, a, weight_decay, maximize)
            if momentum:
                velocity *= momentum
                velocity += d if first or gain == 1 else np.multiply(d, gain, out=b)
                if group["nesterov"]:
                    np.multiply(velocity, momentum, out=b)
                    d = np.add(b, d, out=b)
                else:
                    d = velocity
            p -= np.multiply(d, lr, out=b)


class ASGD(Optimizer):
    r"""Averaged stochastic gradient descent.

    ``p = (1 - lambd * eta) * p - eta * g`` with ``eta = lr / (1 + lambd * lr * step)**alpha``; beside it the state's
    ``ax`` averages ``p`` once ``step`` passes ``t0``: ``ax += mu * (p - ax)``, ``mu = 1 / max(1, step - t0)``.

    Args:
        params: the parameters, or groups of them.
        lr: the learning rate at the start.
        lambd: decay of the parameters.
        alpha: how fast the learning rate falls.
        t0: when averaging starts.
        weight_decay: L2 penalty.
        maximize: climb instead.
        foreach, capturable: accepted, without meaning here.
        differentiable: not supported.

    Raises:
        ValueError: a negative ``lr`` or ``weight_decay``.

    Source: Polyak and Juditsky, Acceleration of stochastic approximation by averaging, 1992.

    >>> import retrograd as rg
    >>> x = rg.tensor(3.0, requires_grad=True)
    >>> (x * x).backward()
    >>> rg.optim.ASGD([x], lr=0.1, lambd=0.0).step()
    >>> round(x.item(), 4)
    2.4
    """

    scalar_state = frozenset({"step", "eta", "mu"})

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_not_negative("ASGD", lr=lr, weight_decay=weight_decay)
        check_flags("ASGD", foreach, None, differentiable)
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def _update(self, parameter: Tensor, gradient: Any, group: dict[str, Any]) -> None:
        lr, lambd = number(group["lr"]), number(group["lambd"])
        weight_decay, maximize = number(group["weight_decay"]), group["maximize"]
        state = self.state[parameter]
        if not state:
            state["step"], state["eta"], state["mu"] = self._scalar(0), self._scalar(lr), self._scalar(1)
            state["ax"] = self._zeros_like(parameter)
        step = self._count_step(state)
        eta, mu = float(state["eta"].array), float(state["mu"].array)
        for p, g, a, b, average in self._blocks(parameter, gradient, state["ax"], scratch=2):
            d = descent(p, g, a, weight_decay, maximize)
            np.multiply(d, eta, out=b)
            p *= 1 - lambd * eta
            p -= b
            if mu == 1:
                average[...] = p
            else:
                decay_towards(average, p, mu, b)
        state["eta"].array[...] = lr / (1 + lambd * lr * step) ** number(group["alpha"])
        state["mu"].array[...] = 1 / max(1, step - number(group["t0"]))
