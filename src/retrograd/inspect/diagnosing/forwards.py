"""Calls of a model in training mode whose results no backward pass uses: an evaluation without ``no_grad``."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from types import FrameType
from typing import TYPE_CHECKING
from weakref import ref

from ...core.graph.nodes import Node
from ...core.source_location import Site, user_site
from ...core.tensor.tensor import Tensor
from .run import Evaluation

if TYPE_CHECKING:
    from ...nn.base.module import Module

_LEAST = 3  # the fewest calls between two backward passes that count as an evaluation
_WATCHED = 1000  # the most calls between two backward passes that are recorded


@dataclass
class Forward:
    """A call of a model: the nodes that dropout and batch normalization read, and a number to tell inputs apart."""

    site: Site | None
    mark: float
    nodes: list[ref[Node]] = field(default_factory=list)

    @property
    def is_dropped(self) -> bool:
        """Whether the graph of the call has been freed."""
        return bool(self.nodes) and all(one() is None for one in self.nodes)


def outermost_call() -> Site:
    """Return the line of the program that calls the outermost module."""
    from ...nn.base.module import Module

    call = Module.__call__.__code__
    frame: FrameType | None = sys._getframe(1)
    depth, found = 1, 1
    while frame is not None:
        if frame.f_code is call:
            found = depth
        depth, frame = depth + 1, frame.f_back
    return user_site(found)


class Forwards:
    """Fills ``evaluations`` from the calls between two backward passes."""

    def __init__(self, evaluations: dict[str, Evaluation]) -> None:
        self.evaluations = evaluations
        self.models: set[int] = set()  # ids of the modules that the program, and no other module, calls
        self._calls: list[Forward] = []
        self._layer = ""
        self.switchable: dict[type, bool] = {}  # by class: whether the training mode matters

    def call(self, module: Module, args: tuple[object, ...]) -> None:
        """Record a call of a model; for dropout or batch normalization, add the node of its input to the last call."""
        if id(module) in self.models:
            if len(self._calls) < _WATCHED:
                x = args[0] if args else None
                known = len(self._calls) >= _LEAST - 1
                mark = float(x.array.reshape(-1)[:8].sum()) if known and isinstance(x, Tensor) else 0.0
                self._calls.append(Forward(user_site(4) if known else None, mark))
        elif self._calls and module.training and self._is_switchable(type(module)):
            x = args[0] if args else None
            if isinstance(x, Tensor) and isinstance(x._node, Node) and getattr(module, "p", 1) > 0:
                self._calls[-1].nodes.append(ref(x._node))
                self._layer = type(module).__name__

    def _is_switchable(self, kind: type) -> bool:
        """Return whether modules of a class compute differently in training and evaluation."""
        found = self.switchable.get(kind)
        if found is None:
            found = self.switchable[kind] = kind.__name__.startswith(("BatchNorm", "Dropout"))
        return found

    def settle(self, step: int) -> None:
        """Record the calls whose graphs were freed without a backward pass, and clear the list of calls."""
        if len(self._calls) < _LEAST:
            self._calls.clear()
            return
        calls, self._calls = self._calls, []
        dropped = [x for x in calls if x.is_dropped]
        sites = [x.site for x in dropped if x.site is not None]
        if len(dropped) < _LEAST or not sites or len({x.mark for x in dropped if x.site is not None}) < 2:
            return
        site = sites[0]
        found = self.evaluations.setdefault(f"{site.file}:{site.line}", Evaluation(self._layer, site, step=step))
        found.calls += len(dropped)
        found.periods += 1
