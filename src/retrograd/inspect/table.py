"""Records as a table for the terminal: under each line of the program, with its text, the operators that it ran."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .record import Record
from .statistics import Statistics

_HEADINGS = (
    "operator", "module", "output", "min", "mean", "max", "", "grad min", "mean", "max", "", "kept", "forward",
    "backward",
)  # fmt: skip
_COLUMNS = 158
_LEFT = 3  # so many columns are set to the left
_WIDEST = (16, 22, 24)


def table(records: Sequence[Record]) -> str:
    """The table, of at most 160 columns."""
    if not records:
        return "no operator ran"
    rows = [_row(record) for record in records]
    widths = [max(map(len, column)) for column in zip(_HEADINGS, *rows, strict=True)]
    widths = [min(width, limit) for width, limit in zip(widths, (*_WIDEST, *widths[_LEFT:]), strict=True)]
    for column, least in ((1, 12), (2, 16)):  # modules and outputs give way to figures
        over = sum(widths) + 2 * len(widths) - _COLUMNS
        widths[column] -= max(0, min(over, widths[column] - least))
    lines = ["  " + _set(_HEADINGS, widths)]
    place: Any = None
    for record, row in zip(records, rows, strict=True):
        # No Site: a line with a generator in it has two functions, and so two Sites.
        if (record.file, record.line, record.phase) != place:
            place = record.file, record.line, record.phase
            walk = "in the walk from " if record.phase == "backward" else ""
            lines.append(f"{walk}{record.site}  {record.code}".rstrip())
        lines.append("  " + _set(row, widths))
        if record.error is not None:
            lines.append(f"    failed: {type(record.error).__name__}: {first_line(record.error)}")
    kept = size(sum(record.kept for record in records if not record.briefly)) + " kept"
    again = sum(record.kept for record in records if record.briefly)
    if again:
        kept += f", {size(again)} more within the walk"
    forward, backward = sum(record.forward for record in records), sum(record.backward for record in records)
    lines.append(f"{len(records)} operators, {kept}, {duration(forward)} forward, {duration(backward)} backward")
    return "\n".join(lines)


def _row(record: Record) -> tuple[str, ...]:
    name = record.label if record.within is None else f"  {record.label}"
    return (
        name,
        record.module,
        output_of(record),
        *_figures(record.values),
        *_figures(record.gradients),
        size(record.kept) if record.kept else "",
        duration(record.forward),
        duration(record.backward) if record.walked is not None else "",
    )


def output_of(record: Record) -> str:
    """``float32(2, 3)``, of several outputs the first and how many more there are."""
    if record.error is not None:
        return ""
    if isinstance(record.dtype, tuple):
        return f"{record.dtype[0]}{_shape(record.shape[0])} +{len(record.dtype) - 1}"
    return f"{record.dtype}{_shape(record.shape)}"


def _shape(shape: tuple[int, ...]) -> str:
    return "(" + ", ".join(map(str, shape)) + ")"


def _figures(statistics: Statistics | None) -> tuple[str, ...]:
    if statistics is None or not statistics.size:
        return "", "", "", ""
    figures = [number(x) for x in (statistics.minimum, statistics.mean, statistics.maximum)]
    return (*figures, _remarkable(statistics))


def _remarkable(statistics: Statistics) -> str:
    if statistics.nans:
        return f"{round(statistics.nans * statistics.size)} NaN"
    if statistics.infinities:
        return f"{round(statistics.infinities * statistics.size)} inf"
    return percent(statistics.zeros) + " 0" if statistics.zeros else ""


def _set(cells: Iterable[str], widths: Sequence[int]) -> str:
    shown = []
    for index, (cell, width) in enumerate(zip(cells, widths, strict=True)):
        if len(cell) > width:  # the end of a path tells more than its beginning
            cell = cell[: width - 1] + "…" if index != 1 else "…" + cell[1 - width :]
        shown.append(cell.ljust(width) if index < _LEFT else cell.rjust(width))
    return "  ".join(shown).rstrip()


def number(x: float) -> str:
    """Three digits."""
    return f"{x:.3g}"


def percent(share: float) -> str:
    """A share as a percentage, none of which is 0% or 100% that is not quite."""
    if 0 < share < 0.005:
        return "<1%"
    return ">99%" if 0.995 <= share < 1 else f"{share:.0%}"


def size(count: float) -> str:
    """Bytes with a unit."""
    for unit in ("B", "KiB", "MiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} GiB"


def duration(seconds: float) -> str:
    """Seconds with a unit."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} us"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


def first_line(error: BaseException) -> str:
    """The first line of what an exception says."""
    return str(error).partition("\n")[0]
