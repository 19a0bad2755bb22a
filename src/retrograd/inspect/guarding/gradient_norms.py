"""Gradient norms of a backward pass: where they fall, rise, or become zero in dead units."""

from __future__ import annotations

import math
from typing import NamedTuple

from ...core.arrays import Array
from ...core.arrays.devices import array_module
from ...core.arrays.fp_warnings import silent
from ..record import Record
from ..table import columns_of_terminal, number, percent

_RECTIFIERS = {"relu", "hardtanh", "threshold", "clamp_min", "clamp"}
_WIDTH = 30


class _Place(NamedTuple):
    """The gradient norm at an operator, and its ratio to the norm at the operators that read its output."""

    record: Record
    norm: float
    factor: float


class GradientNorms:
    """The gradient norms of one backward pass, and their bounds, relative to the norm at the start."""

    def __init__(self, vanishing: float | None, exploding: float | None) -> None:
        self.vanishing = vanishing
        self.exploding = exploding
        self.watches = vanishing is not None or exploding is not None
        self._dead: dict[int, tuple[float, int]] = {}  # by record: share of dead units, number of elements
        self.begin()

    def begin(self) -> None:
        """Start a backward pass."""
        self._norms: dict[int, float] = {}
        self._order: list[Record] = []
        self._leaves: dict[str, float] = {}
        self._readers: dict[str, list[Record]] = {}

    def add(self, record: Record, g: Array) -> None:
        """Add the gradient of a record's output."""
        if self.watches:
            self._norms[record.index] = norm_of(g)
            self._order.append(record)

    def add_leaf(self, name: str, g: Array) -> None:
        """Add the accumulated gradient of a leaf."""
        self._leaves[name] = norm_of(g)

    def reach(self, name: str, record: Record | None) -> None:
        """Record that the rules of a record's node sent a gradient to the leaf."""
        if record is not None:
            self._readers.setdefault(name or "a leaf", []).append(record)

    def add_output(self, record: Record, array: Array) -> None:
        """Record which units of an operator's output are dead: zero for every example."""
        if record.operator not in _RECTIFIERS or array.ndim < 2 or not array.size:
            return
        axis = array.ndim - 1 if array.ndim <= 3 else 1
        alive = (array > 0).any(axis=tuple([d for d in range(array.ndim) if d != axis]))
        self._dead[record.index] = 1 - float(alive.mean()), array.size

    def judge(self) -> str:
        """Return the report of a backward pass that exceeded a bound, or "" if none was exceeded."""
        if not self.watches or not self._order:
            return ""
        start = self._norms[self._order[0].index] or 1.0
        if self.exploding is not None:
            worst = max(self._order, key=lambda record: self._norms[record.index])
            top = max([(norm, name) for name, norm in self._leaves.items()], default=(0.0, ""))
            if max(self._norms[worst.index], top[0]) > self.exploding * start:
                return self._exploded(start, worst, top)
        if self.vanishing is not None:
            lost = {
                name: max(self._norms[record.index] for record in readers if record.index in self._norms)
                for name, readers in self._readers.items()
                if any(record.index in self._norms for record in readers)
            }
            below = {
                name: norm
                for name, norm in lost.items()
                if norm < self.vanishing * start and (norm or not all(map(self._cancels, self._readers[name])))
            }
            if below:
                return self._vanished(start, below)
        return ""

    def _cancels(self, record: Record) -> bool:
        """Return whether a gradient is zero because gradients from several operators cancelled."""
        readers: dict[int, list[Record]] = {}
        for later in self._order:
            for x in later.inputs:
                if isinstance(x.source, Record):
                    readers.setdefault(x.source.index, []).append(later)
        while True:
            above = readers.get(record.index, [])
            sent = [reader for reader in above if self._norms[reader.index]]
            if sent or not above:
                return len(sent) > 1
            record = above[0]

    def _exploded(self, start: float, worst: Record, top: tuple[float, str]) -> str:
        places = self._factors()
        steepest = max(places, key=lambda place: place.factor)
        at_leaf = f"; that of {top[1]} is {number(top[0])}" if top[1] else ""
        return (
            f"{steepest.record.site}: the gradient exploded, most at {_named(steepest.record)}\n"
            f"    {steepest.record.code}\n"
            f"  Its norm was {number(start)} at the start and is {number(self._norms[worst.index])} at "
            f"{_named(worst)}, {worst.site}{at_leaf}: more than {self.exploding:g} times as much.\n"
            f"  It rose most at {_named(steepest.record)}, {steepest.record.site}: "
            f"by a factor of {number(steepest.factor)}.\n"
            f"{self.chart()}\n"
            "what helps: smaller initial weights, or normalization between layers; if training has made the weights "
            "large, a lower learning rate or nn.utils.clip_grad_norm_"
        )

    def _vanished(self, start: float, below: dict[str, float]) -> str:
        name, least = min(below.items(), key=lambda item: item[1])
        places = self._factors()
        dead = next((place for place in places if self._dead.get(place.record.index, (0, 0))[0] == 1), None)
        alike = [dead] if dead else self._steepest(places)
        record = alike[0].record
        named = _named(record) if len(alike) == 1 else record.operator
        others = f" and {len(below) - 1} others" if len(below) > 1 else ""
        lines = [
            f"{record.site}: the gradient vanished, most at {named}",
            f"    {record.code}",
            f"  Its norm was {number(start)} at the start and is {number(least)} where it reaches {name}{others},",
            f"  less than {self.vanishing:g} times as much.",
        ]
        if dead is not None:
            count = self._dead[record.index][1]
            what = f"{_named(record)}, {record.site}, are 0 for every example: its units are dead"
            lines.append(f"  All {count:,} outputs of {what}.")
            helps = "a lower learning rate, smaller biases, or leaky_relu"
        else:
            fell = number(math.prod(place.factor for place in alike))
            over = f" over {len(alike)} calls" if len(alike) > 1 else ""
            lines.append(f"  It fell most at {named}, {record.site}: to {fell} of its value{over}.")
            helps = (
                "residual connections, normalization, larger initial weights, or relu with kaiming_normal_ weights "
                "where sigmoid and tanh saturate"
            )
        return "\n".join([*lines, self.chart(), f"what helps: {helps}"])

    def _steepest(self, places: list[_Place]) -> list[_Place]:
        """Return the places of the operator and line where the norm fell most in total, steepest first."""
        alike: dict[tuple[str, str], list[_Place]] = {}
        for place in places:
            alike.setdefault((place.record.operator, str(place.record.site)), []).append(place)
        group = min(alike.values(), key=lambda group: math.prod(place.factor for place in group))
        return sorted(group, key=lambda place: place.factor)

    def _factors(self) -> list[_Place]:
        """Return the gradient norm and its factor at each operator, in the order of the backward pass."""
        came: dict[int, float] = {}  # by record: the largest norm at one of its readers
        places = []
        for record in self._order:
            norm = self._norms[record.index]
            above = came.get(record.index, 0.0)
            places.append(_Place(record, norm, norm / above if above else 1.0))
            for x in record.inputs:
                if isinstance(x.source, Record):
                    came[x.source.index] = max(came.get(x.source.index, 0.0), norm)
        # An operator's own factor compares the gradients of its inputs with the gradient of its output.
        made: dict[int, float] = {}
        for place in places:
            for x in place.record.inputs:
                if isinstance(x.source, Record) and x.source.index in self._norms and place.norm:
                    factor = self._norms[x.source.index] / place.norm
                    made[place.record.index] = max(made.get(place.record.index, 0.0), factor)
        return [place._replace(factor=made.get(place.record.index, 1.0)) for place in places]

    def chart(self) -> str:
        """Return the norms by operator and line, in the order of the backward pass."""
        if not self._order:
            return "no backward pass was observed"
        groups: list[tuple[Record, list[float], float]] = []
        known: dict[tuple[str, str], int] = {}
        for record in self._order:
            key = record.operator, str(record.site)
            dead = self._dead.get(record.index, (0.0, 0))[0]
            if key in known:
                first, norms, most = groups[known[key]]
                groups[known[key]] = first, [*norms, self._norms[record.index]], max(most, dead)
            else:
                known[key] = len(groups)
                groups.append((record, [self._norms[record.index]], dead))
        logs = [math.log10(x) for _, norms, _ in groups for x in norms if 0 < x < math.inf]
        low, high = (min(logs) - 0.5, max(logs)) if logs else (0.0, 1.0)
        width = max(8, min(_WIDTH, columns_of_terminal(120) - 90))
        lines = ["  gradient norms in the order of the backward pass (bars are logarithmic):"]
        for record, norms, dead in groups:
            last = norms[-1]
            share = (math.log10(last) - low) / (high - low) if 0 < last < math.inf else float(last > 0)
            bar = "█" * round(width * share) if high > low else "█"
            count = f" x{len(norms)}" if len(norms) > 1 else ""
            span = number(norms[0]) + (f" .. {number(last)}" if len(norms) > 1 else "")
            note = f"  {percent(dead)} of units dead" if dead else ""
            where = f"{record.site}"
            lines.append(f"  {(record.operator + count)[:20]:20}  {where[:26]:26}  {span:>20}  {bar}{note}")
        return "\n".join(lines)


def norm_of(g: Array) -> float:
    """Return the Euclidean norm, also if squares overflow."""
    xp = array_module(g)
    with silent():
        flat = g.reshape(-1)
        norm = float(xp.sqrt(abs(xp.vdot(flat, flat)))) if flat.dtype.itemsize >= 4 else math.inf
        if not math.isfinite(norm) or norm == 0:
            wide = abs(flat).astype("f8")
            top = float(wide.max()) if wide.size else 0.0
            if not math.isfinite(top) or not top:
                return top
            norm = top * float(xp.sqrt(((wide / top) ** 2).sum()))
    return norm


def _named(record: Record) -> str:
    return f"{record.operator} in {record.module}" if record.module else record.operator
