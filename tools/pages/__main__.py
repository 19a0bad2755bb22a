"""Run the pages of docs/, and check or update the output of their programs.

python -m tools.pages                        all pages: fail if a program prints something else
python -m tools.pages --write docs/learn/01*.md   run these pages and write the output into them
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .blocks import PICTURE, Program, read
from .running import Failure, checked, run

DOCS = Path(__file__).resolve().parents[2] / "docs"


def pages() -> list[Path]:
    """Return the pages with programs: chapters and guides."""
    return sorted([*DOCS.glob("learn/*.md"), *DOCS.glob("guides/*.md")])


def write(path: Path) -> None:
    """Run a page, replace the output in it, and write the pictures that it shows into the folder beside it."""
    results = {result.program.line: result for result in run(path)}
    parts, picture = [], {}
    for block in read(path):
        if isinstance(block, Program):
            result = results.get(block.line)
            parts.append(block.markdown(result.output if result else block.output))
            picture = result.picture if result else {}
            continue
        parts.append(block.text)
        if "svg" in picture and (link := PICTURE.match(block.text)):
            file = path.parent / link["file"]
            file.parent.mkdir(exist_ok=True)
            file.write_text(picture["svg"], encoding="utf-8")
    path.write_text("".join(parts), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pages", nargs="*", type=Path, help="the pages; all of docs/learn and docs/guides if none")
    parser.add_argument("--write", action="store_true", help="write the programs' output into the pages")
    options = parser.parse_args()
    failed = 0
    for path in options.pages or pages():
        try:
            if options.write:
                write(path.resolve())
            else:
                checked(path.resolve())
        except Failure as failure:
            failed += 1
            print(failure, file=sys.stderr)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
