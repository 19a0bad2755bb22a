"""NumPy's protocol for ufuncs on Tensors: calls with any keywords, and the methods ``reduce``, ``accumulate``,
``reduceat``, ``outer`` and ``at``.

NumPy itself computes on integers and bools, which have no gradient. For floating Tensors, a method calls the
corresponding operator if there is one, otherwise the ufunc step by step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._generated import toplevel as ops
from ...core.arrays.devices import Wrapping
from ...core.arrays.dtypes import FLOATING, INEXACT
from ...core.errors import describe
from ...core.graph.primitive import is_operand
from ...core.tensor.tensor import Tensor
from ..table.registry import UFUNCS, assign
from .arguments import axes_of, tensor, tensors, without_derivative, wrapped
from .promotion import kind_of, loop_of, without_gradient
from .rules import statistics
from .rules.selection import truth
from .ufunc_calls import called, numpys, ufunc_name, weak, writable, write_out

REDUCTIONS: dict[np.ufunc, Callable[..., Tensor]] = {
    np.add: statistics.sum_,
    np.multiply: statistics.prod,
    np.maximum: statistics.max_,
    np.minimum: statistics.min_,
    np.logical_and: without_derivative(np.all),
    np.logical_or: without_derivative(np.any),
    np.logaddexp: statistics.logsumexp,
}
ACCUMULATIONS: dict[np.ufunc, str] = {
    np.add: "cumsum",
    np.multiply: "cumprod",
    np.maximum: "cummax",
    np.minimum: "cummin",
    np.logaddexp: "logcumsumexp",
}

# ``np.float32(1.5) * t`` reaches the protocol as ``np.multiply(np.float32(1.5), t)``; the two cannot be told apart. The
# result has the dtype of ``t * np.float32(1.5)``.
REFLECTED: dict[np.ufunc, str] = {
    np.add: "__radd__",
    np.subtract: "__rsub__",
    np.multiply: "__rmul__",
    np.true_divide: "__rtruediv__",
    np.floor_divide: "__rfloordiv__",
    np.remainder: "__rmod__",
    np.power: "__rpow__",
}


def array_ufunc(self: Tensor, ufunc: np.ufunc, method: str, *inputs: object, **kwargs: object) -> Any:
    """Call a ufunc, or one of its methods, with Tensors among the arguments."""
    if method == "__call__" and not kwargs:
        function = UFUNCS.get(ufunc) if _alike_and_floating(inputs) else None
        if function is not None:
            return function(*inputs)
        reflected = REFLECTED.get(ufunc)
        if reflected is not None and isinstance(inputs[0], np.number) and isinstance(inputs[1], Tensor):
            return getattr(inputs[1], reflected)(inputs[0].item())
    others = [value for value in inputs if not is_operand(value)]
    if others and method not in ("at", "reduceat"):  # in these two methods, lists are indices
        if not all(isinstance(value, (list, tuple)) for value in others):
            return NotImplemented
        inputs = tuple([x if is_operand(x) else y for x, y in zip(inputs, tensors(*inputs), strict=True)])
    if method == "at":
        return update_at(ufunc, *inputs)
    name = ufunc_name(ufunc) if method == "__call__" else f"{ufunc_name(ufunc)}.{method}"
    out = kwargs.pop("out", None)
    if isinstance(out, tuple):
        if len(out) != 1:
            raise TypeError(f"{name} on Tensors: out= is not supported for several outputs")
        (out,) = out
    for option, usual in (("order", "K"), ("subok", True), ("casting", "same_kind")):
        if kwargs.pop(option, usual) != usual:
            raise TypeError(f"{name} on Tensors: {option}= is not supported")
    if method == "__call__":
        where = kwargs.pop("where", True)
        if where is not True:
            return _called_where(name, ufunc, inputs, kwargs, where, out)
        result = called(name, ufunc, inputs, kwargs)
    elif method == "outer" and len(inputs) == 2:
        left, right = tensors(*inputs)
        result = called(name, ufunc, (left.reshape(tuple(left.shape) + (1,) * right.ndim), right), kwargs)
    else:
        result = METHODS[method](name, ufunc, *inputs, **kwargs)
    return result if out is None else write_out(name, out, result)


def _alike_and_floating(inputs: tuple[object, ...]) -> bool:
    """Return whether PyTorch's and NumPy's promotion agree: one floating dtype and real Python numbers."""
    dtype = None
    for value in inputs:
        if isinstance(value, Tensor):
            found = value.array.dtype
        elif type(value) is np.ndarray:
            found = value.dtype
        elif type(value) is float or type(value) is int:
            continue
        else:
            return False
        if found is not dtype:
            if dtype is not None or found.kind not in FLOATING:
                return False
            dtype = found
    return True


def _called_where(
    name: str, ufunc: np.ufunc, inputs: tuple[object, ...], kwargs: dict[str, Any], where: object, out: object
) -> object:
    """Compute only the elements selected by ``where``, and write them to ``out``; other elements get no gradient."""
    if out is None:
        raise TypeError(
            f"{name} on Tensors: where= without out= leaves elements uninitialized; pass out=, such as "
            "np.zeros_like(tensor), or use np.where(condition, result, other)"
        )
    *given, chosen = ops.broadcast_tensors(*tensors(*inputs), truth(where))
    target = writable(name, out, given)
    chosen = ops.broadcast_to(chosen, target.shape)
    result = called(name, ufunc, tuple([ops.broadcast_to(x, target.shape)[chosen] for x in given]), kwargs)
    assign(name, target, ops.masked_scatter(target, chosen, result.astype(target.dtype)))
    return out


# The methods of ufuncs


def _reduced(name: str, ufunc: np.ufunc, array: Any, axis: Any = 0, dtype: Any = None, **options: Any) -> Any:
    options = {key: value for key, value in options.items() if value is not np._NoValue}
    if not _differentiable(name, ufunc, array):
        return wrapped(numpys(name, ufunc.reduce, [weak(array), axis, dtype], options))
    x = tensor(array) if dtype is None else tensor(array).astype(dtype)
    weighted = options.get("initial") is not None or options.get("where", True) is not True
    if ufunc in REDUCTIONS and not (ufunc is np.logaddexp and weighted):
        return REDUCTIONS[ufunc](x, axis, **options)
    return _folded(name, ufunc, x, axis, **options)


def _differentiable(name: str, ufunc: np.ufunc, array: object) -> bool:
    """Return whether a method of the ufunc has floating or complex results; otherwise NumPy itself is called."""
    if ufunc.nin != 2 or ufunc.nout != 1:
        raise ValueError(f"{name}: only ufuncs of two inputs and one output have this method")
    if without_gradient([array]):
        return False
    x = tensor(array)
    if x.array.dtype.kind == "V" or isinstance(x.array, Wrapping):
        return True
    try:
        return loop_of(ufunc, (x.array.dtype, x.array.dtype))[-1].kind in INEXACT
    except TypeError as error:
        raise TypeError(f"{name} of {describe(x)}: {error}") from None


def _folded(
    name: str,
    ufunc: np.ufunc,
    x: Tensor,
    axis: object,
    keepdims: bool = False,
    initial: object = None,
    where: object = True,
) -> Tensor:
    """Reduce step by step: apply the ufunc to ``initial`` or the first element and each next element."""
    axes = axes_of(x, axis)
    if len(axes) > 1:  # NumPy raises an error if the ufunc is not reorderable
        numpys(name, ufunc.reduce, [np.ones((1,) * x.ndim, x.dtype), axes], {})
    kept = [place for place in range(x.ndim) if place not in axes]
    rows = ops.reshape(ops.permute(x, (*axes, *kept)), (-1, *[x.shape[place] for place in kept]))
    chosen = None
    if where is not True:
        chosen = ops.broadcast_to(truth(where), x.shape)
        chosen = ops.reshape(ops.permute(chosen, (*axes, *kept)), rows.shape)
    if initial is None and (chosen is not None or not len(rows)):
        initial = ufunc.identity
        if initial is None:
            raise ValueError(f"{name}: has no identity; pass initial=, the result for no elements")
    parts = list(ops.unbind(rows))
    start = 0 if initial is not None else 1
    result = parts[0] if initial is None else ops.full_like(rows[:1].sum(0), 0) + tensors(rows, initial)[1]
    for place, part in enumerate(parts[start:], start):
        following = called(name, ufunc, (result, part), {})
        result = following if chosen is None else ops.where(chosen[place], following, result)
    if start and len(parts) == 1:
        result = ops.clone(result)
    return ops.reshape(result, [1 if place in axes else n for place, n in enumerate(x.shape)]) if keepdims else result


def _accumulated(name: str, ufunc: np.ufunc, array: Any, axis: int = 0, dtype: Any = None) -> Any:
    if not _differentiable(name, ufunc, array):
        return wrapped(numpys(name, ufunc.accumulate, [weak(array), axis, dtype], {}))
    x = tensor(array) if dtype is None else tensor(array).astype(dtype)
    if ufunc in ACCUMULATIONS and not (x.dtype.kind == "c" and ufunc in (np.maximum, np.minimum)):
        result = getattr(ops, ACCUMULATIONS[ufunc])(x, axis)
        return result[0] if isinstance(result, tuple) else result
    parts = list(ops.unbind(x, axis))
    if not parts:
        return ops.clone(x)
    if ufunc is np.subtract:
        return ops.cumsum(ops.stack([parts[0], *[-part for part in parts[1:]]], axis), axis)
    for place in range(1, len(parts)):
        parts[place] = called(name, ufunc, (parts[place - 1], parts[place]), {})
    return ops.stack(parts, axis)


def _reduced_at(name: str, ufunc: np.ufunc, array: object, indices: object, axis: int = 0, dtype: object = None) -> Any:
    """Reduce from each index up to the next index; if the next index is not larger, return the element at the index."""
    if not _differentiable(name, ufunc, array):
        return wrapped(numpys(name, ufunc.reduceat, [weak(array), weak(indices), axis, dtype], {}))
    x = ops.movedim(tensor(array), axis, 0)
    starts = np.asarray(weak(indices)).tolist()
    if any(not 0 <= start < len(x) for start in starts):
        raise IndexError(f"{name} of {describe(x)}: an index in {starts} is out of range for the length {len(x)}")
    parts = [x[i : j if i < j else i + 1] for i, j in zip(starts, [*starts[1:], len(x)], strict=True)]
    return ops.movedim(ops.stack([_reduced(name, ufunc, part, 0, dtype) for part in parts]), 0, axis)


METHODS: dict[str, Callable[..., object]] = {"reduce": _reduced, "accumulate": _accumulated, "reduceat": _reduced_at}


def update_at(ufunc: np.ufunc, target: object, indices: object, values: object = None) -> None:
    """Run ``ufunc.at``: an element whose index occurs twice is updated twice."""
    name = f"{ufunc_name(ufunc)}.at"
    written = writable(name, target, [values])
    index = tuple(map(weak, indices)) if isinstance(indices, tuple) else weak(indices)
    operands = [written] if ufunc.nin == 1 else [written, values]
    if without_gradient(operands) and isinstance(written.array, np.ndarray):
        changed = written.array.copy()
        numpys(name, ufunc.at, [changed, index, *map(weak, operands[1:])], {})
        assign(name, written, tensor(changed))
        return
    try:
        places = np.arange(written.array.size).reshape(written.shape)[index]
    except IndexError as error:
        raise IndexError(f"{name} on {describe(written)}: {error}") from None
    flat = ops.reshape(written, (-1,))
    source = None if ufunc.nin == 1 else ops.broadcast_to(tensors(written, values)[1], places.shape)
    _check_written(name, ufunc, written, source)
    if ufunc in (np.add, np.subtract) and source is not None:
        source = source.astype(written.dtype)
        flat = ops.index_put(flat, [tensor(places)], source if ufunc is np.add else -source, True)
    else:
        for order in _occurrences(places):  # within one group of occurrences no position is repeated
            chosen = tensor(places.reshape(-1)[order])
            taken = () if source is None else (ops.reshape(source, (-1,))[tensor(order)],)
            result = called(name, ufunc, (flat[chosen], *taken), {})
            flat = ops.index_put(flat, [chosen], result.astype(written.dtype))
    assign(name, written, ops.reshape(flat, written.shape))


def _check_written(name: str, ufunc: np.ufunc, written: Tensor, source: Tensor | None) -> None:
    kinds = [kind_of(x) for x in (written, source) if x is not None]
    if any(isinstance(kind, np.dtype) and kind.kind == "V" for kind in kinds):
        return
    try:
        loop = loop_of(ufunc, tuple(kinds))
    except TypeError as error:
        raise TypeError(f"{name} on {describe(written)}: {error}") from None
    if len(loop) != ufunc.nin + 1 or not np.can_cast(loop[-1], written.dtype, "same_kind"):
        raise TypeError(f"{name}: cannot cast the result from {loop[-1]} to {written.dtype} of the written Tensor")


def _occurrences(places: Any) -> list[Any]:
    """Yield where each position occurs for the first time, then where for the second time, and so on."""
    flat = places.reshape(-1)
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    first = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if flat.size else np.zeros(0, bool)
    begins = np.maximum.accumulate(np.where(first, np.arange(flat.size), 0))
    rank = np.arange(flat.size) - begins
    return [np.sort(order[rank == number]) for number in range(rank.max(initial=-1) + 1)]
