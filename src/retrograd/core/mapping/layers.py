"""The levels of ``vmap``, as seen by Batched arrays."""

from __future__ import annotations

from ..graph.modes import modes


class Layer:
    """One call of a function under ``vmap``: its number of examples and its depth of nesting."""

    def __init__(self, size: int) -> None:
        below = modes.level
        self.below: Layer | None = below
        self.depth = 1 if below is None else below.depth + 1
        self.size = size
        self.asked: list[object] = []  # the NumPy functions whose operators on Tensors are running

    def check(self) -> None:
        """Raise an error if a Tensor is used after its mapped function has returned.

        Raises:
            RuntimeError: the level is no longer active, or is active on another thread.
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
