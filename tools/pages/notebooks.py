"""Convert a page to a Jupyter notebook with the same text, programs and outputs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from .blocks import PICTURE, Program, Text, read

INSTALL = """*This cell installs Retrograd and Matplotlib where the notebook runs. Skip it where both are installed;
with a checkout or a wheel, write its path instead of the name, such as* `'/path/to/retrograd[plots]'`."""


def notebook(path: Path) -> str:
    cells = [markdown(INSTALL), code("%pip install --quiet 'retrograd[plots]'")]
    cells += [cell for block in read(path) for cell in cells_of(block)]
    cells = [{"id": f"cell-{n}", **cell} for n, cell in enumerate(cells)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def cells_of(block: Text | Program) -> list[dict[str, Any]]:
    """Return a block as cells; a script is written by one cell and run by the next."""
    if isinstance(block, Text):
        return [markdown(linked(block.text))]
    if not block.runs:
        return [markdown(f"```python\n{block.code}```")]
    if block.file:
        launcher = "mpiexec -n 2 python" if block.value("two") else "python"
        return [code(f"%%writefile {block.file}\n{block.code}"), code(f"!{launcher} {block.file}", block.output)]
    return [code(block.code, block.output, ["raises-exception"] if block.note == "raises" else [])]


def markdown(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": text.strip("\n")}


def code(source: str, output: str | None = None, tags: list[str] | None = None) -> dict[str, Any]:
    metadata = {"tags": tags} if tags else {}
    outputs = [{"output_type": "stream", "name": "stdout", "text": output}] if output else []
    cell = {"cell_type": "code", "execution_count": None, "metadata": metadata}
    return {**cell, "source": source.rstrip("\n"), "outputs": outputs}


def linked(text: str) -> str:
    """Return text whose links between chapters lead to notebooks, without the pictures that its programs draw."""
    text = re.sub(rf"\A{PICTURE.pattern}", "", text)
    return re.sub(r"\]\((\d\d_\w+)\.md", r"](\1.ipynb", text)
