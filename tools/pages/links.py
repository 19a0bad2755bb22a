"""Check the links of a built site: their targets must be existing pages, files and anchors.

Sphinx warns of broken links in Markdown, reST and docstrings, at which the build stops. This check reads what Sphinx
does not: HTML in pages, the navigation that `navigation` rewrites, and the listings of source code.
"""

from __future__ import annotations

import posixpath
import re
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlsplit

SCRIPT = re.compile(r"(<script\b[^>]*>).*?</script>", re.DOTALL)  # texts in it may look like tags
TAG = re.compile(r"<[a-zA-Z][^>]*>")
ATTRIBUTE = re.compile(r"""\s(href|src|id|name)=(["'])(.+?)\2""")
BACK = re.compile(r'<a class="viewcode-back" href="([^"#]*)#([^"]*)">\[docs\]</a>')


class Page:
    """The links and anchors of a page."""

    def __init__(self, html: str) -> None:
        self.links: set[str] = set()
        self.places: set[str] = set()
        for tag in TAG.findall(SCRIPT.sub(r"\1", html)):
            for name, _, value in ATTRIBUTE.findall(tag):
                (self.links if name in ("href", "src") else self.places).add(unescape(value))


def read(site: Path) -> dict[str, Page]:
    """Return the pages of a site by their addresses, without links from source code to what has another name there.

    Those links are removed from the files.
    """
    files = {file.relative_to(site).as_posix(): file for file in site.rglob("*.html")}
    texts = {address: file.read_text(encoding="utf-8") for address, file in files.items()}
    pages = {address: Page(text) for address, text in texts.items() if not address.startswith("_modules/")}
    for address in texts.keys() - pages.keys():

        def leading(match: re.Match[str], address: str = address) -> str:
            target = pages.get(resolved(address, match[1]))
            return match[0] if target and match[2] in target.places else ""

        text = BACK.sub(leading, texts[address])
        if text != texts[address]:
            files[address].write_text(text, encoding="utf-8")
        pages[address] = Page(text)
    return pages


def resolved(address: str, link: str) -> str:
    """Return the address at the site's root that a link on a page leads to."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(address), link))


def broken(site: Path) -> list[str]:
    """Return the broken links, and links to resources outside of the site, each with its page."""
    pages = read(site)
    exists = dict.fromkeys(pages, True)
    complaints = []
    for address, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "mailto", "data", "javascript"):
                continue
            target = resolved(address, unquote(parts.path)) if parts.path else address
            if target not in exists:
                exists[target] = (site / target).is_file()
            if not exists[target]:
                complaints.append(f"{address}: {link} does not exist")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].places:
                complaints.append(f"{address}: {link} is not an anchor of that page")
    return sorted(complaints)
