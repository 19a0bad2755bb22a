"""What the tests of every operator share."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from retrograd.testing.case import Call, Case

MOST_CALLS = 2  # of an operator in a column that costs many calls of it


@pytest.fixture
def few(pytestconfig: pytest.Config) -> Callable[[Case], Case]:
    """Keep the first and the last of the example calls of a case; all of them with ``--long``."""

    def thinned(case: Case) -> Case:
        def calls(rng: np.random.Generator) -> Iterator[Call]:
            every = list(case.calls(rng))
            places = np.linspace(0, len(every) - 1, min(len(every), MOST_CALLS)).round()
            return iter([every[int(place)] for place in places])

        return case if pytestconfig.getoption("--long") else replace(case, calls=calls)

    return thinned
