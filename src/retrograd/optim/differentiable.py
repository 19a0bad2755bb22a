"""Optimizer steps as recorded operators, for ``differentiable=True``: gradients flow through the step.

Each function is the update of one optimizer on Tensors (for the formula see the class): it writes to the parameter in
place and stores new Tensors in its state. Gradients flow to the previous value of the parameter, its gradient, the
state, and a learning rate that is a Tensor. Parameters are usually not leaves then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.graph.modes import enable_grad
from ..core.tensor.tensor import Tensor, new_tensor
from ..ops.indexing.selection import where
from ..ops.make.filled import zeros_like
from ..ops.math.bounds import maximum
from .adam import Adam, Adamax, NAdam, RAdam
from .adaptive import Adadelta, Adagrad, RMSprop, Rprop
from .hyperparameters import ParamGroup
from .optimizer import Optimizer, recorded_updates
from .sgd import ASGD, SGD

Update = Callable[[Any, Tensor, Tensor, ParamGroup], None]


def _recorded(cls: type[Optimizer]) -> Callable[[Update], Update]:
    def register(update: Update) -> Update:
        def record_update(self: object, parameter: Tensor, gradient: Tensor, group: ParamGroup) -> None:
            with enable_grad():
                update(self, parameter, gradient, group)

        recorded_updates[cls._update] = record_update
        return update

    return register


def _direction(p: Tensor, g: Tensor, group: ParamGroup) -> Tensor:
    """Return the descent direction with weight decay; decoupled weight decay is applied to ``p`` instead."""
    decay = group.get("weight_decay", 0)
    d = -g if group["maximize"] else g
    if isinstance(decay, Tensor) or decay:
        if group.get("decoupled_weight_decay"):
            p.mul_(1 - group["lr"] * decay)
        else:
            d = d + decay * p
    return d


def _count(self: Any, state: dict[str, Any]) -> int:
    """Count this step and return its number."""
    step = int(state["step"]) + 1 if "step" in state else 1
    state["step"] = self._scalar(step)
    return step


def _average(state: dict[str, Any], name: str, value: Tensor, rate: Any) -> Tensor:
    """Update an exponential moving average of the state: ``average += rate * (value - average)``."""
    before = state.get(name)
    before = zeros_like(value) if before is None else before
    state[name] = before * (1 - rate) + value * rate
    found: Tensor = state[name]
    return found


@_recorded(SGD)
def sgd(self: SGD, p: Tensor, g: Tensor, group: ParamGroup) -> None:
    """See ``SGD``."""
    state, momentum = self.state[p], group["momentum"]
    d = _direction(p, g, group)
    if momentum:
        buffer = state.get("momentum_buffer")
        buffer = d.clone() if buffer is None else momentum * buffer + (1 - group["dampening"]) * d
        state["momentum_buffer"] = buffer
        d = d + momentum * buffer if group["nesterov"] else buffer
    p.sub_(group["lr"] * d)


@_recorded(ASGD)
def asgd(self: ASGD, p: Tensor, g: Tensor, group: ParamGroup) -> None:
    """See ``ASGD``."""
    state = self.state[p]
    lr: float | Tensor = group["lr"]
    step = _count(self, state)
    eta, mu = state.get("eta", lr), state.get("mu", 1.0)
    average = state.get("ax")
    d = _direction(p, g, group)
    p.mul_(1 - group["lambd"] * eta)
    p.sub_(eta * d)
    state["ax"] = p.clone() if average is None else average + (p - average) * mu
    later = lr / (1 + group["lambd"] * lr * step) ** group["alpha"]
    state["eta"] = later if isinstance(later, Tensor) else self._scalar(later)
    state["mu"] = self._scalar(1 / max(1, step - group["t0"]))


def _moments(p: Tensor, g: Tensor, group: ParamGroup, state: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the descent direction and the updated first and second moments."""
    d, (beta1, beta2) = _direction(p, g, group), group["betas"]
    return d, _average(state, "exp_avg", d, 1 - beta1), _average(state, "exp_avg_sq", d * d, 1 - beta2)


@_recorded(Adam)
def adam(self: Adam, p: Tensor, g: Tensor, group: ParamGroup) -> None:
    """See ``Adam`` and ``AdamW``."""
    state, (beta1, beta2) = self.state[p], group["betas"]
    step = _count(self, state)
    d, m, v = _moments(p, g, group, state)
    if group["amsgrad"]:
        largest = state.get("max_exp_avg_sq")
        v = state["max_exp_avg_sq"] = v if largest is None else maximum(largest, v)
    denominator = (v / (1 - beta2**step)).sqrt() + group["eps"]
    p.sub_(group["lr"] / (1 - beta1**step) * (m / denominator))


@_recorded(Adamax)
def adamax(self: Adamax, p: Tensor, g: Tensor, group: ParamGroup) -> None:
    """See ``Adamax``."""
    state, (beta1, beta2) = self.state[p], group["betas"]
    step = _count(self, state)
    d = _direction(p, g, group)
    m = _average(state, "exp_avg", d, 1 - beta1)
    largest = state.get("exp_inf")
    new = d.abs() + group["eps"]
    u = state["exp_inf"] = maximum(zeros_like(new) if largest is None else beta2 * largest, new)
    p.sub_(group["lr"] / (1 - beta1**step) * (m / u))


@_recorded(NAdam)
def nadam(self: NAdam, p: Tensor, g: Tensor, group: ParamGroup) -> None:
    """See ``NAdam``."""
    state, (beta1, beta2) = self.state[p], group["betas"]
    step = _count(self, state)

    def mu(t: int) -> float:
        decayed: float = beta1 * (1 - 0.5 * 0.96 ** (t * group["momentum_decay"]))
        return decayed

    product = state.get("mu_product", 1.0) * mu(step)
    state["mu_product"] = product if isinstance(product, Tensor) else self._scalar(product)
    d, m, v = _moments(p, g, group, state)
    denominator = (v / (1 - beta2**step)).sqrt() + group["eps"]
    p.sub_(group["lr"] * (1 - mu(step)) / (1 - product) * (d / denominator))
    p.sub_(group["lr"] * mu(step + 1) / (1 - product * mu(step + 1)) * (m / denominator))


@_recorded(RAdam)
def radam(self: RAdam, p: Tensor, g: Tensor, group: ParamGroup) -> None:
    """See ``RAdam``."""
    state, (beta1, beta2) = self.state[p], group["betas"]
    step = _count(self, state)
    d, m, v = _moments(p, g, group, state)
    correction = 1 - beta2**step
    rho = 2 / (1 - beta2) - 1
    rho_t = rho - 2 * step * beta2**step / correction
    rate = group["lr"] / (1 - beta1**step)
    if rho_t > 5:
        rectification = ((rho_t - 4) * (rho_t - 2) * rho / ((rho - 4) * (rho - 2) * rho_t)) ** 0.5
        p.sub_(rate * rectification * correction**0.5 * (m / (v.sqrt() + group["eps"])))
    else:
        p.sub_(rate * m)


@_recorded(Adagrad)
def adagrad(self: Adagrad, p: Tensor, g: Tensor, group: ParamGroup) -> None:
    """See ``Adagrad``."""
    if not self.state[p]:
        self._start(p)
    state = self.state[p]
    step = _count(self, state)
    d = _direction(p, g, group)
    state["sum"] = state["sum"] + d * d
    p.sub_(group["lr"] / (1 + (step - 1) * group["lr_decay"]) * (d / (state["sum"].sqrt() + group["eps"])))


@_recorded(Adadelta)
def adadelta(self: Adadelta, p: Tensor, g: Tensor, group: ParamGroup) -> None:
    """See ``Adadelta``."""
    state, eps, rate = self.state[p], group["eps"], 1 - group["rho"]
    _count(self, state)
    d = _direction(p, g, group)
    v = _average(state, "square_avg", d * d, rate)
    past = state.get("acc_delta")
    delta = ((zeros_like(v) if past is None else past) + eps).sqrt() / (v + eps).sqrt() * d
    _average(state, "acc_delta", delta * delta, rate)
    p.sub_(group["lr"] * delta)


@_recorded(RMSprop)
def rmsprop(self: RMSprop, p: Tensor, g: Tensor, group: ParamGroup) -> None:
    """See ``RMSprop``."""
    state, rate, momentum = self.state[p], 1 - group["alpha"], group["momentum"]
    _count(self, state)
    d = _direction(p, g, group)
    v = _average(state, "square_avg", d * d, rate)
    if group["centered"]:
        mean = _average(state, "grad_avg", d, rate)
        v = v - mean * mean
    d = d / (v.sqrt() + group["eps"])
    if momentum:
        buffer = state.get("momentum_buffer")
        d = state["momentum_buffer"] = d if buffer is None else momentum * buffer + d
    p.sub_(group["lr"] * d)


@_recorded(Rprop)
def rprop(self: Rprop, p: Tensor, g: Tensor, group: ParamGroup) -> None:
    """See ``Rprop``."""
    (less, more), (smallest, largest) = group["etas"], group["step_sizes"]
    state = self.state[p]
    _count(self, state)
    d = _direction(p, g, group)
    last = state.get("prev", new_tensor(0 * d.array))
    size = state.get("step_size", zeros_like(d) + group["lr"])
    agreement = (d * last).sign()
    factor = where(agreement > 0, more, where(agreement < 0, less, 1.0)).to(d.dtype)
    size = state["step_size"] = (size * factor).clamp(smallest, largest)
    d = state["prev"] = where(agreement < 0, zeros_like(d), d)
    p.sub_(d.sign() * size)
