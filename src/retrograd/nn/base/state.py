"""``state_dict`` and ``load_state_dict``: the state of a module by dotted names."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from operator import methodcaller
from typing import Any, NamedTuple

import numpy as np

from ...core.errors import describe
from ...core.graph.handles import RemovableHandle
from ...core.graph.modes import no_grad
from ...core.tensor.tensor import Tensor, new_tensor, to_array
from ...ops.table.arguments import ChecksOptions
from ..parameter import Parameter, get_swap_module_params_on_conversion
from .arguments import is_buffer

ABSENT = object()
_ASSIGN = "assign_to_params_buffers"  # metadata key; PyTorch's name


class IncompatibleKeys(NamedTuple):
    """The names that ``load_state_dict(strict=False)`` did not load."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


class _WithoutModule:
    """A hook that is called without the module. Unlike a closure it can be pickled."""

    def __init__(self, hook: Callable[..., object]) -> None:
        self.hook = hook

    def __call__(self, module: State, *args: object) -> None:
        self.hook(*args)


class State(ChecksOptions):
    """The part of ``Module`` that saves and loads Parameters, buffers and submodules."""

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: Mapping[str, State | None]
    _non_persistent_buffers_set: set[str]
    _state_dict_pre_hooks: OrderedDict[int, Callable[..., object]]
    _state_dict_hooks: OrderedDict[int, Callable[..., Any]]
    _load_state_dict_pre_hooks: OrderedDict[int, Callable[..., object]]
    _load_state_dict_post_hooks: OrderedDict[int, Callable[..., object]]

    _version = 1  # layout version of the entries, recorded in the metadata of a state_dict

    def state_dict(
        self, *, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Return every Parameter and persistent buffer by dotted name, detached, sharing memory."""
        state: dict[str, Any] = OrderedDict() if destination is None else destination
        if destination is None:
            state._metadata = OrderedDict()  # type: ignore[attr-defined]
        local = {"version": self._version}
        if hasattr(state, "_metadata"):
            state._metadata[prefix[:-1]] = local
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(state, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=state, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in self._state_dict_hooks.values():
            changed = hook(self, state, prefix, local)
            if changed is not None:
                state = changed
        return state

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        for name, parameter in self._parameters.items():
            if parameter is not None:
                destination[prefix + name] = parameter if keep_vars else parameter.detach()
        for name, buffer in self._buffers.items():
            if buffer is not None and name not in self._non_persistent_buffers_set:
                destination[prefix + name] = buffer if keep_vars else buffer.detach()
        if type(self).get_extra_state is not State.get_extra_state:
            destination[prefix + "_extra_state"] = self.get_extra_state()

    def get_extra_state(self) -> Any:
        """Return extra state for ``state_dict()``; subclasses may define it.

        Raises:
            RuntimeError: the class does not define it.
        """
        raise RuntimeError(f"{type(self).__name__} does not define get_extra_state")

    def set_extra_state(self, state: object) -> None:
        """Restore the state from ``get_extra_state``."""
        raise RuntimeError(f"{type(self).__name__} does not define set_extra_state for the extra state to load")

    def register_state_dict_pre_hook(self, hook: Callable[..., object]) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before each ``state_dict()``."""
        return RemovableHandle(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., object]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` after each ``state_dict()``."""
        return RemovableHandle(self._state_dict_hooks, hook)

    _register_state_dict_hook = register_state_dict_post_hook

    def register_load_state_dict_pre_hook(self, hook: Callable[..., object]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, ...)`` before each ``load_state_dict()``."""
        return RemovableHandle(self._load_state_dict_pre_hooks, hook)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., object], with_module: bool = False
    ) -> RemovableHandle:
        """PyTorch's older name of ``register_load_state_dict_pre_hook``, by default for a hook without the module."""
        return self.register_load_state_dict_pre_hook(hook if with_module else _WithoutModule(hook))

    def register_load_state_dict_post_hook(self, hook: Callable[..., object]) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` after each ``load_state_dict()``, submodules first.

        The hook may remove names from ``incompatible_keys``; removed names do not cause an error.
        """
        return RemovableHandle(self._load_state_dict_post_hooks, hook)

    def load_state_dict(
        self, state_dict: Mapping[str, object], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy values by dotted name to Parameters and buffers.

        Args:
            state_dict: Tensors or arrays by name, as ``state_dict()`` returns.
            strict: raise an error for missing and unexpected names.
            assign: register the given Tensors instead of copying their values.

        Returns:
            IncompatibleKeys: the missing and the unexpected names.

        Raises:
            RuntimeError: names (with ``strict``) or shapes do not match; the message lists all mismatches. Nothing is
                loaded then, except extra state that may create submodules for entries without one, unless a post-hook
                is registered, which may remove names from the error.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"load_state_dict: state_dict must be a dictionary, got {type(state_dict).__name__}")
        missing: list[str] = []
        unexpected: list[str] = []
        problems: list[str] = []
        # Writes to perform after the whole tree is checked; nothing is written before.
        assignments: list[Callable[[], object]] = []
        loading = {_ASSIGN: assign, "assignments": assignments}
        metadata: Mapping[str, Any] = getattr(state_dict, "_metadata", None) or {}
        incompatible = IncompatibleKeys(missing, unexpected)
        after: list[Callable[[], object]] = []

        def load(module: State, given: dict[str, Any], prefix: str) -> None:
            local = {**metadata.get(prefix[:-1], {}), **loading}
            module._load_from_state_dict(given, prefix, local, strict, missing, unexpected, problems)
            for name, child in module._modules.items():
                if child is not None:
                    below = f"{prefix}{name}."
                    # Pass each child a dictionary of its own, so that its hooks see and change only its entries.
                    load(child, {key: given[key] for key in given if key.startswith(below)}, below)  # noqa: F821
            after.extend(partial(hook, module, incompatible) for hook in module._load_state_dict_post_hooks.values())

        load(self, OrderedDict(state_dict), "")
        del load  # the closure refers to itself: free the Tensors now, not when the cycle collector runs
        if not problems and (after or not strict or not (missing or unexpected)):
            with no_grad():
                for write in assignments:
                    write()
            for tell in after:  # hooks may remove keys from ``incompatible``
                tell()
        if strict and missing:
            problems.insert(0, "Missing key(s) in state_dict: " + ", ".join(map(repr, missing)) + ".")
        if strict and unexpected:
            problems.insert(0, "Unexpected key(s) in state_dict: " + ", ".join(map(repr, unexpected)) + ".")
        if problems:
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(problems))
        return incompatible

    def _state_names(self) -> list[str]:
        """Return the names of this module's own entries that ``load_state_dict()`` expects."""
        tensors = [*self._parameters.items(), *self._buffers.items()]
        names = [
            name for name, tensor in tensors if tensor is not None and name not in self._non_persistent_buffers_set
        ]
        return names if type(self).set_extra_state is State.set_extra_state else [*names, "_extra_state"]

    def _expects(self, path: str) -> bool:
        name, dot, below = path.partition(".")
        child = self._modules.get(name)
        return child is not None and child._expects(below) if dot else name in self._state_names()

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Load this module's own entries. PyTorch's method, which subclasses override to convert older layouts."""
        from ...ops.linear.sparse.sparse import SparseTensor

        for hook in self._load_state_dict_pre_hooks.values():
            hook(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        now: list[Callable[[], object]] = []  # for direct callers, which do not pass a list of deferred writes
        assignments = local_metadata.get("assignments", now)
        names = self._state_names()
        own = [key[len(prefix) :] for key in state_dict if key.startswith(prefix)]
        set_now = "_extra_state" in names and "_extra_state" in own and not all(map(self._expects, own))
        if set_now:  # it may create the submodules of the other entries
            self.set_extra_state(state_dict[prefix + "_extra_state"])
            names = self._state_names()
        for path in own:
            name, dot, _ = path.partition(".")
            if name not in (self._modules if dot else names) and prefix + path not in unexpected_keys:
                unexpected_keys.append(prefix + path)
        for name in names:
            key = prefix + name
            if key not in state_dict:
                missing_keys.append(key)
                continue
            value = state_dict[key]
            if name == "_extra_state":
                if not set_now:
                    assignments.append(partial(self.set_extra_state, value))
                continue
            if not is_buffer(value):
                found = _as_tensor(value)
                if found is None:
                    error_msgs.append(
                        f'While copying the parameter named "{key}", expected a Tensor or an array, '
                        f"but received {type(value)}."
                    )
                    continue
                value = found
            tensor: Tensor = getattr(self, name)
            if tensor.shape == () and value.shape == (1,):  # PyTorch before 0.4 saved scalars in this shape
                value = value[0]
            if isinstance(value, SparseTensor) is not isinstance(tensor, SparseTensor):
                error_msgs.append(f"layout mismatch for {key}: copying {describe(value)} into {describe(tensor)}.")
            elif value.shape != tensor.shape:
                error_msgs.append(f"size mismatch for {key}: copying {describe(value)} into {describe(tensor)}.")
            elif isinstance(value, SparseTensor):
                moved = methodcaller("to", tensor.device, tensor.dtype)(value)
                assignments.append(partial(self._buffers.__setitem__, name, moved))
            elif get_swap_module_params_on_conversion():
                assignments.append(partial(_load_into, tensor, value, bool(local_metadata.get(_ASSIGN))))
            elif local_metadata.get(_ASSIGN):
                assignments.append(partial(self._assign, name, value))
            else:
                assignments.append(partial(_copy_parameter, name, tensor, value))
        with no_grad():
            for write in now:
                write()

    @property
    def original_name(self) -> str:
        """The name of the class: an attribute of scripted modules in PyTorch."""
        return type(self).__name__

    def _assign(self, name: str, value: Tensor) -> None:
        if name not in self._parameters:
            self._buffers[name] = value
        elif isinstance(value, Parameter):
            self._parameters[name] = value
        else:
            self._parameters[name] = Parameter(value, requires_grad=getattr(self, name).requires_grad)


def _copy_parameter(name: str, target: Tensor, source: Tensor) -> None:
    if target.device.type == "meta" and source.device.type != "meta":
        warnings.warn(
            f"for {name}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current "
            "model, which is a no-op; pass assign=True to assign the items of the state dictionary instead",
            UserWarning,
            stacklevel=3,
        )
    target.copy_(source.to(target.device))


def _load_into(target: Tensor, source: Tensor, assign: bool) -> None:
    """Assign to ``target``, in place, the values that its ``module_load`` returns for ``source``."""
    loaded: Tensor = methodcaller("module_load", source, assign=assign)(target)
    if loaded is source or loaded is target:
        raise RuntimeError(
            "load_state_dict: module_load must return a new Tensor, got one of its arguments; return a detached Tensor"
        )
    target.data = loaded.detach()


def _as_tensor(value: object) -> Tensor | None:
    """Return an array or another library's tensor as a Tensor; None for other types such as lists and numbers."""
    if not hasattr(value, "__array__"):
        return None
    try:  # NumPy preserves the dtype of another library's tensor
        return new_tensor(to_array(np.asarray(value), copy=True))
    except (TypeError, ValueError):
        return None


def check_name(module: State, name: str, kind: str) -> None:
    """Raise an error if ``name`` cannot be the name of a new parameter, buffer or submodule."""
    tables = {"parameter": "_parameters", "buffer": "_buffers", "module": "_modules"}
    if tables[kind] not in module.__dict__:
        raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
    if not isinstance(name, str):
        raise TypeError(f"{kind} name should be a string, got {type(name).__name__}")
    if "." in name:
        raise KeyError(f'{kind} name can\'t contain ".", got {name!r}')
    if not name:
        raise KeyError(f'{kind} name can\'t be empty string ""')
    if hasattr(module, name) and name not in module.__dict__[tables[kind]]:
        raise KeyError(f"attribute {name!r} already exists")


def forget(module: State, name: str, keep: str | None = None) -> bool:
    """Remove an attribute from all tables except ``keep``; return whether it was found."""
    for table in ("_parameters", "_buffers", "_modules"):
        # Assigning to an existing name preserves its position in the table.
        if table != keep and name in module.__dict__.get(table, ()):
            del module.__dict__[table][name]
            module._non_persistent_buffers_set.discard(name)
            return True
    return module.__dict__.pop(name, ABSENT) is not ABSENT
