"""The wheel: its tag and contents, and a program that runs from it alone, with NumPy as the only other package."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import retrograd as rg
from retrograd.kernels.runtime import library

pytestmark = pytest.mark.slow
ROOT = Path(rg.__file__).resolve().parents[2]
MADE = ROOT / "build" / "kernels"

PROGRAM = """
import sys
for name in ("numba", "llvmlite", "scipy"):
    sys.modules[name] = None
import numpy as np
import retrograd as rg
from retrograd import kernels
from retrograd.nn import functional as F
from retrograd.kernels.runtime import library
x = rg.from_numpy(np.linspace(-5, 5, 1 << 16, dtype=np.float32).reshape(256, 256)).requires_grad_()
loss = F.softmax(F.gelu(x), -1).square().sum()
loss.backward()
step = rg.compile(lambda x: ((x * 2 + 1).tanh() * x).sum())
found = [step(x).item() for _ in range(2)][1]
opened = library.opened()
name = opened.level.name if opened is not None and kernels.compiled() is not None else "none"
print(name, round(loss.item(), 3), round(float(x.grad[3, 7]) * 1e4, 3), round(found, 0))
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with what a wheel of this checkout installs, and the wheel's name."""
    pytest.importorskip("build")
    if library.found() is None or not (ROOT / "pyproject.toml").is_file():
        pytest.skip("there is no library")
    place = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(place), str(ROOT)]
    made = subprocess.run(command, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
    (wheel,) = place.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        files.extractall(place / "site")
    return place / "site", wheel


def said_by(site: Path, **environment: str) -> tuple[list[str], str]:
    """What the program prints where this folder is installed, and its warnings."""
    numpy = Path(np.__file__).parent.parent
    program = f"import sys; sys.path[:0] = [{str(site)!r}]; sys.path.append({str(numpy)!r})\n{PROGRAM}"
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("RETROGRAD", "PYTHON"))}
    bytecode = f"pycache_prefix={site.parent / 'bytecode'}"  # written by the first program, for all others
    command = [sys.executable, "-I", "-S", "-X", bytecode, "-c", program]
    told = subprocess.run(command, capture_output=True, text=True, env=clean | environment, cwd=site.parent)
    assert told.returncode == 0, told.stderr
    return told.stdout.split(), told.stderr


def files_of(site: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in site.rglob("*")}


def test_a_wheel_with_a_library_is_for_its_platform_and_small(installed):
    site, wheel = installed
    level, _ = library.found()
    assert wheel.name.endswith("-py3-none-manylinux_2_17_x86_64.whl") and wheel.stat().st_size < 12e6
    held = {path.name for path in (site / "retrograd" / "kernels" / "library").iterdir()}
    assert {f"{level.name}.so", f"{level.name}.json"} <= held
    code = (site / "retrograd" / "kernels" / "library" / f"{level.name}.so").read_bytes()
    assert b"GLIBC_" not in code  # no version of the C library


def test_a_program_runs_from_a_wheel_with_numpy_alone_and_writes_nothing(installed):
    site, _ = installed
    level, _ = library.found()
    before = files_of(site)
    for path in [site, *site.rglob("*")]:
        path.chmod(path.stat().st_mode & ~0o222)
    try:
        (name, *numbers), warned = said_by(site)
    finally:
        for path in [site, *site.rglob("*")]:
            path.chmod(path.stat().st_mode | 0o200)
    assert name == level.name and not warned and files_of(site) == before
    (without, *reference), warned = said_by(site, RETROGRAD_KERNELS="reference")
    assert without == "none" and not warned
    np.testing.assert_allclose(np.array(numbers, float), np.array(reference, float), rtol=1e-2)


@pytest.mark.parametrize("harm", ["cut short", "for another processor", "not a library", "without BLAS"])
def test_a_library_that_cannot_be_used_is_one_warning_and_numpys_numbers(harm, installed):
    site, _ = installed
    level, _ = library.found()
    code = site / "retrograd" / "kernels" / "library" / f"{level.name}.so"
    index = code.with_suffix(".json")
    whole, about = code.read_bytes(), index.read_text()
    try:
        if harm == "cut short":
            code.write_bytes(whole[: len(whole) // 2])
        else:
            changed = {
                "for another processor": whole[:18] + b"\xb7\0" + whole[20:],  # ELF's number of aarch64
                "not a library": b"no library" * 20,
                "without BLAS": whole.replace(b"_slot\0", b"_slxt\0"),
            }[harm]
            code.write_bytes(changed)
            from hashlib import sha256

            digest = [sha256(content).hexdigest() for content in (whole, changed)]
            sizes = [f'"size": {len(content)}' for content in (whole, changed)]
            index.write_text(about.replace(*digest).replace(*sizes))
        (name, *_), warned = said_by(site)
    finally:
        code.write_bytes(whole)
        index.write_text(about)
    assert name == "none" and warned.count("RuntimeWarning") == 1 and "are not used, since it" in warned
