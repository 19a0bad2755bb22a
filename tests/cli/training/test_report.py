"""The HTML report stands alone: every picture inside it, nothing fetched from elsewhere, all text escaped."""

import base64
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from retrograd.cli.console import Table
from retrograd.cli.training.report import Confusion, Gallery, Plot, Text, write_report
from retrograd.training import ConfusionMatrix, plots

REFERENCES = ("src", "href", "srcset", "data", "action", "poster", "background")


class Page(HTMLParser):
    """Collects what a browser would fetch, the text it would show, and tags that were never closed."""

    def __init__(self, text):
        super().__init__()
        self.references, self.texts, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.references += [value for name, value in attributes if name in REFERENCES]
        if tag not in ("meta", "img", "source"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def pictures(page):
    prefix = "data:image/png;base64,"
    assert all(reference.startswith(prefix) for reference in page.references)
    return [base64.b64decode(reference.removeprefix(prefix)) for reference in page.references]


@pytest.fixture
def page_text(tmp_path):
    confusion = ConfusionMatrix(["cat <1>", "dog"])
    confusion.update([0, 0, 1, 0], [0, 0, 1, 1])
    sections = [
        Table("Results", ["model", "MSE"], [["a<b>", "0.5"], ["exact", "0.25"]]),
        Text("Samples <x>", "to be,\n<b>or</b> $not"),
        Confusion("Confusion", confusion),
        Gallery("Wrong", [(np.arange(12, dtype=np.uint8).reshape(3, 4), "cat & dog")]),
        Table("Configuration", ["setting", "value"], [["out", "runs/<x>"], ["bytes", "a\udcc3"]]),
    ]
    write_report(tmp_path / "report.html", "A <run> & its $title", sections)
    return (tmp_path / "report.html").read_text(encoding="utf-8")


def test_report_refers_to_nothing_outside_itself(page_text):
    page = Page(page_text)
    assert page.open == []
    assert len(pictures(page)) == 1
    assert not re.search(r"https?:|url\(|@import|<script|<link|<iframe", page_text)


def test_report_escapes_and_shows_every_part(page_text):
    texts = Page(page_text).texts
    shown = ("A <run> & its $title", "a<b>", "0.25", "Samples <x>", "to be,\n<b>or</b> $not", "cat <1>", "50.00%")
    for text in (*shown, "cat & dog", "runs/<x>", "a\\udcc3"):
        assert text in texts


def test_report_is_dark_where_the_reader_wants_it(page_text):
    assert "@media (prefers-color-scheme: dark)" in page_text
    assert '<meta name="color-scheme" content="light dark">' in page_text


def test_pixels_are_the_images_own(page_text):
    pytest.importorskip("matplotlib")
    import io

    from matplotlib.image import imread

    (png,) = pictures(Page(page_text))
    np.testing.assert_array_equal(np.round(imread(io.BytesIO(png)) * 255), np.arange(12).reshape(3, 4))


@pytest.mark.slow
def test_figures_are_there_light_and_dark(tmp_path):
    pytest.importorskip("matplotlib")
    figure = plots.learning_curves({"train": ([1, 2], [2.0, 1.0])})
    write_report(tmp_path / "report.html", "t", [Plot("loss", 'the "loss"', figure)])
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert page.open == [] and 'the "loss"' in page.texts
    dark, light = pictures(page)
    assert dark == plots.render(figure, dark=True) and light == plots.render(figure)
    assert dark != light
