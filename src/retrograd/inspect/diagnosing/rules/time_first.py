"""Whether the first dimension of an input is time on purpose, so that its rows are no examples of a batch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..kinds import Case
from ..recording import Call, Source, Step

RECURRENT = ("lstm", "gru", "rnn")

_SMOOTH = 0.5  # change from one row to the next, relative to that from one column to the next
_LEAST_ROWS = 5


def time_is_first(case: Case, step: Step, given: Source, count: int) -> bool:
    """Return whether ``count`` is a number of time steps: what the program gives and its data say so."""
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
        return False  # a target for each row
    data = list(_data(case, step, given, (count, width)))
    return any(_continues(x, target) or _is_smooth(x) or _begins_alike(x) for x in data)


def _width(step: Step, given: Source, count: int) -> int | None:
    """Return the second dimension of what recurrent layers get, or of tokens or sequences of vectors that other layers
    get, if ``count`` is the first one."""
    inner = [x.shapes[0] for x in step.calls if x.name in RECURRENT]
    outer = step.calls[given.call].shape if given.call >= 0 else np.shape(step.array(given))
    kept = given.call < 0 or len(step.calls[given.call].outputs) > given.output
    tokens = kept and getattr(step.array(given), "dtype", np.dtype(float)).kind in "iu"
    shapes = [x for x in inner if len(x) > 2]
    if len(outer) == 3 or len(outer) == 2 and (inner or tokens):
        shapes.append(outer)
    return next((int(x[1]) for x in shapes if x[0] == count and (x[1] > 1 or x is not outer)), None)


def _has_state(case: Case, width: int, carried: bool = False) -> bool:
    """Return whether the program gives recurrent layers a state for so many examples; with ``carried``, the state that
    an earlier step has computed."""
    for step in case.run.steps:
        for entry in step.modules:
            if type(entry.module).__name__ not in ("RNN", "LSTM", "GRU"):
                continue
            for source, shape in zip(entry.inputs[1:], entry.shapes[1:], strict=True):
                if len(shape) == 3 and shape[1] == width and (not carried or _is_carried(step, source)):
                    return True
    return False


def _is_carried(step: Step, source: Source) -> bool:
    """Return whether a state is a result of layers that no call of this step computed."""
    origin = step.origin(source)
    values = origin.value if origin.call < 0 and origin.leaf is None else None
    return isinstance(values, np.ndarray) and bool((values != values.flat[0]).any())


def _data(case: Case, step: Step, given: Source, shape: tuple[int, int]) -> Iterator[np.ndarray]:
    """Yield the data with these first two dimensions: the input of a layer, and the indices that are looked up."""
    array = step.array(given) if case.has_array(step, given) else None
    if isinstance(array, np.ndarray) and array.shape[:2] == shape:
        yield array
    for call in step.calls:
        if call.name == "embedding":
            index = _index(call)
            if index.shape[:2] == shape:
                yield index


def _index(call: Call) -> np.ndarray:
    return np.asarray(call.params["index"].key[0])


def _continues(x: np.ndarray, target: np.ndarray) -> bool:
    """Return whether the target of a row is the next row of the input."""
    if len(x) < 3 or target.shape[0] != len(x):
        return False
    for one in (x, x[..., 0], x.argmax(-1)) if x.ndim > 2 else (x,):
        if one.shape == target.shape and _varies(one[1:]) and np.array_equal(one[1:], target[:-1]):
            return True
    return False


def _is_smooth(x: np.ndarray) -> bool:
    """Return whether numbers change much less from row to row than from column to column."""
    if x.dtype.kind != "f" or x.shape[0] < _LEAST_ROWS or x.shape[1] < 2:
        return False
    down, across = (float(np.abs(np.diff(x, axis=axis)).mean()) for axis in (0, 1))
    return down < _SMOOTH * across


def _begins_alike(x: np.ndarray) -> bool:
    """Return whether all columns of indices begin with one symbol, or are filled up at the end with one, and rows are
    not."""
    if x.dtype.kind not in "iu" or x.ndim != 2 or min(x.shape) < 3:
        return False
    if not _varies(x[0]) and _varies(x[:, 0]) and _varies(x[1:-1]):
        return True
    return any(_is_filled(x, pad) and not _is_filled(x.T, pad) for pad in {0, int(x[-1].max()), int(x[-1].min())})


def _is_filled(x: np.ndarray, pad: int) -> bool:
    """Return whether a symbol fills columns from some row to the end, in most of them and of different length."""
    filled = x == pad
    counts = filled.sum(0)
    return bool((np.diff(filled.astype(int), axis=0) >= 0).all()) and _varies(counts) and float(counts.mean()) >= 1


def _varies(x: np.ndarray) -> bool:
    return bool(x.size) and bool((x != x.flat[0]).any())
