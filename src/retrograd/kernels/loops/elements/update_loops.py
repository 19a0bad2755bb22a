"""The compiled loops over many arrays at once, given by a table of addresses: optimizers' steps, norms, averages.

A row of the table has the addresses of arrays of equal size; ``start`` and ``stop`` count the elements of all rows. A
step performs the operations of the NumPy form (``elements/updates.py``) in the same order and precision, without
contraction, so its results are bitwise equal.
"""
# mypy: disable-error-code="no-untyped-def, type-arg, attr-defined, call-arg"

from __future__ import annotations

import numpy as np
from numba import carray, types
from numba.extending import intrinsic

from ....elements.updates import Operations, updates
from ...runtime.numba_functions import njit
from ...runtime.object_layout import DATA
from ...runtime.thread_protocol import load, shared
from .basic_loops import _compiled
from .updates import BLOCK, SCALED

_step = njit(error_model="numpy")
_inlined = njit(error_model="numpy", forceinline=True)


@intrinsic
def _numbers(typing_context, address, like):
    """Return the numbers at an address as an array, of the type of ``like``."""

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(like)(types.int64, like), generate


@njit(inline="always")
def _part(array, first, last, like):
    """Return a slice of an array at an address as a new array, so that loops have no negative indices."""
    return carray(_numbers(load(array + DATA), like), (last,))[first:]


@njit
def _multiply(x, factor):
    for i in range(len(x)):
        x[i] *= factor


def _over_all(step):
    """Return the loop that calls ``step(p, g, a, b, rates, factors)`` on parts of each row's arrays.

    Unless ``scale`` is 1, gradients are first multiplied by it, block by block, so that the step reads the cache.
    """

    def body(table, bounds, rates, factors, scale, start, stop):
        like, last = factors[0], table.shape[1] - 1  # unused arguments are the last of a row's arrays
        for k in range(len(table)):
            begin, end = max(start, bounds[k]) - bounds[k], min(stop, bounds[k + 1]) - bounds[k]
            size = end - begin if scale == 1 else SCALED
            while begin < end:
                until = min(begin + size, end)
                g = _part(table[k, min(1, last)], begin, until, like)
                if scale != 1:
                    _multiply(g, scale)
                step(
                    _part(table[k, 0], begin, until, like),
                    g,
                    _part(table[k, min(2, last)], begin, until, like),
                    _part(table[k, min(3, last)], begin, until, like),
                    rates[k],
                    factors,
                )
                begin = until

    body.__name__ = step.py_func.__name__
    return shared()(body)


_UPDATES = updates(
    Operations(
        where=_inlined(lambda condition, x, y: x if condition else y),
        sqrt=np.sqrt,
        absolute=np.abs,
        maximum=_inlined(lambda x, y: x if x >= y or x != x else y),
        minimum=_inlined(lambda x, y: x if x <= y or x != x else y),
        neutral=_inlined(lambda number: False),
        absent=_inlined(lambda number: number == 0),
        compiled=_inlined,
    )
)
# _FIRST[n] returns the first n elements of an array as a tuple.
_FIRST = [
    _inlined(lambda rates: ()),
    _inlined(lambda rates: (rates[0],)),
    _inlined(lambda rates: (rates[0], rates[1])),
    _inlined(lambda rates: (rates[0], rates[1], rates[2])),
    _inlined(lambda rates: (rates[0], rates[1], rates[2], rates[3])),
]


def _updated(name, states, rates):
    """Return the loop of an update with up to two arrays of state and the given number of rates."""
    update, numbers = _UPDATES[name], _FIRST[rates]

    def step_alone(p, g, a, b, rates, factors):
        rates = numbers(rates)
        for i in range(len(p)):
            (p[i],) = update(p[i], g[i], factors, rates)

    def step_with_state(p, g, a, b, rates, factors):
        rates = numbers(rates)
        for i in range(len(p)):
            p[i], a[i] = update(p[i], g[i], a[i], factors, rates)

    def step_with_states(p, g, a, b, rates, factors):
        rates = numbers(rates)
        for i in range(len(p)):
            p[i], a[i], b[i] = update(p[i], g[i], a[i], b[i], factors, rates)

    step = (step_alone, step_with_state, step_with_states)[states]
    step.__name__ = name
    return _over_all(_step(step))


averaged = _updated("averaged", 0, 0)
sgd = _updated("sgd", 0, 1)
momentum = _updated("momentum", 1, 1)
asgd = _updated("asgd", 1, 4)
adam = _updated("adam", 2, 2)
adamax = _updated("adamax", 2, 1)
nadam = _updated("nadam", 2, 4)
radam = _updated("radam", 2, 3)
adagrad = _updated("adagrad", 1, 1)
adadelta = _updated("adadelta", 2, 0)
rmsprop = _updated("rmsprop", 1, 0)
rmsprop_momentum = _updated("rmsprop_momentum", 2, 0)
centered = _updated("centered", 2, 1)
rprop = _updated("rprop", 2, 2)


# Clipping of gradients


@_over_all
@_step
def scaled(x, unused, unused_too, nor_this, rates, factors):
    for i in range(len(x)):
        x[i] *= factors[0]


@_over_all
@_step
def filled(x, unused, unused_too, nor_this, rates, factors):
    for i in range(len(x)):
        x[i] = factors[0]


@_compiled("reassoc", "contract")
def _sum_of_squares(x):
    total = 0.0
    for i in range(len(x)):
        total += np.float64(x[i]) * np.float64(x[i])
    return total


@shared()
def squares(table, bounds, sizes, out, like, start, stop):
    """Sum the squares of each block's elements; ``bounds`` count the blocks of rows, ``sizes`` their elements."""
    k = 0
    for block in range(start, stop):
        while block >= bounds[k + 1]:
            k += 1
        first = (block - bounds[k]) * BLOCK
        out[block] = _sum_of_squares(_part(table[k, 0], first, min(sizes[k], first + BLOCK), like))
