"""Threads that train models of their own at once: each gets the numbers it would get alone."""

from __future__ import annotations

import os
import random
import threading
import time

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F
from retrograd import kernels
from retrograd.autograd.anomaly import is_anomaly_enabled
from retrograd.core.graph.modes import unrecorded, watchers
from retrograd.kernels.runtime import threads

ROWS = 520  # of 64 columns: more than a loop needs to be used


def long(request):
    return request.config.getoption("--long", default=False)


def together(*works):
    """Run functions at once, each on a thread; what the first of them raised is raised here."""
    errors = []
    barrier = threading.Barrier(len(works))

    def run(work):
        try:
            barrier.wait()
            work()
        except BaseException as error:
            errors.append(error)

    running = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(120)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]


def trained(seed, steps=5):
    """The parameters of a small network after some steps."""
    rng = np.random.default_rng(seed)
    w, v = (rg.tensor(rng.standard_normal(s).astype(np.float32) / 8, requires_grad=True) for s in ((64, 64), (64, 10)))
    optimizer = rg.optim.Adam([w, v], lr=1e-2)
    x = rg.tensor(rng.standard_normal((ROWS, 64)).astype(np.float32))
    y = rg.tensor(rng.integers(0, 10, ROWS))
    for _ in range(steps):
        optimizer.zero_grad()
        hidden = F.layer_norm(F.gelu(x @ w), (64,))
        F.cross_entropy(F.softmax(hidden, -1) @ v, y).backward()
        optimizer.step()
        with rg.no_grad():
            w.mul_(0.99)
    return w.detach().numpy().copy(), v.detach().numpy().copy()


@pytest.mark.slow  # compiles loops
@pytest.mark.parametrize("size", [1, 3])
def test_models_trained_at_once_are_the_models_trained_alone(size, request, monkeypatch):
    monkeypatch.setattr(threads, "count", lambda: size)
    assert ROWS * 64 >= kernels.USEFUL
    n, repeats = (16, 20) if long(request) else (6, 1)
    alone = [trained(seed) for seed in range(n)]
    for _ in range(repeats):
        found = [()] * n
        together(*[lambda seed=seed, found=found: found.__setitem__(seed, trained(seed)) for seed in range(n)])
        for expected, got in zip(alone, found, strict=True):
            for a, b in zip(expected, got, strict=True):
                np.testing.assert_array_equal(a, b)


MODES = [rg.no_grad, rg.inference_mode, rg.enable_grad, rg.autograd.detect_anomaly]


def test_a_mode_holds_on_the_thread_that_entered_it_alone(request):
    rounds = 5000 if long(request) else 300

    def recorded():
        return (rg.ones(1, requires_grad=True) * 2).requires_grad

    def work(seed):
        rng = random.Random(seed)
        for _ in range(rounds):
            mode = rng.choice(MODES)
            with mode():
                if rng.random() < 0.2:
                    time.sleep(0)
                assert recorded() == (mode not in (rg.no_grad, rg.inference_mode))
                assert rg.is_inference_mode_enabled() == (mode is rg.inference_mode)
                assert is_anomaly_enabled() == (mode is rg.autograd.detect_anomaly)
            assert recorded()

    together(*[lambda seed=seed: work(seed) for seed in range(8)])
    assert not unrecorded and not watchers


def test_a_generator_closed_on_another_thread_restores_the_mode_of_the_first():
    def inside():
        with rg.no_grad():
            yield

    suspended = inside()
    next(suspended)
    seen = []

    def close():
        suspended.close()
        seen.append(rg.is_grad_enabled())

    together(close)
    assert seen == [True] and rg.is_grad_enabled() and not unrecorded


def test_one_decorated_function_on_several_threads(request):
    @rg.no_grad()
    def off(x):
        return (x * 2).requires_grad

    def work():
        x = rg.ones(2, requires_grad=True)
        for _ in range(20_000 if long(request) else 1000):
            assert not off(x)
            assert (x * 2).requires_grad

    together(*[work] * 4)


def test_shares_of_many_callers_are_each_done_once(request, monkeypatch):
    monkeypatch.setattr(threads, "count", lambda: 4)

    def work():
        for n in range(2000 if long(request) else 100):
            done = np.zeros(97, np.int64)

            def share(start, stop, done=done, n=n):
                done[start:stop] += 1
                if n % 10 == 0:
                    time.sleep(0.0001)

            threads.in_shares(share, 97, 1)
            assert (done == 1).all()

    together(*[work] * 8)


def test_shares_may_be_shared_again(monkeypatch):
    monkeypatch.setattr(threads, "count", lambda: 3)
    seen = []

    def inner(start, stop):
        seen.extend(range(start, stop))
        time.sleep(0.001)

    together(*[lambda: threads.in_shares(lambda i, j: threads.in_shares(inner, 30, 1), 3, 1)] * 4)
    assert sorted(seen) == sorted([*range(30)] * 12)


def test_an_error_of_any_share_reaches_its_caller_after_all_have_ended(monkeypatch):
    monkeypatch.setattr(threads, "count", lambda: 3)
    for failing in range(3):
        running = []

        def share(start, stop, failing=failing, running=running):
            running.append(start)
            time.sleep(0.01)
            running.remove(start)
            if start == failing:
                raise ZeroDivisionError(start)

        with pytest.raises(ZeroDivisionError, match=str(failing)):
            threads.in_shares(share, 3, 1)
        assert not running


def test_a_caller_that_is_interrupted_waits_for_the_shares_under_way(monkeypatch):
    monkeypatch.setattr(threads, "count", lambda: 3)
    begun, running = threading.Event(), []
    caller = threading.get_ident()

    def share(start, stop):
        if threading.get_ident() == caller:
            begun.wait(10)
            raise KeyboardInterrupt
        running.append(start)
        begun.set()
        time.sleep(0.1)
        running.remove(start)

    with pytest.raises(KeyboardInterrupt):
        threads.in_shares(share, 3, 1)
    assert begun.is_set() and not running


def test_a_call_is_forgotten_when_it_is_over(monkeypatch):
    """Helpers that come too late keep nothing of a call, such as its arrays."""
    import weakref

    monkeypatch.setattr(threads, "count", lambda: 3)

    class Buffer:
        pass

    buffer = Buffer()
    gone = weakref.ref(buffer)
    threads.in_shares(lambda start, stop, buffer=buffer: None, 3, 1)
    del buffer
    deadline = time.time() + 10
    while gone() is not None and time.time() < deadline:
        time.sleep(0.001)
    assert gone() is None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_has_helpers_of_its_own(monkeypatch):
    monkeypatch.setattr(threads, "count", lambda: 3)
    threads.in_shares(lambda start, stop: None, 3, 1)
    child = os.fork()
    if not child:
        helpers = set()

        def share(start, stop):
            helpers.add(threading.get_ident())
            time.sleep(0.05)

        threads.in_shares(share, 3, 1)
        os._exit(0 if len(helpers) > 1 else 1)
    assert os.waitpid(child, 0)[1] == 0
