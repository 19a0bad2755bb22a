"""Rules on targets, and on masks of examples or places."""

from __future__ import annotations

import math
import re

import numpy as np

from ....core.tensor.tensor import Tensor, new_tensor
from ...record import Record
from ..findings import figure
from ..kinds import BINARY_LOSSES, CLASS_LOSSES, LOSSES, PAIR_LOSSES, Case, Found, is_summed, kind
from ..probes.proof import better, compare
from ..probes.replay import Changes, Edit, Program, same
from ..step_recorder import LOGARITHMS, Array, Call, Source, Step, same_source, start_of
from .data import index_of
from .labels import target_source
from .losses import unsigned_targets
from .modes import place_of
from .signs.policies import undiscounted, unread_ends

_PROBES = np.concatenate([np.linspace(-8, 8, 257), [-1e4, 1e4]])  # inputs that show an activation function's range
_FAR = 1e3  # an activation function with larger values at the probes has no bound
_OUTSIDE = 0.2  # the least share of targets, or of their variance, that a bounded output cannot reach
_LEAST_PLACES = 3  # the least length of a sequence
_MOSTLY_PADDING = 0.4  # the least share of padding among all places
_UNLEARNED = 0.6  # above this share of the loss of guessing, little was learned
_LEAST_TARGETS = 3  # the least number of batches or steps with the same target
_LEAST_BATCHES = 5
_LEAST_LABELS = 64


@kind(
    "masked-after-loss",
    "Does the mask act on single examples?",
    "{what}",
    "{fix}",
    "the recorded step does not have the losses of single examples",
)
def masked_after_loss(case: Case) -> Found | None:
    found = _masked_infinity(case) or _padding_counts(case)
    if found is not None:
        return found
    for step in reversed(case.run.steps):
        for call in step.passed():
            selects = call.name in ("masked_select", "getitem") and math.prod(call.shapes[0]) > 1
            if selects and _is_mean(step, call.inputs[0]) and _is_one_number(step, call.inputs[0]):
                what = (
                    "the loss is already one number, a mean over all examples, when this line selects some of its "
                    "copies by a mask: masked examples count like all others."
                )
                fix = 'compute the loss with reduction="none", and select before the mean: loss[mask].mean()'
                return Found(call.record, {"what": what, "fix": fix})
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


def _padding_counts(case: Case) -> Found | None:
    """Return the finding for padding that dominates the mean of a loss, so that the other places are not learned."""
    step = case.step
    call = case.loss_call(step) if step is not None else None
    if step is None or call is None or call.name not in CLASS_LOSSES or not case.has_array(step, call.inputs[0]):
        return None
    classes = call.params["classes"]
    padded = None if is_summed(call) or classes.divisor is None else _padded(step, classes)
    if padded is None:
        return None
    token, mask = padded
    real = ~mask if classes.counted is None else ~mask & np.asarray(classes.counted).reshape(-1)
    targets = np.asarray(classes.index).reshape(-1)
    logits = np.moveaxis(np.asarray(step.array(call.inputs[0]), np.float64), 1, -1).reshape(targets.size, -1)[real]
    logits = logits - logits.max(axis=1, keepdims=True)
    losses = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(logits)), targets[real]]
    shares = np.bincount(targets[real]) / max(1, int(real.sum()))
    guessing = float(-(shares[shares > 0] * np.log(shares[shares > 0])).sum())
    if int(real.sum()) < _LEAST_PLACES or not float(losses.mean()) > _UNLEARNED * guessing > 0:
        return None
    shape = np.shape(classes.index)
    weights = (real * np.asarray(classes.weight).reshape(-1)).reshape(shape).astype(call.record.dtype)
    masked = classes._replace(weight=weights, counted=real.reshape(shape), divisor=weights.sum())
    edit = Edit("without padding", Changes(params={call.index: {"classes": masked}}))
    curves = compare(case.run, case.program, edit, case.budget)
    if curves is None or not better(curves):
        return None
    what = (
        f"{int(mask.sum())} of the {targets.size} targets of this loss are at padding (input {token}), and count in "
        f"its mean. For the others it is {figure(float(losses.mean()))}, and {figure(guessing)} for guessing them."
    )
    fix = "leave padding out: set its labels to -100, which cross_entropy ignores (ignore_index)"
    return Found(call.record, {"what": what, "fix": fix}, edit, curves)


def _padded(step: Step, classes: Array) -> tuple[int, np.ndarray] | None:
    """Return the padding token, and the mask of targets at padding, if these are many and all the same class."""
    targets = np.asarray(classes.index).reshape(-1)
    counts = None if classes.counted is None else np.asarray(classes.counted).reshape(-1)
    for entry in step.modules:
        token = getattr(entry.module, "padding_idx", None)
        for one in step.calls[entry.start : entry.end]:
            index = index_of(one) if one.name == "embedding" else np.zeros(0)
            if index.ndim != 2 or min(index.shape) < _LEAST_PLACES:
                continue
            shifted = targets.size == len(index) * (index.shape[1] - 1)  # the targets are the next tokens
            if targets.size != index.size and not shifted:
                continue
            padding = _at_the_end(index) if token is None else index == token
            mask = (padding[:, 1:] if shifted else padding).reshape(-1)
            if not _MOSTLY_PADDING < float(mask.mean()) < 1 or counts is not None and not counts[mask].all():
                continue
            if np.unique(targets[mask]).size == 1 and np.unique(targets[~mask]).size > 1:
                return int(index[padding][0]), mask
    return None


def _at_the_end(index: np.ndarray) -> np.ndarray:
    """Return the mask of the runs of one token at the end of all rows; empty if the token also occurs elsewhere."""
    equal = index == index[0, -1]
    runs: np.ndarray = np.logical_and.accumulate(equal[:, ::-1], axis=1)[:, ::-1]
    return runs if bool(runs[:, -1].all()) and not bool((equal & ~runs).any()) else np.zeros_like(runs)


def _masked_infinity(case: Case) -> Found | None:
    """Return the finding for a mask that removes NaN and infinity from a value, but not from its gradient."""
    for step in case.run.steps:
        if not any(x.gradients is not None and x.gradients.nans for x in step.records):
            continue
        if any(bool(np.isnan(x).any()) for x in step.values.values()):
            continue  # with parameters of NaN, all results are NaN
        for call in reversed(step.passed()):
            if call.record.values is None or not call.record.requires_grad:
                continue
            given = [x.source for x in call.record.inputs if x.requires_grad]
            bad = [x for x in given if isinstance(x, Record) and x.values is not None and not x.values.finite]
            nans = any(x.values is not None and x.values.nans for x in bad)
            if bad and call.record.values.finite and (nans or call.name in ("where", "masked_fill", "mul")):
                what = (
                    f"{call.name} removes {'NaN' if nans else 'infinite'} elements from the value, and not from the "
                    f"gradient: on the way back 0 times {'NaN' if nans else 'infinity'} is NaN."
                )
                fix = "replace the masked elements in the inputs, before the operator that makes them "
                fix += "NaN" if nans else "infinite"
                why = "the recorded step does not show which inputs are meant"
                return Found(call.record, {"what": what, "fix": fix}, unproved=why)
    return None


def _is_one_number(step: Step, source: Source) -> bool:
    call = step.producer(step.origin(source))
    return call is not None and math.prod(call.shape) == 1


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
        found = None
        if call.record.call == "kl_div" and (found := _negative_probabilities(case, call)) is not None:
            return found
        if call.record.call == "kl_div" and call.name == "mul" and call.record.values is not None:
            found = _not_logarithms(case, step, call, call.inputs[1], "kl_div")
        elif call.name == "nll_loss":
            found = _not_logarithms(case, step, call, call.inputs[0], "nll_loss")
        elif (
            found := _seen_before(case, step, call)
            or _truncated_classes(case, step, call)
            or _of_one_class(case, step, call)
        ) is not None:
            return found
        elif call.name == "cross_entropy" and call.shapes[0][1:2] == (1,):
            text = "cross_entropy of a single class is 0 whatever the model computes."
            found = Found(call.record, {"what": text, "fix": "use binary_cross_entropy_with_logits, or two outputs"})
        elif call.name in PAIR_LOSSES:
            found = (
                _itself(case, step, call)
                or undiscounted(case, step, call)
                or unread_ends(step, call)
                or _out_of_range(case, step, call)
                or _truncated(case, step, call)
            )
        elif call.name in ("sub", "add"):
            found = _written_difference(case, step, call) if call.name == "sub" else None
            found = found or _written_entropy(case, step, call)
        if found is not None:
            return found
    return None


def _seen_before(case: Case, step: Step, call: Call) -> Found | None:
    """Return the finding for class targets that equal the inputs of a causal network at each place.

    Such a network computes the output at a place from the inputs up to this place, so it only has to copy an input.
    """
    if call.name not in CLASS_LOSSES:
        return None
    embedded = _looked_up(step, call)
    if embedded is None or not _is_causal(step, call, embedded):
        return None
    same = [x for x in case.run.steps if (other := _again(case, x, call)) is not None and _looked_up(x, other)]
    if len(same) < 2 or len(same) < len([x for x in case.run.steps if _again(case, x, call) is not None]):
        return None
    what = (
        f"the target of each place is the input of the same place (all {embedded.shape[0]} x {embedded.shape[1]} of "
        "a recorded batch), which the network has read when it predicts it: it learns to copy, and nothing else."
    )
    fix = "predict the next input: compare logits[:, :-1] with labels[:, 1:]"
    return Found(call.record, {"what": what, "fix": fix})


def _truncated_classes(case: Case, step: Step, call: Call) -> Found | None:
    """Return the finding for class targets that are one class in all steps because numbers were truncated."""
    if call.name not in CLASS_LOSSES or len(case.run.labels) < _LEAST_TARGETS:
        return None
    index = np.asarray(call.params["classes"].index)
    cast = next(
        (x for x in step.calls if x.name == "cast" and x.outputs and start_of(x.outputs[0]) == start_of(index)), None
    )
    numbers = step.numbers(cast.inputs[0]) if cast is not None and case.has_array(step, cast.inputs[0]) else None
    if numbers is None or numbers.dtype.kind != "f" or not index.size:
        return None
    constant = all(y.size and bool((y == index.reshape(-1)[0]).all()) for y in case.run.labels)
    if not constant or not bool((numbers != np.trunc(numbers)).any()):
        return None
    what = (
        f"the class targets of all {len(case.run.labels)} batches are {int(index.reshape(-1)[0])}: this is what "
        f"numbers from {figure(float(numbers.min()))} to {figure(float(numbers.max()))} become when they are "
        "converted to integers."
    )
    return Found(call.record, {"what": what, "fix": "convert to class numbers before, such as (y > 0.5).long()"})


def _of_one_class(case: Case, step: Step, call: Call) -> Found | None:
    """Return the finding for class targets that are one class in all steps, if a layer computes the scores.

    In a contrastive loss, whose first score is that of the right pair, such targets are right; but no layer computes
    its scores.
    """
    labels = [y for y in case.run.labels if y.size]
    if call.name not in CLASS_LOSSES or len(labels) < _LEAST_BATCHES or sum(y.size for y in labels) < _LEAST_LABELS:
        return None
    first = int(labels[0][0])
    if any(bool((y != first).any()) for y in labels) or sum(x.steps > 0 for x in case.run.optimizers) != 1:
        return None
    head = step.producer(step.origin(call.inputs[0], ("log_softmax",)))
    entry = step.module_of(head) if head is not None else None
    if head is None or not head.weighted or call.shapes[0][1] < 2 or entry is None or not entry.module._parameters:
        return None
    if not head.record.inputs[0].requires_grad and head.needs(0):
        return None
    source = target_source(step, call)
    made = step.producer(source) if source is not None else None
    before = made
    while before is not None and before.moves and before.inputs:
        before = step.producer(before.inputs[0])
    where = _first_constant(case, step, source) if source is not None else None
    data = None if where is not None else case.run.data_site(call.params["classes"].index)
    code = "" if data is None else data.code
    if before is not None and before.record.creates or re.search(r"\b(zeros|ones|full)\w*\(", code):
        return None  # the program only tests shapes
    what = (
        f"the class targets of all {len(labels)} batches ({sum(y.size for y in labels)} of them) are {first}: the "
        "network only learns to answer with this class, whatever it gets."
    )
    if where is not None:
        what = f"{what[:-1]}. {where.name} on line {where.record.line} makes this number of data that differ."
    fix = "take the number of the class, such as onehot.argmax(1), and look at what the data set gives as labels"
    return Found(data or call.record, {"what": what, "fix": fix})


def _first_constant(case: Case, step: Step, source: Source) -> Call | None:
    """Return the call that computed a constant target from data that are not constant."""
    call = step.producer(source)
    while call is not None and call.inputs:
        array = step.array(call.inputs[0]) if case.has_array(step, call.inputs[0]) else None
        if array is None:
            return None
        if np.size(array) > 1 and bool((np.asarray(array) != np.asarray(array).flat[0]).any()):
            return call
        call = step.producer(call.inputs[0])
    return None


def _again(case: Case, step: Step, call: Call) -> Call | None:
    """Return the call of the same loss on the same line in another step."""
    return next((x for x in case.loss_calls(step) if (x.site, x.name) == (call.site, call.name)), None)


def _looked_up(step: Step, call: Call) -> Call | None:
    """Return the call of an embedding whose indices equal the targets of a loss at each place."""
    classes = call.params["classes"]
    targets = np.asarray(classes.index).reshape(-1)
    counted = None if classes.counted is None else np.asarray(classes.counted).reshape(-1)
    for one in step.calls[: call.index]:
        index = index_of(one) if one.name == "embedding" else np.zeros(0)
        if index.ndim != 2 or index.size != targets.size or min(index.shape) < _LEAST_PLACES:
            continue
        equal = index.reshape(-1) == targets
        if bool(equal.all() if counted is None else counted.any() and equal[counted].all()):
            return one
    return None


def _is_causal(step: Step, call: Call, embedded: Call) -> bool:
    """Return whether each prediction depends on the input at its place and on earlier inputs, but on no later input."""
    program = Program(step, call.inputs[0], moving=False)
    values = {key: new_tensor(x) for key, x in step.values.items()}
    index = index_of(embedded)
    length = index.shape[1]

    def predictions(given: np.ndarray) -> np.ndarray:
        params = {embedded.index: {"index": embedded.params["index"].with_key((given,))}}
        out = np.asarray(program.run(values, Changes(params=params)).array)
        return np.moveaxis(out, 1, -1).reshape(*index.shape, -1)

    try:
        before = predictions(index)
        other = index.copy()
        other[:, length // 2] = (other[:, length // 2] + 1) % (int(index.max()) + 1)
        moved = np.abs(predictions(other) - before).max(axis=(0, 2)) > 1e-5 * float(np.abs(before).max())
    except Exception:
        return False
    return not moved[: length // 2].any() and bool(moved[length // 2]) and bool(moved[length // 2 + 1 :].any())


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
    x = step.numbers(source)
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
    """Return the finding for a loss that compares a prediction with itself, and is 0 in all recorded steps."""
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


def _one_sided(case: Case, step: Step, call: Call) -> Found | None:
    """Return the finding for logits that cannot be negative, so that no probability is below one half."""
    before = step.producer(step.origin(call.inputs[0]))
    bounds = _bounds(before) if before is not None and call.name.endswith("with_logits") else None
    if before is None or bounds is None or bounds[0] < 0 or bounds[1] < math.inf:
        return None
    if before.record.values is None or not before.record.values.maximum > 0:
        return None  # all units are dead
    what = (
        f"the output of {before.name} is never negative, and {call.name} takes it as logits: no probability can be "
        "below 0.5, and targets of 0 cannot be reached."
    )
    fix = f"remove the {before.name} from the output"
    edit = Edit("without it", Changes(calls={before.index: same}), one_loss=True)
    return Found(case.edited(step, before), {"what": what, "fix": fix}, edit)


def _negative_probabilities(case: Case, call: Call) -> Found | None:
    """Return the finding for a target of kl_div with log-probabilities instead of probabilities."""
    step = next((x for x in case.run.steps if any(y is call for y in x.calls)), None)
    of_both = call.name == "mul" and any(call.needs(n) for n in range(len(call.inputs)))  # prediction times target
    for place, x in enumerate(call.inputs) if of_both else ():
        if step is None or call.needs(place) or not case.has_array(step, x):
            continue
        y = step.numbers(x)
        if y.dtype.kind == "f" and y.size > 1 and float(y.max()) <= 1e-6 and float(y.min()) < -1e-3:
            what = (
                f"kl_div wants probabilities as its target, and gets negative numbers down to "
                f"{figure(float(y.min()))}, such as log-probabilities."
            )
            return Found(call.record, {"what": what, "fix": "pass log_target=True, or the probabilities themselves"})
    return None


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
            return _one_sided(case, step, call) if low < 0.5 else None
        scaled = (target - low) / (high - low) if high > low else target
        changes = Changes(inputs={(call.index, 1): scaled.astype(call.record.inputs[1].dtype)})
        edit = Edit("with targets from 0 to 1", changes)
        what = f"{call.name} wants targets from 0 to 1, and gets targets from {figure(low)} to {figure(high)}."
        shifted = f"target - {figure(low)}" if low > 0 else f"target + {figure(-low)}" if low else "target"
        width = figure(high - low)
        fix = shifted if width in ("0", "1") else f"{f'({shifted})' if low else shifted} / {width}"
        return Found(call.record, {"what": what, "fix": f"scale the targets to 0 and 1: {fix}"}, edit)
    return _beyond(case, step, call.inputs[0], target)


def _written_difference(case: Case, step: Step, call: Call) -> Found | None:
    """Return the finding for a difference of a bounded output and data in a mean of squares or absolute values.

    In other losses, data beyond the bound are allowed: the output may be one of many, as of quantiles or a mixture.
    """
    place = 0 if call.needs(0) else 1
    if len(call.inputs) != 2 or call.needs(0) == call.needs(1) or call.shapes[0] != call.shapes[1]:
        return None
    squares = list(step.readers(call.index))
    after = [y for x in squares for y in step.readers(x.index)]
    known = all(x.name in ("square", "pow", "abs", "mul") for x in squares) and all(
        x.name in ("mean", "sum") and x.shape == () for x in after
    )
    if not squares or not after or not known or not case.has_array(step, call.inputs[1 - place]):
        return None
    target = step.numbers(call.inputs[1 - place])
    return _beyond(case, step, call.inputs[place], target) if target.dtype.kind == "f" and target.size > 1 else None


def _written_entropy(case: Case, step: Step, call: Call) -> Found | None:
    """Return the finding for y * log(p) + (1 - y) * log(1 - p) with y outside of [0, 1]."""
    weights = []
    for x in call.inputs if call.name in ("add", "sub") else ():
        term = step.producer(x)
        if term is None or term.name != "mul" or len(term.inputs) != 2 or term.needs(0) == term.needs(1):
            return None
        place = 0 if term.needs(0) else 1
        log, data = step.producer(term.inputs[place]), term.inputs[1 - place]
        if log is None or log.name not in LOGARITHMS or not case.has_array(step, data):
            return None
        weights.append(np.asarray(step.array(data), float))
    if len(weights) != 2 or weights[0].shape != weights[1].shape or weights[0].size < 2:
        return None
    y = weights[0]
    if not bool((np.abs(np.abs(y + weights[1]) - 1) < 1e-4 * (1 + np.abs(y))).all()):
        return None
    low, high = float(y.min()), float(y.max())
    low, high = (low, high) if high > -low else (-high, -low)
    if low >= -1e-6 and high <= 1 + 1e-6:
        return None
    what = (
        f"the weights of the logarithms are targets from {figure(low)} to {figure(high)}, and binary cross-entropy is "
        "for targets from 0 to 1: the loss has no bound."
    )
    return Found(call.record, {"what": what, "fix": f"scale the targets to 0 and 1: target / {figure(high)}"})


def _beyond(case: Case, step: Step, source: Source, target: np.ndarray) -> Found | None:
    """Return the finding for targets that an activation function cannot reach."""
    low, high = float(np.min(target)), float(np.max(target))
    before = step.producer(step.origin(source))
    if before is None or (bounds := _bounds(before)) is None:
        return None
    values = before.record.values
    if values is not None and values.minimum == values.maximum and before.name == "relu":
        return None  # all units are dead, whatever the targets are
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
    """Return the range of an activation function, from its values at ``_PROBES``; None if it has no bound."""
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
