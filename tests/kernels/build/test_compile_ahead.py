"""The second process that compiles loops before they are needed: what it is told, and all that can go wrong with it."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from threading import Timer

import numpy as np
import pytest

import retrograd as rg
from retrograd.nn import functional as F

pytest.importorskip("numba")

from retrograd._generated.units import UNITS
from retrograd.compiler.passes import fused_loops, matrix_products
from retrograd.kernels.build import code_store, compile_ahead
from retrograd.kernels.build.compile_ahead import Ahead, Job
from retrograd.kernels.runtime.loop_calls import Loop

posix = pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")

# What stands for the second process: it writes down what it is told, and begins and ends loops when files say so.
SECOND = """
import json, os, sys, time
folder = {folder!r}
sys.stdin.readline()
def wait(name):
    while not os.path.exists(os.path.join(folder, name)):
        time.sleep(0.002)
for line in sys.stdin:
    with open(os.path.join(folder, "told"), "a") as file:
        file.write(line)
    what, rest = json.loads(line)
    for job in rest if what == "compile" else []:
        key = [job[0].rpartition(".")[2] + "." + job[1], job[2]]
        wait(job[1] + ".begin")
        print(json.dumps(["begin", *key]), flush=True)
        wait(job[1] + ".end")
        print(json.dumps(["end", *key]), flush=True)
"""


def job(name, source=""):
    return Job("somewhere.module", name, "()", source)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(compile_ahead, "_PROGRAM", SECOND.format(folder=str(tmp_path)))
    monkeypatch.setattr(code_store, "_place", lambda: tmp_path / "state")
    monkeypatch.setattr(code_store, "folder", lambda: tmp_path)
    monkeypatch.setattr(compile_ahead, "count", lambda: 2)
    monkeypatch.setenv("RETROGRAD_AHEAD", "on")
    return tmp_path


@pytest.fixture
def second(folder):
    found = Ahead()
    yield found
    found.close()


def told(folder):
    path = folder / "told"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def until(condition, seconds=100.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def begins(folder, second, name):
    (folder / f"{name}.begin").touch()
    until(lambda: second._begun == job(name).key)


def test_a_process_that_has_compiled_for_a_while_gets_a_second_one(folder, second):
    second.ask([job("one")])
    second.compiled(0.1, 0.1, True)
    assert second._process is None
    second.compiled(0.6, 0.7, True)
    until(lambda: told(folder) == [["compile", [[*job("one")]]]])
    second.ask([job("two")])
    (folder / "one.begin").touch()
    (folder / "one.end").touch()
    until(lambda: [message[1][0][1] for message in told(folder)] == ["one", "two"])


def test_where_several_loops_are_asked_for_it_is_started_at_once(folder, second):
    second.ask([job(str(number)) for number in range(compile_ahead.SEVERAL)])
    until(lambda: len(told(folder)) == 1)


def test_what_is_kept_already_or_was_told_is_not_told(folder, second):
    code_store.write(*job("kept").key, b"code")
    second.expect()
    second.ask([job("kept"), job("new")])
    second.ask([job("new"), job("other")])
    begins(folder, second, "new")
    (folder / "new.end").touch()
    until(lambda: told(folder) == [["compile", [[*job("new")]]], ["compile", [[*job("other")]]]])


def test_a_loop_under_way_is_waited_for(folder, second):
    second.expect()
    second.ask([job("one")])
    begins(folder, second, "one")
    ended = []
    start = time.perf_counter()
    timer = Timer(0.3, lambda: (ended.append(True), (folder / "one.end").touch()))
    timer.start()
    second.wait(job("one").key)
    assert ended and 0.25 < time.perf_counter() - start < 1.9


def test_a_loop_that_was_not_begun_is_left_to_who_needs_it(folder, second):
    second.expect()
    second.ask([job("one"), job("two")])
    begins(folder, second, "one")
    start = time.perf_counter()
    second.wait(job("two").key)
    second.wait(job("unknown").key)
    assert time.perf_counter() - start < 0.2
    (folder / "one.end").touch()
    (folder / "two.begin").touch()
    until(lambda: ["leave", [*job("two").key]] in told(folder) or second._begun == job("two").key)


def test_what_waits_for_a_process_is_not_told_when_it_was_compiled_meanwhile(folder, second):
    second.ask([job("one"), job("two")])
    second.wait(job("one").key)
    second.compiled(1.0, 1.0, True)
    until(lambda: told(folder) == [["compile", [[*job("two")]]]])


def test_a_process_that_hangs_is_given_up(folder, second, monkeypatch):
    monkeypatch.setattr(compile_ahead, "SLOW", 0.2)
    monkeypatch.setattr(compile_ahead, "GRACE", 0.1)
    second.expect()
    process = second._process
    second.ask([job("one")])
    begins(folder, second, "one")
    start = time.perf_counter()
    second.wait(job("one").key)
    assert time.perf_counter() - start < 1.5 and process.poll() is not None
    second.ask([job(str(number)) for number in range(9)])
    second.compiled(9.0, 9.0, True)
    assert second._process is None  # and there is no other one


@pytest.mark.parametrize(
    "program",
    ["raise SystemExit(3)", "print('hello', flush=True); input(); input()", "print(5, flush=True)", "import nowhere"],
    ids=["ends", "says something else", "says a number", "fails"],
)
def test_a_process_that_fails_is_done_without(program, folder, second, monkeypatch):
    monkeypatch.setattr(compile_ahead, "_PROGRAM", program)
    second.expect()
    second.ask([job("one")])
    until(lambda: second._process is None)
    second.wait(job("one").key)
    second.ask([job("one")] * 9)
    assert second._allowed is False and second._process is None


def test_a_process_that_had_nothing_to_do_is_followed_by_another(folder, second, monkeypatch):
    monkeypatch.setattr(compile_ahead, "_PROGRAM", "")
    second.expect()
    until(lambda: second._process is None)
    monkeypatch.setattr(compile_ahead, "_PROGRAM", SECOND.format(folder=str(folder)))
    second.ask([job("one")])
    second.compiled(1.0, 9.0, True)
    until(lambda: len(told(folder)) == 1)


def test_no_more_is_told_than_a_pipe_holds(folder, second, monkeypatch):
    monkeypatch.setattr(compile_ahead, "_PROGRAM", "import time; time.sleep(60)")
    monkeypatch.setattr(compile_ahead, "GRACE", 0.1)
    second.expect()
    for number in range(100):
        second.ask([job(f"loop{number}", "x" * 10_000)])
    assert 1 <= len(second._told) <= 3


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("RETROGRAD_AHEAD", "off"),
        ("count", 1),
        ("executable", "/usr/bin/blender"),
        ("executable", None),
        ("frozen", True),
    ],
)
def test_there_is_none_where_it_does_not_fit(setting, value, folder, second, monkeypatch):
    if setting == "count":
        monkeypatch.setattr(compile_ahead, setting, lambda: value)
    elif setting == "RETROGRAD_AHEAD":
        monkeypatch.setenv(setting, value)
    else:
        monkeypatch.setattr(sys, setting, value, raising=False)
    second.expect()
    second.ask([job(str(number)) for number in range(9)])
    second.compiled(9.0, 9.0, True)
    assert second._process is None


@posix
def test_there_is_one_for_a_folder(folder, second):
    second.expect()
    other = Ahead()
    other.expect()
    assert second._process is not None and other._process is None
    second.close()
    another = Ahead()
    another.expect()
    assert another._process is not None
    another.close()


def test_there_is_none_where_loops_cannot_be_kept(folder, second):
    second.expect()
    process = second._process
    second.compiled(0.1, 0.1, False)
    assert second._process is None and process.poll() is not None
    second.expect()
    assert second._process is None


def test_another_setting_is_refused(folder, second, monkeypatch):
    monkeypatch.setenv("RETROGRAD_AHEAD", "yes")
    with pytest.raises(RuntimeError, match="RETROGRAD_AHEAD: wanted on or off, got 'yes'"):
        second.expect()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_process_leaves_it_to_its_parent(folder, second):
    second.expect()
    second.ask([job("one")])
    begins(folder, second, "one")
    child = os.fork()
    if not child:
        second._let_go()
        second.ask([job(str(number)) for number in range(9)])
        second.close()
        os._exit(second._process is not None)
    assert os.waitpid(child, 0)[1] == 0
    (folder / "one.end").touch()
    until(lambda: second._begun is None)
    assert second._process.poll() is None


@pytest.mark.parametrize("loop", [loop for unit in UNITS for loop in unit], ids=lambda loop: f"{loop[0]}.{loop[1]}")
def test_what_is_said_to_follow_is_there(loop):
    module, name, kinds = loop
    assert isinstance(getattr(importlib.import_module(f"retrograd.kernels.{module}"), name), Loop)
    assert Job(f"retrograd.kernels.{module}", name, kinds).key[0] == f"{module.rpartition('.')[2]}.{name}"


# With the process itself

PROGRAM = """
import sys, time
import retrograd as rg
from retrograd.kernels.build.compile_ahead import ahead
from retrograd.kernels.build.compiled_loops import compiled
x = rg.linspace(-3, 3, 90000).requires_grad_()
y = rg.nn.functional.gelu(x)
{then}
y.backward(rg.ones_like(y))
assert abs(float(x.grad[45000]) - 0.5) < 1e-3 and abs(float(x.grad[-1]) - 1.0119) < 1e-3
print(compiled.found, compiled.loops)
"""
DONE = """
from retrograd.kernels.build import code_store as store
from retrograd.kernels.build.compile_ahead import following
(wanted,) = following(("basic_loops.gelu", repr(("int",) * 5 + (("f4", 1, True, True),) * 2)))
end = time.monotonic() + 100
while not store.holds(*wanted.key):
    assert time.monotonic() < end
    time.sleep(0.01)
"""


def start(program, folder, **environment):
    given = os.environ | {"RETROGRAD_CACHE": str(folder), "OMP_NUM_THREADS": "2", "RETROGRAD_AHEAD": "on"}
    given |= {"RETROGRAD_KERNELS": "jit"} | environment
    pipe = subprocess.PIPE
    command = [sys.executable, "-W", "error", "-c", program]
    return subprocess.Popen(command, env=given, text=True, stdout=pipe, stderr=pipe, start_new_session=True)


def run(program, folder, **environment):
    out, errors = start(program, folder, **environment).communicate(timeout=200)
    assert errors == ""
    return out.strip()


@pytest.mark.slow
def test_the_loop_of_the_derivative_is_there_when_it_is_needed(tmp_path):
    assert run(PROGRAM.format(then=DONE), tmp_path) == "1 3"
    assert run(PROGRAM.format(then=""), tmp_path) == "4 0"
    assert run(PROGRAM.format(then=""), tmp_path / "off", RETROGRAD_AHEAD="off") == "0 4"
    files = {path.suffix or path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert files == {".loop", "lock"}  # nothing is left half written


@pytest.mark.slow
@posix
def test_a_program_goes_on_when_the_second_process_is_killed(tmp_path):
    for number, name in enumerate(("SIGKILL", "SIGTERM", "SIGSTOP")):
        then = f"""
import os, signal
end = time.monotonic() + 100
while ahead._begun is None and not ahead.loops:
    assert time.monotonic() < end
    time.sleep(0.001)
os.kill(ahead._process.pid, signal.{name})
"""
        # It may have compiled some loops of its own before this one looks.
        found, compiled = map(int, run(PROGRAM.format(then=then), tmp_path / str(number)).split())
        assert found < compiled + found == 4, name


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.slow
@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="no list of processes")
@pytest.mark.parametrize("name", ["SIGKILL", "SIGINT", "SIGTERM"])
def test_the_second_process_ends_with_the_first(name, tmp_path):
    program = PROGRAM.format(then="print(ahead._process.pid, flush=True); time.sleep(100)")
    process = start(program, tmp_path)
    pid = int(process.stdout.readline())
    assert alive(pid)
    if name == "SIGINT":  # as Ctrl-C does
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.send_signal(getattr(signal, name))
    _, errors = process.communicate(timeout=100)
    assert errors.count("Traceback") == (name == "SIGINT")
    until(lambda: not alive(pid))


# What is compiled


def test_a_routine_is_asked_for_while_the_loop_that_calls_it_is_compiled(monkeypatch):
    asked = []
    monkeypatch.setattr(compile_ahead.ahead, "ask", asked.extend)
    Loop("retrograd.kernels.loops.elements.basic_loops", "relu").code((*["int"] * 5, *[("f4", 1, True, True)] * 2))
    assert asked == [Job("retrograd.kernels.runtime.thread_protocol", "launch", "i" * 7)]


@pytest.mark.slow
def test_constants_make_no_functions_of_their_own_and_what_numba_adds_is_no_function_of_a_user(monkeypatch):
    numba = pytest.importorskip("numba")
    objects = importlib.import_module("retrograd.kernels.build.object_files")

    @objects.njit
    def filled(x, twice):
        copy = np.empty(x.size, x.dtype)
        for j in range(x.size):
            copy[j] = 2 * x[j] if twice else x[j]
        return copy

    @objects.njit
    def added(x):
        x[:] = filled(x, True) + filled(x, False)

    for recipe in (added, added):
        assert objects.compile(recipe, (("f8", 1, True, True),), "added").startswith(b'{"name": "added"')
    assert len(filled.overloads) == 1
    assert numba.njit(lambda n: np.empty(n))(3).shape == (3,)


# Programs


@pytest.mark.slow
def test_the_loops_of_a_program_are_told_as_they_will_be_called(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    w, b = [rg.from_numpy(rng.standard_normal(shape, np.float32)).requires_grad_() for shape in ((384, 384), (384,))]
    mask = rg.from_numpy(rng.random((700, 1)) > 0.5)

    def step(x, scale):
        y = F.gelu(F.linear(x, w, b)) * scale + b
        z = rg.where(mask, y, -y.mean(1, keepdim=True)).double() * 2
        loss = (z * x.sum(1).reshape(-1, 1)).exp().mean() + (x.T * 3).tanh().sum(0).max()
        loss.backward()
        return loss

    asked, called = [], []
    address = Loop._address

    def made(loop, kinds):
        called.append(Job(loop.module, loop.name, repr(kinds), loop.source))
        return address(loop, kinds)

    monkeypatch.setattr(Loop, "_address", made)
    monkeypatch.setattr(compile_ahead.ahead, "ask", asked.extend)
    monkeypatch.setattr(fused_loops, "compiled_loop", fused_loops.compiled_loop.__wrapped__)
    monkeypatch.setattr(matrix_products, "compiled_loop", fused_loops.compiled_loop)
    compiled = rg.compile(step)
    for _ in range(2):
        w.grad = b.grad = None
        compiled(rg.from_numpy(rng.standard_normal((700, 384), np.float32)), 1.25)
    wanted = {job for job in called if job.source}
    assert len(wanted) >= 3 and {job for job in asked if job.source} == wanted


def test_what_an_operator_consists_of_is_found_without_its_loops(monkeypatch):
    x, called = rg.linspace(-3, 3, 90000), []
    call = Loop.__call__
    monkeypatch.setattr(Loop, "__call__", lambda loop, *args: called.append(loop.name) or call(loop, *args))
    rg.compile(lambda x: F.gelu(x) * 2)(x)
    assert "gelu" in called and not {"erf", "exp"} & {*called}
