"""Recurrent layers over whole sequences, for ``nn.LSTM``, ``nn.GRU`` and ``nn.RNN``.

Sequences are ``(T, N, features)``, weights ``(gates * H, features)``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import TypeAlias

from ....core.arrays.dtypes import FLOATING, conversion_advice
from ....core.errors import describe
from ....core.graph.primitive import operand
from ....core.tensor.tensor import Tensor
from ...shape.joining import cat, split, stack
from ...table.arguments import tensor_list
from ...table.registry import operator
from ...table.types import Operand
from ..dropout import dropout as dropped
from .gru import gru_layer
from .lstm import lstm_layer
from .rnn import rnn_relu_layer, rnn_tanh_layer

# One layer in one direction: a function of x (T, N, features), states [(N, H), ...], weights and whether to run
# backward in time, which returns (outputs, new states).
Layer: TypeAlias = Callable[[Tensor, list[Tensor], list[Tensor | None], bool], tuple[Tensor, ...]]


def check_layer(x: Tensor, batch: int, states: Sequence[Tensor], weights: Sequence[Tensor | None], gates: int) -> None:
    """Check shapes and dtypes of one layer: input (*, features), states (N, H) for a batch of N, weights."""
    w_ih, w_hh, b_ih, b_hh, w_hr = weights
    assert w_ih is not None and w_hh is not None

    def shown() -> str:
        return f"got input {describe(x)}, w_ih {describe(w_ih)}, w_hh {describe(w_hh)}"

    if x.array.dtype.kind not in FLOATING:
        raise RuntimeError(f"expected a floating input, {shown()}")
    for tensor in (*states, *weights):
        if tensor is not None and tensor.array.dtype != x.array.dtype:
            advice = conversion_advice(x, tensor)
            raise RuntimeError(f"expected states and weights in the dtype of the input, {shown()}{advice}")
    if w_ih.array.ndim != 2 or w_hh.array.ndim != 2 or x.array.shape[-1] != w_ih.array.shape[1]:
        raise RuntimeError(f"input.size(-1) must be equal to input_size, the columns of w_ih, {shown()}")
    rows = w_hh.array.shape[0]
    hidden = rows // gates
    out = hidden if w_hr is None else w_hr.array.shape[0]
    if rows != gates * hidden or w_ih.array.shape[0] != rows or w_hh.array.shape[1] != out:
        raise RuntimeError(f"expected w_ih ({gates} * H, features) and w_hh ({gates} * H, H), {shown()}")
    for bias in (b_ih, b_hh):
        if bias is not None and bias.array.shape != (rows,):
            raise RuntimeError(f"expected biases ({rows},), got {describe(bias)}")
    for index, state in enumerate(states):
        wanted = (batch, hidden if index else out)
        if state.array.shape != wanted:
            raise RuntimeError(f"expected states {wanted} per layer and direction, got {describe(state)}; {shown()}")


def _packed(
    layer: Layer, spans: list[tuple[int, int]], x: Tensor, states: list[Tensor], weights: list[Tensor | None],
    reverse: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Run a layer on packed sequences, from the longest to the shortest: on spans of steps with equally many of them.

    A sequence begins at the first step, with ``reverse`` at its last step: then sequences join from span to span,
    otherwise they end.
    """
    parts = split(x, [steps * size for steps, size in spans])
    outputs, now, ended = [], [state[:0] for state in states], []
    for place in range(len(spans))[:: -1 if reverse else 1]:
        steps, size = spans[place]
        have = len(now[0].array)
        if size > have:
            now = [cat([state, first[have:size]]) for state, first in zip(now, states, strict=True)]
        elif size < have:
            ended.append([state[size:] for state in now])
            now = [state[:size] for state in now]
        out, *now = layer(parts[place].reshape(steps, size, x.array.shape[1]), now, weights, reverse)
        outputs.append(out.reshape(steps * size, -1))
    data = cat(outputs[::-1] if reverse else outputs)
    return data, *[cat(states) for states in zip(now, *ended[::-1], strict=True)]


def _layers(
    layer: Layer, gates: int, input: Operand, hx: Sequence[Operand], params: Sequence[Tensor], has_biases: bool,
    num_layers: int, dropout: float, train: bool, bidirectional: bool, batch_first: bool,
    batch_sizes: Sequence[int] | None,
) -> list[Tensor]:  # fmt: skip
    x = operand(input)
    if x.array.ndim != (3 if batch_sizes is None else 2):
        wanted = "(T, N, features)" if batch_sizes is None else "(total, features) with batch_sizes"
        raise RuntimeError(f"expected an input {wanted}, got {describe(x)}")
    if not x.array.shape[0]:
        raise RuntimeError(f"expected a sequence of at least one step, got {describe(x)}")
    if batch_sizes is not None:
        sizes = list(batch_sizes)
        if sum(sizes) != len(x.array) or sizes != sorted(sizes, reverse=True) or sizes[-1] < 1:
            raise RuntimeError(f"expected positive, decreasing batch_sizes with the sum {len(x.array)}, got {sizes}")
        batch_first, batch = False, sizes[0]
        run: Layer = partial(_packed, layer, [(len(list(steps)), size) for size, steps in groupby(sizes)])
    else:
        batch, run = x.array.shape[0 if batch_first else 1], layer
    states = [operand(state, "hx") for state in hx]
    directions = 2 if bidirectional else 1
    usual = 4 if has_biases else 2
    count, rest = divmod(len(params), num_layers * directions)
    has_projection = layer is lstm_layer and count == usual + 1
    if rest or count != usual + has_projection:
        raise RuntimeError(f"expected {usual} params per layer and direction, got {len(params)} in all")
    for state in states:
        if state.array.ndim != 3 or state.array.shape[0] != num_layers * directions:
            raise RuntimeError(
                f"expected hx ({num_layers * directions}, N, H), per layer and direction, got {describe(state)}"
            )
    # Outputs have the memory order of the input, and are contiguous as in PyTorch.
    x = x.transpose(0, 1) if batch_first else x.contiguous()
    finals: list[list[Tensor]] = [[] for _ in states]
    for index in range(num_layers):
        outputs = []
        for direction in range(directions):
            place = index * directions + direction
            given = params[place * count : (place + 1) * count]
            weights: list[Tensor | None] = list(given[:2])
            weights += list(given[2:4]) if has_biases else [None, None]
            weights.append(given[-1] if has_projection else None)
            start = [state[place] for state in states]
            check_layer(x, batch, start, weights, gates)
            out, *last = run(x, start, weights, direction == 1)
            outputs.append(out)
            for column, state in zip(finals, last, strict=True):
                column.append(state)
        x = outputs[0] if directions == 1 else cat(outputs, -1)
        if dropout > 0 and train and index < num_layers - 1:
            x = dropped(x, dropout)
    if batch_first:
        x = x.transpose(0, 1)
    return [x, *map(stack, finals)]


def two_states(hx: Sequence[Tensor]) -> list[Tensor]:
    """Return the states h and c of an LSTM."""
    states = tensor_list(hx, "hx")
    if len(states) != 2:
        raise RuntimeError(f"expects two hidden states, got {len(states)}")
    return states


@operator(method=False, shape="sequence", dtype="equal real", raises="dtypes")
def lstm(
    input: Tensor,
    hx: Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    *,
    batch_sizes: Sequence[int] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Layers of ``c' = f * c + i * g, h' = o * tanh(c')``: long short-term memory over a sequence.

    The gates are ``i, f, o = sigmoid(a)`` and ``g = tanh(a)``, each computed from its own rows of ``a = W_ih x + b_ih +
    W_hh h + b_hh``.

    Derivative: the derivative of the steps, by backpropagation through time, for every floating argument.

    Args:
        input: the sequence ``(T, N, features)``, or with ``batch_first`` ``(N, T, features)``.
        hx: the initial states h and c, each ``(num_layers * directions, N, H)``.
        params: per layer and direction w_ih ``(4 H, features)``, w_hh ``(4 H, H)``, with ``has_biases`` b_ih and
            b_hh ``(4 H,)``, and optionally a projection of the hidden state w_hr ``(P, H)``.
        has_biases: whether ``params`` contains biases.
        num_layers: the number of layers; the input of each layer is the output of the layer below.
        dropout: the probability with which outputs between layers are dropped in training.
        train: whether to apply dropout.
        bidirectional: whether each layer also has a second direction, from the end of the sequence to its start.
        batch_first: the batch is the first dimension of input and outputs.
        batch_sizes: if the input and the outputs are packed sequences ``(total, features)``, the number of sequences
            that reach each step, as in ``nn.utils.rnn.PackedSequence``.

    Returns:
        The last layer's outputs, and the final states h and c, in the shape of the initial states.

    Source: Hochreiter, Schmidhuber, "Long short-term memory", 1997; the projection: Sak, Senior, Beaufays, 2014.

    >>> x, state = rg.ones(5, 2, 3), rg.zeros(1, 2, 4)
    >>> out, h, c = rg.lstm(x, (state, state), [rg.ones(16, 3), rg.ones(16, 4)], False, 1, 0.0, False, False, False)
    >>> out.shape, h.shape
    ((5, 2, 4), (1, 2, 4))
    """
    states = two_states(hx)
    out, h, c = _layers(
        lstm_layer, 4, input, states, params, has_biases, num_layers, dropout, train, bidirectional, batch_first,
        batch_sizes,
    )  # fmt: skip
    return out, h, c


@operator(method=False, like=lstm)
def gru(
    input: Tensor,
    hx: Tensor,
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    *,
    batch_sizes: Sequence[int] | None = None,
) -> tuple[Tensor, Tensor]:
    """Layers of ``h' = (1 - z) * n + z * h``: gated recurrent units over a sequence.

    The gates are ``r, z = sigmoid(W_ih x + b_ih + W_hh h + b_hh)`` and
    ``n = tanh(W_in x + b_in + r * (W_hn h + b_hn))``.

    Args:
        hx: the initial state, ``(num_layers * directions, N, H)``.
        params: per layer and direction w_ih ``(3 H, features)``, w_hh ``(3 H, H)``, with ``has_biases`` b_ih and
            b_hh ``(3 H,)``.

    Returns:
        The last layer's outputs, and the final state, in the shape of the initial state.

    Source: Cho et al., "Learning phrase representations using RNN encoder-decoder", 2014.

    >>> x, state = rg.ones(5, 2, 3), rg.zeros(1, 2, 4)
    >>> out, h = rg.gru(x, state, [rg.ones(12, 3), rg.ones(12, 4)], False, 1, 0.0, False, False, False)
    >>> out.shape, h.shape
    ((5, 2, 4), (1, 2, 4))
    """
    out, h = _layers(
        gru_layer, 3, input, (hx,), params, has_biases, num_layers, dropout, train, bidirectional, batch_first,
        batch_sizes,
    )  # fmt: skip
    return out, h


@operator(method=False, like=gru)
def rnn_tanh(
    input: Tensor,
    hx: Tensor,
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    *,
    batch_sizes: Sequence[int] | None = None,
) -> tuple[Tensor, Tensor]:
    """Layers of ``h' = tanh(W_ih x + b_ih + W_hh h + b_hh)`` over a sequence.

    Args:
        params: per layer and direction w_ih ``(H, features)``, w_hh ``(H, H)``, with ``has_biases`` b_ih and
            b_hh ``(H,)``.

    Source: Elman, "Finding structure in time", 1990.

    >>> x, state = rg.ones(5, 2, 3), rg.zeros(1, 2, 4)
    >>> out, h = rg.rnn_tanh(x, state, [rg.ones(4, 3), rg.ones(4, 4)], False, 1, 0.0, False, False, False)
    >>> out.shape, h.shape
    ((5, 2, 4), (1, 2, 4))
    """
    out, h = _layers(
        rnn_tanh_layer, 1, input, (hx,), params, has_biases, num_layers, dropout, train, bidirectional, batch_first,
        batch_sizes,
    )  # fmt: skip
    return out, h


@operator(method=False, like=rnn_tanh)
def rnn_relu(
    input: Tensor,
    hx: Tensor,
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    *,
    batch_sizes: Sequence[int] | None = None,
) -> tuple[Tensor, Tensor]:
    """Layers of ``h' = relu(W_ih x + b_ih + W_hh h + b_hh)`` over a sequence.

    Derivative: the derivative of the steps, by backpropagation through time, for every floating argument; the
    derivative of relu at 0 is 0.

    Source: Le, Jaitly, Hinton, "A simple way to initialize recurrent networks of rectified linear units", 2015.

    >>> x, state = rg.ones(5, 2, 3), rg.zeros(1, 2, 4)
    >>> out, h = rg.rnn_relu(x, state, [rg.ones(4, 3), rg.ones(4, 4)], False, 1, 0.0, False, False, False)
    >>> out.shape, h.shape
    ((5, 2, 4), (1, 2, 4))
    """
    out, h = _layers(
        rnn_relu_layer, 1, input, (hx,), params, has_biases, num_layers, dropout, train, bidirectional, batch_first,
        batch_sizes,
    )  # fmt: skip
    return out, h
