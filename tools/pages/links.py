"""Check the links of a built site: their targets must be existing pages, files and anchors."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links and anchors of a page."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name in ("href", "src"):
                self.links.append(value)
            elif value and name in ("id", "name"):
                self.places.add(value)


BACK = re.compile(r'<a class="viewcode-back" href="([^"#]*)#([^"]*)">\[docs\]</a>')


def drop_back_links(site: Path) -> None:
    """Remove links from source code to documentation that exists only under another name of the object."""
    pages: dict[Path, Page] = {}
    for file in (site / "_modules").rglob("*.html"):

        def leading(match: re.Match[str], folder: Path = file.parent) -> str:
            target = (folder / match[1]).resolve()
            if target not in pages:
                pages[target] = Page(target)
            return match[0] if match[2] in pages[target].places else ""

        file.write_text(BACK.sub(leading, file.read_text(encoding="utf-8")), encoding="utf-8")


def broken(site: Path) -> list[str]:
    """Return the broken links, and links to resources outside of the site, each with its page."""
    pages = {file.resolve(): Page(file) for file in site.rglob("*.html")}
    complaints = []
    for file, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "mailto", "data", "javascript"):
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if not target.is_file():
                complaints.append(f"{file.relative_to(site.resolve())}: {link} does not exist")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].places:
                complaints.append(f"{file.relative_to(site.resolve())}: {link} is not an anchor of that page")
    return sorted(set(complaints))
