"""What the doctor finds, and how findings are printed and written as JSON."""

from __future__ import annotations

import json
import linecache
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from textwrap import fill
from typing import TypeAlias

JSON: TypeAlias = "None | bool | int | float | str | Sequence[JSON] | dict[str, JSON]"

_WIDTH = 110
_SIGNIFICANT = 4  # significant digits of numbers in texts


@dataclass(frozen=True)
class Finding:
    """One reason why a training does not learn, or learns badly.

    Attributes:
        kind: the kind of finding, such as ``"broadcast-loss"``.
        file, line: where in the program; "" and 0 if no line is known.
        message: what happens, with figures, in a sentence or two.
        fix: the edit that removes the cause.
        evidence: the figures: JSON values by name. If the edit was tried, ``"curves"`` has the losses ``"with"`` and
            ``"without"`` the edit. If the edit changes the loss itself, ``"edited_loss"`` has the losses of the run
            without the edit, as measured by the edited loss.
    """

    kind: str
    file: str
    line: int
    message: str
    fix: str
    evidence: dict[str, JSON] = field(default_factory=dict)

    @property
    def code(self) -> str:
        """The text of the line."""
        return linecache.getline(self.file, self.line).strip() if self.file else ""

    def __str__(self) -> str:
        where = f"{os.path.basename(self.file)}:{self.line}: " if self.file else ""
        lines = [f"{where}{self.kind}"]
        if self.code:
            lines.append(f"    {self.code}")
        lines += [fill(self.message, _WIDTH, initial_indent="  ", subsequent_indent="  ")]
        lines += [fill(f"Edit: {self.fix}", _WIDTH, initial_indent="  ", subsequent_indent="        ")]
        return "\n".join(lines)


def listing(names: Sequence[str]) -> str:
    """Return the first three names, and how many more there are.

    >>> listing(["a", "b", "c", "d"])
    'a, b, c and 1 more'
    """
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def figure(value: float) -> str:
    """Return a number as texts show it: four digits, as short as possible.

    >>> from retrograd.inspect.diagnosing.findings import figure
    >>> figure(0.000123456), figure(15.0), figure(1234567.0)
    ('0.0001235', '15', '1.235e+06')
    """
    return f"{value:.{_SIGNIFICANT}g}"


def as_json(value: object) -> JSON:
    """Return a value as JSON can represent it; other objects become text."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [as_json(x) for x in value]
    if isinstance(value, dict):
        return {str(name): as_json(x) for name, x in value.items()}
    return str(value)


def report(findings: Sequence[Finding], everything: bool, watched: str, how: str = "--all") -> str:
    """Return the printed report: the first finding or all findings, and a phrase on the watched steps.

    ``how`` is the command or call that prints all findings.
    """
    if not findings:
        return f"doctor: nothing found ({watched})"
    shown = findings if everything else findings[:1]
    more = len(findings) - len(shown)
    rest = (
        f"\n{more} more finding{'s' * (more != 1)}, which may follow from this one: {how} prints them" if more else ""
    )
    return "\n\n".join(map(str, shown)) + rest + f"\n(doctor: {watched})"


def to_json(findings: Iterable[Finding]) -> str:
    """Return findings as JSON text, the most important first; numbers that are not finite are strings."""
    listed = [
        {
            "kind": x.kind,
            "file": x.file,
            "line": x.line,
            "message": x.message,
            "fix": x.fix,
            "evidence": _finite(x.evidence),
        }
        for x in findings
    ]
    return json.dumps({"findings": listed}, indent=2, allow_nan=False)


def _finite(value: JSON) -> JSON:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: _finite(x) for name, x in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(x) for x in value]
    return value
