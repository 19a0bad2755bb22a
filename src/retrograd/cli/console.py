"""Errors, tables and progress lines of the commands, drawn by Rich if it is installed."""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.console import Console


class UserError(Exception):
    """A user's mistake, reported in one line; the command ends with exit code 2."""


def sentence(error: OSError) -> str:
    """Return a sentence that describes the error of a file.

    >>> from retrograd.cli.console import sentence
    >>> sentence(FileNotFoundError(2, "No such file or directory", "data.csv"))
    'there is no file or folder data.csv'
    """
    name, reason = error.filename, error.strerror or str(error)
    if name is None:
        return reason
    match error:
        case FileNotFoundError():
            return f"there is no file or folder {name}{_near(str(name))}"
        case IsADirectoryError():
            return f"{name} is a folder, expected a file"
        case PermissionError():
            return f"there is no permission to open {name}"
    return f"{name}: {reason}"


def _near(name: str) -> str:
    """Return a suggestion from the files in the folder of a missing file."""
    import difflib
    import os

    folder, base = os.path.split(name)
    try:
        near = difflib.get_close_matches(base, os.listdir(folder or "."), n=1, cutoff=0.75)
    except (OSError, ValueError):
        return ""
    return f"; did you mean {os.path.join(folder, near[0])!r}?" if near else ""


def plural(count: int, noun: str) -> str:
    """Return a count with its noun.

    >>> from retrograd.cli.console import plural
    >>> [plural(1, "alarm"), plural(0, "alarm"), plural(2000, "pass"), plural(2, "category")]
    ['1 alarm', '0 alarms', '2,000 passes', '2 categories']
    """
    if count == 1:
        return f"1 {noun}"
    if noun.endswith("y"):
        return f"{count:,} {noun[:-1]}ies"
    return f"{count:,} {noun}{'es' if noun.endswith('s') else 's'}"


@dataclass(frozen=True)
class Table:
    """A titled table of text, for the terminal and for the HTML report."""

    title: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]

    def right_aligned(self, column: int) -> bool:
        """Return whether every cell of the column is a number.

        >>> from retrograd.cli.console import Table
        >>> table = Table("Errors", ["operator", "error"], [["exp", "1e-9"], ["log", "2e-9"]])
        >>> table.right_aligned(0), table.right_aligned(1)
        (False, True)
        """
        return bool(self.rows) and all(is_number(row[column]) for row in self.rows)


def print_table(table: Table) -> None:
    """Print a table: drawn by Rich on a terminal, otherwise in plain aligned columns.

    >>> from retrograd.cli.console import Table, print_table
    >>> print_table(Table("Errors", ["operator", "error"], [["exp", "1e-9"], ["log", "12e-9"]]))
    Errors
    operator  error
    exp        1e-9
    log       12e-9
    """
    aligned_right = [table.right_aligned(column) for column in range(len(table.headers))]
    console = rich_console()
    if console is not None:
        from rich.table import Table as RichTable
        from rich.text import Text

        rich_table = RichTable(title=table.title, title_justify="left")
        for header, right in zip(table.headers, aligned_right):
            rich_table.add_column(header, justify="right" if right else "left")
        for row in table.rows:
            rich_table.add_row(*map(Text, row))
        console.print(rich_table)
        return
    lines = [table.headers, *table.rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(table.headers))]
    print(table.title)
    for line in lines:
        cells = zip(line, widths, aligned_right)
        print("  ".join(f"{cell:>{width}}" if right else f"{cell:<{width}}" for cell, width, right in cells).rstrip())


class ProgressLine:
    """A progress line: live on a terminal with Rich, otherwise one line per tenth of the steps.

    >>> from retrograd.cli.console import ProgressLine
    >>> with ProgressLine("epoch", total=2) as line:
    ...     line.update(1, {"loss": 0.5})
    ...     line.update(2, {"loss": 0.25})
    epoch 1/2  loss 0.5000  0 s left
    epoch 2/2  loss 0.2500  0 s
    """

    def __init__(self, unit: str, total: int, done: int = 0) -> None:
        self.unit = unit
        self.total = total
        self.done = done  # steps that the run had done before it was resumed

    def __enter__(self) -> Self:
        self._start = self._shown = time.perf_counter()
        self._tenths = 10 * self.done // max(1, self.total)
        self._live = None
        console = rich_console()
        if console is not None:
            from rich.progress import BarColumn, TextColumn
            from rich.progress import Progress as RichProgress

            columns = BarColumn(bar_width=20), TextColumn("{task.description}", markup=False)
            self._live = RichProgress(*columns, console=console)
            self._task = self._live.add_task(f"{self.unit} {self.done}/{self.total}", total=self.total)
            self._live.start()
        return self

    def update(self, step: int, figures: Mapping[str, float] | None = None) -> None:
        """Show that `step` of `total` steps are done, and the current figures."""
        now, tenths = time.perf_counter(), 10 * step // self.total
        if step < self.total and (now - self._shown < 0.1 if self._live is not None else tenths == self._tenths):
            return
        elapsed = now - self._start
        remaining = elapsed / max(1, step - self.done) * (self.total - step)
        parts = [f"{self.unit} {step}/{self.total}"]
        parts += [f"{name} {figure_text(name, value)}" for name, value in (figures or {}).items()]
        parts.append(f"{remaining:.0f} s left" if step < self.total else f"{elapsed:.0f} s")
        line = "  ".join(parts)
        self._shown, self._tenths = now, tenths
        if self._live is not None:
            self._live.update(self._task, completed=step, description=line)
        else:
            print(line, flush=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()


def figure_text(name: str, value: float) -> str:
    """Format a figure with the digits for its name; losses and unknown names have four digits after the point.

    >>> from retrograd.cli.console import figure_text
    >>> [figure_text("test_loss", 0.5), figure_text("step", 3), figure_text("epoch", 0.25), figure_text("seconds", 2)]
    ['0.5000', '3', '0.25', '2.0']
    """
    if name in ("step", "epoch"):
        return f"{value:g}" if value % 1 else f"{value:.0f}"
    if name == "seconds":
        return f"{value:.1f}"
    if name.startswith("examples"):
        return f"{value:,.0f}"
    return f"{value:.4f}" if abs(value) < 1e6 else f"{value:.4e}"


def rich_console() -> "Console | None":
    """Return Rich's console on standard output, or None without a terminal or without Rich."""
    if not sys.stdout.isatty():
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console()


def is_number(text: str) -> bool:
    """Return whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
