"""Compiled loops against their references: values, edges, threads, and life without Numba."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F
from retrograd import kernels
from retrograd.kernels import threads

pytest.importorskip("numba")

SHAPE = (331, 127)  # more than USEFUL, and no multiple of anything
SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-30, -1e-30, 1e30, -1e30, 88.7, 88.8, -87.4, -103.0, -104.0, 0.625]

ELEMENTWISE = {
    "exp": rg.exp,
    "tanh": rg.tanh,
    "sigmoid": rg.sigmoid,
    "relu": F.relu,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
}
ROWS = {
    "softmax": lambda x: F.softmax(x, -1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "cumsum": lambda x: rg.cumsum(x, -1),
    "layer_norm": lambda x: F.layer_norm(x, SHAPE[-1:]),
}
CASES = ELEMENTWISE | ROWS


def draw(dtype=np.float32):
    return (3 * np.random.default_rng(0).standard_normal(SHAPE)).astype(dtype)


def value_and_gradient(function, x):
    leaf = rg.tensor(x, requires_grad=True)
    y = function(leaf)
    weights = np.random.default_rng(1).standard_normal(y.shape).astype(x.dtype)
    y.backward(rg.tensor(weights))
    return y.detach().numpy(), leaf.grad.numpy()


@pytest.fixture
def count_of_loops(monkeypatch):
    """How often a loop was asked for."""
    asked = []
    compiled = kernels.compiled
    monkeypatch.setattr(kernels, "compiled", lambda: asked.append(1) or compiled())
    return asked


@pytest.mark.parametrize("name", CASES)
def test_a_loop_is_as_accurate_as_single_precision_allows(name, count_of_loops):
    found = value_and_gradient(CASES[name], draw())
    assert len(count_of_loops) >= 2
    for single, double in zip(found, value_and_gradient(CASES[name], draw().astype(np.float64)), strict=True):
        assert single.dtype == np.float32
        np.testing.assert_allclose(single, double, rtol=2e-6, atol=2e-6 * np.abs(double).max())


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_a_loop_does_at_the_edges_what_the_reference_does(name, monkeypatch):
    x = draw()
    x.reshape(-1)[: len(SPECIAL)] = SPECIAL
    found = value_and_gradient(ELEMENTWISE[name], x)
    monkeypatch.setattr(kernels, "compiled", lambda: None)
    for loop, reference in zip(found, value_and_gradient(ELEMENTWISE[name], x), strict=True):
        edge, wanted = (array.reshape(-1)[: len(SPECIAL)] for array in (loop, reference))
        np.testing.assert_allclose(edge, wanted, rtol=2e-6, atol=1e-6)


def test_exp_reaches_the_smallest_number():
    x = np.linspace(-104, 89, 1 << 16, dtype=np.float32)
    y = rg.exp(rg.tensor(x)).numpy()
    exact = np.exp(x.astype(np.float64))
    inside = exact < np.finfo(np.float32).max
    np.testing.assert_allclose(y[inside], exact[inside], rtol=1.2e-7, atol=1.5e-45)
    assert np.isinf(y[~inside]).all()


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("row", [[np.nan], [np.inf], [-np.inf] * SHAPE[1], [1e30, 1e30], [-np.inf, 5.0]])
def test_special_rows(name, row, monkeypatch):
    x = draw()
    x[7, : len(row)] = row
    found = value_and_gradient(ROWS[name], x)
    monkeypatch.setattr(kernels, "compiled", lambda: None)
    for loop, reference in zip(found, value_and_gradient(ROWS[name], x), strict=True):
        np.testing.assert_allclose(loop, reference, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("causal", "masked"), [(False, False), (True, False), (False, True)])
def test_attention(causal, masked):
    rng = np.random.default_rng(0)
    shape = (4, 3, 80, 16)
    mask = rg.tensor(rng.random((80, 80)) < 0.7) if masked else None
    q, k, v, g = rng.standard_normal((4, *shape)).astype(np.float32)

    def run(dtype):
        leaves = [rg.tensor(a.astype(dtype), requires_grad=True) for a in (q, k, v)]
        y = F.scaled_dot_product_attention(*leaves, attn_mask=mask, is_causal=causal)
        y.backward(rg.tensor(g.astype(dtype)))
        return [y.detach(), *[leaf.grad for leaf in leaves]]

    for single, double in zip(run(np.float32), run(np.float64), strict=True):
        np.testing.assert_allclose(single.numpy(), double.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("affine", [False, True])
def test_batch_norm(affine, count_of_loops):
    rng = np.random.default_rng(0)
    x, g = (100 + rng.standard_normal((2, 24, 7, 15, 17))).astype(np.float32)
    parameters = rng.standard_normal((2, 7)).astype(np.float32)

    def run(dtype):
        leaf = rg.tensor(x.astype(dtype), requires_grad=True)
        wb = [rg.tensor(p.astype(dtype), requires_grad=True) for p in parameters] if affine else [None, None]
        running = [rg.zeros(7, dtype=leaf.dtype), rg.ones(7, dtype=leaf.dtype)]
        y = F.batch_norm(leaf, *running, *wb, training=True)
        y.backward(rg.tensor(g.astype(dtype)))
        return [y.detach(), leaf.grad, *running, *[p.grad for p in wb if p is not None]]

    for single, double in zip(run(np.float32), run(np.float64), strict=True):
        np.testing.assert_allclose(single.numpy(), double.numpy(), rtol=2e-5, atol=5e-5)
    assert len(count_of_loops) >= 3


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize(
    ("size", "options"),
    [
        ((32, 30), {"kernel_size": 2}),
        ((31, 33), {"kernel_size": 3, "stride": 2, "padding": 1}),
        ((29, 30), {"kernel_size": (2, 3), "stride": (3, 1), "dilation": (2, 3), "padding": (1, 0)}),
        ((30, 31), {"kernel_size": 4, "stride": 3, "ceil_mode": True}),
    ],
)
def test_max_pool(size, options, special, monkeypatch):
    rng = np.random.default_rng(0)
    x = rng.integers(-9, 9, (40, 9, *size)).astype(np.float32)  # with ties
    if special:
        x[rng.random(x.shape) < 0.2] = -np.inf
        x[rng.random(x.shape) < 0.01] = np.nan
        x[0, 0] = -np.inf

    def run():
        leaf = rg.tensor(x, requires_grad=True)
        y = F.max_pool2d(leaf, **options)
        assert y.numel() >= kernels.USEFUL
        y.backward(rg.arange(y.numel(), dtype=rg.float32).reshape(y.shape))
        index = F.max_pool2d(leaf, **options, return_indices=True)[1]
        return y.detach().numpy(), index.numpy(), leaf.grad.numpy()

    found = run()
    monkeypatch.setattr(kernels, "compiled", lambda: None)
    for loop, reference in zip(found, run(), strict=True):
        np.testing.assert_array_equal(loop, reference)


def test_windows_between_all_elements_have_no_gradient():
    x = rg.randn(8, 12, 2, 500, requires_grad=True)
    y = F.max_pool2d(x, 2, dilation=3, padding=1, stride=1)  # reads rows -1 and 2
    assert (y == -float("inf")).all()
    y.backward(rg.ones(y.shape))
    assert (x.grad == 0).all()


def test_rows_of_attention_that_see_nothing():
    q = rg.ones(2, 200, 8)
    mask = rg.ones(200, 200, dtype=rg.bool)
    mask[3] = False
    out = F.scaled_dot_product_attention(q, q, q, attn_mask=mask)
    assert (out[:, 3] == 0).all() and rg.allclose(out[:, 4], rg.ones(8))


@pytest.mark.parametrize("name", CASES)
def test_the_number_of_threads_does_not_show_in_the_numbers(name, monkeypatch):
    function, x = CASES[name], np.tile(draw(), (5, 1))
    monkeypatch.setattr(threads, "count", lambda: 1)
    one = value_and_gradient(function, x)
    monkeypatch.setattr(threads, "count", lambda: 3)
    for a, b in zip(one, value_and_gradient(function, x), strict=True):
        np.testing.assert_array_equal(a, b)


def test_shares_cover_the_range_once_and_tell_errors(monkeypatch):
    monkeypatch.setattr(threads, "count", lambda: 4)
    seen: list[int] = []
    threads.in_shares(lambda start, stop: seen.extend(range(start, stop)), 1003, 100)
    assert sorted(seen) == list(range(1003))

    def fail(start: int, stop: int) -> None:
        if stop == 1003:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        threads.in_shares(fail, 1003, 100)


def test_an_unknown_choice_of_kernels_is_an_error(monkeypatch):
    monkeypatch.setenv("RETROGRAD_KERNELS", "fastest")
    with pytest.raises(RuntimeError, match="RETROGRAD_KERNELS: wanted compiled or reference, got 'fastest'"):
        kernels.available()


PROGRAM = """
import os, sys, warnings
warnings.simplefilter("ignore")
{before}
import numpy as np, retrograd as rg
from retrograd import kernels
x = rg.ones(300, 300)
assert abs(float(x.exp()[0, 0]) - 2.7182817) < 1e-6
print(kernels.compiled() is not None)
{after}
"""

FORK = """
child = os.fork()
if not child:
    os._exit(0 if float(rg.ones(600, 600).tanh()[0, 0]) > 0.76 else 1)
print(os.waitpid(child, 0)[1])
"""


@pytest.mark.parametrize(
    ("before", "after", "environment", "printed"),
    [
        ("", "", {}, "True"),
        ("sys.modules['numba'] = None", "", {}, "False"),
        ("", "", {"RETROGRAD_KERNELS": "reference"}, "False"),
        pytest.param(
            "",
            FORK,
            {"OMP_NUM_THREADS": "2"},
            "True\n0",
            marks=pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system"),
        ),
    ],
    ids=["with numba", "without numba", "turned off", "after fork"],
)
def test_in_a_process_of_its_own(before, after, environment, printed):
    path = os.pathsep.join([str(Path(rg.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(before=before, after=after)],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | environment | {"PYTHONPATH": path},
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == printed
