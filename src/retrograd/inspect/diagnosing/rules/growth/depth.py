"""Rules on gradients and values that grow or shrink from layer to layer, and on a loss that explodes."""

from __future__ import annotations

import linecache
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from .....core.source_location import Site
from .....ops.nn.activations.rectifiers import relu
from ...findings import figure
from ...kinds import CLASS_LOSSES, Case, Found, HasPlace, kind
from ...probes.proof import better, compare
from ...probes.replay import Changes, Edit, Replacement
from ...step_recorder import Array, Call, Source, Step, start_of
from .rates import LARGE, largest_step, moved, rate_place, rate_texts

_LEAST_LAYERS = 4
_VANISHED = 1e-4  # a gradient vanishes if the first layer's is below this share of the last layer's
_EXPLODED = 1e3
_FAR = 20.0  # a loss of more than this many times the loss of guessing is far above it
_RECURRENT = frozenset({"rnn", "lstm", "gru"})  # operators that run over all time steps
_CLIP = "nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
_GROWN = 100.0  # a loss explodes above this multiple of the first losses, and of the loss of guessing if known
_GROWN_MUCH = 1000.0  # the multiple if neither the loss of guessing nor the size of steps confirms an explosion
_LEAST_LOSS = 1.0  # smaller losses are no explosion
_LEAST_LOSSES = 5
_FIRST = 3  # the number of first losses
_REPLACED = 0.5  # a larger step, relative to the size of the parameters, replaces the parameters
_FAR_MOVED = 2.0  # parameters that moved by more than this multiple of their size moved far
_TIMES = 10  # a weight that is read at least this many times per pass belongs to a recurrence
_UNPROVED = "no edit is known that stops it"


def _layers(case: Case, step: Step) -> list[tuple[Call, float, float]]:
    """Return the calls that multiply by a weight, in the order of the forward pass, each with the root mean square of
    the gradient at its output and of the output.

    A step may call a network several times, for terms of the loss of different size. Therefore only the calls below one
    output are returned: the output with the most such calls.
    """
    found: list[tuple[Call, float, float]] = []
    below: set[int] = set()
    for root in step.roots:
        below |= step.below(root.source)
    for call in step.calls:
        if call.index not in below or not call.weighted:
            continue
        g, values = call.record.gradients, call.record.values
        if g is not None and values is not None:
            found.append((call, math.hypot(g.mean, g.std), math.hypot(values.mean, values.std)))
    longest: list[tuple[Call, float, float]] = []
    inner: set[int] = set()
    for end, _, _ in reversed(found):
        if end.index not in inner:
            under = step.below(Source(end.index, 0, None, None))
            inner |= under
            chain = [x for x in found if x[0].index in under]
            longest = chain if len(chain) >= len(longest) else longest
    return longest


def ends_of_layers(case: Case, step: Step) -> tuple[float, float] | None:
    """Return the root mean squares of the gradients of the first and of the last layer."""
    layers = _layers(case, step)
    return (layers[0][1], layers[-1][1]) if layers else None


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
    layers = [x for x in _layers(case, step) if x[1] > 0]  # a gradient of 0 was cut, for example by a state of zeros
    if len(layers) < _LEAST_LAYERS:
        return None
    first, last = layers[0], layers[-1]
    if first[1] > _VANISHED * last[1]:
        return None
    flat = [x for x in (case.step or step).calls if x.name in ("sigmoid", "tanh")]
    replaced: dict[int, Replacement] = {x.index: lambda a, **params: relu(a) for x in flat}
    edit = Edit("with relu", Changes(calls=replaced), one_loss=True) if flat else None
    made = case.edited(case.step or step, flat[0]) if flat else None
    return Found(made or case.edited(step, first[0]), _ends(layers, last[1] / max(first[1], 1e-45)), edit)


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
    fell = math.isfinite(last_loss) and last_loss < 0.5 * start
    healthy = fell and not case.stuck and not _above_guessing(case)
    if healthy and not _spikes(case):
        return _exploding_over_time(case, (case.step,), 100 * _EXPLODED)
    if len(layers) < _LEAST_LAYERS:
        return _exploding_over_time(case, (step, case.step))
    first, last = layers[0], layers[-1]
    far = case.baseline is not None and case.losses[:1] > [_FAR * case.baseline]  # initial outputs are large
    limit = _EXPLODED / 10 if far and not healthy else _EXPLODED
    grown = last[1] > 0 and first[1] > limit * last[1]
    magnified = layers[-1][2] > limit * max(layers[0][2], 1e-12)
    if not grown and not magnified:
        return _exploding_over_time(case, (step, case.step)) or _recurrence_that_clipping_tames(case)
    values = _ends(layers, first[1] / max(last[1], 1e-45))
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
    where = _set_by_program(case, step, layers) or first[0].record
    if clips or curves is not None and better(curves):
        return Found(where, values, scaled, curves)
    clipped = Edit("with clipped gradients", clip=1.0)
    clipped_curves = compare(case.run, case.program, clipped, case.budget)
    ends = math.inf if clipped_curves is None else clipped_curves.fixed[-1]
    if clipped_curves is None or not better(clipped_curves) or not ends < _FAR * (case.baseline or math.inf):
        return Found(where, values, scaled, curves)
    values["fix"] = f"clip after the backward pass: {_CLIP}; and use an initialization that keeps the variance"
    return Found(step.roots[-1].site, values, clipped, clipped_curves)


def _recurrence_that_clipping_tames(case: Case) -> Found | None:
    """Return the finding for a recurrence in the program's own loop, if the loss explodes without clipped gradients."""
    step = case.step
    if step is None or not _is_recurrence(step) or case.main is None or not _spikes(case):
        return None
    clipped = Edit("with clipped gradients", clip=1.0)
    curves = compare(case.run, case.program, clipped, case.budget)
    exploded = curves is not None and (
        not math.isfinite(curves.plain[-1]) or max(curves.plain) > _FAR * curves.plain[0]
    )
    if curves is None or not exploded or not better(curves) or not curves.fixed[-1] < curves.fixed[0]:
        return None
    first, last = case.course()
    what = (
        f"the gradient explodes in the recurrence that the program runs over {_uses(step)} times: the loss goes from "
        f"{first} to {last}."
    )
    return Found(step.roots[-1].site, {}, clipped, curves, message=what, fix=f"clip after the backward pass: {_CLIP}")


def _uses(step: Step) -> int:
    """Return how many times the calls of a step read the leaf that is read most often."""
    uses = Counter([id(x.leaf) for call in step.calls for x in call.inputs if x.leaf is not None])
    return max(uses.values(), default=0)


def _is_recurrence(step: Step) -> bool:
    return _uses(step) >= _TIMES


def _exploding_over_time(case: Case, steps: Sequence[Step | None], limit: float = _EXPLODED) -> Found | None:
    """Return the finding for a recurrent layer (a single operator) whose values or gradients grow over time."""
    for step in [x for x in steps if x is not None]:
        for call in step.passed():
            if call.name not in _RECURRENT or not call.weighted:
                continue
            values, gradients = _over_time(step, call), _at_input(step, call)
            if values is None or not max(values[1] / max(values[0], 1e-12), gradients or 0.0) > limit:
                continue
            what = f"outputs grow from {figure(values[0])} at the first to {figure(values[1])} at the last one"
            if not values[1] > _EXPLODED * values[0]:
                what = f"the gradient at its input is {figure(gradients or 0.0)} times that at its output"
            message = f"values explode over the {call.shape[0]} time steps of {_layer_name(call)}: {what}."
            if gradients is not None and gradients > _EXPLODED and "outputs" in what:
                message = (
                    f"{message[:-1]}, and the gradient at its input is {figure(gradients)} times that at its output."
                )
            edit = Edit("with weights scaled to keep the variance", values=_scaled(case))
            curves = compare(case.run, case.program, edit, case.budget)
            fix = (
                "initialize the recurrent weights so that they keep the size of the state (nn.init.orthogonal_), and "
                f"clip: {_CLIP}"
            )
            return Found(_initialized(case, step, call), {}, edit, curves, message=message, fix=fix)
    return None


def _over_time(step: Step, call: Call) -> tuple[float, float] | None:
    """Return the root mean squares of a recurrent layer's outputs at the first and at the last time step."""
    if not call.outputs or call.outputs[0].ndim != 3 or len(call.outputs[0]) < _LEAST_LAYERS:
        return None
    out = np.asarray(call.outputs[0], np.float64)
    ends = out[:1], out[-1:]
    early, late = reversed(ends) if call.params.get("reverse") else ends
    return math.sqrt(float((early**2).mean())), math.sqrt(float((late**2).mean()))


def _at_input(step: Step, call: Call) -> float | None:
    """Return the gradient's size at the input of a recurrent layer, divided by its size at the output."""
    given = step.producer(call.inputs[0])
    below, above = (None if x is None else x.record.gradients for x in (given, call))
    if below is None or above is None:
        return None
    return math.hypot(below.mean, below.std) / max(math.hypot(above.mean, above.std), 1e-45)


def _set_by_program(case: Case, step: Step, layers: Sequence[tuple[Call, float, float]]) -> HasPlace | None:
    """Return the line that initialized weights again after their creation and before the training.

    Of several such lines, return the one whose values are largest relative to values that preserve the variance."""
    found: list[tuple[float, Site]] = []
    for call, _, _ in layers:
        entry = step.module_of(call)
        made = case.created(entry.module) if entry is not None else None
        for p in [x.leaf for x in call.inputs if x.leaf is not None and x.leaf.array.ndim > 1]:
            site, start = case.run.written.get(start_of(p.array)), case.at_start(p)
            if site is not None and made is not None and (site.file, site.line) != (made.file, made.line):
                size = 0.0 if start is None else float(start.std()) * math.sqrt(start[0].size)
                found.append((size, site))
    return max(found, key=lambda x: x[0])[1] if found else None


def _initialized(case: Case, step: Step, call: Call) -> HasPlace | None:
    """Return the line that last wrote to the recurrent weights before the training, or else that creates the layer."""
    weights = [x.leaf for x in call.inputs if x.leaf is not None and x.leaf.array.ndim == 2]
    for p in reversed(weights):
        site = case.run.written.get(p.array.__array_interface__["data"][0])
        if site is not None:
            return site
    entry = step.module_of(call)
    return (case.created(entry.module) if entry is not None else None) or call.record


def _above_guessing(case: Case) -> bool:
    """Return whether the last recorded known loss, without other terms of the sum, is above the loss of guessing."""
    loss = case.loss_call(case.step) if case.step is not None else None
    values = None if loss is None else loss.record.values
    return case.baseline is not None and values is not None and values.mean > 1.2 * case.baseline


def _scaled(case: Case) -> dict[int, Array]:
    """Return the initial values of all matrices and kernels, rescaled to the deviation of ``kaiming_normal_``."""
    found: dict[int, Array] = {}
    for key, start in ((key, x) for one in case.run.optimizers for key, x in one.start.items()):
        if isinstance(start, np.ndarray) and start.ndim > 1 and (spread := float(start.std())) > 0:
            found[key] = (start * (math.sqrt(2 / start[0].size) / spread)).astype(start.dtype)
    return found


def _spikes(case: Case) -> bool:
    losses = [x for x in case.losses if math.isfinite(x)]
    return len(losses) < len(case.losses) or bool(losses) and max(losses) > 10 * losses[0]


def _ends(layers: Sequence[tuple[Call, float, float]], ratio: float) -> dict[str, object]:
    first, last = layers[0], layers[-1]
    name = _layer_name(first[0])
    repeated = any(_layer_name(call) == name for call, _, _ in layers[1:])
    return {
        "first": figure(first[1]),
        "last": figure(last[1]),
        "first_name": f"{name} in its first call" if repeated else name,
        "last_name": _layer_name(last[0]),
        "ratio": f"{float(figure(ratio)):,.0f}" if 100 <= ratio < 1e6 else figure(ratio),
    }


def _layer_name(call: Call) -> str:
    return call.record.module or next((x.name for x in call.record.inputs if x.name), call.name)


def divergence(case: Case) -> tuple[str, Found] | None:
    """Return the kind and the finding for a loss that ends orders of magnitude above its start or that of guessing.

    This function is called if no rule has found a cause, so that a run with such a loss always has a finding.
    """
    main, step, losses = case.main, case.step, case.losses
    if main is None or len(losses) < _LEAST_LOSSES or not _explodes(case):
        return None
    first, last = case.course()
    values: dict[str, object] = {"course": f"goes from {first} to {last}"}
    number, size = largest_step(main)
    if main.rates and _replaces(case, size) and not _over_cliff(case):
        values |= rate_texts(case, 0.01)
        values["lower"] = f", and step {number} changes parameters by {figure(size)} times their size"
        return "learning-rate-too-high", Found(rate_place(main), values, unproved=_UNPROVED)
    what = f"the loss goes from {first} to {last}"
    if case.baseline is not None:
        what += f", and that of guessing is {figure(case.baseline)}"
    what += ": values grow without bound, from layer to layer or from step to step."
    fix = f"check the size of inputs and initial weights, and clip: {_CLIP}"
    where = step.roots[-1].site if step is not None else case.run.backward_site
    return "exploding-gradient", Found(where, values, message=what, fix=fix, unproved=_UNPROVED)


def _over_cliff(case: Case) -> bool:
    """Return whether the program runs a recurrence in its own loop, and the loss fell before it exploded.

    The loss of a recurrent network has cliffs: a rate is suitable until one gradient is orders of magnitude larger.
    """
    finite = [x for x in case.losses if math.isfinite(x)]
    fell = min(finite, default=math.inf) < 0.9 * case.losses[0]
    return case.step is not None and _is_recurrence(case.step) and fell


def _replaces(case: Case, size: float) -> bool:
    """Return whether steps replace the parameters; ``size`` is that of the largest step relative to the parameters."""
    return size > _REPLACED or size > LARGE and moved(case) > _FAR_MOVED


def _explodes(case: Case) -> bool:
    """Return whether the last losses are far above the first losses, and above that of guessing if it is known."""
    losses, base, main = case.losses, case.baseline, case.main
    last = case.finite_ends()[1]
    if main is None or not last > _LEAST_LOSS:
        return False
    loss = case.loss_call(case.step) if case.step is not None else None
    if base is not None and loss is not None:
        return last > _GROWN * (base if loss.name in CLASS_LOSSES else max(abs(losses[0]), base))
    first = max([abs(x) for x in losses[:_FIRST] if math.isfinite(x)], default=0.0)
    if _replaces(case, largest_step(main)[1]):
        return last > _GROWN * max(abs(losses[0]), _LEAST_LOSS)
    return last > _GROWN_MUCH * max(first, _LEAST_LOSS)
