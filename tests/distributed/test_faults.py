"""A rank that goes wrong ends all others, soon, and one line says which it was and why."""

from __future__ import annotations

import time

import pytest

import retrograd as rg
from retrograd import nn
from retrograd.training import Checkpoint
from tests.distributed.launch import PROGRAMS, needs_mpi, own_lines, run

pytestmark = [pytest.mark.slow, needs_mpi]
pytest.importorskip("mpi4py")

FAULTS = {
    "killed": "rank {who} died",
    "killed in the walk": "rank {who} died",
    "raises": "rank {who} raised ValueError: a bad number (fault.py:",
    "all raise": "raised KeyError: 'everywhere' (fault.py:",
    "sleeps": "rank {who} did not reach all_reduce(float32(3,), SUM) within 2 s: it is at fault.py:",
    "computes": "rank {who} did not reach all_reduce(float32(3,), SUM) within 2 s: it is at fault.py:",
    "stopped": "rank {who} did not reach all_reduce(float32(3,), SUM) within 2 s: it does not answer",
    "leaves": "has ended its program",
    "shape": "rank {who} calls all_reduce(float32(4,), SUM), ranks {others} call all_reduce(float32(3,), SUM)",
    "dtype": "rank {who} calls all_reduce(float64(3,), SUM), ranks {others} call all_reduce(float32(3,), SUM)",
    "another": "rank {who} calls barrier(), ranks {others} call all_reduce(float32(3,), SUM)",
    "parameters": "differ between the ranks: weight: rank {who} has float32(4, 3), ranks {others} have float32(2, 3)",
}


@pytest.mark.every(3)
@pytest.mark.parametrize("who", [0, 1])
@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_is_told_once_and_ends_the_job(kind, who, tmp_path, pytestconfig):
    if who != list(FAULTS).index(kind) % 2 and not pytestconfig.getoption("--long"):
        pytest.skip("of the other rank: with --long")
    path = tmp_path / "run.safetensors"
    began = time.monotonic()
    result = run(3, PROGRAMS / "fault.py", kind, who, path)
    assert result.returncode != 0
    assert time.monotonic() - began < 15
    lines = own_lines(result.stderr)
    told = [line for line in lines if line.startswith("retrograd: ")]
    others = " and ".join(str(rank) for rank in range(3) if rank != who)
    assert len(told) == 1 and lines[-1] == told[0]
    assert FAULTS[kind].format(who=who, others=others) in told[0]
    assert result.stderr.count("Traceback") == (kind in ("raises", "all raise"))
    assert len(lines) == 1 or kind in ("raises", "all raise")
    assert own_lines(result.stdout) == []
    assert f"rank {who} " in told[0] or kind == "all raise"
    if kind != "parameters":
        model = nn.Linear(3, 2)
        assert Checkpoint(path, model=model, optimizer=rg.optim.SGD(model.parameters(), lr=0.1)).resume().step == 3
