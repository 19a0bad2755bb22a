"""Mathematical functions of NumPy that are no ufuncs: scans, differences, integrals, interpolation, rounding."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

from ..._generated import functional
from ..._generated import toplevel as ops
from ...core.devices import array_module
from ...core.tensor import Tensor, new_tensor
from ..table.arguments import dimension
from .arguments import Rules, alike, axes_of, flat, floating, only, tensor, tensors


def _scan(name: str) -> Callable[..., Tensor]:
    def rule(a: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
        x, dim = flat(a, axis)
        return getattr(ops, name)(x, dim, dtype=dtype)

    return rule


def _sort(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Tensor:
    only("sort", "order", order, None)
    return ops.sort(*flat(a, axis)).values


def _diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    x, *ends = tensors(a, *[end for end in (prepend, append) if end is not None])
    place = dimension(axis, x.ndim)
    one_slice = [1 if dim == place else length for dim, length in enumerate(x.shape)]
    ends = [end if end.ndim else ops.broadcast_to(end, one_slice) for end in ends]
    before, after = (ends.pop(0) if end is not None else None for end in (prepend, append))
    return ops.diff(x, n, axis, before, after)


def _gradient(f: Any, *spacings: Any, axis: Any = None, edge_order: int = 1) -> Any:
    x, *given = map(floating, tensors(f, *spacings))
    axes = axes_of(x, axis)
    steps: list[Any] = [step if step.ndim == 0 else (step,) for step in given] or [1]
    if len(steps) == 1:
        steps = steps * len(axes)
    found = [
        ops.gradient(x, spacing=step, dim=place, edge_order=edge_order)[0]
        for step, place in zip(steps, axes, strict=True)
    ]
    return found[0] if len(found) == 1 else tuple(found)


def _trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Tensor:
    if x is None:
        return ops.trapezoid(floating(tensor(y)), dx=dx, dim=axis)
    values, places = map(floating, tensors(y, x))
    return ops.trapezoid(values, places, dim=axis)


def _interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: None = None) -> Tensor:
    only("interp", "period", period, None)
    x, xp, fp = map(floating, tensors(x, xp, fp))
    module = array_module(xp)
    place = module.clip(module.searchsorted(xp.array, x.array, side="right"), 1, len(xp) - 1)
    x0, x1, f0, f1 = xp[place - 1], xp[place], fp[place - 1], fp[place]
    weight = ops.clamp((x - x0) / (x1 - x0), 0, 1)
    y = f0 + weight * (f1 - f0)
    y = ops.where(new_tensor(module.asarray(x.array < xp.array[0])), fp[0] if left is None else left, y)
    return ops.where(new_tensor(module.asarray(x.array > xp.array[-1])), fp[-1] if right is None else right, y)


def _convolve(a: Any, v: Any, mode: str = "full") -> Tensor:
    x, kernel = alike(a, v)
    if len(kernel) > len(x):
        x, kernel = kernel, x
    width = len(kernel)
    before = {"full": width - 1, "same": width // 2, "valid": 0}[mode]
    after = {"full": width - 1, "same": width - 1 - width // 2, "valid": 0}[mode]
    windows = functional.pad(x, [before, after]).unfold(0, width, 1)
    return ops.matmul(windows, ops.flip(kernel, (0,)))


def _polyval(p: Any, x: Any) -> Tensor:
    """By Horner's scheme."""
    coefficients, y = tensors(p, x)
    return reduce(lambda total, coefficient: total * y + coefficient, coefficients, ops.zeros_like(y))


def _clip(a: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Tensor:
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    x, *bounds = tensors(a, *[bound for bound in (low, high) if bound is not None])
    return ops.clamp(x, *[None if bound is None else bounds.pop(0) for bound in (low, high)])


RULES: Rules = {
    "cumsum": _scan("cumsum"),
    "cumprod": _scan("cumprod"),
    "sort": _sort,
    "diff": _diff,
    "ediff1d": lambda ary: ops.diff(flat(ary, None)[0]),
    "gradient": _gradient,
    "trapezoid": _trapezoid,
    "interp": _interp,
    "convolve": _convolve,
    "polyval": _polyval,
    "clip": _clip,
    "real": lambda val: ops.real(tensor(val)),
    "imag": lambda val: ops.imag(tensor(val)),
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
