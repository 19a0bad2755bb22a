"""`retrograd torch`: a distribution named torch in environments made for the tests."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import venv
from importlib.metadata import Distribution
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from retrograd.cli import main
from retrograd.compat import distribution
from retrograd.compat.distribution import InMemory, is_ours

SOURCE = Path(__file__).resolve().parents[3] / "src"
VERSION = "2.13.0+retrograd"


class Environment:
    """A virtual environment that has this one's NumPy, and finds Retrograd on its path."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, symlinks=True)
        self.folder, self.python = folder, folder / "bin" / "python"
        self.site = next((folder / "lib").glob("python*")) / "site-packages"
        self.link("numpy*")

    def link(self, *patterns: str) -> None:
        """Have what this process's packages have by these names: an installation would take seconds."""
        for part in chain.from_iterable(map(Path(np.__file__).parents[1].glob, patterns)):
            (self.site / part.name).symlink_to(part)

    def run(self, *arguments: str, path: Path | None = SOURCE, **variables: str) -> subprocess.CompletedProcess[str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL"))}
        env = {**inherited, **({"PYTHONPATH": str(path)} if path else {}), **variables}
        return subprocess.run([self.python, *arguments], capture_output=True, text=True, env=env, cwd=self.folder)

    def torch(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return self.run("-m", "retrograd", "torch", *arguments, **variables)

    def program(self, text: str, **variables: str) -> str:
        path = self.folder / "program.py"
        path.write_text(textwrap.dedent(text))
        result = self.run(str(path), **variables)
        assert result.returncode == 0, result.stderr
        return result.stdout.strip()


def pretend_pytorch(site: Path) -> None:
    (site / "torch").mkdir()
    (site / "torch" / "__init__.py").write_text("__version__ = '2.9.1'\n")
    (site / "torch-2.9.1.dist-info").mkdir()
    (site / "torch-2.9.1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: torch\nVersion: 2.9.1\n")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    environment = Environment(tmp_path_factory.mktemp("installed"))
    result = environment.torch("install")
    assert result.returncode == 0, result.stderr
    said = result.stdout.splitlines()
    assert said[0] == f"torch {VERSION} is installed in {environment.site}: `import torch` imports Retrograd"
    assert "'torchvision==0.28.*'" in said[1]
    return environment


@pytest.mark.slow
def test_python_and_importlib_see_torch(installed):
    shown = installed.program(
        """
        import importlib.metadata, importlib.util
        import torch, torch.nn.functional as F, functorch
        from torch.utils.data import DataLoader
        print(torch.is_retrograd, torch.__version__, importlib.metadata.version("torch"))
        print(importlib.metadata.packages_distributions()["torch"], importlib.util.find_spec("torch") is not None)
        print(F.relu(torch.tensor([-1.0, 2.0])).tolist(), torch.torch is torch, callable(functorch.vmap))
        """
    )
    assert shown.splitlines() == [f"True {VERSION} {VERSION}", "['torch'] True", "[0.0, 2.0] True True"]


@pytest.mark.slow
def test_processes_that_a_program_starts_see_torch(installed):
    shown = installed.program(
        """
        import multiprocessing, subprocess, sys
        import torch
        from torch.utils.data import DataLoader

        def double(x):
            return 2 * x

        if __name__ == "__main__":
            command = [sys.executable, "-c", "import torch; print(torch.is_retrograd)"]
            print(subprocess.run(command, capture_output=True, text=True).stdout.strip())
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.apply(double, (torch.ones(1),)).tolist())
            loader = DataLoader(torch.arange(3), num_workers=1, multiprocessing_context="spawn")
            print([batch.item() for batch in loader])
        """
    )
    assert shown.splitlines() == ["True", "[2.0]", "[0, 1, 2]"]


@pytest.mark.slow
def test_torch_without_retrograd_says_what_to_do(installed):
    result = installed.run("-c", "import torch", path=None)
    assert "torch is Retrograd's in this environment, but retrograd is not installed" in result.stderr


@pytest.mark.slow
def test_installing_again_replaces_what_an_interrupted_installation_left(tmp_path):
    environment = Environment(tmp_path)
    environment.torch("install")
    info = environment.site / f"torch-{VERSION}.dist-info"
    (info / "RECORD").unlink()
    info.rename(environment.site / "torch-2.12.0+retrograd.dist-info")
    assert environment.torch("install").returncode == 0
    assert [path.name for path in environment.site.glob("torch-*")] == [info.name] and (info / "RECORD").exists()


@pytest.mark.slow
def test_removing_leaves_nothing_and_environments_are_independent(installed, tmp_path):
    other = Environment(tmp_path)
    before = sorted(path.name for path in other.site.iterdir())
    other.torch("install")
    result = other.torch("remove")
    assert result.stdout == f"torch is removed from {other.site}\n"
    assert sorted(path.name for path in other.site.iterdir()) == before
    result = other.torch("remove")
    assert result.returncode == 0 and "is not installed" in result.stdout
    assert installed.program("import torch; print(torch.is_retrograd)") == "True"


@pytest.mark.slow
def test_pytorch_is_never_replaced_or_removed(tmp_path):
    environment = Environment(tmp_path)
    pretend_pytorch(environment.site)
    for action, message in (("install", "PyTorch 2.9.1 is installed in"), ("remove", "nothing was removed")):
        result = environment.torch(action)
        assert result.returncode == 2 and message in result.stderr and result.stderr.count("\n") == 1
    assert environment.run("-c", "import torch; print(torch.__version__)").stdout == "2.9.1\n"


@pytest.mark.slow
def test_a_folder_named_torch_of_someone_else_stays(tmp_path):
    environment = Environment(tmp_path)
    (environment.site / "torch").mkdir()
    (environment.site / "torch" / "__init__.py").write_text("fire = True\n")
    result = environment.torch("install")
    assert result.returncode == 2 and "exists and is not Retrograd's" in result.stderr
    assert (environment.site / "torch" / "__init__.py").read_text() == "fire = True\n"


def test_a_folder_that_cannot_be_written_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr(distribution, "_installed", lambda path=None: iter(()))
    monkeypatch.setattr(distribution.sysconfig, "get_path", lambda name: "/proc/nowhere")
    monkeypatch.setattr(distribution.sys, "prefix", "/proc")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    assert main(["torch", "install"]) == 2
    assert "torch install: cannot write to /proc/nowhere" in capsys.readouterr().err


def test_a_python_of_the_system_is_left_alone_unless_asked(monkeypatch, tmp_path, capsys):
    (tmp_path / "EXTERNALLY-MANAGED").touch()
    monkeypatch.setattr(distribution, "_installed", lambda path=None: iter(()))
    monkeypatch.setattr(distribution.sysconfig, "get_path", lambda name: str(tmp_path))
    monkeypatch.setattr(distribution.sys, "prefix", sys.base_prefix)
    assert main(["torch", "install"]) == 2
    assert "--break-system-packages" in capsys.readouterr().err
    assert main(["torch", "install", "--break-system-packages"]) == 0
    assert (tmp_path / "torch" / "__init__.py").exists()


@pytest.mark.slow
def test_the_user_s_folder_is_used_where_python_looks_into_it(tmp_path):
    environment = Environment(tmp_path / "env")
    result = environment.torch("install", "--user")
    assert result.returncode == 2 and "--user" in result.stderr and "leave --user out" in result.stderr
    environment.python = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    paths = f"{SOURCE}{os.pathsep}{environment.site}"
    for action, count in (("install", 1), ("remove", 0)):
        result = environment.torch(action, "--user", path=paths, PYTHONUSERBASE=str(tmp_path / "user"))
        assert result.returncode == 0, result.stderr
        assert len(list((tmp_path / "user").rglob("torch/__init__.py"))) == count


@pytest.mark.slow
def test_another_active_environment_is_pointed_out(tmp_path):
    environment = Environment(tmp_path)
    result = environment.torch("install", VIRTUAL_ENV="/elsewhere")
    assert result.returncode == 0 and "/elsewhere is active, but this retrograd belongs to" in result.stderr


@pytest.mark.slow
def test_programs_of_retrograd_run_see_the_distribution_without_an_installation(tmp_path):
    environment = Environment(tmp_path)
    program = tmp_path / "program.py"
    program.write_text(
        "import importlib.metadata as m\nprint(m.version('torch'), m.packages_distributions()['torch'])\n"
        "print(m.version('NumPy') != '', [d.metadata['Summary'] for d in m.distributions() if d.name == 'torch'])\n"
    )
    result = environment.run("-m", "retrograd", "run", str(program))
    assert result.stdout.splitlines() == [
        f"{VERSION} ['torch']",
        "True ['Retrograd under the name torch. This is not PyTorch.']",
    ]
    assert is_ours(InMemory()) and isinstance(InMemory(), Distribution)


@pytest.mark.slow
def test_pip_lists_checks_and_removes_torch(tmp_path):
    pytest.importorskip("pip")
    environment = Environment(tmp_path)
    environment.link("pip", "pip-*")
    environment.torch("install")
    assert f"torch=={VERSION}\n" in environment.run("-m", "pip", "list", "--format", "freeze").stdout
    (environment.site / "asks-1.0.dist-info").mkdir()
    (environment.site / "asks-1.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: asks\nVersion: 1.0\nRequires-Dist: torch>=2.2,<3\nRequires-Dist: torch==2.13.0\n"
    )
    assert "No broken requirements" in environment.run("-m", "pip", "check").stdout
    environment.run("-c", "import torch")  # writes __pycache__
    result = environment.run("-m", "pip", "uninstall", "--yes", "torch")
    assert f"Successfully uninstalled torch-{VERSION}" in result.stdout
    assert not (environment.site / "torch").exists() and not (environment.site / "functorch").exists()
    assert "is not installed" in environment.torch("remove").stdout
