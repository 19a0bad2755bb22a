"""The doctor as a tool: it changes nothing, proves edits, says what it found, and costs little."""

import json
import random
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.core.graph.modes import modes
from retrograd.core.tensor.tensor import Tensor
from retrograd.inspect.diagnosing import observing
from retrograd.inspect.diagnosing.kinds import KINDS
from retrograd.nn import functional as F
from retrograd.nn.base import global_hooks
from retrograd.ops.nn.losses import classes
from retrograd.optim import optimizer as optimizers


def training(steps: int = 40, lr: float = 0.1, broken: bool = False) -> tuple[nn.Module, list[float]]:
    """Train with dropout, batch norm, NumPy's and Python's generators; return the model and the losses."""
    rg.manual_seed(3)
    np.random.seed(3)  # noqa: NPY002
    random.seed(3)
    model = nn.Sequential(nn.Linear(6, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Dropout(0.3), nn.Linear(24, 1))
    optimizer = rg.optim.Adam(model.parameters(), lr=lr)
    losses = []
    for _ in range(steps):
        x = rg.tensor(np.random.randn(16, 6).astype("f")) + 0.1 * rg.randn(16, 6) * random.random()  # noqa: NPY002
        y = x[:, 0] if broken else x[:, :1]
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    losses += [float(rg.rand(1)), float(np.random.rand()), random.random()]  # noqa: NPY002
    return model, losses


@pytest.mark.parametrize("broken", [False, True])
def test_a_training_is_bitwise_the_same_with_and_without_the_doctor(broken: bool) -> None:
    plain, losses = training(broken=broken)
    with rg.inspect.doctor() as d:
        watched, again = training(broken=broken)
    assert bool(d.findings) is broken
    assert losses == again
    for p, q in zip(plain.state_dict().values(), watched.state_dict().values(), strict=True):
        assert bool((p.array == q.array).all())


def test_probes_leave_random_generators_and_parameters_alone() -> None:
    with rg.inspect.doctor() as d:
        model, _ = training(broken=True)
        before = [p.array.copy() for p in model.parameters()]
        states = rg.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
    assert d.findings[0].evidence["curves"]
    assert bool((states[0] == rg.get_rng_state()).all())
    assert bool((states[1][1] == np.random.get_state()[1]).all())  # noqa: NPY002
    assert states[2] == random.getstate()
    assert all(bool((p.array == x).all()) for p, x in zip(model.parameters(), before, strict=True))


def test_nothing_is_left_behind() -> None:
    def state() -> list[Any]:
        return [
            Tensor.backward, Tensor.requires_grad, rg.autograd.backward, rg.autograd.grad, nn.Module.__init__,
            nn.Module.train, rg.optim.Optimizer.__init__, rg.optim.Optimizer.zero_grad, rg.data.DataLoader.__init__,
            dict(optimizers._pre_hooks_of_all), dict(optimizers._post_hooks_of_all),
            dict(global_hooks.forward_pre_hooks), dict(global_hooks.listeners), nn.Module.__call__,
            nn.Module.__setattr__, classes._batched, modes.observers,
        ]  # fmt: skip

    before = state()
    with rg.inspect.doctor():
        training(5)
    assert state() == before
    with pytest.raises(ZeroDivisionError), rg.inspect.doctor():
        training(5)
        1 / 0
    assert state() == before


def test_a_proof_has_both_curves_from_the_same_state() -> None:
    with rg.inspect.doctor() as d:
        training(broken=True, lr=0.01)
    curves: Any = d.findings[0].evidence["curves"]
    assert len(curves["with"]) == len(curves["without"]) == 31
    assert curves["with"][0] == curves["edited_loss"][0]
    assert curves["with"][-1] < 0.5 * curves["edited_loss"][-1]
    assert curves["without"] != curves["edited_loss"]  # by the loss as written
    assert "Tried for 30 steps" in d.findings[0].message


def test_what_could_not_be_proved_says_so() -> None:
    class Square(rg.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 2 * g * ctx.saved_tensors[0]

    layer = nn.Linear(3, 1)
    optimizer = rg.optim.SGD(layer.parameters(), lr=0.01)

    def step() -> None:
        x = rg.randn(8, 3)
        optimizer.zero_grad()
        Square.apply(layer(x) - x[:, 0]).mean().backward()
        optimizer.step()

    d = rg.inspect.diagnose(step, steps=10)
    assert [x.kind for x in d.findings] == ["broadcast-loss"]
    assert "could not be run again" in d.findings[0].message
    assert "curves" not in d.findings[0].evidence


def test_the_report_has_the_first_cause_and_json_all_of_them() -> None:
    layer = nn.Linear(3, 1)
    optimizer = rg.optim.SGD(layer.parameters(), lr=0.01)

    def step() -> None:
        x = rg.randn(8, 3)
        ((layer(x) - x[:, 0]) ** 2).mean().backward()
        optimizer.step()

    d = rg.inspect.diagnose(step, layer, optimizer, steps=20)
    kinds = [x.kind for x in d.findings]
    assert kinds == ["gradients-not-zeroed", "broadcast-loss"]
    assert "gradients-not-zeroed" in str(d) and "broadcast-loss" not in str(d)
    assert "1 more finding" in str(d)
    assert "broadcast-loss" in d.report(everything=True)
    listed = json.loads(d.to_json())["findings"]
    assert [x["kind"] for x in listed] == kinds
    assert set(listed[0]) == {"kind", "file", "line", "message", "fix", "evidence"}
    assert listed[0]["file"] == __file__


def test_history_and_record_describe_the_run() -> None:
    with rg.inspect.doctor() as d:
        training(12)
    assert [x.step for x in d.history] == list(range(12))
    first = d.history[0]
    assert set(first.gradients) == set(first.weights) == set(first.updates) >= {"0.weight", "4.bias"}
    assert first.rates == [0.1] and first.loss > 0
    assert d.record is not None
    assert any(record.gradients is not None for record in d.record)


def test_steps_bound_what_is_watched() -> None:
    with rg.inspect.doctor(steps=10) as d:
        model, losses = training(25)
    assert d.steps == 10
    assert len(losses) == 28
    with pytest.raises(ValueError, match="at least 1"):
        rg.inspect.doctor(steps=0)


def test_an_active_doctor_gives_no_findings_yet() -> None:
    d = rg.inspect.doctor()
    with d, pytest.raises(RuntimeError, match="at the end"):
        d.findings
    assert d.findings == []
    assert "no training step was seen" in str(d)


def test_an_error_of_the_program_is_a_finding_and_passes() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
    optimizer = rg.optim.SGD(model.parameters(), lr=0.1)
    d = rg.inspect.doctor()
    with pytest.raises(ValueError, match="more than 1 value"), d:
        for n in (4, 4, 1):
            optimizer.zero_grad()
            model(rg.randn(n, 4)).mean().backward()
            optimizer.step()
    assert d.findings[0].kind == "batch-norm-of-one"


def test_several_models_and_optimizers_are_told_apart() -> None:
    g, d = nn.Linear(4, 2), nn.Linear(2, 1)
    og, od = rg.optim.SGD(g.parameters(), lr=0.01), rg.optim.SGD(d.parameters(), lr=0.01)
    loss = nn.BCEWithLogitsLoss()
    with rg.inspect.doctor() as watching:
        for _ in range(20):
            fake = g(rg.randn(8, 4))
            loss(d(fake.detach()), rg.zeros(8, 1)).backward()  # od.zero_grad() is missing
            od.step()
            og.zero_grad()
            loss(d(fake), rg.ones(8, 1)).backward()
            og.step()
    assert [x.kind for x in watching.findings] == ["gradients-not-zeroed"]
    assert "od.zero_grad() is missing" in watching.findings[0].code


def timed(run: Callable[[], object]) -> float:
    from time import process_time

    start = process_time()
    run()
    return process_time() - start


def test_a_watched_step_makes_few_calls_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of two layers has two hundred of its own; the norms for the page have their share of the time."""
    monkeypatch.setattr(observing, "_WALKS", 0.0)
    monkeypatch.setattr(observing, "_NORMS", 0.0)
    x, y, model = rg.randn(2, 4), rg.randint(0, 3, (2,)), nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3))
    optimizer = rg.optim.SGD(model.parameters(), lr=1e-3)

    def calls_of_a_step(steps: int = 50) -> float:
        count = 0

        def count_calls(frame: FrameType, event: str, arg: object) -> None:
            nonlocal count
            count += event == "call"

        before = sys.getprofile()
        sys.setprofile(count_calls)
        try:
            for _ in range(steps):
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
        finally:
            sys.setprofile(before)
        return count / steps

    calls_of_a_step(25)
    plain = calls_of_a_step()
    with rg.inspect.doctor():
        calls_of_a_step(25)  # of which three are recorded in full
        assert calls_of_a_step() - plain < 50


@pytest.mark.slow
def test_watched_steps_cost_less_than_a_tenth_more(pytestconfig: pytest.Config) -> None:
    if not pytestconfig.getoption("--long"):
        pytest.skip("times of a shared machine vary by more; --long measures")
    x, y = rg.randn(256, 128), rg.randint(0, 10, (256,))
    model = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = rg.optim.Adam(model.parameters(), lr=1e-3)

    def steps(count: int = 200) -> None:
        for _ in range(count):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()

    steps()
    ratios = []
    for _ in range(5):
        plain = timed(steps)
        with rg.inspect.doctor():
            watched = timed(steps)
        ratios.append(watched / plain)
    assert min(ratios) < 1.1, ratios


@pytest.mark.parametrize("name", ["diagnose", "doctor"])
def test_the_names_are_public(name: str) -> None:
    assert name in rg.inspect.__all__


def test_a_page_that_is_missing_is_a_clear_error(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "retrograd.inspect.diagnosing.page", None)
    with rg.inspect.doctor() as d:
        training(3)
    with pytest.raises(RuntimeError, match="page"):
        d.save(tmp_path / "out.html")


def test_warnings_of_the_program_stay_as_they_are() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with rg.inspect.doctor():
            training(3)
    assert caught == []


def test_an_optimizer_that_is_first_seen_at_its_step_has_all_its_steps_counted():
    rg.manual_seed(0)
    x, model = rg.randn(32, 4), nn.Linear(4, 2)
    optimizer = rg.optim.SGD(model.parameters(), lr=0.1)
    with rg.inspect.doctor() as d:
        for _ in range(6):
            nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long()).backward()
            optimizer.step()
    assert d.steps == 6 and "5 of 6 steps" in d.findings[0].message


def test_steps_are_recorded_by_their_numbers_only_and_two_runs_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    for slow in (False, True):
        clock = iter(range(10**9))
        if slow:  # each look at the clock is a second later
            monkeypatch.setattr("time.perf_counter", lambda ticks=clock: float(next(ticks)))
        with rg.inspect.doctor() as d:
            training(101, broken=True, lr=0.01)
        runs.append(([x.number for x in d._run.steps], [(x.kind, x.line, x.message) for x in d.findings]))
    monkeypatch.undo()
    assert runs[0] == runs[1]
    assert runs[0][0] == [0, 1, 20, 100]


def test_a_later_phase_with_another_optimizer_is_recorded_too() -> None:
    rg.manual_seed(0)
    x, first, second = rg.randn(32, 4), nn.Linear(4, 4), nn.Linear(4, 1)
    a, b = rg.optim.SGD(first.parameters(), lr=0.05), rg.optim.SGD(second.parameters(), lr=0.05)
    with rg.inspect.doctor() as d:
        for _ in range(30):
            a.zero_grad()
            F.mse_loss(first(x), x).backward()
            a.step()
        for _ in range(60):
            b.zero_grad()
            ((second(x) - x[:, 0]) ** 2).mean().backward()  # of shape (32, 32)
            b.step()
    assert [x.kind for x in d.findings] == ["broadcast-loss"]
    assert "of shape (32, 32)" in d.findings[0].code


def test_iterators_are_passed_on() -> None:
    layer = nn.Linear(3, 2)
    with rg.inspect.doctor():
        out = layer(rg.randn(5, 3)).sum()
        grads = rg.autograd.grad(out, layer.parameters(), retain_graph=True)
        rg.autograd.backward(iter([out]))
    assert len(grads) == 2 and bool((grads[1].array == 5).all())
    assert layer.bias.grad is not None and bool((layer.bias.grad.array == 5).all())


def test_each_finding_is_proved_or_says_why_it_is_not() -> None:
    from retrograd.inspect.diagnosing.kinds import KINDS

    with rg.inspect.doctor() as d:
        model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
        optimizer = rg.optim.SGD(model.parameters(), lr=0.01)
        for n in (8, 8, 8, 8):
            ((model(rg.randn(n, 4)) - rg.zeros(n)) ** 2).mean().backward()
            optimizer.step()
    assert len(d.findings) >= 2
    for x in d.findings:
        assert str(x.evidence["proof"]).startswith(("Tried for ", "Not proved: "))
    assert [name for name, x in KINDS.items() if x.unproved.endswith(".")] == []


def test_gradients_of_several_backward_passes_are_measured_together() -> None:
    w = rg.ones(4, requires_grad=True)
    optimizer = rg.optim.SGD([w], lr=0.1)
    with rg.inspect.doctor(optimizer=optimizer) as d:
        for _ in range(2):
            optimizer.zero_grad()
            h = w.exp()
            (3 * h.sum()).backward(retain_graph=True)
            (-h).sum().backward()
            optimizer.step()
    assert d.record is not None
    found = next(x.gradients for x in d.record if x.operator == "exp")
    assert (found.minimum, found.maximum, found.mean, found.std) == (-1, 3, 1, 2)


def test_rows_of_repeated_batches_are_sorted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, model = rg.randn(8, 4), rg.arange(8) % 3, nn.Linear(4, 3)
    optimizer = rg.optim.SGD(model.parameters(), lr=0.1)
    sizes: list[int] = []
    unique = np.unique

    def counted(array: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("axis") == 0:
            sizes.append(len(array))
        return unique(array, *args, **kwargs)

    monkeypatch.setattr(np, "unique", counted)
    with rg.inspect.doctor():
        for _ in range(30):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
    assert sizes == [8]


def test_an_error_of_a_rule_leaves_the_other_findings(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(case: object) -> None:
        raise IndexError("tuple index out of range")

    monkeypatch.setitem(KINDS, "softmax-axis", replace(KINDS["softmax-axis"], rule=fails))
    with pytest.warns(RuntimeWarning, match=r"(?s)not answered.*softmax-axis: IndexError in test_doctor.py"):
        with rg.inspect.doctor() as d:
            training(broken=True)
    assert [x.kind for x in d.findings[:1]] == ["broadcast-loss"]


def test_calls_of_large_arrays_keep_their_shapes() -> None:
    model = nn.Linear(4, 3000)
    optimizer = rg.optim.SGD(model.parameters(), lr=0.1)
    with rg.inspect.doctor() as d:
        for _ in range(3):
            optimizer.zero_grad()
            model(rg.ones(8, 4)).sum().backward()
            optimizer.step()
    assert {x.shape for step in d._run.steps for x in step.calls if x.name == "linear"} == {(8, 3000)}
