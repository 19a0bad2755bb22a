"""Fill the template of a page, and pass data to its script."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from html import escape
from importlib.resources import files

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_COMMENTS = re.compile(r"/\*.*?\*/", re.DOTALL)


def allowed(text: str) -> str:
    """Return a text without the characters that XML or UTF-8 cannot represent."""
    return _NOT_XML.sub("\ufffd", text)


def clean(text: str) -> str:
    """Return a text escaped for elements and attributes."""
    return escape(allowed(text))


def filled(template: str, parts: Mapping[str, str]) -> str:
    """Return the template with each ``{{name}}`` replaced, in one pass: parts may contain such marks themselves.

    ``{{common}}`` is the style that all pages share, and ``{{helpers}}`` their common functions.
    """
    shared = {"common": style(__package__, "common.css"), "helpers": asset(__package__, "common.js")}
    head, *pieces = template.split("{{")
    page = [head]
    for piece in pieces:
        name, _, rest = piece.partition("}}")
        page += [parts[name] if name in parts else shared[name], rest]
    return "".join(page)


def json_inside(data: object) -> str:
    """Return JSON that is safe inside a script element."""
    text = allowed(json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False))
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


@cache
def asset(package: str, name: str) -> str:
    """Return the text of a file in the folder of a package."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


@cache
def style(package: str, name: str) -> str:
    """Return a style sheet without its comments and line breaks."""
    return " ".join(_COMMENTS.sub("", asset(package, name)).split())


def framed(page: str, title: str, height: float) -> str:
    """Return an iframe with the page, in which the page's script runs isolated from the notebook."""
    return (
        f'<iframe title="{clean(title)}" style="width:100%;height:{height:.0f}px;border:0" sandbox="allow-scripts" '
        f'srcdoc="{escape(page, quote=True)}"></iframe>'
    )
