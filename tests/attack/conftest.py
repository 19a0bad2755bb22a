"""Programs that attack the library at random: for half a second each, or with ``pytest --long`` for two minutes."""

import secrets
import time
from collections.abc import Iterator

import numpy as np
import pytest


@pytest.fixture
def long(request: pytest.FixtureRequest) -> bool:
    """Whether the attack may take minutes."""
    return request.config.getoption("--long")


@pytest.fixture
def random(long: bool) -> np.random.Generator:
    """The same attack in every short run; another one, whose seed is printed, in every long run."""
    seed = secrets.randbits(32) if long else 0
    print(f"np.random.default_rng({seed})")
    return np.random.default_rng(seed)


@pytest.fixture
def rounds(long: bool) -> Iterator[int]:
    """Counts attacks until the time is over, at least two."""

    def count() -> Iterator[int]:
        end = time.monotonic() + (120 if long else 0.4)
        number = 0
        while number < 2 or time.monotonic() < end:
            yield number
            number += 1
        print(f"{number} rounds")

    return count()
