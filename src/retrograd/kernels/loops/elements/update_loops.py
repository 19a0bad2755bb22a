"""The compiled loops over many arrays at once, given by a table of addresses: optimizers' steps, norms, averages.

A row of the table has the addresses of arrays of equal size; ``start`` and ``stop`` count the elements of all rows. A
step performs the operations of the NumPy form in the same order and precision, without contraction, so its results are
bitwise equal.
"""
# mypy: disable-error-code="no-untyped-def, type-arg, attr-defined, call-arg"

from __future__ import annotations

import numpy as np
from numba import carray, types
from numba.extending import intrinsic

from ...runtime.numba_functions import njit
from ...runtime.object_layout import DATA
from ...runtime.thread_protocol import load, shared
from .basic_loops import _compiled
from .updates import BLOCK, SCALED

_step = njit(error_model="numpy")
_inlined = njit(inline="always", error_model="numpy")


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

    Gradients are multiplied by ``scale`` first, unless it is 1: blocks of them, which are in the cache in the step.
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


# The first three factors of every optimizer: the factor of decoupled weight decay, weight decay, and 1, or -1 to
# maximize.


@_inlined
def _direction(x, g, decay, sign):
    return g * sign if decay == 0 else x * decay + g * sign


@_inlined
def _towards(average, value, rate, rest):
    """``optim.optimizer.decay_towards``, computed from the nearer end; ``rest`` is ``1 - rate``."""
    away = value - average
    return average + away * rate if rate < 0.5 else value - away * rest


@_over_all
@_step
def sgd(p, g, velocity, unused, rates, factors):
    """``rates``: the factor of the gradient in the velocity; ``factors``: lr, momentum, whether nesterov."""
    shrink, decay, sign, lr, momentum, nesterov = factors
    if momentum == 0:
        for i in range(len(p)):
            x = p[i] * shrink
            p[i] = x - _direction(x, g[i], decay, sign) * lr
        return
    fresh = rates[0]
    for i in range(len(p)):
        x = p[i] * shrink
        d = _direction(x, g[i], decay, sign)
        v = velocity[i] * momentum + d * fresh
        velocity[i] = v
        p[i] = x - (v if nesterov == 0 else v * momentum + d) * lr


@_over_all
@_step
def asgd(p, g, average, unused, rates, factors):
    """``rates``: eta, the decay factor of p, mu and 1 - mu."""
    _, decay, sign = factors
    eta, shrink, mu, rest = rates[0], rates[1], rates[2], rates[3]
    for i in range(len(p)):
        x = p[i]
        x = x * shrink - _direction(x, g[i], decay, sign) * eta
        p[i] = x
        average[i] = x if mu == 1 else _towards(average[i], x, mu, rest)


@_over_all
@_step
def adam(p, g, m, v, rates, factors):
    """``rates``: step size and eps; ``factors``: the decay rates of the moments."""
    shrink, decay, sign, slow, rest, keep, fresh = factors
    rate, eps = rates[0], rates[1]
    for i in range(len(p)):
        x = p[i] * shrink
        d = _direction(x, g[i], decay, sign)
        moment = _towards(m[i], d, slow, rest)
        square = v[i] * keep + d * fresh * d
        m[i] = moment
        v[i] = square
        p[i] = x - moment * rate / (np.sqrt(square) + eps)


@_over_all
@_step
def adamax(p, g, m, norm, rates, factors):
    shrink, decay, sign, slow, rest, keep, eps = factors
    rate = rates[0]
    for i in range(len(p)):
        x = p[i] * shrink
        d = _direction(x, g[i], decay, sign)
        moment = _towards(m[i], d, slow, rest)
        size, before = abs(d) + eps, norm[i] * keep
        size = before if before >= size or before != before else size
        m[i] = moment
        norm[i] = size
        p[i] = x - moment * rate / size


@_over_all
@_step
def nadam(p, g, m, v, rates, factors):
    """``rates``: the factors of gradient and moment, and the bias correction of the second moment."""
    shrink, decay, sign, slow, rest, keep, fresh, eps = factors
    of_gradient, of_moment, correction = rates[0], rates[1], rates[2]
    for i in range(len(p)):
        x = p[i] * shrink
        d = _direction(x, g[i], decay, sign)
        moment = _towards(m[i], d, slow, rest)
        square = v[i] * keep + d * fresh * d
        m[i] = moment
        v[i] = square
        root = np.sqrt(square * correction) + eps
        p[i] = x - d * of_gradient / root - moment * of_moment / root


@_over_all
@_step
def radam(p, g, m, v, rates, factors):
    """``rates``: step size, and whether it is divided by the root of the second moment."""
    shrink, decay, sign, slow, rest, keep, fresh, eps = factors
    rate, certain = rates[0], rates[1]
    for i in range(len(p)):
        x = p[i] * shrink
        d = _direction(x, g[i], decay, sign)
        moment = _towards(m[i], d, slow, rest)
        square = v[i] * keep + d * fresh * d
        m[i] = moment
        v[i] = square
        p[i] = x - (moment * rate if certain == 0 else moment * rate / (np.sqrt(square) + eps))


@_over_all
@_step
def adagrad(p, g, total, unused, rates, factors):
    shrink, decay, sign, eps = factors
    rate = rates[0]
    for i in range(len(p)):
        x = p[i] * shrink
        d = _direction(x, g[i], decay, sign)
        squares = total[i] + d * d
        total[i] = squares
        p[i] = x - d * rate / (np.sqrt(squares) + eps)


@_over_all
@_step
def adadelta(p, g, v, u, rates, factors):
    shrink, decay, sign, lr, eps, keep, fresh = factors
    for i in range(len(p)):
        x = p[i] * shrink
        d = _direction(x, g[i], decay, sign)
        square = v[i] * keep + d * fresh * d
        delta = np.sqrt(u[i] + eps) / np.sqrt(square + eps) * d
        v[i] = square
        u[i] = u[i] * keep + delta * fresh * delta
        p[i] = x - delta * lr


@_over_all
@_step
def rmsprop(p, g, v, velocity, rates, factors):
    """``factors``: lr, eps, the two factors of the mean of squares, momentum."""
    shrink, decay, sign, lr, eps, keep, fresh, momentum = factors
    if momentum == 0:
        for i in range(len(p)):
            x = p[i] * shrink
            d = _direction(x, g[i], decay, sign)
            square = v[i] * keep + d * fresh * d
            v[i] = square
            p[i] = x - d * lr / (np.sqrt(square) + eps)
        return
    for i in range(len(p)):
        x = p[i] * shrink
        d = _direction(x, g[i], decay, sign)
        square = v[i] * keep + d * fresh * d
        v[i] = square
        speed = velocity[i] * momentum + d / (np.sqrt(square) + eps)
        velocity[i] = speed
        p[i] = x - speed * lr


@_over_all
@_step
def rprop(p, g, last, size, rates, factors):
    """``factors``: the factors by which a step size shrinks and grows, and its bounds."""
    shrink, decay, sign, less, more, smallest, largest = factors
    number = p.dtype.type
    for i in range(len(p)):
        x = p[i] * shrink
        d = _direction(x, g[i], decay, sign)
        agreement = d * last[i]
        turned = agreement < 0
        s = size[i] * (more if agreement > 0 else less if turned else number(1))
        s = smallest if s < smallest else s
        s = largest if s > largest else s
        d = number(0) if turned else d
        size[i] = s
        last[i] = d
        p[i] = x - (s if d > 0 else -s if d < 0 else number(0) * s)


# Averages of weights, and clipping of gradients


@_over_all
@_step
def averaged(average, value, unused, unused_too, rates, factors):
    """``average += rate * (value - average)``."""
    rate, rest = factors
    for i in range(len(average)):
        average[i] = _towards(average[i], value[i], rate, rest)


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
