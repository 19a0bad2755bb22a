"""Gated recurrent units (Cho et al., 2014): one layer in one direction is one primitive, as in ``lstm``.

The order of gates is r, z, n:

    r, z = sigmoid(a_r, a_z)    n = tanh(W_in x + b_in + r * (W_hn h + b_hn))    h' = (1 - z) * n + z * h
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


def _steps(gates: Array, h: Array, w_hh: Array, b_ih: Array | None, b_hh: Array | None, hn: Array, out: Array) -> None:
    """Fill ``W_hn h + b_hn`` and the outputs; overwrite ``gates``, the inputs' pre-activations, with the gates."""
    size = h.shape[-1]
    scale = sigmoid_from_tanh(size, (True, True, False), gates)
    across = (w_hh * scale[:, None]).T
    gates *= scale
    if b_ih is not None:
        gates += b_ih * scale
    offset = None if b_hh is None else b_hh * scale
    for t in range(gates.shape[0]):
        hidden = product(h, across)
        if offset is not None:
            hidden += offset
        rz, n = gates[t, :, : 2 * size], gates[t, :, 2 * size :]
        rz += hidden[:, : 2 * size]
        np.tanh(rz, out=rz)
        rz *= 0.5
        rz += 0.5
        hn[t] = hidden[:, 2 * size :]
        n += rz[:, :size] * hn[t]
        np.tanh(n, out=n)
        h = np.subtract(h, n, out=out[t])
        h *= rz[:, size:]
        h += n


def _steps_back(
    dout: Array, dh: Array, h: Array, gates: Array, hn: Array, out: Array, w_hh: Array, dx_gates: Array,
    dh_gates: Array, previous: Array,
) -> None:  # fmt: skip
    """Fill the gradients of the inputs' and the states' pre-activations, and the states before each step.

    Replace the last state's gradient by that of the first state.
    """
    fill_previous(h, out, previous)
    steps, batch, size = out.shape
    r, z, n = (gates[..., k * size : (k + 1) * size] for k in range(3))
    # The derivatives of h (for r: of n's pre-activation) with respect to pre-activations; the loop multiplies them in
    # place.
    dx_gates[..., :size] = hn * r * (1 - r)
    dx_gates[..., size : 2 * size] = (previous - n) * z * (1 - z)
    dx_gates[..., 2 * size :] = (1 - z) * (1 - n * n)
    for t in range(steps - 1, -1, -1):
        dh += dout[t]
        a, b = [x[t].reshape(batch, 3, size) for x in (dx_gates, dh_gates)]
        a[:, 1:] *= dh[:, None]
        a[:, 0] *= a[:, 2]
        b[:, :2] = a[:, :2]
        np.multiply(a[:, 2], r[t], out=b[:, 2])
        dh *= z[t]
        dh += product(dh_gates[t], w_hh)


@or_reference
def _gru(
    x: Array, h: Array, w_ih: Array, w_hh: Array, b_ih: Array | None, b_hh: Array | None, reverse: bool
) -> tuple[tuple[Any, Any], Any, Any]:
    gates = projected(x, w_ih)
    hn, out = [new_sequence(gates, h.shape[1], dtype) for dtype in (gates.dtype, x.dtype)]
    run, outputs = loops.gru if loops.takes(gates) else _steps, ordered(out, reverse)
    run(ordered(gates, reverse), h, w_hh, b_ih, b_hh, ordered(hn, reverse), outputs)
    last = outputs[-1] if x.shape[0] else h
    return (out, last.copy()), gates, hn


@or_reference
def _gru_backward(
    dout: Array, dh: Array, x: Array, h: Array, w_ih: Array, w_hh: Array, b_ih: Array | None, b_hh: Array | None,
    out: Array, gates: Array, hn: Array, reverse: bool, wanted: tuple[bool, ...],
) -> tuple[Any, ...]:  # fmt: skip
    dh = dh.copy(order="C")
    size = out.shape[2]
    dx_gates, dh_gates, previous = [new_sequence(gates, width, x.dtype) for width in (3 * size, 3 * size, size)]
    run = loops.gru_backward if loops.takes(gates) else _steps_back
    sequences = dout, gates, hn, out, dx_gates, dh_gates, previous
    given, before, recurrent, after, into_x, into_h, states = [ordered(array, reverse) for array in sequences]
    run(given, dh, h, before, recurrent, after, w_hh, into_x, into_h, states)
    return weight_gradients(dx_gates, dh_gates, x, previous, w_ih, wanted, (dh,))


def _gru_composite(
    x: Tensor, h: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None, b_hh: Tensor | None, reverse: bool
) -> tuple[Tensor, Tensor]:
    outputs, given = [], linear(x, w_ih, b_ih).unbind(0)
    for t in steps_of(x, reverse):
        r, z, n = given[t].chunk(3, -1)
        hr, hz, hn = linear(h, w_hh, b_hh).chunk(3, -1)
        z = (z + hz).sigmoid()
        n = (n + (r + hr).sigmoid() * hn).tanh()
        h = n + z * (h - n)
        outputs.append(h)
    return stacked(outputs, h, reverse), h


GRU_BACKWARD = Primitive(
    "gru_backward",
    _gru_backward,
    "dout dh x h w_ih w_hh b_ih b_hh",
    vjp=lambda g, dout, dh, x, h, w_ih, w_hh, b_ih, b_hh, reverse, wanted, needs: second_order(
        partial(_gru_composite, reverse=reverse), g, (dout, dh), (x, h, w_ih, w_hh, b_ih, b_hh), wanted, needs
    ),
    outputs=-1,
    batch=composed(gradients_of(_gru_composite, 2, "out", "gates", "hn")),
    halves=backward_of_halves(_gru_backward, 1),
)


GRU = Primitive(
    "gru",
    _gru,
    "x h w_ih w_hh b_ih b_hh",
    vjp=lambda g, x, h, w_ih, w_hh, b_ih, b_hh, ans, gates, hn, reverse, needs: where_needed(
        GRU_BACKWARD(
            *g, x, h, w_ih, w_hh, b_ih, b_hh, out=raw(ans[0]), gates=gates, hn=hn, reverse=reverse, wanted=needs
        ),
        needs,
    ),
    outputs=2,
    batch=composed(_gru_composite),
    residuals="gates hn",
    halves=of_halves(_gru),
)


def gru_layer(x: Tensor, states: list[Tensor], weights: list[Tensor | None], reverse: bool) -> tuple[Tensor, ...]:
    """Return the outputs and the last state."""
    return apply(GRU, (x, *states, *weights[:4]), {"reverse": reverse})
