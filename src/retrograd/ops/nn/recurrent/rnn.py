"""The plain recurrent layer, ``h' = tanh(a)`` or ``relu(a)`` with derivative 0 at 0: one primitive, as in ``lstm``."""

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
    narrowed,
    new_sequence,
    ordered,
    paired_or_wide,
    product,
    projected,
    stacked,
    steps_of,
    weight_gradients,
)


def _steps(out: Array, h: Array, w_hh: Array, bias: Array | None, relu: bool) -> None:
    """Compute the outputs; overwrite ``out``, the inputs' part of the pre-activations, with them."""
    across = w_hh.T
    if bias is not None:
        out += bias
    for a in out:
        a += product(h, across)
        h = np.maximum(a, 0, out=a) if relu else np.tanh(a, out=a)


def _steps_back(
    dout: Array, dh: Array, h: Array, out: Array, w_hh: Array, relu: bool, da: Array, previous: Array
) -> None:
    """Fill the gradient of the pre-activations, and the states before each step.

    Replace the gradient of the last state by that of the first one.
    """
    fill_previous(h, out, previous)
    da[...] = out > 0 if relu else 1 - out * out
    for t in range(out.shape[0] - 1, -1, -1):
        da[t] *= dh + dout[t]
        dh[...] = product(da[t], w_hh)


@or_reference
def _rnn(
    x: Array, h: Array, w_ih: Array, w_hh: Array, b_ih: Array | None, b_hh: Array | None, relu: bool, reverse: bool
) -> tuple[Array, Array]:
    out = projected(x, w_ih)
    run, outputs = loops.rnn if loops.takes(out) else _steps, ordered(out, reverse)
    run(outputs, h, w_hh, b_ih if b_hh is None else b_ih + b_hh, relu)
    last = outputs[-1] if x.shape[0] else h
    return out, last.copy()


@or_reference
def _rnn_of_halves(*arrays: Array, relu: bool, reverse: bool) -> tuple[Array, ...]:
    """Compute the layer for bfloat16, in float32 between the products."""
    x, h, w_ih, w_hh, b_ih, b_hh = paired_or_wide(*arrays)
    found = _rnn(x, h, w_ih, w_hh, b_ih, b_hh, relu, reverse)
    return tuple([narrowed(array, arrays[0].dtype) for array in found])


@or_reference
def _rnn_backward(
    dout: Array, dh: Array, x: Array, h: Array, w_ih: Array, w_hh: Array, b_ih: Array | None, b_hh: Array | None,
    out: Array, relu: bool, reverse: bool, wanted: tuple[bool, ...],
) -> tuple[Any, ...]:  # fmt: skip
    dh = dh.copy(order="C")
    da, previous = [new_sequence(out, out.shape[2], x.dtype) for _ in range(2)]
    run = loops.rnn_backward if loops.takes(out) else _steps_back
    given, after, into, states = [ordered(array, reverse) for array in (dout, out, da, previous)]
    run(given, dh, h, after, w_hh, relu, into, states)
    return weight_gradients(da, da, x, previous, w_ih, wanted, (dh,))


def _rnn_composite(
    x: Tensor, h: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None, b_hh: Tensor | None, relu: bool,
    reverse: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    outputs, given = [], linear(x, w_ih, b_ih).unbind(0)
    for t in steps_of(x, reverse):
        a = given[t] + linear(h, w_hh, b_hh)
        h = a.relu() if relu else a.tanh()
        outputs.append(h)
    return stacked(outputs, h, reverse), h


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
    batch=composed(gradients_of(_rnn_composite, 2, "out")),
    halves=backward_of_halves(_rnn_backward, 1),
)


RNN = Primitive(
    "rnn",
    _rnn,
    "x h w_ih w_hh b_ih b_hh",
    vjp=lambda g, x, h, w_ih, w_hh, b_ih, b_hh, ans, relu, reverse, needs: where_needed(
        RNN_BACKWARD(*g, x, h, w_ih, w_hh, b_ih, b_hh, out=raw(ans[0]), relu=relu, reverse=reverse, wanted=needs), needs
    ),
    outputs=2,
    batch=composed(_rnn_composite),
    halves=_rnn_of_halves,
)


def rnn_layer(
    x: Tensor, states: list[Tensor], weights: list[Tensor | None], reverse: bool, *, relu: bool
) -> tuple[Tensor, ...]:
    """Run a layer in one direction; return the outputs and the last state."""
    return apply(RNN, (x, *states, *weights[:4]), {"relu": relu, "reverse": reverse})


rnn_tanh_layer, rnn_relu_layer = partial(rnn_layer, relu=False), partial(rnn_layer, relu=True)
