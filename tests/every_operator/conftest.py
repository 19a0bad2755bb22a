"""What the tests of every operator share."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from retrograd.testing.case import Call, Case


@pytest.fixture
def few(pytestconfig: pytest.Config) -> Callable[[Case], Case]:
    """Keep the first and the last of the example calls of a case; all of them with ``--long``."""

    def thinned(case: Case) -> Case:
        def calls(rng: np.random.Generator) -> Iterator[Call]:
            every = list(case.calls(rng))
            return iter(every[:1] + every[1:][-1:])

        return case if pytestconfig.getoption("--long") else replace(case, calls=calls)

    return thinned
