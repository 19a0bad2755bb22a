"""Memory of replays: planned from lifetimes, used again by each, and never what the user holds."""

import threading
import tracemalloc

import numpy as np
import pytest

import retrograd as rg
from retrograd import kernels, nn
from retrograd.compiler.cpu import machine_code
from retrograd.compiler.passes import recomputing
from retrograd.compiler.run import arenas
from retrograd.nn import functional as F
from tests.compiler.run.allocations import allocations

pytestmark = pytest.mark.skipif(
    not (kernels.available() and machine_code.available()), reason="needs the library of loops and LLVM"
)


def normal(seed, *shape):
    return rg.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def made_model():
    rg.manual_seed(0)
    return nn.Sequential(nn.Linear(96, 160), nn.GELU(), nn.LayerNorm(160), nn.Linear(160, 96))


def made_step(model):
    def step(x):
        h = model(x)
        loss = ((h - x) ** 2).mean()
        loss.backward()
        return loss.detach()

    return step


@pytest.fixture
def large():
    return normal(1, 512, 96)


def test_blocks_that_live_at_once_lie_apart():
    rng = np.random.default_rng(0)
    for _ in range(50):
        blocks = []
        for _ in range(40):
            first = int(rng.integers(30))
            blocks.append(arenas.Block(int(rng.integers(1, 5000)), first, first + int(rng.integers(8))))
        size = arenas.place_blocks(blocks)
        for number, block in enumerate(blocks):
            assert block.offset % arenas.CACHE_LINE == 0 and block.offset + block.nbytes <= size
            for other in blocks[:number]:
                together = block.first <= other.last and other.first <= block.last
                meet = block.offset < other.offset + other.nbytes and other.offset < block.offset + block.nbytes
                assert not (together and meet)
        at_once = max(sum(b.nbytes for b in blocks if b.first <= t <= b.last) for t in range(40))
        assert at_once <= size <= 1.5 * at_once + 40 * arenas.CACHE_LINE


def test_a_block_takes_the_smallest_gap_it_fits_in():
    wide, narrow, late = arenas.Block(3000, 0, 0), arenas.Block(1024, 0, 0), arenas.Block(1000, 5, 6)
    lasting = [arenas.Block(nbytes, 0, 9) for nbytes in (4096, 2500, 1010)]
    arenas.place_blocks([*lasting, wide, narrow, late])
    assert lasting[0].offset < wide.offset < lasting[1].offset < narrow.offset < lasting[2].offset
    assert late.offset == narrow.offset


def test_memory_of_a_gradient_holds_blocks_until_the_gradient_is_computed(monkeypatch):
    monkeypatch.setattr(arenas, "MIN_LENT_BYTES", 1)
    rng, moved = np.random.default_rng(0), 0
    for _ in range(30):
        hosts = [
            arenas.Host(None, arenas.Asked((int(rng.integers(100, 5000)),), np.dtype(np.int8), 0), 2, int(closes))
            for closes in rng.integers(3, 30, 6)
        ]
        blocks = []
        for first in map(int, rng.integers(30, size=30)):
            blocks.append(arenas.Block(int(rng.integers(1, 2000)), first, first + int(rng.integers(8))))
        arenas.place_in_hosts(blocks, hosts)
        for host in hosts:
            moved += len(host.blocks)
            for number, block in enumerate(host.blocks):
                assert block.host is host and host.opens <= block.first and block.last < host.closes
                assert 0 <= block.offset <= host.asked.shape[0] - arenas.CACHE_LINE - block.nbytes
                for other in host.blocks[:number]:
                    together = block.first <= other.last and other.first <= block.last
                    meet = block.offset < other.offset + other.nbytes and other.offset < block.offset + block.nbytes
                    assert not (together and meet)
    assert moved > 50


@pytest.mark.parametrize("clear_first", [False, True])
def test_a_step_in_the_memory_of_its_last_gradients_is_the_eager_step(monkeypatch, clear_first):
    for module, name in [(arenas, "MIN_LENT_BYTES"), (arenas, "MIN_LENDING_ARENA"), (recomputing, "MIN_ARENA")]:
        monkeypatch.setattr(module, name, 1)
    monkeypatch.setattr(recomputing, "MIN_BYTES", 4096)

    def made():
        rg.manual_seed(0)
        blocks = [(nn.LayerNorm(256), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 256)) for _ in range(3)]
        model = nn.Sequential(*[nn.Sequential(*block) for block in blocks])
        optimizer = rg.optim.AdamW(model.parameters())

        def step(x):
            if clear_first:
                optimizer.zero_grad()
            loss = model(x).square().mean()
            if not clear_first:
                optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return model, step

    (model, step), (other, eager), x = made(), made(), normal(1, 192, 256)
    compiled, held = rg.compile(step), []
    for number in range(5):
        np.testing.assert_allclose(compiled(x).numpy(), eager(x).numpy(), rtol=1e-6)
        if number == 2:  # the user keeps a gradient, and clears another
            held = [model[0][1].weight.grad, model[0][1].weight.grad.numpy().copy()]
            model[1][1].weight.grad = None
        for p, q in zip(model.parameters(), other.parameters(), strict=True):
            if p.grad is not None:
                np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-3, atol=1e-6)
    np.testing.assert_array_equal(held[0].numpy(), held[1])
    replay = (*compiled.own, *compiled.entries)[0].replay
    names = [step.name for step in replay.instructions]
    assert replay.plan.hosts and names.count("gelu") > 3
    with monkeypatch.context() as patch:
        patch.setattr(arenas, "MIN_LENDING_ARENA", 1 << 40)
        patch.setattr(recomputing, "MIN_ARENA", 1 << 40)
        plain = rg.compile(step)
        plain(x), plain(x)
    assert replay.plan.size < 0.75 * (*plain.own, *plain.entries)[0].replay.plan.size


def test_a_compiled_step_holds_no_more_memory_than_the_eager_step():
    def peak(compiled):
        model = nn.Sequential(*[nn.Sequential(nn.Linear(32, 256), nn.GELU(), nn.Linear(256, 32)) for _ in range(2)])
        x = normal(1, 4096, 32)

        def step():
            model.zero_grad()
            model(x).square().mean().backward()

        run = rg.compile(step) if compiled else step
        run()
        tracemalloc.start()
        try:
            run()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    arenas.empty_arenas()
    assert peak(True) <= peak(False)


def test_gradients_that_hooks_use_and_clear_are_not_allocated_at_once(monkeypatch):
    small = [(arenas, "MIN_LENT_BYTES"), (arenas, "MIN_LENDING_ARENA"), (recomputing, "MIN_ARENA")]
    for module, name in [*small, (recomputing, "MIN_BYTES"), (recomputing, "MIN_DISTANCE")]:
        monkeypatch.setattr(module, name, 1)

    def made():
        rg.manual_seed(0)
        model = nn.Sequential(*[nn.Sequential(nn.Linear(512, 512), nn.GELU()) for _ in range(6)])
        optimizers = {p: rg.optim.SGD([p], lr=0.1) for p in model.parameters()}

        def update(p):
            optimizers[p].step()
            optimizers[p].zero_grad()

        for p in optimizers:
            p.register_post_accumulate_grad_hook(update)

        def step(x):
            loss = model(x).square().sum()
            loss.backward()
            return loss.detach()

        return model, step

    (model, step), (_, eager), x = made(), made(), normal(1, 64, 512)
    compiled, nbytes = rg.compile(step), model[0][0].weight.nbytes
    for _ in range(3):
        np.testing.assert_allclose(compiled(x).numpy(), eager(x).numpy(), rtol=1e-6)
    arenas.empty_arenas()
    tracemalloc.start()
    compiled(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * nbytes
    replay = (*compiled.own, *compiled.entries)[0].replay
    assert [step.name for step in replay.instructions].count("gelu") > 6


def test_a_replay_allocates_nothing(large):
    model = made_model()
    step = rg.compile(made_step(model))

    def training(x):
        model.zero_grad()
        return step.function(x)

    compiled = rg.compile(training)
    for _ in range(3):
        compiled(large)
    with allocations() as found:
        compiled(large)
    assert not found
    with allocations() as eagerly:
        training(large)
    assert eagerly


def test_what_the_user_holds_is_not_overwritten(large):
    model = made_model()

    def step(x):
        h = model[0](x)
        y = F.gelu(h)
        loss = (y * y).sum()
        loss.backward()
        return h.detach(), y.detach().T, loss.detach()

    compiled = rg.compile(step)
    held = []
    for seed in range(4):
        x = normal(seed, 512, 96)
        model.zero_grad()
        got = compiled(x)
        gradients = [p.grad for p in model[0].parameters()]
        held.append((x, [*got, *gradients], [t.numpy().copy() for t in (*got, *gradients)]))
    for x, tensors, copies in held:
        model.zero_grad()
        wanted = [*step(x), *[p.grad for p in model[0].parameters()]]
        for tensor, copied, want in zip(tensors, copies, wanted, strict=True):
            np.testing.assert_array_equal(tensor.numpy(), copied)
            np.testing.assert_allclose(copied, want.numpy(), rtol=1e-4, atol=1e-4)


def test_a_graph_that_is_walked_later_keeps_what_it_needs(large):
    w = normal(2, 96, 96).requires_grad_()

    @rg.compile
    def forward(x):
        return F.gelu(F.layer_norm(x @ w, (96,))).sum()

    losses, inputs = [], [normal(seed, 512, 96) for seed in range(4)]
    for x in inputs:
        losses.append(forward(x))
    for x, loss in zip(inputs, losses, strict=True):
        (got,) = rg.autograd.grad(loss, w)
        (want,) = rg.autograd.grad(F.gelu(F.layer_norm(x @ w, (96,))).sum(), w)
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-4, atol=1e-4)


def test_threads_replay_one_program_at_once(large):
    @rg.compile
    def function(x):
        return (F.softmax(rg.sin(x) @ x.T, -1) @ x).sum(0)

    inputs = [normal(seed, 256, 96) for seed in range(4)]
    wanted = [function.function(x).numpy() for x in inputs]
    for x in inputs:
        function(x)
    wrong = []

    def replay(number):
        for _ in range(25):
            if not np.allclose(function(inputs[number]).numpy(), wanted[number], rtol=1e-4, atol=1e-4):
                wrong.append(number)

    threads = [threading.Thread(target=replay, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_an_error_in_a_replay_leaves_the_program_usable(large, monkeypatch):
    @rg.compile
    def function(x):
        return F.layer_norm(F.gelu(x @ x.T), (512,)).sum(0)

    wanted = function(large).numpy().copy()
    function(large)
    (entry,) = function.entries
    interrupted = entry.replay

    def stop(*args, **kwargs):
        raise KeyboardInterrupt

    step = interrupted.instructions[max(interrupted.plan.slots)]
    name = next(key for key, value in interrupted._constants.items() if value is step.function)
    plain = interrupted.function.__globals__[name]
    interrupted.function.__globals__[name] = stop
    with pytest.raises(KeyboardInterrupt):
        function(large)
    interrupted.function.__globals__[name] = plain
    for _ in range(2):
        np.testing.assert_array_equal(function(large).numpy(), wanted)


def test_the_arena_is_given_back_by_empty_cache(large):
    @rg.compile
    def function(x):
        return F.layer_norm(F.gelu(x @ x.T), (512,)).sum(0)

    function(large)
    wanted = function(large).numpy()
    assert arenas._idle
    rg.empty_cache()
    assert not arenas._idle
    np.testing.assert_array_equal(function(large).numpy(), wanted)


def test_programs_that_run_one_after_the_other_share_an_arena(large):
    rg.empty_cache()
    first, second = [rg.compile(lambda x, k=k: F.gelu(x @ x.T * k).sum(0)) for k in (1.0, 2.0)]
    for _ in range(3):
        first(large), second(large)
    assert len(arenas._idle) == 1


def test_explain_gives_the_plan_and_its_peak(large):
    @rg.compile
    def function(x):
        return F.layer_norm(F.gelu(x @ x.T), (512,)).sum(0)

    function(large)
    text = function.explain(large)
    (entry,) = function.entries
    assert f"an arena of {entry.replay.plan.size / 1024**2:.4g} MiB" in text
    assert "at 0: " in text and ", instructions " in text
