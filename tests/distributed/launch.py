"""Starting programs in several processes, as a user does."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
MPIEXEC = Path(sys.executable).with_name("mpiexec")
BANNER = ("===", "=  ", "YOUR APPLICATION", "This typically", "Please see", "[mpiexec@")  # the launcher's own words

needs_mpi = pytest.mark.skipif(not MPIEXEC.exists(), reason="needs mpiexec of the extra mpi")


def run(count: int, *arguments: object, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Run ``python *arguments`` in so many processes; see that none of them is left over."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "RETROGRAD_TEST_JOB": f"{os.getpid()}.{time.monotonic()}"}
    command = [MPIEXEC, "-n", str(count), sys.executable, *arguments]
    result = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        env=environment,
        timeout=timeout,
        stdin=subprocess.DEVNULL,
    )
    assert left_over(environment["RETROGRAD_TEST_JOB"]) == []
    return result


def program(count: int, name: str, *arguments: object, timeout: float = 60) -> list[str]:
    """The lines that a program prints, which must end well."""
    result = run(count, PROGRAMS / name, *arguments, timeout=timeout)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout.splitlines()


def own_lines(text: str) -> list[str]:
    """What the launcher did not say itself."""
    return [line for line in text.splitlines() if line.strip() and not line.startswith(BANNER)]


def left_over(job: str) -> list[str]:
    """The processes of a job that are there two seconds after its end."""
    until = time.monotonic() + 2
    while found := [path.parent.name for path in Path("/proc").glob("[0-9]*/environ") if _has(path, job)]:
        if time.monotonic() > until:
            return found
        time.sleep(0.1)
    return []


def _has(path: Path, job: str) -> bool:
    try:
        return job.encode() in path.read_bytes()
    except OSError:
        return False
