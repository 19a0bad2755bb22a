"""Single steps of recurrent layers, for ``nn.LSTMCell``, ``nn.GRUCell`` and ``nn.RNNCell``."""

from __future__ import annotations

from collections.abc import Sequence

from ....core.errors import describe
from ....core.graph.primitive import operand
from ....core.tensor.tensor import Tensor
from ...table.registry import operator
from ...table.types import Operand
from .gru import gru_layer
from .layers import Layer, check_layer, two_states
from .lstm import lstm_layer
from .rnn import rnn_relu_layer, rnn_tanh_layer


def _cell(
    layer: Layer, gates: int, input: Operand, states: Sequence[Operand], weights: Sequence[Operand | None]
) -> list[Tensor]:
    x, hs = operand(input), [operand(state, "hx") for state in states]
    batched = x.array.ndim == 2
    if x.array.ndim not in (1, 2) or any(h.array.ndim != x.array.ndim for h in hs):
        raise RuntimeError(f"expected input (N, features) and hx (N, H), got {describe(x)} and {describe(hs)}")
    given = [None if w is None else operand(w, "weights") for w in weights]
    if not batched:
        hs = [h.unsqueeze(0) for h in hs]
    if (given[2] is None) != (given[3] is None):
        raise RuntimeError("b_ih and b_hh must both be given or both be None")
    x = x.unsqueeze(0) if batched else x.reshape(1, 1, -1)
    check_layer(x, x.array.shape[1], hs, [*given, None], gates)
    _, *last = layer(x, hs, [*given, None], False)
    return last if batched else [h.squeeze(0) for h in last]


@operator(method=False, dtype="equal real", raises="dtypes", derivative="of the formula")
def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """``c' = f * c + i * g, h' = o * tanh(c')``: one step of an ``lstm``.

    Shape: input ``(N, features)`` and states ``(N, H)``, or all without a batch; the results have the shape of the
    states.

    Args:
        input: ``x``.
        hx: the states h and c.
        w_ih, w_hh: ``(4 H, features)`` and ``(4 H, H)``, gates in the order i, f, g, o.
        b_ih, b_hh: ``(4 H,)``; pass both or neither.

    Returns:
        h' and c'.

    >>> state = rg.zeros(2, 4)
    >>> h, c = rg.lstm_cell(rg.ones(2, 3), (state, state), rg.ones(16, 3), rg.ones(16, 4))
    >>> h.shape
    (2, 4)
    """
    h, c = _cell(lstm_layer, 4, input, two_states(hx), (w_ih, w_hh, b_ih, b_hh))
    return h, c


@operator(method=False, dtype="equal real", raises="dtypes", derivative="of the formula")
def gru_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """``h' = (1 - z) * n + z * h``: one step of a ``gru``.

    Shape: input ``(N, features)`` and state ``(N, H)``, or both without a batch; the result has the state's shape.

    Args:
        input: ``x``.
        hx: the state h.
        w_ih, w_hh: ``(3 H, features)`` and ``(3 H, H)``, gates in the order r, z, n.
        b_ih, b_hh: ``(3 H,)``; pass both or neither.

    >>> rg.gru_cell(rg.ones(2, 3), rg.zeros(2, 4), rg.ones(12, 3), rg.ones(12, 4)).shape
    (2, 4)
    """
    (h,) = _cell(gru_layer, 3, input, (hx,), (w_ih, w_hh, b_ih, b_hh))
    return h


@operator(method=False, like=gru_cell)
def rnn_tanh_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """``h' = tanh(W_ih x + b_ih + W_hh h + b_hh)``: one step of ``rnn_tanh``.

    Args:
        w_ih, w_hh: ``(H, features)`` and ``(H, H)``.
        b_ih, b_hh: ``(H,)``; pass both or neither.

    >>> rg.rnn_tanh_cell(rg.ones(2, 3), rg.zeros(2, 4), rg.ones(4, 3), rg.ones(4, 4)).shape
    (2, 4)
    """
    (h,) = _cell(rnn_tanh_layer, 1, input, (hx,), (w_ih, w_hh, b_ih, b_hh))
    return h


@operator(method=False, like=rnn_tanh_cell)
def rnn_relu_cell(
    input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None, b_hh: Tensor | None = None
) -> Tensor:
    """``h' = relu(W_ih x + b_ih + W_hh h + b_hh)``: one step of ``rnn_relu``.

    Derivative: the derivative of the formula, for every argument; the derivative of relu at 0 is 0.

    >>> rg.rnn_relu_cell(rg.ones(2, 3), rg.zeros(2, 4), rg.ones(4, 3), rg.ones(4, 4)).shape
    (2, 4)
    """
    (h,) = _cell(rnn_relu_layer, 1, input, (hx,), (w_ih, w_hh, b_ih, b_hh))
    return h
