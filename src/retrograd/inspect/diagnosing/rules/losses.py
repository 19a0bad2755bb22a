"""Questions on the loss: shapes that meet in it, activations before it, its sign, its mask and its scale."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....core.tensor.tensor import Tensor
from ...record import Record
from ..findings import figure
from ..kinds import CLASS_LOSSES, LOSSES, PAIR_LOSSES, Case, Found, kind
from ..probes.proof import better, compare
from ..probes.replay import Changes, Edit, Replacement
from ..recording import SAME_ELEMENTS, Call, Source, Step
from .modes import place_of

_ELEMENTWISE = frozenset({"sub", "mul", "add", "div", "pow", "abs", "square", "maximum", "minimum"})
_LOGS = frozenset({"log", "log_softmax", "logsigmoid", "log1p"})
_BOUNDS = {"sigmoid": (0.0, 1.0), "softmax": (0.0, 1.0), "tanh": (-1.0, 1.0), "relu": (0.0, math.inf)}
_OUTSIDE = 0.2  # share of targets that a bounded output cannot reach


def _same(x: Tensor, *others: Any, **params: Any) -> Tensor:
    return x


def _below(step: Step) -> list[Call]:
    """Return the calls that the backward passes of a step go through, latest first."""
    found: set[int] = set()
    for root in step.roots:
        found |= step.below(root.source)
    return [step.calls[i] for i in sorted(found, reverse=True)]


def _needs(call: Call, place: int) -> bool:
    """Return whether an input of a call depends on parameters."""
    return place < len(call.record.inputs) and call.record.inputs[place].requires_grad


@kind(
    "broadcast-loss",
    "Do the shapes that meet in the loss agree?",
    "{prediction} (the prediction) and {target} (the target) broadcast to {result}: the loss compares each example "
    "with the targets of all others.",
    "give both one shape: {edit}",
)
def broadcast_loss(case: Case) -> Found | None:
    for step in reversed(case.run.steps):
        for call in _below(step):
            found = _broadcast_in_loss(step, call) or _broadcast_between(step, call)
            if found is not None:
                return found
    return None


def _broadcast_in_loss(step: Step, call: Call) -> Found | None:
    """Return the finding for a public loss that expanded its prediction."""
    if call.name not in PAIR_LOSSES or len(call.inputs) < 2:
        return None
    x, y = (step.producer(source) for source in call.inputs[:2])
    prediction, target = (
        one.shapes[0] if one is not None and one.name == "expand" and one.record.call == call.record.call else shape
        for one, shape in ((x, call.shapes[0]), (y, call.shapes[1]))
    )
    if math.prod(call.shapes[0]) <= math.prod(prediction) or math.prod(target) <= 1 or x is None:
        return None
    edit = None
    if math.prod(prediction) == math.prod(target) and y is not None and y.name == "expand":
        calls: dict[int, Replacement] = {x.index: _same, y.index: lambda t, **params: t.reshape(prediction)}
        edit = Edit(f"with target.reshape{prediction}", Changes(calls=calls))
    return _shapes(call, prediction, target, call.shapes[0], edit)


def _broadcast_between(step: Step, call: Call) -> Found | None:
    """Return the finding for arithmetic of a prediction and data of as many elements and another rank."""
    if call.name not in _ELEMENTWISE or len(call.shapes) != 2 or _needs(call, 0) == _needs(call, 1):
        return None
    place = 0 if _needs(call, 0) else 1
    prediction, target = call.shapes[place], call.shapes[1 - place]
    result = np.broadcast_shapes(*call.shapes)
    if math.prod(prediction) != math.prod(target) or math.prod(result) <= math.prod(prediction):
        return None
    if len(prediction) == len(target) or not _is_reduced(step, call):
        return None
    primitive: Any = call.primitive

    def fixed(a: Any, b: Any, **params: Any) -> Any:
        if place == 0:
            return primitive(a, b.reshape(prediction), **params)
        return primitive(a.reshape(prediction), b, **params)

    edit = Edit(f"with target.reshape{prediction}", Changes(calls={call.index: fixed}))
    return _shapes(call, prediction, target, tuple(result), edit)


def _is_reduced(step: Step, call: Call) -> bool:
    """Return whether a result reaches a mean or a sum over all elements through elementwise operators."""
    pending, seen = [call], 0
    while pending and seen < 50:
        seen += 1
        for reader in step.readers(pending.pop().index):
            if reader.name in ("mean", "sum") and math.prod(reader.shape) == 1:
                return True
            if reader.shape == tuple(reader.shapes[0]) or reader.name in ("mean", "sum"):
                pending.append(reader)
    return False


def _shapes(
    call: Call, prediction: tuple[int, ...], target: tuple[int, ...], result: tuple[int, ...], edit: Edit | None
) -> Found:
    text = "target[:, None]" if len(prediction) > len(target) else "prediction.squeeze(-1)"
    if math.prod(prediction) != math.prod(target):
        text = "see which of the two has a dimension too many"
    values = {"prediction": f"shape {prediction}", "target": f"shape {target}", "result": f"shape {result}"}
    return Found(call.record, {**values, "edit": text}, edit)


@kind(
    "double-softmax",
    "Does the loss get logits?",
    "{activation} is applied here, and {loss} applies softmax again: its probabilities stay nearly equal, and so the "
    "gradients small.",
    "remove the {activation}; {loss} wants logits",
)
def double_softmax(case: Case) -> Found | None:
    return _doubled(case, ("cross_entropy", "log_softmax", "softmax"), ("softmax", "sigmoid"))


@kind(
    "double-sigmoid",
    "Does the loss get logits?",
    "{activation} is applied here, and {loss} applies sigmoid again: its probabilities stay between 0.5 and 0.73.",
    "remove the {activation}; {loss} wants logits",
)
def double_sigmoid(case: Case) -> Found | None:
    return _doubled(case, ("binary_cross_entropy_with_logits", "sigmoid", "logsigmoid"), ("sigmoid", "softmax"))


def _doubled(case: Case, losses: tuple[str, ...], activations: tuple[str, ...]) -> Found | None:
    for step in reversed(case.run.steps):
        for call in _below(step):
            if call.name not in losses or not call.inputs:
                continue
            before = step.producer(step.origin(call.inputs[0]))
            wanted = activations if call.name in LOSSES or call.record.call in LOSSES else activations[:1]
            if before is None or before.name not in wanted or call.name == before.name == "softmax" and call.index == 0:
                continue
            loss = call.record.call if call.record.call in LOSSES else call.name
            values = {"activation": before.name, "loss": loss}
            return Found(before.record, values, Edit("without it", Changes(calls={before.index: _same})))
    return None


@kind(
    "softmax-axis",
    "Does softmax run along the right dimension?",
    "{name} runs along dimension {dim} of shape {shape}: {what}",
    "pass dim={right}",
)
def softmax_axis(case: Case) -> Found | None:
    for step in reversed(case.run.steps):
        for call in _below(step):
            found = _not_normalized(case, step, call)
            if found is not None:
                return found
            if call.name not in ("softmax", "log_softmax"):
                continue
            shape, dim = call.shapes[0], call.params.get("dim")
            if dim is None or len(shape) < 2 or isinstance(dim, tuple):
                continue
            dim = dim % len(shape)
            what, right = "", len(shape) - 1
            if dim == 0 and len(shape) == 2 and shape[1] > 1 and _is_batch(case, step, call, shape):
                what = "that is the batch; each column, and not each example, sums to one."
            elif call.name == "log_softmax" and (reduced := _mixture(step, call, dim)) is not None:
                what, right = f"logsumexp sums the mixture along dimension {reduced}.", reduced
            elif dim != len(shape) - 1 and _weighs(step, call):
                what = "the product that follows sums over another one, whose weights do not sum to one."
            if what:
                edit = Edit(f"with dim={right}", Changes(params={call.index: {"dim": right}}))
                values = {"name": call.name, "dim": dim, "shape": str(tuple(shape)), "what": what, "right": right}
                return Found(call.record, values, edit)
    return None


def _not_normalized(case: Case, step: Step, call: Call) -> Found | None:
    """Return the finding for probabilities that a loss or a product takes, and that do not sum to one there."""
    if not call.inputs or not case.has_array(step, call.inputs[0]):
        return None
    if call.name == "nll_loss":
        before = step.producer(step.origin(call.inputs[0], SAME_ELEMENTS | {"log"}))
        axis, what = 1, "nll_loss takes the classes from another one"
    elif call.name in ("bmm", "mm", "matmul"):
        before = step.producer(step.origin(call.inputs[0]))
        axis, what = -1, "the product that follows sums over another one"
        if before is None or before.params.get("dim") not in (0, -len(before.shape)) or not _is_count(case, before):
            return None
    else:
        return None
    if before is None or before.name not in ("softmax", "log_softmax") or len(call.shapes[0]) < 2:
        return None
    x = np.asarray(step.array(call.inputs[0]), dtype=np.float64)
    sums = (np.exp(x) if call.name == "nll_loss" else x).sum(axis=axis)
    if call.name == "nll_loss" and before.name == "softmax" and float(x.max()) > 1e-6:
        return None  # no logarithm: another kind
    if not sums.size or float(np.abs(sums - 1).max()) < 0.02:
        return None
    dim = int(before.params["dim"]) % len(before.shape)
    values = {
        "name": before.name,
        "dim": dim,
        "shape": str(before.shape),
        "what": f"{what}, along which the "
        f"probabilities sum to {figure(float(sums.min()))} to {figure(float(sums.max()))}.",
    }
    right = len(before.shape) - 1
    edit = Edit(f"with dim={right}", Changes(params={before.index: {"dim": right}}))
    return Found(before.record, {**values, "right": right}, edit)


def _is_count(case: Case, call: Call) -> bool:
    """Return whether the first dimension of a result is the number of targets."""
    step = case.step
    loss = case.loss_call(step) if step is not None else None
    target = case.target(step, loss) if step is not None and loss is not None else None
    return target is not None and target.shape[:1] == call.shape[:1]


def _is_batch(case: Case, step: Step, call: Call, shape: tuple[int, ...]) -> bool:
    """Return whether the first dimension is that of the batch: of the data that the model gets, or of the target."""
    if shape[0] == shape[1]:
        return False  # such as similarities of all pairs
    sizes = {x.shapes[0][0] for x in step.outermost() if x.shapes and x.shapes[0]}
    if shape[0] not in sizes:
        return False
    for reader in _following(step, call):
        if reader.name in LOSSES:
            return True
        if reader.name in ("mul", "sub", "add", "xlogy") and len(reader.inputs) == 2:
            return True
        if reader.name in ("logsumexp",):
            return True
    return False


def _following(step: Step, call: Call) -> list[Call]:
    """Return the calls that read a value, also through operators that move elements, logarithms and clamps."""
    found, pending = [], [call]
    while pending:
        for reader in step.readers(pending.pop().index):
            if reader.name in SAME_ELEMENTS or reader.name in _LOGS or reader.name in ("clamp", "exp"):
                pending.append(reader)
            found.append(reader)
    return found


def _mixture(step: Step, call: Call, dim: int) -> int | None:
    """Return the dimension along which logsumexp sums log-weights that were normalized along another one."""
    for added in step.readers(call.index):
        if added.name == "add" and added.shape == call.shape:
            for reader in step.readers(added.index):
                over = reader.params.get("dim")
                over = over[0] if isinstance(over, tuple) and len(over) == 1 else over
                if reader.name == "logsumexp" and isinstance(over, int) and over % len(call.shape) != dim:
                    return over % len(call.shape)
    return None


def _weighs(step: Step, call: Call) -> bool:
    """Return whether softmax of a product of two activations weighs the rows of another: attention."""
    scores = step.producer(step.origin(call.inputs[0], SAME_ELEMENTS | {"div", "mul", "add", "masked_fill", "where"}))
    if scores is None or scores.name not in ("mm", "bmm", "matmul", "baddbmm", "einsum"):
        return False
    if not all(_needs(scores, place) for place in range(2)):
        return False
    pending = [call]
    while pending:
        for reader in step.readers(pending.pop().index):
            if reader.name in ("mm", "bmm", "matmul") and reader.inputs[0].call >= 0:
                left = step.producer(reader.inputs[0])
                if left is not None and left.name in ("softmax", "dropout", "view", "reshape", "expand"):
                    return True
            elif reader.name in ("dropout", "view", "reshape", "expand"):
                pending.append(reader)
    return False


@kind(
    "loss-sign",
    "Does a step make the prediction better?",
    "training maximizes the error: {what}; the loss went from {first} to {last}.",
    "change the sign of the loss",
)
def loss_sign(case: Case) -> Found | None:
    stepping = [x for x in case.run.optimizers if x.steps]
    if len(stepping) != 1:
        return None  # an adversary may maximize on purpose
    sign = -1.0 if any(group.get("maximize") for group in stepping[0].optimizer.param_groups) else 1.0
    first, last = case.ends()
    step = case.step
    if step is None or not last < first and sign > 0:
        return None
    held = {id(p) for p in stepping[0].parameters}
    logs = [call for call in _below(step) if call.name in _LOGS and _is_likelihood(call)]
    minimized = bool(logs) and last < 0 and all(_is_minimized(step, call, sign) for call in logs)
    for call in _below(step):
        slope = call.cotangent
        what = ""
        if call.name in LOSSES and slope is not None and sign * slope < 0 and _alone(step, call):
            what = f"the slope of the training's objective with respect to {call.name} is {figure(sign * slope)}"
        elif minimized and call in logs:
            what = f"log-likelihoods ({call.name}) are minimized, without a minus sign"
        if what and held & {id(p) for p in step.leaves(step.roots[-1].source)}:
            edit = Edit("with the other sign", Changes(root=lambda loss: -loss)) if sign > 0 else None
            values = {"what": what, "first": figure(first), "last": figure(last)}
            return Found(_sign_line(step, call), values, edit)
    return _unbounded(case, step, first, last)


def _is_likelihood(call: Call) -> bool:
    """Return whether a call gives logarithms of several probabilities, as far as its values tell."""
    values = call.record.values
    return values is not None and values.size > 1 and values.maximum <= 1e-6 and call.record.gradients is not None


def _is_minimized(step: Step, call: Call, sign: float) -> bool:
    g = call.record.gradients
    if g is None or _is_entropy(step, call):
        return False
    low, high = sorted((sign * g.minimum, sign * g.maximum))
    return low >= 0 and high > 0


def _unbounded(case: Case, step: Step, first: float, last: float) -> Found | None:
    """Return the finding for a loss that falls without a bound, faster and faster."""
    losses = case.losses
    third = len(losses) // 3
    if third < 5 or not last < min(-1.0, first) or not all(map(math.isfinite, losses)):
        return None
    a, b, c, d = (float(np.median(losses[i : i + max(2, third // 4)])) for i in (0, third, 2 * third, len(losses) - 3))
    if not (a > b > c > d and d - c < 1.5 * (c - b) < 0 and d < -20 * max(1.0, abs(a))):
        return None
    what = "the loss falls faster and faster, without a bound"
    edit = Edit("with the other sign", Changes(root=lambda loss: -loss))
    root = step.producer(step.roots[-1].source)
    where = root.record if root is not None else step.roots[-1].site
    return Found(where, {"what": what, "first": figure(first), "last": figure(last)}, edit)


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
        inputs = [x for place, x in enumerate(current.inputs) if _needs(current, place)]
        if len(inputs) != 1:
            return False
        index = inputs[0].call
    return False


def _is_entropy(step: Step, call: Call) -> bool:
    return any(reader.name == "mul" and all(_needs(reader, i) for i in range(2)) for reader in _following(step, call))


def _sign_line(step: Step, call: Call) -> Any:
    """Return the record of the negation between a loss and the root, or of the last call."""
    root = step.producer(step.roots[-1].source)
    index = step.roots[-1].source.call
    while index > call.index:
        current = step.calls[index]
        if current.name == "neg" or current.name == "mul" and current.record.requires_grad:
            return current.record
        inputs = [x for place, x in enumerate(current.inputs) if _needs(current, place)]
        index = inputs[0].call if inputs else -1
    return call.record if root is None else root.record


@kind(
    "masked-after-loss",
    "Does the mask act on single examples?",
    "{what}",
    "{fix}",
)
def masked_after_loss(case: Case) -> Found | None:
    found = _masked_infinity(case)
    if found is not None:
        return found
    for step in reversed(case.run.steps):
        for call in _below(step):
            if call.name not in ("mul", "where") or len(call.shapes) < 2:
                continue
            scalars = [i for i in range(len(call.shapes)) if math.prod(call.shapes[i]) == 1 and _needs(call, i)]
            masks = [i for i in range(len(call.shapes)) if math.prod(call.shapes[i]) > 1 and not _needs(call, i)]
            if len(scalars) != 1 or not masks or not _is_mean(step, call.inputs[scalars[0]]):
                continue
            if step.module_of(call) is not None:
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
        below = _below(step)
        if not any(x.gradients is not None and x.gradients.nans for x in step.records):
            continue
        for call in reversed(below):
            if call.name not in ("where", "masked_fill", "mul") or call.record.values is None:
                continue
            given = [x.source for x in call.record.inputs if x.requires_grad]
            bad = [x for x in given if isinstance(x, Record) and x.values is not None and not x.values.finite]
            if bad and call.record.values.finite:
                what = (
                    f"{call.name} removes NaN or infinite elements from the value, and not from the gradient: 0 times "
                    "infinity is NaN on the way back."
                )
                fix = "replace the masked elements in the inputs, before the operator that makes them infinite"
                return Found(call.record, {"what": what, "fix": fix})
    return None


def _is_mean(step: Step, source: Source) -> bool:
    call = step.producer(step.origin(source))
    return call is not None and (call.name in LOSSES or call.name in ("mean", "sum")) and bool(call.shapes[0])


@kind(
    "target-mismatch",
    "Can the prediction reach the target?",
    "{what}",
    "{fix}",
)
def target_mismatch(case: Case) -> Found | None:
    found = _failed_loss(case)
    if found is not None:
        return found
    step = case.step
    if step is None:
        return None
    for call in _below(step):
        if call.record.call == "kl_div" and call.name == "mul" and call.record.values is not None:
            found = _not_logarithms(case, step, call, call.inputs[1], "kl_div")
        elif call.name == "nll_loss":
            found = _not_logarithms(case, step, call, call.inputs[0], "nll_loss")
        elif call.name == "cross_entropy" and call.shapes[0][1:2] == (1,):
            text = "cross_entropy of a single class is 0 whatever the model computes."
            found = Found(call.record, {"what": text, "fix": "use binary_cross_entropy_with_logits, or two outputs"})
        elif call.name in PAIR_LOSSES:
            found = _out_of_range(case, step, call)
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

    def fixed(a: Tensor, *rest: Any, **params: Any) -> Any:
        primitive: Any = call.primitive
        return primitive(a.log() if probabilities else a.log_softmax(1), *rest, **params)

    edit = Edit(f"with {log}", Changes(calls={call.index: fixed})) if loss == "nll_loss" else None
    kind_of = "probabilities" if probabilities else "values"
    what = f"{loss} wants log-probabilities, which are at most 0, and gets {kind_of} up to {figure(float(x.max()))}."
    where = origin.record if probabilities and origin is not None else call.record
    return Found(where, {"what": what, "fix": "apply log_softmax to the logits, or use cross_entropy"}, edit)


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
        return Found(call.record, {"what": what, "fix": "scale the targets to 0 and 1"}, edit)
    before = step.producer(step.origin(call.inputs[0]))
    if before is None or before.name not in _BOUNDS:
        return None
    bottom, top = _BOUNDS[before.name]
    outside = float(((target < bottom - 0.05) | (target > top + 0.05)).mean())
    if outside < _OUTSIDE:
        return None
    what = (
        f"the output of {before.name} lies between {figure(bottom)} and {figure(top)}, the targets between "
        f"{figure(low)} and {figure(high)}: it cannot reach {outside:.0%} of them."
    )
    fix = f"remove the {before.name} from the output, or scale the targets to its range"
    return Found(before.record, {"what": what, "fix": fix}, Edit("without it", Changes(calls={before.index: _same})))


@kind(
    "wrong-reduction-scale",
    "Does the loss have the scale that the rate is for?",
    "{what}",
    "{fix}",
)
def wrong_reduction_scale(case: Case) -> Found | None:
    step = case.step
    if step is None or not case.losses:
        return None
    first, last = case.ends()
    trouble = case.stuck or not math.isfinite(last) or last > 0.9 * first
    for call in _below(step):
        slope = call.cotangent
        summed = call.params.get("reduction") == "sum" or (
            call.name in CLASS_LOSSES and isinstance(call.params["classes"].divisor, int)
        )
        summed = summed or call.name == "sum" and call.shape == () and bool(call.shapes[0])
        if not summed or slope != 1.0 or not trouble:
            continue
        count = call.shapes[0][0] if call.shapes[0] else 1
        if count < 8:
            continue
        edit = Edit(f"with the mean over {count} examples", Changes(root=lambda loss, n=count: loss / n))  # type: ignore[misc]
        curves = compare(case.run, case.program, edit)
        if curves is None or not better(curves):
            continue
        what = (
            f"the loss is a sum over {count} examples, so that its gradient is {count} times that of the mean, and the "
            f"steps are too large: it went from {figure(first)} to {figure(last)}."
        )
        return Found(call.record, {"what": what, "fix": 'use reduction="mean", or divide by the batch'}, edit, curves)
    return _unlike_terms(step) or _divided_again(case, step)


def _unlike_terms(step: Step) -> Found | None:
    """Return the finding for a mean over all elements to which a sum over the batch is added."""
    below = _below(step)
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
            fix = 'give both terms one reduction: reduction="sum" here, or the mean over the batch for the other'
            return Found(mean.record, {"what": what, "fix": fix})
    return None


def _divided_again(case: Case, step: Step) -> Found | None:
    """Return the finding for a mean that is divided once more by the size of the batch or the data."""
    if not case.stuck or len(step.roots) != 1:
        return None
    call = step.producer(step.roots[0].source)
    if call is None or call.name != "div" or len(call.inputs) != 2:
        return None
    divisor = call.inputs[1].value
    number = float(np.asarray(divisor).reshape(-1)[0]) if divisor is not None and np.asarray(divisor).size == 1 else 0.0
    if number < 8 or not _is_mean(step, call.inputs[0]):
        return None
    edit = Edit(f"without / {figure(number)}", Changes(calls={call.index: _same}))
    curves = compare(case.run, case.program, edit)
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
    for step in reversed(case.run.steps):
        groups: dict[tuple[str, int, int], list[Any]] = {}
        for root in step.roots:
            if not root.inside:
                groups.setdefault((root.site.file, root.site.line, root.after), []).append(root)
        for group in groups.values():
            if len(group) < 2:
                continue
            leaves = [{id(p) for p in step.leaves(root.source)} for root in group]
            if not set.intersection(*leaves):
                continue
            heads = [step.producer(step.origin(root.source)) for root in group]
            if all(_averages(call, root.scale) for call, root in zip(heads, group, strict=True)):
                return Found(group[-1].site, {"count": len(group)})
    return None


def _averages(call: Call | None, scale: float) -> bool:
    """Return whether a loss is a mean that is not divided any further."""
    if call is None or scale != 1.0 or call.cotangent != 1.0:
        return False
    if call.name in CLASS_LOSSES:
        return not isinstance(call.params["classes"].divisor, int)
    return call.name == "mean" or call.name in PAIR_LOSSES and call.params.get("reduction", "mean") == "mean"
