"""Without Numba and what it brings everything runs, on NumPy alone; tests of optional packages are skipped."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
sys.modules["numba"] = sys.modules["llvmlite"] = None
import retrograd as rg
from retrograd.nn import functional as F

model = rg.nn.Sequential(rg.nn.Linear(600, 700), rg.nn.ReLU(), rg.nn.Linear(700, 10))
optimizer = rg.optim.AdamW(model.parameters())
loss = F.cross_entropy(model(rg.randn(512, 600)), rg.arange(512) % 10)
loss.backward()
optimizer.step()
rg.nn.Conv2d(3, 8, 3)(rg.randn(4, 3, 40, 40)).tanh().sum().backward()
rg.nn.LSTM(16, 64)(rg.randn(20, 8, 16))[0].sum().backward()
q = rg.randn(2, 4, 64, 32, requires_grad=True)
F.scaled_dot_product_attention(q, q, q).sum().backward()
rg.zeros(600, 600).copy_(rg.ones(600, 600))
square = rg.compile(lambda x: (x @ x).tanh().sum())
assert square(rg.ones(300, 300)) == square(rg.ones(300, 300))
assert rg.set_flush_denormal(False) in (True, False)
"""


def test_nothing_needs_numba_or_llvmlite():
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")


BLOCKED = """
import sys
sys.modules["ml_dtypes"] = None
import pytest
sys.exit(pytest.main(["-q", "-n0", "-p", "no:cacheprovider", *sys.argv[1:]]))
"""


@pytest.mark.slow
def test_a_test_is_skipped_whose_optional_package_is_missing(tmp_path):
    test = Path(__file__).resolve().parents[1] / "core" / "arrays" / "test_dtypes.py"
    command = [sys.executable, "-c", BLOCKED, str(test), "-k", "says_how_to_convert"]
    told = subprocess.run(command, capture_output=True, text=True, cwd=test.parents[3])
    assert told.returncode == 0 and "skipped" in told.stdout, told.stdout
