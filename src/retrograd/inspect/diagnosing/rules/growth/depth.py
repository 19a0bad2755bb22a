"""Questions on how gradients and values grow or shrink from layer to layer."""

from __future__ import annotations

import linecache
import math

import numpy as np

from .....ops.nn.activations.rectifiers import relu
from ...findings import figure
from ...kinds import Case, Found, kind
from ...probes.proof import better, compare
from ...probes.replay import Changes, Edit, Replacement
from ...recording import Array, Call, Step

_LEAST_LAYERS = 4
_VANISHED = 1e-4  # mean gradient of the first layer, relative to that of the last
_EXPLODED = 1e3
_FAR = 20.0  # times the loss of guessing
_CLIP = "nn.utils.clip_grad_norm_(model.parameters(), 1.0)"


def _layers(case: Case, step: Step) -> list[tuple[Call, float, float]]:
    """Return the calls that multiply by a weight in order of the forward pass, each with the root mean square of the
    gradients of its weight, and of its output."""
    found = []
    below: set[int] = set()
    for root in step.roots:
        below |= step.below(root.source)
    for call in step.calls:
        if call.index not in below or call.weight is None:
            continue
        g, values = call.record.gradients, call.record.values
        if g is not None and values is not None:
            found.append((call, math.hypot(g.mean, g.std), math.hypot(values.mean, values.std)))
    return found


def _depth(layers: list[tuple[Call, float, float]]) -> bool:
    weights = {id(x.leaf) for call, _, _ in layers for x in call.inputs if x.leaf is not None}
    return len(layers) >= _LEAST_LAYERS and len(weights) >= 1


@kind(
    "vanishing-gradient",
    "Does the gradient reach the first layers?",
    "the gradient shrinks on its way back: its root mean square is {last} at the last layer ({last_name}) and {first} "
    "at the first ({first_name}), {ratio} times smaller.",
    "use relu (or gelu) in place of sigmoid and tanh, normalization or residual connections, and an initialization "
    "that keeps the variance",
)
def vanishing_gradient(case: Case) -> Found | None:
    step = case.run.first
    if step is None or not case.stuck or not all(map(math.isfinite, case.losses)):
        return None
    layers = _layers(case, step)
    if not _depth(layers):
        return None
    first, last = layers[0], layers[-1]
    if last[1] <= 0 or first[1] > _VANISHED * last[1]:
        return None
    flat = [x for x in (case.step or step).calls if x.name in ("sigmoid", "tanh")]
    replaced: dict[int, Replacement] = {x.index: lambda a, **params: relu(a) for x in flat}
    edit = Edit("with relu", Changes(calls=replaced), one_loss=True) if flat else None
    made = case.edited(case.step or step, flat[0]) if flat else None
    return Found(made or first[0].record, _ends(first, last, last[1] / max(first[1], 1e-45)), edit)


@kind(
    "exploding-gradient",
    "Do gradients keep their size on their way back?",
    "the gradient grows on its way back: its root mean square is {last} at the last layer ({last_name}) and {first} at "
    "the first ({first_name}), {ratio} times larger{spikes}.",
    "{fix}",
)
def exploding_gradient(case: Case) -> Found | None:
    step = case.run.first
    if step is None:
        return None
    layers = _layers(case, step)
    start, last_loss = case.ends()
    healthy = math.isfinite(last_loss) and last_loss < 0.5 * start and not _above_guessing(case)
    if not _depth(layers) or healthy and not _spikes(case):
        return None
    first, last = layers[0], layers[-1]
    far = case.baseline is not None and case.losses[:1] > [_FAR * case.baseline]  # confident and wrong at the start
    limit = _EXPLODED / 10 if far and not healthy else _EXPLODED
    grown = last[1] > 0 and first[1] > limit * last[1]
    magnified = layers[-1][2] > limit * max(layers[0][2], 1e-12)
    if not grown and not magnified:
        return None
    values = _ends(first, last, first[1] / max(last[1], 1e-45))
    values["spikes"] = ""
    if magnified:
        values["spikes"] = f"; outputs grow from {figure(layers[0][2])} to {figure(last[2])}"
    scaled = Edit("with weights scaled to keep the variance", values=_scaled(case))
    curves = compare(case.run, case.program, scaled, case.budget)
    values["fix"] = f"use an initialization that keeps the variance (nn.init.kaiming_normal_), and clip: {_CLIP}"
    lines = linecache.getlines(step.roots[-1].site.file)
    clips = any("clip_grad" in line.partition("#")[0] for line in lines)
    if clips:
        values["fix"] = "use an initialization that keeps the variance (nn.init.kaiming_normal_)"
    if clips or curves is not None and better(curves):
        return Found(first[0].record, values, scaled, curves)
    clipped = Edit("with clipped gradients", clip=1.0)
    clipped_curves = compare(case.run, case.program, clipped, case.budget)
    ends = math.inf if clipped_curves is None else clipped_curves.fixed[-1]
    if clipped_curves is None or not better(clipped_curves) or not ends < _FAR * (case.baseline or math.inf):
        return Found(first[0].record, values, scaled, curves)
    values["fix"] = f"clip after the backward pass: {_CLIP}; and use an initialization that keeps the variance"
    return Found(step.roots[-1].site, values, clipped, clipped_curves)


def _above_guessing(case: Case) -> bool:
    """Return whether the last recorded loss, without the other terms of a sum, is above that of guessing."""
    loss = case.loss_call(case.step) if case.step is not None else None
    values = None if loss is None else loss.record.values
    return case.baseline is not None and values is not None and values.mean > 1.2 * case.baseline


def _scaled(case: Case) -> dict[int, Array]:
    """Return the first values of all matrices and kernels, scaled as ``kaiming_normal_`` scales them."""
    found: dict[int, Array] = {}
    for key, start in ((key, x) for one in case.run.optimizers for key, x in one.start.items()):
        if isinstance(start, np.ndarray) and start.ndim > 1 and (spread := float(start.std())) > 0:
            found[key] = (start * (math.sqrt(2 / start[0].size) / spread)).astype(start.dtype)
    return found


def _spikes(case: Case) -> bool:
    losses = [x for x in case.losses if math.isfinite(x)]
    return len(losses) < len(case.losses) or bool(losses) and max(losses) > 10 * losses[0]


def _ends(first: tuple[Call, float, float], last: tuple[Call, float, float], ratio: float) -> dict[str, object]:
    return {
        "first": figure(first[1]),
        "last": figure(last[1]),
        "first_name": _layer_name(first[0]),
        "last_name": _layer_name(last[0]),
        "ratio": f"{float(figure(ratio)):,.0f}" if 100 <= ratio < 1e6 else figure(ratio),
    }


def _layer_name(call: Call) -> str:
    return call.record.module or next((x.name for x in call.record.inputs if x.name), call.name)
