"""A mistake of the user's is one clear line on stderr and exit code 2; an interrupt is 130; never a traceback."""

import os
import subprocess
import sys

import pytest

from retrograd.cli import main
from retrograd.cli.commands import info
from retrograd.serialization import CorruptFileError
from retrograd.training import CheckpointError


def error_line(capsys):
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert captured.err.startswith("retrograd: error: ")
    return captured.err


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("doctor", "required: script (see"),
        ("trian housing", "trian"),
        ("train", "TASK"),
        ("train hosing", "hosing"),
        ("train housing --epochs none", "--epochs"),
        ("train housing --epochs 0", "--epochs"),
        ("train housing --batch-size -3", "--batch-size"),
        ("train housing --batch-size 1.5", "--batch-size"),
        ("train housing --lr 0", "--lr"),
        ("train housing --lr nan", "--lr"),
        ("train housing --lr inf", "--lr"),
        ("train housing --seed -1", "--seed"),
        ("train housing --out", "--out"),
        ("info --verbose", "--verbose"),
        ("check --quiet", "--quiet"),
    ],
)
def test_bad_argument_is_one_line_that_names_it(capsys, line, names):
    assert main(line.split()) == 2
    assert names in error_line(capsys)


def test_folder_that_cannot_be_made_is_one_line(capsys, tmp_path):
    (tmp_path / "file").write_text("in the way")
    target = tmp_path / "file" / "run"
    assert main(["train", "housing", "--out", str(target)]) == 2
    assert str(target) in error_line(capsys)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the superuser may write anywhere")
def test_folder_that_cannot_be_written_is_one_line(capsys, tmp_path):
    tmp_path.chmod(0o500)
    assert main(["train", "housing", "--out", str(tmp_path)]) == 2
    assert str(tmp_path) in error_line(capsys)


@pytest.mark.parametrize("line", ["train housing --out {}", "evaluate {}", "generate {}"])
def test_without_the_library_of_checkpoints_the_extra_is_named_before_the_work(capsys, monkeypatch, tmp_path, line):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    assert main(line.format(tmp_path / "run").split()) == 2
    assert "pip install 'retrograd[weights]'" in error_line(capsys)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (FileNotFoundError(2, "No such file or directory", "weights.npz"), 2, "there is no file or folder weights.npz"),
        (OSError("the disk\nis full"), 2, "the disk is full"),
        (MemoryError(), 2, "not enough memory"),
        (MemoryError("Unable to allocate\n3 TiB"), 2, "not enough memory: Unable to allocate 3 TiB"),
        (CorruptFileError("run.safetensors: truncated"), 2, "run.safetensors: truncated"),
        (CheckpointError("run.safetensors: of version 9"), 2, "run.safetensors: of version 9"),
        (BrokenPipeError(), 141, ""),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_errors_on_the_way_are_one_line(capsys, monkeypatch, error, code, said):
    def fail():
        raise error

    monkeypatch.setattr(info, "environment", fail)
    assert main(["info"]) == code
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == bool(said)


def test_a_defect_of_ours_is_not_hidden(monkeypatch):
    monkeypatch.setattr(info, "environment", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["info"])


def test_unknown_kernels_are_one_line(monkeypatch, capsys):
    monkeypatch.setenv("RETROGRAD_KERNELS", "fastest")
    assert main(["compare", "nothing"]) == 2
    text = "retrograd: error: RETROGRAD_KERNELS: expected compiled, jit or reference, got 'fastest'\n"
    assert capsys.readouterr().err == text


@pytest.mark.slow
def test_unknown_backend_is_one_line():
    result = run_module("info", RETROGRAD_BACKEND="abacus")
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "RETROGRAD_BACKEND" in result.stderr


@pytest.mark.parametrize("line", ["--help", "--version", "train --help", "train housing --help", "info --help"])
def test_help_and_version_go_to_stdout(capsys, line):
    with pytest.raises(SystemExit) as stop:
        main(line.split())
    assert stop.value.code == 0
    assert "retrograd" in capsys.readouterr().out


def run_module(*arguments, **environment):
    command = [sys.executable, "-m", "retrograd", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
