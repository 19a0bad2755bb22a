"""The program's files with the time and memory of each line; shares are of the whole time."""

from __future__ import annotations

import linecache
from textwrap import wrap

from ..table import columns_of_terminal, cut, duration, percent, size
from .profiler import Profiled

_AROUND = 2
_PARTS = 12
_MARGIN = 60  # columns of figures next to a line's text


def listing(p: Profiled) -> str:
    """Return the listing of all files, and what the peak of memory consisted of."""
    if not p.records and not p.outside:
        return "no operator ran"
    width = columns_of_terminal(_MARGIN + 96)
    times = f"{duration(p.forward)} forward, {duration(p.backward)} backward, {duration(p.other)} outside of operators"
    counts = f"{len(p.records)} operators, {size(p.kept)} kept"
    lines = wrap(f"{duration(p.wall)}: {times}; {counts}", width, subsequent_indent="  ")
    spent: dict[str, dict[int, list[float]]] = {}
    for record in p.records:
        figures = spent.setdefault(record.file, {}).setdefault(record.line, [0.0, 0.0, 0.0, 0.0])
        figures[0] += record.forward
        figures[1] += record.backward
        figures[3] += 0 if record.briefly else record.kept
    for stack, seconds in p.outside.items():
        if stack:
            spent.setdefault(stack[-1].file, {}).setdefault(stack[-1].line, [0.0, 0.0, 0.0, 0.0])[2] += seconds
    for file, of_lines in sorted(spent.items(), key=lambda item: -sum(sum(x[:3]) for x in item[1].values())):
        lines += ["", file, f"{'forward':>10}  {'backward':>10}  {'other':>10}  {'kept':>9}  {'share':>5}"]
        lines += _file(file, of_lines, p.wall, width)
    return "\n".join([*lines, "", *[cut(line, width) for line in _peak(p)]])


def _file(file: str, of_lines: dict[int, list[float]], whole: float, width: int) -> list[str]:
    lines, last = [], 0
    count = len(linecache.getlines(file))
    wanted = sorted({n for line in of_lines for n in range(line - _AROUND, line + _AROUND + 1)})
    for number in wanted:
        if number not in of_lines and not 1 <= number <= count:
            continue
        if last and number > last + 1:
            lines.append(f"{'':>54}...")
        last = number
        code = cut(linecache.getline(file, number).rstrip(), width - _MARGIN)
        forward, backward, other, kept = of_lines.get(number, (0.0, 0.0, 0.0, 0.0))
        share = (forward + backward + other) / whole if whole else 0.0
        cells = (
            duration(forward) if forward else "",
            duration(backward) if backward else "",
            duration(other) if other else "",
            size(kept) if kept else "",
            percent(share) if number in of_lines else "",
        )
        figures = f"{cells[0]:>10}  {cells[1]:>10}  {cells[2]:>10}  {cells[3]:>9}  {cells[4]:>5}"
        lines.append(f"{figures}  {number:>4}  {code}".rstrip())
    return lines


def _peak(p: Profiled) -> list[str]:
    parts = p.peak
    if not parts:
        return []
    lines = [f"peak memory {size(p.most)}:"]
    for part in parts[:_PARTS]:
        count = f" x{part.pieces}" if part.pieces > 1 else ""
        what = f"{part.operator}{count} at {part.site}, {part.kind}"
        lines.append(f"{size(part.nbytes):>10}  {percent(part.nbytes / p.most):>5}  {what}")
    rest = parts[_PARTS:]
    if rest:
        lines.append(f"{size(sum(part.nbytes for part in rest)):>10}         {len(rest)} others")
    return lines
