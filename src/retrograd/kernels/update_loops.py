"""The compiled loops of optimizers: one pass over many parameters, which a table of addresses leads to.

Every operation is that of the NumPy form in the same order and precision, none contracted, so the numbers are the same
bit for bit. ``start`` and ``stop`` count the elements of all parameters.
"""
# mypy: disable-error-code="no-untyped-def, type-arg, attr-defined, call-arg"

from __future__ import annotations

import numpy as np
from numba import carray, types
from numba.extending import intrinsic

from .native import shared
from .objects import njit

_exact = shared()


@intrinsic
def _floats(typing_context, address):
    """The float32 numbers at an address."""

    def generate(context, builder, signature, arguments):
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.float32)(types.intp), generate


@njit(inline="always")
def _array(address, size):
    return carray(_floats(address), (size,))


@_exact
def sgd(table, bounds, rates, factors, nesterov, start, stop):
    """``factors`` per parameter: weight decay, lr, momentum; a velocity at address 0 is none."""
    decay, lr, momentum = factors[0], factors[1], factors[2]
    for k in range(len(table)):
        first, last = max(start, bounds[k]) - bounds[k], min(stop, bounds[k + 1]) - bounds[k]
        if first >= last:
            continue
        size = bounds[k + 1] - bounds[k]
        p, g = _array(table[k, 0], size), _array(table[k, 1], size)
        if momentum == 0:
            for i in range(first, last):
                d = g[i] if decay == 0 else p[i] * decay + g[i]
                p[i] -= d * lr
            continue
        velocity = _array(table[k, 2], size)
        for i in range(first, last):
            d = g[i] if decay == 0 else p[i] * decay + g[i]
            v = velocity[i] * momentum + d * rates[k, 0]
            velocity[i] = v
            p[i] -= (v * momentum + d if nesterov else v) * lr


@_exact
def adam(table, bounds, rates, factors, start, stop):
    """``rates`` per parameter: rate and eps of its step; ``factors``: shrinking, weight decay, and four of moments."""
    shrink, decay, slow, keep, fresh = factors[0], factors[1], factors[2], factors[3], factors[4]
    for k in range(len(table)):
        first, last = max(start, bounds[k]) - bounds[k], min(stop, bounds[k + 1]) - bounds[k]
        if first >= last:
            continue
        size = bounds[k + 1] - bounds[k]
        p, g = _array(table[k, 0], size), _array(table[k, 1], size)
        m, v = _array(table[k, 2], size), _array(table[k, 3], size)
        rate, eps = rates[k, 0], rates[k, 1]
        for i in range(first, last):
            x = p[i] * shrink
            d = g[i] if decay == 0 else x * decay + g[i]
            moment = m[i] + (d - m[i]) * slow
            square = v[i] * keep + d * fresh * d
            m[i] = moment
            v[i] = square
            p[i] = x - moment * rate / (np.sqrt(square) + eps)


@_exact
def rmsprop(table, bounds, rates, factors, start, stop):
    """``factors``: weight decay, lr, eps, the two of the mean of squares, momentum."""
    decay, lr, eps, keep, fresh, momentum = factors[0], factors[1], factors[2], factors[3], factors[4], factors[5]
    for k in range(len(table)):
        first, last = max(start, bounds[k]) - bounds[k], min(stop, bounds[k + 1]) - bounds[k]
        if first >= last:
            continue
        size = bounds[k + 1] - bounds[k]
        p, g, v = _array(table[k, 0], size), _array(table[k, 1], size), _array(table[k, 2], size)
        if momentum == 0:
            for i in range(first, last):
                d = g[i] if decay == 0 else p[i] * decay + g[i]
                square = v[i] * keep + d * fresh * d
                v[i] = square
                p[i] -= d * lr / (np.sqrt(square) + eps)
            continue
        velocity = _array(table[k, 3], size)
        for i in range(first, last):
            d = g[i] if decay == 0 else p[i] * decay + g[i]
            square = v[i] * keep + d * fresh * d
            v[i] = square
            speed = velocity[i] * momentum + d / (np.sqrt(square) + eps)
            velocity[i] = speed
            p[i] -= speed * lr
