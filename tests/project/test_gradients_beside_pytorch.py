"""Each row of the guide about differences from PyTorch is true, in Retrograd and in PyTorch."""

import re
from importlib.util import find_spec
from typing import Any

import pytest

from tools.pages.__main__ import DOCS
from tools.pages.blocks import Program, read
from tools.pages.running import agree

PAGE = DOCS / "guides" / "gradients_beside_pytorch.md"
ROWS = [
    tuple(cell.strip().strip("`") for cell in line.strip("|").split("|"))
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if re.match(r"\| .* \| `", line)
]


def evaluated(line: str, imported: str) -> str:
    program = next(block.code for block in read(PAGE) if isinstance(block, Program))
    names: dict[str, Any] = {}
    exec(program.replace("import retrograd as torch", imported), names)
    return repr(eval(line, names))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_shows_what_its_line_gives(row, capsys):
    _, line, ours, *rest = row
    assert agree(ours, evaluated(line, "import retrograd as torch"))
    theirs = rest[0] if len(rest) == 2 else ours
    if find_spec("torch") is not None:
        assert agree(theirs, evaluated(line, "import torch"))


def test_there_are_rows_of_both_tables():
    assert {len(row) for row in ROWS} == {4, 5}
