"""Edits that are tried one after another if no rule has a finding and the loss does not fall.

An edit is reported if a copy of the network learns the recorded batch with the edit and learns nothing without it. The
kind of the finding follows from the edit and from measurements in the step.
"""

from __future__ import annotations

import math

import numpy as np

from .....core.arrays.dtypes import FLOATING
from .....core.tensor.tensor import Tensor
from ....record import Departure
from ...findings import figure, listing
from ...kinds import Case, Found, HasPlace
from ...probes.batches import gain
from ...probes.proof import better, compare
from ...probes.replay import PROOF_STEPS, Changes, Curves, Edit
from ...step_recorder import Array, Step
from ..data import data_origin
from ..dimensions.layouts import first_layer, other_dims, torn_data
from .depth import ends_of_layers

_STAYS = 0.9  # without the edit, the loss must stay above this share of its first value
_FALLS = 0.5  # with the edit, the loss must fall below this share of its first value
_SMALLER, _LARGER = 0.05, 20.0  # ratios of the first to the last layer's gradient between which nothing is wrong
_FAR = 3.0  # a larger mean or standard deviation of inputs is not normalized
_NEAR = 0.05  # a smaller standard deviation of inputs is not normalized


def intervene(case: Case) -> tuple[str, Found] | None:
    """Return a kind and a finding for the first edit with which a stuck training learns its recorded batch."""
    step = case.step
    if step is None or case.program is None or sum(x.steps > 0 for x in case.run.optimizers) != 1:
        return None
    if not case.losses or not all(map(math.isfinite, case.losses)):
        return None
    found = other_dims(case, step)
    if found is not None:
        return "softmax-axis", found
    found = torn_data(case, step)
    if found is not None:
        return "batch-mixing", found
    cut = _cut_before_layers(case, step)
    if cut is not None:
        return "detached", cut
    if case.baseline is None or not case.stuck:
        return None
    return _joined(case, step) or _initialized(case, step) or _normalized(case, step)


def _cut_before_layers(case: Case, step: Step) -> Found | None:
    """Try the step without cuts of values that depend on trained parameters and that further trained layers read.

    A value that reaches the loss without such a layer is a target or a weight, whose cut is intended.
    """
    held = {id(p) for x in case.run.optimizers if x.steps for p in x.parameters}
    cut: set[int] = set()  # calls whose results depend on values that were cut off
    direct: set[int] = set()  # the calls in ``cut`` with no weighted call between the cut and the result
    first: Departure | HasPlace | None = None
    for call in step.calls:
        for x in call.inputs:
            lost = x.cut is not None or call.untracked
            if lost and held & {id(p) for p in step.leaves(x._replace(cut=None))}:
                cut.add(call.index)
                first = first or x.cut or call.record
        if any(x.call in cut for x in call.inputs):
            cut.add(call.index)
        if not call.weighted and call.index in cut:
            opened = any(x.call in direct or x.cut is not None for x in call.inputs) or call.untracked
            direct.update([call.index] if opened else [])
    below = step.below(step.roots[-1].source, through_cuts=True)
    if (
        len(step.roots) > 1
        or step.roots[-1].source.call in direct
        or not any(step.calls[i].weighted for i in cut & below)
    ):
        return None
    edit = Edit("without cuts of the graph", Changes(joined=True), one_loss=True)
    reached = gain(case, edit.changes, "in which gradients pass it", _FALLS)
    how = getattr(first, "how", "no_grad")
    what = f"{how} on this line cuts values off from the trained parameters that they depend on. {reached}"
    fix = f"leave out {how}; for a sample of a distribution, call rsample() in place of sample()"
    return Found(first, {"what": what, "how": how}, edit, message=what, fix=fix) if reached else None


def _learns(case: Case, edit: Edit) -> Curves | None:
    curves = compare(case.run, case.program, edit, case.budget, PROOF_STEPS)
    if curves is None or not curves.plain[-1] > _STAYS * curves.plain[0] > 0 or not better(curves):
        return None
    return curves if curves.fixed[-1] < _FALLS * curves.fixed[0] else None


def _joined(case: Case, step: Step) -> tuple[str, Found] | None:
    """Try the step without its cuts, if the targets are data."""
    cuts = _cuts(case, step)
    if not cuts:
        return None
    edit = Edit("without cuts of the graph", Changes(joined=True), everything=True)
    curves = _learns(case, edit)
    if curves is None:
        return None
    how = cuts[-1].how
    what = (
        f"{how} on this line cuts values off from the parameters that they depend on, and the network learns nothing "
        "of a batch but with their gradient."
    )
    return "detached", Found(cuts[-1], {"what": what, "how": how}, edit, curves, message=what, fix=f"leave out {how}")


def _cuts(case: Case, step: Step) -> list[Departure]:
    """Return the cuts of values that depend on trained parameters, below a loss whose targets are data."""
    loss = case.loss_call(step)
    if loss is None or len(loss.inputs) > 1 and any(True for _ in step.leaves(loss.inputs[1], everything=True)):
        return []
    below = step.below(step.roots[-1].source, through_cuts=True)
    return [
        x.cut
        for i in sorted(below)
        for x in step.calls[i].inputs
        if x.cut is not None and x.cut.requires_grad and step.leaves(x._replace(cut=None))
    ]


def _initialized(case: Case, step: Step) -> tuple[str, Found] | None:
    """Try other initial values of all matrices and kernels."""
    main = case.main
    assert main is not None
    rng = np.random.default_rng(0)
    values: dict[int, Array] = {}
    written: list[tuple[Tensor, HasPlace]] = []
    for p in main.parameters:
        start = main.start.get(id(p))
        if not isinstance(start, np.ndarray) or start.dtype.kind not in FLOATING or not p._requires:
            continue
        site = case.run.written.get(p.array.__array_interface__["data"][0])
        made = {(x.file, x.line) for _, x in case.run.created.values()}
        site = None if site is None or (site.file, site.line) in made else site  # written in the layer's constructor
        written += [(p, site)] if site is not None else []
        if start.ndim > 1:
            drawn: Array = rng.standard_normal(start.shape)
            values[id(p)] = (drawn * math.sqrt(2 / start[0].size)).astype(start.dtype)
        elif site is not None:
            values[id(p)] = np.zeros_like(start) if abs(float(start.mean()) - 1) > 0.5 else start
    edit = Edit("with weights by kaiming_normal_", values=values)
    curves = _learns(case, edit) if written else None
    if curves is None:
        return None
    ends = ends_of_layers(case, case.run.first or step)
    ratio = ends[0] / ends[1] if ends is not None and ends[1] else 1.0
    if _SMALLER <= ratio <= _LARGER:
        return None
    name = "vanishing-gradient" if ratio < _SMALLER else "exploding-gradient"
    names = listing([step.name(p) for p, _ in written])
    what = (
        f"this line gives first values to {names} with which the network learns nothing of a batch: the gradient of "
        f"its first layer is {figure(ratio)} times that of its last one."
    )
    fix = "initialize weights so that the variance is kept (nn.init.kaiming_normal_), and biases with 0"
    written.sort(key=lambda x: x[0].array.ndim > 1)
    return name, Found(written[-1][1], {}, edit, curves, message=what, fix=fix)


def _normalized(case: Case, step: Step) -> tuple[str, Found] | None:
    """Try inputs of mean 0 and standard deviation 1."""
    call = first_layer(step)
    if call is None:
        return None
    x = step.numbers(call.inputs[0])
    mean, std = float(x.mean()), float(x.std())
    if not (abs(mean) > _FAR or std > _FAR or 0 < std < _NEAR) or not math.isfinite(mean + std):
        return None
    axes = tuple(range(x.ndim - 1)) if x.ndim <= 2 else None
    scaled = (x - x.mean(axis=axes, keepdims=True)) / (x.std(axis=axes, keepdims=True) + 1e-8)
    changes = Changes(inputs={(call.index, 0): scaled.astype(call.record.inputs[0].dtype)})
    edit = Edit("with normalized inputs", changes, one_loss=True)
    curves = _learns(case, edit)
    if curves is None:
        return None
    entry = next((one for one in step.outermost() if one.start <= call.index < one.end), None)
    what = (
        f"inputs of the first layer have mean {figure(mean)} and standard deviation {figure(std)}, and the network "
        "learns nothing of a batch but with normalized ones."
    )
    fix = "normalize: x = (x - mean) / std, with the statistics of the training data"
    where = data_origin(case, step, call.inputs[0]) or (entry.site if entry is not None else call.site)
    return "unnormalized-input", Found(where, {}, edit, curves, message=what, fix=fix)
