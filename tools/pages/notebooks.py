"""Convert chapters to Jupyter notebooks with the same text, programs and outputs.

python -m tools.pages.notebooks book                        write the chapters of docs/learn into the folder book
python -m tools.pages.notebooks class --without-solutions   the same for a class
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .blocks import PICTURE, Program, Text, read

INSTALL = """*This cell installs Retrograd and Matplotlib where the notebook runs. Skip it where both are installed.
It takes a wheel in the folder of the notebook; of a checkout write the path:*
`%pip install '/path/to/retrograd[plots]'`."""
WHEEL = '"$(ls retrograd-*.whl)[plots]"'  # no index has the package

SOLUTION, END = "<details><summary>Solution</summary>", "</details>"
HIDDEN = {"jupyter": {"source_hidden": True, "outputs_hidden": True}}  # until the reader unfolds the cell


def notebook(path: Path, solutions: bool = True, package: str = WHEEL) -> str:
    """Return a page as a notebook that installs a package; the programs of its solutions are folded, or left out."""
    cells = [markdown(INSTALL), code(f"%pip install --quiet {package}")]
    for block, solves in parts(read(path)):
        if solves and solutions and isinstance(block, Program):
            cells += [{**cell, "metadata": {**cell["metadata"], **HIDDEN}} for cell in cells_of(block)]
        elif solutions or not solves:
            cells += cells_of(block)
    cells = [{"id": f"cell-{n}", **cell} for n, cell in enumerate(cells)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def parts(blocks: list[Text | Program]) -> Iterator[tuple[Text | Program, bool]]:
    """Yield the blocks, and whether each belongs to a solution; texts are cut where a solution begins or ends."""
    solves = False
    for block in blocks:
        if isinstance(block, Program):
            yield block, solves
            continue
        for piece in re.split(f"({SOLUTION}|{END})", block.text):
            if piece in (SOLUTION, END):
                solves = piece == SOLUTION
            elif piece.strip():
                yield Text(f"{SOLUTION}\n\n{piece.strip()}\n\n{END}" if solves else piece), solves


def cells_of(block: Text | Program) -> list[dict[str, Any]]:
    """Return a block as cells; a script is written by one cell and run by the next."""
    if isinstance(block, Text):
        text = linked(block.text)
        return [markdown(text)] if text.replace(SOLUTION, "").replace(END, "").strip() else []
    if not block.runs:
        return [markdown(f"```python\n{block.code}```")]
    if block.file:
        launcher = "mpiexec -n 2 python" if block.value("two") else "python"
        return [code(f"%%writefile {block.file}\n{block.code}"), code(f"!{launcher} {block.file}", block.output)]
    return [code(drawn_once(block.code), block.output, ["raises-exception"] if block.note == "raises" else [])]


def drawn_once(program: str) -> str:
    """Return a program that shows its figure as notebooks do: a figure as the cell's value would appear twice.

    >>> drawn_once("figure, axes = plt.subplots()\\nfigure\\n")
    'figure, axes = plt.subplots()\\nplt.show()\\n'
    """
    return re.sub(r"\nfigure\n\Z", "\nplt.show()\n", program) if "plt." in program else program


def markdown(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": text.strip("\n")}


def code(source: str, output: str | None = None, tags: list[str] | None = None) -> dict[str, Any]:
    metadata = {"tags": tags} if tags else {}
    outputs = [{"output_type": "stream", "name": "stdout", "text": output}] if output else []
    cell = {"cell_type": "code", "execution_count": None, "metadata": metadata}
    return {**cell, "source": source.rstrip("\n"), "outputs": outputs}


def linked(text: str) -> str:
    """Return text whose links between chapters lead to notebooks, without the pictures that its programs draw."""
    text = re.sub(rf"\A({re.escape(SOLUTION)}\s*)?{PICTURE.pattern}", r"\1", text + "\n")
    return re.sub(r"\]\((\d\d_\w+)\.md", r"](\1.ipynb", text)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.strip(), formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where to write the notebooks")
    parser.add_argument("--without-solutions", action="store_true", help="leave out the solutions of the exercises")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    checkout = Path(__file__).resolve().parents[2]
    chapters = sorted((checkout / "docs" / "learn").glob("*.md"))
    for path in chapters:
        text = notebook(path, not options.without_solutions, f"'{checkout}[plots]'")
        (options.folder / f"{path.stem}.ipynb").write_text(text, encoding="utf-8")
    print(f"{len(chapters)} notebooks are in {options.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
