"""Hooks on all modules of the process, under PyTorch's names in ``nn.modules.module``.

They run before a module's own hooks of their kind. A module asks for hooks at each call; while there is none on all
modules, it asks for its own alone (``Module`` is told by ``changed``).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from ...core.graph.handles import RemovableHandle

Hook = Callable[..., Any]

forward_pre_hooks: OrderedDict[int, tuple[Hook, bool]] = OrderedDict()
forward_hooks: OrderedDict[int, tuple[Hook, bool, bool]] = OrderedDict()
backward_pre_hooks: OrderedDict[int, Hook] = OrderedDict()
backward_hooks: OrderedDict[int, Hook] = OrderedDict()
parameter_hooks: OrderedDict[int, Hook] = OrderedDict()
buffer_hooks: OrderedDict[int, Hook] = OrderedDict()
module_hooks: OrderedDict[int, Hook] = OrderedDict()

at_calls = forward_pre_hooks, forward_hooks, backward_pre_hooks, backward_hooks
changed: list[Callable[[], None]] = []  # called when a hook that runs at calls was registered or removed


class _Handle(RemovableHandle):
    def __init__(self, hooks: dict[int, Any], hook: Any) -> None:
        super().__init__(hooks, hook)
        self._tell()

    def remove(self) -> None:
        super().remove()
        self._tell()

    @staticmethod
    def _tell() -> None:
        for tell in changed:
            tell()


def any_at_calls() -> bool:
    """Whether a hook on all modules runs at their calls."""
    return any(at_calls)


def register_module_forward_pre_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, args)`` before the forward of every module; what it returns replaces the arguments."""
    return _Handle(forward_pre_hooks, (hook, False))


def register_module_forward_hook(
    hook: Hook, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args, output)`` after the forward of every module; what it returns replaces the output.

    Args:
        hook: the function.
        with_kwargs: call it as ``hook(module, args, kwargs, output)``.
        always_call: call it also when a pre-hook, the forward or an earlier hook raised, with None for the output.
    """
    return _Handle(forward_hooks, (hook, with_kwargs, always_call))


def register_module_full_backward_pre_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, grad_output)`` before each module is differentiated; see ``Module``'s own."""
    return _Handle(backward_pre_hooks, hook)


def register_module_full_backward_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` once each module is differentiated; see ``Module``'s own."""
    return _Handle(backward_hooks, hook)


register_module_backward_hook = register_module_full_backward_hook


def register_module_parameter_registration_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, name, parameter)`` when a module enters a parameter; what it returns takes its place."""
    return RemovableHandle(parameter_hooks, hook)


def register_module_buffer_registration_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, name, buffer)`` when a module enters a buffer; what it returns takes its place."""
    return RemovableHandle(buffer_hooks, hook)


def register_module_module_registration_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, name, submodule)`` when a module enters a submodule; what it returns takes its place."""
    return RemovableHandle(module_hooks, hook)


def registered(hooks: OrderedDict[int, Hook], module: Any, name: str, value: object) -> Any:
    """What is to be entered in a module for the value, after the hooks."""
    for hook in hooks.values():
        replacement = hook(module, name, value)
        if replacement is not None:
            value = replacement
    return value
