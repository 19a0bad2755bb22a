"""Adam and its relatives: first and second moments of the gradient."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ..core.arrays import Array
from ..core.arrays.devices import array_module
from ..core.tensor.tensor import Tensor
from ..ops.table.documentation import like
from .differentiable import root
from .hyperparameters import Betas, LearningRate, NotNegative, ParamGroup, hyperparameters, numbers
from .optimizer import Formula, Optimizer, ParamsT, UpdateForm, writable

_MOMENTS = ("exp_avg", "exp_avg_sq")


def _of_moments(group: ParamGroup) -> tuple[float, ...]:
    """Return ``1 - beta1``, ``1 - (1 - beta1)``, ``beta2`` and ``1 - beta2``."""
    beta1, beta2 = numbers(group, "betas")
    return 1 - beta1, 1 - (1 - beta1), beta2, 1 - beta2


@lru_cache(maxsize=16)
def _rate_and_eps(lr: float, eps: float, beta1: float, beta2: float, step: int) -> tuple[float, float]:
    """Return ``lr * sqrt(c2) / c1`` and ``eps * sqrt(c2)`` for the bias corrections c1 and c2.

    ``m / c1 / (sqrt(v / c2) + eps) = (sqrt(c2) / c1) * m / (sqrt(v) + eps * sqrt(c2))`` saves a pass over memory.
    The result is cached, because the parameters of a group are mostly at the same step.
    """
    of_second = root(1 - beta2**step)
    return lr * of_second / (1 - beta1**step), eps * of_second


class Adam(Optimizer):
    r"""Adam: steps of about ``lr`` in every coordinate, by the first and second moments of the gradient.

    ``m += (1 - beta1) * (g - m)``, ``v += (1 - beta2) * (g^2 - v)``, then ``p -= lr * mhat / (sqrt(vhat) + eps)`` with
    ``mhat = m / (1 - beta1^t)`` and ``vhat = v / (1 - beta2^t)``.

    Args:
        weight_decay: the factor of the L2 penalty, whose gradient is added to g.
        amsgrad: divide by the largest second moment so far.
        decoupled_weight_decay: multiply the parameters by ``1 - lr * weight_decay`` instead, as AdamW does.

    Source: Kingma and Ba, Adam: a method for stochastic optimization, 2015; Reddi, Kale and Kumar, On the convergence
    of Adam and beyond, 2018.

    >>> x = rg.tensor([3.0, -200.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> rg.optim.Adam([x], lr=0.1).step()
    >>> x.detach()
    tensor([   2.9, -199.9])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: LearningRate = 1e-3,
        betas: Betas = (0.9, 0.999),
        eps: NotNegative = 1e-8,
        weight_decay: NotNegative = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        super().__init__(params, hyperparameters(locals()))

    def _formula(self, group: ParamGroup) -> Formula:
        if group["amsgrad"]:
            return "amsgrad", (*_MOMENTS, "max_exp_avg_sq"), _of_moments(group)
        return "adam", _MOMENTS, _of_moments(group)

    def _all_rates(self, parameters: Sequence[Tensor], group: ParamGroup) -> list[Sequence[float]]:
        names = (*_MOMENTS, "max_exp_avg_sq") if group["amsgrad"] else _MOMENTS
        options = numbers(group, "lr", "eps", "betas")
        compute = _rate_and_eps.__wrapped__ if group.get("differentiable") else _rate_and_eps  # Tensors are not cached
        return [compute(*options, self._begin(parameter, *names)[1]) for parameter in parameters]

    def update_form(self, group: ParamGroup) -> UpdateForm | None:
        """Return the ``UpdateForm`` of the update ``adam``; None with ``amsgrad``."""
        if group["amsgrad"] or not self._has_formula():
            return None
        name, states, _ = self._formula(group)
        options = tuple(numbers(group, "lr", "betas", "eps"))
        return UpdateForm(name, (*states, "step"), self._factors(group), options, of_step=True)

    def rates_of_step(self, group: ParamGroup, step: int) -> tuple[float, float]:
        """Return the two rates of the update ``adam`` at a step."""
        return _rate_and_eps(*numbers(group, "lr", "eps", "betas"), step)


class AdamW(Adam):
    r"""Adam with decoupled weight decay: ``p <- (1 - lr * weight_decay) * p`` before Adam's step.

    Arguments and errors as ``Adam``; ``weight_decay`` is 0.01 by default.

    Source: Loshchilov and Hutter, Decoupled weight decay regularization, 2019.

    >>> x = rg.tensor(10.0, requires_grad=True)
    >>> (x * 0.0).backward()
    >>> rg.optim.AdamW([x], lr=0.1, weight_decay=0.5).step()
    >>> x.item()
    9.5
    """

    def __init__(
        self,
        params: ParamsT,
        lr: LearningRate = 1e-3,
        betas: Betas = (0.9, 0.999),
        eps: NotNegative = 1e-8,
        weight_decay: NotNegative = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(params, **hyperparameters(locals()), decoupled_weight_decay=True)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


class Adamax(Optimizer):
    r"""Adam with the infinity norm: ``u = max(beta2 * u, |g| + eps)``, ``p -= lr * m / ((1 - beta1^t) * u)``.

    Args:
        betas: the decay rates of the moment and the norm.

    Source: Kingma and Ba, Adam: a method for stochastic optimization, 2015, section 7.

    >>> x = rg.tensor(3.0, requires_grad=True)
    >>> (x * x).backward()
    >>> rg.optim.Adamax([x], lr=0.5).step()
    >>> x.item()
    2.5
    """

    def __init__(
        self,
        params: ParamsT,
        lr: LearningRate = 2e-3,
        betas: Betas = (0.9, 0.999),
        eps: NotNegative = 1e-8,
        weight_decay: NotNegative = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(params, hyperparameters(locals()))

    def _formula(self, group: ParamGroup) -> Formula:
        slow, rest, keep, _ = _of_moments(group)
        return "adamax", ("exp_avg", "exp_inf"), (slow, rest, keep, *numbers(group, "eps"))

    def _rates(self, parameter: Tensor, group: ParamGroup) -> Sequence[float]:
        lr, beta1, _ = numbers(group, "lr", "betas")
        return (lr / (1 - beta1 ** self._begin(parameter, "exp_avg", "exp_inf")[1]),)


class NAdam(Optimizer):
    r"""Adam with Nesterov's momentum.

    With ``mu_t = beta1 * (1 - 0.96^(t * momentum_decay) / 2)`` and ``M_t = prod_(i=1)^t mu_i``:
    ``p -= lr * u / (sqrt(v / (1 - beta2^t)) + eps)``, where
    ``u = (1 - mu_t) / (1 - M_t) * g + mu_(t+1) / (1 - M_(t+1)) * m``.

    Args:
        weight_decay: the factor of the L2 penalty or, with ``decoupled_weight_decay``, of the weight decay.
        momentum_decay: the rate at which ``mu_t`` grows to ``beta1``.
        decoupled_weight_decay: multiply the parameters by ``1 - lr * weight_decay``, as AdamW does.

    Source: Dozat, Incorporating Nesterov momentum into Adam, 2016.

    >>> x = rg.tensor(3.0, requires_grad=True)
    >>> (x * x).backward()
    >>> rg.optim.NAdam([x], lr=0.1).step()
    >>> 2.8 < x.item() < 3.0
    True
    """

    scalar_state = frozenset({"step", "mu_product"})

    def __init__(
        self,
        params: ParamsT,
        lr: LearningRate = 2e-3,
        betas: Betas = (0.9, 0.999),
        eps: NotNegative = 1e-8,
        weight_decay: NotNegative = 0,
        momentum_decay: NotNegative = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, hyperparameters(locals()))

    def _formula(self, group: ParamGroup) -> Formula:
        return "nadam", _MOMENTS, _of_moments(group)

    def _rates(self, parameter: Tensor, group: ParamGroup) -> Sequence[float]:
        lr, momentum_decay, eps, beta1, beta2 = numbers(group, "lr", "momentum_decay", "eps", "betas")
        state, step = self._begin(parameter, *_MOMENTS, mu_product=1)

        def mu(t: int) -> float:
            return beta1 * (1 - 0.5 * 0.96 ** (t * momentum_decay))

        before = state["mu_product"] if group.get("differentiable") else state["mu_product"].array
        self._keep(parameter, "mu_product", before * mu(step))
        product = self._kept(parameter, "mu_product")
        of_gradient = lr * (1 - mu(step)) / (1 - product)
        of_moment = lr * mu(step + 1) / (1 - product * mu(step + 1))
        return of_gradient, of_moment, 1 / (1 - beta2**step), eps


@like(NAdam)
class RAdam(Optimizer):
    r"""Adam with a rectification of the variance of the adaptive learning rate; momentum alone in the first steps.

    With ``rho = 2 / (1 - beta2) - 1`` and ``rho_t = rho - 2 t beta2^t / (1 - beta2^t)``: for ``rho_t > 5`` Adam's
    step times ``sqrt((rho_t - 4)(rho_t - 2) rho / ((rho - 4)(rho - 2) rho_t))``, in earlier steps
    ``p -= lr * m / (1 - beta1^t)``.

    Source: Liu et al., On the variance of the adaptive learning rate and beyond, 2020.

    >>> x = rg.tensor(3.0, requires_grad=True)
    >>> (x * x).backward()
    >>> rg.optim.RAdam([x], lr=0.1).step()
    >>> round(x.item(), 4)
    2.4
    """

    def __init__(
        self,
        params: ParamsT,
        lr: LearningRate = 1e-3,
        betas: Betas = (0.9, 0.999),
        eps: NotNegative = 1e-8,
        weight_decay: NotNegative = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, hyperparameters(locals()))

    def _formula(self, group: ParamGroup) -> Formula:
        return "radam", _MOMENTS, _of_moments(group)

    def _rates(self, parameter: Tensor, group: ParamGroup) -> Sequence[float]:
        lr, eps, beta1, beta2 = numbers(group, "lr", "eps", "betas")
        step = self._begin(parameter, *_MOMENTS)[1]
        correction = 1 - beta2**step
        rho = 2 / (1 - beta2) - 1
        rho_t = rho - 2 * step * beta2**step / correction
        rate = lr / (1 - beta1**step)
        if rho_t <= 5:
            return rate, False, eps
        rectification = (rho_t - 4) * (rho_t - 2) * rho / ((rho - 4) * (rho - 2) * rho_t)
        return rate * root(rectification * correction), True, eps


class SparseAdam(Optimizer):
    r"""Adam that updates only the rows with a nonzero gradient.

    ``p -= lr * sqrt(1 - beta2^t) / (1 - beta1^t) * (m / (sqrt(v) + eps))`` with Adam's moments m and v.

    Rows whose gradient is zero keep their values and moments; of a sparse gradient, all elements but those at its
    coordinates. The gradients of ``Embedding(sparse=True)`` are dense: the rows that were not looked up are zero.

    Args:
        betas: the factors of the moments.
        eps: added to the denominator for numerical stability.

    Source: Kingma and Ba, Adam, 2015.

    >>> x = rg.ones(3, 1, requires_grad=True)
    >>> optimizer = rg.optim.SparseAdam([x], lr=0.1)
    >>> x[1].sum().backward()
    >>> optimizer.step()
    >>> x.detach().flatten()
    tensor([1. , 0.9, 1. ])
    """

    takes_sparse_gradients = True

    def __init__(
        self,
        params: ParamsT,
        lr: LearningRate = 1e-3,
        betas: Betas = (0.9, 0.999),
        eps: NotNegative = 1e-8,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, hyperparameters(locals()))

    def _update(self, parameter: Tensor, gradient: Array, group: ParamGroup) -> None:
        touched = array_module(gradient).flatnonzero((gradient.reshape(len(gradient), -1) != 0).any(axis=1))
        self._update_at((touched,), parameter, gradient[touched], group)

    def _update_at(self, at: tuple[Array, ...], parameter: Tensor, gradient: Array, group: ParamGroup) -> None:
        lr, eps, beta1, beta2 = numbers(group, "lr", "eps", "betas")
        state, step = self._begin(parameter, *_MOMENTS)
        p, first, second = writable(parameter), state["exp_avg"].array, state["exp_avg_sq"].array
        g = -gradient if group["maximize"] else gradient
        first[at] += (g - first[at]) * (1 - beta1)
        second[at] += (g * g - second[at]) * (1 - beta2)
        size = lr * (1 - beta2**step) ** 0.5 / (1 - beta1**step)
        p[at] -= size * first[at] / (np.sqrt(second[at]) + eps)
