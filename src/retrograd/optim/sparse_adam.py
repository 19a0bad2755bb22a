"""Adam for embeddings of which each step touches a few rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.arrays.devices import array_module
from ..core.tensor.tensor import Tensor
from .hyperparameters import Betas, LearningRate, NotNegative, ParamGroup, hyperparameters, number, numbers
from .optimizer import Optimizer, ParamsT, writable


class SparseAdam(Optimizer):
    r"""Adam that moves only the rows with a gradient.

    ``p -= lr * sqrt(1 - beta2^t) / (1 - beta1^t) * (m / (sqrt(v) + eps))`` with Adam's moments m and v.

    Rows of zeros in the gradient are left as they are, their moments, too; the others have Adam's. Gradients are dense
    here: of ``Embedding(sparse=True)``, rows that were not looked up are zero.

    Args:
        betas: the factors of the moments.
        eps: keeps the quotient finite.

    Source: Kingma and Ba, Adam, 2015.

    >>> x = rg.ones(3, 1, requires_grad=True)
    >>> optimizer = rg.optim.SparseAdam([x], lr=0.1)
    >>> x[1].sum().backward()
    >>> optimizer.step()
    >>> x.detach().flatten()
    tensor([1. , 0.9, 1. ])
    """

    def __init__(
        self,
        params: ParamsT,
        lr: LearningRate = 1e-3,
        betas: Betas = (0.9, 0.999),
        eps: NotNegative = 1e-8,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, hyperparameters(locals()))

    def _update(self, parameter: Tensor, gradient: Any, group: ParamGroup) -> None:
        lr, eps = numbers(group, "lr", "eps")
        beta1, beta2 = map(number, group["betas"])
        state, step = self._begin(parameter, "exp_avg", "exp_avg_sq")
        xp = array_module(gradient)
        touched = xp.flatnonzero((gradient.reshape(len(gradient), -1) != 0).any(axis=1))
        p, first, second = writable(parameter), state["exp_avg"].array, state["exp_avg_sq"].array
        g = -gradient[touched] if group["maximize"] else gradient[touched]
        first[touched] += (g - first[touched]) * (1 - beta1)
        second[touched] += (g * g - second[touched]) * (1 - beta2)
        size = lr * (1 - beta2**step) ** 0.5 / (1 - beta1**step)
        p[touched] -= size * first[touched] / (np.sqrt(second[touched]) + eps)
