"""Samples of a categorical distribution that can be differentiated."""

from __future__ import annotations

from ...core.primitive import operand
from ...core.tensor import Tensor
from ..table.registry import OPERATORS, operator


@operator(namespace="nn.functional", method=False, note="with hard, the gradient is that of the soft sample")
def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """``softmax((logits + noise) / tau)`` with Gumbel noise: a soft sample of the categorical distribution.

    As ``tau`` goes to 0 the samples become one-hot (Jang, Gu and Poole, 2017; Maddison, Mnih and Teh, 2017).

    Args:
        logits: unnormalized log-probabilities along ``dim``.
        tau: the temperature.
        hard: give the one-hot sample itself, with the gradient of the soft one.
        eps: without effect, as in PyTorch.
        dim: the dimension of the classes.

    >>> F.gumbel_softmax(rg.tensor([[0.0, 1000.0]]), hard=True)
    tensor([[0., 1.]])
    """
    x = operand(logits, "logits")
    noise = -OPERATORS["empty_like"].function(x.detach()).exponential_().log()
    soft = ((x + noise) / tau).softmax(dim)
    if not hard:
        return soft
    values = soft.detach()
    winner = values.argmax(dim, keepdim=True)
    one_hot = OPERATORS["zeros_like"].function(values).scatter(dim, winner, 1.0)
    return one_hot - values + soft
