"""The process belongs to the user: importing and running the library leaves its settings as they were."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SNAPSHOT = """
import builtins, codecs, copyreg, ctypes, decimal, faulthandler, gc, locale, logging, os, random, signal, sys, threading
import time, warnings
import numpy as np
import threadpoolctl

class Mallinfo2(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in
                "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]

def maps_large_blocks():
    # Whether the C library maps a block of 1 MiB by itself, as it does unless somebody has changed its thresholds.
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallinfo2"):
        return None
    libc.mallinfo2.restype, libc.malloc.restype, libc.malloc.argtypes = Mallinfo2, ctypes.c_void_p, [ctypes.c_size_t]
    before = libc.mallinfo2().hblks
    libc.malloc(1 << 20)  # never freed, since freeing such a block changes the threshold, too
    return libc.mallinfo2().hblks > before

def tiny():
    return float(np.float32(1e-40) * np.float32(1)), float((np.full(64, 1e-40, np.float32) * np.float32(1))[5])

def in_a_thread(function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]

def blas():
    return [(one["internal_api"], one["num_threads"]) for one in threadpoolctl.threadpool_info()
            if "numpy.libs" in one["filepath"] or one["user_api"] == "openmp"]

def snapshot():
    return {
        "signals": {str(number): repr(signal.getsignal(number)) for number in signal.valid_signals()},
        "wakeup": signal.set_wakeup_fd(-1),
        "finders": [one for one in sys.meta_path if "retrograd." not in repr(one)],  # ours: see _hooks.py
        "path hooks": list(sys.path_hooks), "path": list(sys.path), "cwd": os.getcwd(), "environment": dict(os.environ),
        "filters": list(warnings.filters), "showwarning": warnings.showwarning, "formatwarning": warnings.formatwarning,
        "hooks": [sys.excepthook, sys.unraisablehook, sys.displayhook, sys.breakpointhook, threading.excepthook,
                  builtins.__import__],
        "builtins": sorted(set(vars(builtins)) - {"_"}),
        "pickles": [one for one in copyreg.dispatch_table if "numba" not in one.__module__],
        "numpy errors": np.geterr(), "numpy error call": np.geterrcall(), "numpy prints": np.get_printoptions(),
        "numpy buffer": np.getbufsize(),
        "random": random.getstate(), "numpy random": repr(np.random.get_state()),
        "collector": (gc.isenabled(), gc.get_threshold(), gc.get_debug(), list(map(repr, gc.callbacks))),
        "limits": (sys.getrecursionlimit(), sys.getswitchinterval(), sys.get_int_max_str_digits()),
        "decimals": repr(decimal.getcontext()), "locale": locale.setlocale(locale.LC_ALL),
        "profile": (sys.getprofile(), sys.gettrace(), threading.getprofile(), threading.gettrace()),
        "logs": (list(logging.root.handlers), logging.root.level, logging.root.manager.disable),
        "faults": faulthandler.is_enabled(), "tiny": tiny(), "tiny in a thread": in_a_thread(tiny), "blas": blas(),
        "umask": [os.umask(0o22), os.umask(0o22)][0], "stack of threads": threading.stack_size(),
    }

def compare(what, without=()):
    now = snapshot()
    changed = {name: (before[name], now[name]) for name in now if name not in without and now[name] != before[name]}
    assert not changed, (what, changed)

before = snapshot()
"""

IMPORT = (
    SNAPSHOT
    + """
import retrograd as rg
compare("import retrograd")
assert maps_large_blocks() in (True, None)
x = rg.randn(8, 8, requires_grad=True)
(x @ x).tanh().sum().backward()
compare("a small step")
assert maps_large_blocks() in (True, None)
assert isinstance(rg.compile, object) and rg.nn.Linear(2, 2) and rg.optim.SGD([x], lr=0.1) and rg.data and rg.func
import retrograd.inspect, retrograd.training, retrograd.distributions
compare("import of the parts")
assert maps_large_blocks() in (True, None)
"""
)

RUN = (
    SNAPSHOT
    + """
import multiprocessing, tempfile
import retrograd as rg
from retrograd import nn

def step(model=nn.Sequential(nn.Linear(512, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, 512))):
    x = rg.randn(1024, 512)
    loss = nn.functional.cross_entropy(model(x), rg.arange(1024) % 512)
    loss.backward()
    for p in model.parameters():
        p.grad = None
    return loss

for _ in range(3):
    step()
compare("large eager steps")
q = rg.randn(2, 4, 256, 64)
nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)
nn.functional.conv2d(rg.randn(8, 16, 32, 32), rg.randn(32, 16, 3, 3))
nn.LSTM(64, 64)(rg.randn(32, 32, 64))
rg.linalg.solve_triangular(rg.eye(300), rg.randn(300, 300), upper=True), rg.randn(400, 400, dtype=rg.float64).sum(0)
rg.randn(1, 300) @ rg.randn(300, 300), rg.randn(300, 300) @ rg.randn(300), rg.log(rg.zeros(1 << 19))
compare("products of all kinds")
fast = rg.compile(lambda x: ((x @ x).tanh() @ x).sum())
for _ in range(3):
    fast(rg.randn(600, 600))
compare("compiled programs")
for call in (lambda: rg.randn(700, 700) @ rg.randn(3, 3), lambda: rg.randn(700, 700) @ "text",
             lambda: rg.compile(lambda x: x @ rg.randn(3, 3))(rg.randn(700, 700)), lambda: rg.load("missing")):
    try:
        call()
    except Exception:
        pass
    else:
        raise AssertionError
def fails(x):
    raise KeyError
x = rg.randn(700, 700, requires_grad=True)
x.register_hook(fails)
try:
    (x @ x).sum().backward()
except KeyError:
    pass
else:
    raise AssertionError
compare("exceptions")
with rg.autograd.detect_anomaly(), rg.inspect.trace() as trace:
    step()
compare("the glass box")
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(4) as pool:
    list(pool.map(lambda _: step(), range(12)))
compare("several threads")
"""
)

FORK = """
child = os.fork()
if child == 0:
    status = 1
    try:
        compare("a forked process", ["random"])  # which Python seeds anew
        step()
        compare("a step of a forked process", ["random"])
        status = 0
    except BaseException:
        import traceback
        traceback.print_exc()
    finally:
        os._exit(status)
assert os.waitpid(child, 0)[1] == 0
compare("after a fork")
step()
compare("a step after a fork")
"""

FLUSH = (
    SNAPSHOT
    + """
import retrograd as rg
x = rg.randn(1024, 1024, dtype=rg.float32)
def kept():  # of 2^20 numbers, on all threads
    return int((rg.full((1 << 20,), 1e-40) * 1 != 0).sum())
x @ x
assert tiny()[0] != 0 and kept() == 1 << 20
if rg.set_flush_denormal(True):
    assert tiny() == (0.0, 0.0) and kept() == 0
    rg.set_flush_denormal(False)
    x @ x
    assert kept() == 1 << 20
compare("flushing")
"""
)


def run(program: str, **environment: str) -> None:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "OPENBLAS_"))}
    inherited |= {"OMP_NUM_THREADS": "2"} | environment
    made = subprocess.run([sys.executable, "-c", program], env=inherited, capture_output=True, text=True, timeout=600)
    assert made.returncode == 0, made.stderr[-4000:]


@pytest.fixture(autouse=True)
def with_threadpoolctl():
    pytest.importorskip("threadpoolctl")


@pytest.mark.slow
def test_importing_changes_nothing_in_the_process():
    run(IMPORT)


@pytest.mark.slow
def test_running_changes_nothing_in_the_process():
    run(RUN)


@pytest.mark.slow
def test_running_numpys_references_changes_nothing_either():
    run(RUN, RETROGRAD_KERNELS="reference")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_forking_changes_nothing_in_either_process():
    run(RUN[: RUN.index("q = rg.randn")] + FORK)


def test_only_set_flush_denormal_flushes_and_its_end_is_everywhere():
    run(FLUSH)


MATMUL = """
import os, time
import numpy as np
import retrograd as rg
x = rg.randn(600, 600, requires_grad=True)
for _ in range(3):
    (x @ x).tanh().sum().backward()
a = np.ones((1500, 1500), np.float32)
a @ a
time.sleep(0.3)  # until no thread waits awake
process, thread = time.process_time(), time.thread_time()
for _ in range(5):
    a @ a
mine = time.thread_time() - thread
others = time.process_time() - process - mine
assert others > 0.3 * mine, (mine, others)
"""


@pytest.mark.slow
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="one core has nothing to share")
def test_numpys_products_use_several_threads_after_ours():
    run(MATMUL)


INTERRUPTED = """
import signal, threading
import numpy as np
from retrograd.core.arrays import blas
number = blas._number()
if number is not None:
    before = number.value
    armed = []
    def interrupt(*_):
        if armed:
            armed.clear()
            raise KeyboardInterrupt
    signal.signal(signal.SIGALRM, interrupt)
    seen = []
    def call(turn):
        while armed:
            blas.one_thread(seen.append, turn)
    for turn in range(3000):
        try:
            armed.append(turn)
            signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + turn % 40))
            call(turn)  # a loop here would end outside of the try block on Python 3.12 and 3.13
        except KeyboardInterrupt:
            pass
    signal.setitimer(signal.ITIMER_REAL, 0)
    blas.one_thread(int)
    assert number.value == before and not blas._inside

    def work():
        for turn in range(3000):
            try:
                blas.one_thread(lambda: 1 / (turn % 3))
            except ZeroDivisionError:
                pass
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert number.value == before and not blas._inside
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="alarms are POSIX's")
def test_the_limit_is_lifted_however_calls_end_and_however_many_there_are():
    run(INTERRUPTED)
