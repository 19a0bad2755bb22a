"""Create the graph node of a call, and save and restore the values that its derivative rules read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from ...core.arrays import Array
from ..arrays.devices import is_array
from ..tensor.storage import Storage, Token, borrowed, share_view, shares_memory, storage_of, token_of
from ..tensor.tensor import Tensor, new_tensor
from .modes import modes, watchers
from .nodes import NOTHING, Node, edge_of, new_node
from .observers import Observer
from .plan import Params, Plan, Recordable


def node_of_call(
    primitive: Any,
    inputs: tuple[Any, ...],
    arrays: tuple[object, ...],
    params: Params,
    residuals: Sequence[object],
    outs: Sequence[Any],
    tensors: Sequence[Tensor],
    needs: tuple[bool, ...],
) -> Node | None:
    """Return the node of a call, or None if no input that needs a gradient has a rule."""
    plan = primitive.plan(needs)
    if not plan.rules:
        return None
    if primitive.outputs == 1:
        shape, dtype = outs[0].shape, outs[0].dtype
    else:
        shape, dtype = tuple([array.shape for array in outs]), tuple([array.dtype for array in outs])
    parents = tuple([edge_of(value) if need else None for value, need in zip(inputs, needs, strict=True)])
    saved = NOTHING
    if plan.saves:
        answer = outs[0] if primitive.outputs == 1 else tuple(outs)
        saved = saved_of(plan, inputs, arrays, params, residuals, answer, tensors)
    return new_node(plan, parents, saved, shape, dtype)


def saved_of(
    plan: Plan,
    inputs: tuple[object, ...],
    arrays: Sequence[Any],
    params: Params,
    residuals: Sequence[object],
    answer: object,
    tensors: Sequence[Tensor],
) -> tuple[Any, ...]:
    """Return the values a node saves, in the order of the primitive's layout, followed by the arrays' storages."""
    primitive = plan.primitive
    values = plan.blank.copy()
    places = len(primitive.layout)
    if plan.kept_inputs:
        if primitive.variadic:
            values[0] = tuple(arrays)
            values += [token_of(value) if isinstance(value, Tensor) else None for value in inputs]
        else:
            for place in plan.kept_inputs:
                values[place] = arrays[place]
                value = inputs[place]
                if isinstance(value, Tensor):
                    storage = value._storage
                    if storage is None:
                        storage = value._storage = Token()
                    elif type(storage) is Storage:
                        storage = token_of(value)
                    values[places + place] = storage
    if plan.keep_ans:
        values[len(primitive.inputs)] = answer
        for tensor in tensors:  # an observer may change the origin of a result's Storage
            values.append(storage_of(tensor) if watchers else token_of(tensor))
    for place, name in plan.kept_params:
        try:
            values[place] = params[name]
        except KeyError:
            own = primitive.name
            call = f"{own}({', '.join(primitive.inputs)}, {name}=...)"
            raise TypeError(f"{own}: a rule reads the parameter {name!r}; pass it by keyword: {call}") from None
    for place, index in plan.kept_residuals:
        values[place] = residuals[index]
    for place, index in plan.kept_shapes:
        if primitive.variadic:
            values[place] = tuple([array.shape for array in arrays])
        else:
            array = arrays[index]
            values[place] = array.shape if type(array) is ndarray else np.shape(array)
    if watchers and modes.level is not None:
        values[:places] = map(modes.level.kept, values[:places])
    return tuple(values)


def attach(value: Any, edge: Any, storage: object) -> Any:
    """Return a saved array as a Tensor attached to the graph. Writes to its memory still go to a copy."""
    if value is None or not is_array(value):
        return value
    if isinstance(edge, Tensor) and edge.array is value:
        return edge
    tensor = new_tensor(value)
    if storage is not None:
        tensor._storage = borrowed(storage)
    if edge is not None:
        tensor._requires = True
        tensor._node = edge
    return tensor


def late_observers(primitive: Recordable) -> tuple[Observer, ...]:
    """Return the observers of this thread if ``apply`` may notify them after the call, otherwise an empty tuple."""
    if primitive.outputs != 1 or modes.level is not None or modes.tracer is not None:
        return NOTHING
    for observer in modes.observers:
        if not observer.late:
            return NOTHING
    return modes.observers


def tell_late(
    observers: tuple[Observer, ...],
    primitive: Recordable,
    inputs: tuple[object, ...],
    arrays: Sequence[Array],
    params: Params,
    result: Tensor,
) -> Tensor:
    """Notify late observers of a call, and return its result. A view is first registered with the memory it shares."""
    node = result._node
    if node is not None:
        for observer in observers:
            if observer.counting:
                observer.recorded(node)
    if primitive.view and isinstance(inputs[0], Tensor) and shares_memory(result.array, arrays[0]):
        share_view(result, inputs[0], modes.grad_enabled)
    for observer in observers:
        if observer.telling:
            observer.told(primitive, inputs, params, result, node)
    return result
