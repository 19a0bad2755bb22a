"""Write the texts from which the search page shows excerpts: Sphinx would fetch each page, which files cannot."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

FILE = "_static/search_texts.js"
SKIPPED = frozenset(("script", "style", "svg", "iframe", "pre"))  # prose makes better excerpts than programs
# Words by which users look for a page that does not have them.
WORDS = {
    "guides/writing_an_operator.md": ("custom operator", "user-defined operator"),
    "guides/custom_functions.md": ("custom derivative", "custom gradient"),
    "guides/installation.md": ("install", "pip install"),
    "guides/fine_tuning.md": ("fine-tune", "finetune"),
    "guides/data_of_your_own.md": ("CSV", "DataFrame"),
    "learn/07_when_training_goes_wrong.md": ("vanishing gradient", "exploding gradient"),
    "learn/02_the_backward_pass.md": ("backpropagation", "backprop"),
}
LONGEST = 20_000  # characters of a page


class Article(HTMLParser):
    """The text of a page's article."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.inside = self.skipped = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside += tag == "article"
        self.skipped += tag in SKIPPED

    def handle_endtag(self, tag: str) -> None:
        self.inside -= tag == "article"
        self.skipped -= tag in SKIPPED

    def handle_data(self, data: str) -> None:
        if self.inside and not self.skipped and data != "¶":
            self.parts.append(data)


def indexed(page: str, text: str) -> str:
    """Return a page in Markdown with index entries, which the search ranks first, below its title."""
    if page not in WORDS:
        return text
    entries = f"```{{index}} {', '.join(f'! {words}' for words in WORDS[page])}\n```\n"  # main entries rank first
    return re.sub(r"^(# .*\n)", rf"\1\n{entries}", text, count=1, flags=re.MULTILINE)


def write(site: Path) -> None:
    """Write the text of every page of a site, by the page's address, as a script that a file may load."""
    texts = {}
    for file in sorted(site.rglob("*.html")):
        address = file.relative_to(site).as_posix()
        if not address.startswith("_") and "/pictures/" not in address and not address.startswith("pictures/"):
            words = "".join(Article(file.read_text(encoding="utf-8")).parts).split()
            texts[address] = " ".join(words)[:LONGEST]
    script = f"window.searchTexts = {json.dumps(texts, ensure_ascii=False)};\n"
    (site / FILE).write_text(script, encoding="utf-8")
