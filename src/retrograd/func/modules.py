"""Parameters as values: ``functional_call``, ``stack_module_state``, and nests as one vector: ``ravel_pytree``."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..core.errors import describe
from ..core.graph.primitive import operand
from ..core.tensor.tensor import Tensor, new_tensor
from ..ops.shape.conversion import result_type
from ..ops.shape.joining import cat, split, stack
from .nests import flatten

State = Mapping[str, Tensor]


class _Local(threading.local):
    def __init__(self) -> None:
        self.active: tuple[tuple[object, dict[str, Tensor]], ...] = ()


_local = _Local()


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: State | Sequence[State],
    args: object = None,
    kwargs: dict[str, object] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Return ``module(*args, **kwargs)``, computed with other Tensors as its parameters and buffers.

    The call restores the module's own Tensors at its end. In-place writes change the given Tensors; a buffer that the
    module reassigns replaces the given buffer in the dict.

    Args:
        module: a Module.
        parameter_and_buffer_dicts: a dict from the names of ``named_parameters`` and ``named_buffers`` to Tensors, or a
            tuple of such dicts. Names that are missing keep the module's own Tensors.
        args: a tuple of positional arguments, or a single argument.
        kwargs: the keyword arguments.
        tie_weights: if a parameter has several names, a Tensor given for one of them is used for all.
        strict: raise an error for missing or unexpected names.

    Returns:
        The result of the module.

    Raises:
        ValueError: a name is in two of the dicts, tied names are given different Tensors, or an argument is not a
            dict or a tuple of dicts.
        TypeError: a value is not a Tensor.
        RuntimeError: with ``strict``, the names do not match.

    >>> from retrograd.func import functional_call, grad
    >>> layer = rg.nn.Linear(2, 1)
    >>> state = {"weight": rg.tensor([[1.0, 2.0]]), "bias": rg.zeros(1)}
    >>> functional_call(layer, state, rg.tensor([3.0, 4.0]))
    tensor([11.])
    >>> grad(lambda state: functional_call(layer, state, rg.tensor([3.0, 4.0])).sum())(state)["weight"]
    tensor([[3., 4.]])
    """
    if isinstance(parameter_and_buffer_dicts, Mapping):
        dicts: Sequence[object] = (parameter_and_buffer_dicts,)
    else:
        dicts = parameter_and_buffer_dicts
    if not isinstance(dicts, (tuple, list)) or not all(isinstance(each, Mapping) for each in dicts):
        raise ValueError(
            f"functional_call: expected a dict from names to Tensors, or a tuple of such dicts, got {describe(dicts)}"
        )
    names = [name for each in dicts for name in each]
    repeated = sorted({name for name in names if names.count(name) > 1}) if len(dicts) > 1 else []
    if repeated:
        raise ValueError(f"functional_call: {repeated} appear in several of the dicts; give each name once")
    state = {name: value for each in dicts for name, value in each.items()}
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"functional_call: {name!r} must be a Tensor, not {type(value).__name__}")
    substitutes = _substitutes_by_name(module, state, tie_weights, strict)
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with substituted(((module, substitutes),)):
        result = module(*args, **(kwargs or {}))
        _read_back(module, substitutes, dicts)
    return result


def _read_back(module: object, substitutes: Mapping[str, Tensor], dicts: Sequence[object]) -> None:
    """Store Tensors that the module has replaced during the call, such as running statistics, in the dicts."""
    for each in dicts:
        if isinstance(each, dict):
            for name in substitutes.keys() & each.keys():
                table, key = _table_and_key(module, name)
                each[name] = table.get(key, each[name])


def _members(module: Any) -> dict[str, Tensor]:
    return {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }


def _substitutes_by_name(
    module: object, state: dict[str, Tensor], tie_weights: bool, strict: bool
) -> dict[str, Tensor]:
    """Return the given Tensors by every name that they replace, tied names included."""
    members = _members(module)
    names_of: dict[int, list[str]] = {}
    for name, member in members.items():
        names_of.setdefault(id(member), []).append(name)
    substitutes: dict[str, Tensor] = {}
    for name, value in state.items():
        if name not in members:
            continue
        for tied in names_of[id(members[name])] if tie_weights else (name,):
            if tied != name and state.get(tied, value) is not value:
                raise ValueError(f"functional_call: {name!r} and {tied!r} are one Tensor, but are given different ones")
            substitutes[tied] = value
    if strict:
        unexpected = [name for name in state if name not in members]
        missing = [name for name in members if name not in substitutes]
        if unexpected or missing:
            lists = [f"{what} {', '.join(map(repr, found))}" for what, found in
                     (("unexpected", unexpected), ("missing", missing)) if found]  # fmt: skip
            raise RuntimeError(f"functional_call: wrong names for {type(module).__name__}: {'; '.join(lists)}")
    return substitutes


def _table_and_key(module: Any, name: str) -> tuple[dict[str, Tensor], str]:
    """Return the dict of the submodule that contains a parameter or buffer, and its key there."""
    path, _, key = name.rpartition(".")
    owner = module.get_submodule(path)
    return (owner._parameters if key in owner._parameters else owner._buffers), key


def substitutions() -> tuple[tuple[Any, dict[str, Tensor]], ...]:
    """Return the active substitutions of this thread, so that a recomputation can repeat them."""
    return _local.active


@contextmanager
def substituted(substitutions: tuple[tuple[object, dict[str, Tensor]], ...]) -> Iterator[None]:
    """Replace Tensors of modules, by name, inside the block."""
    before = _local.active
    undo: list[tuple[dict[str, Tensor], str, Tensor]] = []
    try:
        for module, state in substitutions:
            for name, value in state.items():
                table, key = _table_and_key(module, name)
                undo.append((table, key, table[key]))
                table[key] = value
        _local.active = before + substitutions
        yield
    finally:
        _local.active = before
        for table, key, value in reversed(undo):
            table[key] = value


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the parameters and the buffers of several modules, stacked along a new first dimension, by name.

    ``vmap`` of ``functional_call`` over the result runs an ensemble of modules in one call.

    Args:
        models: modules of one class, all in training mode or all in evaluation mode.

    Returns:
        A dict of parameters and a dict of buffers. The stack of parameters that require grad is a leaf that requires
        grad.

    Raises:
        RuntimeError: ``models`` is empty, or the modules differ in class, mode, or ``requires_grad``.

    >>> from retrograd.func import stack_module_state
    >>> parameters, buffers = stack_module_state([rg.nn.Linear(2, 3) for _ in range(5)])
    >>> parameters["weight"].shape, buffers
    ((5, 3, 2), {})
    """
    if len(models) == 0:
        raise RuntimeError("stack_module_state: models must contain at least one module, got none")
    if any(type(model) is not type(models[0]) for model in models):
        kinds = sorted({type(model).__name__ for model in models})
        raise RuntimeError(f"stack_module_state: the models must be of one class, got {', '.join(kinds)}")
    if any(model.training != models[0].training for model in models):
        raise RuntimeError("stack_module_state: the models must all be in training mode or all in evaluation mode")
    parameters = [dict(model.named_parameters()) for model in models]
    buffers = [dict(model.named_buffers()) for model in models]
    return (
        {name: _stacked(name, [each[name] for each in parameters]) for name in parameters[0]},
        {name: _stacked(name, [each[name] for each in buffers]) for name in buffers[0]},
    )


def _stacked(name: str, members: list[Tensor]) -> Tensor:
    wanted = [x.requires_grad for x in members]
    if any(wanted) != all(wanted):
        raise RuntimeError(f"stack_module_state: {name!r} requires grad in some of the models and not in others")
    return stack([x.detach() for x in members]).requires_grad_(wanted[0])


def ravel_pytree(pytree: object) -> tuple[Tensor, Callable[[Tensor], Any]]:
    """Return the leaves of a nest as one vector, and a function that turns such a vector back into a nest, as in JAX.

    Both directions are differentiable. The dtype of the vector is the result type of all leaves; the function restores
    the dtype of each leaf.

    Args:
        pytree: a nest of Tensors, arrays and numbers.

    Raises:
        TypeError: a leaf is not a Tensor, array or number.
        ValueError: the function gets something other than a vector of the same length.

    >>> from retrograd.func import ravel_pytree
    >>> vector, unravel = ravel_pytree({"w": rg.ones(2, 1), "b": rg.zeros(1)})
    >>> vector, unravel(2 * vector)["b"]
    (tensor([1., 1., 0.]), tensor([0.]))
    """
    leaves, structure = flatten(pytree)
    xs = [operand(leaf) for leaf in leaves]
    dtype: Any = None
    for x in xs:
        dtype = x if dtype is None else new_tensor(np.empty((1,) * max(x.ndim, dtype.ndim), result_type(x, dtype)))
    vector = cat([x.reshape(-1).astype(dtype.dtype) for x in xs]) if xs else new_tensor(np.zeros(0, np.float32))
    sizes = [x.array.size for x in xs]

    def unravel(vector: Tensor) -> Any:
        flat = operand(vector)
        if flat.shape != (sum(sizes),):
            raise ValueError(f"ravel_pytree: expected a vector of {sum(sizes)} elements, got {describe(flat)}")
        parts = split(flat, sizes) if sizes else ()
        return structure.unflatten(
            [part.reshape(x.shape).astype(x.dtype) for part, x in zip(parts, xs, strict=True)]
        )  # fmt: skip

    return vector, unravel
