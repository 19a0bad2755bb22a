"""Bind the arguments of calls to the signatures of their targets."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import NamedTuple

from ....nn.base.module import Module
from .immutable_collections import Value


class ArgsKwargsPair(NamedTuple):
    """Positional and keyword arguments of a call."""

    args: tuple[Value, ...]
    kwargs: dict[str, Value]


def signature_of(function: Callable[..., Value]) -> inspect.Signature | None:
    """Return the signature of a function, or None if it has none."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def normalize_function(
    target: Callable[..., Value],
    args: tuple[Value, ...],
    kwargs: dict[str, Value] | None = None,
    arg_types: tuple[Value, ...] | None = None,
    kwarg_types: dict[str, Value] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """Return the arguments of a call as the signature of the function names them, with defaults.

    Args:
        target: the function.
        args: the positional arguments.
        kwargs: the keyword arguments.
        arg_types: not needed: each function has one signature.
        kwarg_types: not needed.
        normalize_to_only_use_kwargs: pass all arguments by keyword.

    Returns:
        The arguments, or None if the function has no signature or does not accept them.

    >>> import retrograd as rg
    >>> from retrograd.compat.modules.fx.operator_schemas import normalize_function
    >>> normalize_function(rg.nn.functional.relu, (1,), normalize_to_only_use_kwargs=True).kwargs["input"]
    1
    """
    signature = signature_of(target)
    return None if signature is None else _bound(signature, args, kwargs or {}, normalize_to_only_use_kwargs)


def normalize_module(
    root: Module,
    target: str,
    args: tuple[Value, ...],
    kwargs: dict[str, Value] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """Return the arguments of a call of a submodule as the signature of its ``forward`` names them, with defaults."""
    signature = signature_of(root.get_submodule(target).forward)
    return None if signature is None else _bound(signature, args, kwargs or {}, normalize_to_only_use_kwargs)


def _bound(
    signature: inspect.Signature, args: tuple[Value, ...], kwargs: dict[str, Value], by_keyword: bool
) -> ArgsKwargsPair | None:
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    if not by_keyword:
        positional = len(args)
        names = list(bound.arguments)
        return ArgsKwargsPair(
            tuple(bound.arguments[name] for name in names[:positional]),
            {name: bound.arguments[name] for name in names[positional:]},
        )
    kinds = signature.parameters
    starred = [
        name for name in bound.arguments if kinds[name].kind in (kinds[name].VAR_POSITIONAL, kinds[name].VAR_KEYWORD)
    ]
    return None if any(bound.arguments[name] for name in starred) else ArgsKwargsPair(
        (), {name: value for name, value in bound.arguments.items() if name not in starred}
    )  # fmt: skip
