"""Evaluate primitives on meta arrays.

The first use of the device ``meta`` wraps the forwards of all primitives, as for bfloat16; programs that do not use the
device have no overhead. On ordinary arrays the wrapper calls the original forward. On meta arrays

* a view is a view of the reserved memory;
* an elementwise forward runs on arrays of at most two elements per axis, in the same memory order;
* a primitive with a function ``shaped`` computes shape and dtype of its result from those of its inputs;
* any other forward runs on the zeros of the reserved memory, and its result is freed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import wraps

import numpy as np

from ..arrays.devices import Backend, register_backend
from ..arrays.dtypes import INEXACT
from ..errors import answers
from ..graph import plan
from ..graph.primitive import Primitive, changes, primitives
from ..nests import replaced
from ..tensor.mutation import check_writable
from ..tensor.tensor import Tensor, is_dense, new_tensor
from .arrays import META, NO_DATA, MetaArray, Value, data_dependent, elementwise, plain, reserved, without_numbers


def backend() -> Backend:
    """Return the backend of the device ``meta``; the first call wraps all primitives."""
    if _accept_meta not in changes:
        register_backend(META)
        changes.append(_accept_meta)
        answers.append(_on_zeros)
        plan.calling.append(_rule_of_meta)
        for primitive in list(primitives):
            _accept_meta(primitive)
    return META


def _accept_meta(primitive: Primitive) -> None:
    if primitive.bfloat16 == "program":  # its operators accept meta tensors
        return
    primitive.plans.clear()
    primitive.forward = _forward_of_meta(primitive, primitive.forward)
    if primitive.write is not None:
        primitive.write = _write_of_meta(primitive, primitive.write)


def _any_meta(values: Iterable[Value]) -> bool:
    for value in values:
        kind = type(value)
        if kind is np.ndarray or kind is float or kind is int:
            continue
        if kind is MetaArray or (kind is tuple or kind is list) and _any_meta(value):
            return True
        if hasattr(kind, "key") and _any_meta(value.key):
            return True
    return False


def _forward_of_meta(primitive: Primitive, forward: Callable[..., Value]) -> Callable[..., Value]:
    @wraps(forward)
    def run_forward(*arrays: Value, **params: Value) -> Value:
        if not _any_meta(arrays) and not (params and _any_meta(params.values())):
            return forward(*arrays, **params)
        if primitive.shaped is False or _has_mask(params.get("index", ())):
            raise data_dependent(primitive.name)
        if any(type(x) is np.ndarray and x.ndim for x in arrays):
            raise RuntimeError("expected all tensors to be on the same device, but found meta and cpu")
        if callable(primitive.shaped):
            return primitive.shaped(reserved, *arrays, **params)
        by_element = primitive.elementwise and not primitive.view and not primitive.residuals
        if by_element and not any(isinstance(value, np.ndarray) for value in params.values()):
            return elementwise(lambda *small: forward(*small, **params), arrays)
        return without_numbers(
            _computed_on_zeros(forward, plain(arrays), plain(params)), arrays if primitive.view else ()
        )

    return run_forward


def _has_mask(index: Value) -> bool:
    return any(isinstance(value, MetaArray) and value.dtype.kind == "b" for value in getattr(index, "key", ()))


def _computed_on_zeros(forward: Callable[..., Value], arrays: Value, params: Value) -> Value:
    """Return the forward's result on zeros, or on identity matrices if it raises an error on zeros."""
    try:
        return forward(*arrays, **params)
    except (np.linalg.LinAlgError, RuntimeError, ZeroDivisionError):
        units = [_unit(x) for x in arrays]
        return forward(*units, **params)


def _zeros(x: Tensor) -> Value:
    return plain(x.array)


def _units(x: Tensor) -> Value:
    return _unit(plain(x.array))


def _unit(x: Value) -> Value:
    """Return identity matrices of the shape and memory order of x, or ones."""
    if not isinstance(x, np.ndarray):
        return x
    if x.ndim < 2 or x.dtype.kind not in INEXACT:
        return np.ones_like(x)
    units = np.empty_like(x)
    units[...] = np.eye(*x.shape[-2:], dtype=x.dtype)
    return units


def _write_of_meta(primitive: Primitive, write: Callable[..., Value]) -> Callable[..., Value]:
    @wraps(write)
    def run_in_place(out: Value, *arrays: Value, **params: Value) -> None:
        if type(out) is MetaArray:
            if primitive.elementwise:
                _check_fits(out, _small_result(primitive, arrays, params))
            elif primitive.overwrites or type(params.get("index")).__name__ == "Index":
                _check_fits(_written_part(out, params), arrays[1])
        elif _any_meta(arrays) or _any_meta(params.values()):
            raise NotImplementedError(NO_DATA)
        else:
            write(out, *arrays, **params)

    return run_in_place


def _small_result(primitive: Primitive, arrays: tuple[Value, ...], params: dict[str, Value]) -> Value:
    """Return the result of an elementwise primitive, which raises its errors on arrays of few elements."""
    if any(isinstance(value, np.ndarray) for value in params.values()):
        return np.broadcast(*arrays)
    result = elementwise(lambda *small: primitive.forward(*small, **params), arrays)
    return result[0] if isinstance(result, tuple) else result


def _written_part(out: MetaArray, params: dict[str, Value]) -> Value:
    """Return an array with the shape of the written elements; None if the shape depends on the elements of a mask."""
    index = params.get("index")
    if index is None or _has_mask(index):
        return out if index is None else None
    return np.broadcast_to(np.zeros((), np.bool_), out.shape)[plain(index.key)]


def _check_fits(out: Value, value: Value) -> None:
    if out is not None and np.broadcast_shapes(out.shape, np.shape(value)) != out.shape:
        raise ValueError(f"values of shape {np.shape(value)} cannot be written to elements of shape {out.shape}")


def _on_zeros(name: str, function: Callable[..., Value], args: tuple[Value, ...], kwargs: dict[str, Value]) -> Value:
    """Evaluate an operator that reads elements internally on zeros or identity matrices in place of meta arrays."""
    short = name.rpartition(".")[2]
    tensors = list(_tensors_within((*args, *kwargs.values())))
    without = [type(x.array) is MetaArray for x in tensors]
    if (
        hasattr(function, "reads_elements")
        or True not in without
        or any(x.array.ndim for x, meta in zip(tensors, without) if not meta)
    ):
        return NotImplemented
    writes = short == "__setitem__" or short.endswith("_") and not short.endswith("__")
    if writes and args:
        try:
            check_writable(name, args[0])
        except (RuntimeError, TypeError):
            return NotImplemented
    for numbers in (_zeros, _units):
        try:
            result = function(*_with_arrays(args, numbers), **_with_arrays(kwargs, numbers))
        except Exception:  # the caller raises the error of the original call
            continue
        if writes:
            return None if short == "__setitem__" else args[0]
        return _with_arrays(result, lambda x: without_numbers(x.array))
    return NotImplemented


def _tensors_within(values: Iterable[Value], depth: int = 8) -> Iterator[Tensor]:
    for value in values:
        if is_dense(value):
            yield value
        elif type(value) in (list, tuple) and depth:  # a list may contain itself
            yield from _tensors_within(value, depth - 1)


def _with_arrays(value: Value, change: Callable[[Tensor], Value]) -> Value:
    """Return a value with the array of each Tensor replaced by ``change``."""
    return replaced(value, lambda x: new_tensor(change(x)) if is_dense(x) else x)


def _rule_of_meta(rule: Callable[..., Value], primitive: plan.Recordable) -> Callable[..., Value]:
    def run_rule(g: Value, *saved: Value) -> Value:
        result = rule(g, *saved)
        return without_numbers(result) if type(g) is MetaArray else result

    return run_rule
