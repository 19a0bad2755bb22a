"""Helpers of the kernels of recurrent layers.

Kernels use the order of processing: a sequence that is read in reverse is flipped before and after.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....core.arrays import Array
from ....core.arrays.bfloat16 import wide
from ....core.arrays.devices import array_module
from ....core.arrays.summation import accurate_sum
from ....core.tensor.tensor import Tensor
from ....kernels.loops.layout.copies import write
from ....kernels.loops.matrices import pairs, products
from ....kernels.runtime.result_arrays import empty
from ...linear.matrices import as_rows
from ...shape.joining import stack


def product(x: Array, y: Array) -> Array:
    """Return ``x @ y`` for two matrices: by NumPy's fastest function, or the CuPy function that CUDA graphs capture."""
    return x.dot(y) if type(x) is np.ndarray else np.matmul(x, y)


def ordered(x: Array, reverse: bool) -> Array:
    """Convert x to the order of processing or back."""
    return x[::-1] if reverse else x


def dot(x: Array, y: Array, rounds: bool = True) -> Array:
    """Return ``x @ y`` for two matrices; bfloat16 is summed in float32, and rounded to bfloat16 only if ``rounds``."""
    return pairs.dot(x, y, rounds=rounds) if x.dtype.char == "E" else products.dot(x, y)


def projected(x: Array, w: Array) -> Array:
    """Return ``x @ w.T`` for all steps at once, in new memory; in float32 if x is bfloat16."""
    steps, batch, _ = x.shape
    return dot(as_rows(x), w.T, False).reshape(steps, batch, w.shape[0])


def previous(h: Array, out: Array) -> Array:
    """Return the hidden state before each step."""
    if not out.shape[0]:
        return out
    before = empty(out.shape, out.dtype, out)
    before[0] = h
    write(before[1:], out[:-1])
    return before


def weight_gradients(
    dx_gates: Array,
    dh_gates: Array,
    x: Array,
    h: Array,
    out: Array,
    w_ih: Array,
    reverse: bool,
    wanted: tuple[bool, ...],
    states: tuple[Array, ...],
) -> tuple[Array, ...]:
    """Return the required gradients: of x and the weights, by one product each, and the given gradients of the states.

    ``dx_gates`` and ``dh_gates`` are the gradients of the inputs' and the states' part of the pre-activations.
    """
    want_x, *want_states, want_w_ih, want_w_hh, want_b_ih, want_b_hh = wanted
    flat_x, flat_h = as_rows(dx_gates), as_rows(dh_gates)
    found = [ordered(dot(flat_x, w_ih).reshape(x.shape), reverse)] if want_x else []
    found += [state for state, want in zip(states, want_states, strict=True) if want]
    if want_w_ih:
        found.append(dot(flat_x.T, as_rows(x)))
    if want_w_hh:
        found.append(dot(flat_h.T, as_rows(previous(h, out))))
    if want_b_ih:
        found.append(accurate_sum(wide(flat_x), (0,)))
    if want_b_hh:
        shared = want_b_ih and dh_gates is dx_gates
        found.append(found[-1].copy() if shared else accurate_sum(wide(flat_h), (0,)))
    return tuple(found)


def sigmoid_from_tanh(size: int, sigmoids: Sequence[bool], like: Array) -> Array:
    """Return 1/2 for sigmoid gates, else 1: as ``sigmoid(a) = tanh(a / 2) / 2 + 1 / 2``, all gates share one tanh."""
    xp = array_module(like)
    return xp.concatenate([xp.full(size, 0.5 if is_sigmoid else 1.0, like.dtype) for is_sigmoid in sigmoids])


def stacked(outputs: list[Tensor], h: Tensor, reverse: bool) -> Tensor:
    """Stack the outputs of all steps, given in the order of processing, to a sequence."""
    if not outputs:
        return h.new_zeros((0, *h.array.shape))
    return stack(outputs[::-1] if reverse else outputs)


def steps_of(x: Tensor, reverse: bool) -> range:
    """Return the steps in the order of processing."""
    steps = x.array.shape[0]
    return range(steps - 1, -1, -1) if reverse else range(steps)
