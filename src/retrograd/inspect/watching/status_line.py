"""The status line of a watch in the terminal."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence

from .alarm_rules import Alarm, short
from .measures import StepRecord

_SECONDS = 0.1  # the minimum time between two updates


class StatusLine:
    """A status line on standard error, below the alarms; does nothing if standard error is not a terminal."""

    def __init__(self, live: bool | None = None) -> None:
        self.on = sys.stderr.isatty() if live is None else live
        self._shown = 0.0
        self._width = 0

    def show(self, record: StepRecord, raised: Sequence[Alarm], alarms: int) -> None:
        """Print new alarms and update the line."""
        if not self.on:
            return
        for alarm in raised:
            self._write(f"step {alarm.step}: {alarm}", "\n")
        now = time.monotonic()
        if raised or now - self._shown >= _SECONDS:
            self._shown = now
            self._write(line_of(record, alarms), "")

    def close(self) -> None:
        """End the line, so that it stays."""
        if self._width:
            print(file=sys.stderr)
        self._width = 0

    def _write(self, text: str, end: str) -> None:
        if not end:
            text = text[: shutil.get_terminal_size().columns - 1]
        print(f"\r{text:<{self._width}}", end=end, file=sys.stderr, flush=True)
        self._width = 0 if end else len(text)


def line_of(record: StepRecord, alarms: int) -> str:
    """Return a record as one line."""
    ratios = sorted(record.update_ratios.values())
    parts = [f"step {record.step}"]
    if record.loss is not None:
        parts.append(f"loss {record.loss:.4g}")
    if record.rates:
        parts.append(f"lr {max(record.rates):.3g}")
    parts.append(f"gradient norm {short(record.total_norm_before_clipping)}")
    if record.total_norm < 0.999 * record.total_norm_before_clipping:
        parts.append(f"clipped to {short(record.total_norm)}")
    if ratios:
        parts.append(f"update ratio {short(ratios[len(ratios) // 2])}, at most {short(ratios[-1])}")
    parts.append(f"{alarms} alarm{'' if alarms == 1 else 's'}" if alarms else "no alarm")
    return "  ".join(parts)
