"""Ranges of numbers, and the indices of triangles of a matrix."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, isfinite
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.arrays.dtypes import DType, complex_of
from ...core.arrays.fp_warnings import silenced, silent
from ...core.arrays.python_numbers import converted
from ...core.tensor.tensor import Tensor
from ..table.arguments import integer
from ..table.registry import operator
from ..table.types import DeviceLike, DTypeLike, Operand
from .creation import create, dtype_or_default, python_number, shape_of


@operator(method=False, differentiable=False, args="dtype as above, start number")
def arange(
    start: Operand | None = None,
    end: Operand | None = None,
    step: Operand = 1,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    **keywords: Operand,
) -> Tensor:
    """``start, start + step, ...`` below ``end``; ``arange(end)`` starts at 0.

    Shape: (n) with ``n = ceil((end - start) / step)``.
    Dtype: int64 for integers, else the default dtype.

    Args:
        end: the upper bound, which is excluded; also under NumPy's name ``stop``.
        step: the difference between consecutive numbers; may be negative.

    Raises:
        RuntimeError: ``step`` is zero or leads away from ``end``, or a bound is not finite.

    >>> rg.arange(3), rg.arange(1, 2, 0.5)
    (tensor([0, 1, 2]), tensor([1. , 1.5]))
    """
    if keywords:  # ``stop``, NumPy's name for ``end``
        if set(keywords) != {"stop"} or end is not None:
            raise TypeError(f"got unexpected keyword arguments {', '.join(keywords)}")
        end = keywords["stop"]
    if start is None and end is None:
        raise TypeError("missing argument 'end'")
    if start is None or end is None:
        start, end = 0, start if end is None else end
    first, last, distance = _real(start, "start"), _real(end, "end"), _real(step, "step")
    whole = isinstance(first, int) and isinstance(last, int) and isinstance(distance, int)
    kind = np.dtype(np.int64) if dtype is None and whole else dtype_or_default(dtype)
    integral = kind.kind in "iu"
    if not (int(distance) if integral else distance):
        raise RuntimeError("step must be nonzero")
    if not whole and not (isfinite(first) and isfinite(last)):
        raise RuntimeError(f"unsupported range {first} -> {last}")
    if (last - first) * distance < 0:
        raise RuntimeError(f"bounds {first}, {last} are inconsistent with the sign of step {distance}")
    count = int(-(-(last - first) // distance)) if whole else ceil((last - first) / distance)
    if integral and not whole:  # as in PyTorch, truncate; the count is recomputed only for int64
        first, last, distance = int(first), int(last), int(distance)
        count = -(-(last - first) // distance) if kind == np.int64 else count

    def make(xp: Any) -> Array:
        if integral and whole:
            return xp.arange(first, last, distance, np.int64).astype(kind, copy=False)
        if integral:
            return (xp.arange(count, dtype=np.int64) * distance + first).astype(kind, copy=False)
        return (xp.arange(count, dtype=np.float64) * distance + first).astype(kind)

    return create(make, device, requires_grad, True)


def _real(value: Operand | None, argument: str) -> float:
    found = python_number(value, argument)
    if isinstance(found, complex):
        raise TypeError(f"argument {argument!r} must be a real number, not {found}")
    return found


@operator(method=False, differentiable=False, args="start number")
def linspace(
    start: Operand,
    end: Operand,
    steps: int,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``start + i * (end - start) / (steps - 1)`` for i below ``steps``: evenly spaced, both ends included.

    Shape: (steps).
    Dtype: any but bool, by default the default dtype, or the complex one for complex ends.

    Args:
        end: the last number.
        steps: the number of numbers.

    Raises:
        RuntimeError: ``steps`` is negative, or an end is beyond the dtype's range, or complex where the dtype is real.
        NotImplementedError: the dtype is bool.

    >>> rg.linspace(0, 1, 5)
    tensor([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    (count,) = shape_of((integer(steps, "steps"),))
    first, last, kind = _ends(start, end, dtype)
    return create(lambda xp: _spaced(xp, first, last, count).astype(kind), device, requires_grad, True)


def _ends(start: Operand, end: Operand, dtype: DTypeLike | None) -> tuple[complex, complex, DType]:
    first, last = python_number(start, "start"), python_number(end, "end")
    complex_ends = isinstance(first, complex) or isinstance(last, complex)
    kind = dtype_or_default(dtype)
    if complex_ends and dtype is None:
        kind = complex_of(kind)
    if kind.kind == "b":
        raise NotImplementedError("is not defined for bools")
    if complex_ends and kind.kind != "c":
        raise RuntimeError(f"complex ends need a complex dtype, got {first}, {last} and {kind}")
    return converted(first, kind), converted(last, kind), kind


def _spaced(xp: Any, first: complex, last: complex, count: int) -> Array:
    """Return evenly spaced numbers in double precision; each half is computed from its own end."""
    if count < 2:
        return xp.full(count, first)
    number = xp.arange(count, dtype=np.float64)
    step = (last - first) / (count - 1)
    with silent():
        return xp.where(number < count // 2, first + step * number, last - step * (count - 1 - number))


@operator(method=False, differentiable=False, like=linspace)
def logspace(
    start: Operand,
    end: Operand,
    steps: int,
    base: float = 10.0,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``base^x`` for the x of ``linspace(start, end, steps)``.

    Args:
        start: the first exponent.
        end: the last exponent.
        base: the base of the powers.

    >>> rg.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    (count,) = shape_of((integer(steps, "steps"),))
    first, last, kind = _ends(start, end, dtype)
    return create(
        lambda xp: silenced(_power, float(base), _spaced(xp, first, last, count), kind), device, requires_grad
    )


def _power(base: float, exponents: Array, kind: DType) -> Array:
    """Return powers of ``base``; out-of-range integers wrap around."""
    powers = base**exponents
    if kind.kind in "iu":
        powers = powers.astype(np.int64)
    return powers.astype(kind)


def _index_grid(
    row: int,
    col: int,
    offset: int,
    keep: Callable[[Any, Any], object],
    dtype: DTypeLike | None,
    device: DeviceLike | None,
) -> Tensor:
    shape_of((integer(row, "row"), integer(col, "col")))
    offset = integer(offset, "offset")

    def make(xp: Any) -> Array:
        kept = keep(xp.arange(col).reshape(1, -1), xp.arange(row).reshape(-1, 1) + offset)
        return xp.stack(xp.nonzero(kept)).astype(np.int64 if dtype is None else np.dtype(dtype))

    return create(make, device)


@operator(method=False, differentiable=False, raises="length", dtype="default int64", args="dtype int64")
def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor:
    """``(i, j)`` with ``j - i <= offset``: the indices of the elements on and below a diagonal of a matrix, row by row.

    Shape: (2, n): the row indices and the column indices.

    Args:
        row: the number of rows of the matrix.
        col: the number of its columns.

    >>> rg.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    return _index_grid(row, col, offset, lambda columns, rows: columns <= rows, dtype, device)


@operator(method=False, differentiable=False, like=tril_indices)
def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None
) -> Tensor:
    """``(i, j)`` with ``j - i >= offset``: the indices of the elements on and above a diagonal of a matrix, row by row.

    >>> rg.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    return _index_grid(row, col, offset, lambda columns, rows: columns >= rows, dtype, device)
