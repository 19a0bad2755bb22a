"""The HTML report of a training run: one self-contained file."""

import base64
import datetime
import html
import importlib.resources
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import numpy as np

from retrograd.inspect.notebook.heatmap import png
from retrograd.training import ConfusionMatrix, plots

from ..console import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Plot:
    """A figure; `name` is its file name."""

    name: str
    caption: str
    figure: "Figure"

    @cached_property
    def images(self) -> tuple[bytes, bytes]:
        """The figure as PNG, on a white and on a dark background."""
        return plots.render_light_and_dark(self.figure)


@dataclass(frozen=True)
class Text:
    """Preformatted text."""

    title: str
    text: str


@dataclass(frozen=True)
class Confusion:
    """A confusion matrix; each cell is shaded by its share of the row."""

    title: str
    matrix: ConfusionMatrix


@dataclass(frozen=True)
class Gallery:
    """Small gray images, uint8 of shape (height, width), each with a caption."""

    title: str
    images: Sequence[tuple[np.ndarray, str]]


Section = Table | Plot | Text | Confusion | Gallery


def write_report(path: Path, title: str, sections: Sequence[Section]) -> None:
    """Write one self-contained HTML file, in the light or dark colors of the reader's screen.

    Raises OSError if the file cannot be written.
    """
    template = Template(importlib.resources.files(__package__).joinpath("report.html").read_text(encoding="utf-8"))
    page = template.substitute(
        title=html.escape(title),
        when=datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        sections="\n".join(map(_section, sections)),
    )
    # A file name that is not UTF-8 contains surrogates, which cannot be written.
    path.write_text(page, encoding="utf-8", errors="backslashreplace")


def _section(section: Section) -> str:
    match section:
        case Table():
            return _titled(section.title, _table(section))
        case Plot():
            return _plot(section)
        case Text():
            return _titled(section.title, f"<pre>{html.escape(section.text)}</pre>")
        case Confusion():
            return _titled(section.title, _confusion(section.matrix))
        case Gallery():
            return _titled(section.title, "".join(_image(pixels, caption) for pixels, caption in section.images))


def _titled(title: str, content: str) -> str:
    return f'<h2>{html.escape(title)}</h2>\n<div class="wide">\n{content}\n</div>'


def _table(table: Table) -> str:
    marks = [' class="number"' if table.right_aligned(column) else "" for column in range(len(table.headers))]

    def row(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}{m}>{html.escape(c)}</{tag}>" for c, m in zip(cells, marks)) + "</tr>"

    body = "\n".join(row(cells, "td") for cells in table.rows)
    return f"<table>\n{row(table.headers, 'th')}\n{body}\n</table>"


def _confusion(confusion: ConfusionMatrix) -> str:
    heads = "".join(f'<th class="number">{html.escape(name)}</th>' for name in (*confusion.names, "recall"))
    rows = [f"<tr><th></th>{heads}</tr>"]
    shares = confusion.matrix / np.maximum(1, confusion.matrix.sum(axis=1, keepdims=True))
    for name, counts, part, recall in zip(confusion.names, confusion.matrix, shares, confusion.recall):
        # The square root makes the few wrong answers visible next to the many right ones.
        cells = "".join(
            f'<td class="number" style="--share:{100 * np.sqrt(share):.0f}%">{count}</td>'
            for count, share in zip(counts, part)
        )
        rows.append(f'<tr><th>{html.escape(name)}</th>{cells}<td class="number">{recall:.2%}</td></tr>')
    return '<table class="confusion">\n' + "\n".join(rows) + "\n</table>"


def _plot(plot: Plot) -> str:
    text = html.escape(plot.caption)
    light, dark = map(_data, plot.images)
    return (
        f'<figure><picture><source media="(prefers-color-scheme: dark)" srcset="{dark}">'
        f'<img alt="{text}" src="{light}"></picture><figcaption>{text}</figcaption></figure>'
    )


def _image(pixels: np.ndarray, caption: str) -> str:
    text = html.escape(caption)
    image = f'<img alt="{text}" src="{_data(png(pixels.astype(np.uint8)))}">'
    return f'<figure class="small">{image}<figcaption>{text}</figcaption></figure>'


def _data(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")
