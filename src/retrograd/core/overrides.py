"""PyTorch's protocol ``__torch_function__`` for objects that are no Tensors, such as lazily evaluated matrices.

An operator that fails asks its arguments for the protocol. Objects that answer every attribute, such as the proxies of
``fx``, must be asked before: while one exists, ``watchers`` is not empty, and every public operator asks first.
"""

from __future__ import annotations

from typing import Any

from .graph.modes import watchers


class EagerlyAsked:
    """The base class of objects that operators ask for ``__torch_function__`` before they look at arguments."""

    alive = 0

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        EagerlyAsked.alive += 1
        watchers.add(_TOKEN)
        return super().__new__(cls)

    def __del__(self) -> None:
        EagerlyAsked.alive -= 1
        if not EagerlyAsked.alive:
            watchers.discard(_TOKEN)


_TOKEN = id(EagerlyAsked)
