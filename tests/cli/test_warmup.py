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


# The command with those of its exercises whose names hold a word.
PROGRAM = """
import sys
from retrograd.cli import main
from retrograd.cli.commands import warmup
exercises, word = warmup.exercises, sys.argv[1]
warmup.exercises = lambda: [exercise for exercise in exercises() if word in exercise[0]]
sys.exit(main(["warmup"]))
"""


def twice(word: str, **environment: str) -> list[str]:
    path = os.pathsep.join([os.path.dirname(os.path.dirname(rg.__file__)), os.environ.get("PYTHONPATH", "")])
    command, environment = [sys.executable, "-c", PROGRAM, word], {**os.environ, "PYTHONPATH": path, **environment}
    environment["RETROGRAD_KERNELS"] = "jit"
    return [
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout for _ in range(2)
    ]


@pytest.mark.slow
def test_what_is_compiled_once_is_found_afterwards(tmp_path):
    pytest.importorskip("numba")
    first, second = twice("classes", RETROGRAD_CACHE=str(tmp_path))
    assert "loops compiled" in first and second == "classes: nothing to compile\n"


@pytest.mark.slow
def test_no_exercise_compiles_again():
    pytest.importorskip("numba")
    first, second = twice("")
    assert "loops compiled" not in second
    assert second.count("nothing to compile") == first.count("\n") > 5
