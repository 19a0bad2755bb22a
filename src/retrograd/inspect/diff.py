"""Compare two traces: find the first operator at which they differ."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any

import numpy as np

from ..core.arrays.devices import backend_of
from ..core.arrays.dtypes import FLOATING
from .record import Record
from .statistics import sample_step
from .table import first_line, output_of

# rtol and atol as in testing.assert_close, by the character of a dtype; E is bfloat16.
_TOLERANCES = {"E": (1.6e-2, 1e-5), "e": (1e-3, 1e-5)}
_TOLERANCES |= dict.fromkeys("fF", (1.3e-6, 1e-5)) | dict.fromkeys("dD", (1e-7, 1e-7))


class Difference:
    """The first difference of two runs; false if there is none.

    Attributes:
        first, second: the operator's ``Record`` in each run, None in a run without it.
        what: ``"operator"``, ``"shape"``, ``"dtype"``, ``"values"``, ``"gradients"``, ``"error"``, or "" if there is
            none.
        index: the index of the first element that differs, for values and gradients.
        values: the two elements at this index.
    """

    def __init__(
        self,
        what: str = "",
        first: Record | None = None,
        second: Record | None = None,
        text: str = "no difference",
        index: tuple[int, ...] | None = None,
        values: tuple[object, object] | None = None,
    ) -> None:
        self.what = what
        self.first = first
        self.second = second
        self.index = index
        self.values = values
        self._text = text

    def __bool__(self) -> bool:
        return bool(self.what)

    def __str__(self) -> str:
        return self._text

    __repr__ = __str__


def compare(
    first: list[Record], second: list[Record], rtol: float | None, atol: float | None, ignore_dtype: bool
) -> Difference:
    """Return the first difference among the operators that both runs have, forward and then backward.

    If there is none, return the first operator that only one run has.
    """
    pairs = list(_aligned(first, second))
    together = [(a, b) for a, b in pairs if a is not None and b is not None]
    for a, b in together:
        found = _forward_difference(a, b, rtol, atol, ignore_dtype)
        if found:
            return _with_context(found, pairs)
    walked = [(a, b) for a, b in together if a.walked is not None or b.walked is not None]
    for a, b in sorted(walked, key=lambda pair: (pair[0].walked is None, pair[0].walked or 0)):
        found = _gradient_difference(a, b, rtol, atol)
        if found:
            return _with_context(found, pairs)
    alone = next((pair for pair in pairs if None in pair), None)
    return Difference() if alone is None else _alone(*alone, pairs)


def _aligned(first: list[Record], second: list[Record]) -> Iterator[tuple[Record | None, Record | None]]:
    """Yield the records of the same operators in both runs, with None for an operator that one run does not have."""
    keys = [[(record.operator, record.phase) for record in records] for records in (first, second)]
    start = 0
    while start < min(len(first), len(second)) and keys[0][start] == keys[1][start]:
        yield first[start], second[start]
        start += 1
    if start == len(first) == len(second):
        return
    matcher = SequenceMatcher(None, keys[0][start:], keys[1][start:], autojunk=False)
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        ones, others = first[start + i1 : start + i2], second[start + j1 : start + j2]
        if tag == "equal":
            yield from zip(ones, others, strict=True)
        else:
            yield from ((a, None) for a in ones)
            yield from ((None, b) for b in others)


def _forward_difference(
    a: Record, b: Record, rtol: float | None, atol: float | None, ignore_dtype: bool
) -> Difference | None:
    if (a.error is None) != (b.error is None):
        failed = "first" if a.error is not None else "second"
        error = a.error if a.error is not None else b.error
        assert error is not None
        return _difference("error", a, b, f"it failed only in the {failed} run: {first_line(error)}")
    what = "shape" if a.shape != b.shape else "dtype" if a.dtype != b.dtype and not ignore_dtype else None
    if what is not None:
        return _difference(what, a, b, f"its output is {output_of(a)} in the first run, {output_of(b)} in the second")
    return _compared("values", a, b, rtol, atol)


def _gradient_difference(a: Record, b: Record, rtol: float | None, atol: float | None) -> Difference | None:
    if a.gradients is None or b.gradients is None:
        if a.gradients is b.gradients:
            return None
        only = "first" if b.gradients is None else "second"
        return _difference("gradients", a, b, f"a gradient reached it only in the {only} run")
    return _compared("gradients", a, b, rtol, atol)


def _compared(what: str, a: Record, b: Record, rtol: float | None, atol: float | None) -> Difference | None:
    x, y = _elements(what, a), _elements(what, b)
    if x is None or y is None:
        return None
    whole = x.size == y.size and _size(what, a) == x.size
    relative, absolute = _tolerance(x, y) if rtol is None and atol is None else (rtol or 0.0, atol or 0.0)
    with np.errstate(all="ignore"):
        wide = np.complex128 if "c" in (x.dtype.kind, y.dtype.kind) else np.float64
        same = np.isclose(x.astype(wide), y.astype(wide), relative, absolute, equal_nan=True)
    if bool(same.all()):
        return None
    places = np.flatnonzero(~same)
    shape = a.shape[0] if isinstance(a.dtype, tuple) else a.shape
    place = int(places[0]) * (1 if whole else sample_step(_size(what, a)))
    index = tuple(map(int, np.unravel_index(place, shape)))
    values = x[places[0]].item(), y[places[0]].item()
    count = f"{places.size} of {same.size}" + ("" if whole else " sampled elements")
    with np.errstate(all="ignore"):
        largest = float(np.max(np.abs(x.astype(wide)[places] - y.astype(wide)[places])))
    one, two = [_shown(z[places[0]]) for z in (x, y)]
    text = (
        f"{count} {'' if what == 'values' else 'of its gradient '}differ: at {index} it is {one} in the first run, "
        f"{two} in the second; the largest difference is {largest:.3g}"
    )
    found = _difference(what, a, b, text)
    found.index, found.values = index, values
    return found


def _elements(what: str, record: Record) -> np.ndarray | None:
    kept = record.value if what == "values" else record.gradient
    if kept is not None:
        return backend_of(kept).to_numpy(kept).reshape(-1)
    return record.samples[what == "gradients"]


def _size(what: str, record: Record) -> int:
    statistics = record.values if what == "values" else record.gradients
    return 0 if statistics is None else statistics.size


def _tolerance(x: Any, y: Any) -> tuple[float, float]:
    return max([_TOLERANCES.get(z.dtype.char, (0.0, 0.0)) for z in (x, y)])


def _shown(value: Any) -> str:
    short = value.dtype.kind in FLOATING and 1e-4 <= abs(value) < 1e6
    return np.format_float_positional(value) if short else str(value)


def _difference(what: str, a: Record, b: Record, text: str) -> Difference:
    return Difference(what, a, b, f"the runs differ at {_where(a)}:\n  {text}")


def _where(record: Record) -> str:
    module = f" in {record.module}" if record.module else ""
    code = f" `{record.code}`" if record.code else ""
    return f"{record.operator} (operator {record.index}) at {record.site}{module}{code}"


def _alone(a: Record | None, b: Record | None, pairs: list[Any]) -> Difference:
    record = a if a is not None else b
    assert record is not None
    run = "first" if a is not None else "second"
    more = sum((x is None) != (y is None) for x, y in pairs)
    rest = f"; {more} operators are in only one run" if more > 1 else ""
    text = f"only the {run} run has {_where(record)}{rest}; the results of common operators agree"
    return Difference("operator", a, b, text)


def _with_context(found: Difference, pairs: list[tuple[Record | None, Record | None]]) -> Difference:
    """Add the second run's line if it differs, and the first operator before it that only one run has."""
    a, b = found.first, found.second
    assert a is not None and b is not None
    if str(a.site) != str(b.site):
        found._text += f"\n  in the second run: {b.site}  {b.code}".rstrip()
    for x, y in pairs:
        if x is a:
            break
        if x is None or y is None:
            record = x if x is not None else y
            assert record is not None
            found._text += f"\n  before that, only the {'first' if y is None else 'second'} run has {_where(record)}"
            break
    return found
