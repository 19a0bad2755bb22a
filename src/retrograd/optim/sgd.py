"""Stochastic gradient descent, plain, with momentum, and averaged."""

from __future__ import annotations

import numpy as np

from ..core.tensor.tensor import Tensor
from .hyperparameters import LearningRate, NotNegative, ParamGroup, hyperparameters, number, numbers
from .optimizer import LoopCall, Optimizer, ParamsT, UpdateForm
from .steps import decay_towards, descent


class SGD(Optimizer):
    r"""Stochastic gradient descent, optionally with momentum: ``p -= lr * d``.

    ``d = g + weight_decay * p``. With momentum the buffer ``b = momentum * b + (1 - dampening) * d``, initially
    ``d``, replaces ``d``; with ``nesterov``, ``d + momentum * b`` replaces it.

    Args:
        momentum: the factor of the buffer.
        dampening: the factor of the gradient in the buffer is ``1 - dampening``.
        nesterov: use Nesterov's momentum.

    Raises:
        ValueError: a hyper-parameter is out of range, or ``nesterov`` is used without momentum or with dampening.

    Source: Sutskever et al., On the importance of initialization and momentum in deep learning, 2013.

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
        params: ParamsT,
        lr: LearningRate = 1e-3,
        momentum: NotNegative = 0,
        dampening: float = 0,
        weight_decay: NotNegative = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("SGD: Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, hyperparameters(locals()))

    def _update(self, parameter: Tensor, gradient: Tensor, group: ParamGroup) -> None:
        lr, momentum, dampening = numbers(group, "lr", "momentum", "dampening")
        buffer, first = None, False
        if momentum:
            state = self.state[parameter]
            first = state.get("momentum_buffer") is None
            if first:
                state["momentum_buffer"] = self._zeros_like(parameter)
            buffer = state["momentum_buffer"]
        for p, g, a, b, velocity in self._blocks(parameter, gradient, buffer, scratch=2):
            d = descent(p, g, a, group)
            if momentum:
                velocity *= momentum
                velocity += d if first or dampening == 0 else np.multiply(d, 1 - dampening, out=b)
                if group["nesterov"]:
                    np.multiply(velocity, momentum, out=b)
                    d = np.add(b, d, out=b)
                else:
                    d = velocity
            p -= np.multiply(d, lr, out=b)

    def update_form(self, group: ParamGroup) -> UpdateForm | None:
        """Return the form ``sgd`` with lr, weight decay, momentum and ``1 - dampening``."""
        if type(self)._update is not SGD._update:
            return None
        lr, momentum, dampening, weight_decay = numbers(group, "lr", "momentum", "dampening", "weight_decay")
        flags = bool(momentum), dampening != 0, bool(group["nesterov"]), bool(group["maximize"])
        state = ("momentum_buffer",) if momentum else ()
        return UpdateForm(("sgd", weight_decay != 0, *flags), (lr, weight_decay, momentum, 1 - dampening), state)

    def _loop(self, group: ParamGroup) -> LoopCall | None:
        lr, momentum = numbers(group, "lr", "momentum")
        return "sgd", ("momentum_buffer",) if momentum else (), (lr, momentum, bool(group["nesterov"]))

    def _rates(self, parameter: Tensor, group: ParamGroup) -> tuple[float]:
        if not group["momentum"] or self.state[parameter].get("momentum_buffer") is None:
            return (1.0,)
        return (1 - number(group["dampening"]),)


class ASGD(Optimizer):
    r"""Averaged stochastic gradient descent: ``p = (1 - lambd * eta) * p - eta * g``.

    ``eta = lr / (1 + lambd * lr * step)**alpha``. The state's ``ax`` averages ``p`` once ``step`` passes ``t0``:
    ``ax += mu * (p - ax)`` with ``mu = 1 / max(1, step - t0)``.

    Args:
        lr: the initial learning rate.
        lambd: the decay of the parameters.
        alpha: the exponent of the decay of the learning rate.
        t0: the step at which averaging starts.

    Source: Polyak and Juditsky, Acceleration of stochastic approximation by averaging, 1992.

    >>> x = rg.tensor(3.0, requires_grad=True)
    >>> (x * x).backward()
    >>> rg.optim.ASGD([x], lr=0.1, lambd=0.0).step()
    >>> round(x.item(), 4)
    2.4
    """

    scalar_state = frozenset({"step", "eta", "mu"})

    def __init__(
        self,
        params: ParamsT,
        lr: LearningRate = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: NotNegative = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(params, hyperparameters(locals()))

    def _update(self, parameter: Tensor, gradient: Tensor, group: ParamGroup) -> None:
        eta, shrink, mu, _ = self._rates(parameter, group)
        for p, g, a, b, average in self._blocks(parameter, gradient, self.state[parameter]["ax"], scratch=2):
            d = descent(p, g, a, group)
            np.multiply(d, eta, out=b)
            p *= shrink
            p -= b
            if mu == 1:
                average[...] = p
            else:
                decay_towards(average, p, mu, b)

    def _loop(self, group: ParamGroup) -> LoopCall | None:
        return "asgd", ("ax",), ()

    def _rates(self, parameter: Tensor, group: ParamGroup) -> tuple[float, float, float, float]:
        lr, lambd, alpha, t0 = numbers(group, "lr", "lambd", "alpha", "t0")
        state, step = self._begin(parameter, "ax", eta=lr, mu=1)
        eta, mu = float(state["eta"].array), float(state["mu"].array)
        state["eta"].array[...] = lr / (1 + lambd * lr * step) ** alpha
        state["mu"].array[...] = 1 / max(1, step - t0)
        return eta, 1 - lambd * eta, mu, 1 - mu
