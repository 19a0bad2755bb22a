"""Fixtures for every test and doctest: fixed seeds, and no test may leave a mode or a default changed.

This file stands at the root, not in tests/, so that the doctests under src/ are watched too.
"""

import os
import random
from collections.abc import Iterator

import pytest

# The thread-local modes, and the getter and setter of each process-wide default, that a test must leave as found.
MODES = ("grad_enabled", "inference", "anomaly")
DEFAULTS = (("get_default_dtype", "set_default_dtype"), ("get_default_device", "set_default_device"))


@pytest.fixture(autouse=True)
def seeds() -> None:
    """Every test starts from the same random state, whatever ran before it."""
    import retrograd as rg

    random.seed(0)
    rg.manual_seed(0)


@pytest.fixture(autouse=True)
def no_leaks() -> Iterator[None]:
    """Fail the test that leaves a mode, a default or an environment variable of ours changed, and restore it."""
    before = global_state()
    yield
    after = global_state()
    leaked = [f"{name}: {before[name]!r} -> {after[name]!r}" for name in before if before[name] != after[name]]
    if leaked:
        restore(before)
        pytest.fail("leaked global state: " + ", ".join(leaked))


def global_state() -> dict[str, object]:
    import retrograd as rg
    from retrograd.core.modes import modes

    state = {name: getattr(modes, name) for name in MODES}
    state |= {getter: getattr(rg, getter)() for getter, _ in DEFAULTS}
    state["environment"] = {name: value for name, value in os.environ.items() if name.startswith("RETROGRAD_")}
    return state


def restore(state: dict[str, object]) -> None:
    import retrograd as rg
    from retrograd.core.modes import modes

    for name in MODES:
        setattr(modes, name, state[name])
    for getter, setter in DEFAULTS:
        getattr(rg, setter)(state[getter])
    for name in [name for name in os.environ if name.startswith("RETROGRAD_")]:
        del os.environ[name]
    os.environ.update(state["environment"])
