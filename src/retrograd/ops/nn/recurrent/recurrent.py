"""Recurrent layers: LSTM, GRU and the plain RNN over whole sequences, and their cells.

One layer in one direction is one primitive. Its forward multiplies all inputs with their weights at once and then steps
through time on raw arrays, keeping the gates; its backward kernel steps back, fills the gradients of all gates'
arguments, and multiplies once for each weight. Sequences are ``(T, N, features)``, weights ``(gates * H, features)``.

LSTM (Hochreiter and Schmidhuber, 1997; gates in the order i, f, g, o), with a = W_ih x + b_ih + W_hh h + b_hh:

    i, f, o = sigmoid(a_i, a_f, a_o)    g = tanh(a_g)    c' = f * c + i * g    h' = o * tanh(c')

GRU (Cho et al., 2014; gates in the order r, z, n):

    r, z = sigmoid(a_r, a_z)    n = tanh(W_in x + b_in + r * (W_hn h + b_hn))    h' = (1 - z) * n + z * h
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ....core.devices import array_module
from ....core.errors import describe
from ....core.primitive import Primitive, apply, operand
from ....core.tensor import Tensor
from ...linear.affine import linear
from ...linear.matrices import as_rows
from ...table.arguments import tensor_list
from ...table.composites import raw, second_order, spread
from ...table.registry import OPERATORS, operator

# Shared by the kernels, which all work in the order of processing: a reversed sequence is flipped on entry and exit.


def _ordered(x: Any, reverse: bool) -> Any:
    return x[::-1] if reverse else x


def _projected(x: Any, w: Any, b: Any) -> Any:
    """``x @ w.T + b`` for all steps at once."""
    steps, batch, features = x.shape
    out = x.reshape(steps * batch, features).dot(w.T)
    if b is not None:
        out += b
    return out.reshape(steps, batch, w.shape[0])


def _previous(h: Any, out: Any) -> Any:
    """The hidden state before each step."""
    return np.concatenate((h[None], out[:-1])) if out.shape[0] else out


def _weight_gradients(
    dx_gates: Any, dh_gates: Any, x: Any, before: Any, w_ih: Any, reverse: bool, wanted: dict[str, bool]
) -> dict[str, Any]:
    """What follows from the gradients of the gates' arguments: one product each for x and the weights."""
    flat_x, flat_h = as_rows(dx_gates), as_rows(dh_gates)
    found = {}
    if wanted["x"]:
        found["x"] = _ordered(flat_x.dot(w_ih).reshape(x.shape), reverse)
    if wanted["w_ih"]:
        found["w_ih"] = flat_x.T.dot(as_rows(x))
    if wanted["w_hh"]:
        found["w_hh"] = flat_h.T.dot(as_rows(before))
    if wanted["b_ih"]:
        found["b_ih"] = flat_x.sum(axis=0)
    if wanted["b_hh"]:
        found["b_hh"] = flat_h.sum(axis=0)
    return found


def _sigmoid_from_tanh(size: int, smooth: Sequence[bool], like: Any) -> Any:
    """Per gate 1/2 for a sigmoid, else 1: by ``sigmoid(a) = tanh(a / 2) / 2 + 1 / 2`` all gates are one tanh."""
    xp = array_module(like)
    return xp.concatenate([xp.full(size, 0.5 if each else 1.0, like.dtype) for each in smooth])


# LSTM


def _lstm(
    x: Any, h: Any, c: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, reverse: bool
) -> tuple[tuple[Any, Any, Any], Any, Any]:
    xp = array_module(x)
    x = _ordered(x, reverse)
    size = h.shape[-1]
    scale = _sigmoid_from_tanh(size, (True, True, False, True), x)
    offset = 1 - scale
    offset[2 * size : 3 * size] = 0
    bias = b_ih if b_hh is None else b_ih + b_hh
    gates = _projected(x, w_ih * scale[:, None], None if bias is None else bias * scale)
    across = (w_hh * scale[:, None]).T
    cells = xp.empty((x.shape[0] + 1, *c.shape), x.dtype)
    out = xp.empty((x.shape[0], *h.shape), x.dtype)
    cells[0] = c
    i, f, g, o = (gates[..., k * size : (k + 1) * size] for k in range(4))
    for t in range(x.shape[0]):
        a = gates[t]
        a += h.dot(across)
        np.tanh(a, out=a)
        a *= scale
        a += offset
        c = cells[t + 1]
        np.multiply(f[t], cells[t], out=c)
        c += i[t] * g[t]
        h = out[t]
        np.tanh(c, out=h)
        h *= o[t]
    return (_ordered(out, reverse), h.copy(), cells[-1].copy()), gates, cells


def _lstm_backward(
    dout: Any,
    dh: Any,
    dc: Any,
    x: Any,
    h: Any,
    c: Any,
    w_ih: Any,
    w_hh: Any,
    b_ih: Any,
    b_hh: Any,
    out: Any,
    gates: Any,
    cells: Any,
    reverse: bool,
    wanted: tuple[bool, ...],
) -> tuple[Any, ...]:
    x, out, dout = (_ordered(each, reverse) for each in (x, out, dout))
    steps, batch, size = out.shape
    tanh_c = np.tanh(cells[1:])
    i, f, g, o = (gates[..., k * size : (k + 1) * size] for k in range(4))
    # What the gates' arguments get per unit of dc (of dh for o); the loop multiplies it in place.
    da = array_module(x).empty((steps, batch, 4, size), x.dtype)
    da[..., 0, :] = g * i * (1 - i)
    da[..., 1, :] = cells[:-1] * f * (1 - f)
    da[..., 2, :] = i * (1 - g * g)
    da[..., 3, :] = tanh_c * o * (1 - o)
    to_cell = o * (1 - tanh_c * tanh_c)
    for t in range(steps - 1, -1, -1):
        dh = dh + dout[t]
        dc = dc + dh * to_cell[t]
        a = da[t]
        a[:, :3] *= dc[:, None]
        a[:, 3] *= dh
        dc *= f[t]
        dh = a.reshape(batch, 4 * size).dot(w_hh)
    names = ("x", "h", "c", "w_ih", "w_hh", "b_ih", "b_hh")
    da = da.reshape(steps, batch, 4 * size)
    wants = dict(zip(names, wanted, strict=True))
    found = _weight_gradients(da, da, x, _previous(h, out), w_ih, reverse, wants) | {"h": dh, "c": dc}
    return tuple(found[name] for name, want in wants.items() if want)


def _stacked(outputs: list[Tensor], h: Tensor, reverse: bool) -> Tensor:
    if not outputs:
        return h.new_zeros((0, *h.array.shape))
    return OPERATORS["stack"].function(outputs[::-1] if reverse else outputs)


def _steps(x: Tensor, reverse: bool) -> range:
    steps = x.array.shape[0]
    return range(steps - 1, -1, -1) if reverse else range(steps)


def _lstm_composite(
    x: Tensor,
    h: Tensor,
    c: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None,
    b_hh: Tensor | None,
    reverse: bool,
    w_hr: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Step by step in plain operators; with ``w_hr`` the hidden state is projected (Sak et al., 2014)."""
    outputs = []
    for t in _steps(x, reverse):
        i, f, g, o = (linear(x[t], w_ih, b_ih) + linear(h, w_hh, b_hh)).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        if w_hr is not None:
            h = linear(h, w_hr)
        outputs.append(h)
    return _stacked(outputs, h, reverse), h, c


LSTM_BACKWARD = Primitive(
    "lstm_backward",
    _lstm_backward,
    "dout dh dc x h c w_ih w_hh b_ih b_hh",
    vjp=lambda g, dout, dh, dc, x, h, c, w_ih, w_hh, b_ih, b_hh, reverse, wanted, needs: second_order(
        partial(_lstm_composite, reverse=reverse), g, (dout, dh, dc), (x, h, c, w_ih, w_hh, b_ih, b_hh), wanted, needs
    ),
    outputs=-1,
)
LSTM = Primitive(
    "lstm",
    _lstm,
    "x h c w_ih w_hh b_ih b_hh",
    vjp=lambda g, x, h, c, w_ih, w_hh, b_ih, b_hh, ans, gates, cells, reverse, needs: spread(
        LSTM_BACKWARD(
            *g,
            x,
            h,
            c,
            w_ih,
            w_hh,
            b_ih,
            b_hh,
            out=raw(ans[0]),
            gates=gates,
            cells=cells,
            reverse=reverse,
            wanted=needs,
        ),
        needs,
    ),
    outputs=3,
    residuals="gates cells",
)


# GRU


def _gru(x: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, reverse: bool) -> tuple[tuple[Any, Any], Any, Any]:
    xp = array_module(x)
    x = _ordered(x, reverse)
    size = h.shape[-1]
    scale = _sigmoid_from_tanh(size, (True, True, False), x)
    gates = _projected(x, w_ih * scale[:, None], None if b_ih is None else b_ih * scale)
    across = (w_hh * scale[:, None]).T
    b_hh = None if b_hh is None else b_hh * scale
    recurrent_n = xp.empty((x.shape[0], *h.shape), x.dtype)  # W_hn h + b_hn
    out = xp.empty((x.shape[0], *h.shape), x.dtype)
    for t in range(x.shape[0]):
        hidden = h.dot(across)
        if b_hh is not None:
            hidden += b_hh
        rz, n = gates[t, :, : 2 * size], gates[t, :, 2 * size :]
        rz += hidden[:, : 2 * size]
        np.tanh(rz, out=rz)
        rz *= 0.5
        rz += 0.5
        recurrent_n[t] = hidden[:, 2 * size :]
        n += rz[:, :size] * recurrent_n[t]
        np.tanh(n, out=n)
        h = np.subtract(h, n, out=out[t])
        h *= rz[:, size:]
        h += n
    return (_ordered(out, reverse), h.copy()), gates, recurrent_n


def _gru_backward(
    dout: Any,
    dh: Any,
    x: Any,
    h: Any,
    w_ih: Any,
    w_hh: Any,
    b_ih: Any,
    b_hh: Any,
    out: Any,
    gates: Any,
    recurrent_n: Any,
    reverse: bool,
    wanted: tuple[bool, ...],
) -> tuple[Any, ...]:
    x, out, dout = (_ordered(each, reverse) for each in (x, out, dout))
    steps, batch, size = out.shape
    before = _previous(h, out)
    r, z, n = (gates[..., k * size : (k + 1) * size] for k in range(3))
    # What the gates' arguments get per unit of dh (r: per unit of what n gets); the loop multiplies it in place.
    dx_gates = array_module(x).empty((steps, batch, 3, size), x.dtype)
    dx_gates[..., 0, :] = recurrent_n * r * (1 - r)
    dx_gates[..., 1, :] = (before - n) * z * (1 - z)
    dx_gates[..., 2, :] = (1 - z) * (1 - n * n)
    dh_gates = array_module(x).empty((steps, batch, 3, size), x.dtype)
    for t in range(steps - 1, -1, -1):
        dh = dh + dout[t]
        a, b = dx_gates[t], dh_gates[t]
        a[:, 1:] *= dh[:, None]
        a[:, 0] *= a[:, 2]
        b[:, :2] = a[:, :2]
        np.multiply(a[:, 2], r[t], out=b[:, 2])
        dh *= z[t]
        dh = dh + b.reshape(batch, 3 * size).dot(w_hh)
    names = ("x", "h", "w_ih", "w_hh", "b_ih", "b_hh")
    wants = dict(zip(names, wanted, strict=True))
    shape = (steps, batch, 3 * size)
    found = _weight_gradients(dx_gates.reshape(shape), dh_gates.reshape(shape), x, before, w_ih, reverse, wants)
    found["h"] = dh
    return tuple(found[name] for name, want in wants.items() if want)


def _gru_composite(
    x: Tensor, h: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None, b_hh: Tensor | None, reverse: bool
) -> tuple[Tensor, Tensor]:
    outputs = []
    for t in _steps(x, reverse):
        r, z, n = linear(x[t], w_ih, b_ih).chunk(3, -1)
        hr, hz, hn = linear(h, w_hh, b_hh).chunk(3, -1)
        z = (z + hz).sigmoid()
        n = (n + (r + hr).sigmoid() * hn).tanh()
        h = n + z * (h - n)
        outputs.append(h)
    return _stacked(outputs, h, reverse), h


GRU_BACKWARD = Primitive(
    "gru_backward",
    _gru_backward,
    "dout dh x h w_ih w_hh b_ih b_hh",
    vjp=lambda g, dout, dh, x, h, w_ih, w_hh, b_ih, b_hh, reverse, wanted, needs: second_order(
        partial(_gru_composite, reverse=reverse), g, (dout, dh), (x, h, w_ih, w_hh, b_ih, b_hh), wanted, needs
    ),
    outputs=-1,
)
GRU = Primitive(
    "gru",
    _gru,
    "x h w_ih w_hh b_ih b_hh",
    vjp=lambda g, x, h, w_ih, w_hh, b_ih, b_hh, ans, gates, recurrent_n, reverse, needs: spread(
        GRU_BACKWARD(
            *g,
            x,
            h,
            w_ih,
            w_hh,
            b_ih,
            b_hh,
            out=raw(ans[0]),
            gates=gates,
            recurrent_n=recurrent_n,
            reverse=reverse,
            wanted=needs,
        ),
        needs,
    ),
    outputs=2,
    residuals="gates recurrent_n",
)


# The plain RNN: h' = tanh(a), or relu(a) with derivative 0 at 0


def _rnn(x: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, relu: bool, reverse: bool) -> tuple[Any, Any]:
    x = _ordered(x, reverse)
    out = _projected(x, w_ih, b_ih if b_hh is None else b_ih + b_hh)
    across = w_hh.T
    for t in range(x.shape[0]):
        a = out[t]
        a += h.dot(across)
        h = np.maximum(a, 0, out=a) if relu else np.tanh(a, out=a)
    return _ordered(out, reverse), h.copy()


def _rnn_backward(
    dout: Any,
    dh: Any,
    x: Any,
    h: Any,
    w_ih: Any,
    w_hh: Any,
    b_ih: Any,
    b_hh: Any,
    out: Any,
    relu: bool,
    reverse: bool,
    wanted: tuple[bool, ...],
) -> tuple[Any, ...]:
    x, out, dout = (_ordered(each, reverse) for each in (x, out, dout))
    da = (out > 0).astype(out.dtype) if relu else 1 - out * out
    for t in range(out.shape[0] - 1, -1, -1):
        da[t] *= dh + dout[t]
        dh = da[t].dot(w_hh)
    names = ("x", "h", "w_ih", "w_hh", "b_ih", "b_hh")
    wants = dict(zip(names, wanted, strict=True))
    found = _weight_gradients(da, da, x, _previous(h, out), w_ih, reverse, wants)
    found["h"] = dh
    return tuple(found[name] for name, want in wants.items() if want)


def _rnn_composite(
    x: Tensor,
    h: Tensor,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None,
    b_hh: Tensor | None,
    relu: bool,
    reverse: bool,
) -> tuple[Tensor, Tensor]:
    outputs = []
    for t in _steps(x, reverse):
        a = linear(x[t], w_ih, b_ih) + linear(h, w_hh, b_hh)
        h = a.relu() if relu else a.tanh()
        outputs.append(h)
    return _stacked(outputs, h, reverse), h


RNN_BACKWARD = Primitive(
    "rnn_backward",
    _rnn_backward,
    "dout dh x h w_ih w_hh b_ih b_hh",
    vjp=lambda g, dout, dh, x, h, w_ih, w_hh, b_ih, b_hh, relu, reverse, wanted, needs: second_order(
        partial(_rnn_composite, relu=relu, reverse=reverse),
        g,
        (dout, dh),
        (x, h, w_ih, w_hh, b_ih, b_hh),
        wanted,
        needs,
    ),
    outputs=-1,
)
RNN = Primitive(
    "rnn",
    _rnn,
    "x h w_ih w_hh b_ih b_hh",
    vjp=lambda g, x, h, w_ih, w_hh, b_ih, b_hh, ans, relu, reverse, needs: spread(
        RNN_BACKWARD(*g, x, h, w_ih, w_hh, b_ih, b_hh, out=raw(ans[0]), relu=relu, reverse=reverse, wanted=needs), needs
    ),
    outputs=2,
)


# One layer in one direction: x (T, N, features), states [(N, H), ...] and weights to (outputs, new states).
Layer = Callable[[Tensor, list[Tensor], list[Tensor | None], bool], tuple[Tensor, ...]]


def _lstm_layer(x: Tensor, states: list[Tensor], weights: list[Tensor | None], reverse: bool) -> tuple[Tensor, ...]:
    (h, c), (w_ih, w_hh, b_ih, b_hh, w_hr) = states, weights
    if w_hr is not None:
        assert w_ih is not None and w_hh is not None
        return _lstm_composite(x, h, c, w_ih, w_hh, b_ih, b_hh, reverse, w_hr)
    return apply(LSTM, (x, h, c, w_ih, w_hh, b_ih, b_hh), {"reverse": reverse})


def _gru_layer(x: Tensor, states: list[Tensor], weights: list[Tensor | None], reverse: bool) -> tuple[Tensor, ...]:
    return apply(GRU, (x, *states, *weights[:4]), {"reverse": reverse})


def _rnn_layer(relu: bool) -> Layer:
    def layer(x: Tensor, states: list[Tensor], weights: list[Tensor | None], reverse: bool) -> tuple[Tensor, ...]:
        return apply(RNN, (x, *states, *weights[:4]), {"relu": relu, "reverse": reverse})

    return layer


_RNN_TANH, _RNN_RELU = _rnn_layer(relu=False), _rnn_layer(relu=True)


def _check(name: str, x: Tensor, states: Sequence[Tensor], weights: Sequence[Tensor | None], gates: int) -> None:
    """The shapes and dtypes of one layer: input (T, N, features), states (N, H), weights."""
    w_ih, w_hh, b_ih, b_hh, w_hr = weights
    assert w_ih is not None and w_hh is not None
    shown = f"got input {describe(x)}, w_ih {describe(w_ih)}, w_hh {describe(w_hh)}"
    if x.array.dtype.kind != "f":
        raise RuntimeError(f"wanted a floating input, {shown}")
    for each in (*states, *weights):
        if each is not None and each.array.dtype != x.array.dtype:
            raise RuntimeError(f"wanted states and weights in the dtype of the input, {describe(each)}; {shown}")
    if w_ih.array.ndim != 2 or w_hh.array.ndim != 2 or x.array.shape[-1] != w_ih.array.shape[1]:
        raise RuntimeError(f"input.size(-1) must be equal to input_size, the columns of w_ih, {shown}")
    rows = w_hh.array.shape[0]
    hidden = rows // gates
    out = hidden if w_hr is None else w_hr.array.shape[0]
    if rows != gates * hidden or w_ih.array.shape[0] != rows or w_hh.array.shape[1] != out:
        raise RuntimeError(f"wanted w_ih ({gates} * H, features) and w_hh ({gates} * H, H), {shown}")
    for bias in (b_ih, b_hh):
        if bias is not None and bias.array.shape != (rows,):
            raise RuntimeError(f"wanted biases ({rows},), got {describe(bias)}")
    for index, state in enumerate(states):
        wanted = (x.array.shape[1], hidden if index else out)
        if state.array.shape != wanted:
            raise RuntimeError(f"wanted a state of {wanted} per layer and direction, got {describe(state)}; {shown}")


def _layers(
    name: str,
    layer: Layer,
    gates: int,
    input: Any,
    states: Sequence[Any],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> tuple[Tensor, ...]:
    """Layers on top of each other, each in one direction or two."""
    x = operand(input)
    if x.array.ndim != 3:
        raise RuntimeError(f"wanted an input (T, N, features), got {describe(x)}")
    initial = [operand(state, "hx") for state in states]
    directions = 2 if bidirectional else 1
    usual = 4 if has_biases else 2
    each, rest = divmod(len(params), num_layers * directions)
    projected = name == "lstm" and each == usual + 1
    if rest or each != usual + projected:
        raise RuntimeError(f"wanted {usual} params per layer and direction, got {len(params)} in all")
    for state in initial:
        if state.array.ndim != 3 or state.array.shape[0] != num_layers * directions:
            raise RuntimeError(
                f"wanted hx ({num_layers * directions}, N, H), per layer and direction, got {describe(state)}"
            )
    if batch_first:
        x = x.transpose(0, 1)
    finals: list[list[Tensor]] = [[] for _ in initial]
    cat, stack = OPERATORS["cat"].function, OPERATORS["stack"].function
    for index in range(num_layers):
        outputs = []
        for direction in range(directions):
            place = index * directions + direction
            given = params[place * each : (place + 1) * each]
            weights: list[Tensor | None] = list(given[:2])
            weights += list(given[2:4]) if has_biases else [None, None]
            weights.append(given[-1] if projected else None)
            start = [state[place] for state in initial]
            _check(name, x, start, weights, gates)
            out, *last = layer(x, start, weights, direction == 1)
            outputs.append(out)
            for column, state in zip(finals, last, strict=True):
                column.append(state)
        x = outputs[0] if directions == 1 else cat(outputs, -1)
        if dropout > 0 and train and index < num_layers - 1:
            x = OPERATORS["nn.functional.dropout"].function(x, dropout)
    if batch_first:
        x = x.transpose(0, 1)
    return (x, *(stack(column) for column in finals))


@operator(method=False)
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
) -> tuple[Tensor, Tensor, Tensor]:
    """Layers of long short-term memory over a sequence (Hochreiter and Schmidhuber, 1997): what ``nn.LSTM`` runs.

    Args:
        input: ``(T, N, features)``, with ``batch_first`` ``(N, T, features)``.
        hx: the initial states h and c, each ``(num_layers * directions, N, H)``.
        params: per layer and direction w_ih ``(4 H, features)``, w_hh ``(4 H, H)``, with ``has_biases`` b_ih and b_hh
            ``(4 H,)``, and optionally a projection of the hidden state w_hr ``(P, H)``.
        dropout: between layers, in training.

    Returns:
        The last layer's outputs ``(T, N, directions * H)`` and the final states h and c.

    Raises:
        RuntimeError: shapes or dtypes do not match.

    >>> x, state = rg.ones(5, 2, 3), rg.zeros(1, 2, 4)
    >>> out, h, c = rg.lstm(x, (state, state), [rg.ones(16, 3), rg.ones(16, 4)], False, 1, 0.0, False, False, False)
    >>> out.shape, h.shape
    ((5, 2, 4), (1, 2, 4))
    """
    hx = tensor_list(hx, "hx")
    if len(hx) != 2:
        raise RuntimeError(f"expects two hidden states, got {len(hx)}")
    return _layers(  # type: ignore[return-value]
        "lstm", _lstm_layer, 4, input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first
    )


def _sequence_operator(name: str, layer: Layer, gates: int, what: str) -> Callable[..., Any]:
    def sequence(
        input: Tensor,
        hx: Tensor,
        params: Sequence[Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> tuple[Tensor, Tensor]:
        return _layers(  # type: ignore[return-value]
            name, layer, gates, input, (hx,), params, has_biases, num_layers, dropout, train, bidirectional, batch_first
        )

    rows = f"{gates} H" if gates > 1 else "H"
    sequence.__name__ = sequence.__qualname__ = name
    sequence.__doc__ = f"""{what}

    Args:
        input: ``(T, N, features)``, with ``batch_first`` ``(N, T, features)``.
        hx: the initial state ``(num_layers * directions, N, H)``.
        params: per layer and direction w_ih ``({rows}, features)``, w_hh ``({rows}, H)``, with ``has_biases`` b_ih and
            b_hh ``({rows},)``.
        dropout: between layers, in training.

    Returns:
        The last layer's outputs ``(T, N, directions * H)`` and the final state.

    Raises:
        RuntimeError: shapes or dtypes do not match.

    >>> x, state, params = rg.ones(5, 2, 3), rg.zeros(1, 2, 4), [rg.ones({4 * gates}, 3), rg.ones({4 * gates}, 4)]
    >>> out, h = rg.{name}(x, state, params, False, 1, 0.0, False, False, False)
    >>> out.shape, h.shape
    ((5, 2, 4), (1, 2, 4))
    """
    return operator(method=False)(sequence)


gru = _sequence_operator(
    "gru", _gru_layer, 3, "Layers of gated recurrent units (Cho et al., 2014): what ``nn.GRU`` runs."
)
rnn_tanh = _sequence_operator(
    "rnn_tanh", _RNN_TANH, 1, "Layers of ``h' = tanh(W_ih x + b_ih + W_hh h + b_hh)``: what ``nn.RNN`` runs."
)
rnn_relu = _sequence_operator(
    "rnn_relu", _RNN_RELU, 1, "Layers of ``h' = relu(W_ih x + b_ih + W_hh h + b_hh)``: what ``nn.RNN`` runs."
)


def _cell(
    name: str, layer: Layer, gates: int, input: Any, states: Sequence[Any], weights: Sequence[Any]
) -> tuple[Tensor, ...]:
    """A sequence of one step."""
    x, hs = operand(input), [operand(state, "hx") for state in states]
    batched = x.array.ndim == 2
    if x.array.ndim not in (1, 2) or any(h.array.ndim != x.array.ndim for h in hs):
        raise RuntimeError(f"wanted input (N, features) and hx (N, H), got {describe(x)} and {describe(hs)}")
    given = [None if w is None else operand(w, "weights") for w in weights]
    if not batched:
        hs = [h.unsqueeze(0) for h in hs]
    if (given[2] is None) != (given[3] is None):
        raise RuntimeError("b_ih and b_hh must both be given or both be None")
    x = x.unsqueeze(0) if batched else x.reshape(1, 1, -1)
    _check(name, x, hs, [*given, None], gates)
    _, *last = layer(x, hs, [*given, None], False)
    return tuple(last) if batched else tuple([h.squeeze(0) for h in last])


@operator(method=False)
def lstm_cell(
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """One step of an LSTM: ``c' = f * c + i * g``, ``h' = o * tanh(c')``.

    Args:
        input: ``(N, features)``.
        hx: the states h and c, each ``(N, H)``.
        w_ih, w_hh: ``(4 H, features)`` and ``(4 H, H)``, gates in the order i, f, g, o.
        b_ih, b_hh: ``(4 H,)``.

    Raises:
        RuntimeError: shapes or dtypes do not match.

    >>> state = rg.zeros(2, 4)
    >>> h, c = rg.lstm_cell(rg.ones(2, 3), (state, state), rg.ones(16, 3), rg.ones(16, 4))
    >>> h.shape
    (2, 4)
    """
    hx = tensor_list(hx, "hx")
    if len(hx) != 2:
        raise RuntimeError(f"expects two hidden states, got {len(hx)}")
    return _cell("lstm_cell", _lstm_layer, 4, input, hx, (w_ih, w_hh, b_ih, b_hh))  # type: ignore[return-value]


def _cell_operator(name: str, layer: Layer, gates: int, what: str) -> Callable[..., Any]:
    def cell(
        input: Tensor,
        hx: Tensor,
        w_ih: Tensor,
        w_hh: Tensor,
        b_ih: Tensor | None = None,
        b_hh: Tensor | None = None,
    ) -> Tensor:
        return _cell(name, layer, gates, input, (hx,), (w_ih, w_hh, b_ih, b_hh))[0]

    rows = f"{gates} H" if gates > 1 else "H"
    cell.__name__ = cell.__qualname__ = name
    cell.__doc__ = f"""{what}

    Args:
        input: ``(N, features)``.
        hx: the state ``(N, H)``.
        w_ih, w_hh: ``({rows}, features)`` and ``({rows}, H)``.
        b_ih, b_hh: ``({rows},)``.

    Raises:
        RuntimeError: shapes or dtypes do not match.

    >>> rg.{name}(rg.ones(2, 3), rg.zeros(2, 4), rg.ones({4 * gates}, 3), rg.ones({4 * gates}, 4)).shape
    (2, 4)
    """
    return operator(method=False)(cell)


gru_cell = _cell_operator(
    "gru_cell", _gru_layer, 3, "One step of a GRU, gates in the order r, z, n: ``h' = (1 - z) * n + z * h``."
)
rnn_tanh_cell = _cell_operator("rnn_tanh_cell", _RNN_TANH, 1, "One step ``h' = tanh(W_ih x + b_ih + W_hh h + b_hh)``.")
rnn_relu_cell = _cell_operator("rnn_relu_cell", _RNN_RELU, 1, "One step ``h' = relu(W_ih x + b_ih + W_hh h + b_hh)``.")
