"""Public names, type stubs and the table in docs are what the operator table says."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info >= (3, 13), reason="Python removes the indentation from which they are composed")
def test_generated_files_are_current():
    run = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "generate.py"), "--check"], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.slow
def test_the_operator_table_names_every_loop_that_an_operator_hands_arrays_to():
    table = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| `(\S+)` \|(?:.*)\| (.*) \| (.*) \| .* \|$", table, re.MULTILINE)
    kernels = {name: listed for name, order, listed in found}
    named = {loop for listed in kernels.values() for loop in re.findall(r"`(\w+)`", listed)}
    handed = set()
    for file in (ROOT / "src" / "retrograd" / "ops").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("mapped", "by_rows"):
                handed.add(node.args[0].value)
    assert len(handed) > 10 and handed <= named
    assert kernels["nn.functional.conv2d"] == "`convolution`, `copies`, `norms`, `products`"
    assert kernels["add"] == ""


def test_the_operator_table_keeps_the_kernels_of_operators_that_need_scipy_when_it_is_missing(monkeypatch):
    loops = pytest.importorskip("tools.loops")
    cases = [case for case in loops.all_cases() if case.name in ("special.bessel_j0", "relu")]
    monkeypatch.setattr(loops, "all_cases", lambda: cases)
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    assert loops.loops().keys() == {"relu"}
