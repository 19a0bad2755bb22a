"""Check the sign of a bounded loss: a similarity, an overlap or a probability should increase."""

from __future__ import annotations

import linecache
import math
import re

import numpy as np

from .....core.tensor.tensor import new_tensor
from ...findings import figure
from ...kinds import PAIR_LOSSES, Case, HasPlace, Place
from ...probes.replay import Changes, Program
from ...step_recorder import Call, Source, Step, start_of
from ..cuts import sums
from ..growth.rates import of_parameters
from .policies import slope_of

_SELECTIONS = frozenset({"gather", "getitem", "take_along_dim", "index_select", "take"})
_REDUCTIONS = frozenset({"mean", "sum", "neg"})
_PERMUTATIONS = 5
_LEAST_ROWS = 8
_ASSIGNED = re.compile(r"\s*([A-Za-z_]\w*)\s*(?::[^=]+)?=(?!=)")


def path_of(step: Step) -> list[Call]:
    """Return the calls from the loss back to the first call with several inputs that need gradients, including it."""
    found: list[Call] = []
    call = step.producer(step.roots[-1].source) if step.roots else None
    while call is not None and len(found) < 40:
        found.append(call)
        given = [x for place, x in enumerate(call.inputs) if call.needs(place)]
        call = step.producer(given[0]) if len(given) == 1 else None
    return found


def wrong_way(case: Case, step: Step, sign: float) -> tuple[HasPlace, str] | None:
    """Return the line of the sign, and a text on the quantity that steps change in the wrong direction.

    ``sign`` is -1 for an optimizer that maximizes.
    """
    path = path_of(step)
    for place, call in enumerate(path):
        slope = sign * slope_of(call)
        if not slope:
            continue
        last = place == 0 or path[place - 1].record.call != call.record.call
        what = ""
        if slope > 0 and call.record.call == "cosine_similarity" and last:
            what = "cosine_similarity, which is 1 for equal directions, is minimized"
        elif slope > 0 and _is_cosine(step, call):
            what = "the product of vectors of length 1, which is 1 for equal directions, is minimized"
        elif slope > 0 and _is_overlap(case, step, call):
            what = "the overlap of predictions and targets (a sum of products divided by sums) is minimized"
        elif slope > 0 and _is_probability(case, step, call):
            what = "the probabilities of the targets are minimized"
        elif slope < 0 and _is_hinge(call) and _is_reduced([x for x in path[:place] if x.name != "mul"]):
            what = "a hinge, whose smallest value 0 is the best one, is maximized"
        elif slope < 0 and is_distance(step, call):
            what = "the distances between predictions and targets are maximized"
        if what:
            return _edited(path, call), what
    terms = [path[0], *sums(step, step.roots[-1].source)] if path else []
    for term in {x.index: x for x in terms if sign * slope_of(x) > 0 or x is path[0]}.values():
        agreement = _agreement(case, step, sign, term)
        if agreement:
            return _edited(path, path[0]) if term is path[0] else _added(step, term), agreement
    return None


def _added(step: Step, term: Call) -> HasPlace:
    """Return the line that adds a term to other terms."""
    for reader in step.readers(term.index):
        if sum(reader.needs(place) for place in range(len(reader.inputs))) > 1:
            return reader.record
    return term.record


def _agreement(case: Case, step: Step, sign: float, term: Call) -> str:
    """Return a text if a loss is a score that is largest where predictions equal the data, but that steps lower.

    The loss is computed with the data in place of the predictions, and with scaled and permuted data. A score, such as
    a correlation, is largest for the data themselves, and the training has lowered it below all permutations.
    """
    source = Source(term.index, 0, None, None)
    found = _pair(step, source) or _pair(step, source, computed=True)
    if found is None or case.program is None or case.program.step is not step:
        return ""
    place, data = found
    replayed = Program(step, source)

    def score(x: np.ndarray) -> float:
        changes = Changes(calls={place: lambda *inputs, **params: new_tensor(x.astype(data.dtype))})
        return sign * float(np.asarray(replayed.run({}, changes).array).sum())

    rng = np.random.default_rng(0)
    try:
        best = score(data)
        scaled = [score(factor * data) for factor in (-1.0, 0.5, 2.0)]
        permuted = [score(rng.permutation(data)) for _ in range(_PERMUTATIONS)]
    except Exception:
        return ""
    whole = step.producer(case.program.source) is term
    last = sign * (case.ends()[1] if whole or term.record.values is None else term.record.values.mean)
    if not last < min(permuted) or not best >= max(0.0, *scaled) - 1e-3 * max(map(abs, (best, *permuted))):
        return ""
    if not max(permuted) < best - 0.1 * max(map(abs, (best, *permuted))):
        return ""
    return (
        f"the loss is a score that grows with the agreement of predictions and targets ({figure(best)} with the "
        f"targets as predictions, at most {figure(max(permuted))} with permuted ones), and steps lower it"
    )


def _pair(step: Step, root: Source, computed: bool = False) -> tuple[int, np.ndarray] | None:
    """Return the index of the predictions' call and the data of the same size, if a loss depends on nothing else.

    With ``computed``, results of operators on data count as data.
    """
    entries = [x for x in step.outermost() if x.grad_enabled and next(x.module.parameters(), None) is not None]
    if len(entries) != 1 or len(step.roots) != 1:
        return None
    entry, below = entries[0], step.below(root)
    predicted = [x for x in entry.outputs if x.call in below]
    if len(predicted) != 1 or predicted[0].output:
        return None
    prediction = predicted[0]
    shape = step.calls[prediction.call].shape
    count = math.prod(shape)
    data: dict[int, np.ndarray] = {}
    pending, seen = [root], {prediction.call}
    while pending:
        x = pending.pop()
        if x.call in seen:
            continue
        seen.update([x.call] if x.call >= 0 else [])
        call = step.producer(x)
        array = step.array(x) if Case.has_array(step, x) else None
        given = call is None or (call.moves or computed) and not call.record.requires_grad
        is_data = given and (call is None or getattr(array, "size", 0) == count)
        if call is not None and call.index >= entry.end and not is_data:
            pending += call.inputs
        elif x.leaf is not None or x.call >= entry.start and x.call < entry.end or array is None:
            return None
        elif np.size(array) > 1:
            data[start_of(array)] = array
    if len(data) != 1:
        return None
    (array,) = data.values()
    fits = isinstance(array, np.ndarray) and array.dtype.kind == "f" and array.size == count
    return (prediction.call, array.reshape(shape)) if fits and len(array) >= _LEAST_ROWS else None


def turned_term(step: Step, sign: float) -> tuple[Call, Call] | None:
    """Return a term of the loss with the wrong sign, and the call that gives the term this sign.

    The term is a regression loss or a penalty on parameters, and another term has the right sign.
    """
    terms = [x for x in sums(step, step.roots[-1].source) if x.cotangent and x.name not in ("add", "sub", "neg")]
    if not any(sign * (x.cotangent or 0.0) > 0 for x in terms):
        return None
    for term in terms:
        if sign * (term.cotangent or 0.0) >= 0 or not (_is_regression(term) or _is_penalty(step, term)):
            continue
        current, slope = term, term.cotangent or 0.0
        while (reader := next((x for x in step.readers(current.index) if x.cotangent), None)) is not None:
            if (reader.cotangent or 0.0) * slope < 0:
                return term, reader
            current = reader
    return None


def _is_regression(call: Call) -> bool:
    target = call.shapes[1] if len(call.shapes) > 1 else ()
    return call.name in PAIR_LOSSES and not call.needs(1) and (call.name == "mse_loss" or math.prod(target[1:]) > 1)


def _is_penalty(step: Step, call: Call) -> bool:
    """Return whether a term is a sum of squares or of absolute values of parameters, or a norm of parameters."""
    if not of_parameters(step, Source(call.index, 0, None, None)):
        return False
    before = step.producer(call.inputs[0]) if call.inputs else None
    known = before is not None and before.name in ("square", "pow", "abs") and call.name in ("sum", "mean")
    return known or "norm" in call.name


def _is_probability(case: Case, step: Step, call: Call) -> bool:
    """Return whether a call selects one softmax probability per example, by an index or a product with one-hot rows."""
    before = step.producer(step.origin(call.inputs[0])) if call.inputs else None
    if call.name in _SELECTIONS:
        return before is not None and before.name == "softmax" and call.needs(0)
    if call.name != "mul" or len(call.inputs) != 2 or call.needs(0) == call.needs(1):
        return False
    place = 0 if call.needs(0) else 1
    before, other = step.producer(step.origin(call.inputs[place])), call.inputs[1 - place]
    if before is None or before.name != "softmax" or not case.has_array(step, other):
        return False
    rows = step.numbers(other)
    if rows.ndim < 2 or rows.shape != before.shape:
        return False
    return bool(((rows == 0) | (rows == 1)).all() & (rows.sum(-1) == 1).all())


def _is_reduced(path: list[Call]) -> bool:
    """Return whether all calls of a path are reductions, moves, divisions by constants or changes of sign."""
    return all(x.name in _REDUCTIONS or x.moves or x.name == "div" and not x.needs(1) for x in path)


def _is_cosine(step: Step, call: Call) -> bool:
    """Return whether a call computes the dot products of vectors of norm 1, one per row."""
    product = step.producer(call.inputs[0]) if call.name == "sum" and call.inputs else None
    dim = call.params.get("dim")
    dim = dim[0] if isinstance(dim, tuple) and len(dim) == 1 else dim
    if product is None or product.name != "mul" or len(product.inputs) != 2 or not isinstance(dim, int):
        return False
    if not all(Case.has_array(step, x) for x in product.inputs) or len(product.shape) < 2:
        return False
    lengths = [
        np.linalg.norm(np.asarray(step.array(x), float), axis=dim) for x in product.inputs if np.ndim(step.array(x))
    ]
    return len(lengths) == 2 and all(x.size and bool((np.abs(x - 1) < 1e-3).all()) for x in lengths)


def _is_overlap(case: Case, step: Step, call: Call) -> bool:
    """Return whether a call is an overlap, such as the Dice score: ``sum(prediction * data) / sum(prediction)``.

    The data must be in the range from 0 to 1; both sums may have further terms and factors.
    """
    if call.name != "div" or len(call.inputs) != 2 or not (call.needs(0) and call.needs(1)):
        return False
    top = step.producer(call.inputs[0])
    summed = False
    while top is not None:
        given = [x for place, x in enumerate(top.inputs) if top.needs(place)]
        summed = summed or top.name == "sum"
        others = [x for place, x in enumerate(top.inputs) if not top.needs(place)]
        if top.name == "mul" and summed and len(others) == 1 and case.has_array(step, others[0]):
            data = step.numbers(others[0])
            return data.size > 1 and float(data.min()) >= 0 and float(data.max()) <= 1
        if len(given) != 1 or top.name not in ("add", "mul", "sum", "div") and not top.moves:
            return False
        top = step.producer(given[0])
    return False


def _is_hinge(call: Call) -> bool:
    """Return whether a call outside of modules replaces negative numbers by 0."""
    if call.record.module or call.record.values is None or call.record.values.size < 2:
        return False
    bounds = call.params.get("min"), call.params.get("max")
    return call.name == "relu" or call.name == "clamp" and bounds[0] == 0 and bounds[1] is None


def is_distance(step: Step, call: Call) -> bool:
    """Return whether a call is the square or the absolute value of a difference from data."""
    if call.name not in ("square", "pow", "abs") or call.name == "pow" and call.params.get("exponent", 2) != 2:
        return False
    before = step.producer(call.inputs[0])
    return before is not None and before.name == "sub" and before.needs(0) != before.needs(1)


def _edited(path: list[Call], call: Call) -> HasPlace:
    """Return the line of the negation between a result and the loss, or else the line that computes the loss."""
    for one in path[: path.index(call)]:
        if one.name in ("exp", "log", "pow", "sigmoid", "softmax"):
            break
        negative = one.name == "neg" or one.name in ("mul", "div") and slope_of(one) * slope_of(path[0]) < 0
        if negative:
            return one.record
    top = path[0]
    lines = linecache.getlines(top.record.file)
    if top.site.code.startswith("return "):
        calls = re.compile(rf"\s*[\w.]+\s*\+?=.*\b{top.site.function}\(")
        return next((Place(top.record.file, n) for n, x in enumerate(lines, 1) if calls.match(x)), top.record)
    match = _ASSIGNED.match(top.site.code)
    written = match[1] if match is not None else ""
    if written:
        ends = re.compile(rf"\s*(return|[\w.]*loss\w*\s*\+?=)\s*{written}\s*(#.*)?$")
        for number in range(top.record.line, min(len(lines), top.record.line + 20)):
            if ends.match(lines[number]):
                return Place(top.record.file, number + 1)
    return top.record
