"""Find wrong orders of dimensions: reshapes that distribute a slice over several slices, inputs with rows of other
examples, and images with targets of other images."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np

from .....core.arrays.dtypes import FLOATING
from .....core.tensor.tensor import Tensor
from ...findings import figure
from ...kinds import CLASS_LOSSES, Case, Found
from ...probes.batches import STEPS, gain
from ...probes.relations import related
from ...probes.replay import Changes, Edit, Program, Replacement
from ...step_recorder import Array, Call, Step, numbers
from ..program_text import reshaping_line, returning_line

_RESHAPES = frozenset({"view", "reshape", "flatten", "unflatten"})
_ALONG = frozenset({"softmax", "log_softmax"})
_MOST_CALLS = 16
_UNLEARNED = 0.3  # above this share of the first loss, the last loss leaves room for improvement
_FAR_LOWER = 0.5  # the largest share of the loss as written that a loss with an edit may be
_LOWER = 0.8  # the same for a batch that was not used for training
_LEARNED = 0.9  # below this share of the first loss, the network has learned something
_LEAST_ROWS = 60
_LEAST_IMAGES = 24
_GUESSED = 0.9  # above this share of the loss of guessing, nothing was learned
_PERMUTATIONS = 19
# Relations of inputs and targets, in standard deviations above the mean of permuted targets.
_RELATED = 3.0
_NOT, _CLEAR = 3.0, 6.0
Segment = tuple[int, int, int, int]  # start and end of a run of dimensions before a reshape, and of the run after it


def first_layer(step: Step) -> Call | None:
    """Return the first call that multiplies data by a parameter."""
    below: set[int] = set()
    for root in step.roots[-1:]:
        below |= step.below(root.source)
    for index in sorted(below):
        call = step.calls[index]
        if not call.weighted or not call.record.inputs or call.needs(0):
            continue
        source = call.inputs[0]
        array = step.array(source) if source.leaf is None and Case.has_array(step, source) else None
        if array is None or not hasattr(array, "dtype") or array.dtype.kind not in FLOATING or not array.size:
            continue
        if array.max() != array.min():  # the constant first state of a recurrence is no data
            return call
    return None


def torn_slices(case: Case, step: Step) -> Found | None:
    """Return the finding for a reshape that seems to move a dimension, but mixes elements of its slices.

    Example: ``x.view(batch, -1, time)`` of shape ``(batch, channels, time, height)``. Copies of the network that move
    the dimension instead have a clearly lower loss on another recorded batch than copies of the network as written.
    """
    program = case.program
    if program is None or program.step is not step:
        return None
    for index in program.order:
        call = step.calls[index]
        if call.name not in _RESHAPES or call.record.dtype.kind not in FLOATING:
            continue
        for source, target in _torn(call.shapes[0], call.shape):
            again = same_calls(program, call)
            changes = Changes(calls=dict.fromkeys(again, _moved(source, target, call.shape)))
            reached = gain(case, changes, "that move it", _LOWER, STEPS)
            if not reached:
                continue
            what = (
                f"{call.name} makes shape {call.shape} of shape {call.shapes[0]}: a dimension of length "
                f"{call.shapes[0][source]} seems to be moved, but its slices get elements of others. {reached}"
            )
            fix = f"move the dimension before: movedim({source}, {target}), then {call.name}"
            values = {"operator": call.name, "row": 0, "count": call.shapes[0][0]}
            edit = Edit("with movedim", changes, one_loss=True)
            return Found(call.record, values, edit, message=what, fix=fix)
    return None


def other_dims(case: Case, step: Step) -> Found | None:
    """Return the finding for a softmax whose network learns far better if it runs along another dimension."""
    program, (first, last) = case.program, case.ends()
    if program is None or program.step is not step or not last > _UNLEARNED * first:
        return None
    seen: set[int] = set()
    for index in program.order:
        call, dim = step.calls[index], step.calls[index].params.get("dim")
        if call.name not in _ALONG or index in seen or not call.needs(0) or not isinstance(dim, int):
            continue
        again = same_calls(program, call)
        seen.update(again)
        size = len(call.shape)
        for other in range(1, size) if len(seen) <= _MOST_CALLS else ():
            if other == dim % size or call.shape[other] < 2:
                continue
            changes = Changes(params=dict.fromkeys(again, {"dim": other}))
            reached = gain(case, changes, f"in which it runs along dimension {other}", _FAR_LOWER)
            if not reached:
                continue
            what = f"{call.name} runs along dimension {dim} of shape {call.shape}. {reached}"
            edit = Edit(f"with dim={other}", changes, one_loss=True)
            return Found(case.edited(step, call), {}, edit, message=what, fix=f"pass dim={other - size}")
    return None


def same_calls(program: Program, like: Call) -> list[int]:
    """Return the calls with the same line, operator and shapes as ``like``, such as those of equal layers."""
    found = [(i, program.step.calls[i]) for i in program.order]
    return [i for i, x in found if (x.name, x.site, x.shapes) == (like.name, like.site, like.shapes)]


def _segments(before: tuple[int, ...], after: tuple[int, ...]) -> Iterator[Segment]:
    """Yield the shortest runs of dimensions with equal products in the shapes before and after a reshape."""
    a = b = i = j = 0
    while i < len(before) and j < len(after):
        x, y = before[i], after[j]
        i, j = i + 1, j + 1
        while x != y:
            if x < y and i < len(before):
                x, i = x * before[i], i + 1
            elif x > y and j < len(after):
                y, j = y * after[j], j + 1
            else:
                return
        yield a, i, b, j
        a, b = i, j


def _torn(before: tuple[int, ...], after: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Yield each dimension that a reshape seems to move, with the place to which ``movedim`` really moves it.

    The dimension has one length in both shapes, but a slice after the reshape has elements of many slices before it.
    """
    if math.prod(before) != math.prod(after) or not math.prod(before):
        return
    for a, i, b, j in _segments(before, after):
        for m, n in itertools.product(range(a, i), range(b, j)):
            rest = [*before[a:m], *before[m + 1 : i]]
            ends = [math.prod(rest[:k]) for k in range(len(rest) + 1)]
            ahead = math.prod(after[b:n])
            if before[m] == after[n] > 1 and ahead in ends and ahead != math.prod(before[a:m]):
                yield m, a + ends.index(ahead)


def _moved(source: int, target: int, shape: tuple[int, ...]) -> Replacement:
    def moved(x: Tensor, *args: object, **params: object) -> Tensor:
        return x.movedim(source, target).reshape(shape)

    return moved


def torn_data(case: Case, step: Step) -> Found | None:
    """Return the finding for data whose elements are not in the order of their shape, such as images (N, H, W, C) that
    were reshaped to (N, C, H, W) before the training."""
    program, call, (first, last) = case.program, first_layer(step), case.ends()
    if program is None or program.step is not step or call is None or not last > _UNLEARNED * first:
        return None
    shape = call.shapes[0]
    if len(shape) not in (3, 4) or len(set(shape[1:])) < 2 or call.index not in program.order:
        return None
    primitive: Array = call.primitive

    def turned(x: Tensor, *others: object, **params: object) -> Tensor:
        result: Tensor = primitive(x.reshape(len(x), *x.shape[2:], x.shape[1]).movedim(-1, 1), *others, **params)
        return result

    changes = Changes(calls={call.index: turned})
    reached = gain(case, changes, "that read them in this order", _FAR_LOWER)
    if not reached:
        return None
    entry = next((one for one in step.outermost() if one.start <= call.index < one.end), None)
    where = reshaping_line(call.site if entry is None else entry.site)
    before = (shape[0], *shape[2:], shape[1])
    what = f"the elements of the inputs of shape {shape} are in the order of shape {before}. {reached}"
    edit = Edit("with movedim", changes, one_loss=True)
    fix = "move the last dimension in place of the reshape: movedim(-1, 1)"
    values = {"operator": "reshape", "row": 0, "count": shape[0]}
    return Found(where or call.record, values, edit, message=what, fix=fix)


def torn_inputs(case: Case, step: Step) -> Found | None:
    """Return the finding for an input that is only related to the targets if its elements are put in another order.

    Example: a state of shape (sequences, layers, units) that was reshaped to (layers, sequences, units).
    """
    program = case.program
    if program is None or program.step is not step or case.ends()[1] < _LEARNED * case.ends()[0]:
        return None
    targets = [_targets(case, x) for x in case.run.steps]
    count = next((len(y) for y in reversed(targets) if y is not None), 0)
    for index, place in ((i, n) for i in program.order for n in range(len(step.calls[i].inputs))):
        x = step.calls[index].inputs[place]
        shape = step.calls[index].shapes[place]
        if x.leaf is not None or x.call >= 0 or len(shape) < 2 or shape[0] == shape[1] or count not in shape[:2]:
            continue
        if min(shape[:2]) < 2:
            continue
        pairs = [
            (numbers(one.calls[index].inputs[place].value), y)
            for one, y in zip(case.run.steps, targets, strict=True)
            if y is not None and index < len(one.calls) and one.calls[index].shapes[place : place + 1] == (shape,)
        ]
        if not pairs or any(a.shape != shape or a.dtype.kind != "f" or len(y) != count for a, y in pairs):
            continue
        of_batch = shape.index(count)
        rows, torn = (np.concatenate([_rows(f(a), of_batch) for a, _ in pairs]) for f in (np.asarray, _torn_back))
        y = np.concatenate([y for _, y in pairs])
        if not rows.std() or not np.isfinite(rows).all() or len(rows) < _LEAST_ROWS:
            continue
        now, other = related(rows, y), related(torn, y)
        if not now < _NOT or not other > _CLEAR:
            continue
        what = (
            f"an input of shape {shape} does not belong to the targets of its examples ({figure(now)} standard "
            f"deviations above permuted ones), and does ({figure(other)}) if it is read in the order of shape "
            f"{(shape[1], shape[0], *shape[2:])}: a reshape has exchanged the lengths of its first two dimensions, "
            "and not the elements."
        )
        entry = next((one for one in step.outermost() if one.start <= index < one.end), None)
        called = step.calls[index].site if entry is None else entry.site
        where = reshaping_line(called) or called
        values = {"operator": "reshape", "row": 0, "count": count}
        fix = "exchange the dimensions with their elements: swapaxes(0, 1) in place of reshape"
        return Found(where, values, unproved="the edit is about the data", message=what, fix=fix)
    return None


def _torn_back(x: np.ndarray) -> np.ndarray:
    """Undo a reshape that exchanged the lengths of the first two dimensions, and transpose the dimensions instead."""
    return x.reshape(x.shape[1], x.shape[0], *x.shape[2:]).swapaxes(0, 1)


def _rows(x: np.ndarray, of_batch: int) -> np.ndarray:
    x = np.moveaxis(x, of_batch, 0)
    return x.reshape(len(x), -1)


def _targets(case: Case, step: Step) -> np.ndarray | None:
    """Return the targets of a recorded step as one number per example."""
    call = case.loss_call(step)
    target = None if call is None else case.target(step, call)
    if target is None or not target.ndim or call is None:
        return None
    return target if call.name in CLASS_LOSSES else target.reshape(len(target), -1).mean(axis=1)


def unrelated_places(case: Case) -> Found | None:
    """Return the finding for images whose targets per pixel are no more related to them than to other images.

    The loss must be that of guessing, and neither the value of a pixel, nor its square, nor the mean of the pixels
    around it may be correlated with the target.
    """
    base, pairs = case.baseline, [one for step in case.run.steps if (one := _images(case, step)) is not None]
    count = sum(len(x) for x, _ in pairs)
    if base is None or not case.ends()[1] > _GUESSED * base or len(case.losses) < 20 or count < _LEAST_IMAGES:
        return None
    if len({x.shape[1:] for x, _ in pairs}) > 1:
        return None
    x, y = (np.concatenate(one) for one in zip(*pairs, strict=True))
    around = np.mean([np.roll(x, (i, j), (1, 2)) for i in (-1, 0, 1) for j in (-1, 0, 1)], axis=0)
    rng = np.random.default_rng(0)
    orders = [np.arange(len(y)), *[rng.permutation(len(y)) for _ in range(_PERMUTATIONS)]]
    for given in (x, around, x * x):
        z = given - given.mean((1, 2), keepdims=True)
        now, *permuted = [abs(float((z * (y[one] - y[one].mean((1, 2), keepdims=True))).mean())) for one in orders]
        if now > float(np.mean(permuted)) + _RELATED * float(np.std(permuted)):
            return None
    step = case.step
    call = case.loss_call(step) if step is not None else None
    given = next((x.pairs for x in case.run.loaders if x.pairs is not None), None)
    where = (None if given is None else returning_line(given)) or (None if call is None else call.site)
    what = (
        f"no place of {len(x)} recorded inputs of shape {x.shape[1:]} tells more about the target of this place than "
        f"about those of other examples, and the loss stays at {figure(case.ends()[1])}, that of guessing."
    )
    fix = "give inputs and targets the same random changes: draw the numbers once for both"
    return Found(where, {"rows": len(x)}, message=what, fix=fix)


def _images(case: Case, step: Step) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the one-channel images that the first layer of a step gets, and targets with one number per pixel."""
    call, first = case.loss_call(step), first_layer(step)
    y = None if call is None or call.name in CLASS_LOSSES else case.target(step, call)
    if first is None or y is None or len(first.shapes[0]) != 4 or first.shapes[0][1] != 1:
        return None
    x = np.asarray(step.array(first.inputs[0]), np.float64)[:, 0]
    y = np.asarray(y, np.float64)
    return (x, y.reshape(x.shape)) if y.size == x.size and len(y) == len(x) and np.isfinite(x).all() else None
