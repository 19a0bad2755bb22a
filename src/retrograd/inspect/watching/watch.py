"""``watch``: record a training run, through hooks of its optimizers and an observer during recorded steps."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from itertools import chain
from math import hypot, inf
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np

from ...core.arrays import Array
from ...core.arrays.fp_warnings import silent
from ...core.graph.handles import RemovableHandle
from ...core.graph.modes import modes
from ...core.graph.observers import detach
from ...core.tensor.tensor import Tensor
from ...nn.base.containers import ModuleDict
from ...nn.base.module import Module
from ...optim.optimizer import Optimizer
from ..pages.template import framed
from .alarm_rules import Alarm, Rules, cause_of
from .measures import Reading, StepRecord, distributions, norm_of, reading
from .page import data_of, page_of
from .status_line import StatusLine
from .tensorboard import Board
from .watcher import Watcher

_MOST = 2000  # the most records; beyond this, every second record except the last is deleted
_RECENT = 200
_MEMORY = 5  # consecutive records with zero outputs after which a relu unit is dead
_SECONDS = 0.2  # pending records are completed after this time,
_PENDING = 50  # or at this number of records,
_ELEMENTS = 1 << 19  # or at this number of sampled elements


class _Pending(NamedTuple):
    """A record without distributions and activations yet."""

    record: StepRecord
    weights: dict[str, Reading]
    gradients: dict[str, Reading]
    shapes: dict[str, tuple[int, ...]]
    watcher: Watcher


class watch:
    """Record a training run (gradients, weights, updates, activations, clipping, loss, learning rate) and raise alarms.

    Use ``watch`` as a context manager around a training loop, which needs no changes. ``watch`` records each
    ``every``-th step and observes the program only during these steps; other steps cost two calls of a hook. Records
    are completed and checked in batches, five times a second or when they are read.

    For each parameter, a record has the distributions of gradient and weights and the update ratio: the norm of the
    update divided by that of the weights (about 1e-3 is usual). For each activation, it has mean, standard deviation,
    saturation and dead units. It also has the total norm of the gradients at the end of the backward pass and when the
    optimizer reads them, so that clipping is visible. The loss is the Tensor on which ``backward()`` was called.

    Args:
        model: the module with the parameters and activations to record; several as a mapping from names to modules.
        optimizer: the optimizer whose steps are recorded; for several, the steps of the last one are counted.
        every: record one step in ``every``.
        tensorboard: a folder for event files (extra ``tensorboard``), or a SummaryWriter.
        live: show the latest figures and the alarms on standard error; by default if it is a terminal.

    Attributes:
        records: a ``StepRecord`` for each recorded step; above 2,000 records, older ones are thinned out.
        steps: the number of steps so far.
        alarms: texts with figure, parameter, reason and advice; each has ``step``, ``reason``, ``name`` and ``figure``.
            A lasting problem raises one alarm. A healthy run raises none.

    Raises:
        TypeError: the model is not a Module or a mapping of them, or an optimizer is not an Optimizer.
        ValueError: ``every`` is less than 1, there is no optimizer, or one has none of the model's parameters.

    >>> model = rg.nn.Sequential(rg.nn.Linear(4, 8), rg.nn.ReLU(), rg.nn.Linear(8, 1))
    >>> optimizer = rg.optim.SGD(model.parameters(), lr=0.01)
    >>> with rg.inspect.watch(model, optimizer, every=1) as w:
    ...     for _ in range(3):
    ...         optimizer.zero_grad()
    ...         model(rg.ones(5, 4)).square().mean().backward()
    ...         optimizer.step()
    >>> len(w.records), sorted(w.records[-1].gradients), w.alarms
    (3, ['0.bias', '0.weight', '2.bias', '2.weight'], [])
    """

    def __init__(
        self,
        model: Module | Mapping[str, Module],
        optimizer: Optimizer | Iterable[Optimizer],
        every: int = 10,
        *,
        tensorboard: str | os.PathLike[str] | object | None = None,
        live: bool | None = None,
    ) -> None:
        several = isinstance(model, Mapping) and not isinstance(model, Module)
        roots = list(model.values()) if isinstance(model, Mapping) else [model]
        if several and roots and all(isinstance(one, Module) for one in roots):
            model = ModuleDict(model)
        if not isinstance(model, Module):
            raise TypeError(f"watch: model must be a Module, got {type(model).__name__}")
        if not isinstance(optimizer, (Optimizer, Iterable)) or isinstance(optimizer, (str, Tensor)):
            raise TypeError(f"watch: optimizer must be an Optimizer or a list of them, got {type(optimizer).__name__}")
        self.optimizers = [optimizer] if isinstance(optimizer, Optimizer) else list(optimizer)
        for one in self.optimizers:
            if not isinstance(one, Optimizer):
                raise TypeError(f"watch: optimizer must be a list of Optimizers, got {type(one).__name__} in it")
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise ValueError(f"watch: every must be an integer of at least 1, got {every!r}")
        known = {id(p) for p in model.parameters()}
        for one in self.optimizers:
            if known.isdisjoint(map(id, _parameters(one))):
                raise ValueError(f"watch: {type(one).__name__} has none of the model's parameters")
        if not self.optimizers:
            raise ValueError("watch: pass at least one optimizer")
        self.model = model
        self._roots: list[Module] = roots if several else [model]
        self.every = every
        self._records: list[StepRecord] = []
        self._alarms: list[Alarm] = []
        self._pending: list[_Pending] = []
        self._elements = 0  # the number of sampled elements of the pending records
        self._completed = 0.0  # when records were last completed
        self.names: list[str] = []  # names of parameters, in the model's order
        self._board = None if tensorboard is None else Board(tensorboard)
        self._live = StatusLine(live)
        self._rules = Rules()
        self._handles: list[RemovableHandle] = []
        self.steps = 0
        self._watcher: Watcher | None = None
        self._guests: list[RemovableHandle] = []
        self._record: StepRecord | None = None
        self._parameters: dict[str, Tensor] = {}  # the parameters of the current record
        self._weights: dict[str, Reading] = {}
        self._gradients: dict[str, Reading] = {}
        self._before: dict[str, Array] = {}
        self._alive: dict[str, Array] = {}  # by relu: the last record at which each unit was nonzero

    @property
    def title(self) -> str:
        """The class of the model, or the names of several."""
        several = self._roots != [self.model]
        return " and ".join(self.model._modules) if several else type(self.model).__name__

    @property
    def records(self) -> list[StepRecord]:
        """A record for each recorded step."""
        self._complete()
        return self._records

    @property
    def alarms(self) -> list[Alarm]:
        """The problems found so far."""
        self._complete()
        return self._alarms

    @property
    def cause(self) -> str:
        """The change that precedes the first alarm (``"lr 0.5 -> 25 at step 200"``), or the alarm itself, or ``""``."""
        return cause_of(self.records, self.alarms)[0]

    def __repr__(self) -> str:
        return f"<watch of {self.title}: {len(self.records)} records, {len(self.alarms)} alarms>"

    def _repr_html_(self) -> str:
        return framed(page_of(self), repr(self), 720) if self.records else f"<p>{escape(repr(self))}</p>"

    def __enter__(self) -> Self:
        if self._handles:
            raise RuntimeError("watch: this watch is already active; create another one to nest them")
        for optimizer in self.optimizers:
            self._handles += [
                optimizer.register_step_pre_hook(self._before_step),
                optimizer.register_step_post_hook(self._after_step),
            ]
        self._prepare([])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._stop()
        self._complete()
        self._live.close()
        if self._board is not None:
            self._board.close()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a report: a self-contained page (``.html``), a figure (``.png``, extra ``plots``), or data (``.json``).

        Raises:
            ValueError: another suffix.
            RuntimeError: nothing was recorded.
            ImportError: Matplotlib is needed and not installed.
        """
        suffix = Path(path).suffix
        if suffix not in (".html", ".png", ".json"):
            raise ValueError(f"watch.save: path must end in .html, .png or .json, got {os.fspath(path)!r}")
        if not self.records:
            raise RuntimeError("watch.save: no step was recorded; call optimizer.step() inside the with block")
        if suffix == ".html":
            Path(path).write_text(page_of(self), encoding="utf-8")
        elif suffix == ".json":
            Path(path).write_text(json.dumps(data_of(self, most=_MOST), allow_nan=False), encoding="utf-8")
        else:
            from .figures import render

            Path(path).write_bytes(render(self))

    # Recording

    def _prepare(self, probes: list[Tensor]) -> None:
        """Start to observe the next step."""
        watcher = self._watcher = Watcher(self.model, probes)
        # The end of a block, such as no_grad, restores the observers that were active at its start: attach it again.
        self._guests = [root.register_forward_pre_hook(watcher.attach) for root in self._roots]
        self._record = None

    def _stop(self) -> None:
        if self._watcher is not None:
            self._watcher.detach()
        for observer in modes.observers:  # the end of a block may have attached an observer again
            if isinstance(observer, Watcher) and not observer.on:
                detach(observer)
        for guest in self._guests:
            guest.remove()
        self._guests = []
        self._watcher = self._record = None
        self._weights, self._gradients, self._before = {}, {}, {}

    def _before_step(self, optimizer: Optimizer, args: object, kwargs: object) -> None:
        if self._watcher is None:
            return
        if self._record is None:
            self._record = StepRecord(self.steps)
            self._parameters = {name: p for name, p in self.model.named_parameters() if p.requires_grad}
        mine = set(map(id, _parameters(optimizer)))
        with silent():
            self._measure({name: p for name, p in self._parameters.items() if id(p) in mine})

    def _after_step(self, optimizer: Optimizer, args: object, kwargs: object) -> None:
        record = self._record
        if record is not None:
            with silent():
                self._compare(record, optimizer)
        if optimizer is not self.optimizers[-1]:
            return
        if record is not None:
            with silent():
                self._finish(record)
        self.steps += 1
        if self.steps % self.every == 0:
            self._prepare([_probe(optimizer) for optimizer in self.optimizers])

    def _measure(self, parameters: dict[str, Tensor], frozen: bool = False) -> None:
        """Measure gradients and weights, and copy the weights for comparison after the step."""
        for name, p in parameters.items():
            self._weights[name] = reading(p.array)
            if p.grad is not None:
                self._gradients[name] = reading(p.grad.array)
                if not frozen:
                    self._before[name] = p.array.copy()

    def _compare(self, record: StepRecord, optimizer: Optimizer) -> None:
        """Compute the update ratios."""
        mine = set(map(id, _parameters(optimizer)))
        for name, p in self._parameters.items():
            before = self._before.pop(name, None) if id(p) in mine else None
            if before is not None:
                norm, move = self._weights[name].norm, norm_of(np.subtract(p.array, before, out=before))
                record.update_ratios[name] = move / norm if norm else (inf if move else 0.0)

    def _finish(self, record: StepRecord) -> None:
        """Store the record of the finished step for later completion."""
        watcher = self._watcher
        assert watcher is not None
        parameters = self._parameters
        others = {name: p for name, p in parameters.items() if name not in self._weights}
        if others:  # parameters without an optimizer
            self._measure(others, frozen=True)
        record.losses, record.carried = watcher.losses, watcher.carried
        groups = [group for o in self.optimizers for group in o.param_groups if "lr" in group]
        record.rates = [float(_item(group["lr"])) for group in groups]
        record.decays = [float(_item(group.get("weight_decay", 0.0))) for group in groups]
        group_of = {id(p): number for number, group in enumerate(groups) for p in group["params"]}
        record.groups = {name: group_of[id(p)] for name, p in parameters.items() if id(p) in group_of}
        record.total_norm = hypot(*[x.norm for x in self._gradients.values()])
        ahead = [watcher.norms.get(id(parameters[name]), x.norm) for name, x in self._gradients.items()]
        record.total_norm_before_clipping = max(hypot(*ahead), record.total_norm)
        shapes = {name: p.array.shape for name, p in parameters.items()}
        self._pending.append(_Pending(record, self._weights, self._gradients, shapes, watcher))
        self._elements += sum([len(x.sample) for x in (*self._weights.values(), *self._gradients.values())])
        self._stop()
        if (
            len(self._pending) >= _PENDING
            or self._elements > _ELEMENTS
            or time.monotonic() > self._completed + _SECONDS
        ):
            self._complete()

    def _complete(self) -> None:
        """Complete all pending records, and check each."""
        pending, self._pending = self._pending, []
        if not pending:
            return
        self._elements = 0
        raised_now: list[Alarm] = []
        with silent():
            found = iter(
                distributions([x for one in pending for x in (*one.weights.values(), *one.gradients.values())])
            )
            for record, weights, gradients, shapes, watcher in pending:
                record.weights = dict(zip(weights, found, strict=False))
                record.gradients = dict(zip(gradients, found, strict=False))
                for place, (activation, alive) in watcher.activations().items():
                    activation.dead = None if alive is None else self._dead(record, place, alive)
                    record.activations[place] = activation
                self.names = list(dict.fromkeys([*self.names, *shapes]))
                self._records.append(record)
                if len(self._records) > _MOST:
                    del self._records[1:-_RECENT:2]
                raised = self._rules.judge(self._records, shapes)
                raised_now += raised
                if self._board is not None:
                    self._board.write(record, raised)
        self._alarms += raised_now
        self._live.show(self._records[-1], raised_now, len(self._alarms))
        self._completed = time.monotonic()

    def _dead(self, record: StepRecord, place: str, alive: Array) -> float:
        """Return the share of units that were zero in all of the last records."""
        now = record.step // self.every
        last = self._alive.get(place)
        if last is None or last.shape != alive.shape:
            last = self._alive[place] = np.full(alive.shape, -1)
        last[alive] = now
        return float((last < max(0, now - _MEMORY + 1)).mean()) if last.size else 0.0


def _parameters(optimizer: Optimizer) -> Iterator[Tensor]:
    return chain.from_iterable(group["params"] for group in optimizer.param_groups)


def _probe(optimizer: Optimizer) -> Tensor:
    """Return the smallest parameter with a nonzero gradient, to detect whether the program zeroes gradients."""
    graded = [p for p in _parameters(optimizer) if p.grad is not None]
    graded.sort(key=lambda p: p.array.size)
    return next((p for p in graded if p.grad is not None and p.grad.array.any()), next(_parameters(optimizer)))


def _item(value: object) -> Any:
    return value.item() if isinstance(value, Tensor) else value
