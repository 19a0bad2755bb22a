"""What is shipped: the source distribution is the whole project, and declared bounds can be installed together."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import retrograd

ROOT = Path(__file__).resolve().parent.parent.parent


def tracked_files() -> set[str]:
    try:
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a checkout")
    return {name for name in listed.splitlines() if (ROOT / name).is_file()}


@pytest.mark.slow
def test_the_source_distribution_holds_every_file_of_the_project(tmp_path):
    pytest.importorskip("build")
    wanted = {name for name in tracked_files() if not name.startswith(".")}
    command = [sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as files:
        held = {name.partition("/")[2] for name in files.getnames()}
    assert sorted(wanted - held) == []


def test_lower_bounds_are_read_from_the_project_file():
    command = [sys.executable, str(ROOT / "tools" / "lower_bounds.py")]
    pinned = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "numpy==2.0" in pinned and "torch==2.13.0" not in pinned


def test_the_citation_has_the_version_of_the_package():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {retrograd.__version__}\n" in citation


def test_the_line_that_installs_an_extra_needs_no_registry():
    """Errors name `pip install 'retrograd[cli]'`: pip reads the extra from the installed package."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", "--no-deps", "retrograd[cli]"]
    run = subprocess.run(command, capture_output=True, text=True)
    if "No module named pip" in run.stderr:
        pytest.skip("no pip here")
    try:
        importlib.metadata.distribution("retrograd")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("retrograd is on the path but not installed")
    assert run.returncode == 0 and "Requirement already satisfied: retrograd[cli]" in run.stdout, run.stderr
