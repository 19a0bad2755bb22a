"""Polynomials of NumPy: arrays of coefficients, highest power first."""

from __future__ import annotations

from functools import reduce

import numpy as np

from ...._generated import functional, linalg
from ...._generated import toplevel as ops
from ....core.arrays.devices import all_examples
from ....core.arrays.dtypes import precision
from ....core.errors import describe
from ....core.tensor.tensor import Tensor
from ..arguments import Rules, alike, axes_of, doubles, flat, floating, in_double, only, tensor, tensors
from .linear_algebra import eigenvalues
from .mathematics import convolve


def _polyval(p: object, x: object) -> Tensor:
    coefficients, y = alike(p, x)
    return reduce(lambda total, coefficient: total * y + coefficient, coefficients, ops.zeros_like(y))


def _of_one_length(a1: object, a2: object) -> list[Tensor]:
    pair = [ops.atleast_1d(x) for x in alike(a1, a2)]
    length = max(map(len, pair))
    return [functional.pad(x, [length - len(x), 0]) for x in pair]


def _polyadd(a1: object, a2: object) -> Tensor:
    x, y = _of_one_length(a1, a2)
    return x + y


def _polysub(a1: object, a2: object) -> Tensor:
    x, y = _of_one_length(a1, a2)
    return x - y


def _polymul(a1: object, a2: object) -> Tensor:
    x, y = alike(a1, a2)
    return convolve(ops.atleast_1d(x), ops.atleast_1d(y))


def _polydiv(u: object, v: object) -> tuple[Tensor, Tensor]:
    rest, divisor = map(ops.atleast_1d, alike(*map(floating, tensors(u, v))))
    quotient = []
    for _ in range(len(rest) - len(divisor) + 1):
        quotient.append(rest[0] / divisor[0])
        rest = ops.cat([rest[1 : len(divisor)] - quotient[-1] * divisor[1:], rest[len(divisor) :]])
    if not quotient:
        return ops.zeros_like(rest[:1]), rest
    if not len(rest):
        return ops.stack(quotient), ops.zeros_like(divisor[:1])
    # As in NumPy, leading coefficients up to 1e-8 are removed, but not the last number.
    places = np.flatnonzero(abs(rest.array) > 1e-8)
    return ops.stack(quotient), rest[int(places[0]) if len(places) else -1 :]


def _trim_zeros(filt: object, trim: str = "fb", axis: object = None) -> Tensor:
    x = tensor(filt)
    for place in axes_of(x, axis):
        kept = np.nonzero(x.array)[place]
        first, last = (int(kept.min()), int(kept.max())) if len(kept) else (0, -1)
        first = first if "f" in trim.lower() else 0
        last = last if "b" in trim.lower() or not len(kept) else x.shape[place] - 1
        x = x[(slice(None),) * place + (slice(first, last + 1),)]
    return x


def _polyder(p: object, m: int = 1) -> Tensor:
    x = tensor(p)
    for _ in range(m):
        x = in_double(x)[:-1] * np.arange(len(x) - 1, 0, -1)  # NumPy's factors are int64, so the result is double
    return x


def _polyint(p: object, m: int = 1, k: object = None) -> Tensor:
    x, constants = doubles(p, 0.0 if k is None else k)
    constants = ops.broadcast_to(constants, (m,)) if constants.ndim == 0 or len(constants) == 1 else constants
    for constant in constants:
        x = ops.cat([x / np.arange(len(x), 0, -1), ops.reshape(constant, (1,))])
    return x


def _poly(seq_of_zeros: object) -> Tensor:
    zeros = floating(tensor(seq_of_zeros))
    if zeros.ndim == 2:
        zeros = linalg.eigvalsh(zeros) if bool((zeros.array == zeros.array.T).all()) else eigenvalues(zeros)
    one = ops.ones_like(zeros[:1])
    return reduce(lambda p, zero: convolve(p, ops.cat([one, -ops.reshape(zero, (1,))])), zeros, one)


def _roots(p: object) -> Tensor:
    """Return the eigenvalues of the companion matrix, and a zero per trailing coefficient that is 0.

    Inside ``vmap`` coefficients count as 0 if they are 0 in all examples, since all examples must have the same number
    of roots.
    """
    x = floating(tensor(p))
    if x.ndim != 1:
        raise ValueError(f"expected the coefficients in one dimension, got {describe(x)}")
    places = np.flatnonzero(all_examples(x.array).reshape(-1, len(x)).any(0))
    if not len(places):
        return x[:0]
    given, zeros = x[int(places[0]) : int(places[-1]) + 1], len(x) - 1 - int(places[-1])
    count = len(given) - 1
    if not count:
        return ops.zeros(zeros, dtype=x.dtype, device=x.device)
    below = ops.eye(count, dtype=x.dtype, device=x.device)[:-1]
    found = eigenvalues(ops.cat([ops.unsqueeze(-given[1:] / given[0], 0), below]))
    return ops.cat([found, ops.zeros(zeros, dtype=found.dtype, device=x.device)])


def _polyfit(
    x: object,
    y: object,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: object = None,
    cov: object = False,
) -> Tensor:
    only("polyfit", "full", full, False)
    only("polyfit", "cov", cov, False)
    places, values = alike(*doubles(x, y))
    rows = linalg.vander(places, N=deg + 1).flip(-1)
    if w is not None:
        weights = doubles(w)[0]
        rows = rows * weights[:, None]
        values = values * (weights[:, None] if values.ndim == 2 else weights)
    scale = ops.sqrt((rows * rows).sum(0))
    cutoff = len(places) * precision(places.array.dtype) if rcond is None else rcond
    found = ops.matmul(linalg.pinv(rows / scale, rtol=cutoff), values)
    return found / (scale[:, None] if values.ndim == 2 else scale)


def _vander(x: object, N: int | None = None, increasing: bool = False) -> Tensor:
    powers = linalg.vander(in_double(flat(x, None)[0]), N=N)  # double, as NumPy's exponents are int64
    return powers if increasing else ops.flip(powers, (-1,))


RULES: Rules = {
    "polyval": _polyval,
    "polyadd": _polyadd,
    "polysub": _polysub,
    "polymul": _polymul,
    "polydiv": _polydiv,
    "polyder": _polyder,
    "polyint": _polyint,
    "polyfit": _polyfit,
    "poly": _poly,
    "roots": _roots,
    "vander": _vander,
    "trim_zeros": _trim_zeros,
}
