"""A training run's HTML report: one file, with its figures inside it, that can be mailed or archived."""

import base64
import datetime
import html
import importlib.resources
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

from .console import Table


def write_report(
    path: Path,
    title: str,
    *,
    results: Sequence[Table],
    figures: Mapping[str, Path],
    config: Mapping[str, object],
    environment: Sequence[Table],
) -> None:
    """Write one HTML file that refers to nothing outside itself.

    Args:
        path: the file to write.
        title: its heading.
        results: tables of results, shown first.
        figures: PNG files by caption; their bytes are copied into the report.
        config: the run's settings by name.
        environment: tables about software and machine, shown last.

    Raises OSError when a figure cannot be read or the file not written.
    """
    settings = Table("Configuration", ["setting", "value"], [(name, str(value)) for name, value in config.items()])
    template = Template(importlib.resources.files(__package__).joinpath("report.html").read_text(encoding="utf-8"))
    page = template.substitute(
        title=html.escape(title),
        when=datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        tables="\n".join(map(_table, results)),
        figures="\n".join(_figure(caption, image) for caption, image in figures.items()),
        details="\n".join(map(_table, [settings, *environment])),
    )
    path.write_text(page, encoding="utf-8")


def _table(table: Table) -> str:
    marks = [' class="number"' if table.right_aligned(column) else "" for column in range(len(table.headers))]

    def row(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}{m}>{html.escape(c)}</{tag}>" for c, m in zip(cells, marks)) + "</tr>"

    body = "\n".join(row(cells, "td") for cells in table.rows)
    return f"<h2>{html.escape(table.title)}</h2>\n<table>\n{row(table.headers, 'th')}\n{body}\n</table>"


def _figure(caption: str, image: Path) -> str:
    data = base64.b64encode(image.read_bytes()).decode("ascii")
    text = html.escape(caption)
    return f'<figure><img alt="{text}" src="data:image/png;base64,{data}"><figcaption>{text}</figcaption></figure>'
