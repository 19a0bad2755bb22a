"""Build the site: run the pages, draw their pictures, write the reference, and let Sphinx make HTML of it.

python -m tools.pages.site [FOLDER]     into build/site; fails on a warning, a broken link or a stale output
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

from . import reference
from .__main__ import DOCS, pages
from .blocks import Program, read
from .notebooks import notebook
from .running import Result, check, run

BUILD = DOCS.parent / "build" / "site"
BESIDE = ("CONTRIBUTING.md", "CHANGELOG.md")  # pages of the site that stand at the repository's root


def stage(source: Path) -> None:
    """Copy docs/ into a folder, with pictures behind the programs that draw them, notebooks and the reference."""
    shutil.copytree(DOCS, source)
    for name in BESIDE:
        shutil.copy(DOCS.parent / name, source)
    for path in pages():
        results = list(run(path))
        for result in results:
            check(result)
        staged = source / path.relative_to(DOCS)
        staged.write_text(illustrated(path, results, staged.parent / "pictures"), encoding="utf-8")
        if path.parent.name == "learn":
            staged.with_suffix(".ipynb").write_text(notebook(path), encoding="utf-8")
    reference.write(source / "reference")
    for page in source.rglob("*.md"):
        page.write_text(moved(page.read_text(encoding="utf-8"), page, source), encoding="utf-8")


def moved(text: str, page: Path, source: Path) -> str:
    """A page whose links lead to the pages that stood at the repository's root, or from there to docs/."""
    if page.name in BESIDE and page.parent == source:
        return text.replace("](docs/", "](")
    for name in BESIDE:
        text = re.sub(rf"\]\((?:\.\./)+{name}", f"]({'../' * len(page.relative_to(source).parts[1:])}{name}", text)
    return text


def illustrated(path: Path, results: list[Result], folder: Path) -> str:
    """A page with its pictures behind the programs that drew them, and a link to its notebook."""
    drawn = {result.program.line: result.picture for result in results}
    parts = []
    for block in read(path):
        if not isinstance(block, Program):
            parts.append(block.text)
            continue
        parts.append(block.markdown(block.output))
        for ending, content in drawn.get(block.line, {}).items():
            folder.mkdir(exist_ok=True)
            file = folder / f"{path.stem}_{block.line}.{ending}"
            file.write_text(content) if isinstance(content, str) else file.write_bytes(content)
            parts.append(f"\n![What the last line shows](pictures/{file.name})\n")
    page = "".join(parts)
    if path.parent.name == "learn":
        link = f"[This chapter as a notebook](path:{path.stem}.ipynb)"
        page = re.sub(r"^(# .*\n)", rf"\1\n{link}\n", page, count=1, flags=re.MULTILINE)
    return page


def build(folder: Path) -> int:
    """Stage and build, from nothing."""
    shutil.rmtree(folder, ignore_errors=True)
    source = folder / "source"
    folder.mkdir(parents=True)
    stage(source)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-j", "2", "-c", str(DOCS)]
    return subprocess.call([*command, "-d", str(folder / "trees"), str(source), str(folder / "html")])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=BUILD)
    sys.exit(build(parser.parse_args().folder))
