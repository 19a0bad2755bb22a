"""Fixtures for every test and doctest: fixed seeds, and no test may leave a mode or a default changed.

This file stands at the root, not in tests/, so that the doctests under src/ are watched too.
"""

import os
import random
from collections.abc import Iterator
from importlib.util import find_spec

import numpy as np
import pytest

os.environ.setdefault("RETROGRAD_AHEAD", "off")  # tests run on all cores already

import retrograd as rg
from retrograd import nn
from retrograd.core.devices import get_default_device, set_default_device
from retrograd.core.dtypes import get_default_dtype, set_default_dtype
from retrograd.core.modes import modes
from retrograd.nn import functional as F

# Rooms that stand on a library as a whole: their doctests need it.
collect_ignore_glob = [f"src/retrograd/{room}/*" for room in ("sklearn", "onnx") if find_spec(room) is None]

# The thread-local modes, and the getter and setter of each process-wide default, that a test must leave as found.
MODES = ("grad_enabled", "inference", "observers")
DEFAULTS = ((get_default_dtype, set_default_dtype), (get_default_device, set_default_device))


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--long``: the programs in tests/attack run for two minutes each, and all programs drawn at random are tried."""
    parser.addoption("--long", action="store_true", help="attack for minutes, and try more programs drawn at random")


@pytest.fixture(autouse=True)
def seeds() -> None:
    """Every test starts from the same random state, whatever ran before it."""
    random.seed(0)
    rg.manual_seed(0)


@pytest.fixture(scope="session", autouse=True)
def names_of_examples(doctest_namespace: dict[str, object]) -> None:
    """What the examples in docstrings need not import."""
    doctest_namespace.update(rg=rg, np=np, nn=nn, F=F)


@pytest.fixture(autouse=True)
def no_leaks() -> Iterator[None]:
    """Fail the test that leaves a mode, a default or an environment variable of ours changed, and restore it."""
    before = global_state()
    yield
    after = global_state()
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    leaked = [f"{name}: {before.get(name)!r} -> {after.get(name)!r}" for name in names]
    if leaked:
        restore(before)
        pytest.fail("leaked global state: " + ", ".join(leaked))


def global_state() -> dict[str, object]:
    state = {name: getattr(modes, name) for name in MODES}
    state |= {getter.__name__: getter() for getter, _ in DEFAULTS}
    return state | {name: value for name, value in os.environ.items() if name.startswith("RETROGRAD_")}


def restore(state: dict[str, object]) -> None:
    for name in MODES:
        setattr(modes, name, state[name])
    for getter, setter in DEFAULTS:
        setter(state[getter.__name__])
    for name in [name for name in os.environ if name.startswith("RETROGRAD_")]:
        del os.environ[name]
    os.environ.update({name: str(value) for name, value in state.items() if name.startswith("RETROGRAD_")})
