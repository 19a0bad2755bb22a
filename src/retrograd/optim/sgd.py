"""Stochastic gradient descent, plain, with momentum, and averaged."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.arrays import Array
from ..core.arrays.devices import array_module
from ..core.tensor.tensor import Tensor
from .hyperparameters import LearningRate, NotNegative, ParamGroup, hyperparameters, numbers
from .optimizer import Formula, Optimizer, ParamsT, UpdateForm


class SGD(Optimizer):
    r"""Stochastic gradient descent, optionally with momentum: ``p -= lr * d``.

    ``d = g + weight_decay * p``. With momentum the buffer ``b = momentum * b + (1 - dampening) * d``, initially
    ``d``, replaces ``d``; with ``nesterov``, ``d + momentum * b`` replaces ``d``.

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

    takes_sparse_gradients = True

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

    def _formula(self, group: ParamGroup) -> Formula:
        lr, momentum = numbers(group, "lr", "momentum")
        if momentum:
            return "momentum", ("momentum_buffer",), (lr, momentum, group["nesterov"])
        return "sgd", (), (lr,)

    def _rates(self, parameter: Tensor, group: ParamGroup) -> Sequence[float]:
        damped = group["momentum"] and group["dampening"]
        if not damped or self.state[parameter].get("momentum_buffer") is None:
            return (1.0,)
        return (1 - numbers(group, "dampening")[0],)

    def _update_at(self, at: tuple[Array, ...], parameter: Tensor, gradient: Array, group: ParamGroup) -> None:
        if not group["momentum"]:
            return super()._update_at(at, parameter, gradient, group)
        dense = array_module(parameter).zeros_like(parameter.array)  # the buffer moves all elements
        dense[at] = gradient
        return self._update(parameter, dense, group)

    def update_form(self, group: ParamGroup) -> UpdateForm | None:
        """Return the ``UpdateForm`` of the update ``sgd`` or ``momentum``."""
        if not self._has_formula():
            return None
        name, states, _ = self._formula(group)
        return UpdateForm(name, states, self._factors(group), (1 - numbers(group, "dampening")[0],))


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

    def _formula(self, group: ParamGroup) -> Formula:
        return "asgd", ("ax",), ()

    def _rates(self, parameter: Tensor, group: ParamGroup) -> Sequence[float]:
        lr, lambd, alpha, t0 = numbers(group, "lr", "lambd", "alpha", "t0")
        _, step = self._begin(parameter, "ax", eta=lr, mu=1)
        eta, mu = self._kept(parameter, "eta"), self._kept(parameter, "mu")
        self._keep(parameter, "eta", lr / (1 + lambd * lr * step) ** alpha)
        self._keep(parameter, "mu", 1 / max(1, step - t0))
        return eta, 1 - lambd * eta, mu, 1 - mu
