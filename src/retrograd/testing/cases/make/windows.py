"""Cases of window functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...case import Call, Case


def lengths(*positional: Any, **options: Any) -> Callable[[np.random.Generator], Iterator[Call]]:
    """Calls for no point, one, an even and an odd number of them, in float64."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for count in (0, 1, 5, 8):
            yield Call(count, *positional, dtype=np.float64, **options)

    return calls


def both(flag: str, **options: Any) -> Callable[[np.random.Generator], Iterator[Call]]:
    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for value in (True, False):
            yield from lengths(**{flag: value}, **options)(rng)

    return calls


def with_options(*parts: Callable[[np.random.Generator], Iterator[Call]]) -> Any:
    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for part in parts:
            yield from part(rng)

    return calls


CASES = [
    *(Case(f"{name}_window", both("periodic"), order=0) for name in ("bartlett", "blackman", "hann")),
    Case("hamming_window", with_options(both("periodic"), lengths(True, 0.6, 0.3)), order=0),
    Case("kaiser_window", with_options(both("periodic"), lengths(False, 3.0)), order=0, torch_tolerance=1e-6),
    *(
        Case(f"signal.windows.{name}", both("sym"), order=0)
        for name in ("bartlett", "blackman", "cosine", "hamming", "hann", "nuttall")
    ),
    Case(
        "signal.windows.exponential",
        with_options(both("sym", tau=2.5), lengths(sym=False, center=1.5)),
        order=0,
    ),
    Case("signal.windows.gaussian", both("sym", std=1.5), order=0),
    Case("signal.windows.general_cosine", both("sym", a=[0.4, 0.3, 0.2, 0.1]), order=0),
    Case("signal.windows.general_hamming", both("sym", alpha=0.6), order=0),
    Case("signal.windows.kaiser", both("sym", beta=4.0), order=0, torch_tolerance=1e-6),
]
