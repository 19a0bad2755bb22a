"""`retrograd info` tells versions, backend, device, BLAS and threads, whatever is installed."""

import importlib.metadata
import platform
import sys

import numpy as np
import pytest

import retrograd
from retrograd.cli import main
from retrograd.cli.commands import info


def rows(table):
    return {row[0]: row[1] for row in table.rows}


def test_environment_tells_the_versions_that_run():
    facts = rows(info.environment()[0])
    assert facts["retrograd"] == retrograd.__version__
    assert facts["numpy"] == np.__version__
    assert facts["python"].startswith(platform.python_version())
    assert facts["backend"].split()[0] in ("numpy", "cupy")
    assert facts["device"].split(":")[0] in ("cpu", "cuda")
    assert int(facts["processors"]) >= 1


def test_info_prints_every_row(capsys):
    assert main(["info"]) == 0
    out = capsys.readouterr().out
    for table in info.environment():
        assert table.title in out
        for row in table.rows:
            assert all(cell in out for cell in row)


def test_optional_packages_are_looked_up_not_imported(monkeypatch):
    def version(distribution):
        if distribution == "cupy-cuda13x":
            return "14.0"
        raise importlib.metadata.PackageNotFoundError(distribution)

    monkeypatch.setattr(importlib.metadata, "version", version)
    imported = set(sys.modules)
    packages = rows(info.environment()[1])
    assert packages.pop("cupy") == "14.0"
    assert set(packages.values()) == {"not installed"}
    assert "cupy" not in set(sys.modules) - imported


def test_every_extra_named_is_one_that_pyproject_has():
    try:
        extras = importlib.metadata.metadata("retrograd").get_all("Provides-Extra")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("retrograd is on the path but not installed")
    assert {extra for _, extra, _ in info.OPTIONAL} <= set(extras)


def test_blas_threads_come_from_the_blas_itself():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        assert rows(info.environment()[0])["BLAS threads"].startswith("1 ")


def test_blas_threads_without_threadpoolctl_come_from_the_environment(monkeypatch):
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    assert rows(info.environment()[0])["BLAS threads"] == "3 (OPENBLAS_NUM_THREADS)"
