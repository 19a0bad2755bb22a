"""Mathematical functions of NumPy that are not ufuncs: scans, differences, integrals, interpolation, rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...._generated import functional
from ...._generated import toplevel as ops
from ....core.arrays.devices import array_module
from ....core.arrays.dtypes import precision
from ....core.graph.primitive import ZEROS, apply1
from ....core.tensor.tensor import Tensor, new_tensor
from ...table.arguments import dimension
from ...table.elementwise_primitives import unary, zero_rule
from ..arguments import (
    Rules,
    alike,
    axes_of,
    doubles,
    flat,
    floating,
    in_double,
    only,
    tensor,
    tensors,
    unwrapped,
    without_derivative,
)
from ..promotion import summed_dtype


def scan(name: str) -> Callable[..., Tensor]:
    def rule(a: object, axis: int | None = None, dtype: Any = None) -> Tensor:
        x, dim = flat(a, axis)
        dtype = summed_dtype(x.dtype) if dtype is None else np.dtype(dtype)
        return getattr(ops, name)(x.astype(dtype, copy=False), dim).astype(dtype, copy=False)

    return rule


def _cumulative(name: str, start: float) -> Callable[..., Tensor]:
    def rule(x: object, /, *, axis: int | None = None, dtype: object = None, include_initial: bool = False) -> Tensor:
        y = tensor(x)
        if axis is None and y.ndim != 1:
            raise ValueError(f"axis may be left out for one dimension only, got {y.ndim}")
        dim = dimension(0 if axis is None else axis, y.ndim)
        total = scan(name)(y, dim, dtype)
        if include_initial:
            first = [1 if place == dim else length for place, length in enumerate(y.shape)]
            total = ops.cat([ops.full(first, start, dtype=total.dtype, device=total.device), total], dim)
        return total

    return rule


def _sort(
    a: object,
    axis: int | None = -1,
    kind: object = None,
    order: object = None,
    *,
    stable: object = None,
    descending: object = None,
) -> Tensor:
    only("sort", "order", order, None)
    x, dim = flat(a, axis)
    if descending is True:  # descending is an option of NumPy 2.5; NaN comes last
        return ops.take_along_dim(x, new_tensor(array_module(x).argsort(x.array, dim, descending=True)), dim)
    if x.dtype.kind == "c":  # sort by the real parts, then by the imaginary parts
        return ops.take_along_dim(x, new_tensor(array_module(x).argsort(x.array, dim)), dim)
    return ops.sort(x, dim).values


def _sort_complex(a: object) -> Tensor:
    x = tensor(a)
    small = x.dtype.kind in "iu" and x.dtype.itemsize <= 2
    return _sort(x if x.dtype.kind == "c" else x.astype(np.complex64 if small else np.complex128))


def _partition(a: object, kth: object, axis: int | None = -1, kind: object = None, order: object = None) -> Tensor:
    only("partition", "order", order, None)
    x, dim = flat(a, axis)
    return ops.take_along_dim(x, new_tensor(array_module(x).argpartition(x.array, unwrapped(kth), dim)), dim)


def _diff(a: object, n: int = 1, axis: int = -1, prepend: object = None, append: object = None) -> Tensor:
    x, *ends = alike(a, *[end for end in (prepend, append) if end is not None])
    place = dimension(axis, x.ndim)
    one_slice = [1 if dim == place else length for dim, length in enumerate(x.shape)]
    ends = [end if end.ndim else ops.broadcast_to(end, one_slice) for end in ends]
    before, after = (ends.pop(0) if end is not None else None for end in (prepend, append))
    return ops.diff(x, n, axis, before, after)


def _gradient(f: object, *spacings: object, axis: object = None, edge_order: int = 1) -> Any:
    x, *given = map(floating, tensors(f, *spacings))
    axes = axes_of(x, axis)
    steps: list[Any] = [step if step.ndim == 0 else (step,) for step in given] or [1]
    if len(steps) == 1:
        steps = steps * len(axes)
    found = [
        ops.gradient(x, spacing=step, dim=place, edge_order=edge_order)[0]
        for step, place in zip(steps, axes, strict=True)
    ]
    if x.dtype.kind == "c" or not any(step.dtype.kind == "c" for step in given):
        found = [derivative.astype(x.dtype, copy=False) for derivative in found]  # np.gradient preserves the dtype of f
    return found[0] if len(found) == 1 else tuple(found)


def _ediff1d(ary: object, to_end: object = None, to_begin: object = None) -> Tensor:
    x = flat(ary, None)[0]
    ends = [[] if end is None else [flat(tensors(x, end)[1], None)[0]] for end in (to_begin, to_end)]
    return ops.cat([*ends[0], ops.diff(x), *ends[1]])


def _trapezoid(y: object, x: object = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    if x is None:
        return ops.trapezoid(floating(tensor(y)), dx=dx, dim=axis)
    values, places = map(floating, alike(y, x))
    return ops.trapezoid(values, places, dim=axis)


def _interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Tensor:
    x, xp, fp = doubles(x, xp, fp)
    if period is not None:
        if period == 0:
            raise ValueError("period must not be zero")
        x, xp, left, right = ops.remainder(x, abs(period)), ops.remainder(xp, abs(period)), None, None
        order = ops.argsort(xp.detach())
        xp, fp = xp[order], fp[order]
        xp = ops.cat([xp[-1:] - abs(period), xp, xp[:1] + abs(period)])
        fp = ops.cat([fp[-1:], fp, fp[:1]])
    place = ops.clamp(ops.searchsorted(xp.detach(), x.detach(), right=True), 1, len(xp) - 1)
    x0, x1, f0, f1 = xp[place - 1], xp[place], fp[place - 1], fp[place]
    weight = ops.clamp((x - x0) / (x1 - x0), 0, 1)
    y = f0 + weight * (f1 - f0)
    y = ops.where(x < xp[0], fp[0] if left is None else left, y)
    return ops.where(x > xp[-1], fp[-1] if right is None else right, y)


def convolve(a: object, v: object, mode: str = "full") -> Tensor:
    x, kernel = alike(a, v)
    if len(kernel) > len(x):
        x, kernel = kernel, x
    width = len(kernel)
    before = {"full": width - 1, "same": width // 2, "valid": 0}[mode]
    after = {"full": width - 1, "same": width - 1 - width // 2, "valid": 0}[mode]
    windows = functional.pad(x, [before, after]).unfold(0, width, 1)
    return ops.matmul(windows, ops.flip(kernel, (0,)))


def _correlate(a: object, v: object, mode: str = "valid") -> Tensor:
    x, kernel = alike(a, v)
    if len(kernel) > len(x):
        return ops.flip(ops.conj(_correlate(kernel, x, mode)), (0,))
    return convolve(x, ops.flip(ops.conj(kernel), (0,)), mode)


def _bincount(x: object, weights: object = None, minlength: int = 0) -> Tensor:
    places = tensor(x)
    counts = ops.bincount(places, minlength=minlength)
    if weights is None:
        return counts
    given = tensor(weights)
    if given.dtype.kind == "c":
        raise TypeError("np.bincount: weights must be real")
    given = in_double(given)
    zeros = ops.zeros(counts.shape, dtype=given.dtype, device=given.device)
    return ops.index_add(zeros, 0, places.astype(np.int64), given)


def _histogram(name: str) -> Callable[..., Any]:
    counted = without_derivative(getattr(np, name))

    def rule(*args: object, weights: object = None, **options: object) -> Any:
        if isinstance(weights, Tensor) and weights.requires_grad:
            raise TypeError(f"np.{name} on Tensors: weights that require grad are not supported; use np.bincount")
        return counted(*args, weights=weights, **options)

    return rule


def _unwrap(p: object, discont: float | None = None, axis: int = -1, *, period: float = 2 * np.pi) -> Tensor:
    x = tensor(p)
    smooth = array_module(x).unwrap(x.array, discont, axis, period=period)
    return x + new_tensor(smooth - x.array)


def _imag(val: object) -> Tensor:
    x = tensor(val)
    return ops.imag(x) if x.dtype.kind == "c" else apply1(ZEROS, x)


def _real_if_close(a: object, tol: float = 100) -> Tensor:
    x = tensor(a)
    if x.dtype.kind != "c":
        return x
    bound = tol * precision(x.array.dtype) if tol > 1 else tol
    return ops.real(x) if bool((abs(x.array.imag) < bound).all()) else x


def _clip(a: object, a_min: object = None, a_max: object = None, *, min: object = None, max: object = None) -> Tensor:
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    x, *bounds = alike(a, *[bound for bound in (low, high) if bound is not None])
    if x.dtype.kind == "c":
        extremes: list[tuple[object, Callable[..., Any]]] = [(low, np.maximum), (high, np.minimum)]
        for bound, extreme in extremes:
            x = x if bound is None else extreme(x, bounds.pop(0))
        return x
    return ops.clamp(x, *[None if bound is None else bounds.pop(0) for bound in (low, high)])


CBRT = unary("cbrt", np.cbrt, lambda g, ans: g / (3 * ans * ans), signals=True)


def _where_real(function: Callable[..., Any], low: float = 0, high: float = np.inf) -> Callable[..., Tensor]:
    """Define a function of ``np.emath``: all real numbers are converted to complex if one has no real result."""

    def rule(x: object) -> Tensor:
        y = tensor(x)
        if y.dtype.kind != "c" and bool(((y.array < low) | (y.array > high)).any()):
            y = y.astype(np.complex128 if y.dtype == np.float16 else np.promote_types(y.dtype, np.complex64))
        return function(y)

    return rule


_log = _where_real(np.log)


def _logn(n: object, x: object) -> Tensor:
    base, y = tensors(n, x)
    quotient: Any = np.divide(_log(y), _log(base))
    return quotient


def _as_numpy(base: Any, exponent: Any) -> Any:
    return np.power(base, exponent)


def _power(x: object, p: object) -> Tensor:
    base, exponent = tensors(x, p)
    if exponent.dtype.kind in "iu" and bool((exponent.array < 0).any()):
        exponent = floating(exponent)
    if base.dtype.kind in "biu" and not bool((base.array < 0).any()):
        return _as_numpy(base, exponent)
    return _where_real(lambda y: _as_numpy(y, exponent))(base)


def _heaviside(x1: object, x2: object) -> Tensor:
    x, at_zero = tensors(x1, x2)
    return ops.where(x == 0, at_zero, (ops.sign(x) + 1) / 2)


def _modf(x: Any) -> tuple[Tensor, Tensor]:
    y = floating(x)
    # The fractional part of an infinity is 0.
    return ops.where(ops.isinf(y), ops.copysign(ops.zeros_like(y), y.detach()), ops.frac(y)), ops.trunc(y)


def _is_complex(value: object) -> bool:
    array = value.array if isinstance(value, Tensor) else value
    return array.dtype.kind == "c" if hasattr(array, "dtype") else isinstance(array, complex)


def _extreme(name: str) -> Callable[..., Tensor]:
    """Define ``maximum`` etc. that also order complex numbers, as NumPy does: by real, then by imaginary parts."""
    ordered, numpys = getattr(ops, name), getattr(np, name)

    def rule(x1: object, x2: object) -> Tensor:
        if not (_is_complex(x1) or _is_complex(x2)):
            return ordered(x1, x2)
        x, y = alike(x1, x2)
        chosen = numpys(x.array, y.array)
        first = (chosen == x.array) | np.isnan(x.array) & np.isnan(chosen)
        return ops.where(new_tensor(array_module(x).asarray(first)), x, y)

    return rule


def _ldexp(x1: Any, x2: Any) -> Tensor:
    if isinstance(x2, float) or getattr(getattr(x2, "dtype", None), "kind", "i") not in "biu":
        raise TypeError("np.ldexp: the exponents must be integers")
    return ops.ldexp(x1, x2)


RINT = unary("rint", np.rint, zero_rule)

UFUNC_RULES: Rules = {
    "ldexp": _ldexp,
    "rint": lambda x: apply1(RINT, x) if x.array.dtype.kind == "c" else ops.round(x),
    **{name: _extreme(name) for name in ("maximum", "minimum", "fmax", "fmin")},
    "cbrt": lambda x: apply1(CBRT, x),
    "heaviside": _heaviside,
    "divmod": lambda x1, x2: (ops.floor_divide(x1, x2), ops.remainder(x1, x2)),
    "modf": _modf,
    **{
        name: without_derivative(getattr(np, name))
        for name in ("bitwise_count", "gcd", "isnat", "lcm", "nextafter", "spacing")
        if hasattr(np, name)
    },
}

_EMATH: Rules = {
    "log": _log,
    "logn": _logn,
    "power": _power,
    **{name: _where_real(getattr(np, name)) for name in ("sqrt", "log2", "log10")},
    **{name: _where_real(getattr(np, name), -1, 1) for name in ("arccos", "arcsin", "arctanh")},
}

RULES: Rules = {
    **{f"lib.scimath.{name}": rule for name, rule in _EMATH.items()},
    "cumulative_sum": _cumulative("cumsum", 0),
    "cumulative_prod": _cumulative("cumprod", 1),
    "sort_complex": _sort_complex,
    "partition": _partition,
    "correlate": _correlate,
    "bincount": _bincount,
    **{name: _histogram(name) for name in ("histogram", "histogram2d", "histogramdd", "histogram_bin_edges")},
    "unwrap": _unwrap,
    "real_if_close": _real_if_close,
    "cumsum": scan("cumsum"),
    "cumprod": scan("cumprod"),
    "sort": _sort,
    "diff": _diff,
    "ediff1d": _ediff1d,
    "gradient": _gradient,
    "trapezoid": _trapezoid,
    "interp": _interp,
    "convolve": convolve,
    "clip": _clip,
    "real": lambda val: ops.real(tensor(val)),
    "imag": _imag,
    "angle": lambda z, deg=False: ops.rad2deg(ops.angle(tensor(z))) if deg else ops.angle(tensor(z)),
    "round": lambda a, decimals=0: ops.round(tensor(a), decimals=decimals),
    "around": lambda a, decimals=0: ops.round(tensor(a), decimals=decimals),
    "fix": lambda x: ops.trunc(tensor(x)),
    "sinc": lambda x: ops.sinc(tensor(x)),
    "i0": lambda x: ops.i0(tensor(x)),
    "nan_to_num": lambda x, copy=True, nan=0.0, posinf=None, neginf=None: ops.nan_to_num(
        tensor(x), nan, posinf, neginf
    ),
}
