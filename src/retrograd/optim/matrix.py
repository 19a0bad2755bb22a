"""Optimizers that treat parameters as matrices: Adafactor and Muon."""

from __future__ import annotations

from math import sqrt
from typing import Annotated, Any

import numpy as np

from ..core.arrays import Array
from ..core.arrays.blas import beside_pool
from ..core.arrays.dtypes import float16, float32, precision
from ..core.errors import describe
from ..core.tensor.tensor import Tensor, new_tensor
from .array_updates import decay_towards
from .hyperparameters import LearningRate, NotNegative, ParamGroup, Range, hyperparameters, number, numbers
from .optimizer import Optimizer, ParamsT, writable


def _norm(x: Array) -> float:
    flat = x.reshape(-1)
    if flat.dtype == float16:
        flat = flat.astype(float32)  # squares would overflow or underflow in float16
    return sqrt(float(beside_pool(np.dot, flat, flat)))


class Adafactor(Optimizer):
    r"""Adam without first moment, with the second moment of a matrix factored into a row and a column.

    With ``b = t^beta2_decay``: ``R += b * (mean_j g_ij^2 - R)``, ``C += b * (mean_i g_ij^2 - C)``,
    ``V = R C / mean(R)`` (for vectors ``V`` is the average of ``g^2`` itself), ``U = g / sqrt(V)``, and
    ``p -= max(eps2, rms(p)) * min(lr, 1 / sqrt(t)) * U / max(1, rms(U) / d)``.

    Args:
        lr: the upper bound of the relative step size.
        beta2_decay: the exponent in the weight of the averages.
        eps: lower bounds of the second moment (None: machine epsilon) and of the parameter's root mean square.
        d: the bound to which the root mean square of the update is clipped.
        weight_decay: decoupled, ``p <- (1 - lr * weight_decay) * p``.
        maximize: maximize instead of minimizing.

    Raises:
        RuntimeError: a parameter is complex.

    Source: Shazeer and Stern, Adafactor: adaptive learning rates with sublinear memory cost, 2018.

    >>> x = rg.ones(4, 3, requires_grad=True)
    >>> (x * x).sum().backward()
    >>> optimizer = rg.optim.Adafactor([x], lr=0.1)
    >>> optimizer.step()
    >>> optimizer.state[x]["row_var"].shape, optimizer.state[x]["col_var"].shape
    ((4, 1), (1, 3))
    """

    def __init__(
        self,
        params: ParamsT,
        lr: LearningRate = 1e-2,
        beta2_decay: Annotated[float, Range("<= 0", lambda x: x <= 0)] = -0.8,
        eps: Annotated[
            tuple[float | None, float],
            Range("(None or >= 0, >= 0)", lambda eps: (eps[0] is None or eps[0] >= 0) and eps[1] >= 0),
        ] = (None, 1e-3),
        d: Annotated[float, Range(">= 1", lambda x: x >= 1)] = 1.0,
        weight_decay: NotNegative = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, hyperparameters(locals()))

    def _state_shape(self, key: str, parameter: Tensor) -> tuple[int, ...] | None:
        shape = parameter.array.shape
        if key == "row_var":
            return (*shape[:-1], 1)
        if key == "col_var":
            return (*shape[:-2], 1, shape[-1])
        return super()._state_shape(key, parameter)

    def _update(self, parameter: Tensor, gradient: Any, group: ParamGroup) -> None:
        g = gradient
        if g.dtype.kind == "c":
            raise RuntimeError("Adafactor does not support complex parameters")
        if g.size == 0:
            return
        lr, weight_decay = numbers(group, "lr", "weight_decay")
        floor, smallest_rms = group["eps"]
        floor = precision(g.dtype) if floor is None else floor
        state = self.state[parameter]
        if not state and g.ndim > 1:
            state["row_var"] = new_tensor(np.zeros_like(g[..., :1]))
            state["col_var"] = new_tensor(np.zeros_like(g[..., :1, :]))
        state, step = self._begin(parameter, *([] if g.ndim > 1 else ["variance"]))
        p = writable(parameter)
        rate = max(smallest_rms, _norm(p) / sqrt(p.size)) * min(lr, 1 / sqrt(step))
        if weight_decay:
            p *= 1 - lr * weight_decay
        update = squares = np.multiply(g, g, out=np.empty_like(g))
        share = step ** number(group["beta2_decay"])
        if g.ndim > 1:
            row, column = state["row_var"].array, state["col_var"].array
            for average, axis in ((row, -1), (column, -2)):
                mean = squares.sum(axis=axis, keepdims=True) / g.shape[axis]
                decay_towards(average, mean, share)
            np.multiply(row, column, out=update)
            update /= np.maximum(row.mean(axis=-2, keepdims=True), floor)
        else:
            variance = state["variance"].array
            decay_towards(variance, squares, share)
            update[...] = variance
        np.maximum(update, floor * floor, out=update)
        np.sqrt(update, out=update)
        np.divide(g, update, out=update)
        rate /= max(1.0, _norm(update) / (sqrt(update.size) * number(group["d"])))
        update *= -rate if group["maximize"] else rate
        p -= update


class Muon(Optimizer):
    r"""Momentum, orthogonalized: the update is approximately the closest orthogonal matrix to the momentum.

    ``b += (1 - momentum) * (g - b)``, ``u = g + momentum * (b - g)`` with ``nesterov``, else ``b``;
    ``p = (1 - lr * weight_decay) * p - lr * s * orthogonal(u)`` with ``s = sqrt(max(1, rows / columns))``, or
    ``0.2 * sqrt(max(rows, columns))`` for ``adjust_lr_fn="match_rms_adamw"``. ``orthogonal`` runs ``ns_steps`` of the
    quintic Newton-Schulz iteration ``X = a X + (b A + c A^2) X``, ``A = X X^T``. It runs in the parameter's dtype,
    where PyTorch rounds to bfloat16.

    Args:
        params: matrices, or groups of them; use another optimizer for all other parameters.
        weight_decay: the factor of the decoupled weight decay.
        momentum: the momentum factor.
        nesterov: whether to use Nesterov's momentum.
        ns_coefficients: ``a``, ``b`` and ``c``.
        eps: added to the norm for numerical stability.
        ns_steps: the number of iterations, below 100.
        adjust_lr_fn: ``"original"`` (also None) or ``"match_rms_adamw"``.

    Raises:
        ValueError: a parameter is not a matrix, or a hyper-parameter is out of range.
        RuntimeError: a parameter is complex.

    Source: Jordan et al., Muon: an optimizer for hidden layers in neural networks, 2024.

    >>> x = rg.eye(2).requires_grad_()
    >>> (x * x).sum().backward()
    >>> rg.optim.Muon([x], lr=0.1, weight_decay=0.0).step()
    >>> 0.8 < x[0, 0].item() < 1.0
    True
    """

    def __init__(
        self,
        params: ParamsT,
        lr: LearningRate = 1e-3,
        weight_decay: NotNegative = 0.1,
        momentum: NotNegative = 0.95,
        nesterov: bool = True,
        ns_coefficients: Annotated[
            tuple[float, float, float], Range("three numbers", lambda coefficients: len(coefficients) == 3)
        ] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: Annotated[int, Range("< 100", lambda steps: steps < 100)] = 5,
        adjust_lr_fn: Annotated[
            str | None,
            Range("None, 'original' or 'match_rms_adamw'", {None, "original", "match_rms_adamw"}.__contains__),
        ] = None,
    ) -> None:
        super().__init__(params, hyperparameters(locals()))

    def add_param_group(self, param_group: ParamGroup) -> None:
        """Add a group of matrices; raise ValueError if a parameter is not a matrix."""
        super().add_param_group(param_group)
        for parameter in self.param_groups[-1]["params"]:
            if parameter.ndim != 2:
                del self.param_groups[-1]
                raise ValueError(f"Muon only supports 2D parameters whereas we found {describe(parameter)}")

    def _update(self, parameter: Tensor, gradient: Any, group: ParamGroup) -> None:
        g = gradient
        if g.dtype.kind == "c":
            raise RuntimeError("Muon does not support complex parameters")
        if g.size == 0:
            return
        lr, momentum = numbers(group, "lr", "momentum")
        state = self.state[parameter]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = self._zeros_like(parameter)
        buffer = state["momentum_buffer"].array
        decay_towards(buffer, g, 1 - momentum)
        update = buffer
        if group["nesterov"]:
            update = np.subtract(buffer, g)
            update *= momentum
            update += g
        update = orthogonalized(update, group["ns_coefficients"], group["ns_steps"], number(group["eps"]))
        rows, columns = g.shape
        scale = (
            0.2 * sqrt(max(rows, columns))
            if group["adjust_lr_fn"] == "match_rms_adamw"
            else sqrt(max(1, rows / columns))
        )
        update *= lr * scale
        p = writable(parameter)
        p *= 1 - lr * number(group["weight_decay"])
        p -= update


def orthogonalized(x: Array, coefficients: tuple[float, float, float], steps: int, eps: float) -> Array:
    """Return a matrix with x's singular vectors and singular values near 1, by the quintic Newton-Schulz iteration."""
    a, b, c = coefficients
    tall = x.shape[0] > x.shape[1]
    x = x / max(_norm(x), eps)  # so that the singular values are at most 1
    if tall:
        x = x.T
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x.T if tall else x
