"""The report of a watched run as one page: alarms, curves, distributions over time, and a table of the parameters.

The page loads nothing, which its security policy enforces. Text from the program is passed as JSON, and the script
inserts it as text, never as HTML.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import numpy as np

from ...nn.base.module import Module
from ...optim.optimizer import Optimizer
from ..pages.template import asset, filled, json_inside
from .alarm_rules import Alarm, cause_of
from .measures import Activation, Distribution, StepRecord

_MOST = 400  # the most records on the page
_COLUMNS = 60  # the most records with histograms
_LOSSES = 4  # the most curves of losses, if several backward passes run in a step


class Watched(Protocol):
    """The figures of a watched run that pages and pictures show."""

    model: Module
    optimizers: list[Optimizer]
    every: int
    names: list[str]

    @property
    def title(self) -> str:
        """The name of the model."""

    @property
    def records(self) -> list[StepRecord]:
        """A record for each recorded step."""

    @property
    def alarms(self) -> list[Alarm]:
        """The problems found so far."""


def page_of(w: Watched) -> str:
    """Return the page."""
    return filled(
        asset(__package__, "watch.html"), {"data": json_inside(data_of(w)), "script": asset(__package__, "watch.js")}
    )


def data_of(w: Watched, most: int = _MOST) -> dict[str, object]:
    """Return the figures of at most ``most`` records, with NaN and infinities as strings, which JSON requires."""
    records = w.records[:: -(-len(w.records) // most)]
    if records[-1] is not w.records[-1]:
        records = [*records, w.records[-1]]
    columns = sorted({round(place) for place in np.linspace(0, len(records) - 1, min(_COLUMNS, len(records)))})
    places = list(dict.fromkeys(name for record in records for name in record.activations))

    def over(read: Callable[[StepRecord], float | None]) -> list[float | str | None]:
        return _plain(map(read, records))

    def each(read: Callable[[StepRecord], Sequence[float]], most: int | None) -> list[list[float | str | None]]:
        """Return a curve for each of the first figures of the records."""
        count = max(len(read(record)) for record in records)
        return [
            _plain([found[i] if i < len(found := read(record)) else None for record in records])
            for i in range(count)[:most]
        ]

    def parameter(name: str) -> dict[str, object]:
        gradients = [record.gradients.get(name) for record in records]
        weights = [record.weights.get(name) for record in records]
        return {
            "name": name,
            "size": max((x.size for x in weights if x is not None), default=0),
            "ratio": over(lambda record: record.update_ratios.get(name)),
            **{f"gradient_{what}": _figures(gradients, what) for what in ("norm", "rms", "mean", "std", "zeros")},
            **{f"weight_{what}": _figures(weights, what) for what in ("norm", "rms", "mean", "std", "zeros")},
            "gradients": [_histogram(gradients[index]) for index in columns],
            "weights": [_histogram(weights[index]) for index in columns],
        }

    def activation(name: str) -> dict[str, object]:
        seen = [record.activations.get(name) for record in records]
        kind = next((x.kind for x in seen if x is not None and x.kind), "")
        return {
            "name": name,
            "kind": kind,
            **{what: _figures(seen, what) for what in ("mean", "std", "saturated", "dead")},
        }

    return {
        "model": w.title,
        "cause": dict(zip(("text", "step"), cause_of(w.records, w.alarms), strict=True)),
        "optimizers": [type(optimizer).__name__ for optimizer in w.optimizers],
        "every": w.every,
        "count": len(w.records),
        "steps": [record.step for record in records],
        "columns": columns,
        "alarms": [
            {"text": str(x), "step": x.step, "reason": x.reason, "name": x.name, "figure": _plain([x.figure])[0]}
            for x in w.alarms
        ],
        "loss": over(lambda record: record.loss),
        "losses": each(lambda record: record.losses, _LOSSES),
        "rates": each(lambda record: record.rates, None),
        "norm": over(lambda record: record.total_norm),
        "norm_before": over(lambda record: record.total_norm_before_clipping),
        "parameters": [parameter(name) for name in w.names],
        "activations": [activation(name) for name in places],
    }


def _figures(found: Sequence[Distribution | Activation | None], what: str) -> list[float | str | None]:
    return _plain(None if x is None else getattr(x, what) for x in found)


def _histogram(found: Distribution | None) -> list[float | str | None] | None:
    if found is None or not found.counts.any():
        return None
    return [*_plain([found.minimum, found.maximum]), *found.counts.tolist()]


def _plain(values: Iterable[float | None]) -> list[float | str | None]:
    """Round numbers to the digits that a plot needs."""
    return [
        None if value is None else float(f"{value:.5g}") if math.isfinite(value) else str(value) for value in values
    ]
