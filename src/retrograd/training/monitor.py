"""GradientMonitor: what gradients and weights look like while a model trains, in numbers and in pictures."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf, nan, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.devices import backend_of
from ..core.hooks import RemovableHandle
from ..core.tensor import Tensor
from ..nn.module import Module
from ..nn.utils import clip_grad_norm_
from ..optim.optimizer import Optimizer
from . import plots

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = np.ndarray[Any, Any]


@dataclass
class Statistics:
    """Of one array: mean, standard deviation, Euclidean norm, and a histogram of the finite values."""

    mean: float
    std: float
    norm: float
    counts: list[int]
    edges: list[float]
    nonfinite: int


@dataclass
class Record:
    """One step: per parameter its gradient, its weights before, and how far, relatively, the step moved them."""

    step: int
    gradients: dict[str, Statistics] = field(default_factory=dict)
    weights: dict[str, Statistics] = field(default_factory=dict)
    update_ratios: dict[str, float] = field(default_factory=dict)
    total_norm: float = 0.0
    total_norm_before_clipping: float | None = None
    dead_units: dict[str, float] = field(default_factory=dict)


class GradientMonitor:
    """Records gradients and weights at an optimizer's steps, by hooks: nothing in the training loop changes.

    At each ``every``-th step it takes, per parameter, mean, standard deviation, norm and histogram of gradient and
    weights, and the ratio of the step's norm to the weights' (about 1e-3 is usual); the total norm of the gradients,
    before and after clipping where that is done by ``clip_grad_norm_`` here; and, per ReLU, the share of units
    (channels of images, else the last axis) whose output was zero for every example since the last record.

    Args:
        model: whose parameters are watched.
        optimizer: at whose steps.
        every: record each so-many-th step.
        bins: of the histograms.

    >>> from retrograd.training import GradientMonitor
    >>> model = rg.nn.Sequential(rg.nn.Linear(4, 8), rg.nn.ReLU(), rg.nn.Linear(8, 1))
    >>> optimizer = rg.optim.SGD(model.parameters(), lr=0.01)
    >>> with GradientMonitor(model, optimizer) as monitor:
    ...     for _ in range(3):
    ...         optimizer.zero_grad()
    ...         model(rg.ones(5, 4)).sum().backward()
    ...         norm = monitor.clip_grad_norm_(1.0)
    ...         optimizer.step()
    >>> len(monitor.records), sorted(monitor.records[-1].gradients)
    (3, ['0.bias', '0.weight', '2.bias', '2.weight'])
    """

    def __init__(self, model: Module, optimizer: Optimizer, every: int = 1, bins: int = 30) -> None:
        if every < 1 or bins < 1:
            raise ValueError(f"GradientMonitor: every and bins must be positive, got {every} and {bins}")
        self.model = model
        self.every = every
        self.bins = bins
        self.records: list[Record] = []
        self._steps = 0
        self._before: dict[str, Array] = {}
        self._norm_before_clipping: float | None = None
        self._alive: dict[str, Array] = {}
        self._handles: list[RemovableHandle] = [
            optimizer.register_step_pre_hook(self._before_step),
            optimizer.register_step_post_hook(self._after_step),
        ]
        for name, module in model.named_modules():
            if type(module).__name__ in ("ReLU", "ReLU6"):
                self._handles.append(module.register_forward_hook(self._watch_units(name)))

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """As ``nn.utils.clip_grad_norm_`` for the model's parameters, with the norm before it put on record."""
        total = clip_grad_norm_(self.model.parameters(), max_norm, norm_type)
        self._norm_before_clipping = float(total.item())
        return total

    def close(self) -> None:
        """Take the hooks off."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def __enter__(self) -> GradientMonitor:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # Recording

    def _watch_units(self, name: str) -> Any:
        def watch(module: Module, args: Any, output: Tensor) -> None:
            array = output.array
            if not module.training or array.ndim < 2:
                return
            axis = array.ndim - 1 if array.ndim <= 3 else 1
            others = tuple(index for index in range(array.ndim) if index != axis)
            alive = _host((array > 0).any(axis=others))
            known = self._alive.get(name)
            self._alive[name] = alive if known is None or known.shape != alive.shape else known | alive

        return watch

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self._before = {}
        if self._steps % self.every:
            return
        record = Record(self._steps, total_norm_before_clipping=self._norm_before_clipping)
        squares = 0.0
        for name, parameter in self.model.named_parameters():
            if parameter.grad is None:
                continue
            weights = self._before[name] = _host(parameter.array).copy()
            record.weights[name] = statistics(weights, self.bins)
            record.gradients[name] = statistics(_host(parameter.grad.array), self.bins)
            squares += record.gradients[name].norm ** 2
        record.total_norm = sqrt(squares)
        record.dead_units = {name: float(1 - alive.mean()) for name, alive in self._alive.items() if alive.size}
        self._alive.clear()
        self.records.append(record)

    def _after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        for name, parameter in self.model.named_parameters():
            before = self._before.get(name)
            if before is not None:
                norm = self.records[-1].weights[name].norm
                move = _norm(_host(parameter.array).astype(before.dtype, copy=False) - before)
                self.records[-1].update_ratios[name] = move / norm if norm else (inf if move else 0.0)
        self._before = {}
        self._norm_before_clipping = None
        self._steps += 1

    # Pictures

    def draw(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Draw all records: norms, update ratios, histograms of gradients and weights over time, and dead units.

        Args:
            path: a PNG file to write; the figure is returned in any case.

        Raises:
            RuntimeError: nothing was recorded.
            ImportError: matplotlib is not installed.
        """
        if not self.records:
            raise RuntimeError("GradientMonitor: nothing to draw; no step was recorded")
        figure = plots.new_figure(13, 8)
        totals, norms, ratios, gradients, weights, dead = figure.subplots(2, 3).flat
        steps = [record.step for record in self.records]

        before = [record.total_norm_before_clipping for record in self.records]
        if any(value is not None for value in before):
            unclipped = [nan if value is None else value for value in before]
            plots.draw_curve(totals, steps, unclipped, color=plots.GUIDE["color"], label="total, before clipping")
        norm = [record.total_norm for record in self.records]
        plots.draw_curve(totals, steps, norm, color=plots.color(6), label="total")
        plots.label(totals, "total gradient norm", "step")

        names = list(dict.fromkeys(name for record in self.records for name in record.gradients))
        for index, name in enumerate(names):
            style = {"color": plots.color(index), "label": name if len(names) <= 12 else None}
            norm = [record.gradients[name].norm if name in record.gradients else nan for record in self.records]
            plots.draw_curve(norms, steps, norm, **style)
            plots.draw_curve(ratios, steps, [record.update_ratios.get(name, nan) for record in self.records], **style)
        ratios.axhline(1e-3, **plots.GUIDE)
        plots.label(norms, "gradient norm of each parameter", "step")
        plots.label(ratios, "step norm / weight norm", "step")
        for axes in (totals, norms, ratios):
            plots.log_scale(axes)

        for axes, title, table in ((gradients, "gradients", "gradients"), (weights, "weights", "weights")):
            edges, densities = densities_over_time([list(getattr(record, table).values()) for record in self.records])
            across = np.array([*steps, steps[-1] + self.every]) - self.every / 2
            mesh = axes.pcolormesh(across, edges, np.log10(np.where(densities > 0, densities, nan)).T, rasterized=True)
            figure.colorbar(mesh, ax=axes, label="log10 of the density")
            plots.label(axes, f"distribution of the {title} over time", "step", "value")
            axes.grid(False)

        for index, name in enumerate(dict.fromkeys(name for record in self.records for name in record.dead_units)):
            shares = [record.dead_units.get(name, nan) for record in self.records]
            plots.draw_curve(dead, steps, shares, color=plots.color(index), linestyle="--", label=f"units of {name}")
        plots.label(dead, "share of dead units", "step")
        dead.set_ylim(-0.02, 1.02)
        for axes in figure.axes[:6]:
            plots.whole_numbers(axes)
        plots.legend_below(figure)
        if path is not None:
            Path(path).write_bytes(plots.render(figure))
        return figure


def densities_over_time(records: Sequence[Sequence[Statistics]], bins: int = 60) -> tuple[Array, Array]:
    """All histograms of each record as one density, on bins that the records share.

    Returns:
        The edges of the bins, ``(bins + 1,)``, and the densities, ``(records, bins)``, each with the integral 1, or all
        zero where a record has no finite value.

    >>> found = [[statistics(np.array([0.0, 1.0]), bins=2)], [statistics(np.array([1.0, 1.0, 3.0]), bins=4)]]
    >>> edges, densities = densities_over_time(found, bins=3)
    >>> edges, densities.sum(axis=1) * np.diff(edges)[0]
    (array([0., 1., 2., 3.]), array([1., 1.]))
    """
    known = [[found for found in record if sum(found.counts)] for record in records]
    ends = [end for record in known for found in record for end in (found.edges[0], found.edges[-1])] or [0.0, 1.0]
    edges = np.linspace(min(ends), max(ends), bins + 1)
    densities = np.zeros((len(records), bins))
    for density, record in zip(densities, known):
        for found in record:
            # Inside a bin the values are taken to be even, so that the sum up to a place is piecewise linear.
            density += np.diff(np.interp(edges, found.edges, [0, *np.cumsum(found.counts)]))
        density /= max(1.0, density.sum()) * (edges[1] - edges[0])
    return edges, densities


def statistics(array: Array, bins: int = 30) -> Statistics:
    """Mean, standard deviation, norm and histogram of an array, in float64.

    >>> found = statistics(np.array([1.0, 2.0, 3.0, np.nan]), bins=2)
    >>> found.counts, found.edges, found.nonfinite
    ([1, 2], [1.0, 2.0, 3.0], 1)
    """
    values = np.abs(array) if array.dtype.kind == "c" else array
    values = values.reshape(-1).astype(np.float64)
    finite = values[np.isfinite(values)]
    counts, edges = np.histogram(finite, bins=bins)
    with np.errstate(invalid="ignore", over="ignore"):
        mean, std = (float(values.mean()), float(values.std())) if values.size else (0.0, 0.0)
        norm = _norm(values)
    return Statistics(mean, std, norm, counts.tolist(), edges.tolist(), values.size - finite.size)


def _norm(array: Array) -> float:
    flat = np.abs(array.reshape(-1)).astype(np.float64)
    return float(np.sqrt(flat @ flat))


def _host(array: Any) -> Array:
    return backend_of(array).to_numpy(array)
