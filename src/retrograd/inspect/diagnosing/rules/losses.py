"""Rules on the inputs of a loss: shapes of prediction and target, and softmax and sigmoid before the loss."""

from __future__ import annotations

import math
import re

import numpy as np

from ....core.tensor.tensor import Tensor
from ....ops.math.exponential import sigmoid
from ....ops.nn.activations.smooth import logsigmoid
from ..findings import figure
from ..kinds import LOSSES, PAIR_LOSSES, Case, Found, kind
from ..probes.replay import Changes, Edit, Replacement, same
from ..step_recorder import LOGARITHMS, Array, Call, Step, same_source

_ARITHMETIC = frozenset({"add", "sub", "mul", "neg", "pow", "square", "clamp", "where", "maximum", "minimum"})
_WRITTEN = frozenset({"div", "exp", "mul", "normalize"})  # the last operators of a softmax written by hand
# Losses whose targets are 1 and -1.
_SIGNED = frozenset({"cosine_embedding_loss", "hinge_embedding_loss", "margin_ranking_loss", "soft_margin_loss"})


@kind(
    "broadcast-loss",
    "Do the shapes that meet in the loss agree?",
    "{prediction} (the prediction) and {target} (the target) broadcast to {result}: the loss compares each example "
    "with the targets of all others.",
    "give both one shape: {edit}",
)
def broadcast_loss(case: Case) -> Found | None:
    for step in reversed(case.run.steps):
        for call in step.passed():
            found = _broadcast_in_loss(step, call) or _broadcast_between(step, call)
            if found is not None:
                return found
    return None


def _broadcast_in_loss(step: Step, call: Call) -> Found | None:
    """Return the finding for a known loss that broadcast its prediction."""
    if call.name not in PAIR_LOSSES or len(call.inputs) < 2:
        return None
    x, y = (step.producer(source) for source in call.inputs[:2])
    prediction, target = (
        one.shapes[0] if one is not None and one.name == "expand" and one.record.call == call.record.call else shape
        for one, shape in ((x, call.shapes[0]), (y, call.shapes[1]))
    )
    if _is_of_one(step, call, prediction, target):
        return _shapes(call, prediction, target, call.shapes[0], None)
    if math.prod(call.shapes[0]) <= math.prod(prediction) or math.prod(target) <= 1 or x is None:
        return None
    edit = None
    if math.prod(prediction) == math.prod(target) and y is not None and y.name == "expand":
        calls: dict[int, Replacement] = {x.index: same, y.index: lambda t, **params: t.reshape(prediction)}
        edit = Edit(f"with target.reshape{prediction}", Changes(calls=calls))
    return _shapes(call, prediction, target, call.shapes[0], edit)


def _is_of_one(step: Step, call: Call, prediction: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Return whether the target of a single example is broadcast to the predictions for the whole batch."""
    if not prediction or prediction[0] < 2 or target[:1] != (1,) or len(target) != len(prediction):
        return False
    source = call.inputs[1]
    while (current := step.producer(source)) is not None and current.moves and current.inputs:
        given = current.shapes[0]
        if current.name in ("getitem", "select") and given[:1] == prediction[:1] and current.shape[:1] != given[:1]:
            return not current.needs(0)
        source = current.inputs[0]
    return False


def _broadcast_between(step: Step, call: Call) -> Found | None:
    """Return the finding for arithmetic that broadcasts a prediction and data with the same number of elements."""
    if not call.elementwise or len(call.shapes) != 2 or call.needs(0) == call.needs(1):
        return None
    place = 0 if call.needs(0) else 1
    prediction, target = call.shapes[place], call.shapes[1 - place]
    result = np.broadcast_shapes(*call.shapes)
    if math.prod(prediction) != math.prod(target) or math.prod(result) <= math.prod(prediction):
        return None
    outer = len(prediction) == len(target) and call.name == "sub" and _is_squared(step, call)
    if len(prediction) == len(target) and not outer or not _is_reduced(step, call):
        return None
    primitive: Array = call.primitive

    def fixed(a: Array, b: Array, **params: Array) -> Array:
        if place == 0:
            return primitive(a, b.reshape(prediction), **params)
        return primitive(a.reshape(prediction), b, **params)

    edit = Edit(f"with target.reshape{prediction}", Changes(calls={call.index: fixed}))
    return _shapes(call, prediction, target, tuple(result), edit)


def _is_squared(step: Step, call: Call) -> bool:
    """Return whether only the mean or sum of squares is computed from a difference."""
    readers = list(step.readers(call.index))
    if readers and all(x.name in ("square", "pow") or x.name == "mul" and len(set(x.inputs)) == 1 for x in readers):
        return all(y.name in ("mean", "sum") for x in readers for y in step.readers(x.index))
    return False


def _is_reduced(step: Step, call: Call) -> bool:
    """Return whether a mean or a sum over all elements reads a result, possibly through elementwise operators."""
    pending, seen = [call], 0
    while pending and seen < 50:
        seen += 1
        for reader in step.readers(pending.pop().index):
            if reader.name in ("mean", "sum") and math.prod(reader.shape) == 1:
                return True
            if reader.shape in reader.shapes or reader.name in ("mean", "sum"):
                pending.append(reader)
    return False


def _shapes(
    call: Call, prediction: tuple[int, ...], target: tuple[int, ...], result: tuple[int, ...], edit: Edit | None
) -> Found:
    text = "see which of the two has a dimension too many"
    if math.prod(prediction) == math.prod(target):
        longer = prediction if len(prediction) > len(target) else target
        of_column = longer[-1:] == (1,) and longer[:-1] == min(prediction, target, key=len)
        text = f"target.reshape{prediction}"
        if of_column:
            text = "target.unsqueeze(-1)" if longer is prediction else "target.squeeze(-1)"
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
        for call in step.passed():
            if activations[0] == "softmax" and (again := _normalized_again(step, call)) is not None:
                edit: Edit | None = Edit("without it", Changes(calls={again.index: same}), one_loss=True)
                made = re.search(r"(\w+)\([^()]*\blogits\s*=", call.site.code)
                loss = "x - logsumexp(x)" if made is None else f"{made[1]}(logits=...)"
                return Found(case.edited(step, again), {"activation": again.name, "loss": loss}, edit)
            if call.name not in losses or not call.inputs:
                continue
            before = step.producer(step.origin(call.inputs[0], ("clamp",) if call.needs(0) else ()))
            written = _written_out(case, step, call, before, activations[0])
            if written:
                loss = call.record.call if call.record.call in LOSSES else call.name
                edit = Edit("without it", Changes(calls={before.index: same}), one_loss=True) if before else None
                return Found(case.edited(step, before), {"activation": written, "loss": loss}, edit)
            wanted = activations if call.name in LOSSES or call.record.call in LOSSES else activations[:1]
            if before is None or before.name not in wanted or call.name == before.name == "softmax" and call.index == 0:
                continue
            if call.name == before.name and not _reaches_loss(step, call):
                continue  # two softmaxes within a network, as in attention, and not before the loss
            loss = call.record.call if call.record.call in LOSSES else call.name
            loss = f"line {call.record.line}" if loss == before.name else loss
            values = {"activation": before.name, "loss": loss}
            edit = Edit("without it", Changes(calls=dict.fromkeys(_clamps(step, call, before), same)), one_loss=True)
            return Found(case.edited(step, before), values, edit)
    return None


def _clamps(step: Step, call: Call, before: Call) -> list[int]:
    """Return the indices of an activation's call and of the clamps between the activation and a loss."""
    found = [before.index]
    current = step.producer(call.inputs[0])
    while current is not None and current is not before:
        found += [current.index] if current.name == "clamp" else []
        current = step.producer(current.inputs[0])
    return found


def _normalized_again(step: Step, call: Call) -> Call | None:
    """Return the softmax whose probabilities a call normalizes as if they were logits: x - logsumexp(x).

    Distributions normalize their logits in this way.
    """
    total = step.producer(call.inputs[1]) if call.name == "sub" and len(call.inputs) == 2 else None
    if total is None or total.name != "logsumexp" or not same_source(call.inputs[0], total.inputs[0]):
        return None
    before = step.producer(step.origin(call.inputs[0]))
    return before if before is not None and before.name == "softmax" and call.needs(0) else None


def _reaches_loss(step: Step, call: Call) -> bool:
    """Return whether a loss reads a result: a known loss, a logarithm, or arithmetic with the targets.

    Arithmetic counts only outside of modules with parameters, since a network may apply an activation twice.
    """
    if any(x.name in (*LOSSES, *LOGARITHMS) for x in step.following(call)):
        return True
    around = step.module_of(call)
    if around is not None and next(around.module.parameters(), None) is not None:
        return False
    pending, seen = [call], {call.index}
    while pending:
        for reader in step.readers(pending.pop().index):
            if reader.name in (*LOSSES, *LOGARITHMS):
                return True
            others = [shape for i, shape in enumerate(reader.shapes) if not reader.needs(i)]
            if reader.name in ("mul", "sub") and reader.shape in others and math.prod(reader.shape) > 1:
                return True
            if reader.index not in seen and (reader.moves or reader.name in _ARITHMETIC):
                seen.add(reader.index)
                pending.append(reader)
    return False


def _written_out(case: Case, step: Step, call: Call, before: Call | None, activation: str) -> str:
    """Return the name of an activation written out with other operators, if a loss that applies it reads its result."""
    if before is None or before.name in ("softmax", "sigmoid", "log_softmax") or not call.needs(0):
        return ""
    if activation == "sigmoid":
        if call.name != "binary_cross_entropy_with_logits" or before.name not in ("div", "reciprocal"):
            return ""
        below = step.producer(before.inputs[-1])
        parts = [step.producer(x) for x in below.inputs] if below is not None and below.name == "add" else []
        return "sigmoid (written with exp)" if any(x is not None and x.name == "exp" for x in parts) else ""
    whole = call.name == "cross_entropy" or call.name == "log_softmax" and before.name in _WRITTEN
    if not whole or len(call.shapes[0]) < 2 or not case.has_array(step, call.inputs[0]):
        return ""
    x = np.asarray(step.array(call.inputs[0]), dtype=np.float64)
    is_distribution = x.size > 0 and float(x.min()) >= 0 and bool((np.abs(x.sum(axis=1) - 1) < 1e-3).all())
    return f"softmax (written with {before.name})" if is_distribution and x.shape[1] > 1 else ""


@kind(
    "softmax-axis",
    "Does softmax run along the right dimension?",
    "{name} runs along dimension {dim} of shape {shape}: {what}",
    "pass dim={right}",
)
def softmax_axis(case: Case) -> Found | None:
    found = _of_one(case)
    if found is not None:
        return found
    for step in reversed(case.run.steps):
        for call in step.passed():
            found = _not_normalized(case, step, call)
            if found is not None:
                return found
            found = _by_hand(case, step, call)
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
            elif (reduced := _summed_along(case, step, call, dim)) is not None:
                what = f"that is the batch, and the product that follows is summed along dimension {reduced}."
                right = reduced
            if what and right != dim:
                attends = _weighs(step, call) or _summed_along(case, step, call, dim) is not None
                edit = Edit(f"with dim={right}", Changes(params={call.index: {"dim": right}}), one_loss=attends)
                values = {"name": call.name, "dim": dim, "shape": str(tuple(shape)), "what": what}
                values["right"] = -1 if right == len(shape) - 1 else right
                return Found(case.edited(step, call), values, edit)
    return None


def _of_one(case: Case) -> Found | None:
    """Return the finding for softmax along a dimension of length 1, whose result is 1 whatever the network computes.

    Attention to a single place is no mistake: its scores are a product of two activations.
    """
    steps = [step for step in case.run.steps if step.roots]
    for call in steps[-1].passed() if steps else ():
        if call.name == "div" and _divides_itself(steps[-1], call):
            text = f"a sum over one element divides this element (shape {call.shape}): the result is always 1."
            fix = "use sigmoid for a single output, or two outputs with cross_entropy, which takes logits"
            return Found(call.record, {}, message=text, fix=fix)
        if call.name not in ("softmax", "log_softmax") or not call.needs(0) or _length(call) != 1:
            continue
        step = steps[-1]
        again = [x for one in steps for x in one.calls if x.name == call.name and x.site is call.site]
        if any(_length(x) != 1 for x in again) or _weighs(step, call):
            continue
        shape, dim = call.shapes[0], int(call.params["dim"]) % len(call.shapes[0])
        one = "0" if call.name == "log_softmax" else "1"
        where = case.edited(step, call)
        values = {"name": call.name, "dim": dim, "shape": str(shape), "right": -1}
        values["what"] = (
            f"this dimension has one element, so that the result is always {one}, and no gradient passes this line."
        )
        others = [i for i, length in enumerate(shape) if i not in (0, dim) and length > 1]
        if len(others) == 1:
            values["right"] = others[0]
            edit = Edit(f"with dim={others[0]}", Changes(params={call.index: {"dim": others[0]}}), one_loss=True)
            return Found(where, values, edit)
        if any(x.name in ("mul", "mm", "bmm", "matmul") and x.needs(0) and x.needs(1) for x in step.following(call)):
            fix = (
                "give the scores a dimension for the places that they weigh, scores.view(batch, places), and pass dim=1"
            )
            return Found(where, values, fix=fix, unproved="the recorded step does not show which places are meant")
        name, other = ("logsigmoid", _logsigmoid) if call.name == "log_softmax" else ("sigmoid", _sigmoid)
        edit = Edit(f"with {name}", Changes(calls={call.index: other}), one_loss=True)
        fix = f"use {name} for a single output, or two outputs with cross_entropy, which takes logits"
        return Found(where, values, edit, fix=fix)
    return None


def _divides_itself(step: Step, call: Call) -> bool:
    """Return whether a value is divided by its sum along a dimension of length 1: a softmax written by hand."""
    total = step.producer(step.origin(call.inputs[1])) if len(call.inputs) == 2 else None
    if total is None or total.name != "sum" or total.shapes[0] != call.shapes[0] or not call.needs(0):
        return False
    given, dim = call.shapes[0], total.params.get("dim")
    dims = dim if isinstance(dim, tuple) else (dim,) if isinstance(dim, int) else ()
    along = [given[i] for i in dims if -len(given) <= i < len(given)]
    return bool(along) and set(along) == {1} and same_source(call.inputs[0], total.inputs[0])


def _by_hand(case: Case, step: Step, call: Call) -> Found | None:
    """Return the finding for exponentials that are divided by their sum along the batch: a softmax written by hand."""
    total = step.producer(step.origin(call.inputs[1])) if call.name == "div" and len(call.inputs) == 2 else None
    if total is None or total.name != "sum" or not same_source(call.inputs[0], total.inputs[0]) or not call.needs(0):
        return None
    before, shape, dim = step.producer(call.inputs[0]), call.shapes[0], total.params.get("dim")
    dim = dim[0] if isinstance(dim, tuple) and len(dim) == 1 else dim
    along = isinstance(dim, int) and len(shape) == 2 and dim % 2 == 0 and shape[1] > 1
    if before is None or before.name != "exp" or not along or not _is_batch(case, step, call, shape):
        return None

    def fixed(x: Tensor, *others: object, **params: object) -> Tensor:
        return x / x.sum(-1, keepdim=True)

    edit = Edit("with sum(-1)", Changes(calls={call.index: fixed}), one_loss=True)
    what = (
        f"the exponentials of this line are divided by their sum along dimension 0 of shape {tuple(shape)}: that is "
        "the batch; each column, and not each example, sums to one."
    )
    return Found(total.record, {}, edit, message=what, fix="sum along the last dimension: .sum(-1, keepdim=True)")


def _sigmoid(x: Tensor, **params: object) -> Tensor:
    return sigmoid(x)


def _logsigmoid(x: Tensor, **params: object) -> Tensor:
    return logsigmoid(x)


def _length(call: Call) -> int:
    """Return the length of the dimension along which softmax runs; 0 if it has none."""
    shape, dim = call.shapes[0], call.params.get("dim")
    return shape[dim] if isinstance(dim, int) and -len(shape) <= dim < len(shape) else 0


def _not_normalized(case: Case, step: Step, call: Call) -> Found | None:
    """Return the finding for probabilities that do not sum to 1 along the dimension that a loss or a product uses."""
    if not call.inputs or not case.has_array(step, call.inputs[0]):
        return None
    if call.name == "nll_loss":
        before = step.producer(step.origin(call.inputs[0], ("log",)))
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
        return None  # the logarithm is missing, which is another kind of finding
    if not sums.size or not np.isfinite(sums).all() or float(np.abs(sums - 1).max()) < 0.02:
        return None
    dim = int(before.params["dim"]) % len(before.shape)
    values = {
        "name": before.name,
        "dim": dim,
        "shape": str(before.shape),
        "what": f"{what}, along which the "
        f"probabilities sum to {figure(float(sums.min()))} to {figure(float(sums.max()))}.",
    }
    last = len(before.shape) - 1
    right = axis if axis > 0 and before.shape == call.shapes[0] else last
    if right == dim:
        return None
    edit = Edit(f"with dim={right}", Changes(params={before.index: {"dim": right}}), one_loss=call.name != "nll_loss")
    return Found(case.edited(step, before), {**values, "right": -1 if right == last else right}, edit)


def _is_count(case: Case, call: Call) -> bool:
    """Return whether the first dimension of a result has the length of the targets' first dimension."""
    step = case.step
    loss = case.loss_call(step) if step is not None else None
    target = case.target(step, loss) if step is not None and loss is not None else None
    return target is not None and target.shape[:1] == call.shape[:1]


def _is_batch(case: Case, step: Step, call: Call, shape: tuple[int, ...]) -> bool:
    """Return whether the first dimension is the batch, judging by the model's inputs, the target and the readers."""
    if shape[0] == shape[1]:
        return False  # a square matrix may have similarities of all pairs
    loss = case.loss_call(step)
    target = case.target(step, loss) if loss is not None else None
    if target is not None and target.shape[:1] == (shape[1],):
        return False  # the first dimension is time
    sizes = {x.shapes[0][0] for x in step.outermost() if x.shapes and x.shapes[0]}
    if shape[0] not in sizes:
        return False
    if _is_policy(step, call):
        return True
    for reader in step.following(call):
        if reader.name in LOSSES:
            return True
        if reader.name in ("mul", "sub", "add", "xlogy") and len(reader.inputs) == 2:
            return True
        if reader.name in ("logsumexp",):
            return True
    return False


def _is_policy(step: Step, call: Call) -> bool:
    """Return whether a distribution reads a result as probabilities, dividing by the sum along the last dimension."""
    sums = [x for x in step.readers(call.index) if x.name == "sum" and x.params.get("dim") in (-1, (-1,), (1,), 1)]
    return any(x.name == "div" and x.inputs[1].call == y.index for y in sums for x in step.readers(y.index))


def _mixture(step: Step, call: Call, dim: int) -> int | None:
    """Return the dimension along which logsumexp sums log-weights, if they were normalized along another dimension."""
    for added in step.readers(call.index):
        if added.name == "add" and added.shape == call.shape:
            for reader in step.readers(added.index):
                over = reader.params.get("dim")
                over = over[0] if isinstance(over, tuple) and len(over) == 1 else over
                if reader.name == "logsumexp" and isinstance(over, int) and over % len(call.shape) != dim:
                    return over % len(call.shape)
    return None


def _summed_along(case: Case, step: Step, call: Call, dim: int) -> int | None:
    """Return the dimension along which rows weighted by a softmax are summed, if it differs from the softmax's own.

    The softmax must run along the batch: the dimension with the number of targets. A softmax over examples that is
    intended, as in an assignment to clusters, is followed by no such sum.
    """
    loss, shape = case.loss_call(step), call.shape
    target = case.target(step, loss) if loss is not None else None
    if call.name != "softmax" or target is None or target.shape[:1] != (shape[dim],) or len(set(shape)) < len(shape):
        return None
    pending = [call]
    while pending:
        current = pending.pop()
        places = [n for n, length in enumerate(current.shape) if length > 1]
        for reader in step.readers(current.index):
            if reader.name == "dropout" or reader.moves and sorted(x for x in reader.shape if x > 1) == sorted(shape):
                pending.append(reader)
            if reader.name != "mul" or len(reader.shape) <= len(shape) or min(shape) < 2:
                continue
            at = {n + len(reader.shape) - len(current.shape): shape.index(current.shape[n]) for n in places}
            for total in step.readers(reader.index):
                along = total.params.get("dim")
                along = along[0] if isinstance(along, tuple) and len(along) == 1 else along
                if total.name == "sum" and isinstance(along, int) and at.get(along % len(reader.shape), dim) != dim:
                    return at[along % len(reader.shape)]
    return None


def _weighs(step: Step, call: Call) -> bool:
    """Return whether a softmax is attention: its scores are a product of two activations, and it weighs rows."""
    scores = step.producer(step.origin(call.inputs[0], ("div", "mul", "add", "masked_fill", "where")))
    if scores is None or scores.name not in ("mm", "bmm", "matmul", "baddbmm", "einsum"):
        return False
    if not all(scores.needs(place) for place in range(2)):
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


def unsigned_targets(case: Case) -> Found | None:
    """Return the finding for targets 0 and 1 of a loss that expects -1 and 1."""
    step = case.step
    for call in [] if step is None else step.passed():
        if step is not None and call.name == "mul" and _is_margin(step, call):
            what = (
                "the product of prediction and target goes into a margin, which is for targets of 1 and -1, and "
                "targets are 0 and 1 here: examples with 0 have no gradient."
            )
            return Found(call.record, {"what": what, "fix": "use 2 * target - 1 in place of the target"})
    calls = [] if step is None else [x for x in step.passed() if x.record.call in _SIGNED]
    for call in calls:
        share = _share_of_zeros(step, call, calls) if step is not None else 0.0
        if share:
            loss = call.record.call
            effect = "count as similar and as dissimilar at once" if loss.startswith("hinge") else "have no gradient"
            what = f"{loss} wants targets of 1 and -1, and gets 0 for {share:.0%} of the examples, which {effect}."
            return Found(call.record, {"what": what, "fix": "pass 2 * target - 1"})
    return None


def _is_margin(step: Step, call: Call) -> bool:
    """Return whether a margin loss is written out for targets of 0 and 1.

    Such a loss is ``relu(1 - target * prediction)`` or ``softplus(-target * prediction)``.
    """
    if len(call.inputs) != 2 or call.needs(0) == call.needs(1) or call.record.call != "mul":
        return False
    place = 1 if call.needs(0) else 0
    if (
        not Case.has_array(step, call.inputs[place])
        or call.shapes[0] != call.shapes[1]
        or step.module_of(call) is not None
    ):
        return False
    y = step.numbers(call.inputs[place])
    if y.size < 4 or not bool(np.isin(y, (0, 1)).all()) or not bool((y == 0).any() and (y == 1).any()):
        return False
    readers = list(step.readers(call.index))
    margins = [x for x in readers if x.name in ("sub", "neg", "rsub") and len(readers) == 1]
    if not margins or margins[0].name == "sub" and margins[0].inputs[-1].call != call.index:
        return False
    if margins[0].name == "sub":
        number = margins[0].inputs[0].value
        if number is None or np.size(number) != 1 or not float(np.asarray(number).reshape(-1)[0]) > 0:
            return False
    return any(
        x.name in ("relu", "softplus") or x.name == "clamp" and x.params.get("min") == 0
        for x in step.readers(margins[0].index)
    )


def _share_of_zeros(step: Step, call: Call, calls: list[Call]) -> float:
    """Return the share of targets that are 0, if all other targets are 1; otherwise 0."""
    loss = call.record.call
    if loss in ("cosine_embedding_loss", "hinge_embedding_loss"):  # these losses compute a mask for 1 and one for -1
        masks = [np.asarray(x.inputs[1].value) for x in calls if x.name == "keep" and x.site == call.site]
        if len(masks) != 2 or masks[0].shape != masks[1].shape or not masks[0].size:
            return 0.0
        negative, positive = (x if loss.startswith("cosine") else ~x for x in masks)
        return 0.0 if negative.any() else float((~positive).mean())
    place = {"soft_margin_loss": 1, "mul": 0}.get(call.name)
    if place is None or call.needs(place) or not Case.has_array(step, call.inputs[place]):
        return 0.0
    y = step.numbers(call.inputs[place])
    one = -1 if call.name == "mul" else 1  # margin_ranking_loss multiplies by -target
    return float((y == 0).mean()) if y.size and bool(np.isin(y, (0, one)).all()) else 0.0
