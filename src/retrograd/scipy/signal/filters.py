"""Recursive and smoothing filters along one axis.

A recursive filter is a convolution with ``b``, followed by a division by the polynomial ``a``: the primitive
``_ALL_POLE``, whose transpose runs the same filter backwards in time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from ..._generated import linalg as ours
from ..._generated import toplevel as ops
from ...core.arrays import Array
from ...core.graph.primitive import Primitive, apply
from ...core.tensor.tensor import Tensor
from ...ops.numpy.arguments import tensor
from ...ops.table.batching import in_front
from ..decorators import ArrayLike, floats, is_mapped, scipys
from ..linalg import companion
from .convolution import convolved, extended, padded, signal, upfirdn


def _all_pole(a: Array, v: Array) -> Array:
    """Return ``y`` with ``y[n] = v[n] - sum_(k >= 1) a[k] y[n - k]``, along the last axis."""
    function = scipys("scipy.signal").lfilter
    one = np.ones(1, v.dtype)
    dtype = np.result_type(a, v)
    if a.size == a.shape[-1]:
        coefficients = np.concatenate([one, a.reshape(-1)[1:]])
        result: Array = function(one, coefficients, v) if v.size else v
        return np.broadcast_to(result, np.broadcast_shapes(a.shape[:-1], v.shape[:-1]) + v.shape[-1:]).astype(dtype)
    lead = np.broadcast_shapes(a.shape[:-1], v.shape[:-1])
    filters, values = np.broadcast_to(a, lead + a.shape[-1:]), np.broadcast_to(v, lead + v.shape[-1:])
    out = np.empty(values.shape, dtype)
    for index in np.ndindex(*lead):
        out[index] = function(one, np.concatenate([one, filters[index][1:]]), values[index])
    return out


def _all_pole_rule(g: Array, ans: Array, a: Array, needs: tuple[bool, bool]) -> tuple[Array | None, Array]:
    below = _ALL_POLE(a, g[..., ::-1])[..., ::-1]
    if not needs[0]:
        return None, below
    n = ans.shape[-1]
    products = [below[..., k:] * ans[..., : max(n - k, 0)] for k in range(a.shape[-1])]
    sums = [-part.sum(-1) for part in products]
    sums[0] = 0 * sums[0]  # the filter assumes that the first coefficient is 1
    return np.stack(sums, -1), below


_ALL_POLE = Primitive("scipy.signal.lfilter", _all_pole, "a v", vjp=_all_pole_rule, batch=in_front)


def _normalized(b: ArrayLike, a: ArrayLike, *others: ArrayLike) -> tuple[Tensor, ...]:
    numerator, denominator, *rest = floats(b, a, *others)
    numerator, denominator = numerator.reshape(-1), denominator.reshape(-1)
    first = denominator[:1]
    if not is_mapped((first,)) and bool((first.detach() == 0).any()):
        raise ValueError("the filter coefficient a[0] must not be 0")
    return numerator / first, denominator / first, *rest


def _filtered(b: Tensor, a: Tensor, x: Tensor, zi: Tensor | None) -> Tensor:
    """Return the filter's output along the last axis, with the initial state ``zi`` of the transposed direct form."""
    n = x.shape[-1]
    shape = (1,) * (x.ndim - 1) + (-1,)
    v = x * b[0] if b.shape[0] == 1 else convolved(x, b.reshape(shape), "full", (x.ndim - 1,))[..., :n]
    if zi is not None and zi.shape[-1]:
        count = min(zi.shape[-1], n)
        v = v + padded(zi[..., :count], 0, n - count, zi.ndim - 1)
    return v if a.shape[0] == 1 else apply(_ALL_POLE, (a, v), {})


def _final_state(b: Tensor, a: Tensor, x: Tensor, y: Tensor, zi: Tensor) -> Tensor:
    """Return the state after the last sample: the contributions of past inputs and outputs to the next outputs."""
    order, n = zi.shape[-1], x.shape[-1]
    states = []
    for k in range(order):
        state = zi[..., k + n] if k + n < order else 0 * zi[..., 0]
        for j in range(min(order - k, n)):
            place = k + 1 + j
            if place < b.shape[0]:
                state = state + b[place] * x[..., n - 1 - j]
            if place < a.shape[0]:
                state = state - a[place] * y[..., n - 1 - j]
        states.append(state)
    return ops.stack(states, -1)


@signal
def lfilter(
    b: ArrayLike, a: ArrayLike, x: ArrayLike, axis: int = -1, zi: ArrayLike | None = None
) -> Tensor | tuple[Tensor, Tensor]:
    """Filter ``x`` along an axis by the rational transfer function ``b / a``; with ``zi``, return the final state, too.

    Derivative: ``x`` gets the upstream gradient, filtered backwards in time; ``b`` and ``a`` get the correlations of
    input and output with the gradient filtered by ``1 / a`` backwards in time.

    >>> rg.scipy.signal.lfilter([1.0], [1.0, -0.5], rg.tensor([1.0, 0.0, 0.0]))
    tensor([1.  , 0.5 , 0.25])
    """
    numerator, denominator, values, *state = _normalized(b, a, x, *(() if zi is None else (zi,)))
    values = ops.moveaxis(values, axis, -1)
    if not state:
        return ops.moveaxis(_filtered(numerator, denominator, values, None), -1, axis)
    order = max(numerator.shape[0], denominator.shape[0]) - 1
    initial = ops.moveaxis(state[0], axis, -1) if state[0].ndim == values.ndim else state[0]
    if initial.shape[-1] != order:
        raise ValueError(f"Unexpected shape for zi: expected {order} along the axis, found {tuple(state[0].shape)}.")
    initial = ops.broadcast_to(initial, (*values.shape[:-1], order))
    result = _filtered(numerator, denominator, values, initial)
    final = _final_state(numerator, denominator, values, result, initial) if order else initial
    return ops.moveaxis(result, -1, axis), ops.moveaxis(final, -1, axis)


@signal
def lfilter_zi(b: ArrayLike, a: ArrayLike) -> Tensor:
    """Return the steady state of a filter for a constant input of 1.

    >>> rg.scipy.signal.lfilter_zi([1.0, 1.0], rg.tensor([1.0, 0.5]))
    tensor([0.3333])
    """
    return _steady_state(*_normalized(b, a))


def _steady_state(b: Tensor, a: Tensor) -> Tensor:
    n = max(a.shape[0], b.shape[0])
    if n == 1:  # a filter of order 0, a gain, has no state
        return b[1:] * a[1:]
    a, b = padded(a, 0, n - a.shape[0], 0), padded(b, 0, n - b.shape[0], 0)
    matrix = ops.eye(n - 1, dtype=a.dtype) - companion(a).mT
    return ours.solve(matrix, b[1:] - a[1:] * b[0])


def _sections(sos: ArrayLike, x: ArrayLike, *others: ArrayLike) -> tuple[Tensor, ...]:
    sections, *rest = floats(sos, x, *others)
    if sections.ndim != 2 or sections.shape[1] != 6:
        raise ValueError(f"sos array must be shape (n_sections, 6), got {tuple(sections.shape)}")
    if not is_mapped((sections,)) and bool((sections[:, 3].detach() != 1).any()):
        raise ValueError("sos[:, 3] should be all ones")
    return sections, *rest


@signal
def sosfilt(
    sos: ArrayLike, x: ArrayLike, axis: int = -1, zi: ArrayLike | None = None
) -> Tensor | tuple[Tensor, Tensor]:
    """Filter ``x`` along an axis by a cascade of sections of second order; with ``zi``, return the final states, too.

    >>> rg.scipy.signal.sosfilt([[1.0, 0.0, 0.0, 1.0, -0.5, 0.0]], rg.tensor([1.0, 0.0, 0.0]))
    tensor([1.  , 0.5 , 0.25])
    """
    sections, values, *state = _sections(sos, x, *(() if zi is None else (zi,)))
    values = ops.moveaxis(values, axis, -1)
    finals = []
    for index in range(sections.shape[0]):
        b, a = sections[index, :3], sections[index, 3:]
        initial = None
        if state:
            initial = ops.moveaxis(state[0][index], axis, -1) if state[0].ndim == values.ndim + 1 else state[0][index]
            initial = ops.broadcast_to(initial, (*values.shape[:-1], 2))
        result = _filtered(b / a[0], a / a[0], values, initial)
        if initial is not None:
            finals.append(ops.moveaxis(_final_state(b / a[0], a / a[0], values, result, initial), -1, axis))
        values = result
    result = ops.moveaxis(values, -1, axis)
    return (result, ops.stack(finals)) if state else result


@signal
def sosfilt_zi(sos: ArrayLike) -> Tensor:
    """Return the steady states of a cascade for a constant input of 1.

    >>> rg.scipy.signal.sosfilt_zi(rg.tensor([[1.0, 1.0, 0.0, 1.0, 0.5, 0.0]]))
    tensor([[0.3333, 0.    ]])
    """
    (sections,) = floats(sos)
    states, scale = [], ops.ones((), dtype=sections.dtype)
    for index in range(sections.shape[0]):
        b, a = sections[index, :3], sections[index, 3:]
        states.append(scale * _steady_state(b / a[0], a / a[0]))
        scale = scale * b.sum() / a.sum()
    return ops.stack(states)


def _extended(x: Tensor, padtype: str | None, padlen: int | None, ntaps: int) -> tuple[Tensor, int]:
    """Pad the last axis of a signal on both sides; return it and the number of samples."""
    if padtype not in ("even", "odd", "constant", None):
        raise ValueError(f"Unknown value '{padtype}' given to padtype. padtype must be 'even', 'odd', 'constant'.")
    edge = 0 if padtype is None else ntaps * 3 if padlen is None else padlen
    n = x.shape[-1]
    if n <= edge:
        raise ValueError(f"The length of the input vector x must be greater than padlen, which is {edge}.")
    if edge == 0:
        return x, 0
    left, right = ops.flip(x[..., 1 : edge + 1], (-1,)), ops.flip(x[..., n - edge - 1 : n - 1], (-1,))
    first, last = x[..., :1], x[..., -1:]
    if padtype == "odd":
        left, right = 2 * first - left, 2 * last - right
    elif padtype == "constant":
        left, right = first + 0 * left, last + 0 * right
    return ops.cat([left, x, right], -1), edge


@signal
def filtfilt(
    b: ArrayLike,
    a: ArrayLike,
    x: ArrayLike,
    axis: int = -1,
    padtype: str | None = "odd",
    padlen: int | None = None,
    method: str = "pad",
    irlen: int | None = None,
) -> Tensor:
    """Filter ``x`` forwards and backwards, without a phase shift.

    >>> rg.scipy.signal.filtfilt([0.5], [1.0, -0.5], rg.ones(8))
    tensor([1., 1., 1., 1., 1., 1., 1., 1.])
    """
    if method != "pad":
        raise NotImplementedError("scipy.signal.filtfilt of Tensors: method must be 'pad'")
    numerator, denominator, values = _normalized(b, a, x)
    values = ops.moveaxis(values, axis, -1)
    values, edge = _extended(values, padtype, padlen, max(numerator.shape[0], denominator.shape[0]))
    taps = max(numerator.shape[0], denominator.shape[0])
    state = _steady_state(numerator, denominator) if taps > 1 else None
    for _ in range(2):
        start = None if state is None else state * values[..., :1]
        values = ops.flip(_filtered(numerator, denominator, values, start), (-1,))
    return ops.moveaxis(values[..., edge : values.shape[-1] - edge], -1, axis)


@signal
def sosfiltfilt(
    sos: ArrayLike, x: ArrayLike, axis: int = -1, padtype: str | None = "odd", padlen: int | None = None
) -> Tensor:
    """Filter ``x`` forwards and backwards by a cascade of sections of second order.

    >>> rg.scipy.signal.sosfiltfilt([[0.5, 0.0, 0.0, 1.0, -0.5, 0.0]], rg.ones(8))
    tensor([1., 1., 1., 1., 1., 1., 1., 1.])
    """
    sections, values = _sections(sos, x)
    values = ops.moveaxis(values, axis, -1)
    constant = sections.detach()
    ntaps = 2 * sections.shape[0] + 1
    ntaps -= min(int((constant[:, 2] == 0).sum().item()), int((constant[:, 5] == 0).sum().item()))
    values, edge = _extended(values, padtype, padlen, ntaps)
    states: Tensor = sosfilt_zi(sections)
    for _ in range(2):
        first = values[..., :1]
        for index in range(sections.shape[0]):
            b, a = sections[index, :3], sections[index, 3:]
            values = _filtered(b / a[0], a / a[0], values, states[index] * first)
        values = ops.flip(values, (-1,))
    return ops.moveaxis(values[..., edge : values.shape[-1] - edge], -1, axis)


@signal
def detrend(
    data: ArrayLike,
    axis: int = -1,
    type: Literal["linear", "constant"] = "linear",
    bp: int | Sequence[int] = 0,
    overwrite_data: bool = False,
) -> Tensor:
    """Return the signal without its mean, or without the line of least squares in each part between breakpoints.

    >>> rg.scipy.signal.detrend(rg.tensor([1.0, 2.0, 4.0]), type="constant")
    tensor([-1.3333, -0.3333,  1.6667])
    """
    (values,) = floats(data)
    if type in ("constant", "c"):
        return values - values.mean(axis, keepdim=True)
    if type not in ("linear", "l"):
        raise ValueError("Trend type must be 'linear' or 'constant'.")
    values = ops.moveaxis(values, axis, -1)
    n = values.shape[-1]
    ends = np.unique(np.concatenate([[0], np.atleast_1d(bp), [n]])).astype(int)
    if (ends > n).any():
        raise ValueError("Breakpoints must be less than length of data along given axis.")
    parts = []
    for start, stop in zip(ends[:-1], ends[1:], strict=True):
        part = values[..., int(start) : int(stop)]
        t = np.arange(stop - start) - (stop - start - 1) / 2
        unit = tensor((t / math.sqrt(max((t * t).sum(), 1e-300))).astype(values.array.real.dtype))
        part = part - part.mean(-1, keepdim=True)
        parts.append(part - (part * unit).sum(-1, keepdim=True) * unit)
    return ops.moveaxis(ops.cat(parts, -1), -1, axis)


@signal
def savgol_filter(
    x: ArrayLike,
    window_length: int,
    polyorder: int,
    deriv: int = 0,
    delta: float = 1.0,
    axis: int = -1,
    mode: str = "interp",
    cval: float = 0.0,
) -> Tensor:
    """Return values, or derivatives, of polynomials of least squares in a moving window (Savitzky and Golay).

    >>> rg.scipy.signal.savgol_filter(rg.tensor([1.0, 1.0, 4.0, 1.0]), 3, 0)
    tensor([2., 2., 2., 2.])
    """
    if mode not in ("mirror", "nearest", "constant", "wrap", "interp"):
        raise ValueError("mode must be 'mirror', 'constant', 'nearest' 'wrap' or 'interp'.")
    (values,) = floats(x)
    values = ops.moveaxis(values, axis, -1)
    n, half = values.shape[-1], window_length // 2
    if mode == "interp" and window_length > n:
        raise ValueError("If mode is 'interp', window_length must be less than or equal to the size of x.")
    library = scipys("scipy.signal")
    dtype = values.array.real.dtype
    weights = library.savgol_coeffs(window_length, polyorder, deriv, delta)[::-1].astype(dtype)
    before = (window_length - 1) // 2
    if mode != "interp":
        values = extended(values, before, window_length - 1 - before, values.ndim - 1, mode, cval)
        count, start = n, 0
    else:
        count, start = n - 2 * half, half - before
    inner = 0 * values[..., :count]
    for k in range(window_length):
        inner = inner + values[..., start + k : start + k + count] * float(weights[k])
    if mode == "interp" and half:
        # The filter is linear at the edges, too: its coefficients are its results for unit vectors.
        unit = library.savgol_filter(np.eye(window_length), window_length, polyorder, deriv, delta, axis=0)
        rows = tensor(unit.astype(dtype))
        left = values[..., :window_length] @ rows[:half].mT
        right = values[..., n - window_length :] @ rows[window_length - half :].mT
        inner = ops.cat([left, inner, right], -1)
    return ops.moveaxis(inner, -1, axis)


@signal
def decimate(
    x: ArrayLike, q: int, n: int | None = None, ftype: str = "iir", axis: int = -1, zero_phase: bool = True
) -> Tensor:
    """Return every ``q``-th sample of the signal after a low-pass filter, which SciPy designs.

    >>> rg.scipy.signal.decimate(rg.ones(40), 4).shape
    (10,)
    """
    library = scipys("scipy.signal")
    if ftype == "iir":
        sections = library.cheby1(8 if n is None else n, 0.05, 0.8 / q, output="sos")
        filtered: Any = (sosfiltfilt if zero_phase else sosfilt)(sections, x, axis=axis)
        return ops.moveaxis(ops.moveaxis(filtered, axis, -1)[..., ::q], -1, axis)
    if ftype != "fir":
        raise NotImplementedError("scipy.signal.decimate of Tensors: ftype must be 'iir' or 'fir'")
    half = 10 * q
    taps = library.firwin(2 * half + 1 if n is None else n + 1, 1.0 / q, window="hamming")
    if zero_phase:
        return resample_poly(x, 1, q, axis=axis, window=taps)
    (values,) = floats(x)
    count = values.shape[axis] // q + bool(values.shape[axis] % q)
    result: Tensor = upfirdn(taps, values, 1, q, axis)
    return ops.narrow(result, axis, 0, count)


@signal
def resample_poly(
    x: ArrayLike,
    up: int,
    down: int,
    axis: int = 0,
    window: str | tuple[str, float] | ArrayLike = ("kaiser", 5.0),
    padtype: str = "constant",
    cval: float | None = None,
) -> Tensor:
    """Return the signal resampled by the ratio ``up / down`` with an FIR filter; beyond its ends the signal is 0.

    >>> rg.scipy.signal.resample_poly(rg.ones(6), 1, 2).shape
    (3,)
    """
    if padtype != "constant" or cval not in (None, 0):
        raise NotImplementedError("scipy.signal.resample_poly of Tensors: padtype must be 'constant' and cval 0")
    (values,) = floats(x)
    common = math.gcd(int(up), int(down))
    up, down = int(up) // common, int(down) // common
    if up == down == 1:
        return values.clone()
    n_in = values.shape[axis]
    n_out = n_in * up // down + bool(n_in * up % down)
    if isinstance(window, (str, tuple)):
        largest = max(up, down)
        half = 10 * largest
        taps = tensor(scipys("scipy.signal").firwin(2 * half + 1, 1.0 / largest, window=window))
    else:
        (taps,) = floats(window)
        half = (taps.shape[0] - 1) // 2
    taps = taps.astype(values.array.real.dtype) * up
    before = down - half % down
    after, removed = 0, (half + before) // down
    while (n_in - 1) * up + taps.shape[0] + before + after - 1 < (n_out + removed - 1) * down:
        after += 1
    result: Tensor = upfirdn(padded(taps, before, after, 0), values, up, down, axis)
    return ops.narrow(result, axis, removed, n_out)


@signal
def freqz(
    b: ArrayLike,
    a: ArrayLike = 1,
    worN: int | ArrayLike | None = 512,
    whole: bool = False,
    plot: None = None,
    fs: float = 2 * math.pi,
    include_nyquist: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return frequencies and the response of the filter ``b / a`` there.

    >>> rg.scipy.signal.freqz(rg.tensor([0.5, 0.5]), worN=[0.0])[1].real
    tensor([1.])
    """
    if plot is not None:
        raise NotImplementedError("scipy.signal.freqz of Tensors: plot must be None")
    count = 512 if worN is None else worN
    numerator, denominator = floats(b, a)
    numerator, denominator = numerator.reshape(-1), denominator.reshape(-1)
    dtype = numerator.array.real.dtype
    if isinstance(count, int):
        last = 2 * math.pi if whole else math.pi
        w = tensor(np.linspace(0, last, count, endpoint=include_nyquist and not whole).astype(dtype))
    else:
        w = floats(count, numerator)[0] * (2 * math.pi / fs)
    response = _polynomial(numerator, w) / _polynomial(denominator, w)
    return w * (fs / (2 * math.pi)), response


def _polynomial(c: Tensor, w: Tensor) -> Tensor:
    powers = np.arange(c.shape[0]).astype(w.array.dtype)
    return (ops.exp(w[..., None] * powers * -1j) * c).sum(-1)
