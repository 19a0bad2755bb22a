"""Find the input elements that one element of an operator's result depends on."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.arrays import Array
from ..core.arrays.devices import array_module, backend_of, is_array
from ..core.arrays.dtypes import INEXACT
from ..core.arrays.fp_warnings import silent
from ..core.graph.backward import differentiate
from ..core.graph.modes import Mode, enable_grad
from ..core.graph.nodes import Node, edge_of
from ..core.graph.plan import Params
from ..core.graph.primitive import Primitive, apply
from ..core.tensor.tensor import Tensor, new_tensor


class unobserved(Mode):
    """Disable all observers of this thread."""

    changes = {"observers": ()}


Index = tuple[int, ...]


def influences(
    primitive: Primitive, inputs: tuple[Any, ...], params: Params, index: Index, output: int = 0
) -> list[np.ndarray | None]:
    """Return, per input, the flat indices of the elements that the output's element at ``index`` depends on.

    The operator is differentiated at random values in [0.3, 0.7]. The entry is None for an input without a gradient;
    all entries are None if the operator fails at such values.
    """
    if primitive.elementwise:
        return [_broadcast_place(np.shape(x), index) for x in inputs]
    if primitive.by_rows:  # which element is selected depends on all of the row
        return [_row_places(x, params, index) if place == 0 else None for place, x in enumerate(inputs)]
    ordinary = np.random.default_rng(0)
    starts: list[object] = []
    for x in inputs:
        array = getattr(x, "array", x)
        if not is_array(array) or array.dtype.kind not in INEXACT:
            starts.append(x)
            continue
        values = backend_of(array).asarray(ordinary.uniform(0.3, 0.7, array.shape))
        start = new_tensor(values.astype(np.complex128 if array.dtype.kind == "c" else np.float64))
        start._requires = isinstance(x, Tensor)
        starts.append(start)
    wanted = [x for x in starts if isinstance(x, Tensor) and x._requires]
    nothing: list[np.ndarray | None] = [None] * len(inputs)
    try:
        with unobserved(), enable_grad(), silent():
            results = apply(primitive, tuple(starts), params)
            result = results[output] if isinstance(results, tuple) else results
            g = array_module(result.array).zeros(result.array.shape, result.array.dtype)
            g[index] = 1
            found = differentiate("influences", [result], [new_tensor(g)], wanted, False, False)
    except Exception:  # for example, these values make a matrix singular, or a custom Function rejects them
        return nothing
    return [
        np.flatnonzero(backend_of(found[edge_of(x)]).to_numpy(found[edge_of(x)]))
        if isinstance(x, Tensor) and x._requires and edge_of(x) in found
        else None
        for x in starts
    ]


def saved_values(node: Node, index: Index, shape: tuple[int, ...]) -> list[Array | None]:
    """Return, per input, the saved value at the index, or None if the saved array does not have that shape."""
    values: list[Array | None] = []
    for position in range(len(node.parents)):
        saved: Any = (node.saved or ())[position] if position < len(node.saved or ()) else None
        same = is_array(saved) and saved.shape == shape
        values.append(backend_of(saved).to_numpy(saved[index]).reshape(-1) if same else None)
    return values


def element(array: Array, index: Index) -> Array:
    """Return one element as a NumPy scalar."""
    return backend_of(array).to_numpy(array[index])[()]


def first_index(mask: Array) -> Index:
    """Return the index of the first true element."""
    return tuple(map(int, np.unravel_index(int(mask.reshape(-1).argmax()), mask.shape))) if mask.ndim else ()


def _broadcast_place(shape: tuple[int, ...], index: Index) -> np.ndarray | None:
    if len(shape) > len(index):
        return None
    own = [0 if length == 1 else place for length, place in zip(shape, index[len(index) - len(shape) :], strict=True)]
    return np.array([np.ravel_multi_index(own, shape)] if shape else [0])


def _row_places(x: Any, params: Params, index: Index) -> np.ndarray | None:
    """Return the flat indices of the row of x that the output element at ``index`` is reduced from."""
    shape = np.shape(getattr(x, "array", x))
    dim = params.get("dim", params.get("axis"))
    places = np.arange(int(np.prod(shape))).reshape(shape)
    if dim is None:
        return places.reshape(-1)
    dims = sorted(d % len(shape) for d in (dim if isinstance(dim, (tuple, list)) else (dim,)))
    kept = [place for d, place in enumerate(index) if d not in dims] if len(index) == len(shape) else list(index)
    taken = iter(kept)
    return places[tuple(slice(None) if d in dims else next(taken) for d in range(len(shape)))].reshape(-1)
