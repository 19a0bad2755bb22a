"""What is shipped: the source distribution is the whole project, and declared bounds can be installed together."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
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


@pytest.mark.slow
def test_with_the_address_of_the_repository_the_description_has_absolute_links(tmp_path):
    """The page of a package index shows the README, whose relative links lead nowhere there."""
    files = (
        "setup.py",
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "src/retrograd/__init__.py",
        "src/retrograd/_version.py",
    )
    for name in files:
        if (ROOT / name).is_file():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, tmp_path / name)
    for url in ("", "https://example.org/owner/retrograd"):
        (tmp_path / f"info{len(url)}").mkdir()
        command = [sys.executable, "setup.py", "--quiet", "dist_info", "--output-dir", f"info{len(url)}"]
        environment = os.environ | {"RETROGRAD_URL": url}
        run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        (file,) = tmp_path.glob(f"info{len(url)}/*.dist-info/METADATA")
        head, _, text = file.read_text(encoding="utf-8").partition("\n\n")
        targets = re.findall(r"\]\(([^)]+)\)", text)
        assert "text/markdown" in head and len(targets) > 5
        assert all(target.startswith("https://") for target in targets) == bool(url)
        assert ("Project-URL: Source, https://example.org/owner/retrograd\n" in head) == bool(url)


def test_a_wheel_with_a_library_is_for_its_platform(tmp_path):
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copyfile(ROOT / name, tmp_path / name)
    (tmp_path / "src/retrograd/kernels").mkdir(parents=True)
    shutil.copyfile(ROOT / "src/retrograd/__init__.py", tmp_path / "src/retrograd/__init__.py")
    (tmp_path / "src/retrograd/kernels/__init__.py").write_text("")
    (tmp_path / "src/retrograd/kernels/loops.py").write_text("")
    made = tmp_path / "build/kernels"
    made.mkdir(parents=True)
    current = hashlib.sha256(b"loops.py\0\0").hexdigest()
    about = {"files": ["loops.py"], "plan": ["loops.py"], "digest": hashlib.sha256(b"code").hexdigest()}
    about |= {"sources": current, "planned": current}
    changes = {"": {}, "-stale": {"sources": "0"}, "-old-table": {"planned": "0"}, "-cut": {"digest": "0"}}
    for name, change in changes.items():
        (made / f"aarch64{name}.json").write_text(json.dumps(about | change))
        (made / f"aarch64{name}.so").write_bytes(b"code")
    (made / "aarch64-garbage.json").write_text("[]")
    command = [sys.executable, "setup.py", "--quiet", "bdist_wheel"]
    environment = os.environ | {"RETROGRAD_WHEEL": "aarch64"}
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    changed, damaged = "its sources or the table", "it is damaged"
    for name, why in (("stale", changed), ("old-table", changed), ("cut", damaged), ("garbage", damaged)):
        assert run.stderr.count(f"aarch64-{name} is left out: {why}") == 1, run.stderr
    (path,) = (tmp_path / "dist").iterdir()
    assert path.name.endswith("-py3-none-manylinux_2_17_aarch64.whl")
    with zipfile.ZipFile(path) as wheel:
        (about,) = [wheel.read(name).decode() for name in wheel.namelist() if name.endswith("/WHEEL")]
        libraries = [name for name in wheel.namelist() if "/library/" in name]
    assert "Root-Is-Purelib: false" in about
    assert libraries == ["retrograd/kernels/library/aarch64.json", "retrograd/kernels/library/aarch64.so"]


@pytest.mark.slow
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
