"""Modules as functions of their parameters and buffers."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..core.tensor.tensor import Tensor
from ..ops.shape.joining import stack

State = Mapping[str, Tensor]


class _Local(threading.local):
    def __init__(self) -> None:
        self.active: tuple[tuple[Any, dict[str, Tensor]], ...] = ()


_local = _Local()


def functional_call(
    module: Any,
    parameter_and_buffer_dicts: State | Sequence[State],
    args: object = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """``module(*args, **kwargs)`` with other Tensors in the place of its parameters and buffers.

    The module has its own again when the call is over. What it writes in place goes to the given Tensors; a buffer
    that it assigns anew takes the place of the given one in the dict.

    Args:
        module: a Module.
        parameter_and_buffer_dicts: Tensors by the names that ``named_parameters`` and ``named_buffers`` give; or a
            tuple of such dicts. What is not named stays as it is.
        args: the arguments; what is no tuple is the only one.
        kwargs: those given by name.
        tie_weights: a Tensor for one of several names of a parameter that is used twice stands for all of them.
        strict: refuse dicts that leave out a name or have one that the module has not.

    Returns:
        What the module returns.

    Raises:
        ValueError: a name is in two of the dicts, tied names are given different Tensors, or something else than
            dicts is given.
        TypeError: a value is no Tensor.
        RuntimeError: the names do not match, with ``strict``.

    >>> from retrograd.func import functional_call, grad
    >>> layer = rg.nn.Linear(2, 1)
    >>> state = {"weight": rg.tensor([[1.0, 2.0]]), "bias": rg.zeros(1)}
    >>> functional_call(layer, state, rg.tensor([3.0, 4.0]))
    tensor([11.])
    >>> grad(lambda state: functional_call(layer, state, rg.tensor([3.0, 4.0])).sum())(state)["weight"]
    tensor([[3., 4.]])
    """
    if isinstance(parameter_and_buffer_dicts, Mapping):
        dicts: Sequence[Any] = (parameter_and_buffer_dicts,)
    else:
        dicts = parameter_and_buffer_dicts
    if not isinstance(dicts, (tuple, list)) or not all(isinstance(each, Mapping) for each in dicts):
        raise ValueError("functional_call: wanted a dict of Tensors by name, or a tuple of such dicts")
    names = [name for each in dicts for name in each]
    repeated = sorted({name for name in names if names.count(name) > 1}) if len(dicts) > 1 else []
    if repeated:
        raise ValueError(f"functional_call: {repeated} appear in several of the dicts, so which is meant is not clear")
    state = {name: value for each in dicts for name, value in each.items()}
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"functional_call: {name!r} must be a Tensor, not {type(value).__name__}")
    substitutes = _by_places(module, state, tie_weights, strict)
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with substituted(((module, substitutes),)):
        result = module(*args, **(kwargs or {}))
        for each in dicts:
            for name in each if isinstance(each, dict) else ():
                if name in substitutes:
                    table, key = _place(module, name)
                    each[name] = table.get(key, each[name])
    return result


def _members(module: Any) -> dict[str, Tensor]:
    return {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }


def _by_places(module: Any, state: dict[str, Tensor], tie_weights: bool, strict: bool) -> dict[str, Tensor]:
    """The given Tensors by every name they stand for."""
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
            raise RuntimeError(f"functional_call: names for {type(module).__name__}: {'; '.join(lists)}")
    return substitutes


def _place(module: Any, name: str) -> tuple[dict[str, Tensor], str]:
    """The table of a submodule that holds a parameter or buffer, and its key there."""
    path, _, key = name.rpartition(".")
    owner = module.get_submodule(path)
    return (owner._parameters if key in owner._parameters else owner._buffers), key


def substitutions() -> tuple[tuple[Any, dict[str, Tensor]], ...]:
    """Modules whose Tensors are replaced on this thread now, and by what; for a computation to be repeated later."""
    return _local.active


@contextmanager
def substituted(substitutions: tuple[tuple[Any, dict[str, Tensor]], ...]) -> Iterator[None]:
    """Put Tensors in the place of modules' own, by name, and these back at the end."""
    before = _local.active
    undo: list[tuple[dict[str, Tensor], str, Tensor]] = []
    try:
        for module, state in substitutions:
            for name, value in state.items():
                table, key = _place(module, name)
                undo.append((table, key, table[key]))
                table[key] = value
        _local.active = before + substitutions
        yield
    finally:
        _local.active = before
        for table, key, value in reversed(undo):
            table[key] = value


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters and the buffers of several modules of one class, stacked along a new first axis, by name.

    For an ensemble: ``vmap`` of ``functional_call`` over the result runs all modules at once.

    Args:
        models: modules alike, all training or none.

    Returns:
        Dicts of parameters and of buffers. Where a parameter requires grad in every module, its stack is a leaf that
        does.

    Raises:
        RuntimeError: there is no module, or they differ in class or mode, or parameters in ``requires_grad``.

    >>> from retrograd.func import stack_module_state
    >>> parameters, buffers = stack_module_state([rg.nn.Linear(2, 3) for _ in range(5)])
    >>> parameters["weight"].shape, buffers
    ((5, 3, 2), {})
    """
    if len(models) == 0:
        raise RuntimeError("stack_module_state: wanted at least one model")
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
