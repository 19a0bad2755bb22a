"""Questions on the data: the scale of inputs, the order and meaning of labels, and examples that mix in a batch."""

from __future__ import annotations

import math

import numpy as np

from ....core.source_location import Site
from ....core.tensor.tensor import new_tensor
from ...record import Record
from ..findings import figure
from ..kinds import BINARY_LOSSES, CLASS_LOSSES, Case, Found, kind
from ..probes.proof import better, compare, train, train_over
from ..probes.replay import NOTHING, Changes, Edit, Program
from ..recording import Array, Call, Params, Source, Step, exchanges, same_source

_LARGE = 20.0  # mean or standard deviation of inputs that are not normalized
_RUNS = 0.4  # share of examples with the label of the example before
_LEAST_ROWS = 160
_MOST_ROWS = 1500
_LEAST_TOKENS = 300
_MOST_TOKENS = 2000  # different ones
_PERMUTATIONS = 19
_TRAINED = 3  # trainings with permuted labels
_FASTER = 0.98  # of their loss, below which the labels are learned faster
_STEPS = 60  # steps of each
_BY_HEART = 0.5  # of the first loss, below which a batch counts as learned by heart


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
    call = _first_layer(step)
    if call is None:
        return None
    x = np.asarray(step.array(call.inputs[0]))
    mean, std = float(x.mean()), float(x.std())
    if not (abs(mean) > _LARGE or std > _LARGE) or not math.isfinite(mean + std):
        return None
    axes = tuple(range(x.ndim - 1)) if x.ndim <= 2 else None
    scaled = ((x - x.mean(axis=axes, keepdims=True)) / (x.std(axis=axes, keepdims=True) + 1e-8)).astype(x.dtype)
    edit = Edit("with normalized inputs", Changes(inputs={(call.index, 0): scaled}), one_loss=True)
    curves = compare(case.run, case.program, edit, case.budget)
    unproved = too = ""
    if curves is None or not better(curves):
        if not _far_targets(case, step, last):
            return None
        too = "; and the targets in the same way"
        unproved = "the targets are as large, and with other targets the losses cannot be compared"
    values = {"mean": figure(mean), "std": figure(std), "low": figure(float(x.min())), "high": figure(float(x.max()))}
    values["too"] = too
    entry = next((one for one in step.outermost() if one.start <= call.index < one.end), None)
    called = entry.site if entry is not None else call.site
    return Found(
        _origin(case, step, call.inputs[0]) or called, values, None if too else edit, None if too else curves, unproved
    )


def _far_targets(case: Case, step: Step, last: float) -> bool:
    """Return whether targets of a regression are so far from 0 that the loss is still above that of their mean."""
    loss = case.loss_call(step)
    target = case.target(step, loss) if loss is not None and loss.name == "mse_loss" else None
    if target is None or not target.size or case.baseline is None:
        return False
    return abs(float(target.mean())) > _LARGE and last > 2 * case.baseline


def _origin(case: Case, step: Step, source: Source) -> Site | None:
    """Return the line that computed data before the first step, of which a step takes a part."""
    for _ in range(10):
        x = step.array(source) if case.has_array(step, source) else None
        found = case.run.data_site(x) if isinstance(x, np.ndarray) else None
        call = step.producer(source)
        if found is not None or call is None or not call.inputs:
            return found
        if not call.moves and call.name not in ("stack", "cat"):
            return None if step.module_of(call) is not None else call.site
        source = call.inputs[0]
    return None


def _first_layer(step: Step) -> Call | None:
    """Return the first call that multiplies data by a parameter."""
    below: set[int] = set()
    for root in step.roots[-1:]:
        below |= step.below(root.source)
    for index in sorted(below):
        call = step.calls[index]
        if call.weight is None or not call.record.inputs or call.needs(0):
            continue
        source = call.inputs[0]
        array = step.array(source) if source.leaf is None and Case.has_array(step, source) else None
        if array is not None and hasattr(array, "dtype") and array.dtype.kind == "f":
            return call
    return None


def _labels(case: Case) -> list[tuple[Step, Call, np.ndarray]]:
    """Return the integer labels of each recorded step."""
    found = []
    for step in case.run.steps:
        for call in case.loss_calls(step)[-1:]:
            if call.name in CLASS_LOSSES:
                found.append((step, call, np.asarray(call.params["classes"].index).reshape(-1)))
            elif call.name.startswith("binary_cross") and len(call.inputs) > 1:
                target = case.target(step, call)
                if target is not None and np.isin(target, (0, 1)).all():
                    found.append((step, call, target.reshape(-1).astype(int)))
    return found


@kind(
    "unshuffled-data",
    "Do batches mix the classes?",
    "labels come in runs: batches of {batch} have {inside} of the {classes} classes on average, so each step unlearns "
    "the classes of the steps before.",
    "shuffle: DataLoader(..., shuffle=True), or x[order], y[order] with order = torch.randperm(len(x))",
    "the doctor runs one batch again, and this edit is about the order of several",
)
def unshuffled_data(case: Case) -> Found | None:
    found = _labels(case)
    if not found:
        return None
    noted = case.run.binary_labels if found[-1][1].name in BINARY_LOSSES else case.run.labels
    labels = [y for y in noted if y.size >= 4] or [y for _, _, y in found if y.size >= 4]
    if len(labels) < 4:
        return None
    if found[-1][1].name in BINARY_LOSSES and not _is_data(case, labels):
        return None
    per_example = [[y[i] for y in labels] for i in _firsts(found[-1][0], labels[-1].size)]
    if any(float(np.mean([(y[1:] == y[:-1]).mean() for y in ys])) < _RUNS for ys in [labels, *per_example]):
        return None  # such as the words of a text, few of which repeat
    sizes = [y.size for y in labels]
    inside = float(np.mean([np.unique(y).size for y in labels]))
    rng = np.random.default_rng(0)
    pool = np.concatenate(labels)
    classes = np.unique(pool)
    expected = float(np.mean([np.unique(rng.choice(pool, size)).size for size in sizes * 4]))
    if classes.size < 2 or inside > 0.6 * expected or inside > 0.5 * classes.size + 0.5:
        return None
    loader = next((x for x in case.run.loaders if not x.shuffled), None)
    where = loader.created if loader is not None else None
    if where is None:
        entry = next(iter(found[-1][0].outermost()), None)
        where = entry.site if entry is not None else found[-1][1].site
    values = {"batch": int(np.median(sizes)), "inside": figure(inside), "classes": int(classes.size)}
    return Found(where, values)


def _firsts(step: Step, size: int) -> list[slice]:
    """Return what selects a label of each example, if examples have several: the first of each row, or the first row.

    Which of the dimensions is that of the batch is not known.
    """
    entry = next((x for x in step.outermost() if x.shapes and len(x.shapes[0]) > 1), None)
    if entry is None:
        return []
    first, second = entry.shapes[0][:2]
    return [slice(None, None, second), slice(0, second)] if first > 1 and second > 1 and first * second == size else []


def _is_data(case: Case, labels: list[np.ndarray]) -> bool:
    """Return whether two classes come from the data, and are not those of a GAN, which alternate from call to call."""
    constant = [int(y[0]) if (y == y[0]).all() else -1 for y in labels]
    changes = sum(a != b for a, b in zip(constant, constant[1:], strict=False))
    return sum(x.steps > 0 for x in case.run.optimizers) == 1 and len(labels) >= 3 * (changes + 1)


@kind(
    "labels-unrelated",
    "Do labels have anything to do with the inputs?",
    "neighbours among {rows} recorded examples share labels no more often than with permuted labels ({real} against "
    "{permuted}), and {heart}.",
    "check the order of inputs and labels: shuffle both by the same permutation",
    "the right order of the labels is not known",
)
def labels_unrelated(case: Case) -> Found | None:
    _, last = case.ends()
    base = _guessing(case)
    if base is None or len(case.losses) < 20 or _are_places(case):
        return None
    rows, labels = _pool(case)
    tokens = not len(labels)
    if tokens:
        rows, labels = _tokens(case)
    if len(labels) < (_LEAST_TOKENS if tokens else _LEAST_ROWS) or np.unique(labels).size < 2:
        return None
    rng = np.random.default_rng(0)
    order = rng.permutation(len(labels))[:_MOST_ROWS]
    rows, labels = rows[order], labels[order]
    real = _agreement(rows, labels)
    if tokens and not last > 0.9 * base:
        return None
    permuted = [_agreement(rows, rng.permutation(labels)) for _ in range(_PERMUTATIONS)]
    if not tokens and (real > max(permuted) or real > float(np.mean(permuted)) + float(np.std(permuted)) + 0.005):
        return None
    apart = [_separation(rows, rng.permutation(labels)) for _ in range(_PERMUTATIONS)]
    if _separation(rows, labels) > float(np.mean(apart)) + 4 * float(np.std(apart)):
        return None  # one input tells something about the labels
    step = case.step
    call = case.loss_call(step) if step is not None else None
    mean = float(np.mean(permuted))
    values = {"rows": len(labels), "real": f"{real:.0%}", "permuted": f"{mean:.0%}", "last": figure(last)}
    if not last > 0.9 * base:
        found = _learned(case, rows, labels)
        if found is None or not _FASTER * float(np.mean(found[1:])) <= found[0] or not np.mean(found[1:]) < 0.98 * base:
            return None
        values["heart"] = (
            f"examples are only learned by heart: copies of the network learn the labels no faster "
            f"({figure(found[0])}) than permuted ones ({figure(min(found[1:]))} to {figure(max(found[1:]))})"
        )
        return Found(None if call is None else call.site, values)
    heart = f"the loss stays at {figure(last)}, that of guessing"
    if case.program is not None:
        curve = train(case.run, case.program, NOTHING, NOTHING, {}, "", Edit(""), case.budget)
        if curve[-1] < _BY_HEART * curve[0]:
            heart += f"; one batch can be learned by heart ({figure(curve[0])} -> {figure(curve[-1])})"
    return Found(None if call is None else call.site, {**values, "heart": heart})


def _are_places(case: Case) -> bool:
    """Return whether all batches have the same labels, all different, for other inputs: places in the batch.

    Contrastive losses have such labels.
    """
    known = [
        (step.array(call.inputs[0]), y) for step, _, y in _labels(case) if (call := _first_layer(step)) is not None
    ]
    (x, labels), *others = known or [(None, np.zeros(0))]
    same = [np.array_equal(y, labels) and np.unique(y).size == y.size for _, y in others]
    return bool(same) and all(same) and not all(np.array_equal(x, other) for other, _ in others)


def _learned(case: Case, rows: np.ndarray, labels: np.ndarray) -> list[float] | None:
    """Return the losses of copies of the network that learn all rows: with the labels, and with permuted labels."""
    step, program = case.step, case.program
    loss = case.loss_call(step) if step is not None else None
    first = _first_layer(step) if step is not None else None
    if step is None or program is None or loss is None or loss.name not in CLASS_LOSSES or first is None:
        return None
    given, classes = first.inputs[0], loss.params["classes"]
    feeds = [(i, n) for i in program.order for n, x in enumerate(step.calls[i].inputs) if same_source(x, given)]
    shape = first.shapes[0]
    batches = [slice(i, i + shape[0]) for i in range(0, len(rows) - shape[0] + 1, shape[0])]
    if classes.index.shape != shape[:1] or not batches:
        return None
    rng = np.random.default_rng(1)
    losses = []
    for answers in [labels, *[rng.permutation(labels) for _ in range(_TRAINED)]]:
        changes = [
            Changes(
                inputs=dict.fromkeys(feeds, rows[one].reshape(shape).astype(first.record.dtype)),
                params={loss.index: {"classes": classes._replace(index=answers[one].astype(np.int64))}},
            )
            for one in batches
        ]
        curve = train_over(case.run, program, changes, max(1, _STEPS // len(batches)), case.budget)
        if curve is None:
            return None
        losses.append(float(np.mean(curve[len(curve) // 2 :])))
    return losses


def _guessing(case: Case) -> float | None:
    labels = _pool(case)[1]
    labels = labels if len(labels) else _tokens(case)[1]
    if not len(labels):
        return None
    shares = np.bincount(labels) / len(labels)
    shares = shares[shares > 0]
    return float(-(shares * np.log(shares)).sum())


def _pool(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs, one flat row per example, and labels of the recorded steps whose inputs were kept."""
    xs, ys = [], []
    for step, _, labels in _labels(case):
        call = _first_layer(step)
        if call is None:
            continue
        x = np.asarray(step.array(call.inputs[0]))
        if x.shape[:1] == labels.shape[:1] and np.isfinite(x).all() and labels.size and labels.min() >= 0:
            xs.append(x.reshape(len(x), -1))
            ys.append(labels)
    for x, labels in case.run.pairs:
        if xs and x.shape[1] == xs[0].shape[1] and np.isfinite(x).all() and labels.min() >= 0:
            xs.append(x)
            ys.append(labels)
    widths = {x.shape[1] for x in xs}
    if len(widths) != 1:
        return np.zeros((0, 1)), np.zeros(0, int)
    rows, labels = np.concatenate(xs), np.concatenate(ys)
    unique = np.unique(rows, axis=0, return_index=True)[1]
    return rows[unique], labels[unique]


def _tokens(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Return rows that describe the integer inputs of recorded steps, and labels: of each example, or of each place.

    A row has the counts of the inputs of an example, and for labels of places the input at the place.
    """
    found = [(index, y) for step, _, y in _labels(case) if (index := _looked_up(step)) is not None]
    size = max([int(index.max()) + 1 for index, _ in found], default=0)
    xs, ys = [], []
    for index, y in found if size <= _MOST_TOKENS else ():
        index = index.reshape(len(index), -1)
        counts = np.stack([np.bincount(row, minlength=size) for row in index])
        if y.size == index.size and index.shape[1] > 1:
            xs.append(np.concatenate([np.repeat(counts, index.shape[1], 0), np.eye(size)[index.reshape(-1)]], axis=1))
        elif y.size == len(index):
            xs.append(counts)
        else:
            continue
        ys.append(y)
    if not xs or len({x.shape[1] for x in xs}) != 1:
        return np.zeros((0, 1)), np.zeros(0, int)
    rows, labels = np.concatenate(xs).astype(np.float32), np.concatenate(ys)
    return rows[labels >= 0], labels[labels >= 0]


def _looked_up(step: Step) -> np.ndarray | None:
    """Return the indices of the first embedding of a step, a row for each example."""
    for call in step.calls:
        if call.name == "embedding" and (index := _index_of(call)).ndim and index.size and index.min() >= 0:
            return index
    return None


def _separation(x: np.ndarray, y: np.ndarray) -> float:
    """Return the largest share of an input's variance that lies between the means of the classes."""
    z = (x - x.mean(0)) / (x.std(0) + 1e-8)
    means = np.stack([z[y == value].mean(0) * math.sqrt((y == value).mean()) for value in np.unique(y)])
    return float((means * means).sum(0).max())


def _agreement(x: np.ndarray, y: np.ndarray) -> float:
    """Return how often the majority of the five nearest other examples has the same label."""
    z = (x - x.mean(0)) / (x.std(0) + 1e-8)
    squares = (z * z).sum(1)
    distances = squares[:, None] + squares[None] - 2 * z @ z.T
    np.fill_diagonal(distances, np.inf)
    near = np.argpartition(distances, min(5, len(y) - 2), axis=1)[:, :5]
    return float((y[near] == y[:, None]).mean())


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
    found = _reordered(step) or _reordered_before(case, step)
    if found is not None:
        return found
    for entry in step.outermost():
        for given, shape in zip(entry.inputs, entry.shapes, strict=True):
            count = shape[0] if shape and entry.grad_enabled else 0
            for end in entry.outputs if count > 1 and _is_batch(case, count) else ():
                found = _mixing(case, step, given, end, count)
                if found is not None:
                    return found
    return None


def _reordered(step: Step) -> Found | None:
    """Return the finding for a reshape that exchanges the lengths of the first two dimensions, but not the elements."""
    below: set[int] = set()
    for root in step.roots:
        below |= step.below(root.source)
    for index in sorted(below):
        call = step.calls[index]
        if call.name not in ("view", "reshape", "flatten") or len(call.shapes[0]) < 2 or len(call.shape) < 2:
            continue
        if exchanges(call.shapes[0], call.shape):
            return _view(call.record, call.name, call.shape)
    return None


def _reordered_before(case: Case, step: Step) -> Found | None:
    """Return the finding for such a reshape of the data before the first step, if a step reads its result."""
    for view in case.run.views:
        for call in step.passed():
            arrays = [x.value for x in call.inputs if x.leaf is None and isinstance(x.value, np.ndarray)]
            arrays += [step.array(x) for x in call.inputs if x.call >= 0 and Case.has_array(step, x)]
            if any(isinstance(x, np.ndarray) and view.holds(x) for x in arrays):
                return _view(view.site, view.name, view.shape)
    return None


def _view(where: Record | Site, name: str, shape: tuple[int, ...]) -> Found:
    return Found(where, {"operator": name, "row": 0, "count": shape[0], "other": 1, "fix": _MIXERS["view"]})


def _is_batch(case: Case, count: int) -> bool:
    """Return whether this is the number of examples: of a DataLoader, or of the targets."""
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


def _mixing(case: Case, step: Step, start: Source, end: Source, count: int) -> Found | None:
    """Return the finding for the operator by which an output depends on the input of another example."""
    if end.call < 0:
        return None
    program = Program(step, end, moving=False)
    if len(program.order) > 4000:
        return None
    suspects = [i for i in program.order if step.calls[i].name in _MIXERS and not _along_last(step.calls[i])]
    if not suspects:
        return None
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
    for index in [end.call, *suspects]:
        call = step.calls[index]
        if not call.shape or call.shape[0] != count or index != end.call and index not in program.order:
            continue
        pair = _other_row(case, program, step, feeds, looked_up, Source(index, 0, None, None), count)
        if pair is None:
            if index == end.call:
                return None
            continue
        if index == end.call and index not in suspects:
            at_end = pair
            continue
        return _mixed(case, step, call, pair, count)
    along = [step.calls[i] for i in suspects if at_end is not None and _runs_along(step.calls[i], count)]
    return _mixed(case, step, along[0], at_end, count) if along and at_end is not None else None


def _mixed(case: Case, step: Step, call: Call, pair: tuple[int, int], count: int) -> Found:
    values = {"operator": call.name, "row": pair[0], "count": count, "other": pair[1], "fix": _MIXERS[call.name]}
    return Found(case.edited(step, call), values)


def _along_last(call: Call) -> bool:
    """Return whether a softmax already has the dimension that the edit would give it."""
    return call.name in _SOFTMAX and call.params.get("dim") in (-1, len(call.shape) - 1)


def _runs_along(call: Call, count: int) -> bool:
    """Return whether a softmax normalizes along a dimension of this length, which no other dimension has."""
    dim, shape = call.params.get("dim"), call.shape
    if call.name not in _SOFTMAX or not isinstance(dim, int) or not -len(shape) <= dim < len(shape):
        return False
    return shape[dim] == count and shape.count(count) == 1


def _index_of(call: Call) -> np.ndarray:
    """Return the rows that an embedding looks up."""
    return np.asarray(call.params["index"].key[0])


def _shares(call: Call, array: Array) -> bool:
    """Return whether an embedding looks up these indices."""
    index = _index_of(call)
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
    """Return an example, and another one whose input changes its output."""
    values = {key: new_tensor(x) for key, x in step.values.items()}
    base = {key: np.asarray(step.array(x)) for key, x in feeds.items()}
    indices = {i: _index_of(step.calls[i]) for i in looked_up}
    try:
        # Of the same inputs as below: the recorded call that made them may have been written to since.
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
            moved = np.abs(after - before).reshape(count, -1).max(1)
            moved[row] = 0
            if float(moved.max()) > 1e-5 * scale:
                return int(moved.argmax()), row
    except Exception:
        return None
    return None
