"""Rules on the modes of modules: evaluation mode in training, training mode in evaluation, batches of one example."""

from __future__ import annotations

import math
import os

import numpy as np

from ....core.source_location import Site, line_of
from ....core.tensor.tensor import Tensor
from ....ops.nn.normalization.statistics import batch_norm
from ..first_calls import AS_FUNCTION
from ..kinds import Case, Found, Place, kind
from ..probes.replay import Changes, Edit
from ..step_recorder import Call, Opened, Step, numbers, same_source
from .program_text import expression_of

_EQUAL = 1e-5  # results for different examples are equal up to this share of the largest element
_NEAR = 5  # the number of lines before an evaluation in which train() is its cause
_OF_ONE = "one value per channel has no variance"
_TO_EVALUATION = "call model.eval() before the evaluation, and model.train() after it"
_OF_FUNCTION = "pass training=self.training to dropout: without it the function drops elements in evaluation, too"


def _normalizes(entry: Opened) -> bool:
    """Return whether a module is batch normalization with running statistics for evaluation mode."""
    named = any("BatchNorm" in one.__name__ for one in type(entry.module).__mro__)
    return named and bool(getattr(entry.module, "track_running_stats", False))


def _switchable(entry: Opened) -> bool:
    """Return whether a module computes differently in evaluation mode: it has dropout or batch normalization."""
    drops = getattr(entry.module, "dropout", 0)  # recurrent layers and attention have this attribute
    if isinstance(drops, float) and drops > 0:
        return True
    if "Dropout" in type(entry.module).__name__:
        return bool(getattr(entry.module, "p", 0))
    return _normalizes(entry)


def _trained(case: Case, entry: Opened) -> bool:
    """Return whether an optimizer that steps has parameters of a module."""
    own = {id(p) for p in entry.module.parameters()}
    return any(x.steps and any(id(p) in own for p in x.parameters) for x in case.run.optimizers)


def _reaches(case: Case, step: Step, entry: Opened) -> bool:
    """Return whether a backward pass went through the module's call and reached trained parameters of the module.

    For a frozen part that was trained before, evaluation mode is intended.
    """
    outputs = {x.call for x in entry.outputs}
    own = {id(p) for p in entry.module.parameters()}
    held = {id(p) for x in case.run.optimizers if x.steps for p in x.parameters} & own
    roots = [root for root in step.roots if outputs & step.below(root.source)]
    return any(id(p) in held for root in roots for p in step.leaves(root.source))


@kind(
    "eval-mode",
    "Does the model train in training mode?",
    "{model} trains in evaluation mode{since}: {effect}.",
    "call {variable}.train() before the training steps, also after each evaluation",
)
def eval_mode(case: Case) -> Found | None:
    for step in reversed(case.run.steps):
        for entry in [*step.outermost(), *_left_in_evaluation(step)]:
            if entry.training or not entry.grad_enabled or not _reaches(case, step, entry):
                continue
            inside = [x for x in step.modules if entry.start <= x.start and x.end <= entry.end]
            layers = [x for x in inside if not x.training and _switchable(x) and not _is_frozen(step, x)]
            if not layers:
                continue
            seen = case.run.modes.get(id(entry.module), [])
            trained = sum(seen)
            if seen and trained > 0.9 * len(seen):
                continue
            switched = step.switched.get(id(entry.module))
            where = switched[1] if switched is not None and not switched[0] else entry.site
            kinds = dict.fromkeys(type(x.module).__name__ for x in layers)
            since = f" in {len(seen) - trained} of {len(seen)} steps" if trained else ""
            values = {"model": type(entry.module).__name__, "layers": ", ".join(kinds), "since": since}
            normalizing = [call for call in step.passed() if call.name == "batch_norm_given"]
            drops = any(not _normalizes(x) for x in layers)
            effects = ["dropout drops nothing"] * drops
            effects += ["batch normalization uses its stored statistics and updates none"] * any(
                map(_normalizes, layers)
            )
            values |= {"effect": ", and ".join(effects), "count": str(len(layers))}
            values["variable"] = expression_of(step, entry.module) or "model"
            if not normalizing:
                why = "dropout is for examples that the network has not seen; it does not lower the training loss"
                return Found(where, values, unproved=why)
            changes = Changes(calls={call.index: _by_batch for call in normalizing})
            return Found(where, values, Edit("in training mode", changes))
    return None


def _is_frozen(step: Step, entry: Opened) -> bool:
    """Return whether a layer is batch normalization, and no gradient reaches its parameters or its input."""
    return _normalizes(entry) and not any(x.record.requires_grad for x in step.calls[entry.start : entry.end])


def _left_in_evaluation(step: Step) -> list[Opened]:
    """Return the calls of modules in evaluation mode that contain dropout, while the model is in training mode.

    For modules with batch normalization only, evaluation mode is often intended.
    """
    parts = [x for x in step.modules if x.depth > 0 and not x.training and next(x.module.children(), None) is not None]
    around = [x for x in step.outermost() if x.training]
    parts = [x for x in parts if any(y.start <= x.start and x.end <= y.end for y in around)]
    return [
        x
        for x in parts
        if any(
            _switchable(y) and not _normalizes(y) and not y.training and x.start <= y.start and y.end <= x.end
            for y in step.modules
        )
    ]


def _by_batch(x: Tensor, mean: Tensor, var: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Normalize by the statistics of the batch, as batch normalization does in training mode."""
    return batch_norm(x, None, None, weight, bias, True, eps=eps)


@kind(
    "train-mode-in-evaluation",
    "Is the model evaluated in evaluation mode?",
    "{layer} ran {calls} in training mode outside of training steps{effect}.",
    "{fix}",
    "the mode of the evaluation does not change the training loss",
)
def train_mode_in_evaluation(case: Case) -> Found | None:
    steps = max((x.steps for x in case.run.optimizers), default=0)
    several = sum(x.steps > 0 for x in case.run.optimizers) > 1  # a GAN draws samples in training mode
    for found in case.run.evaluations.values():
        if not steps or several or found.periods > 0.5 * steps + 1:
            continue  # the calls are a part of the training steps, for example for pseudo-labels
        if _enters_loss(case, found.site):
            continue
        if found.step == 0 and found.periods == 1 and steps > 1:
            continue  # calls before the training collect statistics or test shapes
        effect = ": its results are random" if found.module.startswith("Dropout") else ""
        effect = (
            effect or ": it normalizes by the statistics of each batch, and its results depend on the other examples"
        )
        values = {"layer": found.module, "calls": "once" if found.calls == 1 else f"{found.calls} times"}
        fix = _OF_FUNCTION if found.module == AS_FUNCTION else _TO_EVALUATION
        undone, site = found.undone, found.site
        if undone is not None and undone.file == site.file and 0 < site.line - undone.line <= _NEAR:
            fix, site = f"remove {undone.code.strip()}: it switches the model back to training mode", undone
        return Found(site, {**values, "effect": effect, "fix": fix})
    return _evaluated_with_gradients(case)


def _enters_loss(case: Case, site: Site) -> bool:
    """Return whether a loss depends on results that a line computes under ``no_grad``, such as a teacher's outputs."""
    for step in case.run.steps:
        used = {i for root in step.roots for i in step.below(root.source, through_cuts=True)}
        calls = [x for x in step.modules if (x.site.file, x.site.line) == (site.file, site.line) and not x.grad_enabled]
        if any(used & set(range(x.start, x.end)) for x in calls):
            return True
    return False


def _evaluated_with_gradients(case: Case) -> Found | None:
    """Return the finding for calls in training mode whose results no backward pass uses."""
    for step in case.run.steps:
        used: set[int] = set()
        for root in step.roots:
            used |= step.below(root.source, through_cuts=True)
        for entry in step.outermost():
            if not entry.training or not entry.grad_enabled or entry.failed is not None or not entry.outputs:
                continue
            if not step.roots or used & set(range(entry.start, entry.end)) or not _trained(case, entry):
                continue
            inside = [x for x in step.modules if entry.start <= x.start and x.end <= entry.end]
            layers = [x for x in inside if x.training and _switchable(x)]
            trains = any(x.module is entry.module and used & set(range(x.start, x.end)) for x in step.outermost())
            if layers and trains and _is_measured(step, entry):
                effect = ", and the result is only measured"
                values = {"layer": type(layers[0].module).__name__, "calls": "once", "effect": effect}
                return Found(entry.site, {**values, "fix": _TO_EVALUATION})
    return None


def _is_measured(step: Step, entry: Opened) -> bool:
    """Return whether a comparison, argmax, max or topk reads the result of a call."""
    pending, seen = [x.call for x in entry.outputs if x.call >= 0], 0
    while pending and seen < 30:
        seen += 1
        for reader in step.readers(pending.pop()):
            if reader.name in ("argmax", "eq", "gt", "max", "topk"):
                return True
            pending.append(reader.index)
    return False


@kind(
    "batch-norm-of-one",
    "Does batch normalization see more than one example?",
    "{layer} normalizes batches of {shape}: {consequence}.",
    "use a larger batch (and drop_last=True for the last one), or GroupNorm",
    "the recorded step has no further examples",
)
def batch_norm_of_one(case: Case) -> Found | None:
    seen, ones, last, where = 0, 0, None, None
    for step in case.run.steps:
        for entry in step.modules:
            if not _normalizes(entry) or not entry.training or not entry.shapes:
                continue
            seen += 1
            shape = entry.shapes[0]
            if shape and shape[0] == 1 and (entry.failed is not None or entry.grad_enabled):
                ones, last = ones + 1, entry
                where = case.run.layer_site(step, entry) or entry.site
    error = case.run.error
    if last is None and error is None:
        return _centered_one(case)
    if last is None or not (last.failed is not None or ones > 0.5 * seen):
        if isinstance(error, ValueError) and "more than 1 value per channel" in str(error):
            return Found(place_of(error), {"layer": "batch normalization", "shape": "one", "consequence": _OF_ONE})
        return None
    consequence = "the statistics of a channel are those of one example"
    if math.prod(last.shapes[0][2:]) == 1:
        ended = ", and the program ended here" if last.failed is not None else ""
        consequence = f"{_OF_ONE}{ended}"
    shape_text = f"shape {tuple(last.shapes[0])}"
    return Found(where, {"layer": type(last.module).__name__, "shape": shape_text, "consequence": consequence})


def _centered_one(case: Case) -> Found | None:
    """Return the finding for normalization written by hand that subtracts the mean of a batch of one example."""
    step = case.step
    if step is None:
        return None
    below: set[int] = set()
    for root in step.roots:
        below |= step.below(root.source)
    for index in sorted(below, reverse=True):
        call = step.calls[index]
        values = call.record.values
        if "norm" in call.name and len(call.shape) > 1 and call.shape[0] > 1 and _is_constant(step, call):
            what = {"layer": call.name, "shape": f"shape {call.shapes[0]}"}
            consequence = "its statistics are those of single numbers, and it gives all examples the same result"
            return Found(case.edited(step, call), {**what, "consequence": consequence})
        if call.name != "sub" or values is None or values.minimum != 0 or values.maximum != 0 or values.size < 2:
            continue
        mean = step.producer(step.origin(call.inputs[1])) if len(call.inputs) == 2 else None
        if mean is None or mean.name != "mean" or mean.params.get("dim") != (0,) or mean.shapes[0][0] != 1:
            continue
        if same_source(mean.inputs[0], call.inputs[0]):
            text = {"layer": "this line", "shape": f"shape {mean.shapes[0]}"}
            return Found(call.record, {**text, "consequence": f"{_OF_ONE}: all results are 0"})
    return None


def _is_constant(step: Step, call: Call) -> bool:
    """Return whether the result of a normalization is the same for all examples, although its input is not."""
    if not call.outputs or not Case.has_array(step, call.inputs[0]):
        return False
    if any(p.leaf is not None and not p.leaf.array.any() for p in call.inputs[1:2]):
        return False  # constant because the scale is 0
    x, y = step.numbers(call.inputs[0]), numbers(call.outputs[0])
    spread = np.abs(y - y[:1]).max() <= _EQUAL * max(1.0, float(np.abs(y).max()))
    return bool(spread) and bool((x != x[:1]).any())


def place_of(error: BaseException) -> Place | None:
    """Return the innermost line of an error's traceback outside of this package."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))) + os.sep
    found, traceback = None, error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        file = code.co_filename
        if not file.startswith((package, "<")) and os.sep + "runpy" not in file:
            found = Place(file, line_of(code, traceback.tb_lasti, traceback.tb_lineno))
        traceback = traceback.tb_next
    return found
