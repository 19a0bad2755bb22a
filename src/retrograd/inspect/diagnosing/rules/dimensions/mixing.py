"""Find where examples of a batch are mixed: the first operator with a result that depends on two examples' inputs."""

from __future__ import annotations

import numpy as np

from .....core.tensor.tensor import new_tensor
from ...probes.replay import Changes, Program
from ...step_recorder import Call, Inputs, Params, Step

_CHANGED = 1e-6  # the least change of a result, relative to the result's largest element
_REORDERS = frozenset({"view", "reshape", "flatten", "contiguous"})
_ALONG = frozenset({"cumsum", "cumprod", "logcumsumexp", "flip", "roll", "sort", "norm", "vector_norm", "normalize"})
_PRODUCTS = frozenset({"matmul", "bmm", "baddbmm", "einsum"})


def meeting(program: Program, step: Step, fed: list[Changes]) -> Call | None:
    """Return the first call with a result element that changes with either of two examples.

    ``fed`` has the inputs as they are, with one example changed, and with the other changed. If a reshape only puts
    elements of two examples into one row, which the next layer mixes, return the reshape.
    """
    values = {key: new_tensor(x) for key, x in step.values.items()}
    runs: list[dict[int, Inputs]] = [{}, {}, {}]
    try:
        for changes, kept in zip(fed, runs, strict=True):
            program.run(values, changes, kept=kept)
    except Exception:
        return None
    met: set[int] = set()
    for index in program.order:
        parts = [[x.array for x in one.get(index, ())] for one in runs]
        masks = [
            [np.abs(np.asarray(b, float) - np.asarray(a, float)) > _CHANGED * _size(a) for a, b in _pairs(parts[0], x)]
            for x in parts[1:]
        ]
        if not any(bool((a & b).any()) for a, b in zip(*masks, strict=False)):
            continue
        call = step.calls[index]
        if not any(x.call in met for x in call.inputs):
            return _reordered(step, call)
        met.add(index)
    return None


def _pairs(before: list[np.ndarray], after: list[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(a, b) for a, b in zip(before, after, strict=False) if a.shape == b.shape and a.dtype.kind in "fViub"]


def _size(x: np.ndarray) -> float:
    return float(np.abs(x).max()) or 1.0 if x.size else 1.0


def _reordered(step: Step, call: Call) -> Call:
    """Return the reshape before a layer that only mixes the elements of a row; return other calls unchanged."""
    current = step.producer(call.inputs[0]) if call.weighted and call.name != "einsum" else None
    while current is not None and current.moves and current.inputs:
        if current.name in _REORDERS:
            return current
        current = step.producer(current.inputs[0])
    return call


def remedy(call: Call) -> str:
    """Return the edit for an operator that mixes examples by mistake; "" if it may be a statistic or a similarity."""
    if call.name in _ALONG and _along_first(call):
        return f"pass another dimension than 0 to {call.record.call}: 0 is that of the batch"
    both = sum(call.needs(place) for place in range(len(call.inputs))) > 1
    if call.name in _PRODUCTS and both and len(call.shape) > 2:
        return "transpose the inputs of the product, so that the batch is not a dimension that it sums or compares"
    return ""


def _along_first(call: Call) -> bool:
    dim = call.params.get("dim", call.params.get("dims"))
    dims = dim if isinstance(dim, (tuple, list)) else (dim,)
    return any(isinstance(x, int) and x in (0, -len(call.shapes[0])) for x in dims) and len(dims) == 1


def of_rows(base: dict[tuple[int, int], np.ndarray], params: dict[int, tuple[Params, np.ndarray]], row: int) -> Changes:
    """Return the changes that replace the inputs of example ``row``; a negative ``row`` changes nothing."""
    inputs = {}
    for key, x in base.items():
        other = x.copy()
        if row >= 0:
            other[row] = x[(row + 1) % len(x)] if x.dtype.kind in "iu" else x[row] + 1 + np.abs(x[row])
        inputs[key] = other
    found: dict[int, Params] = {}
    for i, (given, x) in params.items():
        other = x.copy()
        if row >= 0:
            other[row] = (x[row] + 1) % (int(x.max()) + 1)
        found[i] = {"index": given["index"].with_key((other,))}
    return Changes(inputs=inputs, params=found)
