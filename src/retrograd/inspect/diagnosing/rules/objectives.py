"""Questions on what a loss makes of a training: its sign, its mask, its target and its scale."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from ....core.tensor.tensor import Tensor, new_tensor
from ...record import Record
from ..findings import figure
from ..kinds import BINARY_LOSSES, CLASS_LOSSES, LOSSES, PAIR_LOSSES, Case, Found, is_summed, kind
from ..probes.proof import better, compare
from ..probes.replay import Changes, Edit, same
from ..recording import LOGARITHMS, Array, Call, Root, Source, Step, same_source
from .losses import unsigned_targets
from .modes import place_of
from .policies import minimized_reward
from .qualities import turned_term, wrong_way

_PROBES = np.concatenate([np.linspace(-8, 8, 257), [-1e4, 1e4]])  # of the range of an activation function
_FAR = 1e3  # what is larger at the last probe has no bound
_OUTSIDE = 0.2  # share of targets, or of their variance, that a bounded output cannot reach
_LEAST_TARGETS = 3  # recorded steps


@kind(
    "loss-sign",
    "Does a step make the prediction better?",
    "training goes the wrong way: {what}; the loss went from {first} to {last}.",
    "change the sign of the loss",
    "the loss with the other sign has another minimum",
)
def loss_sign(case: Case) -> Found | None:
    stepping = [x for x in case.run.optimizers if x.steps]
    maximizing = any(group.get("maximize") for x in stepping for group in x.optimizer.param_groups)
    avoided = None if maximizing else minimized_reward(case)
    if avoided is not None:
        where, what, root = avoided
        acting = next((case.run.optimizers[number] for number in root.optimizers), None)
        ends = dict(zip(("first", "last"), case.course(acting), strict=True))
        why = "the rewards of a recorded step do not change with the policy"
        return Found(where, {"what": what, **ends}, unproved=why)
    if not stepping or len(stepping) > 1 and (maximizing or not _is_joint(case, len(stepping))):
        return None  # an adversary may maximize on purpose
    sign = -1.0 if any(group.get("maximize") for group in stepping[0].optimizer.param_groups) else 1.0
    first, last = case.finite_ends()
    step = case.step
    if step is None or not last < first and sign > 0:
        return None
    held = {id(p) for x in stepping for p in x.parameters}
    logs = [call for call in step.passed() if call.name in LOGARITHMS and _is_likelihood(step, call)]
    minimized = bool(logs) and last < 0 and all(_is_minimized(step, call, sign) for call in logs)
    for call in step.passed():
        slope, g = call.cotangent, call.record.gradients
        if slope is None and g is not None and sign * g.maximum <= 0 and _turned(step) is not None:
            slope = g.mean  # of the losses of single examples, each with a negative weight
        what = ""
        if (
            call.name in LOSSES
            and slope is not None
            and sign * slope < 0
            and (_alone(step, call) or _turned(step) is not None and _all_losses(step, -sign))
        ):
            what = f"the slope of the training's objective with respect to {call.name} is {figure(sign * slope)}"
        elif minimized and call in logs:
            what = f"log-likelihoods ({call.name}) are minimized, without a minus sign"
        if what and held & {id(p) for p in step.leaves(step.roots[-1].source)}:
            edit = Edit("with the other sign", Changes(root=lambda loss: -loss)) if sign > 0 else None
            return Found(_sign_line(step, call), _wrong_way(case, what), edit)
    turned = wrong_way(case, step, sign)
    if turned is not None and held & {id(p) for p in step.leaves(step.roots[-1].source)}:
        edit = Edit("with the other sign", Changes(root=lambda loss: -loss)) if sign > 0 else None
        return Found(turned[0], _wrong_way(case, turned[1]), edit)
    return _of_one_term(case, step, sign) or _negative_divergence(case, step) or _unbounded(case, step, first, last)


def _of_one_term(case: Case, step: Step, sign: float) -> Found | None:
    """Return the finding for one term of the loss with the wrong sign."""
    found = turned_term(step, sign) if step.roots else None
    if found is None:
        return None
    term, turning = found
    name = term.name if term.name in LOSSES else f"the penalty on parameters ({term.name} of line {term.record.line})"
    values = _wrong_way(case, f"{name} is a term of the loss with a minus sign, so that steps make it larger")
    primitive: Array = turning.primitive

    def other(*inputs: Array, **params: Array) -> Array:
        return inputs[0] + inputs[1] if turning.name == "sub" else -primitive(*inputs, **params)

    edit = Edit("with the other sign of this term", Changes(calls={turning.index: other}))
    fix = f"change the sign of this term: + in place of -, or without the minus in front of {term.name}"
    return Found(turning.record, values, edit, fix=fix)


def _is_joint(case: Case, count: int) -> bool:
    """Return whether all optimizers step after one backward pass, and so none is an adversary of another."""
    step = case.step
    return step is not None and len(step.roots) == 1 and len(step.roots[0].optimizers) == count


def _wrong_way(case: Case, what: str) -> dict[str, object]:
    first, last = case.course()
    return {"what": what, "first": first, "last": last}


def _is_likelihood(step: Step, call: Call) -> bool:
    """Return whether a call gives logarithms of several probabilities: of what softmax or sigmoid computed."""
    values = call.record.values
    if values is None or values.size < 2 or values.maximum > 1e-6 or call.record.gradients is None:
        return False
    current: Call | None = call
    for _ in range(12):
        if current is None or current.name in ("log_softmax", "logsigmoid", "softmax", "sigmoid"):
            return current is not None
        passes = current.moves or current.name in ("clamp", "add", "sub", "maximum", "minimum")
        if current is not call and not passes:
            return False
        place = next((i for i in range(len(current.inputs)) if current.needs(i)), None)
        current = None if place is None else step.producer(current.inputs[place])
    return False


def _is_minimized(step: Step, call: Call, sign: float) -> bool:
    g = call.record.gradients
    if g is None or _is_entropy(step, call):
        return False
    low, high = sorted((sign * g.minimum, sign * g.maximum))
    return low >= 0 and high > 0


def _negative_divergence(case: Case, step: Step) -> Found | None:
    """Return the finding for squares and exponentials that the loss has with a negative factor, as a divergence of
    Gaussians with the wrong sign."""
    negative: dict[str, Call] = {}
    for call in step.passed():
        g = call.record.gradients
        if call.name in ("pow", "square", "exp") and g is not None and g.maximum < 0 and g.minimum > 1.001 * g.maximum:
            negative.setdefault("exp" if call.name == "exp" else "square", call)
    if len(negative) < 2:
        return None
    what = "the loss has squares and exponentials with a negative factor, and so no bound"
    turned = _turned(step) if _all_losses(step, -1.0) else None
    return Found((turned or negative["exp"]).record, _wrong_way(case, what))


def _unbounded(case: Case, step: Step, first: float, last: float) -> Found | None:
    """Return the finding for a loss that falls without a bound, faster and faster."""
    if not _falls_freely(case, first, last):
        return None
    what = "the loss falls faster and faster, without a bound"
    edit = Edit("with the other sign", Changes(root=lambda loss: -loss))
    root = _turned(step) or step.producer(step.roots[-1].source)
    where = root.record if root is not None else step.roots[-1].site
    return Found(where, _wrong_way(case, what), edit)


def _falls_freely(case: Case, first: float, last: float) -> bool:
    losses = case.losses
    finite = [x for x in losses if math.isfinite(x)]
    if len(finite) < len(losses):  # to minus infinity, and then NaN
        falls = all(a > b for a, b in zip(finite[-4:], finite[-3:], strict=False))
        return len(finite) > 3 and falls and finite[-1] < -20 * max(1.0, abs(finite[0]))
    third = len(losses) // 3
    if third < 5 or not last < min(-1.0, first):
        return False
    a, b, c, d = (float(np.median(losses[i : i + max(2, third // 4)])) for i in (0, third, 2 * third, len(losses) - 3))
    return a > b > c > d and d - c < 1.5 * (c - b) < 0 and d < -20 * max(1.0, abs(a))


def _alone(step: Step, call: Call) -> bool:
    """Return whether a loss is what the backward pass starts from, up to sign, scale and reduction."""
    root = step.roots[-1].source
    index = root.call
    for _ in range(20):
        if index == call.index:
            return True
        if index < 0:
            return False
        current = step.calls[index]
        inputs = [x for place, x in enumerate(current.inputs) if current.needs(place)]
        if len(inputs) != 1:
            return False
        index = inputs[0].call
    return False


def _all_losses(step: Step, sign: float) -> bool:
    """Return whether all losses below the last backward pass have gradients of this sign, and there is one."""
    below = step.below(step.roots[-1].source)
    slopes = [call.cotangent for call in map(step.calls.__getitem__, below) if call.name in LOSSES]
    return bool(slopes) and all(x is not None and sign * x > 0 for x in slopes)


def _turned(step: Step) -> Call | None:
    """Return the call nearest to the backward pass that changes the sign of the whole objective."""
    call = step.producer(step.roots[-1].source)
    while call is not None:
        factor = _factor(call)
        if call.name == "neg" or factor is not None and factor < 0:
            return call
        given = [x for place, x in enumerate(call.inputs) if call.needs(place)]
        call = step.producer(given[0]) if len(given) == 1 else None
    return None


def _is_entropy(step: Step, call: Call) -> bool:
    return any(reader.name == "mul" and all(reader.needs(i) for i in range(2)) for reader in step.following(call))


def _sign_line(step: Step, call: Call) -> Record:
    """Return the record of the negation between a loss and the root, or of the last call."""
    root = step.producer(step.roots[-1].source)
    turned = _turned(step)
    if turned is not None:
        return turned.record
    return call.record if root is None else root.record


@kind(
    "masked-after-loss",
    "Does the mask act on single examples?",
    "{what}",
    "{fix}",
    "the recorded step does not have the losses of single examples",
)
def masked_after_loss(case: Case) -> Found | None:
    found = _masked_infinity(case)
    if found is not None:
        return found
    for step in reversed(case.run.steps):
        for call in step.passed():
            if call.name not in ("mul", "where") or len(call.shapes) < 2:
                continue
            scalars = [i for i in range(len(call.shapes)) if math.prod(call.shapes[i]) == 1 and call.needs(i)]
            masks = [i for i in range(len(call.shapes)) if math.prod(call.shapes[i]) > 1 and not call.needs(i)]
            if len(scalars) != 1 or not masks or not _is_mean(step, call.inputs[scalars[0]]):
                continue
            around = step.module_of(call)
            if around is not None and next(around.module.parameters(), None) is not None:
                continue
            what = (
                f"the loss is already one number, a mean over all examples, when the mask of shape "
                f"{tuple(call.shapes[masks[0]])} multiplies it: masked examples count like all others."
            )
            fix = 'compute the loss with reduction="none", and divide by the mask: (loss * mask).sum() / mask.sum()'
            return Found(call.record, {"what": what, "fix": fix})
    return None


def _masked_infinity(case: Case) -> Found | None:
    """Return the finding for a mask that removes what is not finite from a value, and not from its gradient."""
    for step in case.run.steps:
        below = step.passed()
        if not any(x.gradients is not None and x.gradients.nans for x in step.records):
            continue
        for call in reversed(below):
            if call.name not in ("where", "masked_fill", "mul") or call.record.values is None:
                continue
            given = [x.source for x in call.record.inputs if x.requires_grad]
            bad = [x for x in given if isinstance(x, Record) and x.values is not None and not x.values.finite]
            if bad and call.record.values.finite:
                nans = any(x.values is not None and x.values.nans for x in bad)
                what = (
                    f"{call.name} removes {'NaN' if nans else 'infinite'} elements from the value, and not from the "
                    f"gradient: on the way back 0 times {'NaN' if nans else 'infinity'} is NaN."
                )
                fix = "replace the masked elements in the inputs, before the operator that makes them "
                fix += "NaN" if nans else "infinite"
                why = "the recorded step does not show which inputs are meant"
                return Found(call.record, {"what": what, "fix": fix}, unproved=why)
    return None


def _is_mean(step: Step, source: Source) -> bool:
    call = step.producer(step.origin(source))
    return call is not None and (call.name in LOSSES or call.name in ("mean", "sum")) and bool(call.shapes[0])


@kind(
    "target-mismatch",
    "Can the prediction reach the target?",
    "{what}",
    "{fix}",
    "the right target is not known",
)
def target_mismatch(case: Case) -> Found | None:
    found = _failed_loss(case) or unsigned_targets(case)
    if found is not None:
        return found
    step = case.step
    if step is None:
        return None
    for call in step.passed():
        if call.record.call == "kl_div" and call.name == "mul" and call.record.values is not None:
            found = _not_logarithms(case, step, call, call.inputs[1], "kl_div")
        elif call.name == "nll_loss":
            found = _not_logarithms(case, step, call, call.inputs[0], "nll_loss")
        elif call.name == "cross_entropy" and call.shapes[0][1:2] == (1,):
            text = "cross_entropy of a single class is 0 whatever the model computes."
            found = Found(call.record, {"what": text, "fix": "use binary_cross_entropy_with_logits, or two outputs"})
        elif call.name in PAIR_LOSSES:
            found = _itself(case, step, call) or _out_of_range(case, step, call) or _truncated(case, step, call)
        if found is not None:
            return found
    return None


def _failed_loss(case: Case) -> Found | None:
    error = case.run.error
    if error is None or not case.run.steps:
        return None
    failed = [x for x in case.run.steps[-1].records if x.error is not None]
    text = str(error).lower()
    if not failed or failed[-1].call not in LOSSES or failed[-1].operator == "backward":
        return None
    where = place_of(error) or failed[-1]
    what = f"the target does not fit the prediction: {text.splitlines()[0]}."
    if "of input should be between 0 and 1" in text:
        what = f"the prediction is not a probability: {text.splitlines()[0]}."
        fix = "apply sigmoid to it, or use binary_cross_entropy_with_logits"
        return Found(where, {"what": what, "fix": fix}, unproved="the program ended on this line")
    return Found(where, {"what": what, "fix": "give the target the shape, dtype and range that the loss wants"})


def _not_logarithms(case: Case, step: Step, call: Call, source: Source, loss: str) -> Found | None:
    if not case.has_array(step, source):
        return None
    x = np.asarray(step.array(source))
    if x.dtype.kind != "f" or not x.size or not float(np.nanmax(x)) > 1e-3:
        return None
    origin = step.producer(step.origin(source))
    log = "log_softmax"
    probabilities = origin is not None and origin.name in ("softmax", "sigmoid")
    if probabilities:
        log = "log"

    def fixed(a: Tensor, *rest: Array, **params: Array) -> Array:
        primitive: Array = call.primitive
        return primitive(a.log() if probabilities else a.log_softmax(1), *rest, **params)

    edit = Edit(f"with {log}", Changes(calls={call.index: fixed})) if loss == "nll_loss" else None
    kind_of = "probabilities" if probabilities else "values"
    what = f"{loss} wants log-probabilities, which are at most 0, and gets {kind_of} up to {figure(float(x.max()))}."
    where = case.edited(step, origin) if probabilities and origin is not None else call.record
    return Found(where, {"what": what, "fix": "apply log_softmax to the logits, or use cross_entropy"}, edit)


def _itself(case: Case, step: Step, call: Call) -> Found | None:
    """Return the finding for a loss of a prediction and itself, which is 0 in all recorded steps."""
    if call.record.values is None or call.record.values.maximum != 0 or len(call.inputs) < 2:
        return None
    for one in case.run.steps:
        for other in case.loss_calls(one):
            if other.record.site is call.record.site and (other.record.values is None or other.record.values.maximum):
                return None
    x, y = (step.origin(x) for x in call.inputs[:2])
    if not same_source(x._replace(value=None), y._replace(value=None)) or x.call < 0:
        return None
    cut = call.inputs[1].cut or call.inputs[0].cut
    what = f"{call.name} compares the prediction with itself: the loss is 0 in each step, and so is its gradient."
    where = call.record if cut is None else cut
    return Found(where, {"what": what, "fix": "compare the prediction with the target of the data"})


def _truncated(case: Case, step: Step, call: Call) -> Found | None:
    """Return the finding for targets of a regression that are one integer in all recorded steps."""
    target = case.target(step, call)
    cast = step.producer(call.inputs[1]) if len(call.inputs) > 1 else None
    if target is None or call.name in BINARY_LOSSES or cast is None or cast.name != "cast" or not target.ndim:
        return None
    before = step.array(cast.inputs[0]) if case.has_array(step, cast.inputs[0]) else None
    if getattr(getattr(before, "dtype", None), "kind", "") != "i":
        return None
    seen = [np.unique(x) for x in case.targets(call, target)]
    value = float(target.reshape(-1)[0]) if target.size else math.nan
    if len(seen) < _LEAST_TARGETS or target.size < 2 or not all(x.size == 1 and x[0] == value for x in seen):
        return None
    what = (
        f"the targets of all {len(seen)} recorded steps are {figure(value)}, converted from integers: numbers between "
        "0 and 1 become 0 in an integer dtype."
    )
    fix = "keep the targets in a floating dtype where they are read: dtype=torch.float32 in place of torch.long"
    return Found(call.record, {"what": what, "fix": fix})


def _out_of_range(case: Case, step: Step, call: Call) -> Found | None:
    target = case.target(step, call)
    if target is None or target.dtype.kind != "f" or target.size < 2:
        return None
    low, high = float(np.min(target)), float(np.max(target))
    if call.name.startswith("binary_cross_entropy"):
        if low >= -1e-6 and high <= 1 + 1e-6:
            return None
        scaled = (target - low) / (high - low) if high > low else target
        edit = Edit("with targets from 0 to 1", Changes(inputs={(call.index, 1): scaled.astype(target.dtype)}))
        what = f"{call.name} wants targets from 0 to 1, and gets targets from {figure(low)} to {figure(high)}."
        shifted = f"target - {figure(low)}" if low > 0 else f"target + {figure(-low)}" if low else "target"
        width = figure(high - low)
        fix = shifted if width in ("0", "1") else f"{f'({shifted})' if low else shifted} / {width}"
        return Found(call.record, {"what": what, "fix": f"scale the targets to 0 and 1: {fix}"}, edit)
    before = step.producer(step.origin(call.inputs[0]))
    if before is None or (bounds := _bounds(before)) is None:
        return None
    bottom, top = bounds
    outside = float(((target < bottom - 0.05) | (target > top + 0.05)).mean())
    excess = np.maximum(0, np.maximum(bottom - target, target - top)).astype(np.float64)
    if outside < _OUTSIDE and not float((excess**2).mean()) > _OUTSIDE * float(np.var(target, dtype=np.float64)) > 0:
        return None
    what = (
        f"the output of {before.name} lies between {figure(bottom)} and {figure(top)}, the targets between "
        f"{figure(low)} and {figure(high)}: it cannot reach {outside:.0%} of them."
    )
    fix = f"remove the {before.name} from the output, or scale the targets to its range"
    return Found(
        case.edited(step, before), {"what": what, "fix": fix}, Edit("without it", Changes(calls={before.index: same}))
    )


def _bounds(call: Call) -> tuple[float, float] | None:
    """Return the range of an activation function, as its values at some places show it; None if it has no bound."""
    if call.name == "softmax":
        return 0.0, 1.0
    primitive: Array = call.primitive
    if not call.elementwise or len(call.inputs) != 1 or not call.record.requires_grad:
        return None
    values = np.asarray(primitive(new_tensor(_PROBES), **call.params).array)
    if not np.isfinite(values).all():
        return None
    bottom, top = (float(x) for x in (values.min(), values.max()))
    bounds = (-math.inf if bottom < -_FAR else bottom, math.inf if top > _FAR else top)
    return None if bounds == (-math.inf, math.inf) else bounds


@kind(
    "wrong-reduction-scale",
    "Does the loss have the scale that the rate is for?",
    "{what}",
    "{fix}",
    "the edit changes the loss itself",
)
def wrong_reduction_scale(case: Case) -> Found | None:
    step = case.step
    if step is None or not case.losses:
        return None
    first, last = case.ends()
    trouble = case.stuck or case.rose or not math.isfinite(last) or last > 0.9 * first
    for call in step.passed():
        slope = call.cotangent
        summed = is_summed(call) or call.name == "sum" and call.shape == () and bool(call.shapes[0])
        if not summed or slope is None or abs(slope) != 1.0 or not trouble:
            continue
        count = call.shapes[0][0] if call.shapes[0] else 1
        if count < 8:
            continue
        edit = Edit(f"with the mean over {count} examples", Changes(root=partial(_divided, number=count)))
        curves = compare(case.run, case.program, edit, case.budget)
        proved = curves is not None and better(curves)
        if not proved and not case.rose:
            continue
        why = (
            ""
            if proved
            else "a copy learns the recorded batch by heart with either, while the loss of new batches rose"
        )
        what = (
            f"the loss is a sum over {count} examples, so that its gradient is {count} times that of the mean, and the "
            f"steps are too large: {_course(case)}."
        )
        texts = {"what": what, "fix": 'use reduction="mean", or divide by the batch'}
        return Found(call.record, texts, edit if proved else None, curves if proved else None, why)
    return _unlike_terms(step) or _divided_again(case, step)


def _course(case: Case) -> str:
    """Return how the loss went: from its start to its end, or above its start and that of guessing."""
    if not case.rose or case.stuck:
        return "it went from {} to {}".format(*case.course())
    guessing = figure(case.baseline or 0.0)
    return f"it rose from {figure(case.losses[0])} to {figure(max(case.losses))}, with {guessing} for guessing"


def _divided(loss: Tensor, number: float) -> Tensor:
    return loss / number


def _unlike_terms(step: Step) -> Found | None:
    """Return the finding for a mean over all elements to which a sum over the batch is added."""
    below = step.passed()
    means = [
        x
        for x in below
        if x.name in PAIR_LOSSES and x.params.get("reduction", "mean") == "mean" and math.prod(x.shapes[0]) >= 256
    ]
    for mean in means:
        for call in below:
            if call.name != "sum" or call.shape != () or len(call.shapes[0]) < 2 or call.cotangent is None:
                continue
            if call.shapes[0][0] != mean.shapes[0][0] or mean.cotangent != 1.0 or abs(call.cotangent) < 0.1:
                continue
            count = math.prod(mean.shapes[0])
            what = (
                f"{mean.name} is a mean over {count} elements, and a sum over {math.prod(call.shapes[0])} elements of "
                f"the batch is added to it: the sum weighs {count} times too much."
            )
            fix = (
                'use reduction="sum" here, as the other term has, and divide both by the batch of '
                f"{call.shapes[0][0]} if the steps become too large"
            )
            return Found(mean.record, {"what": what, "fix": fix})
    return None


def _divided_again(case: Case, step: Step) -> Found | None:
    """Return the finding for a mean that is divided once more by the size of the batch or the data."""
    if len(step.roots) != 1:
        return None
    call = step.producer(step.roots[0].source)
    if call is None or call.name != "div" or len(call.inputs) != 2:
        return None
    divisor = call.inputs[1].value
    number = float(np.asarray(divisor).reshape(-1)[0]) if divisor is not None and np.asarray(divisor).size == 1 else 0.0
    before = step.producer(step.origin(call.inputs[0]))
    if number < 8 or before is None or not _reduced(before) or not before.shapes[0]:
        return None  # such as a sum over a mask, divided by its number of elements
    above = case.baseline is not None and case.ends()[1] * number > 0.5 * case.baseline
    if not case.stuck and not above:
        return None
    edit = Edit(f"without / {figure(number)}", Changes(calls={call.index: same}))
    curves = compare(case.run, case.program, edit, case.budget)
    if curves is None or not better(curves):
        return None
    what = f"the loss is a mean, and is divided by {figure(number)} once more: the steps are too small."
    return Found(call.record, {"what": what, "fix": "do not divide the mean again"}, edit, curves)


@kind(
    "accumulation-unscaled",
    "Are accumulated gradients averaged?",
    "{count} backward passes per step add up their gradients, and no loss is divided by {count}: steps are {count} "
    "times as large as for one batch of this size.",
    "divide: (loss / {count}).backward()",
)
def accumulation_unscaled(case: Case) -> Found | None:
    if case.main is None or any(x.overwritten or x.lost for x in case.run.optimizers):
        return None  # no step uses a sum of gradients
    for step in reversed(case.run.steps):
        groups: dict[tuple[str, int, int], list[Root]] = {}
        for root in step.roots:
            if not root.inside:
                groups.setdefault((root.site.file, root.site.line, root.after), []).append(root)
        for group in groups.values():
            if len(group) < 2 or group[-1].site.code.count("backward(") > 1:
                continue
            leaves = [{id(p) for p in step.leaves(root.source)} for root in group]
            if not set.intersection(*leaves):
                continue
            if all(_undivided(step, root, len(group)) for root in group):
                written = Changes(root=partial(_divided, number=1 / len(group)))
                edit = Edit(f"with the loss divided by {len(group)}", written=written)
                return Found(group[-1].site, {"count": len(group)}, edit)
    return None


def _undivided(step: Step, root: Root, count: int) -> bool:
    """Return whether a loss is a mean, or a weighted sum with a mean in it, that is not divided by ``count``."""
    terms: list[Call] = []
    pending = [root.source]
    while pending:
        call = step.producer(step.origin(pending.pop()))
        if call is None or len(terms) + len(pending) > 50:
            return False
        given = [x for place, x in enumerate(call.inputs) if call.needs(place)]
        if call.name in ("add", "sub") or call.name in ("mul", "div", "neg") and len(given) == 1 and not _reduced(call):
            factor = _factor(call)
            if factor is not None and abs(factor * count - 1.0) < 1e-3:
                return False
            pending += given
        else:
            terms.append(call)
    weight = math.fsum(abs(x.cotangent or 0.0) for x in terms) / root.scale
    return any(map(_reduced, terms)) and all(x.shape == () for x in terms) and weight > 1.5 / count


def _factor(call: Call) -> float | None:
    """Return the number that a call multiplies its one trainable input by."""
    constants = [x.value for place, x in enumerate(call.inputs) if not call.needs(place)]
    if call.name not in ("mul", "div") or len(constants) != 1 or np.size(constants[0]) != 1:
        return None
    number = float(np.asarray(constants[0]).reshape(-1)[0])
    return number if call.name == "mul" else 1.0 / number if number else None


def _reduced(call: Call) -> bool:
    """Return whether a call is a mean over examples."""
    if call.name in CLASS_LOSSES:
        return not is_summed(call)
    return call.name == "mean" or call.name in PAIR_LOSSES and call.params.get("reduction", "mean") == "mean"
