"""Ctrl-C at every moment of a step: no mode is left switched, and the next step is right.

SIGINT is raised just before the n-th bytecode instruction of a step, for every n (for a sample of them without
``--long``); the interpreter then raises KeyboardInterrupt wherever it next looks for signals.
"""

from __future__ import annotations

import _thread
import ast
import gc
import inspect
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import retrograd as rg
from retrograd.compiler.run.compiled_function import Compiled
from retrograd.compiler.trace.effect_tracer import EffectTracer
from retrograd.core.graph.modes import modes, unrecorded, watchers
from retrograd.func.memory.segments import Pool
from retrograd.kernels.runtime import threads

SAMPLED = 300  # moments of a step in the short form


def modes_in_blocks():
    x = rg.ones(3, requires_grad=True)
    with rg.no_grad():
        (x * 2).log()
        with rg.enable_grad():
            x.exp()
        with rg.inference_mode(), rg.inference_mode(False):
            x.exp()
    with rg.set_grad_enabled(True):
        pass


@rg.no_grad()
def decorated(x):
    return x.log()


@rg.no_grad()
def generated(x):
    yield x.log()
    yield x.exp()


def modes_of_functions():
    x = rg.ones(3, requires_grad=True)
    decorated(x)
    list(generated(x))


def one_mode_twice():
    mode = rg.no_grad()
    with mode, mode:
        rg.ones(2)


def operators():
    x = rg.zeros(3, requires_grad=True)
    (x.log() / x).exp()
    rg.zeros(3).log_().mul_(2)


def watching():
    with rg.autograd.detect_anomaly():
        (rg.ones(3, requires_grad=True) * 2).log()


def training():
    x = rg.tensor([1.0, 2.0, 4.0], requires_grad=True)
    optimizer = rg.optim.SGD([x], lr=0.5, momentum=0.9)
    optimizer.zero_grad()
    (x.log() * x).sum().backward()
    optimizer.step()
    with rg.no_grad():
        x.mul_(2)


STEPS = [modes_in_blocks, modes_of_functions, one_mode_twice, operators, watching]


def state():
    recording = (rg.ones(1, requires_grad=True) * 2).requires_grad
    return modes.grad_enabled, modes.inference, modes.observers, recording, set(unrecorded), set(watchers), np.geterr()


class Signal(int):
    # A signal that arrives where an attribute is read: other than a call, that is no point where signals are handled.
    arrives = property(_thread.interrupt_main)


def interrupted(step, moment):
    """Run a step with SIGINT before its instruction of that number; how many instructions came, and whether it hit."""
    count, interrupt = 0, Signal(signal.SIGINT)

    def trace(frame, event, argument):
        nonlocal count
        frame.f_trace_opcodes = True
        if event == "opcode":
            count += 1
            if count == moment:
                sys.settrace(None)
                interrupt.arrives
        return trace

    outer = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # Python 3.12 looks for it when tracing begins
    try:
        sys.settrace(trace)
        step()
        sys.settrace(None)
        sum(())  # the latest point for it to be raised
    except KeyboardInterrupt:
        return count, True
    finally:
        sys.settrace(outer)
    return count, False


def moments(step, request):
    step()  # what is made at the first use is made before counting
    total, _ = interrupted(step, 0)
    if total <= SAMPLED or request.config.getoption("--long", default=False):
        return range(1, total + 1)
    return sorted(np.random.default_rng(0).choice(total, SAMPLED, replace=False) + 1)


def gradients_of_a_fresh_step():
    x = rg.tensor([1.0, 2.0, 4.0], requires_grad=True)
    (x.log() * x).sum().backward()
    return x.grad.numpy()


@pytest.fixture
def by_default():
    if threading.current_thread() is not threading.main_thread():
        pytest.skip("signals are handled by the main thread")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()  # others' callbacks of the collector would be interrupted, too
    yield
    gc.enable()
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    "step",
    [
        *STEPS,
        training,
    ],
)
def test_ctrl_c_leaves_no_mode_switched_whatever_the_moment(step, request, by_default):
    before, hits, left = state(), 0, []
    for moment in moments(step, request):
        _, hit = interrupted(step, moment)
        hits += hit
        after = state()
        if after != before:
            left.append((moment, after))
            rg.set_grad_enabled(True)
            modes.inference = False
            np.seterr(**before[-1])
    assert not left, f"{len(left)}, first {left[0]}"
    assert hits > 50
    np.testing.assert_allclose(gradients_of_a_fresh_step(), 1 + np.log([1, 2, 4]), rtol=1e-6)


def test_moments_are_told_apart_by_this_attack(by_default):
    """A context manager written in the usual way is left switched at some moment."""
    switched = []

    class naive:
        def __enter__(self):
            switched.append(self)

        def __exit__(self, *error):
            switched.pop()

    def step():
        with naive():
            len("")

    total, _ = interrupted(step, 0)
    left = 0
    for moment in range(1, total + 1):
        interrupted(step, moment)
        left += bool(switched)
        switched.clear()
    assert left


def test_ctrl_c_waits_for_the_shares_of_a_loop_that_are_under_way(request, by_default, monkeypatch):
    monkeypatch.setattr(threads, "count", lambda: 3)
    begun, ended = [], []

    def share(start, stop):
        begun.append(start)
        time.sleep(0.0003)
        ended.append(start)

    def step():
        threads.in_shares(share, 3, 1)

    for moment in moments(step, request):
        caller_is_at = len(begun) - len(ended)  # shares that the caller itself was interrupted in
        interrupted(step, moment)
        unfinished = len(begun) - len(ended) - caller_is_at
        time.sleep(0.001)
        assert len(begun) - len(ended) - caller_is_at == unfinished <= 1, moment


RANDOM_SIGNALS = """
import os, random, signal, sys, threading, time
sys.path.insert(0, {folder!r})
import test_interrupts as attack

steps = attack.STEPS
for step in steps:
    step()
before, hits, over = attack.state(), 0, time.time() + {seconds}
armed = threading.Event()

def shoot():
    while True:
        armed.wait()
        armed.clear()
        time.sleep(random.random() * 0.001)
        os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=shoot, daemon=True).start()
while time.time() < over:
    try:
        armed.set()
        while True:
            for step in steps:
                step()
    except KeyboardInterrupt:
        hits += 1
    assert attack.state() == before, (hits, attack.state())
print(hits)
"""


def test_real_signals_at_random_times(request):
    if not request.config.getoption("--long", default=False):
        pytest.skip("takes half a minute: --long")
    program = RANDOM_SIGNALS.format(folder=str(Path(__file__).parent), seconds=30)
    path = os.pathsep.join([str(Path(rg.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    process = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert process.returncode == 0, process.stderr
    assert int(process.stdout) > 500


@pytest.mark.parametrize("function", [Pool.replay, EffectTracer.takes_over, Compiled._run_traced])
def test_no_loop_ends_with_a_condition_under_try(function):
    """From Python 3.12 on, Ctrl-C at the jump back of such a loop skips the function's ``finally``."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    tries = [node for node in ast.walk(tree) if isinstance(node, ast.Try)]
    under = [node for one in tries for statement in one.body for node in ast.walk(statement)]
    loops = [node for node in under if isinstance(node, (ast.For, ast.While))]
    assert tries and not [loop.lineno for loop in loops if isinstance(loop.body[-1], ast.If)]
