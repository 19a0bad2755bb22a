"""Whole training steps, compiled: the same numbers as eager ones, bit for bit, in whatever order they are mixed."""

import io
import threading
import warnings

import numpy as np
import pytest
from pytest import approx

import retrograd as rg
from retrograd import kernels, nn, optim
from retrograd.compiler.cpu import optimizer_updates
from retrograd.kernels.loops.statistics import norms
from retrograd.nn import functional as F


def model_of(seed: int) -> nn.Module:
    rg.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(6, 8), nn.ReLU(), nn.BatchNorm1d(8), nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8), nn.Dropout(0.3),
        nn.Linear(8, 3),
    )  # fmt: skip


OPTIMIZERS = {
    "SGD": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "AdamW": lambda p: optim.AdamW(p, lr=0.01),
    "RMSprop": lambda p: optim.RMSprop(p, lr=0.01),
    "NAdam": lambda p: optim.NAdam(p, lr=0.01),
    "Adagrad": lambda p: optim.Adagrad(p, lr=0.05),
}


class Training:
    """A model, its optimizer and schedule, and a step of it, eager or compiled."""

    def __init__(self, optimizer: str = "AdamW", seed: int = 0):
        self.model = model_of(seed).double()
        self.optimizer = OPTIMIZERS[optimizer](self.model.parameters())
        self.schedule = optim.lr_scheduler.StepLR(self.optimizer, 2, 0.5)
        self.data = np.random.default_rng(1)
        self.compiled = rg.compile(self.step)
        rg.manual_seed(5)

    def step(self, x: rg.Tensor, y: rg.Tensor) -> rg.Tensor:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        return loss

    def run(self, kinds: str) -> list[float]:
        """The losses of steps, ``c`` for a compiled one and ``e`` for an eager one."""
        losses = []
        for kind in kinds:
            x, y = rg.tensor(self.data.standard_normal((5, 6))), rg.tensor(self.data.integers(0, 3, 5))
            losses.append((self.compiled if kind == "c" else self.step)(x.double(), y).item())
        return losses

    def state(self) -> list[np.ndarray]:
        """All that a step changes."""
        tensors = [*self.model.state_dict().values(), *(p.grad for p in self.model.parameters())]
        tensors += [x for entry in self.optimizer.state.values() for x in entry.values() if isinstance(x, rg.Tensor)]
        return [np.array(x.numpy()) for x in tensors] + [np.array(self.schedule.get_last_lr())]


def assert_same(first: list[np.ndarray], second: list[np.ndarray]) -> None:
    assert len(first) == len(second)
    for a, b in zip(first, second, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)  # optimizers make steps of rounding, too


@pytest.mark.slow
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_compiled_step_is_the_eager_one(optimizer):
    eager, compiled = Training(optimizer), Training(optimizer)
    rg.manual_seed(7)
    losses = eager.run("eeeeee")
    rg.manual_seed(7)
    assert compiled.run("cccccc") == approx(losses, rel=1e-9)
    assert_same(eager.state(), compiled.state())
    assert compiled.compiled.traces == 1 and not compiled.compiled.eager


def test_eager_and_compiled_steps_can_be_mixed():
    eager, mixed = Training(), Training()
    rg.manual_seed(7)
    losses = eager.run("eeeeeeee")
    rg.manual_seed(7)
    assert mixed.run("ceccecec") == approx(losses, rel=1e-9)
    assert_same(eager.state(), mixed.state())


def test_a_compiled_run_goes_on_from_what_a_checkpoint_holds():
    first = Training()
    first.run("ccc")
    file = io.BytesIO()
    rg.save({"model": first.model.state_dict(), "optimizer": first.optimizer.state_dict()}, file)
    file.seek(0)
    second = Training(seed=3)
    second.run("c")
    saved = rg.load(file)
    second.model.load_state_dict(saved["model"])
    second.optimizer.load_state_dict(saved["optimizer"])
    second.data = np.random.default_rng(1)
    third = Training()
    third.run("eee")
    third.data = np.random.default_rng(1)
    rg.manual_seed(9)
    losses = third.run("ee")
    rg.manual_seed(9)
    assert second.run("cc") == approx(losses, rel=1e-9)


@pytest.mark.slow
def test_the_last_smaller_batch_is_a_program_of_its_own():
    t = Training()
    for size in (5, 4, 5, 4, 5):
        t.compiled(rg.randn(size, 6, dtype=rg.float64), rg.zeros(size, dtype=rg.int64))
    assert t.compiled.traces == 2 and len(t.compiled.entries) == 2


def test_gradients_are_accumulated_as_the_program_says():
    w = rg.ones(3, requires_grad=True)

    @rg.compile
    def accumulate(x):
        (w * x).sum().backward()

    for _ in range(4):
        accumulate(rg.ones(3))
    assert w.grad.tolist() == [4, 4, 4]
    kept, w.grad = w.grad, None
    accumulate(rg.ones(3))
    assert w.grad.tolist() == [1, 1, 1] and kept.tolist() == [4, 4, 4]


@pytest.mark.skipif(not kernels.available(), reason="needs the library of loops")
def test_large_gradients_are_clipped_in_the_loop_that_updates_parameters(monkeypatch):
    """``.grad`` holds the clipped gradient nevertheless, and a hook before the step sees it."""
    monkeypatch.setattr(optimizer_updates, "MAX_ELEMENTS", 0)
    seen: list[float] = []

    def state(optimizer: str, largest: float, compiled: bool, watched: bool = False) -> list[np.ndarray]:
        ps = [nn.Parameter(rg.linspace(-1, 2, n)) for n in (7, 6000)]
        opt = OPTIMIZERS[optimizer](ps)

        def step() -> None:
            opt.zero_grad()
            sum((p * p * p).sum() for p in ps).backward()
            nn.utils.clip_grad_norm_(ps, largest)
            opt.step()

        run = rg.compile(step) if compiled else step
        for number in range(4):
            if number == 3 and watched:
                opt.register_step_pre_hook(lambda *_: seen.append(ps[0].grad[0].item()))
            run()
        if compiled:
            assert run.explain().count("multiply") == 0, run.explain()
        if watched:
            assert seen[-1] == ps[0].grad[0].item()
        states = [x for entry in opt.state.values() for x in entry.values() if isinstance(x, rg.Tensor)]
        return [np.array(x.detach().numpy()) for x in (*ps, *(p.grad for p in ps), *states)]

    for optimizer, largest, watched in [  # the last factor is 1
        ("SGD", 0.5, False), ("AdamW", 0.5, False), ("AdamW", 0.5, True), ("AdamW", 1e9, False)
    ]:  # fmt: skip
        found = state(optimizer, largest, True, watched)
        for one, other in zip(state(optimizer, largest, False), found, strict=True):
            np.testing.assert_array_equal(one, other, f"{optimizer}, {largest}, {watched}")
    assert len(seen) == 1


def test_gradients_that_somebody_keeps_stay_as_they_were():
    w = rg.ones(3, requires_grad=True)

    @rg.compile
    def step(x):
        w.grad = None
        (w * x).sum().backward()

    grads = []
    for k in range(4):
        step(rg.full((3,), float(k)))
        grads.append(w.grad)
    assert [g.tolist() for g in grads] == [[float(k)] * 3 for k in range(4)]


def test_the_batch_that_an_error_ends_changes_nothing():
    embedding = nn.Embedding(4, 2)
    optimizer = optim.SGD(embedding.parameters(), lr=0.1)

    @rg.compile
    def step(index):
        optimizer.zero_grad()
        loss = embedding(index).sum()
        loss.backward()
        optimizer.step()
        return loss

    good = rg.tensor([0, 1, 2])
    step(good), step(good)
    before = embedding.weight.detach().numpy().copy()
    with pytest.raises(IndexError, match="index 9 is out of range"):
        step(rg.tensor([0, 1, 9]))
    np.testing.assert_array_equal(embedding.weight.detach().numpy(), before)
    step(good)
    assert step.traces == 1 or len(step.entries) == 1


def test_threads_may_compile_and_replay_models_of_their_own():
    results: dict[int, list[float]] = {}

    def work(number: int) -> None:
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        with rg.no_grad():
            for p in model.parameters():
                p.fill_(0.1 * (number + 1))
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        @rg.compile
        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        results[number] = [step(rg.ones(2, 3)).item() for _ in range(20)]

    for number in range(4):
        work(number)
    alone = dict(results)
    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == alone


def test_compiling_can_be_turned_off(monkeypatch):
    monkeypatch.setenv("RETROGRAD_COMPILE", "off")
    calls = []

    @rg.compile
    def f(x):
        calls.append(1)
        return x * 2

    for _ in range(3):
        f(rg.ones(1))
    assert len(calls) == 3 and f.traces == 0
    monkeypatch.setenv("RETROGRAD_COMPILE", "perhaps")
    with pytest.raises(RuntimeError, match="must be on or off"):
        f(rg.ones(1))


def test_what_is_kept_outside_of_a_call_makes_it_an_eager_function():
    kept = []

    @rg.compile
    def f(x):
        y = x * 2
        kept.append(y)
        return y

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(5):
            f(rg.ones(1))
    assert len(kept) == 5 and f.eager and len(told) == 1
    assert [x.tolist() for x in kept] == [[2.0]] * 5


def test_parameters_that_a_graph_still_needs_are_not_moved_under_the_program():
    def parameters_after(wrap):
        rg.manual_seed(0)
        parameters = [nn.Parameter(rg.randn(3, 3)) for _ in range(2)]
        for parameter in parameters:
            parameter.grad = rg.ones(3, 3)
        optimizer = rg.optim.AdamW(parameters, lr=0.1)

        @wrap
        def step():
            optimizer.step()
            return parameters[0][0, 0], (parameters[1] * parameters[1]).sum()

        results = [step() for _ in range(5)]
        return [value.item() for result in results for value in result], parameters

    (eager, wanted), (compiled, found) = parameters_after(lambda f: f), parameters_after(rg.compile)
    assert compiled == pytest.approx(eager, rel=1e-6)
    assert all(rg.equal(a, b) for a, b in zip(wanted, found))


@pytest.mark.filterwarnings("ignore:compile")
@pytest.mark.parametrize("clears", [True, False])
def test_a_compiled_step_with_a_grad_scaler_grows_the_scale_as_an_eager_step_does(clears):
    def run(decorate):
        w = rg.nn.Parameter(rg.ones(2))
        optimizer = rg.optim.SGD([w], lr=0.1)
        scaler = rg.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)

        def step(x):
            if clears:
                optimizer.zero_grad()
            scaler.scale((w * x).sum()).backward()
            scaler.step(optimizer)
            scaler.update()

        compiled, states = decorate(step), []
        for _ in range(6):
            compiled(rg.ones(2))
            states.append((w.tolist(), w.grad.tolist(), scaler.state_dict()))
        return states

    assert run(rg.compile) == run(lambda step: step)


class Halving(optim.lr_scheduler.LRScheduler):
    """A schedule of a user, with a ``step`` and a count of its own."""

    def __init__(self, optimizer):
        self.halvings = 0
        super().__init__(optimizer)

    def get_lr(self):
        return [rate / 2 for rate in self.get_last_lr()] if self.halvings > 1 else list(self.base_lrs)

    def step(self, epoch=None):
        self.halvings += 1
        super().step(epoch)


SCHEDULES = {
    "restarts": lambda o: optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 2, T_mult=2),
    "in turn": lambda o: optim.lr_scheduler.SequentialLR(
        o, [optim.lr_scheduler.ConstantLR(o, total_iters=2), optim.lr_scheduler.ExponentialLR(o, 0.8)], [3]
    ),
    "together": lambda o: optim.lr_scheduler.ChainedScheduler(
        [optim.lr_scheduler.ConstantLR(o, total_iters=2), optim.lr_scheduler.ExponentialLR(o, 0.8)]
    ),
    "cycle": lambda o: optim.lr_scheduler.CyclicLR(o, 0.01, 0.1, 2),
    "averaging": lambda o: optim.swa_utils.SWALR(o, 0.01, anneal_epochs=4),
    "own": Halving,
}


@pytest.mark.filterwarnings("ignore:compile")
@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_goes_on_in_each_call_of_a_compiled_step(name):
    def rates(compiled):
        w = nn.Parameter(rg.ones(2))
        optimizer = optim.SGD([w], 0.1)
        schedule = SCHEDULES[name](optimizer)

        def step(x):
            optimizer.zero_grad()
            (w * x).sum().backward()
            optimizer.step()
            schedule.step()

        run = rg.compile(step) if compiled else step
        found = []
        for _ in range(9):
            run(rg.ones(2))
            found.append(optimizer.param_groups[0]["lr"])
        return found, w.detach().numpy().tolist()

    assert rates(True) == rates(False)


@pytest.mark.filterwarnings("ignore:compile")
@pytest.mark.parametrize("metric", ["a number", "a Tensor"])
def test_a_plateau_is_met_in_a_compiled_step(metric):
    def rates(compiled):
        w = nn.Parameter(rg.ones(2))
        optimizer = optim.SGD([w], 0.1)
        schedule = optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)

        def step(x):
            optimizer.zero_grad()
            loss = (w * x).sum().abs() + 1
            loss.backward()
            optimizer.step()
            schedule.step(3.0 if metric == "a number" else loss)

        run = rg.compile(step) if compiled else step
        for _ in range(7):
            run(rg.ones(2))
        return optimizer.param_groups[0]["lr"]

    assert rates(True) == rates(False)


@pytest.mark.skipif(not kernels.available(), reason="there are no compiled loops")
def test_moments_of_batch_norm_are_computed_once(monkeypatch):
    loop, calls = norms.channel_moments, []
    monkeypatch.setattr(norms, "channel_moments", lambda x, *running: (calls.append(x), loop(x, *running))[1])
    x = rg.randn(32, 4, 32, 32)  # not in a region

    def outputs(compiled):
        norm = nn.BatchNorm2d(4)
        step = rg.compile(norm) if compiled else norm
        found = [step(x * scale).detach().numpy() for scale in (1.0, 2.0, 3.0)]
        return [*found, norm.running_mean.numpy(), norm.running_var.numpy()]

    wanted = outputs(False)
    assert len(calls) == 3
    for one, other in zip(outputs(True), wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(calls) == 6


def test_batch_norm_of_examples_is_compiled():
    """The moments of examples of ``vmap`` are no arguments of the operator."""
    x = rg.randn(3, 8, 4, 32, 32)

    def normalized(x):
        return F.batch_norm(x, rg.zeros(4), rg.ones(4), training=True)

    np.testing.assert_allclose(rg.compile(rg.func.vmap(normalized))(x).numpy(), rg.func.vmap(normalized)(x).numpy())
