"""What holds for every test and doctest: fixed seeds, and no test may leave a mode or a default changed.

This file stands at the root, not in tests/, so that the doctests under src/ are watched too.
"""

import gc
import importlib
import os
import random
import re
import sys
from collections import Counter
from collections.abc import Generator
from importlib.util import find_spec
from itertools import count

import numpy as np
import pytest
from _pytest.runner import runtestprotocol

import retrograd as rg
from retrograd import nn
from retrograd.core.arrays.devices import get_default_device, set_default_device
from retrograd.core.arrays.dtypes import get_default_dtype, set_default_dtype
from retrograd.core.graph.modes import modes
from retrograd.core.tensor import tensor as tensor_module
from retrograd.kernels.runtime import library
from retrograd.nn import functional as F

# Rooms that stand on a library as a whole: their doctests need it.
collect_ignore_glob = [f"src/retrograd/{room}/*" for room in ("sklearn", "onnx") if find_spec(room) is None]
if find_spec("scipy") is None:  # the examples of all distributions, which name SciPy's
    collect_ignore_glob += [
        f"tests/distributions/{name}.py"
        for name in (
            "families", "test_against_scipy", "test_against_torch", "test_gradients", "test_kl", "test_on_device",
            "test_samples",
        )
    ]  # fmt: skip
if find_spec("numba") is None:  # the sources of compiled loops, which import it
    collect_ignore_glob += [
        f"src/retrograd/kernels/{files}"
        for files in (
            "loops/*/*_loops.py", "loops/elements/scalar_functions.py", "loops/images/lines.py",
            "loops/images/interleaved.py",
            "loops/regions/row_copies.py", "loops/regions/small_products.py", "loops/sequences/common.py",
            "runtime/loop_blas.py", "runtime/thread_protocol.py", "tiles/packed_products.py", "tiles/tiles.py",
        )
    ]  # fmt: skip

# The thread-local modes, and the getter and setter of each process-wide default, that a test must leave as found.
MODES = ("grad_enabled", "inference", "observers")
DEFAULTS = ((get_default_dtype, set_default_dtype), (get_default_device, set_default_device))
CASES_TO_DIVIDE = 6
TESTS_BETWEEN_FREEZES = 500
OBJECTS_BETWEEN_COLLECTIONS = 50_000  # with 700, the collector takes a sixth of the time of tests/func and tests/optim
started = count(1)
NEEDED = re.compile(r"needs (\w+)(?:, which is not installed)?\W+pip install 'retrograd\[\w+\]'")
BEFORE = pytest.StashKey[dict[str, object]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--long``: the programs in tests/attack run for two minutes each, and all drawn programs and cases are tried.

    ``--every N``: of the cases of each test, each N-th one runs. ``--part K/N``: of the cases of each test that has at
    least six, the K-th and each N-th after it run. ``--without-library``: the tests run as in a checkout without
    compiled loops, but processes that they start find the library.
    """
    parser.addoption("--long", action="store_true", help="attack for minutes, and try more programs drawn at random")
    parser.addoption("--every", type=int, default=1, metavar="N", help="run each N-th case of each test")
    parser.addoption("--part", default="1/1", metavar="K/N", help="run the K-th of N parts of tests with many cases")
    parser.addoption("--without-library", action="store_true", help="find no library of compiled loops")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--without-library"):
        library.folders = list


@pytest.fixture(scope="session", autouse=True)
def names_of_examples(doctest_namespace: dict[str, object]) -> None:
    """What the examples in docstrings need not import."""
    doctest_namespace.update(rg=rg, np=np, nn=nn, F=F)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Tens of thousands of tests are no garbage: the collector does not look at them while they become more."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Hypothesis would look through all our files for constants: five seconds in each process, for two of them.

    Examples of functions that an older SciPy does not have are skipped. Of the cases of a test that has the mark
    ``every(n)``, each n-th one runs, and with ``--long`` all; ``--every`` is this mark for all tests. ``--part`` leaves
    tests whole that have the mark ``whole``.
    """
    part, parts = map(int, config.getoption("--part").split("/"))
    counts = Counter(item.nodeid.partition("[")[0] for item in items)
    cases: Counter[str] = Counter()
    left_out: list[pytest.Item] = []
    for item in items:
        mark = None if config.getoption("--long") else item.get_closest_marker("every")
        step = config.getoption("--every") * (1 if mark is None else mark.args[0])
        test, case, _ = item.nodeid.partition("[")
        number, rest = divmod(cases[test], step)
        divided = counts[test] >= CASES_TO_DIVIDE * step and item.get_closest_marker("whole") is None
        if case and (rest or divided and number % parts != part - 1):
            left_out.append(item)
        cases[test] += 1
        if item.name.startswith("retrograd.scipy.special.") and find_spec("scipy") is not None:
            name = item.name.rpartition(".")[2]
            if not hasattr(importlib.import_module("scipy.special"), name):
                item.add_marker(pytest.mark.skip(reason=f"this SciPy has no special.{name}"))
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        chosen = set(items).difference(left_out)
        items[:] = [item for item in items if item in chosen]
    if providers := sys.modules.get("hypothesis.internal.conjecture.providers"):
        providers.is_local_module_file = lambda path: False


def pytest_collection_finish(session: pytest.Session) -> None:
    """What collection made lives until the end, and the collector looks at it no more.

    Hypothesis asks the collector who holds its generator, when it draws for the first time: it has to, before.
    """
    session.stash[BEFORE] = global_state()
    if "hypothesis" in sys.modules:
        draw_once()
    gc.freeze()
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)


def draw_once() -> None:
    from hypothesis import given, settings, strategies

    settings(max_examples=1, database=None)(given(strategies.none())(lambda nothing: None))()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Every test starts from the same random state, whatever ran before it.

    Modules, caches and reports that earlier tests left are taken from the collector now and then: at the end of a run
    it would need seconds for them, in each full collection.
    """
    random.seed(0)
    rg.manual_seed(0)
    if next(started) % TESTS_BETWEEN_FREEZES == 0:
        gc.collect()
        gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Skip a test where Retrograd's error says that an optional package is needed, and the package is not installed."""
    try:
        return (yield)
    except (Exception, pytest.fail.Exception) as error:
        reason = missing_package(error)
        if reason:
            pytest.skip(reason)
        raise


def missing_package(error: BaseException) -> str:
    """Return the message of an error, or of the first of a group all of which say that a package is missing, or ""."""
    failure = (getattr(error, "failures", None) or [error])[0]  # in a doctest the first error entails the others
    if hasattr(failure, "exc_info"):
        error = failure.exc_info[1]
    if isinstance(error, BaseExceptionGroup):
        reasons = list(map(missing_package, error.exceptions))
        return reasons[0] if all(reasons) else ""
    cause: BaseException | None = error
    while cause is not None:
        found = NEEDED.search(str(cause))
        if found is not None and find_spec(found[1].lower()) is None:
            return found[0]
        cause = cause.__context__
    return ""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Fail the test that leaves a mode, a default or an environment variable of ours changed, and restore it."""
    yield
    before, after = item.session.stash[BEFORE], global_state()
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    leaked = [f"{name}: {before.get(name)!r} -> {after.get(name)!r}" for name in names]
    if leaked:
        restore(before)
        pytest.fail("leaked global state: " + ", ".join(leaked))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """A worker of several tells of a test once, unless it fails: of most tests the messages cost more than the test."""
    if not hasattr(item.config, "workerinput"):
        return None
    for report in runtestprotocol(item, nextitem=nextitem, log=False):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable(report: object) -> Generator[None, dict[str, object], dict[str, object]]:
    """What passed is told without the test's markers and names."""
    data = yield
    return {**data, "keywords": {}} if getattr(report, "passed", False) else data


def global_state() -> dict[str, object]:
    state: dict[str, object] = {name: getattr(modes, name) for name in MODES}
    state["arrays_keep_dtype"] = tensor_module.arrays_keep_dtype  # False where Retrograd is torch
    state |= {getter.__name__: getter() for getter, _ in DEFAULTS}
    return state | {name: os.environ[name] for name in os.environ if name.startswith("RETROGRAD_")}


def restore(state: dict[str, object]) -> None:
    for name in MODES:
        setattr(modes, name, state[name])
    tensor_module.arrays_keep_dtype = bool(state["arrays_keep_dtype"])
    for getter, setter in DEFAULTS:
        setter(state[getter.__name__])
    for name in [name for name in os.environ if name.startswith("RETROGRAD_")]:
        del os.environ[name]
    os.environ.update({name: str(value) for name, value in state.items() if name.startswith("RETROGRAD_")})
