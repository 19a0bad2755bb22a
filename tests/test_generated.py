"""Public names, type stubs and the table in docs are what the operator table says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def test_generated_files_are_current():
    run = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "generate.py"), "--check"], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_checkers_see_methods_arguments_and_results(tmp_path):
    """A program that uses Tensor's methods passes mypy; a wrong one does not."""
    import pytest

    pytest.importorskip("mypy")
    program = tmp_path / "program.py"
    program.write_text(
        "import retrograd as rg\n"
        "x = rg.ones(2, 3, requires_grad=True)\n"
        "y: rg.Tensor = x.exp().sum(dim=1).reshape(2, 1).transpose(0, 1)\n"
        "z: rg.Tensor = (x + 1) @ x.T\n"
        "y.no_such_method()\n"
    )
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--cache-dir", str(tmp_path / "cache"), str(program)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert 'has no attribute "no_such_method"' in run.stdout
    assert len([line for line in run.stdout.splitlines() if ": error:" in line]) == 1, run.stdout
