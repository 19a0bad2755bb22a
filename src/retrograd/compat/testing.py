"""``testing``: comparison of Tensors with PyTorch's tolerances."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.arrays.dtypes import promote_types
from ..core.tensor.tensor import Tensor, new_tensor, to_array

# Relative and absolute tolerance per dtype; exact for all others.
_TOLERANCES = {"float16": (1e-3, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7), "complex64": (1.3e-6, 1e-5),
               "complex128": (1e-7, 1e-7)}  # fmt: skip


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise AssertionError unless ``|actual - expected| <= atol + rtol * |expected|``, in nests of Tensors and numbers.

    The tolerances depend on the dtype (float32: 1.3e-6 and 1e-5) where none are given; both must be given or none.

    >>> import retrograd as rg
    >>> rg.testing.assert_close(rg.tensor([1.0, 2.0]), rg.tensor([1.0, 2.000001]))
    """
    if (rtol is None) != (atol is None):
        raise ValueError("assert_close: rtol and atol must both be specified or both be left out")
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        if actual.keys() != expected.keys():
            raise AssertionError(f"The keys differ: {sorted(actual, key=str)} and {sorted(expected, key=str)}")
        pairs = [(f"[{key!r}]", actual[key], expected[key]) for key in expected]
    elif _is_sequence(expected) and _is_sequence(actual):
        if len(actual) != len(expected):
            raise AssertionError(f"The lengths differ: {len(actual)} and {len(expected)}")
        pairs = [(f"[{index}]", mine, its) for index, (mine, its) in enumerate(zip(actual, expected, strict=True))]
    else:
        pairs = [("", actual, expected)]
    if len(pairs) == 1 and pairs[0][0] == "":
        problem = _problem(actual, expected, rtol, atol, equal_nan, check_device, check_dtype, check_stride)
        if problem:
            raise AssertionError(msg(problem) if callable(msg) else msg or problem)
        return
    for place, mine, its in pairs:
        try:
            assert_close(
                mine, its, rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=check_device,
                check_dtype=check_dtype, check_stride=check_stride, msg=msg,
            )  # fmt: skip
        except AssertionError as error:
            raise AssertionError(f"{error}\nThe failure occurred for item {place}") from None


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _tensor(value: Any) -> Tensor:
    return value.detach() if isinstance(value, Tensor) else new_tensor(to_array(value, copy=False))


def _problem(
    actual: Any,
    expected: Any,
    rtol: float | None,
    atol: float | None,
    equal_nan: bool,
    check_device: bool,
    check_dtype: bool,
    check_stride: bool,
) -> str:
    """What keeps two values from being close; empty where nothing does."""
    x, y = _tensor(actual), _tensor(expected)
    if x.shape != y.shape:
        return f"The values for attribute 'shape' do not match: {x.shape} != {y.shape}."
    if check_device and x.device != y.device:
        return f"The values for attribute 'device' do not match: {x.device} != {y.device}."
    if check_dtype and x.dtype != y.dtype:
        return f"The values for attribute 'dtype' do not match: {x.dtype} != {y.dtype}."
    if check_stride and x.stride() != y.stride():
        return f"The values for attribute 'stride()' do not match: {x.stride()} != {y.stride()}."
    if rtol is None or atol is None:
        pairs = [_TOLERANCES.get(str(z.dtype), (0.0, 0.0)) for z in (x, y)]
        rtol, atol = max(pair[0] for pair in pairs), max(pair[1] for pair in pairs)
    common = promote_types(x.dtype, y.dtype)
    a, b = x.cpu().array.astype(common), y.cpu().array.astype(common)
    wide = a.dtype if a.dtype.kind == "c" else np.dtype(np.float64)
    with np.errstate(all="ignore"):
        difference = np.abs(a.astype(wide) - b.astype(wide))
        near = (a == b) | (difference <= atol + rtol * np.abs(b.astype(wide)))
    if equal_nan:
        near |= np.isnan(a) & np.isnan(b)
    if near.all():
        return ""
    worst = np.unravel_index(np.argmax(np.where(near, -1.0, np.nan_to_num(difference, nan=np.inf))), near.shape)
    where = f" at index {tuple(int(place) for place in worst)}" if near.ndim else ""
    return (
        f"Tensor-likes are not close!\n\nMismatched elements: {int((~near).sum())} / {near.size}\n"
        f"Greatest absolute difference: {float(difference[worst])}{where} (up to {atol} allowed, rtol {rtol})"
    )


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """``assert_close`` for values of any dtype, in its older form."""
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None)


__all__ = ["assert_allclose", "assert_close"]
