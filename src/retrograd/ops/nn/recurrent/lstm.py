"""Long short-term memory (Hochreiter and Schmidhuber, 1997): one layer in one direction is one primitive.

The forward kernel multiplies all inputs by their weights at once, then steps through time on raw arrays and saves the
gates. The backward kernel steps backward in time, fills the gradients of all pre-activations, and computes one product
per weight. The NumPy functions of steps are the references of compiled loops (kernels/loops/sequences). The order of
gates is i, f, g, o; with a = W_ih x + b_ih + W_hh h + b_hh

    i, f, o = sigmoid(a_i, a_f, a_o)    g = tanh(a_g)    c' = f * c + i * g    h' = o * tanh(c')
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ....core.arrays import Array
from ....core.graph.primitive import Primitive, apply
from ....core.tensor.tensor import Tensor
from ....kernels import or_reference
from ....kernels.loops.sequences import recurrent as loops
from ....kernels.runtime.result_arrays import empty
from ...linear.products.affine import linear
from ...table.batching import composed
from ...table.composites import gradients_of, raw, second_order, where_needed
from .kernel_helpers import (
    backward_of_halves,
    fill_previous,
    new_sequence,
    of_halves,
    ordered,
    product,
    projected,
    sigmoid_from_tanh,
    stacked,
    steps_of,
    weight_gradients,
)


def _steps(gates: Array, h: Array, w_hh: Array, bias: Array | None, cells: Array, out: Array) -> None:
    """Fill cells and outputs of all steps; overwrite ``gates``, the inputs' part of pre-activations, with the gates."""
    size = h.shape[-1]
    scale = sigmoid_from_tanh(size, (True, True, False, True), gates)
    offset = 1 - scale
    offset[2 * size : 3 * size] = 0
    across = (w_hh * scale[:, None]).T
    gates *= scale
    if bias is not None:
        gates += bias * scale
    i, f, g, o = (gates[..., k * size : (k + 1) * size] for k in range(4))
    for t in range(gates.shape[0]):
        a = gates[t]
        a += product(h, across)
        np.tanh(a, out=a)
        a *= scale
        a += offset
        c = cells[t + 1]
        np.multiply(f[t], cells[t], out=c)
        c += i[t] * g[t]
        h = out[t]
        np.tanh(c, out=h)
        h *= o[t]


def _steps_back(
    dout: Array, dh: Array, dc: Array, h: Array, gates: Array, cells: Array, out: Array, w_hh: Array, da: Array,
    previous: Array,
) -> None:  # fmt: skip
    """Fill the gradient of the pre-activations, and the states before each step.

    Replace the last states' gradients by those of the first states.
    """
    fill_previous(h, out, previous)
    steps, batch, size = dout.shape
    tanh_c = np.tanh(cells[1:])
    i, f, g, o = (gates[..., k * size : (k + 1) * size] for k in range(4))
    # The derivatives of the cell (for o: of the output) with respect to pre-activations; the loop multiplies them in
    # place.
    da[..., :size] = g * i * (1 - i)
    da[..., size : 2 * size] = cells[:-1] * f * (1 - f)
    da[..., 2 * size : 3 * size] = i * (1 - g * g)
    da[..., 3 * size :] = tanh_c * o * (1 - o)
    to_cell = o * (1 - tanh_c * tanh_c)
    for t in range(steps - 1, -1, -1):
        dh += dout[t]
        dc += dh * to_cell[t]
        a = da[t].reshape(batch, 4, size)
        a[:, :3] *= dc[:, None]
        a[:, 3] *= dh
        dc *= f[t]
        dh[...] = product(da[t], w_hh)


@or_reference
def _lstm(
    x: Array, h: Array, c: Array, w_ih: Array, w_hh: Array, b_ih: Array | None, b_hh: Array | None, reverse: bool
) -> tuple[tuple[Any, Any, Any], Any, Any]:
    gates = projected(x, w_ih)
    cells = empty((x.shape[0] + 1, *c.shape), gates.dtype, x)
    out = new_sequence(gates, h.shape[1], x.dtype)
    cells[0] = c
    run = loops.lstm if loops.takes(gates) else _steps
    outputs, bias = ordered(out, reverse), b_ih if b_hh is None else b_ih + b_hh
    run(ordered(gates, reverse), h, w_hh, bias, cells, outputs)
    last = outputs[-1] if x.shape[0] else h
    return (out, last.copy(), cells[-1].astype(c.dtype)), gates, cells


@or_reference
def _lstm_backward(
    dout: Array, dh: Array, dc: Array, x: Array, h: Array, c: Array, w_ih: Array, w_hh: Array, b_ih: Array | None,
    b_hh: Array | None, out: Array, gates: Array, cells: Array, reverse: bool, wanted: tuple[bool, ...],
) -> tuple[Any, ...]:  # fmt: skip
    dh, dc = dh.copy(order="C"), dc.copy(order="C")
    da, previous = [new_sequence(gates, size, x.dtype) for size in (gates.shape[2], out.shape[2])]
    run = loops.lstm_backward if loops.takes(gates) else _steps_back
    given, before, after, into, states = [ordered(array, reverse) for array in (dout, gates, out, da, previous)]
    run(given, dh, dc, h, before, cells, after, w_hh, into, states)
    return weight_gradients(da, da, x, previous, w_ih, wanted, (dh, dc))


def _lstm_composite(
    x: Tensor, h: Tensor, c: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None, b_hh: Tensor | None,
    reverse: bool, w_hr: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Compute the layer step by step in plain operators; ``w_hr`` projects the hidden state (Sak et al., 2014)."""
    outputs, given = [], linear(x, w_ih, b_ih).unbind(0)
    for t in steps_of(x, reverse):
        i, f, g, o = (given[t] + linear(h, w_hh, b_hh)).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        if w_hr is not None:
            h = linear(h, w_hr)
        outputs.append(h)
    return stacked(outputs, h, reverse), h, c


LSTM_BACKWARD = Primitive(
    "lstm_backward",
    _lstm_backward,
    "dout dh dc x h c w_ih w_hh b_ih b_hh",
    vjp=lambda g, dout, dh, dc, x, h, c, w_ih, w_hh, b_ih, b_hh, reverse, wanted, needs: second_order(
        partial(_lstm_composite, reverse=reverse), g, (dout, dh, dc), (x, h, c, w_ih, w_hh, b_ih, b_hh), wanted, needs
    ),
    outputs=-1,
    batch=composed(gradients_of(_lstm_composite, 3, "out", "gates", "cells")),
    halves=backward_of_halves(_lstm_backward, 2),
)


def _lstm_rule(
    g: Any, x: Array, h: Array, c: Array, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, ans: Any, gates: Any,
    cells: Any, reverse: bool, needs: tuple[bool, ...],
) -> list[Array | None]:  # fmt: skip
    inputs = (x, h, c, w_ih, w_hh, b_ih, b_hh)
    return where_needed(
        LSTM_BACKWARD(*g, *inputs, out=raw(ans[0]), gates=gates, cells=cells, reverse=reverse, wanted=needs), needs
    )


LSTM = Primitive(
    "lstm",
    _lstm,
    "x h c w_ih w_hh b_ih b_hh",
    vjp=_lstm_rule,
    outputs=3,
    batch=composed(_lstm_composite),
    residuals="gates cells",
    halves=of_halves(_lstm),
)


def lstm_layer(x: Tensor, states: list[Tensor], weights: list[Tensor | None], reverse: bool) -> tuple[Tensor, ...]:
    """Return the outputs and the last states h and c; a weight w_hr projects the hidden state."""
    (h, c), (w_ih, w_hh, b_ih, b_hh, w_hr) = states, weights
    if w_hr is not None:
        assert w_ih is not None and w_hh is not None
        return _lstm_composite(x, h, c, w_ih, w_hh, b_ih, b_hh, reverse, w_hr)
    return apply(LSTM, (x, h, c, w_ih, w_hh, b_ih, b_hh), {"reverse": reverse})
