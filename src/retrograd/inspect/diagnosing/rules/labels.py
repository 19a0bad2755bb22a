"""Rules on labels: their order, and whether they are related to the inputs."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..findings import figure
from ..kinds import BINARY_LOSSES, CLASS_LOSSES, Case, Found, HasPlace, kind
from ..probes.proof import train, train_over
from ..probes.relations import agreement, correlations, guessing, information, separation, shifted
from ..probes.replay import NOTHING, Changes, Edit
from ..step_recorder import Call, Source, Step, same_source, start_of
from .data import index_of
from .dimensions.layouts import first_layer, unrelated_places
from .program_text import of_zipped_loaders, permuted_apart, returning_line, sorting_line

_RUNS = 0.4  # labels come in runs if at least this share of examples has the label of the previous example
_LEAST_ROWS = 160
_LEAST_NUMBERS = 60
_LEAST_AGAIN = 100  # the least number of examples that were seen before
_LEAST_LENGTH = 4  # the least length of an input, without padding, that identifies an example
_MOST_ROWS = 1500
_LEAST_TOKENS = 300
_MOST_TOKENS = 2000  # the most different tokens
_PERMUTATIONS = 19
_ABOVE = 1.25  # a loss above this multiple of the loss of guessing has another cause: the steps
_AROUND = 2  # the number of neighboring places, before and after a label, that are compared with the label
_FASTER = 0.98  # labels are learned faster if their loss is below this share of that of permuted labels
_STEPS = 60  # the largest number of steps of each training
_LONG = 60  # runs with at least this many steps are long
_NOT, _CLEAR = 2.0, 6.0  # limits of relations, in standard deviations above the mean of permuted labels
_CHECK = "check the order of inputs and labels: shuffle both by the same permutation"
_ONE_ORDER = "permute both by one order: order = torch.randperm(len(x)); x, y = x[order], y[order]"
_RECURRENT = frozenset({"rnn", "lstm", "gru"})
_ROW_BY_ROW = frozenset(  # operators whose result has a row for each row of their input
    ["linear", "convolution", "batch_norm", "batch_norm_given", "layer_norm", "group_norm", "dropout"]
    + ["max_pool", "avg_pool", "softmax", "log_softmax", "norm"]
)
_MEMORIZED = 0.5  # fraction of the first loss; below it a batch counts as memorized


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
    several = sum(x.name in CLASS_LOSSES for x in case.loss_calls(found[-1][0]))
    if several > 1 and noted is case.run.labels:  # each loss of a domain adversary has only one class
        losses = [noted[n::several] for n in range(several)]
        noted = next((ys for ys in losses if len({int(x) for y in ys for x in (y.min(), y.max())}) > 1), [])
    labels = [y for y in noted if y.size >= 4] or [y for _, _, y in found if y.size >= 4]
    if len(labels) < 4:
        return None
    if found[-1][1].name in BINARY_LOSSES and not _is_data(case, labels):
        return None
    per_example = [[y[i] for y in labels] for i in _firsts(found[-1][0], labels[-1].size)]
    if any(float(np.mean([(y[1:] == y[:-1]).mean() for y in ys])) < _RUNS for ys in [labels, *per_example]):
        return None  # no runs of one label, as in the words of a text
    sizes = [y.size for y in labels]
    inside = float(np.mean([np.unique(y).size for y in labels]))
    rng = np.random.default_rng(0)
    pool = np.concatenate(labels)
    classes = np.unique(pool)
    expected = float(np.mean([np.unique(rng.choice(pool, size)).size for size in sizes * 4]))
    if classes.size < 2 or inside > 0.6 * expected or inside > 0.5 * classes.size + 0.5:
        return None
    sequential = [x for x in case.run.loaders if not x.shuffled]
    size = int(np.median(sizes))
    loader = next((x for x in sequential if x.batch_size == size), None)
    if loader is None and not any(x.batch_size == size for x in case.run.loaders):
        loader = next(iter(sequential), None)  # there are several labels per example: words, pixels
    where = loader.created if loader is not None else None
    if where is None:
        entry = next((x for x in found[-1][0].outermost() if x.grad_enabled), None)
        where = entry.site if entry is not None else found[-1][1].site
    values = {"batch": size, "inside": figure(inside), "classes": int(classes.size)}
    return Found(where, values)


def _firsts(step: Step, size: int) -> list[slice]:
    """Return two slices that each select one label per example, if examples have several labels; otherwise none.

    There are two since the batch may be either dimension: the first label of each row, or the first row.
    """
    entry = next((x for x in step.outermost() if x.shapes and len(x.shapes[0]) > 1), None)
    if entry is None:
        return []
    first, second = entry.shapes[0][:2]
    return [slice(None, None, second), slice(0, second)] if first > 1 and second > 1 and first * second == size else []


def _is_data(case: Case, labels: list[np.ndarray]) -> bool:
    """Return whether labels 0 and 1 come from data, and not from a GAN, whose labels alternate from call to call."""
    constant = [int(y[0]) if (y == y[0]).all() else -1 for y in labels]
    changes = sum(a != b for a, b in zip(constant, constant[1:], strict=False))
    return sum(x.steps > 0 for x in case.run.optimizers) == 1 and len(labels) >= 3 * (changes + 1)


@kind(
    "labels-unrelated",
    "Do labels have anything to do with the inputs?",
    "neighbors among {rows} recorded examples share labels no more often than with permuted labels ({real} against "
    "{permuted}), and {heart}.",
    "{fix}",
    "the right order of the labels is not known",
)
def labels_unrelated(case: Case) -> Found | None:
    other = _of_other_rows(case) or _of_repeated(case) or _of_neighbors(case) or unrelated_places(case)
    if other is not None:
        return other
    _, last = case.ends()
    rows, labels = _pool(case)
    tokens = not len(labels)
    if tokens:
        rows, labels = _tokens(case)
    base = guessing(labels)
    if base is None and len(case.losses) >= 20:
        return _unrelated_numbers(case)
    if base is None or len(case.losses) < 20 or _are_places(case):
        return None
    if len(labels) < (_LEAST_TOKENS if tokens else _LEAST_ROWS) or np.unique(labels).size < 2:
        return None
    rng = np.random.default_rng(0)
    order = rng.permutation(len(labels))[:_MOST_ROWS]
    rows, labels = rows[order], labels[order]
    real = agreement(rows, labels)
    if tokens and (not last > 0.9 * base or _follow_places(case)):
        return None
    if last > _ABOVE * base:
        return None  # the loss is far above that of guessing, which bad steps cause and not bad labels
    permuted = [agreement(rows, rng.permutation(labels)) for _ in range(_PERMUTATIONS)]
    most, spread = float(np.mean(permuted)) + 0.005, float(np.std(permuted))
    chance = min(max(permuted), most + spread) if _permuting(case) is None else most + 5 * spread
    if len(case.losses) >= _LONG and last > 0.97 * base:
        chance = max(chance, most + 2 * spread)  # nothing was learned in a long run
    if not tokens and real > chance:
        return None
    apart = [separation(rows, rng.permutation(labels)) for _ in range(_PERMUTATIONS)]
    if separation(rows, labels) > float(np.mean(apart)) + 4 * float(np.std(apart)):
        return None  # a single number of the input is related to the labels
    step = case.step
    call = case.loss_call(step) if step is not None else None
    mean = float(np.mean(permuted))
    values = {"rows": len(labels), "real": f"{real:.0%}", "permuted": f"{mean:.0%}", "last": figure(last)}
    where = _permuting(case) or _pairing(case, step, call) or (None if call is None else call.site)
    values["fix"] = _CHECK if _permuting(case) is None else _ONE_ORDER
    if not last > 0.9 * base:
        found = _learned(case, rows, labels)
        if found is None and _permuting(case) is not None:
            return Found(where, {**values, "heart": "this line permutes one of the two alone"})
        if found is None or not _are_equal(found, base):
            return None
        values["heart"] = (
            f"examples are only memorized: copies of the network learn the labels no faster "
            f"({figure(found[0])}) than permuted ones ({figure(found[1])})"
        )
        return Found(where, values)
    heart = f"the loss stays at {figure(last)}, that of guessing"
    if case.program is not None:
        curve = train(case.run, case.program, NOTHING, NOTHING, {}, "", Edit(""), case.budget)
        if curve[-1] < _MEMORIZED * curve[0]:
            heart += f"; one batch can be memorized ({figure(curve[0])} -> {figure(curve[-1])})"
    return Found(where, {**values, "heart": heart})


def _are_equal(losses: list[float], base: float) -> bool:
    """Return whether copies learn the labels (the first of ``losses``) no faster than permuted labels (the second)."""
    real, permuted = losses
    return permuted < 0.99 * base and real >= (_FASTER if permuted < 0.98 * base else 1.0) * permuted


def _pairing(case: Case, step: Step | None, call: Call | None) -> HasPlace | None:
    """Return the line of the data set that returns an input and its label, if no operator changes the labels."""
    source = target_source(step, call) if step is not None and call is not None else None
    methods = [x.pairs for x in case.run.loaders if x.pairs is not None]
    if step is None or source is None or not methods:
        return None
    made = step.producer(source)
    parts = [] if made is None or made.name not in ("stack", "cat") else list(map(step.producer, made.inputs))
    given = made is None or made.record.creates or all(x.call < 0 for x in made.inputs)
    given = given or bool(parts) and all(x is None or all(y.call < 0 for y in x.inputs) for x in parts)
    return returning_line(methods[0]) if given and (made is None or made.name != "getitem") else None


def _of_other_rows(case: Case) -> Found | None:
    """Return the finding for predictions and targets of a step that were selected from different rows of the data."""
    found: list[Call] = []
    for step in [step for step in case.run.steps if step.roots][-3:]:
        call = case.loss_call(step)
        if call is None or not call.shapes[0]:
            continue
        targets = target_source(step, call)
        count = call.shapes[0][0]
        inputs, wanted = (_selected(step, x, count) for x in (call.inputs[0], targets))
        pairs = [(x, y) for x in inputs for y in wanted if len(x.rows) == len(y.rows)]
        if not pairs or any(x.length != y.length for x, y in pairs):
            continue  # unknown, for example because inputs were selected before the recording began
        if any(_are_same_rows(x, y) for x, y in pairs):
            return None
        longer = max(reversed(pairs[0]), key=lambda one: len(one.calls))
        found.append(longer.calls[0])
    if not found:
        return None
    what = (
        "the inputs and the targets of a batch belong to different examples: the order in which this line selects "
        "rows differs from the order of the rest of the batch."
    )
    return Found(found[-1].record, {"rows": len(found)}, message=what, fix=_ONE_ORDER)


def _of_repeated(case: Case) -> Found | None:
    """Return the finding for examples that have other labels when they are seen again, in later epochs."""
    first: dict[bytes, int] = {}
    again = same = 0
    for rows, labels in case.run.indexed:
        for row, label in zip(rows, labels, strict=True):
            used = np.trim_zeros(row, "b")  # without padding
            if used.size < _LEAST_LENGTH:
                continue
            known = first.setdefault(used.tobytes(), -1)
            if known < 0:
                first[used.tobytes()] = int(label)
            else:
                again, same = again + 1, same + (known == int(label))
    if again < _LEAST_AGAIN or len(first) < _LEAST_NUMBERS:
        return None
    seen = np.concatenate([y for _, y in case.run.indexed])
    base = guessing(seen)
    if base is not None and case.ends()[1] < _MEMORIZED * base:
        return None  # the labels were learned, so they depend on other inputs
    shares = np.unique(seen, return_counts=True)[1]
    chance = float(((shares / shares.sum()) ** 2).sum())
    if chance > 0.9 or same > again * (chance + 0.02) + 3 * math.sqrt(again * chance * (1 - chance)):
        return None
    what = (
        f"the same inputs come again with other labels: {again} examples of the steps watched had been seen before, "
        f"and {same / again:.0%} of them with the same label, as many as by chance ({chance:.0%})."
    )
    step = case.step
    call = case.loss_call(step) if step is not None else None
    site = None if call is None else call.site
    sorting = None if site is None else sorting_line(site.file)
    fix = "keep inputs and labels together" if sorting is None else "sort the examples before taking the labels of them"
    return Found(sorting or _permuting(case) or site, {"rows": again}, message=what, fix=fix)


def _of_neighbors(case: Case) -> Found | None:
    """Return the finding for labels that are shifted by one or two places relative to the examples of a batch."""
    for step in reversed(case.run.steps):
        x = _rows(step) if step.roots else None
        if x is None or len(x) < _LEAST_NUMBERS // 2 or any(y.name in _RECURRENT for y in step.calls):
            continue
        classes = next((y for one, _, y in _labels(case) if one is step), None)
        numbers = _numbers(case, step) if classes is None else None
        y = classes if numbers is None else numbers.mean(axis=1)
        if (
            y is None
            or len(y) != len(x)
            or not float(np.std(y)) > 1e-3 * float(np.abs(y).max())
            or not np.isfinite(x).all()
        ):
            continue

        now, best, then = shifted(x, y, classes is not None)
        if now > _NOT:
            return None
        if then < _CLEAR:
            continue
        loss = case.loss_call(step)
        where = _permuting(case) or (loss or step.passed()[0]).site
        what = (
            f"the labels of a batch belong to other examples: moved by {best} place{'s' * (abs(best) > 1)} they agree "
            f"with those of similar inputs far more often than permuted labels do ({figure(then)} standard "
            "deviations), and as they are they do not."
        )
        return Found(where, {"rows": len(x)}, message=what, fix="give each input the label of the same place")
    return None


class _Rows(NamedTuple):
    """Rows that a step selects from an array: address and length of the array, the rows, and the selecting calls."""

    start: int
    length: int
    rows: np.ndarray
    calls: list[Call]


def _are_same_rows(x: _Rows, y: _Rows) -> bool:
    """Return whether two selections take the same examples, or examples at a constant distance in time."""
    if x.start == y.start:
        return True
    distance = x.rows - y.rows
    return bool((distance == distance[0]).all()) or float((distance == 0).mean()) > 0.2


def target_source(step: Step, call: Call) -> Source | None:
    """Return the source of the target of a loss: for class indices, the last earlier result in the same memory."""
    classes = call.params.get("classes")
    if classes is None:
        return call.inputs[1] if len(call.inputs) > 1 and not call.needs(1) else None
    start, shape = start_of(classes.index), tuple(np.shape(classes.index))
    for one in reversed(step.calls[: call.index]):
        if one.outputs and tuple(one.outputs[0].shape) == shape and start_of(one.outputs[0]) == start:
            return Source(one.index, 0, None, None)
    return Source(-1, 0, None, classes.index)


def _selected(step: Step, source: Source | None, count: int) -> list[_Rows]:
    """Return the rows of data that a value of ``count`` examples depends on; an empty list if this is not clear."""
    found: list[_Rows] = []
    pending: list[tuple[Source, np.ndarray, list[Call]]] = []
    if source is not None:
        pending.append((source, np.arange(count), []))
    for _ in range(300):
        if not pending:
            return found
        x, index, calls = pending.pop()
        call = step.producer(x)
        if call is None:
            array = x.value
            if isinstance(array, np.ndarray) and array.ndim and x.leaf is None:
                found.append(_Rows(start_of(array), len(array), index, calls))
        elif call.name in ("getitem", "index_select") and (rows := _key(call)) is not None:
            pending.append((call.inputs[0], rows[index], [*calls, call]))
        elif call.elementwise or call.moves or call.name in _ROW_BY_ROW:
            given = [y for y, shape in zip(call.inputs, call.shapes, strict=True) if shape[:1] == call.shape[:1] != ()]
            data = [y for y in given if y.leaf is None and (y.call >= 0 or isinstance(y.value, np.ndarray))]
            pending += [(y, index, calls) for y in data if not call.weighted or y is call.inputs[0]]
        else:
            return []
    return []


def _key(call: Call) -> np.ndarray | None:
    """Return the indices that a selection takes along the first dimension; None if it does not select such rows."""
    length = call.shapes[0][0] if call.shapes[0] else 0
    index = call.params.get("index")
    key = getattr(index, "key", index)
    first = key[0] if isinstance(key, tuple) and key else key
    if isinstance(first, (list, np.ndarray)) and np.ndim(first) == 1 and np.asarray(first).dtype.kind in "ui":
        return np.arange(length)[np.asarray(first)]
    if first is Ellipsis or first is None:
        return None
    return np.arange(length)[first] if isinstance(first, slice) else None


def _permuting(case: Case) -> HasPlace | None:
    """Return the line that permutes only the inputs or only the labels, if the program has one."""
    sites = [root.site for step in case.run.steps for root in step.roots]
    files = dict.fromkeys([*(site.file for site in sites), *([case.run.script] if case.run.script else [])])
    return (
        of_zipped_loaders(case.run)
        or _read_again(case)
        or next((x for file in files if (x := permuted_apart(file)) is not None), None)
    )


def _read_again(case: Case) -> HasPlace | None:
    """Return the line that creates a shuffling loader whose data the program read several times before the first step,
    so that inputs and labels from different passes have different orders."""
    passes: dict[HasPlace, int] = {}
    for x in case.run.loaders:
        if x.shuffled:
            passes[x.created] = passes.get(x.created, 0) + x.passes
    return next((site for site, count in passes.items() if count > 1), None)


def _unrelated_numbers(case: Case) -> Found | None:
    """Return the finding for regression targets that are unrelated to the inputs.

    This is tested if a line of the program permutes only one of the two, or if the loss stays at that of guessing.
    """
    permuting, base = _permuting(case), case.baseline
    where = permuting
    if permuting is None and case.step is not None and base is not None and case.ends()[1] > 0.9 * base:
        where = _pairing(case, case.step, case.loss_call(case.step)) or case.step.passed()[0].site
    pairs = [
        (x, y)
        for step in case.run.steps
        if step.roots and (x := _rows(step)) is not None and (y := _numbers(case, step)) is not None
    ]
    pairs = [(x, y) for x, y in pairs if len(x) == len(y)] if where is not None else []
    if not pairs or len({x.shape[1] for x, _ in pairs}) > 1 or len({y.shape[1] for _, y in pairs}) > 1:
        return None
    rows, targets = (np.concatenate(x) for x in zip(*pairs, strict=True))
    unique = np.unique(rows, axis=0, return_index=True)[1][:_MOST_ROWS]
    rows, targets = rows[unique], targets[unique].mean(axis=1)
    least = _LEAST_NUMBERS if permuting is not None else 2 * _LEAST_NUMBERS
    if len(rows) < least or not np.isfinite(rows).all() or not targets.std() > 1e-3 * float(np.abs(targets).max()):
        return None
    rng = np.random.default_rng(0)
    permuted = [correlations(rows, rng.permutation(targets)) for _ in range(_PERMUTATIONS)]
    near, best = correlations(rows, targets)
    most, single = max(x for x, _ in permuted), [x for _, x in permuted]
    if near > most or best > float(np.mean(single)) + 3 * float(np.std(single)):
        return None
    what = (
        f"inputs and targets of {len(rows)} recorded examples have nothing to do with each other: the mean target of "
        f"the five nearest other examples has correlation {figure(near)} with an example's own target (with permuted "
        f"targets up to {figure(most)}), "
        + ("and the loss is that of guessing." if permuting is None else "and this line permutes one of the two alone.")
    )
    return Found(where, {"rows": len(rows)}, message=what, fix=_ONE_ORDER)


def _rows(step: Step) -> np.ndarray | None:
    """Return the inputs of the first layer, one flat row per example."""
    x = _given(step)
    return None if x is None or x.ndim < 2 else x.reshape(len(x), -1)


def _given(step: Step) -> np.ndarray | None:
    """Return the inputs of the first layer as the program gave them, before autocast rounded them."""
    call = first_layer(step)
    if call is None:
        return None
    made = step.producer(call.inputs[0])
    given = made is not None and made.name == "cast" and Case.has_array(step, made.inputs[0])
    return step.numbers(made.inputs[0] if given and made is not None else call.inputs[0])


def _numbers(case: Case, step: Step) -> np.ndarray | None:
    """Return regression targets, one flat row per example: the targets of a loss, or the data of a difference."""
    for call in step.passed():
        if call.name not in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "sub") or len(call.inputs) < 2:
            continue
        place = 1 if call.needs(0) else 0
        if call.needs(place) or call.shapes[0] != call.shapes[1] or not Case.has_array(step, call.inputs[place]):
            continue
        y = step.numbers(call.inputs[place])
        of_data = y.ndim and y.dtype.kind == "f" and not step.leaves(call.inputs[place], everything=True)
        if of_data and float(y.std()) > 1e-3 * float(np.abs(y).max()):
            return y.reshape(len(y), -1)
    return None


def _are_places(case: Case) -> bool:
    """Return whether labels are positions in the batch, as in contrastive losses.

    Such labels are distinct and equal in all batches, although the inputs differ.
    """
    known = [(x, y) for step, _, y in _labels(case) if (x := _given(step)) is not None]
    (x, labels), *others = known or [(np.zeros(0), np.zeros(0))]
    same = [np.array_equal(y, labels) and np.unique(y).size == y.size for _, y in others]
    return bool(same) and all(same) and not all(np.array_equal(x, other) for other, _ in others)


def _learned(case: Case, rows: np.ndarray, labels: np.ndarray) -> list[float] | None:
    """Train copies of the network on all rows; return the loss with the labels, and the losses with permuted labels."""
    step, program = case.step, case.program
    loss = case.loss_call(step) if step is not None else None
    first = first_layer(step) if step is not None else None
    if step is None or program is None or loss is None or loss.name not in CLASS_LOSSES or first is None:
        return None
    given, classes = first.inputs[0], loss.params["classes"]
    feeds = [(i, n) for i in program.order for n, x in enumerate(step.calls[i].inputs) if same_source(x, given)]
    shape = first.shapes[0]
    steps = case.budget.share(2, _STEPS, of_proof=True)
    batches = [slice(i, i + shape[0]) for i in range(0, len(rows) - shape[0] + 1, shape[0])][:steps]
    if classes.index.shape != shape[:1] or not batches:
        return None
    rng = np.random.default_rng(1)
    losses = []
    for answers in (labels, rng.permutation(labels)):
        changes = [
            Changes(
                inputs=dict.fromkeys(feeds, rows[one].reshape(shape).astype(first.record.dtype)),
                params={loss.index: {"classes": classes._replace(index=answers[one].astype(np.int64))}},
            )
            for one in batches
        ]
        curve = train_over(case.run, program, changes, steps // len(batches), case.budget)
        if curve is None:
            return None
        losses.append(float(np.mean(curve[len(curve) // 2 :])))
    return losses


def _pool(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Return all recorded inputs with a label, one flat row per different input, and the labels."""
    xs, ys = [], []
    for step, _, labels in _labels(case):
        x = _given(step)
        if x is None:
            continue
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
    # np.unique is slow, and a training repeats many rows: first remove repeated rows by their bytes.
    first: dict[bytes, int] = {}
    for number, row in enumerate(rows):
        first.setdefault(row.tobytes(), number)
    places = np.fromiter(first.values(), int, len(first))
    unique = places[np.unique(rows[places], axis=0, return_index=True)[1]]
    return rows[unique], labels[unique]


def _tokens(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Return rows that describe the tokens of recorded steps, and labels: one label per example, or one per place.

    A row has the number of occurrences of each token in an example. With one label per place, the token at the place is
    appended as a one-hot vector.
    """
    found = [(index, y) for step, call, y in _labels(case) if (index := _looked_up(step, call)) is not None]
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


def _follow_places(case: Case) -> bool:
    """Return whether labels of places depend on the token at a neighboring place, along either dimension."""
    found = [(index, y) for step, call, y in _labels(case) if (index := _looked_up(step, call)) is not None]
    pairs = [(index, y.reshape(index.shape)) for index, y in found if index.ndim == 2 and index.size == y.size]
    rng = np.random.default_rng(0)
    for axis in (0, 1):
        for shift in range(-_AROUND, _AROUND + 1):
            same = [(np.roll(index, shift, axis).reshape(-1), y.reshape(-1)) for index, y in pairs]
            if not same:
                return False
            tokens, labels = (np.concatenate(x) for x in zip(*same, strict=True))
            tokens, labels = tokens[labels >= 0], labels[labels >= 0]
            permuted = [information(tokens, rng.permutation(labels)) for _ in range(_PERMUTATIONS)]
            if information(tokens, labels) > float(np.mean(permuted)) + 6 * float(np.std(permuted)):
                return True
    return False


def _looked_up(step: Step, loss: Call) -> np.ndarray | None:
    """Return the indices of the embedding that a loss depends on, one row per example; None if embeddings differ."""
    found: list[np.ndarray] = []
    for index in sorted(step.below(Source(loss.index, 0, None, None))):
        call = step.calls[index]
        if call.name == "embedding" and (rows := index_of(call)).ndim and rows.size and rows.min() >= 0:
            found.append(rows)
    others = [x for x in found if x.shape == found[0].shape and not np.array_equal(x, found[0])]
    return found[0] if found and not others else None
