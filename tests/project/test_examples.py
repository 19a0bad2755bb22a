"""Every example runs, in a reduced form, as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"

# The reduced form of each, and whether it needs data that is not shipped in the package.
REDUCED: dict[str, tuple[list[str], bool]] = {
    "char_gpt": (["--steps", "3", "--sample", "5"], True),
    "cnn": (["--steps", "5"], True),
    "custom_function": ([], False),
    "finite_elements": (["--side", "12", "--steps", "2"], False),
    "linear_regression": (["--steps", "50"], False),
    "manual_mlp": (["--steps", "3"], True),
    "mlp": (["--steps", "5"], True),
    "names_lstm": (["--steps", "3"], True),
    "numpy_program": (["--steps", "3"], False),
    "scalar_expression": ([], False),
    "scalar_fit": (["--steps", "20"], False),
    "scalar_moons": (["--epochs", "2", "--points", "20", "--resolution", "6"], False),
    "scalar_trace": ([], False),
    "vae": (["--steps", "3"], True),
}


def test_none_is_left_out():
    assert sorted(REDUCED) == sorted(path.stem for path in EXAMPLES.glob("*.py"))


@pytest.mark.every(4)
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(REDUCED))
def test_runs(name, tmp_path):
    arguments, needs_data = REDUCED[name]
    if needs_data and "RETROGRAD_DATA" not in os.environ:
        pytest.skip("RETROGRAD_DATA is not set")
    if name == "finite_elements":
        pytest.importorskip("scipy")
    if name == "scalar_moons":
        pytest.importorskip("matplotlib")
        arguments = [*arguments, "--out", str(tmp_path / "moons.png")]
    environment = os.environ | {"PYTHONPATH": str(EXAMPLES.parent / "src"), "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *arguments],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout


@pytest.mark.parametrize("name", sorted(REDUCED))
def test_is_short(name):
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) < 120
