"""Freed memory is kept for the next array, and given back when a program asks."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from copy import deepcopy

import numpy as np
import pytest

import retrograd as rg
from retrograd.core.arrays import memory
from retrograd.core.arrays.layout import is_view, place_of

pytestmark = pytest.mark.skipif(not memory._LIBC, reason="glibc alone has the thresholds")

PROGRAM = """
import resource
import retrograd as rg

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def resident():
    with open("/proc/self/statm") as statistics:
        return int(statistics.read().split()[1]) * resource.getpagesize()

def step(x):
    (x * 2 + 1).sum().backward()
    x.grad = None

x = rg.ones(2_000_000, requires_grad=True)
for _ in range(3):
    step(x)
before = faults()
for _ in range(5):
    step(x)
new = faults() - before
held = resident()
del x
rg.empty_cache()
print(new, held - resident())
"""


def run(**environment: str) -> tuple[int, int]:
    """Page faults of five steps, and the bytes that empty_cache gave back."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
    command = [sys.executable, "-c", PROGRAM]
    out = subprocess.run(command, env=inherited | environment, check=True, capture_output=True, text=True).stdout
    faults, given_back = map(int, out.split())
    return faults, given_back


@pytest.mark.slow
def test_a_repeated_step_faults_in_no_page_anew():
    # Five steps make at least ten new arrays of 8 MB, in pages of 4 KiB or of 2 MiB.
    assert run()[0] < 20 < run(RETROGRAD_KEEP_MEMORY="0")[0]


def test_empty_cache_gives_the_memory_of_freed_arrays_back():
    assert run()[1] > 8_000_000


def test_thresholds_that_the_environment_sets_are_left_alone(monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "100000")
    assert memory.keep_freed_memory() is False


def test_large_state_of_an_optimizer_lies_outside_of_the_heap():
    p = rg.ones(512, 1024, requires_grad=True)
    p.grad = rg.ones(512, 1024)
    optimizer = rg.optim.Adam([p], lr=0.5)
    optimizer.step()
    for name in ("exp_avg", "exp_avg_sq"):
        state = optimizer.state[p][name].array
        assert place_of(state) % mmap.PAGESIZE == 0 and not is_view(state) and state.flags.writeable
    np.testing.assert_allclose(optimizer.state[p]["exp_avg"].numpy(), np.full((512, 1024), 0.1), rtol=1e-6)
    again = deepcopy(optimizer.state_dict())
    np.testing.assert_array_equal(again["state"][0]["exp_avg"].numpy(), optimizer.state[p]["exp_avg"].numpy())
