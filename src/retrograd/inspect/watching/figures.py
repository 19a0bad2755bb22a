"""Draw a watched run with Matplotlib (the extra ``plots``)."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import TYPE_CHECKING

import numpy as np

from ...training import plots
from .measures import densities_over_time
from .page import Watched

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAMED = 12  # the most curves in a legend


def render(w: Watched) -> bytes:
    """Return the figure as PNG."""
    return plots.render(figure_of(w))


def figure_of(w: Watched) -> Figure:
    """Draw loss and learning rate, norms, update ratios, activations, and distributions over time."""
    figure = plots.new_figure(15, 11)
    losses, totals, ratios, norms, weights, activations, flat, gradients, values = figure.subplots(3, 3).flat
    records, steps = w.records, [record.step for record in w.records]

    plots.draw_curve(losses, steps, [_known(record.loss) for record in records], color=plots.color(0), label="loss")
    rates = [max(record.rates, default=nan) for record in records]
    plots.label(losses, "loss, and learning rate (right)", "step")
    beside = losses.twinx()
    plots.draw_curve(beside, steps, rates, color=plots.color(1), linestyle="--", label="learning rate")
    beside.set_ylim(bottom=0)
    beside.spines[["top"]].set_visible(False)

    before = [record.total_norm_before_clipping for record in records]
    after = [record.total_norm for record in records]
    plots.draw_curve(totals, steps, before, color=plots.GUIDE["color"], label="total, before clipping")
    plots.draw_curve(totals, steps, after, color=plots.color(6), label="total")
    plots.label(totals, "total gradient norm", "step")

    for index, name in enumerate(w.names):
        style: dict[str, object] = {"color": plots.color(index), "label": name if len(w.names) <= _NAMED else None}
        found = [record.gradients.get(name) for record in records]
        held = [record.weights.get(name) for record in records]
        plots.draw_curve(ratios, steps, [record.update_ratios.get(name, nan) for record in records], **style)
        plots.draw_curve(norms, steps, [nan if x is None else x.rms for x in found], **style)
        plots.draw_curve(weights, steps, [nan if x is None else x.rms for x in held], **style)
    ratios.axhline(1e-3, **plots.GUIDE)
    plots.label(ratios, "step norm / weight norm", "step")
    plots.label(norms, "gradient of each parameter, rms", "step")
    plots.label(weights, "weights of each parameter, rms", "step")

    for index, name in enumerate(dict.fromkeys(name for record in records for name in record.activations)):
        seen = [record.activations.get(name) for record in records]
        plots.draw_curve(activations, steps, [nan if x is None else x.std for x in seen], color=plots.color(index))
        for what, line in (("dead", "--"), ("saturated", "-")):
            shares = [_known(None if x is None else getattr(x, what)) for x in seen]
            if not np.isnan(shares).all():
                plots.draw_curve(flat, steps, shares, color=plots.color(index), linestyle=line, label=f"{what}: {name}")
    plots.label(activations, "activations, standard deviation", "step")
    plots.label(flat, "share of saturated outputs, of dead units", "step")
    flat.set_ylim(-0.02, 1.02)

    for axes in (losses, totals, ratios, norms, weights, activations):
        plots.log_scale(axes)
    for axes, title, table in ((gradients, "gradients", "gradients"), (values, "weights", "weights")):
        edges, densities = densities_over_time([list(getattr(record, table).values()) for record in records])
        mesh = axes.pcolormesh(
            _across(steps), edges, np.log10(np.where(densities > 0, densities, nan)).T, rasterized=True
        )
        figure.colorbar(mesh, ax=axes, label="log10 of the density")
        plots.label(axes, f"distribution of the {title} over time", "step", "value")
        axes.grid(False)
    for axes in figure.axes[:9]:
        plots.whole_numbers(axes)
    plots.legend_below(figure)
    return figure


def _across(steps: Sequence[int]) -> np.ndarray:
    """Return the column edges, half way between steps."""
    at = np.array(steps, dtype=float)
    middle = (at[1:] + at[:-1]) / 2
    first, last = (2 * at[0] - middle[0], 2 * at[-1] - middle[-1]) if len(steps) > 1 else (at[0] - 0.5, at[0] + 0.5)
    return np.array([first, *middle, last])


def _known(value: float | None) -> float:
    return nan if value is None else value
