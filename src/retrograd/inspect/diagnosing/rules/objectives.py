"""Rules on the objective of a training: the sign and the scale of the loss."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from ....core.tensor.tensor import Tensor
from ...record import Record
from ..findings import figure
from ..kinds import CLASS_LOSSES, LOSSES, PAIR_LOSSES, Case, Found, HasPlace, is_summed, kind
from ..own_updates import OwnUpdate
from ..probes.proof import better, compare
from ..probes.replay import Changes, Edit, same
from ..step_recorder import LOGARITHMS, Array, Call, Root, Step
from .growth.changed import changed_gradients, changing_line
from .growth.rates import moved
from .signs.adversaries import agreeing_critic
from .signs.pairs import opposite_pairs
from .signs.policies import lowered_spread, minimized_reward, slope_of
from .signs.qualities import is_distance, turned_term, wrong_way

_LITTLE = 0.05  # if parameters move by less than this share of their size, steps are not too large


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
    lowered = avoided or (None if maximizing else lowered_spread(case))
    if lowered is not None:
        where, what, root = lowered
        acting = next((case.run.optimizers[number] for number in root.optimizers), None)
        ends = dict(zip(("first", "last"), case.course(acting), strict=True))
        why = "the rewards of a recorded step do not change with the policy"
        fix = "subtract this term from the loss" if avoided is None else ""
        return Found(where, {"what": what, **ends}, unproved=why, fix=fix)
    agreeing = None if maximizing else agreeing_critic(case)
    if agreeing is not None:
        where, what, root = agreeing
        acting = next((case.run.optimizers[number] for number in root.optimizers), None)
        ends = dict(zip(("first", "last"), case.course(acting), strict=True))
        fix = "give the outputs for generated examples the other sign in the critic's loss"
        return Found(where, {"what": what, **ends}, fix=fix, unproved="a recorded step has one of the two losses only")
    uphill = _uphill(case) or _negated(case)
    if uphill is not None:
        return uphill
    if not stepping or len(stepping) > 1 and (maximizing or not _is_joint(case, len(stepping))):
        return None  # with several optimizers, an adversary may maximize a loss
    sign = -1.0 if any(group.get("maximize") for group in stepping[0].optimizer.param_groups) else 1.0
    opposite = opposite_pairs(case) if sign > 0 else None
    if opposite is not None:
        fix = "exchange the two terms, or use 1 - y in place of the label y"
        why = "which pairs are alike is known from the data alone"
        return Found(opposite[0], _wrong_way(case, opposite[1]), fix=fix, unproved=why)
    first, last = case.finite_ends()
    step = case.step
    if step is None or not last < first and sign > 0:
        return None
    held = {id(p) for x in stepping for p in x.parameters}
    logs = [call for call in step.passed() if _is_likelihood(step, call)]
    minimized = bool(logs) and last < 0 and all(_is_minimized(step, call, sign) for call in logs)
    for call in step.passed():
        slope, g = call.cotangent, call.record.gradients
        if slope is None and g is not None and sign * g.maximum <= 0 and _turned(step) is not None:
            slope = g.mean  # per-example losses, each with a negative weight
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


def _uphill(case: Case) -> Found | None:
    """Return the finding for a program whose own update adds the gradient of a loss instead of subtracting it."""
    main, step = case.main, case.step
    if main is None or step is None or case.run.uphill < 2 or 2 * case.run.uphill < main.steps:
        return None
    held = {id(p) for p in main.parameters}
    for call in step.passed():
        slope = slope_of(call)
        known = call.name in LOSSES or is_distance(step, call)
        if known and slope > 0 and held & {id(p) for p in step.leaves(step.roots[-1].source)}:
            what = f"the program's own update adds a multiple of the gradient of {call.name}, and so makes it larger"
            fix = "subtract the gradient: w -= rate * w.grad"
            why = "the recorded step does not have the update"
            return Found(main.created or main.stepped, _wrong_way(case, what), fix=fix, unproved=why)
    return None


def _negated(case: Case) -> Found | None:
    """Return the finding for gradients whose sign the program changes before the optimizer step."""
    first, main = case.run.first, case.main
    changed = changed_gradients(first) if first is not None else None
    if first is None or main is None or changed is None or changed.factor >= 0 or changed.decay:
        return None
    if any(group.get("maximize") for group in main.optimizer.param_groups):
        return None
    for call in first.passed():
        if (call.name in LOSSES or is_distance(first, call)) and slope_of(call) > 0:
            where = changing_line(first, main.stepped) or main.stepped
            what = (
                f"this line multiplies the gradients by {figure(changed.factor)}, so that steps make {call.name} larger"
            )
            fix = "leave the sign of the gradients: step() subtracts them"
            return Found(where, _wrong_way(case, what), fix=fix, unproved="the recorded step does not have this change")
    return None


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
    """Return whether all optimizers step after the same backward pass, so that none is an adversary of another."""
    step = case.step
    return step is not None and len(step.roots) == 1 and len(step.roots[0].optimizers) == count


def _wrong_way(case: Case, what: str) -> dict[str, object]:
    first, last = case.course()
    return {"what": what, "first": first, "last": last}


def _is_likelihood(step: Step, call: Call) -> bool:
    """Return whether the result of a call is several log-probabilities: logarithms of a softmax or sigmoid, or of
    numbers whose sum is 1."""
    values = call.record.values
    if values is None or values.size < 2 or values.maximum > 1e-6 or call.record.gradients is None:
        return False
    x = call.outputs[0] if call.outputs else None
    if isinstance(x, np.ndarray) and x.ndim and x.shape[-1] > 1 and np.allclose(np.exp(x).sum(-1), 1, atol=1e-4):
        return True
    current: Call | None = call if call.name in LOGARITHMS else None
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
    """Return the finding for a loss with squares and exponentials that have negative factors, such as a divergence
    between Gaussians with the wrong sign."""
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
    """Return the finding for a loss that falls faster and faster, far below 0."""
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
    if len(finite) < len(losses):  # the loss fell to minus infinity, and then became NaN
        falls = all(a > b for a, b in zip(finite[-4:], finite[-3:], strict=False))
        return len(finite) > 3 and falls and finite[-1] < -20 * max(1.0, abs(finite[0]))
    third = len(losses) // 3
    if third < 5 or not last < min(-1.0, first):
        return False
    a, b, c, d = (float(np.median(losses[i : i + max(2, third // 4)])) for i in (0, third, 2 * third, len(losses) - 3))
    return a > b > c > d and d - c < 1.5 * (c - b) < 0 and d < -20 * max(1.0, abs(a))


def _alone(step: Step, call: Call) -> bool:
    """Return whether the backward pass starts from this loss alone, up to sign, scale and reduction."""
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
    """Return whether the last backward pass starts from known losses, and all have gradients of this sign."""
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
    """Return the record of the negation of the objective, or else of the call from which the backward pass starts."""
    root = step.producer(step.roots[-1].source)
    turned = _turned(step)
    if turned is not None:
        return turned.record
    return call.record if root is None else root.record


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
    own = case.main is not None and isinstance(case.main.optimizer, OwnUpdate)  # may divide by the batch size
    trouble = case.stuck or case.rose or not math.isfinite(last) or last > 0.9 * first
    for call in () if own else step.passed():
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
        why = "" if proved else "a copy memorizes the recorded batch with either, while the loss of new batches rose"
        what = (
            f"the loss is a sum over {count} examples, so that its gradient is {count} times that of the mean, and the "
            f"steps are too large: {_course(case)}."
        )
        texts = {"what": what, "fix": 'use reduction="mean", or divide by the batch'}
        where = _created_for_sums(case, step, call) or call.record
        return Found(where, texts, edit if proved else None, curves if proved else None, why)
    return _unlike_terms(step) or _divided_again(case, step)


def _created_for_sums(case: Case, step: Step, call: Call) -> HasPlace | None:
    """Return the line that creates a loss module, if it contains the word "sum"."""
    entry = step.module_of(call)
    made = case.created(entry.module) if entry is not None else None
    return made if made is not None and "sum" in made.code else None


def _course(case: Case) -> str:
    """Return a text on the course of the loss: its first and last values, or how far it rose above guessing."""
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
        return None  # no mean, for example a sum over a mask that is divided by the number of elements
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
        return None  # gradients are zeroed between backward passes, so no step uses a sum
    if moved(case) < _LITTLE and case.losses and all(map(math.isfinite, case.losses)) and not case.rose:
        return None  # the steps are not too large
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
                first, last = case.ends()
                falls = math.isfinite(last) and last < 0.9 * first and not case.rose
                curves = compare(case.run, case.program, edit, case.budget) if falls else None
                if curves is not None and (curves.own or curves.plain)[-1] < 0.9 * curves.fixed[-1]:
                    return None  # the larger steps lower the loss more, so they are no problem
                return Found(group[-1].site, {"count": len(group)}, edit, curves)
    return None


def _undivided(step: Step, root: Root, count: int) -> bool:
    """Return whether a loss is a mean, or a weighted sum that contains a mean, and is not divided by ``count``."""
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
    """Return the constant by which a product or quotient multiplies its other input; None for other calls."""
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
