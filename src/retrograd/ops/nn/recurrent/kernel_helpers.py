"""Helpers of the kernels of recurrent layers.

Kernels process views of sequences in the order of processing. All sequences of a kernel have the memory order of the
input, so that neither an input with ``batch_first`` nor its outputs and gradients are transposed in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ....core.arrays import Array
from ....core.arrays.bfloat16 import wide
from ....core.arrays.devices import array_module
from ....core.arrays.dtypes import DType
from ....core.arrays.layout import cast
from ....core.arrays.summation import accurate_sum
from ....core.tensor.tensor import Tensor
from ....kernels import or_reference
from ....kernels.loops.layout.copies import write
from ....kernels.loops.matrices import pairs, products
from ....kernels.loops.sequences import recurrent as loops
from ....kernels.runtime.result_arrays import empty
from ...linear.matrices import as_rows
from ...shape.joining import stack

Kernel: TypeAlias = Callable[..., tuple[Any, ...]]


def product(x: Array, y: Array) -> Array:
    """Return ``x @ y`` for two matrices: by NumPy's fastest function, or the CuPy function that CUDA graphs capture."""
    return x.dot(y) if type(x) is np.ndarray else np.matmul(x, y)


def ordered(x: Array, reverse: bool) -> Array:
    """Convert x to the order of processing or back."""
    return x[::-1] if reverse else x


def dot(x: Array, y: Array, rounds: bool = True) -> Array:
    """Return ``x @ y`` for two matrices; bfloat16 is summed in float32, and rounded to bfloat16 only if ``rounds``."""
    return pairs.dot(x, y, rounds=rounds) if x.dtype.char == "E" else products.dot(x, y)


def swapped(x: Array, within: bool) -> Array:
    """Convert an array (T, N, features) to the order of its memory or back, for ``within = by_sequence(x)``."""
    return x.transpose(1, 0, 2) if within else x


def new_sequence(like: Array, size: int, dtype: DType) -> Array:
    """Allocate a sequence with the steps, the batch and the memory order of another."""
    within = loops.by_sequence(like)
    return swapped(empty((*swapped(like, within).shape[:2], size), dtype, like), within)


def projected(x: Array, w: Array) -> Array:
    """Return ``x @ w.T`` for all steps at once, in new memory of x's order; in float32 if x is bfloat16."""
    within = loops.by_sequence(x)
    x = swapped(x, within)
    return swapped(dot(as_rows(x), w.T, False).reshape(*x.shape[:2], w.shape[0]), within)


def fill_previous(h: Array, out: Array, previous: Array) -> None:
    """Fill ``previous`` with the hidden state before each step; all are in the order of processing."""
    previous[:1] = h
    write(previous[1:], out[:-1])


def weight_gradients(
    dx_gates: Array,
    dh_gates: Array,
    x: Array,
    previous: Array,
    w_ih: Array,
    wanted: tuple[bool, ...],
    states: tuple[Array, ...],
) -> tuple[Array, ...]:
    """Return the required gradients: of x and the weights, by one product each, and the given gradients of the states.

    ``dx_gates`` and ``dh_gates`` are the gradients of the inputs' and the states' part of the pre-activations, and
    ``previous`` contains the hidden state before each step.
    """
    want_x, *want_states, want_w_ih, want_w_hh, want_b_ih, want_b_hh = wanted
    within = loops.by_sequence(dx_gates)
    flat_x, flat_h = as_rows(swapped(dx_gates, within)), as_rows(swapped(dh_gates, within))
    x = swapped(x, within)
    found = [swapped(dot(flat_x, w_ih).reshape(x.shape), within)] if want_x else []
    found += [state for state, want in zip(states, want_states, strict=True) if want]
    if want_w_ih:
        found.append(dot(flat_x.T, as_rows(x)))
    if want_w_hh:
        found.append(dot(flat_h.T, as_rows(swapped(previous, within))))
    if want_b_ih:
        found.append(accurate_sum(wide(flat_x), (0,)))
    if want_b_hh:
        shared = want_b_ih and dh_gates is dx_gates
        found.append(found[-1].copy() if shared else accurate_sum(wide(flat_h), (0,)))
    return tuple(found)


def narrowed(x: Array, dtype: DType) -> Array:
    """Cast an array, unless it has the dtype."""
    return x if x.dtype == dtype else cast(x, dtype)


def paired_or_wide(*arrays: Array) -> list[Array]:
    """Convert the inputs of a layer of bfloat16 to float32: only the biases, if loops can multiply pairs."""
    *given, b_ih, b_hh = arrays
    return [*(given if loops.takes_pairs(*given) else wide(tuple(given))), wide(b_ih), wide(b_hh)]


def of_halves(forward: Kernel) -> Kernel:
    """Return a layer's kernel for bfloat16, with gates and cells in float32."""

    @or_reference
    def run(*arrays: Array, **params: object) -> tuple[object, ...]:
        found, *saved = forward(*paired_or_wide(*arrays), **params)
        return tuple([narrowed(array, arrays[0].dtype) for array in found]), *saved

    return run


def backward_of_halves(backward: Kernel, states: int) -> Kernel:
    """Return the kernel of the gradient of a layer with some states for bfloat16; it computes in float32."""

    @or_reference
    def run(dout: Array, *arrays: Array, out: Array, **params: object) -> tuple[Array, ...]:
        gradients, (x, *more) = arrays[:states], arrays[states:]
        x, out, *given = paired_or_wide(x, out, *more)
        return backward(narrowed(dout, x.dtype), *wide(gradients), x, *given, out=out, **params)

    return run


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
