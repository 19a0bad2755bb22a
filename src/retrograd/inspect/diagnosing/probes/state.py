"""Keep a program as it is while the doctor tries things: random generators, modes, observers and hooks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ....autograd.influence import unobserved
from ....core.graph.modes import enable_grad
from ....ops.make.generators import get_rng_state, set_rng_state
from ....optim import optimizer as optimizers


@contextmanager
def undisturbed() -> Iterator[None]:
    """Run a block without observers and step hooks, and put back the states of all random generators at its end.

    The generators are Retrograd's, NumPy's legacy one and Python's. The block records derivatives, whatever the mode
    around it.
    """
    ours, of_numpy, of_python = get_rng_state(), np.random.get_state(), random.getstate()
    tables = (optimizers._pre_hooks_of_all, optimizers._post_hooks_of_all)
    hooks = [dict(table) for table in tables]
    for table in tables:
        table.clear()
    try:
        with unobserved(), enable_grad():
            yield
    finally:
        for table, entries in zip(tables, hooks, strict=True):
            table.update(entries)
        set_rng_state(ours)
        np.random.set_state(of_numpy)
        random.setstate(of_python)
