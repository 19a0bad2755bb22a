"""A page is Markdown, and a list of blocks: text, programs, and what these print.

A fenced block marked ``python`` is run, in order, in one namespace with the others of its page. A block marked ``text``
right after it is what it prints. A comment on the line before the program says what is special about it:

    <!-- raises -->          it ends in an exception, whose last lines are what it prints
    <!-- not run -->         it is only shown
    <!-- data: mnist -->     it needs this folder of RETROGRAD_DATA, and with it all that follows; left out without one
    <!-- file: name.py -->   it is a file of its own, run as a program, as is seen in what it prints
    <!-- two: name.py -->    the same, run by two processes under MPI; left out, with all that follows, without mpi4py
    <!-- slow -->            it takes more than a few seconds, and with it all that follows
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(
    r"(?:^<!-- (?P<note>raises|not run|slow|data: [\w-]+|file: [\w.]+|two: [\w.]+) -->\n)?"
    r"^```python\n(?P<code>.*?)^```\n"
    r"(?P<gap>\n*^```text\n(?P<output>.*?)^```\n)?",
    re.DOTALL | re.MULTILINE,
)


@dataclass
class Text:
    """What stands between programs."""

    text: str


@dataclass
class Program:
    """A program, where it stands in the page, and what it is to print (None: nothing)."""

    code: str
    line: int
    note: str
    output: str | None

    @property
    def runs(self) -> bool:
        """Whether the page means it to be run."""
        return self.note != "not run"

    @property
    def file(self) -> str | None:
        """The name under which it is a file of its own."""
        return self.value("file") or self.value("two")

    def value(self, name: str) -> str | None:
        """What the comment says after ``name:``."""
        found, _, value = self.note.partition(": ")
        return value if found == name and value else None

    def markdown(self, output: str | None) -> str:
        """The block as it stands in a page, printing ``output``."""
        note = f"<!-- {self.note} -->\n" if self.note else ""
        printed = f"\n```text\n{output}```\n" if output else ""
        return f"{note}```python\n{self.code}```\n{printed}"


def read(path: Path) -> list[Text | Program]:
    """The blocks of a page."""
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
