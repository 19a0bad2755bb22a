"""Hooks on all modules of the process, under the names of PyTorch's ``nn.modules.module``.

Global hooks run before a module's own hooks. ``changed`` notifies ``Module`` when a global hook is registered or
removed, so that calls need not check for global hooks while there are none.
"""

from __future__ import annotations

import warnings
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

listeners: OrderedDict[int, Hook] = OrderedDict()  # functions that wrap ``Module.__call__``

at_calls = forward_pre_hooks, forward_hooks, backward_pre_hooks, backward_hooks
changed: list[Callable[[], None]] = []  # functions to call after a hook was registered or removed


class _Handle(RemovableHandle):
    def __init__(self, hooks: dict[int, Any], hook: object) -> None:
        super().__init__(hooks, hook)
        self._tell()

    def remove(self) -> None:
        super().remove()
        self._tell()

    @staticmethod
    def _tell() -> None:
        for tell in changed:
            tell()


def call_always_called(
    module: object, hooks: list[tuple[Hook, bool, bool]], args: object, kwargs: dict[str, object]
) -> None:
    """Call the ``always_call`` hooks after an error; an error in a hook becomes a warning."""
    for hook, with_kwargs, always in hooks:
        if always:
            try:
                hook(module, args, kwargs, None) if with_kwargs else hook(module, args, None)
            except Exception as error:
                warnings.warn(
                    f"a forward hook with always_call=True raised an error, which was silenced because "
                    f"another error was raised before it: {error}",
                    stacklevel=2,
                )


def any_at_calls() -> bool:
    """Whether a global forward or backward hook is registered."""
    return any(at_calls)


def register_listener(listener: Callable[[Hook], Hook]) -> RemovableHandle:
    """Replace ``Module.__call__`` by ``listener(Module.__call__)``, at a lower cost than a hook."""
    return _Handle(listeners, listener)


def telling(call: Hook) -> Hook:
    """Return ``call``, the method ``Module.__call__``, wrapped in all registered listeners."""
    for listener in listeners.values():
        call = listener(call)
    return call


def register_module_forward_pre_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, args)`` before the forward of every module; its return value replaces the arguments."""
    return _Handle(forward_pre_hooks, (hook, False))


def register_module_forward_hook(
    hook: Hook, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args, output)`` after the forward of every module; its return value replaces the output.

    Args:
        hook: the function to call.
        with_kwargs: call ``hook(module, args, kwargs, output)``.
        always_call: also call ``hook`` after an error in a pre-hook, the forward or an earlier hook, with output None.
    """
    return _Handle(forward_hooks, (hook, with_kwargs, always_call))


def register_module_full_backward_pre_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, grad_output)`` before the backward pass of each module; see ``Module``."""
    return _Handle(backward_pre_hooks, hook)


def register_module_full_backward_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` after the backward pass of each module; see ``Module``."""
    return _Handle(backward_hooks, hook)


register_module_backward_hook = register_module_full_backward_hook


def register_module_parameter_registration_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, name, parameter)`` when a parameter is registered; its result replaces the parameter."""
    return RemovableHandle(parameter_hooks, hook)


def register_module_buffer_registration_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, name, buffer)`` when a buffer is registered; its result replaces the buffer."""
    return RemovableHandle(buffer_hooks, hook)


def register_module_module_registration_hook(hook: Hook) -> RemovableHandle:
    """Call ``hook(module, name, submodule)`` when a submodule is registered; its result replaces the submodule."""
    return RemovableHandle(module_hooks, hook)


def registered(hooks: OrderedDict[int, Hook], module: object, name: str, value: object) -> Any:
    """Apply the registration hooks to a value and return the value to register."""
    for hook in hooks.values():
        replacement = hook(module, name, value)
        if replacement is not None:
            value = replacement
    return value
