"""Records as a table for the terminal: the operators of each line of the program."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from typing import Any

from .record import Record
from .statistics import Statistics

_HEADINGS = (
    "operator", "module", "output", "min", "mean", "max", "", "grad min", "grad mean", "grad max", "", "kept",
    "forward", "backward",
)  # fmt: skip
_LEFT = 3  # the number of left-aligned columns
_WIDEST = (16, 22, 24)
_MODULE, _OUTPUT = 1, 2
_NARROWEST = ((_MODULE, 12), (_OUTPUT, 16))  # if the terminal is too narrow, first narrow these columns,
_DROPPED = (4, 8, 12, 11, 13, _MODULE, 3, 7)  # then drop these: means, times, kept, module, minima;
_LEAST = ((0, 12), (_OUTPUT, 10))  # before dropping the last two, narrow names and dtypes


def columns_of_terminal(otherwise: int) -> int:
    """Return the width of the terminal or the variable ``COLUMNS``; ``otherwise`` for a file or a pipe."""
    return max(40, shutil.get_terminal_size((otherwise, 24)).columns)


def cut(text: str, width: int) -> str:
    """Cut a line to ``width`` columns."""
    return text if len(text) <= width else text[: width - 1] + "…"


def table(records: Sequence[Record], width: int | None = None) -> str:
    """Return the table, at most as wide as the terminal; the last line names the columns left out."""
    if not records:
        return "no operator ran"
    width = columns_of_terminal(160)
    rows = [_row(record) for record in records]
    widths = [max(map(len, column)) for column in zip(_HEADINGS, *rows, strict=True)]
    widths = [min(width, limit) for width, limit in zip(widths, (*_WIDEST, *widths[_LEFT:]), strict=True)]
    shown = [column for column in range(len(_HEADINGS)) if column in (0, _OUTPUT) or any(row[column] for row in rows)]
    dropped = [column for column in _DROPPED if column in shown]
    gone: list[int] = []
    for least in (_NARROWEST, _LEAST):
        while _fit(widths, shown, width, least) > 0 and len(dropped) > 2 * (least is _NARROWEST):
            gone.append(dropped.pop(0))
            shown.remove(gone[-1])
    usual = ""
    if widths[_OUTPUT] < max(len(row[_OUTPUT]) for row in rows):
        usual = Counter(row[_OUTPUT].partition("(")[0] for row in rows).most_common(1)[0][0]
    lines = [_set(_HEADINGS, widths, shown)]
    place: Any = None
    for record, row in zip(records, rows, strict=True):
        # Compare file and line, not Site: a line with a generator expression has two functions, and so two Sites.
        if (record.file, record.line, record.phase) != place:
            place = record.file, record.line, record.phase
            walk = "backward of " if record.phase == "backward" else ""
            lines.append(cut(f"{walk}{record.site}  {record.code}".rstrip(), width))
        lines.append(_set((*row[:_OUTPUT], row[_OUTPUT].removeprefix(usual), *row[_OUTPUT + 1 :]), widths, shown))
        if record.error is not None:
            lines.append(f"    failed: {type(record.error).__name__}: {first_line(record.error)}")
    kept = size(sum(record.kept for record in records if not record.briefly)) + " kept"
    again = sum(record.kept for record in records if record.briefly)
    if again:
        kept += f", {size(again)} more during backward"
    forward, backward = sum(record.forward for record in records), sum(record.backward for record in records)
    count = "1 operator" if len(records) == 1 else f"{len(records)} operators"
    lines.append(f"{count}, {kept}, {duration(forward)} forward, {duration(backward)} backward")
    if gone or usual:
        names = [*([f"dtypes that are {usual}"] if usual else []), *[_HEADINGS[column] for column in sorted(gone)]]
        lines.append(cut(f"left out: {', '.join(names)}", width))
    return "\n".join(lines)


def _fit(widths: list[int], shown: Sequence[int], width: int, least: Sequence[tuple[int, int]]) -> int:
    """Narrow some columns; return by how much the table is still too wide."""
    over = 2 * len(shown) + sum(widths[column] for column in shown) - width
    for column, narrowest in least:
        if over > 0 and column in shown:
            given = max(0, min(over, widths[column] - narrowest))
            widths[column] -= given
            over -= given
    return over


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
    """Return ``float32(2, 3)``; for several outputs, the first one and the number of others."""
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


def _set(cells: Sequence[str], widths: Sequence[int], shown: Sequence[int]) -> str:
    texts = []
    for column in shown:
        cell, width = cells[column], widths[column]
        if len(cell) > width:  # the end of a path is more informative than its start
            cell = cut(cell, width) if column != _MODULE else "…" + cell[1 - width :]
        texts.append(cell.ljust(width) if column < _LEFT else cell.rjust(width))
    return "  " + "  ".join(texts).rstrip()


def number(x: float) -> str:
    """Return a number with three digits."""
    return f"{x:.3g}"


def percent(share: float) -> str:
    """Return a share as a percentage; only exactly 0 and 1 are printed as 0% and 100%."""
    if 0 < share < 0.005:
        return "<1%"
    return ">99%" if 0.995 <= share < 1 else f"{share:.0%}"


def size(count: float) -> str:
    """Return bytes with a unit."""
    for unit in ("B", "KiB", "MiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} GiB"


def duration(seconds: float) -> str:
    """Return seconds with a unit."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.1f} us"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's text."""
    return str(error).partition("\n")[0]
