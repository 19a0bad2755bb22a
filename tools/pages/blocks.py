"""Parse a Markdown page into blocks: text, programs, and their output.

All fenced blocks marked ``python`` of a page run in order in one namespace. A block marked ``text`` directly after a
program is its output. A comment on the line before the program qualifies it:

        <!-- raises -->          raises an exception, whose last lines are the output
        <!-- not run -->         is not run
        <!-- data: mnist -->     needs this folder of RETROGRAD_DATA, as do all later blocks; skipped without the data
        <!-- file: name.py -->   is saved and run as a script
        <!-- two: name.py -->    is run by two MPI processes; skipped, with all later blocks, without mpi4py
        <!-- torch: name.py timm -->  is saved and run by ``retrograd run``; skipped unless this package is installed
        <!-- slow -->            takes two seconds or more: `make slow` runs this page, and `make test` does not

An image ``![text](pictures/name.svg)`` directly after a program is what its last line draws: ``--write`` writes the
file, and the site draws it again for its themes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(
    r"(?:^<!-- (?P<note>raises|not run|slow|data: [\w-]+|file: [\w.]+|two: [\w.]+|torch: [\w.]+ \w+) -->\n)?"
    r"^```python\n(?P<code>.*?)^```\n"
    r"(?P<gap>\n*^```text\n(?P<output>.*?)^```\n)?",
    re.DOTALL | re.MULTILINE,
)
PICTURE = re.compile(r"\n*!\[(?P<text>[^]]*)\]\((?P<file>pictures/[\w.]+)\)\n")  # what the program above it draws


@dataclass
class Text:
    """Text between programs."""

    text: str


@dataclass
class Program:
    """A program, its position in the page, and its expected output (None: nothing)."""

    code: str
    line: int
    note: str
    output: str | None

    @property
    def runs(self) -> bool:
        """Whether the program is to be run."""
        return self.note != "not run"

    @property
    def file(self) -> str | None:
        """The file name of a script."""
        return self.value("file") or self.value("two") or (self.value("torch") or "").partition(" ")[0] or None

    @property
    def package(self) -> str | None:
        """The package that a program of PyTorch needs."""
        return (self.value("torch") or "").partition(" ")[2] or None

    def value(self, name: str) -> str | None:
        """Return the value of ``name:`` in the comment."""
        found, _, value = self.note.partition(": ")
        return value if found == name and value else None

    def markdown(self, output: str | None) -> str:
        """Return the block in Markdown with the given output."""
        note = f"<!-- {self.note} -->\n" if self.note else ""
        printed = f"\n```text\n{output}```\n" if output else ""
        return f"{note}```python\n{self.code}```\n{printed}"


def read(path: Path) -> list[Text | Program]:
    page, blocks, end = path.read_text(encoding="utf-8"), [], 0
    for match in FENCE.finditer(page):
        if match.start() > end:
            blocks.append(Text(page[end : match.start()]))
        line = page.count("\n", 0, match.start("code")) + 1
        blocks.append(Program(match["code"], line, match["note"] or "", match["output"]))
        end = match.end()
    if end < len(page):
        blocks.append(Text(page[end:]))
    return blocks
