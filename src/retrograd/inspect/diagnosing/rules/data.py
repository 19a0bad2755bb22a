"""Rules on the data: the scale of inputs, and operators that mix the examples of a batch."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ....core.arrays.dtypes import FLOATING
from ....core.source_location import Site
from ....core.tensor.tensor import new_tensor
from ..findings import figure
from ..kinds import Case, Found, kind
from ..probes.proof import better, compare
from ..probes.replay import Changes, Edit, Program
from ..step_recorder import Array, Call, Params, Source, Step, same_source
from .dimensions.layouts import first_layer, torn_inputs, torn_slices
from .dimensions.mixing import meeting, of_rows, remedy

_SMALL = 2e-3  # with a smaller mean and standard deviation, a network starts as if all inputs were 0
_LARGE = 20.0  # inputs with a larger mean or standard deviation are not normalized


@kind(
    "unnormalized-input",
    "Do inputs have a scale that layers are initialized for?",
    "inputs of the first layer have mean {mean} and standard deviation {std} (from {low} to {high}); layers are "
    "initialized for inputs around 0 with standard deviation 1.",
    "normalize: x = (x - mean) / std, with the statistics of the training data{too}",
)
def unnormalized_input(case: Case) -> Found | None:
    step = case.step
    first, last = case.ends()
    if step is None or len(case.losses) < 5 or math.isfinite(last) and last < 0.3 * first and not case.stuck:
        return None
    call = first_layer(step)
    if call is None:
        return None
    x = step.numbers(call.inputs[0])
    mean, std = float(x.mean()), float(x.std())
    small = 0 < std < _SMALL and abs(mean) < _SMALL
    if not (abs(mean) > _LARGE or std > _LARGE or small and case.stuck) or not math.isfinite(mean + std):
        return None
    axes = tuple(range(x.ndim - 1)) if x.ndim <= 2 else None
    scaled = (x - x.mean(axis=axes, keepdims=True)) / (x.std(axis=axes, keepdims=True) + 1e-8)
    edit = Edit(
        "with normalized inputs",
        Changes(inputs={(call.index, 0): scaled.astype(call.record.inputs[0].dtype)}),
        one_loss=True,
    )
    curves = compare(case.run, case.program, edit, case.budget)
    unproved = too = ""
    if curves is None or not better(curves):
        if _far_targets(case, step, last):
            too = "; and the targets in the same way"
            unproved = "the targets are as large, and with other targets the losses cannot be compared"
        elif case.died:
            unproved = "the gradients of all parameters became 0 later, and not on the recorded batch alone"
        else:
            return None
    values = {"mean": figure(mean), "std": figure(std), "low": figure(float(x.min())), "high": figure(float(x.max()))}
    values["too"] = too
    entry = next((one for one in step.outermost() if one.start <= call.index < one.end), None)
    called = entry.site if entry is not None else call.site
    return Found(
        data_origin(case, step, call.inputs[0]) or called,
        values,
        None if unproved else edit,
        None if unproved else curves,
        unproved,
    )


def _far_targets(case: Case, step: Step, last: float) -> bool:
    """Return whether regression targets are so far from 0 that the loss is still above that of predicting the mean."""
    loss = case.loss_call(step)
    target = case.target(step, loss) if loss is not None and loss.name == "mse_loss" else None
    if target is None or not target.size or case.baseline is None:
        return False
    return abs(float(target.mean())) > _LARGE and last > 1.2 * case.baseline


def data_origin(case: Case, step: Step, source: Source) -> Site | None:
    """Return the line that computed data before the first step, if a step reads a part of these data."""
    for _ in range(10):
        x = step.array(source) if case.has_array(step, source) else None
        found = case.run.data_site(x) if isinstance(x, np.ndarray) else None
        call = step.producer(source)
        if found is not None or call is None or not call.inputs:
            fed = case.run.fed if call is None and found is None else None
            return fed[0] if fed is not None and getattr(x, "shape", ())[1:] == fed[1] else found
        if not call.moves and call.name not in ("stack", "cat"):
            return None if step.module_of(call) is not None else call.site
        known = [x for x in call.inputs if case.has_array(step, x) and np.size(step.array(x))]
        # Of several inputs, follow the one with the largest numbers.
        source = max(known or call.inputs, key=lambda x: float(np.abs(step.array(x)).max()) if known else 0.0)
    return None


@kind(
    "batch-mixing",
    "Does the output for an example depend on this example only?",
    "{operator} on this line mixes examples: the output for example {row} of {count} changes with the input of "
    "example {other}.",
    "{fix}",
    "the recorded step does not show which dimension is meant",
)
def batch_mixing(case: Case) -> Found | None:
    step = case.step
    if step is None:
        return None
    found = torn_slices(case, step) or torn_inputs(case, step)
    if found is not None:
        return found
    for entry in step.outermost():
        for given, shape in zip(entry.inputs, entry.shapes, strict=True):
            count = shape[0] if shape and entry.grad_enabled else 0
            rows = count > 1 and _is_batch(case, count) and not _time_is_first(case, step, given, count)
            for end in entry.outputs if count > 1 else ():
                turned = end.call >= 0 and _exchanged(shape, step.calls[end.call].shape)
                found = _mixing(case, step, given, end, count) if rows or turned and entry.grad_enabled else None
                if found is not None:
                    return found
    return _before_the_loss(case, step)


def _before_the_loss(case: Case, step: Step) -> Found | None:
    """Return the finding for a reshape between data and predictions that mixes the elements of several examples."""
    call = case.loss_call(step)
    target = None if call is None else case.target(step, call)
    if call is None or target is None or not target.ndim or call.shapes[0][:1] != target.shape[:1]:
        return None
    program, count = Program(step, call.inputs[0], moving=False), len(target)
    feeds = {
        (i, place): x
        for i in program.order
        for place, x in enumerate(step.calls[i].inputs)
        if step.calls[i].record.requires_grad and not step.calls[i].needs(place) and _is_data(step, x, count)
    }
    for index in program.order if feeds and count > 1 else ():
        call = step.calls[index]
        if call.name not in ("view", "reshape") or call.shapes[0][:1] != (count,) or count not in call.shape[:2]:
            continue
        before, after = (
            _other_row(case, program, step, feeds, [], x, count) for x in (call.inputs[0], Source(index, 0, None, None))
        )
        if before is None and after is not None:
            return _mixed(case, step, call, after, count)
    return None


def _is_data(step: Step, x: Source, count: int) -> bool:
    """Return whether an input has ``count`` rows of floating-point numbers, and no other dimension of this length."""
    data = step.array(x) if x.leaf is None and Case.has_array(step, x) else None
    if not isinstance(data, np.ndarray) or data.dtype.kind not in FLOATING or data.ndim < 2:
        return False
    return data.shape[0] == count and count not in data.shape[1:]


def _exchanged(given: tuple[int, ...], result: tuple[int, ...]) -> bool:
    """Return whether a model gets shape (examples, ..., times, ...) and returns shape (times, examples, ...)."""
    return len(result) > 2 and result[1] == given[0] != result[0] and result[0] in given[1:]


def _is_batch(case: Case, count: int) -> bool:
    """Return whether ``count`` is the batch size of a DataLoader or the number of targets."""
    if any(x.batch_size == count for x in case.run.loaders):
        return True
    step = case.step
    call = case.loss_call(step) if step is not None else None
    target = case.target(step, call) if step is not None and call is not None else None
    return target is not None and target.ndim >= 1 and target.shape[0] == count


_MIXERS = {
    "view": "permute or transpose the dimensions before view()",
    "reshape": "permute or transpose the dimensions before reshape(), which only reads elements in their order",
    "lstm": "pass batch_first=True, or permute the input to (time, batch, features)",
    "gru": "pass batch_first=True, or permute the input to (time, batch, features)",
    "rnn": "pass batch_first=True, or permute the input to (time, batch, features)",
    "scaled_dot_product_attention": "pass batch_first=True, or permute the input to (time, batch, features)",
    "softmax": "pass dim=-1 to softmax",
    "log_softmax": "pass dim=-1 to log_softmax",
}
_SOFTMAX = ("softmax", "log_softmax")
_RECURRENT = ("lstm", "gru", "rnn")
_SMOOTH = 0.5  # in smooth series, the mean change between rows is smaller than this share of that between columns
_LEAST_ROWS = 5


def _mixing(case: Case, step: Step, start: Source, end: Source, count: int) -> Found | None:
    """Return the finding for the operator that makes the output for an example depend on another example's input."""
    if end.call < 0:
        return None
    program = Program(step, end, moving=False)
    if len(program.order) > 4000:
        return None
    suspects = [i for i in program.order if step.calls[i].name in _MIXERS and not _along_last(step.calls[i])]
    suspects = [i for i in suspects if not _is_square(step.calls[i])]
    feeds = {
        (i, place): x
        for i in program.order
        for place, x in enumerate(step.calls[i].inputs)
        if same_source(x, start) and hasattr(step.array(x) if case.has_array(step, x) else None, "dtype")
    }
    given = step.array(start) if case.has_array(step, start) else None
    looked_up = [
        i
        for i in program.order
        if step.calls[i].name == "embedding" and given is not None and _shares(step.calls[i], given)
    ]
    if not feeds and not looked_up:
        return None
    at_end = None
    if not suspects:
        return _met(case, program, step, feeds, looked_up, count)
    for index in [end.call, *suspects]:
        call = step.calls[index]
        if count not in call.shape[:2] or index != end.call and index not in program.order:
            continue
        pair = _other_row(case, program, step, feeds, looked_up, Source(index, 0, None, None), count)
        if pair is None:
            if index == end.call:
                return None
            continue
        if index == end.call and at_end is None:
            at_end = pair
            continue
        return _mixed(case, step, call, pair, count)
    along = [step.calls[i] for i in suspects if at_end is not None and _runs_along(step.calls[i], count)]
    if along and at_end is not None:
        return _mixed(case, step, along[0], at_end, count)
    return _met(case, program, step, feeds, looked_up, count) if at_end is not None else None


def _met(
    case: Case,
    program: Program,
    step: Step,
    feeds: dict[tuple[int, int], Source],
    looked_up: list[int],
    count: int,
) -> Found | None:
    """Return the finding for an operator outside of ``_MIXERS`` whose result depends on two examples."""
    base = {key: np.asarray(step.array(x)) for key, x in feeds.items()}
    params = {i: (step.calls[i].params, index_of(step.calls[i])) for i in looked_up}
    if any(x.shape[:1] != (count,) for x in (*base.values(), *[x for _, x in params.values()])):
        return None
    call = meeting(program, step, [of_rows(base, params, row) for row in (-1, 0, count - 1)])
    fix = remedy(call) or _MIXERS.get(call.name, "") if call is not None else ""
    if call is None or not fix or _along_last(call) or _is_square(call):
        return None
    values = {"operator": call.record.call, "row": 0, "count": count, "other": count - 1, "fix": fix}
    return Found(case.edited(step, call), values)


def _mixed(case: Case, step: Step, call: Call, pair: tuple[int, int], count: int) -> Found:
    entry = step.module_of(call)
    time_first = entry is not None and getattr(entry.module, "batch_first", True) is False
    name, fix = call.name, _MIXERS[call.name]
    if name in _RECURRENT and entry is not None and getattr(entry.module, "batch_first", False):
        fix = "leave out batch_first=True, as time comes first here, or permute the input to (batch, time, features)"
    if entry is not None and time_first and name not in _RECURRENT:
        name, fix = type(entry.module).__name__, _MIXERS["scaled_dot_product_attention"]
    values = {"operator": name, "row": pair[0], "count": count, "other": pair[1], "fix": fix}
    return Found(case.edited(step, call), values)


def _is_square(call: Call) -> bool:
    """Return whether a recurrent layer gets as many examples as time steps, so that shapes do not show the order."""
    shape = call.shapes[0]
    return call.name in _RECURRENT and len(shape) > 2 and shape[0] == shape[1]


def _along_last(call: Call) -> bool:
    """Return whether a softmax already runs along the last dimension, as after the edit."""
    return call.name in _SOFTMAX and call.params.get("dim") in (-1, len(call.shape) - 1)


def _runs_along(call: Call, count: int) -> bool:
    """Return whether a softmax runs along a dimension of this length, and no other dimension has this length."""
    dim, shape = call.params.get("dim"), call.shape
    if call.name not in _SOFTMAX or not isinstance(dim, int) or not -len(shape) <= dim < len(shape):
        return False
    return shape[dim] == count and shape.count(count) == 1


def index_of(call: Call) -> np.ndarray:
    """Return the rows that an embedding looks up."""
    return np.asarray(call.params["index"].key[0])


def _shares(call: Call, array: Array) -> bool:
    """Return whether an embedding looks up these indices."""
    index = index_of(call)
    return index.shape == array.shape and (np.shares_memory(index, array) or np.array_equal(index, array))


def _other_row(
    case: Case,
    program: Program,
    step: Step,
    feeds: dict[tuple[int, int], Source],
    looked_up: list[int],
    end: Source,
    count: int,
) -> tuple[int, int] | None:
    """Return the indices of an example whose output changes with another example's input, and of that example."""
    values = {key: new_tensor(x) for key, x in step.values.items()}
    base = {key: np.asarray(step.array(x)) for key, x in feeds.items()}
    indices = {i: index_of(step.calls[i]) for i in looked_up}
    try:
        # Use copies of the inputs in both runs, since the recorded arrays may have been written to after the recording.
        before = np.asarray(program.run(values, Changes(inputs=base), wanted=end).array)
        for row in (count - 1, 0):
            changed = {}
            for key, x in base.items():
                if x.shape[:1] != (count,):
                    return None
                other = x.copy()
                other[row] = x[(row + 1) % count] if x.dtype.kind in "iu" else x[row] + 1 + np.abs(x[row])
                changed[key] = other
            params: dict[int, Params] = {}
            for i, x in indices.items():
                other = x.copy()
                other[row] = x[row][..., ::-1] if x.ndim > 1 else x[(row + 1) % count]
                other[row] = (other[row] + 1) % (int(x.max()) + 1)
                params[i] = {"index": step.calls[i].params["index"].with_key((other,))}
            after = np.asarray(program.run(values, Changes(inputs=changed, params=params), wanted=end).array)
            scale = float(np.abs(before).max()) or 1.0
            change = np.abs(after - before)
            if before.shape[0] != count:  # the result has the time axis first
                change = change.swapaxes(0, 1)
            moved = change.reshape(count, -1).max(1)
            moved[row] = 0
            if float(moved.max()) > 1e-5 * scale:
                return int(moved.argmax()), row
    except Exception:
        return None
    return None


def _time_is_first(case: Case, step: Step, given: Source, count: int) -> bool:
    """Return whether ``count`` is a number of time steps, judging by states that the program passes and by its data."""
    width = _width(step, given, count)
    if width is None:
        return False
    sizes = {x.batch_size for x in case.run.loaders}
    if count not in sizes and (width == 1 or width in sizes or _has_state(case, width)):
        return True
    ordered = not any(x.batch_size == count and x.shuffled for x in case.run.loaders)
    if ordered and _has_state(case, width, carried=True):
        return True
    call = case.loss_call(step)
    target = case.target(step, call) if call is not None else None
    if target is None or target.shape[:1] == (count,) and target.shape[1:2] != (width,):
        return False  # each row has a target, so the rows are examples
    data = list(_data(case, step, given, (count, width)))
    return any(_continues(x, target) or _is_smooth(x) or _begins_alike(x) for x in data)


def _width(step: Step, given: Source, count: int) -> int | None:
    """Return the second dimension of an array whose first dimension is ``count``: an input of a recurrent layer, or
    tokens or sequences of vectors that another layer gets."""
    inner = [x.shapes[0] for x in step.calls if x.name in _RECURRENT]
    outer = step.calls[given.call].shape if given.call >= 0 else np.shape(step.array(given))
    kept = given.call < 0 or len(step.calls[given.call].outputs) > given.output
    tokens = kept and getattr(step.array(given), "dtype", np.dtype(float)).kind in "iu"
    shapes = [x for x in inner if len(x) > 2]
    if len(outer) == 3 or len(outer) == 2 and (inner or tokens):
        shapes.append(outer)
    return next((int(x[1]) for x in shapes if x[0] == count and (x[1] > 1 or x is not outer)), None)


def _has_state(case: Case, width: int, carried: bool = False) -> bool:
    """Return whether the program passes a state for ``width`` examples to a recurrent layer; with ``carried``, whether
    an earlier step computed this state."""
    for step in case.run.steps:
        for entry in step.modules:
            if type(entry.module).__name__ not in ("RNN", "LSTM", "GRU"):
                continue
            for source, shape in zip(entry.inputs[1:], entry.shapes[1:], strict=True):
                if len(shape) == 3 and shape[1] == width and (not carried or _is_carried(step, source)):
                    return True
    return False


def _is_carried(step: Step, source: Source) -> bool:
    """Return whether a state was computed in an earlier step: no call of this step did, and its values differ."""
    origin = step.origin(source)
    values = origin.value if origin.call < 0 and origin.leaf is None else None
    return isinstance(values, np.ndarray) and bool((values != values.flat[0]).any())


def _data(case: Case, step: Step, given: Source, shape: tuple[int, int]) -> Iterator[np.ndarray]:
    """Yield arrays with these first two dimensions: the input of a layer, and the indices of embeddings."""
    array = step.array(given) if case.has_array(step, given) else None
    if isinstance(array, np.ndarray) and array.shape[:2] == shape:
        yield array
    for call in step.calls:
        if call.name == "embedding":
            index = index_of(call)
            if index.shape[:2] == shape:
                yield index


def _continues(x: np.ndarray, target: np.ndarray) -> bool:
    """Return whether the target of a row is the next row of the input."""
    if len(x) < 3 or target.shape[0] != len(x):
        return False
    for one in (x, x[..., 0], x.argmax(-1)) if x.ndim > 2 else (x,):
        if one.shape == target.shape and _varies(one[1:]) and np.array_equal(one[1:], target[:-1]):
            return True
    return False


def _is_smooth(x: np.ndarray) -> bool:
    """Return whether floating-point numbers change much less from row to row than from column to column."""
    if x.dtype.kind != "f" or x.shape[0] < _LEAST_ROWS or x.shape[1] < 2:
        return False
    down, across = (float(np.abs(np.diff(x, axis=axis)).mean()) for axis in (0, 1))
    return down < _SMOOTH * across


def _begins_alike(x: np.ndarray) -> bool:
    """Return whether the columns of an index array, and not the rows, begin with one symbol or end with padding."""
    if x.dtype.kind not in "iu" or x.ndim != 2 or min(x.shape) < 3:
        return False
    if not _varies(x[0]) and _varies(x[:, 0]) and _varies(x[1:-1]):
        return True
    return any(_is_filled(x, pad) and not _is_filled(x.T, pad) for pad in {0, int(x[-1].max()), int(x[-1].min())})


def _is_filled(x: np.ndarray, pad: int) -> bool:
    """Return whether columns end with runs of the symbol ``pad``, of different lengths whose mean is at least 1."""
    filled = x == pad
    counts = filled.sum(0)
    return bool((np.diff(filled.astype(int), axis=0) >= 0).all()) and _varies(counts) and float(counts.mean()) >= 1


def _varies(x: np.ndarray) -> bool:
    return bool(x.size) and bool((x != x.flat[0]).any())
