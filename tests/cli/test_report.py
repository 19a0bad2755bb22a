"""The HTML report stands alone: every figure inside it, nothing fetched from elsewhere, all text escaped."""

import base64
import re
from html.parser import HTMLParser

import pytest

from retrograd.cli.console import Table
from retrograd.cli.report import write_report

PNG = b"\x89PNG\r\n\x1a\nnot really a picture"
REFERENCES = ("src", "href", "srcset", "data", "action", "poster", "background")


class Page(HTMLParser):
    """Collects what a browser would fetch, the text it would show, and tags that were never closed."""

    def __init__(self, text):
        super().__init__()
        self.references, self.texts, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.references += [value for name, value in attributes if name in REFERENCES]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


@pytest.fixture
def page_text(tmp_path):
    image = tmp_path / "loss.png"
    image.write_bytes(PNG)
    write_report(
        tmp_path / "report.html",
        "A <run> & its $title",
        results=[Table("Results", ["model", "MSE"], [["a<b>", "0.5"], ["exact", "0.25"]])],
        figures={'the "loss"': image},
        config={"lr": 0.001, "out": "runs/<x>"},
        environment=[Table("Environment", ["what", "value"], [["numpy", "2.0"]])],
    )
    return (tmp_path / "report.html").read_text(encoding="utf-8")


def test_report_refers_to_nothing_outside_itself(page_text):
    page = Page(page_text)
    assert page.open == []
    assert page.references == ["data:image/png;base64," + base64.b64encode(PNG).decode()]
    assert not re.search(r"https?:|url\(|@import|<script|<link|<iframe", page_text)


def test_report_escapes_and_shows_every_part(page_text):
    texts = Page(page_text).texts
    for text in ("A <run> & its $title", "a<b>", "0.25", 'the "loss"', "lr", "0.001", "runs/<x>", "numpy", "2.0"):
        assert text in texts


def test_report_needs_its_figures(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent"):
        write_report(
            tmp_path / "report.html", "t", results=[], figures={"x": tmp_path / "absent.png"}, config={}, environment=[]
        )
