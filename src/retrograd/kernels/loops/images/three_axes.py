"""Convert windows over one to three spatial axes to three axes, as the loops require."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

Axes = tuple[int, int, int]
Window3 = tuple[Axes, Axes, Axes, Axes, Axes]  # kernel, stride, padding, dilation, number of windows


@lru_cache(maxsize=1024)
def in_three_axes(window: Any) -> Window3:
    """Return the window with leading axes of length 1."""
    missing = 3 - len(window.size)

    def filled(values: tuple[int, ...], by: int) -> Any:
        return (by,) * missing + values

    kernel, stride, dilation = [filled(each, 1) for each in (window.kernel, window.stride, window.dilation)]
    return kernel, stride, filled(window.padding, 0), dilation, filled(window.out, 1)
