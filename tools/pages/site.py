"""Build the site: run the pages, save their pictures, write the reference, and run Sphinx.

python -m tools.pages.site [FOLDER]     into build/site; fails on a warning, a broken link or a stale output

Pages that are unchanged since the tests ran them are not run again.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from . import formulas, front, links, reference, search
from .__main__ import DOCS, pages
from .blocks import PICTURE, Program, Text, read
from .cache import load, store
from .notebooks import notebook
from .running import Failure, Result, checked

BUILD = DOCS.parent / "build" / "site"
MEDIA = {"light": "not all", "dark": "all"}  # for the site's theme, not the system's, in place of the media query
BESIDE = ("CONTRIBUTING.md", "CHANGELOG.md")  # pages at the repository's root


def results_of(path: Path) -> list[Result]:
    """Return the results of a page's programs, from the cache or by running them."""
    results = load(path)
    if results is None:
        results = checked(path)
        store(path, results)
    return results


def all_results() -> dict[Path, list[Result]]:
    """Return the results of all pages, run by one process per core.

    Raises:
        Failure: a page's output is out of date; all such pages are reported first.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # one process per core already uses all cores
    with ProcessPoolExecutor() as pool:
        tasks = {path: pool.submit(results_of, path) for path in pages()}
    failures = [failure for task in tasks.values() if (failure := task.exception()) is not None]
    for failure in failures[1:]:
        print(failure, file=sys.stderr)
    if failures:
        raise failures[0]
    return {path: task.result() for path, task in tasks.items()}


def stage(source: Path) -> None:
    """Copy docs/ into a folder, and add the pictures, notebooks and reference."""
    shutil.copytree(DOCS, source)
    for name in BESIDE:
        shutil.copy(DOCS.parent / name, source)
    for path, results in all_results().items():
        staged = source / path.relative_to(DOCS)
        staged.write_text(illustrated(path, results, staged.parent / "pictures"), encoding="utf-8")
        if path.parent.name == "learn":
            staged.with_suffix(".ipynb").write_text(notebook(path), encoding="utf-8")
    reference.write(source / "reference")
    operators = source / "operators.md"
    operators.write_text(formulas.table(operators.read_text(encoding="utf-8")), encoding="utf-8")
    index = source / "index.md"
    shown = f"```{{raw}} html\n{front.stepper(source / 'pictures')}\n```"
    index.write_text(index.read_text(encoding="utf-8").replace(front.PLACE, shown), encoding="utf-8")
    for page in source.rglob("*.md"):
        text = in_themes(page.read_text(encoding="utf-8"), page.parent)
        text = search.indexed(page.relative_to(source).as_posix(), text)
        page.write_text(moved(text, page, source), encoding="utf-8")


def in_themes(text: str, folder: Path) -> str:
    """Return a page whose SVG images follow the site's theme: one for the light theme and one for the dark."""

    def shown(match: re.Match[str]) -> str:
        picture = folder / match[2]
        if not picture.is_file() or "prefers-color-scheme" not in (svg := picture.read_text(encoding="utf-8")):
            return match[0]
        return "\n".join(
            f"![{match[1]}]({os.path.relpath(variant(svg, picture, theme), folder)}){{.only-{theme}}}"
            for theme in MEDIA
        )

    return re.sub(r"!\[([^\]]*)\]\(([^)]+\.svg)\)(?!\{)", shown, text)


def variant(svg: str, picture: Path, theme: str) -> Path:
    """Write a picture in the colors of a theme beside it, and return its path."""
    file = picture.with_name(f"{picture.stem}_{theme}.svg")
    file.write_text(re.sub(r"\(prefers-color-scheme: *dark\)", MEDIA[theme], svg), encoding="utf-8")
    return file


def moved(text: str, page: Path, source: Path) -> str:
    """Return a page with links adjusted between docs/ and the repository's root."""
    if page.name in BESIDE and page.parent == source:
        return text.replace("](docs/", "](")
    for name in BESIDE:
        text = re.sub(rf"\]\((?:\.\./)+{name}", f"]({'../' * len(page.relative_to(source).parts[1:])}{name}", text)
    return text


def illustrated(path: Path, results: list[Result], folder: Path) -> str:
    """Return a page with its pictures after the programs that drew them, and a link to its notebook."""
    drawn = {result.program.line: result for result in results if result.picture}
    lines, named = numbers(path)
    parts: list[str] = []
    picture: Result | None = None
    for block in [*read(path), Text("")]:
        text = block.text if isinstance(block, Text) else with_numbers(path, block, lines, named)
        if picture is not None:
            folder.mkdir(exist_ok=True)
            link = PICTURE.match(text)
            parts += shown(
                picture.picture, folder, f"{path.stem}_{picture.program.line}", link["text"] if link else SHOWN
            )
            text = text[link.end() :] if link else text
        parts.append(text)
        picture = drawn.get(block.line) if isinstance(block, Program) else None
    page = "".join(parts)
    if path.parent.name == "learn":
        link = f"[Open this chapter in a notebook](path:{path.stem}.ipynb){{.notebook}}"
        page = re.sub(r"^(# .*\n)", rf"\1\n{link}\n", page, count=1, flags=re.MULTILINE)
    return page


def with_numbers(path: Path, block: Program, lines: dict[int, int], named: dict[str, set[int]]) -> str:
    """Return a program in Markdown, with line numbers if some output names one of its lines."""
    first = lines.get(block.line)
    return block.markdown(block.output) if first is None else numbered(block, first, named[file_of(path, block)])


def numbers(path: Path) -> tuple[dict[int, int], dict[str, set[int]]]:
    """Return the first line numbers of programs by their place in the page, and by file the lines that outputs name."""
    named: dict[str, set[int]] = {}
    first: dict[int, int] = {}
    programs = [block for block in read(path) if isinstance(block, Program)]
    for program in programs:
        for file, number in re.findall(r"\b([\w-]+\.py)(?::|\", line )(\d+)", program.output or ""):
            named.setdefault(file, set()).add(int(number))
    start = 0
    for program in programs:
        length = program.code.count("\n") + 1
        begin = 0 if program.file else start
        if program.runs and not program.file:
            start += length
        if named.get(file_of(path, program), set()) & set(range(begin + 1, begin + length)):
            first[program.line] = begin + 1
    return first, named


def file_of(path: Path, program: Program) -> str:
    """Return the file name that outputs have for a program."""
    return program.file or f"{path.stem}.py"


def numbered(program: Program, first: int, named: set[int]) -> str:
    """Return a program with line numbers, and the lines that its page's outputs name emphasized."""
    inside = named & set(range(first, first + program.code.count("\n")))
    emphasized = ",".join(str(line - first + 1) for line in sorted(inside))
    options = f":linenos:\n:lineno-start: {first}\n:emphasize-lines: {emphasized}\n"
    printed = f"\n```text\n{program.output}```\n" if program.output else ""
    return f"```{{code-block}} python\n{options}\n{program.code}```\n{printed}"


SHOWN = "What the last line shows"
FRAME = "<iframe src='pictures/{name}.html' title='What the last line shows'></iframe>\n"
LINK = "<p><a href='pictures/{name}.html'>Open it as a page</a>, to work with by mouse or by keys.</p>"


def shown(forms: dict[str, str], folder: Path, name: str, text: str) -> Iterator[str]:
    """Write the representations of a value into a folder, and yield their Markdown."""
    if "svg" in forms:
        for theme in MEDIA:
            file = variant(forms["svg"], folder / f"{name}.svg", theme)
            yield f"\n![{text}](pictures/{file.name}){{.picture .only-{theme}}}\n"
    if "html" in forms:
        (folder / f"{name}.html").write_text(forms["html"], encoding="utf-8")
        html = ("" if "svg" in forms else FRAME) + LINK
        yield f"\n```{{raw}} html\n{html.format(name=name)}\n```\n"


def build(folder: Path) -> int:
    """Stage and build from scratch."""
    shutil.rmtree(folder, ignore_errors=True)
    source, html = folder / "source", folder / "html"
    folder.mkdir(parents=True)
    try:
        stage(source)
    except (Failure, reference.Undocumented) as failure:
        print(failure, file=sys.stderr)
        return 1
    return sphinx(source, html, folder / "trees") or finish(source, html)


def sphinx(source: Path, html: Path, trees: Path) -> int:
    jobs = (os.cpu_count() or 1) + 1  # one of which only hands out pages while they are written
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-j", str(jobs), "-c", str(DOCS)]
    return subprocess.call([*command, "-d", str(trees), str(source), str(html)])


def finish(source: Path, html: Path) -> int:
    """Copy what Sphinx leaves out, and check all links."""
    for page in source.rglob("pictures/*.html"):
        target = html / page.relative_to(source)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(page, target)
    search.write(html)
    broken = links.broken(html)
    print("\n".join(broken) or f"site written to {html}", file=sys.stderr if broken else sys.stdout)
    return min(len(broken), 1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path, default=BUILD)
    sys.exit(build(parser.parse_args().folder))
