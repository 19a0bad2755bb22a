"""Write the texts from which the search page shows excerpts: Sphinx would fetch each page, which files cannot."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

FILE = "_static/search_texts.js"
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
ARTICLE = re.compile(r"<article\b.*?</article>", re.DOTALL)
SKIPPED = re.compile(r"<(script|style|svg|iframe|pre)\b.*?</\1>", re.DOTALL)  # prose makes the best excerpts
ROW_OF_FORMULAS = re.compile(r"<tr\b(?:(?!</tr>).)*class=\"math\b.*?</tr>", re.DOTALL)
FORMULA = re.compile(r"<(span|div)\b[^>]*\bclass=\"math\b.*?</\1>", re.DOTALL)  # TeX is not to be read
INLINE = re.compile(r"</?(?:a|b|code|em|i|mark|small|span|strong|sub|sup|wbr)\b[^>]*>")  # no space between words
TAG = re.compile(r"<[^>]*>")
REPLACED = ((SKIPPED, ""), (ROW_OF_FORMULAS, ""), (FORMULA, "\N{HORIZONTAL ELLIPSIS}"), (INLINE, ""), (TAG, " "))


def text_of(page: str) -> str:
    """Return the text of a page's article."""
    article = " ".join(match[0] for match in ARTICLE.finditer(page))
    for pattern, replacement in REPLACED:
        article = pattern.sub(replacement, article)
    words = unescape(article)
    return " ".join(words.replace("\N{PILCROW SIGN}", "").split())


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
            texts[address] = text_of(file.read_text(encoding="utf-8"))[:LONGEST]
    script = f"window.searchTexts = {json.dumps(texts, ensure_ascii=False)};\n"
    (site / FILE).write_text(script, encoding="utf-8")
