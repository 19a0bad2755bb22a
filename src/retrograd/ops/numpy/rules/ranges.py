"""NumPy's ranges (linspace, ...) with Tensors as ends."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...._generated import toplevel as ops
from ....core.arrays.devices import backend_of
from ....core.errors import InvalidValue
from ....core.tensor.tensor import Tensor, new_tensor
from ...table.arguments import integer
from ..arguments import Rules, alike, doubles, floating


def _ends(*values: object) -> tuple[Tensor, ...]:
    return ops.broadcast_tensors(*map(floating, alike(*values)))


def _fractions(like: Tensor, num: object, endpoint: bool) -> Tensor:
    """Return ``num`` numbers from 0 to 1 on a new first axis, without 1 if ``endpoint`` is False."""
    count = integer(num, "num")
    if count < 0:
        raise InvalidValue(f"num must not be negative, got {count}")
    places = np.arange(count) / max(1, count - 1 if endpoint else count)
    dtype = np.zeros(0, like.dtype).real.dtype
    return new_tensor(backend_of(like.array).asarray(places.reshape((-1,) + (1,) * like.ndim), dtype))


def _finished(y: Tensor, stop: Tensor, endpoint: bool, dtype: Any, axis: int) -> Tensor:
    """Set the last element to ``stop``, which rounding may miss, convert the dtype, and move the new axis."""
    if endpoint and len(y) > 1:
        y = ops.cat([y[:-1], ops.unsqueeze(stop, 0)])
    if dtype is not None:
        y = (ops.floor(y) if np.dtype(dtype).kind in "iu" else y).astype(dtype)
    return ops.movedim(y, 0, axis)


def _linspace(
    start: object, stop: object, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: object = None,
    axis: int = 0, *, device: object = None,
) -> Any:  # fmt: skip
    first, last = _ends(start, stop)
    y = _finished(first + _fractions(first, num, endpoint) * (last - first), last, endpoint, dtype, axis)
    steps = num - 1 if endpoint else num
    return (y, (last - first) / steps if steps else ops.full_like(first, np.nan)) if retstep else y


def _logspace(
    start: object,
    stop: object,
    num: int = 50,
    endpoint: bool = True,
    base: object = 10.0,
    dtype: object = None,
    axis: int = 0,
) -> Tensor:
    first, last, radix = _ends(start, stop, base)
    exponents = _linspace(first, last, num, endpoint)
    y = radix**exponents
    return _finished(y, y[-1] if num else last, endpoint, dtype, axis)


def _geomspace(
    start: object, stop: object, num: int = 50, endpoint: bool = True, dtype: object = None, axis: int = 0
) -> Tensor:
    first, last = ops.broadcast_tensors(*alike(*doubles(start, stop)))
    if bool((first.array == 0).any() or (last.array == 0).any()):
        raise InvalidValue("a geometric sequence cannot include zero")
    y = first * (last / first) ** _fractions(first, num, endpoint)
    return _finished(y, last, endpoint, dtype, axis)


RULES: Rules = {"linspace": _linspace, "logspace": _logspace, "geomspace": _geomspace}
