"""Compiled loops against their references: values, edges, threads, and life without Numba."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F
from retrograd import kernels
from retrograd.kernels.loops.matrices import products
from retrograd.kernels.runtime import library, threads
from retrograd.ops.linear.products import matmul

pytestmark = pytest.mark.slow  # many of them start a process

if not kernels.available():
    pytest.skip("there are no compiled loops", allow_module_level=True)

SHAPE = (331, 127)  # more than USEFUL, and no multiple of anything
SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e-30, -1e-30, 1e30, -1e30, 88.7, 88.8, -87.4, -103.0, -104.0, 0.625]

ELEMENTWISE = {
    "exp": rg.exp,
    "tanh": rg.tanh,
    "sigmoid": rg.sigmoid,
    "relu": F.relu,
    "silu": F.silu,
    "softplus": F.softplus,
    "logsigmoid": F.logsigmoid,
    "mish": F.mish,
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
}
ROWS = {
    "softmax": lambda x: F.softmax(x, -1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
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
    assert count_of_loops
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


@pytest.mark.parametrize("name", ["sigmoid", "silu", "gelu", "gelu_tanh", "softplus"])
def test_parts_of_larger_arrays_are_copied_for_the_loop(name, monkeypatch):
    whole = draw()
    parts = [whole[:, :64], whole[3:, 5:9], whole[:, 7:8], whole[::2, 1:].T, whole[::-1, 2:], whole[:9, None, 4:]]
    for x in parts:
        found, dense = value_and_gradient(ELEMENTWISE[name], x), value_and_gradient(ELEMENTWISE[name], x.copy())
        for one, other in zip(found, dense, strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-6, atol=2e-6)
    strides = [ELEMENTWISE[name](rg.from_numpy(x)).stride() for x in parts]
    monkeypatch.setattr(kernels, "compiled", lambda: None)
    assert strides == [ELEMENTWISE[name](rg.from_numpy(x)).stride() for x in parts]


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


def test_outer_products_of_each_example(monkeypatch):
    rng = np.random.default_rng(0)
    x, w = rg.tensor(rng.standard_normal((70, 31), np.float32)), rg.tensor(rng.standard_normal((17, 31), np.float32))

    def run():
        return rg.func.vmap(rg.func.grad(lambda w, x: F.linear(x, w).tanh().sum()), (None, 0))(w, x).numpy()

    found = run()
    asked = []
    monkeypatch.setattr(matmul, "compiled", lambda: asked.append(1))
    np.testing.assert_array_equal(found, run())
    assert asked


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


NORMS = {
    "layer_norm over two axes": (lambda x, w, b: F.layer_norm(x, x.shape[2:], w, b), (15, 17)),
    "rms_norm": (lambda x, w, b: F.rms_norm(x, x.shape[3:], w) + 0 * b.sum(), (17,)),
    "group_norm": (lambda x, w, b: F.group_norm(x, 4, w, b), (12,)),
    "instance_norm": (lambda x, w, b: F.instance_norm(x, None, None, w, b), (12,)),
    "instance_norm with statistics": (lambda x, w, b: F.instance_norm(x, x[0, :, 0, 0] * 0, None, w, b), (12,)),
}


@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("name", NORMS)
def test_other_norms(name, affine, count_of_loops, monkeypatch):
    function, shape = NORMS[name]
    rng = np.random.default_rng(0)
    x, g = rng.standard_normal((2, 24, 12, 15, 17)).astype(np.float32)
    x += 3
    parameters = rng.standard_normal((2, *shape)).astype(np.float32)

    def run(dtype):
        leaf = rg.tensor(x.astype(dtype), requires_grad=True)
        wb = [rg.tensor(p.astype(dtype), requires_grad=True) for p in parameters]
        y = function(leaf, *(wb if affine else (None, 0 * wb[1] if name == "rms_norm" else None)))
        cotangent = rg.tensor(g.astype(dtype), requires_grad=True)
        first = rg.autograd.grad(y, [leaf, *(wb if affine else [])], cotangent, create_graph=True)
        along = [rg.from_numpy(np.cos(np.arange(p.numel())).astype(dtype)).reshape(p.shape) for p in first]
        second = rg.autograd.grad(first, [cotangent, leaf, *(wb[:1] if affine else [])], along)
        return [z.detach() for z in (y, *first, *second)]

    found = run(np.float32)
    assert count_of_loops
    for single, double in zip(found, run(np.float64), strict=True):
        np.testing.assert_allclose(single.numpy(), double.numpy(), rtol=2e-5, atol=5e-5)


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize(
    ("size", "options"),
    [
        ((32, 30), {"kernel_size": 2}),
        ((31, 33), {"kernel_size": 2}),
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
    with pytest.raises(RuntimeError, match="RETROGRAD_KERNELS: expected compiled, jit or reference, got 'fastest'"):
        kernels.available()


def test_jit_without_numba_is_one_warning_at_the_line_of_the_program(monkeypatch):
    monkeypatch.setenv("RETROGRAD_KERNELS", "jit")
    monkeypatch.setattr(kernels, "jits", lambda: False)
    monkeypatch.setattr(kernels, "_without_numba", [])
    monkeypatch.setattr(library, "opened", lambda: None)
    kernels.compiled.cache_clear()
    try:
        with pytest.warns(RuntimeWarning, match=r"Numba is not installed \(pip install .*; NumPy is used") as said:
            rg.ones(300, 300).tanh()
            kernels.compiled.cache_clear()
            rg.ones(300, 300).sigmoid()
    finally:
        kernels.compiled.cache_clear()
    assert [warning.filename for warning in said] == [__file__]


def start(program, environment):
    path = os.pathsep.join([str(Path(rg.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment | {"PYTHONPATH": path},
    )


def end(process):
    """What the process printed, once it has ended as it should, without a complaint."""
    try:
        out, complaint = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0 and not complaint, complaint
    return out.strip()


def run(program, environment):
    return end(start(program, environment))


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
        ("sys.modules['numba'] = None", "", {"RETROGRAD_KERNELS": "jit"}, "False"),
        ("", "", {"RETROGRAD_KERNELS": "reference"}, "False"),
        pytest.param(
            "",
            FORK,
            {"OMP_NUM_THREADS": "2"},
            "True\n0",
            marks=pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system"),
        ),
    ],
    ids=["compiled", "without numba", "turned off", "after fork"],
)
def test_in_a_process_of_its_own(before, after, environment, printed):
    assert run(PROGRAM.format(before=before, after=after), environment) == printed


AT_THE_END = """
import atexit, threading, time
import retrograd as rg

def train():
    train_on(300)

def train_on(n):
    x = rg.ones(n, n, requires_grad=True)
    x.tanh().sum().backward()
    print(round(float(x.grad[-1, -1]), 4))

class Late:
    def __del__(self):
        train()

def wait_and_train():
    while threading.main_thread().is_alive():
        time.sleep(0.01)
    train()

{program}
"""


@pytest.mark.parametrize("used_before", [False, True], ids=["the first use", "used before"])
@pytest.mark.parametrize(
    "program",
    ["threading.Thread(target=wait_and_train).start()", "atexit.register(train)", "late = Late()"],
    ids=["a thread that outlives the main thread", "atexit", "a finalizer"],
)
def test_loops_run_when_the_interpreter_ends(program, used_before):
    program = AT_THE_END.format(program=f"train_on({300 if used_before else 3})\n{program}")
    assert run(program, {"OMP_NUM_THREADS": "3"}).split() == ["0.42"] * 2


# Optimizers


def trained(make, shapes, steps, compiled, monkeypatch, **state):
    """Parameters after some steps on given gradients."""
    with monkeypatch.context() as patch:
        if not compiled:
            patch.setattr(kernels, "compiled", lambda: None)
            patch.setattr("retrograd.kernels.loops.elements.updates.compiled", lambda: None)
        rng = np.random.default_rng(0)
        parameters = [rg.tensor(rng.standard_normal(s).astype(np.float32), requires_grad=True) for s in shapes]
        optimizer = make(parameters)
        for _ in range(steps):
            for parameter in parameters:
                parameter.grad = rg.tensor(rng.standard_normal(parameter.shape).astype(np.float32))
            optimizer.step()
        arrays = [parameter.detach().numpy() for parameter in parameters]
        kept = [value.numpy() for entry in optimizer.state.values() for value in entry.values()]
        return arrays + kept


@pytest.mark.parametrize(
    "make",
    [
        lambda p: rg.optim.SGD(p, lr=0.1),
        lambda p: rg.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
        lambda p: rg.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.3),
        lambda p: rg.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
        lambda p: rg.optim.Adam(p, lr=0.01),
        lambda p: rg.optim.Adam(p, lr=0.01, weight_decay=0.1, betas=(0.8, 0.99)),
        lambda p: rg.optim.AdamW(p, lr=0.01, weight_decay=0.1),
        lambda p: rg.optim.RMSprop(p, lr=0.01),
        lambda p: rg.optim.RMSprop(p, lr=0.01, momentum=0.9, weight_decay=0.01),
        lambda p: rg.optim.Adam(p, lr=0.01, betas=(0.3, 0.99), maximize=True),
        lambda p: rg.optim.Adagrad(p, lr=0.01, lr_decay=0.1, weight_decay=0.01),
        lambda p: rg.optim.Adadelta(p, weight_decay=0.01),
        lambda p: rg.optim.Adamax(p, weight_decay=0.01),
        lambda p: rg.optim.NAdam(p, weight_decay=0.01, decoupled_weight_decay=True),
        lambda p: rg.optim.RAdam(p, lr=0.01),
        lambda p: rg.optim.ASGD(p, t0=1, weight_decay=0.01),
        lambda p: rg.optim.Rprop(p),
    ],
)
def test_the_loops_of_optimizers_compute_what_numpy_does_bit_for_bit(make, monkeypatch):
    from retrograd.kernels.loops.elements import updates

    calls = []
    update = updates.update
    monkeypatch.setattr(updates, "update", lambda *args: calls.append(1) or update(*args))
    shapes = [(331, 127), (5,), (), (0, 3), (17, 31, 3)]
    results = [trained(make, shapes, 7, compiled, monkeypatch) for compiled in (True, False)]
    assert len(calls) == 7
    for ours, reference in zip(*results, strict=True):
        np.testing.assert_array_equal(ours, reference)


def test_gradients_are_clipped_and_weights_averaged_as_numpy_does(monkeypatch):
    def run():
        rng = np.random.default_rng(0)
        shapes = [(300, 200), (5,), (), (0, 3), (700, 33)]
        weights = [rg.tensor(rng.standard_normal(s).astype(np.float32), requires_grad=True) for s in shapes]
        for w in weights:
            w.grad = rg.tensor(rng.standard_normal(w.shape).astype(np.float32))
        total = rg.nn.utils.clip_grad_norm_(weights, 1.0)
        clipped = [w.grad.numpy().copy() for w in weights]
        averages = [rg.zeros(w.shape) for w in weights]
        rg.optim.swa_utils.get_ema_multi_avg_fn(0.9)(averages, weights, 3)
        rg.optim.swa_utils.get_swa_multi_avg_fn()(averages, weights, 0)
        rg.optim.SGD(weights, lr=0.1).zero_grad(set_to_none=False)
        assert all(w.grad.count_nonzero() == 0 for w in weights)
        return total.item(), clipped, [average.numpy() for average in averages]

    ours = run()
    monkeypatch.setattr("retrograd.kernels.loops.elements.updates.compiled", lambda: None)
    reference = run()
    assert ours[0] == pytest.approx(reference[0], rel=1e-6)
    for mine, its in zip(ours[1], reference[1], strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-6)
    for mine, its in zip(ours[2], reference[2], strict=True):
        np.testing.assert_array_equal(mine, its)


def test_a_step_leaves_what_a_graph_has_saved_alone():
    w = rg.ones(300, 200, requires_grad=True)
    y = (w * w).sum()
    w.grad = rg.ones(300, 200)
    rg.optim.SGD([w], lr=0.5).step()
    w.grad = None
    y.backward()
    assert w.grad.unique().tolist() == [2.0] and w.detach().unique().tolist() == [0.5]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(300, 200, 170), (24, 784, 130), (700, 500, 11), (64, 1024, 64)])
def test_shared_products_are_products_and_the_same_on_any_number_of_threads(shape, dtype, monkeypatch):
    m, k, n = shape
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
    for left in (x, np.asfortranarray(x)):
        for right in (y, np.asfortranarray(y)):
            found = []
            for number in (1, 2, 3):
                monkeypatch.setattr(threads, "count", lambda number=number: number)
                found.append(products.dot(left, right))
            np.testing.assert_allclose(found[0], left.astype(np.float64) @ right, rtol=1e-4, atol=1e-4)
            np.testing.assert_array_equal(found[0], found[1])
            np.testing.assert_array_equal(found[0], found[2])


def test_a_launch_within_a_launch_and_launches_of_several_programs_threads_are_right():
    x = rg.tensor(draw())
    wanted = rg.tanh(x).numpy()
    found: list[np.ndarray] = []
    together = [Thread(target=lambda: found.extend(rg.tanh(x).numpy() for _ in range(50))) for _ in range(4)]
    for thread in together:
        thread.start()
    for thread in together:
        thread.join()
    assert len(found) == 200 and all((y == wanted).all() for y in found)


def greedy(length, out, start, stop):
    room = np.empty(length if start else 1)
    for i in range(start, stop):
        room[0] = 1.0
        out[i] = room[0]


@pytest.mark.parametrize("threads", [1, 3])
def test_a_loop_that_gets_no_memory_says_so_whichever_thread_asked_for_it(threads, monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.setattr(library, "opened", lambda: None)  # Numba compiles
    from retrograd.kernels.runtime import thread_protocol
    from retrograd.kernels.runtime import threads as pool

    loop = thread_protocol.shared()(greedy)
    monkeypatch.setattr("retrograd.kernels.runtime.cores.wanted", [threads])
    out = np.zeros(100)
    if threads > 1:
        with pytest.raises(MemoryError):
            pool.launch(loop, 100, 1, 1 << 45, out)
    with pytest.raises(MemoryError):
        loop(0, 1, 50, 100, 0, 1 << 45, out)
    pool.launch(loop, 100, 1, 10, out)  # and the pool goes on
    assert out.sum() == 100


def test_denormal_numbers_are_set_to_zero_on_all_threads_and_in_products_or_nowhere(monkeypatch):
    monkeypatch.setattr(threads, "count", lambda: 3)
    x = np.full((400, 400), 1e-30, np.float32)
    tiny, weights = rg.full((1 << 18,), -90.0), rg.tensor(np.eye(400, dtype=np.float32) * np.float32(1e-9))
    if not rg.set_flush_denormal(True):
        pytest.skip("the mode of this processor is not known")
    try:
        for _ in range(20):
            assert not rg.exp(tiny).numpy().view(np.int32).any()
            assert not (rg.tensor(x) @ weights).numpy().view(np.int32).any()
    finally:
        assert rg.set_flush_denormal(False)
    assert (rg.exp(tiny).numpy().view(np.int32) != 0).all()


def test_softmax_makes_no_denormal_numbers():
    x = draw()
    x[:, 0] += 90
    y = F.softmax(rg.tensor(x), -1).numpy()
    assert ((y == 0) | (y >= np.finfo(np.float32).tiny)).all() and (y == 0).any()
