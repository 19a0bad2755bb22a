"""CUDA graphs on a stand-in stream, which takes down what is done while it captures and does it again at a launch."""

from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.compiler.cuda import graphs
from retrograd.core.opaque_calls import whole
from tests.compiler.cuda import processor
from tests.compiler.cuda.streams import Graph, Stream, streams
from tests.helpers.guarded import cupy, guarded_backend

F = rg.nn.functional
pytestmark = pytest.mark.skipif(processor.compiler() is None, reason="no g++")


@pytest.fixture(autouse=True)
def backend(monkeypatch):
    monkeypatch.setattr(Graph, "launches", 0)
    with guarded_backend() as backend, streams(monkeypatch):
        yield backend


class Run:
    """A step of training, and the same made eagerly beside it."""

    def __init__(self, change: Any = None) -> None:
        self.change = change
        self.nets = [self._net(), self._net()]
        self.steps = [self._step(net) for net in self.nets]
        self.fast = rg.compile(self.steps[0])

    def _net(self) -> Any:
        rg.manual_seed(0)
        return rg.nn.Sequential(rg.nn.Linear(6, 8, bias=False), rg.nn.BatchNorm1d(8), rg.nn.SiLU(), rg.nn.Linear(8, 4))

    def _step(self, net: Any) -> Any:
        opt = rg.optim.AdamW(net.parameters(), lr=0.01)
        net.opt, change = [opt], self.change

        def step(x: Any, y: Any) -> Any:
            opt.zero_grad()
            loss = F.cross_entropy(net(x), y)
            if change is not None:
                loss = change(loss, x)
            loss.backward()
            opt.step()
            return loss.detach()

        return step

    def check(self, calls: int, seed: int = 0) -> None:
        """Calls with new numbers each: the same losses, parameters, statistics and gradients."""
        rng = np.random.default_rng(seed)
        for _ in range(calls):
            x = rg.tensor(rng.standard_normal((5, 6)).astype(np.float32), device="cuda")
            y = rg.tensor(rng.integers(0, 4, 5), device="cuda")
            got, wanted = self.fast(x, y), self.steps[1](x, y)
            np.testing.assert_allclose(got.item(), wanted.item(), rtol=1e-5)
            assert not any(p.grad is None for p in self.nets[0].parameters())
        for (name, a), b in zip(self.nets[0].state_dict().items(), self.nets[1].state_dict().values(), strict=True):
            np.testing.assert_allclose(a.cpu().numpy(), b.cpu().numpy(), rtol=1e-3, atol=1e-4, err_msg=name)

    @property
    def graph(self) -> graphs.Graph:
        (entry,) = self.fast.entries
        return entry.forward


def test_a_step_is_captured_at_its_third_replay_and_launched_from_then_on():
    run = Run()
    run.check(2)  # one is the trace
    assert run.graph.graph is None and "captured at the third call" in run.fast.explain()
    run.check(6, seed=1)
    assert run.graph.reason == "" and run.graph.captures == 1 and Graph.launches == 5
    assert "a CUDA graph, captured 1 times; 3 arrays are copied into it" in run.fast.explain()
    rates = [net.opt[0].param_groups[0] for net in run.nets]
    for group in rates:  # numbers of the optimizer are read anew
        group["lr"] = 0.002
    run.check(3, seed=2)
    assert Graph.launches == 8


def test_results_and_gradients_of_one_call_outlive_the_next():
    run = Run()
    run.check(5)
    x, y = rg.ones(5, 6), rg.zeros(5, dtype=rg.int64)
    first = run.fast(x, y)
    grads = [p.grad for p in run.nets[0].parameters()]
    before = [first.item(), *[g.cpu().numpy().copy() for g in grads]]
    run.fast(x * 2, y)
    assert first.item() == before[0]
    for g, was in zip(grads, before[1:], strict=True):
        np.testing.assert_array_equal(g.cpu().numpy(), was)


def test_random_numbers_are_drawn_before_each_launch():
    def f(x: Any) -> Any:
        noise = rg.rand(3, 4)
        return F.dropout(F.silu(x * 2 + noise), 0.5).sum(0), noise, rg.rand(2)

    fast = rg.compile(f)
    for seed in range(6):
        x = rg.randn(3, 4)
        results = []
        for function in (fast, f):
            rg.manual_seed(seed)
            results.append([y.cpu().numpy() for y in (*function(x), rg.rand(2))])
        for got, wanted in zip(*results, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5)
    (entry,) = fast.entries
    assert entry.forward.reason == "" and entry.forward.captures == 1 and Graph.launches == 3


def test_a_step_with_dropout_is_captured():
    run = Run(lambda loss, x: loss + 0.1 * F.dropout(x, 0.5).mean())
    state = rg.get_rng_state()
    fast, plain = run.fast, run.steps[1]

    def alike(function: Any) -> Any:
        def call(x: Any, y: Any) -> Any:
            rg.set_rng_state(state)
            return function(x, y)

        return call

    run.fast, run.steps[1] = alike(fast), alike(plain)
    run.check(7)
    (entry,) = fast.entries
    assert entry.forward.reason == "" and Graph.launches == 4


def test_another_shape_has_a_program_and_a_graph_of_its_own():
    fast = rg.compile(lambda x: F.silu(x * 2).sum(0) + 1, dynamic=False)
    for _ in range(5):
        for length in (3, 4):
            x = rg.randn(length, 5)
            np.testing.assert_allclose(fast(x).cpu().numpy(), (F.silu(x * 2).sum(0) + 1).cpu().numpy(), rtol=1e-5)
    assert len(fast.entries) == 2 and all(entry.forward.captures == 1 for entry in fast.entries)
    assert Graph.launches == 4


def test_memory_that_moves_is_followed_and_given_up_when_it_moves_always():
    w = rg.randn(4)
    fast = rg.compile(lambda x: (x * w).exp() + 1)
    for k in range(9):
        if k in (5, 7):
            w.data = w.clone()
        x = rg.randn(3, 4)
        np.testing.assert_allclose(fast(x).cpu().numpy(), ((x * w).exp() + 1).cpu().numpy(), rtol=1e-5)
    (entry,) = fast.entries
    assert entry.forward.captures == 3 and entry.forward.reason == ""
    for _ in range(3):
        w.data = w.clone()
        fast(rg.randn(3, 4))
    assert "change in each call" in fast.explain() and entry.forward.graph is None
    np.testing.assert_allclose(fast(x).cpu().numpy(), ((x * w).exp() + 1).cpu().numpy(), rtol=1e-5)


@pytest.mark.parametrize("error", [RuntimeError("cudaErrorStreamCaptureUnsupported"), MemoryError("out of it")])
def test_a_capture_that_raises_leaves_the_program_as_it_was(error, monkeypatch):
    run = Run()
    run.check(3)
    begin = Stream.begin_capture

    def fails(self: Any, mode: int = 0) -> None:
        begin(self, mode)
        monkeypatch.setattr(processor.RawModule, "get_function", broken)
        for loaded in run.fast.entries[0].kernels._loaded.values():
            loaded[1].clear()

    def broken(self: Any, name: str) -> Any:
        raise error

    function = processor.RawModule.get_function
    monkeypatch.setattr(Stream, "begin_capture", fails)
    end = Stream.end_capture

    def ends(self: Any) -> Any:
        monkeypatch.setattr(processor.RawModule, "get_function", function)
        return end(self)

    monkeypatch.setattr(Stream, "end_capture", ends)
    run.check(4, seed=1)
    assert run.graph.reason == f"it cannot be captured: {type(error).__name__}: {error}"
    assert Graph.launches == 0 and run.graph.graph is None
    assert f"no CUDA graph: {run.graph.reason}" in run.fast.explain()


def test_a_graph_that_ends_in_an_error_is_none(monkeypatch):
    run = Run()
    run.check(2)
    end = Stream.end_capture

    def fails(self: Any) -> Any:
        end(self)
        raise RuntimeError("cudaErrorStreamCaptureInvalidated")

    monkeypatch.setattr(Stream, "end_capture", fails)
    run.check(4, seed=1)
    assert "cudaErrorStreamCaptureInvalidated" in run.graph.reason


def test_a_graph_whose_first_launch_is_wrong_is_not_used(monkeypatch):
    run = Run()
    run.check(3)
    launch = Graph.launch

    def wrong(self: Any) -> None:
        launch(self)
        self.tape.calls[-1][2].clear()
        for p in run.nets[0].parameters():
            p.array.fill(7.0)

    monkeypatch.setattr(Graph, "launch", wrong)
    run.check(3, seed=1)
    assert run.graph.reason == "its first launch gave other results than the replay" and Graph.launches == 1


def test_what_is_copied_from_the_processor_is_not_captured(monkeypatch):
    """CuPy's pinned memory is another's by the next launch."""

    def copies(x: Any) -> Any:
        return x + cupy.asarray(np.arange(4.0, dtype=np.float32)[:, None][:, 0])

    copying = whole(copies)
    fast = rg.compile(lambda x: rg.as_tensor(copying(x.array)) * 2)
    for _ in range(5):
        assert fast(rg.ones(4)).cpu().numpy().tolist() == [2.0, 4.0, 6.0, 8.0]
    assert "it copies from CPU memory" in fast.explain()
    cupy.asarray(np.ones(3))  # which everybody else still does


def fallbacks() -> list[Any]:
    index = np.array([2, 0])
    return [
        (lambda x: (x * 2).bernoulli(0.5) * rg.poisson(x * 2), "depends on a value of the program"),
        (lambda x: (x * 3, rg.rand(3).mul_(x)), "a random draw is written to"),
        (lambda x: x[x > 0] * 2, "depends on elements"),
        (lambda x: rg.nonzero(x > 1.5) * 2, "depends on elements"),
        (lambda x: rg.nn.functional.one_hot(x.long().clamp(0, 2)) * 2, ""),
        (lambda x: (x * 2).cpu() + 1, "computes on the CPU"),
        (lambda x: x.view(3, 1)[1:], "no instruction runs"),
        (lambda x: (x * 2, (x * 2).view(3, 1)), ""),
        (lambda x: rg.as_tensor(x.array[index]) + 1, "copies an array from the CPU"),
    ]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(len(fallbacks())))
def test_what_cannot_be_captured_is_replayed_and_says_why(number):
    function, reason = fallbacks()[number]
    fast, x = rg.compile(function, fallback=True), rg.tensor([1.0, 2.0, 3.0], device="cuda")
    for seed in range(5):
        rg.manual_seed(seed)
        got = rg.func.nests.flatten(fast(x))[0]
        rg.manual_seed(seed)
        for a, b in zip(got, rg.func.nests.flatten(function(x))[0], strict=True):
            np.testing.assert_array_equal(a.cpu().numpy(), b.cpu().numpy())
    if fast.entries:
        assert reason in fast.explain() and (Graph.launches == 0 or not reason)


def test_views_of_one_result_are_not_captured():
    def f(x: Any) -> Any:
        y = x * 2
        return y, y.view(3, 1)

    fast, x = rg.compile(f), rg.ones(3)
    for _ in range(4):
        a, b = fast(x)
        a.mul_(3)
        assert b.cpu().numpy().ravel().tolist() == [6.0, 6.0, 6.0]
    assert "results share memory" in fast.explain()


def test_checks_of_arguments_are_made_before_anything_is_launched():
    run = Run()
    run.check(5)
    launches = Graph.launches
    before = {name: x.cpu().numpy().copy() for name, x in run.nets[0].state_dict().items()}
    with pytest.raises(IndexError):
        run.fast(rg.ones(5, 6), rg.full((5,), 9, dtype=rg.int64))
    assert Graph.launches == launches
    for name, x in run.nets[0].state_dict().items():
        if "running" not in name and "tracked" not in name:  # which the eager call had changed when it failed
            np.testing.assert_array_equal(x.cpu().numpy(), before[name])
    run.fast(rg.ones(5, 6), rg.full((5,), 3, dtype=rg.int64))
    assert Graph.launches == launches + 1


def test_arguments_that_are_written_are_used_where_they_lie():
    def f(x: Any) -> Any:
        x.mul_(2).add_(1)
        return x.sum()

    fast, x = rg.compile(f), rg.ones(3)
    for k in range(5):
        assert fast(x).item() == 3 * (2 ** (k + 2) - 1)
        assert x.cpu().numpy().tolist() == [2 ** (k + 2) - 1.0] * 3
    other = rg.ones(3)
    assert fast(other).item() == 9 and other.cpu().numpy().tolist() == [3.0] * 3


def test_gradients_are_accumulated_where_they_lie():
    w = rg.ones(3).requires_grad_()

    def f(x: Any) -> Any:
        (w * x).sum().backward()
        return (w * 2).detach()

    fast, x = rg.compile(f), rg.tensor([1.0, 2.0, 3.0], device="cuda")
    for k in range(6):
        fast(x)
        assert w.grad.cpu().numpy().tolist() == [k + 1.0, 2 * (k + 1.0), 3 * (k + 1.0)]


def test_a_number_that_varies_is_an_argument_of_plain_replays():
    fast, x = rg.compile(lambda x, k: x * k + 1), rg.ones(3)
    for k in (1.5, 2.5, 3.5, 4.5, 5.5, 6.5):
        assert fast(x, k).cpu().numpy().tolist() == [k + 1] * 3
    assert any("a number varies between calls" in entry.forward.reason for entry in fast.entries)
