"""`retrograd warmup` compiles what programs then find."""

import os
import subprocess
import sys

import pytest

import retrograd as rg
from retrograd import kernels
from retrograd.cli import main


def test_without_compiled_loops_there_is_nothing_to_compile(monkeypatch, capsys):
    monkeypatch.setattr(kernels, "compiled", lambda: None)
    assert main(["warmup"]) == 2
    assert "nothing to compile" in capsys.readouterr().err


@pytest.mark.slow
def test_what_is_compiled_once_is_found_afterwards(tmp_path):
    pytest.importorskip("numba")
    path = os.pathsep.join([os.path.dirname(os.path.dirname(rg.__file__)), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"RETROGRAD_CACHE": str(tmp_path), "PYTHONPATH": path}
    command = [sys.executable, "-m", "retrograd", "warmup"]
    first, second = [
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout for _ in range(2)
    ]
    assert "loops compiled" in first and "loops compiled" not in second
    assert second.count("nothing to compile") == first.count("\n")
