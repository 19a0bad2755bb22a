"""Regions: runs of small instructions as one compiled function, by LLVM and by the interpreter."""

import sys

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn, optim
from retrograd.compiler.cpu import fusing, machine_code
from retrograd.compiler.cpu import regions as region_builder
from retrograd.compiler.cpu.interpreter import region_program
from retrograd.compiler.cpu.lowering import Lowering
from retrograd.kernels.runtime import blas_address, threads
from retrograd.nn import functional as F

LLVM = machine_code.available()
needs_llvm = pytest.mark.skipif(not LLVM, reason="there is no LLVM to compile regions with")


@pytest.fixture(params=["LLVM", "interpreter"])
def backend(request, monkeypatch):
    """Regions are compiled by LLVM, or interpreted by a loop of the library."""
    if request.param == "LLVM" and not LLVM or request.param != "LLVM" and region_program.execute() is None:
        pytest.skip(f"there is no {request.param}")
    monkeypatch.setattr(machine_code, "available", lambda: request.param == "LLVM")
    return request.param


both = pytest.mark.usefixtures("backend")


def regions(function):
    """The regions of a function's first program."""
    entry = function.entries[0]
    steps = [*entry.replay.instructions, *(entry.pull.instructions if entry.pull is not None else ())]
    return [step for step in steps if step.kind == "native"]


def classifier(optimizer):
    rg.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 3)).double()
    moves = optimizer(model.parameters())
    x, y = rg.randn(8, 5).double(), rg.arange(8) % 3

    def step():
        moves.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        moves.step()
        return loss

    return model, moves, step


OPTIMIZERS = {
    "SGD": lambda p: optim.SGD(p, lr=0.1, weight_decay=0.01),
    "momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1),
    "Nesterov": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, maximize=False),
    "Adam": lambda p: optim.Adam(p, lr=0.01, weight_decay=0.1),
    "AdamW": lambda p: optim.AdamW(p, lr=0.01),
    "RMSprop": lambda p: optim.RMSprop(p, lr=0.01, momentum=0.5, weight_decay=0.1),
}


@pytest.mark.slow
@both
def test_a_step_with_a_large_product_and_an_update_of_many_elements_is_one_region():
    model = nn.Sequential(nn.Linear(300, 130), nn.ReLU(), nn.Linear(130, 3))
    moves = optim.SGD(model.parameters(), lr=0.1)
    x, y = rg.randn(8, 300), rg.arange(8) % 3

    @rg.compile
    def step():
        loss = F.cross_entropy(model(x), y)
        moves.zero_grad()
        loss.backward()
        moves.step()
        return loss

    first = step().item()
    assert step().item() < first and step().item() < first
    assert len(regions(step)) == 1 and regions(step)[0].parts[-1].name == "run_step"


@pytest.mark.slow
@both
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_training_step_is_one_region_with_its_update(name):
    eager_model, eager_moves, eager = classifier(OPTIMIZERS[name])
    model, moves, step = classifier(OPTIMIZERS[name])
    compiled = rg.compile(step)
    for number in range(8):
        if number == 5:
            eager_moves.param_groups[0]["lr"] = moves.param_groups[0]["lr"] = 0.003
        want = eager().item()
        got = (step if number == 6 else compiled)().item()
        assert got == pytest.approx(want, rel=1e-12)
    assert len(regions(compiled)) == 1
    assert not any("run_step" in step.name for step in compiled.entries[0].replay.instructions)
    state, eager_state = moves.state_dict()["state"], eager_moves.state_dict()["state"]
    for index in state:
        for key, value in state[index].items():
            np.testing.assert_allclose(value.numpy(), eager_state[index][key].numpy(), rtol=1e-11, atol=1e-14)
    for p, q in zip(model.parameters(), eager_model.parameters(), strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=1e-12, atol=1e-14)


def test_an_option_that_changes_the_terms_of_an_update_changes_the_compiled_step():
    def run(compiled):
        found = []
        for make, changes in [
            (lambda p: optim.SGD(p, lr=0.1, momentum=0.5), ({"weight_decay": 0.1}, {"maximize": True}, {"lr": 1.0})),
            (lambda p: optim.Adam(p, lr=0.1), ({"weight_decay": 0.1}, {"maximize": True}, {"betas": (0.3, 0.9)})),
        ]:
            w = rg.tensor([0.5, -2.0, 3.0], dtype=rg.float64, requires_grad=True)
            moves = make([w])

            def step(moves=moves, w=w):
                moves.zero_grad()
                (w.exp() * w).sum().backward()
                moves.step()

            step = rg.compile(step) if compiled else step
            for change in ({}, *changes):
                moves.param_groups[0].update(change)
                for _ in range(3):
                    step()
                found.append(w.detach().numpy().copy())
            if compiled:
                assert any(one.kind == "native" for entry in step.entries for one in entry.replay.instructions)
        return found

    np.testing.assert_allclose(run(True), run(False), rtol=1e-12)


def test_a_hook_on_the_step_is_called():
    _, moves, step = classifier(OPTIMIZERS["SGD"])
    compiled, calls = rg.compile(step), []
    compiled()
    compiled()
    moves.register_step_post_hook(lambda *args: calls.append(1))
    for _ in range(3):
        compiled()
    assert len(calls) == 3


def test_a_loaded_state_is_the_one_that_moves():
    _, moves, step = classifier(OPTIMIZERS["AdamW"])
    compiled = rg.compile(step)
    for _ in range(3):
        compiled()
    moves.load_state_dict(moves.state_dict())
    compiled()
    assert {entry["step"].item() for entry in moves.state.values()} == {4}


@both
def test_arguments_in_one_memory_are_not_taken_for_separate_ones():
    @rg.compile
    def shifted(x, y):
        x.mul_(2.0)
        x.add_(y)
        return (x * y).exp().sum()

    shifted(rg.ones(4), rg.ones(4))
    for function in (shifted, shifted.function):
        memory = rg.arange(5.0)
        function(memory[:4], memory[1:])
        assert memory.tolist() == [2, 6, 10, 10, 4]


@both
def test_results_are_not_the_arena():
    double = rg.compile(lambda x: ((x + 1) * 2).tanh() @ x)
    x = rg.randn(4, 4)
    first, before = double(x), double.function(x).numpy()
    second = double(x)
    double(-x)
    np.testing.assert_array_equal(first.numpy(), before)
    np.testing.assert_array_equal(second.numpy(), before)


@both
def test_an_index_out_of_range_is_the_eager_error():
    pick = rg.compile(lambda x, i: (x[i] * 2 + 1).sum())
    x = rg.arange(6.0)
    for index in ([0, 5], [-6, 2]):
        assert pick(x, rg.tensor(index)).item() == pick.function(x, rg.tensor(index)).item()
    with pytest.raises(IndexError, match="6"):
        pick(x, rg.tensor([1, 6]))


@both
def test_targets_out_of_range_change_nothing():
    model, _, step = classifier(OPTIMIZERS["SGD"])
    targets = rg.arange(8) % 3
    moves = optim.SGD(model.parameters(), lr=0.1)

    @rg.compile
    def train(y):
        loss = F.cross_entropy(model(rg.ones(8, 5).double()), y)
        loss.backward()
        moves.step()
        moves.zero_grad()
        return loss

    train(targets)
    train(targets)
    before = [p.detach().clone() for p in model.parameters()]
    with pytest.raises((IndexError, ValueError, RuntimeError)):
        train(targets + 1)
    for p, q in zip(model.parameters(), before, strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), q.numpy())


def products():
    for m, k, n in ((1, 1, 1), (3, 5, 7), (8, 8, 8), (13, 4, 33), (17, 64, 9), (40, 70, 90)):
        for dtype in (np.float32, np.float64):
            marks = pytest.mark.slow if m * k * n > 5000 else ()
            yield pytest.param(m, k, n, dtype, marks=marks, id=f"{m}x{k}x{n}-{np.dtype(dtype).name}")


@pytest.mark.parametrize(("m", "k", "n", "dtype"), [*products()])
@both
def test_products_of_all_layouts(m, k, n, dtype):
    rng = np.random.default_rng(0)
    product = rg.compile(lambda x, y: ((x + 0.5) @ (y * 2.0) + 1.0) @ (y * 2.0).T)
    for turned in range(2):
        x, y = rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype)
        if turned:
            x, y = np.asfortranarray(x), np.asfortranarray(y)
        x, y = rg.from_numpy(x), rg.from_numpy(y)
        product(x, y)
        got, want = product(x, y).numpy(), product.function(x, y).numpy()
        tolerance = 1e-12 if dtype is np.float64 else 1e-5
        np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * np.abs(want).max())  # terms of a sum may cancel
        assert len(regions(product)) == 1


@both
@pytest.mark.parametrize(("m", "k", "n"), [(200, 64, 96), (64, 200, 160)])
def test_threads_share_a_large_product_of_a_region(m, k, n, monkeypatch):
    monkeypatch.setattr(threads, "count", lambda: 2)
    function = rg.compile(lambda x, y: ((x + 1.0) @ y).relu().sum(1) * 2.0)
    for turned in (False, True):
        x, y = rg.randn(m, k), (rg.randn(n, k).T if turned else rg.randn(k, n))
        for _ in range(3):
            got, want = function(x, y), function.function(x, y)
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-4, atol=1e-4)
    assert [step.kind for step in function.entries[0].replay.instructions] == ["native"]


@needs_llvm
def test_equal_machine_code_is_compiled_once(monkeypatch):
    x = rg.randn(3, 11)
    first = rg.compile(lambda x: ((x * 1.25 + 7).exp() - x).sum(0))
    want = first(x)
    compiled = machine_code._compiled.cache_info().misses
    second = rg.compile(first.function)
    second(x)
    np.testing.assert_array_equal(second(x).numpy(), want.numpy())
    assert machine_code._compiled.cache_info().misses == compiled


@both
def test_threads_replay_at_the_same_time():
    from concurrent.futures import ThreadPoolExecutor

    function = rg.compile(lambda x: (((x @ x) * 0.1 + x).tanh() @ x).sum(1))
    inputs = [rg.randn(16, 16) for _ in range(8)]
    function(inputs[0])
    want = [function.function(x).numpy() for x in inputs]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            for got, expected in zip(pool.map(function, inputs), want, strict=True):
                np.testing.assert_allclose(got.numpy(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@both
@pytest.mark.parametrize("dtype", [rg.float32, rg.float64])
def test_elementwise_steps_and_sums_of_all_layouts_are_those_of_eager_calls(dtype):
    """Rows shorter and longer than a register of the interpreter, broadcast, turned, strided, and of other dtypes."""

    def function(x, row, column, part, count, chosen):
        y = (x * row + column).maximum(row) / (x.abs() + 1.5)
        y = rg.where(chosen & (x > 0) | ~(y >= row), y, -column).sqrt().nan_to_num(0.25)
        z = y.T.contiguous().T * count.to(dtype) + part
        table = rg.zeros(4, x.shape[1], dtype=dtype)
        table[count[:, 0] % 4] = y
        picked = table[rg.arange(3)].double().sum(0).to(dtype)
        sums = y.sum(0), z.sum(1), y.prod(1) + z.mean(), picked
        return y, z, z.amax(0), (y != y).any(), count + count.sum(), *sums

    compiled = rg.compile(function)
    for rows, columns in ((3, 5), (7, 300), (2, 1200)):
        x = rg.randn(rows, columns, dtype=dtype)
        row, column = rg.randn(columns, dtype=dtype), rg.randn(rows, 1, dtype=dtype)
        part = rg.randn(rows, 2 * columns, dtype=dtype)[:, ::2]
        count = rg.arange(rows).reshape(rows, 1)
        given = x, row, column, part, count, x > 0.5
        for _ in range(2):
            for k, (got, want) in enumerate(zip(compiled(*given), function(*given), strict=True)):
                rtol = 0 if k < 5 else 1e-12 if dtype == rg.float64 else 1e-5  # sums have another order
                np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=rtol)
    assert sum(len(step.parts) for step in regions(compiled)) > 20


@both
def test_explain_shows_regions_and_what_is_in_none():
    @rg.compile
    def f(x):
        return (rg.linalg.eigvalsh(x @ x.T) * 2 + 1).tanh().sum()

    text = f.explain(rg.randn(4, 4))
    assert "one compiled function of" in text and "arena" in text
    assert "in no region: " in text and "eigvalsh" in text


def test_an_update_without_a_region_before_it_moves_by_the_gradient_of_this_step():
    def training():
        w = (rg.arange(9.0).reshape(3, 3) / 9).double().requires_grad_()
        moves = optim.Adam([w], lr=0.1)

        def step():
            moves.zero_grad()
            loss = rg.linalg.eigvalsh(w + w.T).sum()
            loss.backward()
            moves.step()
            return loss

        return step

    eager, compiled = training(), rg.compile(training())
    for _ in range(5):
        assert compiled().item() == pytest.approx(eager().item(), rel=1e-12)


@both
@pytest.mark.parametrize("size", [48, 64, 96])
def test_products_take_numbers_too_small_for_full_precision_as_eager_ones_do(size):
    def function(x, y):
        return rg.tanh(x @ y) + 1e-38

    compiled = rg.compile(function)
    for _ in range(3):
        x, y = rg.full((size, size), 1e-40), rg.ones(size, size)
        assert rg.equal(compiled(x, y), function(x, y))
    assert regions(compiled)
    assert np.float32(1e-40) * np.float32(1) > 0


@pytest.mark.slow
@needs_llvm
def test_a_pass_over_a_long_loop_takes_time_in_proportion_to_its_length():
    """Counted are the comparisons of places, of which there were as many as the square of the length."""

    def steps(length):
        def f(x, h):
            for _ in range(length):
                x = x + h * rg.sin(x) * 0.5
            return x.sum()

        compiled = rg.compile(f)
        calls = 0

        def count(frame, event, argument):
            nonlocal calls
            calls += event == "call" and frame.f_code.co_filename.endswith(("cpu/fusing.py", "cpu/regions.py"))

        sys.setprofile(count)
        try:
            compiled(rg.ones(2, requires_grad=True), rg.tensor(0.1))
        finally:
            sys.setprofile(None)
        return calls

    assert steps(120) < 3 * steps(60)


@both
@pytest.mark.parametrize("dtype", [rg.float32, rg.float64])
def test_the_bits_of_a_result_are_read_as_what_they_are(dtype):
    """A gradient masked by relu multiplies bits by a view of bools; both loops stay apart, in one region."""

    def masked(x):
        y = (x * 2).relu()
        (dx,) = rg.autograd.grad(y.square().sum(), x)
        return dx, (y != 0).view(rg.int8) * 3, (y + 1).view(rg.int32) ^ 5

    x = rg.linspace(-1, 1, 4096, dtype=dtype, requires_grad=True)
    compiled = rg.compile(masked)
    for _ in range(3):
        for found, wanted in zip(compiled(x), masked(x), strict=True):
            assert found.dtype == wanted.dtype and rg.equal(found, wanted)
    assert regions(compiled)


class Block(nn.Module):
    """A small transformer with attention, normalization of rows and of channels, and clipped activations."""

    def __init__(self):
        super().__init__()
        self.token, self.norm, self.channels = nn.Embedding(7, 8), nn.LayerNorm(8), nn.BatchNorm1d(16)
        self.qkv, self.up, self.head = nn.Linear(8, 24), nn.Linear(8, 16), nn.Linear(16, 7)

    def forward(self, characters):
        x = self.token(characters)
        n, t, c = x.shape
        q, k, v = self.qkv(self.norm(x)).view(n, t, 3, 2, c // 2).permute(2, 0, 3, 1, 4).unbind(0)
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, t, c)
        return self.head(F.hardtanh(self.channels(F.gelu(self.up(x)).flatten(0, 1)), -1.5, 0.5))


@pytest.mark.parametrize("backend", ["interpreter", pytest.param("LLVM", marks=pytest.mark.slow)], indirect=True)
def test_a_step_of_a_transformer_with_clipped_gradients_is_one_region(backend):
    losses, norms, found = [], [], None
    for compiled in (False, True):
        rg.manual_seed(0)
        model = Block()
        moves = optim.AdamW(model.parameters(), lr=0.01, eps=1e-3)

        def step(model=model, moves=moves):
            moves.zero_grad()
            loss = F.cross_entropy(model(rg.arange(12).reshape(3, 4) % 7), rg.arange(12) % 7)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            moves.step()
            return loss, norm

        found = rg.compile(step) if compiled else step
        pairs = [found() for _ in range(5)]
        losses.append([loss.item() for loss, _ in pairs])
        norms.append([norm.item() for _, norm in pairs])
    assert max(norms[0]) > 0.5
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    np.testing.assert_allclose(norms[1], norms[0], rtol=1e-4)
    assert len(regions(found)) == 1, found.explain()


@pytest.mark.parametrize("backend", ["interpreter"], indirect=True)
@pytest.mark.usefixtures("backend")
def test_a_guard_after_the_step_fails_before_the_step_is_made():
    rg.manual_seed(0)
    models = [nn.Linear(4, 3) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    x, y, found = rg.randn(8, 4), rg.arange(8) % 3, []
    for compiled, model in enumerate(models):
        moves, average = optim.AdamW(model.parameters(), lr=0.1), optim.swa_utils.AveragedModel(model)

        def step(model=model, moves=moves, average=average):
            moves.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            moves.step()
            average.update_parameters(model)  # the first call copies, as a guard on the number of averages says
            return loss

        run = rg.compile(step) if compiled else step
        losses = [run().item() for _ in range(5)]
        found.append((losses, moves.state[model.weight]["step"].item(), average.module.weight.detach().numpy()))
    assert found[1][1] == found[0][1] == 5
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-6)
    np.testing.assert_allclose(found[1][2], found[0][2], rtol=1e-5)


def test_a_program_of_large_arrays_does_not_load_llvm(monkeypatch):
    if region_program.execute() is None:
        pytest.skip("there is no interpreter")

    def available():
        raise AssertionError("LLVM is loaded")

    def checked(x, index):
        rows = rg.ones(4, 4)[index]  # checks the indices
        return F.layer_norm(x, (1 << 19,)).mean() + rows.sum() * (rows @ rows.T).mean() + rows.max()

    def expand(self, instruction):
        expanded.append(max(x.size for x in (*instruction.read, *instruction.outs)))
        return expanded_before(self, instruction)

    expanded, expanded_before = [], Lowering._expand
    monkeypatch.setattr(Lowering, "_expand", expand)  # computes with arrays of the instruction's sizes
    monkeypatch.setattr(machine_code, "available", available)
    monkeypatch.setattr(blas_address, "name_for_llvm", available)
    monkeypatch.setattr(region_builder, "LARGE_PROGRAM", 1 << 20)
    x, index = rg.linspace(0, 1, 1 << 19), rg.tensor([0, 3])
    compiled = rg.compile(checked)
    for _ in range(2):
        np.testing.assert_allclose(compiled(x, index).item(), checked(x, index).item(), rtol=1e-5)
    assert regions(compiled) and max(expanded, default=0) < 1 << 19


def test_a_large_program_with_a_product_runs_where_llvm_is_not_installed(monkeypatch):
    if region_program.execute() is None:
        pytest.skip("there is no interpreter")

    def named():
        raise ModuleNotFoundError("No module named 'llvmlite'")

    monkeypatch.setattr(machine_code, "available", lambda: False)
    monkeypatch.setattr(blas_address, "name_for_llvm", named)
    monkeypatch.setattr(region_builder, "LARGE_PROGRAM", 1 << 20)
    compiled = rg.compile(lambda x, a: (x * 2).sum() + ((a @ a).tanh() * 2 + 1).sum())
    x, a = rg.ones(1 << 19), rg.randn(32, 32)
    for _ in range(2):
        np.testing.assert_allclose(compiled(x, a).item(), compiled.function(x, a).item(), rtol=1e-5)
    assert regions(compiled)


@needs_llvm
@pytest.mark.skipif(blas_address.addresses() is None, reason="NumPy's BLAS was not found")
def test_the_product_of_a_matrix_and_a_vector_in_a_loop_is_gemv(monkeypatch):
    if machine_code.gemv(np.dtype("float64")) is None:
        pytest.skip("compiled regions call BLAS through the library of loops")
    texts, compiled = [], machine_code.function
    monkeypatch.setattr(machine_code, "function", lambda text, quick: texts.append(text) or compiled(text, quick))
    for matrix in (np.random.default_rng(0).random((120, 100)), np.random.default_rng(0).random((100, 240))[:, ::2].T):
        x = rg.from_numpy(matrix / 100)

        def result(x):
            a, b = rg.ones(1, 100, dtype=rg.float64), rg.ones(120, dtype=rg.float64)

            def step(carry, _):
                a, b = carry
                return (0.5 * a + (b @ x).reshape(1, 100), 0.5 * b + x @ a[0]), None

            (a, b), _ = rg.func.scan(step, (a, b), None, length=3)
            return a.sum() + b.sum()

        texts.clear()
        gradient = rg.func.grad(result)
        np.testing.assert_allclose(rg.compile(gradient)(x).numpy(), gradient(x).numpy(), rtol=1e-12)
        assert any("dgemv" in text for text in texts)


def test_a_copy_is_made_once_unless_its_source_is_written():
    lowering, single = Lowering(), np.dtype("float32")
    source, first, second, third, other = [lowering.new((4, 4), single) for _ in range(5)]
    turned = source._replace(strides=source.strides[::-1])
    for target in (first, second):
        lowering.copy(turned, target)
    lowering.copy(second, other)
    lowering.copy((0.0, single), source)
    lowering.copy(turned, third)
    left = fusing.without_repeated_copies(lowering.steps, {third.buffer})
    assert [step.operands for step in left] == [[first, turned], [other, first], [source], [third, turned]]
    lowering.steps.clear()
    for target in (first, second):
        lowering.copy(turned, target)
    assert len(fusing.without_repeated_copies(lowering.steps, {second.buffer})) == 2
