"""A layer of ``vmap``: what Batched arrays know of the run that they belong to."""

from __future__ import annotations

from typing import Any

from ..graph.modes import modes


class Layer:
    """One run of ``vmap``: how many examples there are, and how deep it is among others."""

    def __init__(self, size: int) -> None:
        below = modes.level
        self.below: Layer | None = below
        self.depth = 1 if below is None else below.depth + 1
        self.size = size
        self.asked: list[Any] = []  # the functions of NumPy's whose rules for Tensors run now

    def check(self) -> None:
        """Refuse a Tensor that outlived its mapped function.

        Raises:
            RuntimeError: the run has ended, or is another thread's.
        """
        level = modes.level
        while level is not None:
            if level is self:
                return
            level = level.below
        raise RuntimeError(
            "vmap: a Tensor of a mapped function was used after that function had returned, or on another thread; "
            "return it from the function instead of storing it"
        )
