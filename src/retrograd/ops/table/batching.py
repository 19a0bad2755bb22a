"""Batching rules for families of primitives, passed as ``batch=`` by most definitions.

Each function returns a rule that translates a call on one example to a call on all examples, which are stacked along a
first axis on the level below (see core.mapping.batching). Elementwise primitives need no rule.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import array_module, is_array
from ...core.graph.modes import modes, on_level
from ...core.graph.plan import Params
from ...core.tensor.tensor import Tensor, new_tensor

if TYPE_CHECKING:
    from ...core.mapping.batching import Call, Level

Rule = Callable[[Any], Any]
Function = TypeVar("Function", bound=Callable[..., Any])


def called_per_example(function: Function) -> Function:
    """Decorate a function that reads values and has no derivative: inside ``vmap`` it is called once per example."""

    @functools.wraps(function)
    def called(*args: object, **kwargs: object) -> Any:
        if modes.level is None:
            return function(*args, **kwargs)
        listed = [item for value in (*args, *kwargs.values()) if isinstance(value, (list, tuple)) for item in value]
        level = modes.level.of((*args, *kwargs.values(), *listed))
        return function(*args, **kwargs) if level is None else _stacked_calls(level, called, args, kwargs)

    return called  # type: ignore[return-value]


def takes_rows(function: Function) -> Function:
    """Decorate a function that treats all rows of an array alike: the examples of a mapped array become rows."""

    @functools.wraps(function)
    def called(x: object, *args: object) -> Any:
        if modes.level is None:
            return function(x, *args)
        from ...core.mapping.batched import Batched  # loaded by vmap, not with the package

        if type(x) is not Batched:
            return function(x, *args)
        level = x.level
        with on_level(level.below):
            if not x.mapped:
                result = called(x.value.array, *args)
            elif level.size:
                result = unfold(called(fold(x.value).array, *args), 0, level.size)
            else:
                result = called(x.value.new_zeros(x.shape).array, *args)[None][:0]
            return Batched(level, new_tensor(result), x.mapped)

    return called  # type: ignore[return-value]


def _stacked_calls(
    level: Level, function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, Any]
) -> Any:
    """Call ``function`` on each example of ``level``; return the stacked results as Tensors of the level."""
    from ...core.mapping.batched import Batched  # loaded by vmap, not with the package

    def example(x: object, index: int) -> Any:
        if isinstance(x, (list, tuple)):
            return [example(item, index) for item in x]
        array = x.array if isinstance(x, Tensor) else x
        if type(array) is not Batched or array.level is not level:
            return x
        if not array.mapped:
            return array.value
        return array.value[index] if level.size else array.value.new_zeros(array.shape)

    def joined(column: Sequence[Any]) -> Any:
        if isinstance(column[0], tuple):
            parts = [joined(part) for part in zip(*column, strict=True)]
            return type(column[0])(*parts) if hasattr(column[0], "_fields") else tuple(parts)
        shapes = sorted({x.array.shape for x in column})
        if len(shapes) > 1:
            raise RuntimeError(f"vmap: the results of the examples differ in shape: {shapes[0]} and {shapes[-1]}")
        stacked: Any = np.stack(list(column))
        return new_tensor(Batched(level, stacked[: level.size], True))

    with on_level(level.below):
        return joined(
            [
                function(*[example(x, i) for x in args], **{name: example(x, i) for name, x in kwargs.items()})
                for i in range(level.size or 1)
            ]
        )


def copy_to_write(x: Tensor, value: Tensor) -> Tensor:
    """Return a copy of ``x`` to write ``value`` into, with one copy per example if the value is mapped."""
    level = None if modes.level is None else modes.level.of((x, value))
    if level is not None and level.maps(value) and not level.maps(x):
        out: Tensor = value.new_empty(x.array.shape, dtype=x.array.dtype)
        return out.copy_(x)
    return x.clone()


def moved(dims: tuple[int, ...] | None, ndim: int) -> tuple[int, ...]:
    """Return dimensions of one example, shifted by 1 for the dimension of the examples; None means all dimensions."""
    count = ndim or 1
    if dims is None:
        return tuple(range(1, count + 1))
    if isinstance(dims, (tuple, list)):
        return tuple([dim % count + 1 for dim in dims])
    return dims % count + 1


def along(*dims: str, shape: str = "") -> Rule:
    """Batch primitives along the dimensions in the parameters ``dims``; the parameter named ``shape`` is a shape."""

    def rule(call: Call) -> Tensor:
        if call.needs_loop():
            return call.looped()
        ndim = max(call.ndim(index) for index in range(len(call.values)))
        values = [call.full(index) for index in range(len(call.values))]
        params = dict(call.params)
        if ndim == 0:
            values = [value.reshape((-1, 1)) for value in values]
        for name in dims:
            params[name] = moved(params.get(name), ndim)
        if shape:
            params[shape] = (call.size, *(params[shape] or (1,)))
        return on_results(call.below(values, params), lambda x: x.reshape((-1,)) if ndim == 0 else x)

    return rule


def on_results(results: object, change: Callable[[Tensor | Array], Tensor | Array]) -> Any:
    """Apply ``change`` to the Tensors among the results of a rule."""
    if isinstance(results, (tuple, list)):
        return tuple([on_results(x, change) for x in results])
    return change(results) if isinstance(results, Tensor) or is_array(results) else results


def flattened(params: Params | None = None, primitive: object = None) -> Rule:
    """Batch reductions over one dimension or over all elements: for all elements, each example becomes one row."""

    def rule(call: Call) -> Any:
        x = call.full(0)
        rows = x.reshape((call.size, prod(x.array.shape[1:])))
        return call.below([rows], {**call.params, **(params or {})}, primitive)

    return rule


def shaped(name: str = "shape") -> Rule:
    """Batch primitives with a parameter for the result's shape."""

    def rule(call: Call) -> Tensor:
        shape = tuple(call.params[name])
        if -1 in shape:
            known = prod([length for length in shape if length != -1])
            whole = prod(call.shape())
            if known and whole % known == 0:
                shape = tuple([whole // known if length == -1 else length for length in shape])
        return call.below([call.full(0)], {**call.params, name: (call.size, *shape)})

    return rule


def in_front(call: Call) -> Tensor:
    """Batch primitives that act on the last dimensions, and whose leading dimensions broadcast."""
    if call.needs_loop():
        return call.looped()
    ndim = max(call.ndim(index) for index in range(len(call.values)))
    return call.below([aligned(value, ndim) if flag else value for value, flag in zip(call.values, call.mapped)])


def aligned(x: Tensor, ndim: int) -> Tensor:
    """Insert dimensions of length 1 after the dimension of the examples, until each example has ``ndim`` dimensions."""
    shape = x.shape
    return x if len(shape) == ndim + 1 else x.reshape((shape[0],) + (1,) * (ndim + 1 - len(shape)) + tuple(shape[1:]))


def folded(*arrays: str, axis: int = 0) -> Rule:
    """Batch primitives that treat the slices along a dimension alike: the examples become additional slices.

    The parameters ``arrays``, which have that dimension as well, are folded in the same way.
    """

    def rule(call: Call) -> Any:
        if not call.size:
            return call.of_no_example()
        values = [fold(call.full(index), axis) for index in range(len(call.values))]
        params = {
            name: folded_array(value, call.size, axis) if name in arrays else value
            for name, value in call.params.items()
        }
        return on_results(call.below(values, params), lambda x: unfold(x, axis, call.size))

    return rule


def folded_array(value: Tensor, size: int, axis: int = 0) -> Array:
    """Fold the examples of an array parameter into one of its dimensions; repeat an array that is not mapped."""
    if isinstance(value, Tensor):
        return fold(value, axis).array
    if not is_array(value):
        return value
    return fold(array_module(value).broadcast_to(value, (size, *value.shape)), axis)


def given(name: str) -> Rule:
    """Batch primitives whose result is a parameter, such as random numbers."""

    def rule(call: Call) -> Tensor:
        sample = call.params[name]
        if not isinstance(sample, Tensor):
            sample = call.array_of(sample)
            sample = array_module(sample).broadcast_to(sample, (call.size, *sample.shape))
        else:
            sample = sample.array
        return call.below([call.full(0)], {name: sample})

    return rule


def summed_up(call: Call) -> Any:
    """Batch elementwise losses with the parameter ``reduction``."""
    reduction = call.params["reduction"]
    ndim = max(call.ndim(index) for index in range(len(call.values)))
    values = [aligned(value, ndim) if flag else value for value, flag in zip(call.values, call.mapped)]
    losses = call.below(values, {**call.params, "reduction": "none"})
    if reduction == "none":
        return losses
    rows = losses.reshape((call.size, prod(losses.array.shape[1:])))
    return rows.sum(1) if reduction == "sum" else rows.mean(1)


def composed(composite: Callable[..., object]) -> Rule:
    """Batch operators by their composite of plain operators; residuals are left out."""

    def rule(call: Call) -> Any:
        with on_level(call.level):
            result = composite(*call.tensors(), **call.parameters())
        result = call.values_of(result)
        return (result, *[None] * len(call.primitive.residuals)) if call.primitive.residuals else result

    return rule


def fold(x: Any, axis: int = 0) -> Any:
    """Merge the first axis of x, that of the examples, with another dimension, which then varies faster."""
    if axis:
        x = np.moveaxis(x, 0, axis)
    shape = tuple(x.shape)
    return x.reshape((*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))


def unfold(x: Any, axis: int, size: int) -> Any:
    """Undo ``fold``."""
    shape = tuple(x.shape)
    length = shape[axis] // size if size else 0
    x = x.reshape((*shape[:axis], size, length, *shape[axis + 1 :]))
    return np.moveaxis(x, axis, 0) if axis else x


def joined(call: Call) -> Any:
    """Batch primitives that join any number of inputs along ``dim``."""
    values = [call.full(index) for index in range(len(call.values))]
    return call.below(values, {**call.params, "dim": call.params["dim"] + 1})
