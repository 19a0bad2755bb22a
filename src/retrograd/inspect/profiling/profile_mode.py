"""``profile``: time and memory by operator, line and module."""

from __future__ import annotations

import sys
from functools import partial
from operator import call
from pathlib import Path
from typing import Any

from ...core.graph.modes import Mode, modes
from ...core.source_location import user_frame
from ..pages.template import framed
from ..recorder import own
from ..tracing import Grouping, Groups, Records
from . import export, listing, page
from .profiler import Profiled, Profiler


class profile(Profiled, Mode):  # type: ignore[misc]  # no file, though Mode is one for its C code
    """Measure a program: seconds forward and backward and the bytes saved in between, by operator, line and module.

    The time of the measurement itself is excluded. The time of derivative rules is charged to the line that called the
    operator. All other time (data loading, the optimizer, NumPy) is charged, as ``other``, to the line that ran at that
    time, so that all lines add up to the whole time, ``wall``; between operators, lines are sampled. Use ``profile`` as
    a context manager around a step or any part of a program; entering it again adds to its figures.

    ``print(p)`` lists the program's files with times and bytes per line, and the arrays that were alive at the peak.


    Raises:
        RuntimeError: the profile is already active.

    >>> x = rg.ones(100, requires_grad=True)
    >>> with rg.inspect.profile() as p:
    ...     (x.exp() * 2).sum().backward()
    >>> sorted(p.by("operator")), p.by("operator")["exp"].kept
    (['exp', 'mul', 'sum'], 400)
    """

    def __init__(self) -> None:
        Mode.__init__(self)
        Profiled.__init__(self, Profiler())

    @property
    def changes(self) -> dict[str, Any]:  # type: ignore[override]
        """Append this profile to the thread's observers."""
        if self.recorder in modes.observers:
            raise RuntimeError("profile: this profile is already active; create another one to nest them")
        return {"observers": (*modes.observers, self.recorder)}

    def __enter__(self) -> profile:
        self.recorder.base = id(user_frame(sys._getframe(1)))
        super().__enter__()
        ends = self.recorder.outside.start(self.recorder.base, own.__dict__)
        self.close = partial(any, map(call, (*ends, self.close)))
        return self

    def _clone(self) -> Mode:
        return self

    def __str__(self) -> str:
        return listing.listing(self)

    def __repr__(self) -> str:
        return f"<profile of {len(self.records)} operators>"

    def _repr_html_(self) -> str:
        return framed(page.page_of(self), f"profile of {len(self.records)} operators", 640)

    def by(self, what: Grouping) -> Groups:
        """Return the records by line (``file.py:31``), module or operator, the slowest first.

        Each group has ``seconds``, ``forward``, ``backward`` and ``kept``, the bytes that its operators save. A line
        also has ``other``, the seconds spent outside of operators.

        Args:
            what: ``"line"``, ``"module"`` or ``"operator"``.

        Raises:
            ValueError: any other ``what``.
        """
        groups = super().by(what)
        if what == "line":
            for stack, seconds in self.outside.items():
                group = groups.setdefault(str(stack[-1]) if stack else "no line", Records([], []))
                group._other += seconds
        found = Groups(sorted(groups.items(), key=lambda item: -item[1].seconds - item[1].other))
        found.outside = 0.0 if what == "line" else self.other
        return found

    def to_chrome(self, path: str | Path) -> None:
        """Write a trace for chrome://tracing and Perfetto: modules, operators and memory over time.

        Args:
            path: the file, usually ``.json``.

        Source: the Trace Event Format.
        """
        Path(path).write_text(export.chrome(self), encoding="utf-8")

    def to_speedscope(self, path: str | Path) -> None:
        """Write a file for speedscope: seconds and saved bytes by call stack.

        Args:
            path: the file, usually ``.speedscope.json``.

        Source: speedscope's file format.
        """
        Path(path).write_text(export.speedscope(self), encoding="utf-8")

    def save(self, path: str | Path) -> None:
        """Write a flame graph as one self-contained HTML page with zoom and search, usable by keyboard.

        Args:
            path: the file, ending in ``.html``.

        Raises:
            ValueError: another suffix.
        """
        if Path(path).suffix not in (".html", ".htm"):
            raise ValueError(f"profile.save: path must end in .html, got {str(path)!r}")
        Path(path).write_text(page.page_of(self), encoding="utf-8")
