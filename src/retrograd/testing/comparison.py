"""Compare results and Jacobians by relative error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..autograd.numerical import as_real
from ..core.arrays import Array
from ..core.arrays.devices import backend_of
from ..core.arrays.dtypes import INEXACT
from ..core.errors import describe
from ..core.tensor.tensor import Tensor


def relative_errors(analytic: Array, numerical: Array, scale: float) -> Array:
    """Return ``|a - n|`` elementwise, relative to the larger of the two.

    Elements smaller than 1e-3 of the largest element, or of ``scale``, are compared relative to that bound. ``scale``
    is the magnitude of the function's values, whose rounding errors appear in the differences.
    """
    a, n = np.abs(analytic), np.abs(numerical)
    floor = 1e-3 * max(float(n.max(initial=0.0)), scale, 1e-300)
    with np.errstate(invalid="ignore"):
        errors = np.abs(analytic - numerical) / np.maximum(np.maximum(a, n), floor)
    same = (np.isnan(analytic) & np.isnan(numerical)) | (analytic == numerical)
    return np.where(same, 0.0, np.where(np.isnan(errors), np.inf, errors))


def assert_close(got: Any, wanted: Any, tolerance: float, what: str, scale: float = 0.0) -> float:
    """Assert equal shapes and close values, and return the largest relative error.

    Errors are relative to the expected element, or to 1e-3 of the largest one, or of ``scale``, if that is larger.
    """
    got, wanted = to_numpy(got), to_numpy(wanted)
    assert got.shape == wanted.shape, f"{what}: got shape {got.shape}, expected {wanted.shape}"
    if got.dtype.kind not in INEXACT and wanted.dtype.kind not in "fc":
        assert np.array_equal(got, wanted), f"{what}: got {got.tolist()}, expected {wanted.tolist()}"
        return 0.0
    a, n = as_real_like(got, wanted), as_real_like(wanted, got)
    finite = np.abs(n[np.isfinite(n)])
    floor = max(1e-3 * float(finite.max(initial=scale)), 1e-300)
    with np.errstate(invalid="ignore"):
        errors = np.abs(a - n) / np.maximum(np.abs(n), floor)
    same = (np.isnan(a) & np.isnan(n)) | (a == n)
    errors = np.where(same, 0.0, np.where(np.isnan(errors), np.inf, errors))
    worst = int(errors.argmax()) if errors.size else 0
    error = float(errors[worst]) if errors.size else 0.0
    if error > tolerance:
        where = np.unravel_index(worst // (a.size // got.size), got.shape)
        raise AssertionError(
            f"{what}: at {list(map(int, where))} got {a[worst]:.12g}, expected {n[worst]:.12g} "
            f"(relative error {error:.2e}, allowed {tolerance:.0e})"
        )
    return error


def as_real_like(array: Any, other: Any) -> np.ndarray:
    return as_real(array.astype(np.complex128) if "c" in (array.dtype.kind, other.dtype.kind) else array)


def to_numpy(value: Any) -> np.ndarray:
    if isinstance(value, Tensor):
        value = value.array
    if hasattr(value, "detach"):
        value = value.numpy(force=True)
    return np.asarray(value if isinstance(value, (bool, int, float, complex)) else backend_of(value).to_numpy(value))


def numbers(result: object) -> list[Any]:
    """Return the Tensors, arrays and numbers of a result."""
    if isinstance(result, (tuple, list)):
        return [item for value in result for item in numbers(value)]
    if isinstance(result, (str, np.dtype)) or result is None:
        return []
    return [result] if hasattr(result, "dtype") or isinstance(result, (bool, int, float, complex)) else []


def scale_of(outputs: Sequence[Tensor]) -> float:
    """Return the largest finite magnitude among the outputs."""
    largest = 0.0
    for output in outputs:
        values = np.abs(as_real(output.array))
        largest = max(largest, float(values[np.isfinite(values)].max(initial=0.0)))
    return largest


def assert_near(got: object, wanted: object, tolerance: float, what: str) -> None:
    """Assert that finite values differ by at most ``tolerance`` times the largest one (at least 1)."""
    a, n = as_real(to_numpy(got)), as_real(to_numpy(wanted))
    assert a.shape == n.shape, f"{what}: got {describe(got)}, expected {describe(wanted)}"
    both = np.isfinite(a) & np.isfinite(n)
    assert np.array_equal(np.isnan(a), np.isnan(n)), f"{what}: got {a}, expected {n}"
    allowed = tolerance * max(1.0, float(np.abs(n[both]).max(initial=0.0)))
    difference = float(np.abs(a[both] - n[both]).max(initial=0.0))
    assert difference <= allowed, f"{what}: differs by {difference:.3g}, allowed {allowed:.3g}"
