"""Module: a tree of parameters, buffers and submodules with a forward."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from operator import methodcaller
from typing import Any, ClassVar, TypeVar

from ...core.arrays.dtypes import FLOATING, INEXACT
from ...core.graph.handles import RemovableHandle
from ...core.graph.modes import modes, no_grad, watchers
from ...core.graph.observers import Observer
from ...core.missing_names import provided, repr_html
from ...core.tensor.tensor import Tensor
from ..parameter import Buffer, Parameter, convert
from . import global_hooks
from .arguments import device_and_dtype, is_buffer
from .state import ABSENT, State, forget
from .state import check_name as _check_name

Self = TypeVar("Self", bound="Module")
T = TypeVar("T")
Declaration = type | None  # defined outside of the class, where `type` is a method


class Module(State):
    """The base class of layers and networks, with PyTorch's interface.

    Subclass it, assign Parameters, buffers and Modules to attributes in ``__init__`` after ``super().__init__()``, and
    define ``forward``. Calling the module runs ``forward`` and the hooks.

    >>> class Scale(rg.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = rg.nn.Parameter(rg.ones(1))
    ...
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> [name for name, _ in Scale().named_parameters()]
    ['factor']
    """

    # For modules declared by fields (fields.py): the dataclass of the fields, and the names of the attributes that
    # forward passes to its function.
    _declaration: ClassVar[Declaration] = None
    _settings: ClassVar[tuple[str, ...]] = ()

    dump_patches = False  # a legacy attribute of PyTorch
    T_destination = T  # PyTorch's name for the type variable of state_dict
    call_super_init = False  # whether __init__ passes its arguments to further base classes

    training: bool
    _modules: dict[str, Module | None]

    def __init__(self, *args: object, **kwargs: object) -> None:
        if (args or kwargs) and not self.call_super_init:
            raise TypeError(f"{type(self).__name__}.__init__() takes no arguments of Module, got {args or kwargs}")
        fields: dict[str, object] = {
            "training": True,
            "_parameters": {},
            "_buffers": {},
            "_modules": {},
            "_non_persistent_buffers_set": set(),
            "_forward_hooks": OrderedDict(),
            "_forward_hooks_with_kwargs": {},
            "_forward_hooks_always_called": {},
            "_forward_pre_hooks": OrderedDict(),
            "_forward_pre_hooks_with_kwargs": {},
            "_backward_hooks": OrderedDict(),
            "_backward_pre_hooks": OrderedDict(),
            "_state_dict_hooks": OrderedDict(),
            "_state_dict_pre_hooks": OrderedDict(),
            "_load_state_dict_pre_hooks": OrderedDict(),
            "_load_state_dict_post_hooks": OrderedDict(),
        }
        self.__dict__.update(fields)
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    # Calling

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the output; subclasses define it."""
        raise NotImplementedError(f"Module [{type(self).__name__}] is missing the required 'forward' function")

    def __call__(self, *args: object, **kwargs: object) -> Any:
        if watchers and modes.observers:
            return self._call_watched(modes.observers, args, kwargs)
        if not (self._forward_hooks or self._forward_pre_hooks or self._backward_hooks or self._backward_pre_hooks):
            return self.forward(*args, **kwargs)
        return self._call_with_hooks(args, kwargs)

    def _call_hooked(self, *args: object, **kwargs: object) -> Any:
        """``__call__`` while global hooks are registered."""
        if watchers and modes.observers:
            return self._call_watched(modes.observers, args, kwargs)
        return self._call_with_hooks(args, kwargs)

    def _call_watched(
        self, observers: tuple[Observer, ...], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> Any:
        inputs = (*args, *kwargs.values())
        for observer in observers:
            observer.opened(self, inputs)
        try:
            result = self._call_with_hooks(args, kwargs)
        except BaseException as error:
            for observer in observers:
                observer.closed(self, inputs, error)
            raise
        for observer in observers:
            observer.closed(self, inputs, result)
        return result

    def _call_with_hooks(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        pending = self._hooks_of_forward()
        own = [(hook, key in self._forward_pre_hooks_with_kwargs) for key, hook in self._forward_pre_hooks.items()]
        try:
            for hook, with_kwargs in [*global_hooks.forward_pre_hooks.values(), *own]:
                if with_kwargs:
                    changed = hook(self, args, kwargs)
                    if changed is not None:
                        args, kwargs = changed
                else:
                    changed = hook(self, args)
                    if changed is not None:
                        args = changed if isinstance(changed, tuple) else (changed,)
            backward = None
            if (
                self._backward_hooks or self._backward_pre_hooks
                or global_hooks.backward_hooks or global_hooks.backward_pre_hooks
            ):  # fmt: skip
                from .gradient_hooks import BackwardHooks

                on_gradients = [*global_hooks.backward_hooks.values(), *self._backward_hooks.values()]
                before_gradients = [*global_hooks.backward_pre_hooks.values(), *self._backward_pre_hooks.values()]
                backward = BackwardHooks(self, on_gradients, before_gradients)
                args = backward.watch_inputs(args)
            result = self.forward(*args, **kwargs)
            if pending or global_hooks.forward_hooks or self._forward_hooks:
                # Read the hooks again, because the forward may have registered or removed some.
                pending = self._hooks_of_forward()
            while pending:
                hook, with_kwargs, _ = pending.pop(0)
                changed = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
                if changed is not None:
                    result = changed
        except Exception:
            global_hooks.call_always_called(self, pending, args, kwargs)
            raise
        return result if backward is None else backward.watch_outputs(result)

    def _hooks_of_forward(self) -> list[tuple[Any, bool, bool]]:
        """Return the global and own forward hooks, each with its options ``with_kwargs`` and ``always_call``."""
        with_kwargs, always = self._forward_hooks_with_kwargs, self._forward_hooks_always_called
        own = [(hook, key in with_kwargs, key in always) for key, hook in self._forward_hooks.items()]
        return [*global_hooks.forward_hooks.values(), *own]

    def register_forward_pre_hook(
        self, hook: Callable[..., object], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before each forward; its return value replaces the arguments."""
        flags = [self._forward_pre_hooks_with_kwargs] if with_kwargs else []
        return RemovableHandle(self._forward_pre_hooks, hook, prepend, flags)

    def register_forward_hook(
        self,
        hook: Callable[..., object],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call ``hook(module, args, output)`` after each forward; its return value replaces the output.

        With ``with_kwargs`` the hook is called as ``hook(module, args, kwargs, output)``; with ``always_call`` it is
        also called if a pre-hook, the forward or an earlier hook raised an error (the output is then None).
        """
        flags = [self._forward_hooks_with_kwargs] if with_kwargs else []
        flags += [self._forward_hooks_always_called] if always_call else []
        return RemovableHandle(self._forward_hooks, hook, prepend, flags)

    def register_full_backward_hook(self, hook: Callable[..., object], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` after the gradients with respect to the inputs are computed.

        A return value other than None replaces ``grad_input``.
        """
        return RemovableHandle(self._backward_hooks, hook, prepend)

    register_backward_hook = register_full_backward_hook

    def register_full_backward_pre_hook(self, hook: Callable[..., object], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` before the backward pass of the module.

        A return value other than None replaces ``grad_output``.
        """
        return RemovableHandle(self._backward_pre_hooks, hook, prepend)

    # Attributes

    def __setattr__(self, name: str, value: object) -> None:
        tables = self.__dict__
        if isinstance(value, Parameter):
            forget(self, name, keep="_parameters")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            if "_modules" not in tables:
                raise AttributeError("cannot assign module before Module.__init__() call")
            forget(self, name, keep="_modules")
            tables["_modules"][name] = global_hooks.registered(global_hooks.module_hooks, self, name, value)
        elif isinstance(value, Buffer):
            forget(self, name, keep="_buffers")
            self.register_buffer(name, value, value.persistent)
        elif "_parameters" in tables and name in tables["_parameters"]:
            if value is not None:
                raise TypeError(
                    f"cannot assign {type(value).__name__} as parameter {name!r} (expected nn.Parameter or None)"
                )
            tables["_parameters"][name] = None
        elif "_modules" in tables and name in tables["_modules"]:
            if value is not None:
                raise TypeError(
                    f"cannot assign {type(value).__name__} as child module {name!r} (expected nn.Module or None)"
                )
            tables["_modules"][name] = None
        elif "_buffers" in tables and name in tables["_buffers"]:
            if value is not None and not is_buffer(value):
                raise TypeError(f"cannot assign {type(value).__name__} as buffer {name!r} (expected a Tensor or None)")
            tables["_buffers"][name] = global_hooks.registered(global_hooks.buffer_hooks, self, name, value)
        else:
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        # Layers read their parameters here at every call, so the common case is first and nothing is raised.
        tables = self.__dict__
        for table in ("_parameters", "_modules", "_buffers"):
            found = tables.get(table)
            if found is not None and name in found:
                return found[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __delattr__(self, name: str) -> None:
        if not forget(self, name):
            object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = {*super().__dir__(), *self._parameters, *self._buffers, *self._modules}
        return sorted(name for name in names if not name[0].isdigit())

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Register a Parameter, or None for an unused one, as ``name``."""
        _check_name(self, name, "parameter")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign {type(param).__name__} to parameter {name!r} (expected nn.Parameter or None)"
            )
        if param is not None and not param.is_leaf:
            raise ValueError(f"cannot assign a non-leaf Tensor to parameter {name!r}; detach it first")
        self._parameters[name] = global_hooks.registered(global_hooks.parameter_hooks, self, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Register a Tensor that is part of the module's state but not trained.

        With ``persistent=False`` moves and casts apply to the buffer, but it is not part of ``state_dict()``.
        """
        _check_name(self, name, "buffer")
        if tensor is not None and not is_buffer(tensor):
            raise TypeError(f"cannot assign {type(tensor).__name__} to buffer {name!r} (expected a Tensor or None)")
        self._buffers[name] = global_hooks.registered(global_hooks.buffer_hooks, self, name, tensor)
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Register a submodule as ``name``."""
        _check_name(self, name, "module")
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._modules[name] = global_hooks.registered(global_hooks.module_hooks, self, name, module)

    register_module = add_module

    def get_submodule(self, target: str) -> Module:
        """Return the submodule at a dotted path, or raise AttributeError."""
        module: Module = self
        for part in target.split(".") if target else ():
            child = getattr(module, part, None)
            if not isinstance(child, Module):
                raise AttributeError(f"{type(module).__name__} has no submodule {part!r} (looking for {target!r})")
            module = child
        return module

    def set_submodule(self, target: str, module: Module) -> None:
        """Replace the submodule at a dotted path, or raise AttributeError."""
        if not target:
            raise ValueError("set_submodule: target must be the path of a submodule, got an empty string")
        self.get_submodule(target)
        path, _, name = target.rpartition(".")
        setattr(self.get_submodule(path), name, module)

    def get_parameter(self, target: str) -> Parameter:
        """Return the Parameter at a dotted path."""
        path, _, name = target.rpartition(".")
        found = getattr(self.get_submodule(path), name)
        if not isinstance(found, Parameter):
            raise AttributeError(f"{target!r} is not a parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer at a dotted path."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        found = module._buffers.get(name)
        if found is None:
            raise AttributeError(f"{target!r} is not a buffer")
        return found

    # Traversal

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Every module of the tree with its dotted name, once each, starting with this one."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """Every module of the tree, once each."""
        for _, module in self.named_modules():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The direct submodules with their names, once each."""
        seen: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """The direct submodules, once each."""
        for _, module in self.named_children():
            yield module

    def _named_members(
        self,
        get_members_fn: Callable[[Module], Iterable[tuple[str, T | None]]],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, T]]:
        """Yield (dotted name, member) for every module of the tree; subclasses call this method of PyTorch's name."""
        seen: set[int] = set()
        modules = self.named_modules(None, prefix, remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, member in get_members_fn(module):
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield (f"{path}.{name}" if path else name), member

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Every Parameter with its dotted name; a shared (tied) Parameter only once."""
        yield from self._named_members(lambda module: module._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Every Parameter, once each."""
        if recurse and type(self).named_parameters is Module.named_parameters:
            tree = self._all_modules()
            if tree is not None:  # the fast path of optimizers, clipping and zero_grad, which need no names
                found = [parameter for module in tree for parameter in module._parameters.values()]
                yield from {id(parameter): parameter for parameter in found if parameter is not None}.values()
                return
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def _all_modules(self) -> list[Module] | None:
        """The modules of ``named_modules``; None if a class overrides the traversal."""
        found: dict[int, Module] = {}
        waiting = [self]
        while waiting:
            module = waiting.pop()
            if id(module) in found:
                continue
            kind = type(module)
            if kind.named_modules is not Module.named_modules or kind._named_members is not Module._named_members:
                return None
            found[id(module)] = module
            waiting += [child for child in reversed(module._modules.values()) if child is not None]
        return [*found.values()]

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Every buffer with its dotted name."""
        yield from self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Every buffer, once each."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def apply(self: Self, fn: Callable[[Module], None]) -> Self:
        """Call ``fn`` on every submodule, then on this module."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # Modes, devices and dtypes

    def train(self: Self, mode: bool = True) -> Self:
        """Set training mode, which dropout and batch normalization read, in the whole tree."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: Self) -> Self:
        """Set evaluation mode in the whole tree."""
        return self.train(False)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Set ``requires_grad`` of every Parameter."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients of all Parameters to None, or to zero."""
        for parameter in self.parameters():
            if watchers and modes.tracer is not None:
                modes.tracer.clears(parameter, set_to_none)
            if parameter.grad is None:
                continue
            if set_to_none:
                parameter.grad = None
            else:
                parameter.grad = parameter.grad.detach().zero_()

    def _apply(self: Self, function: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace the data of every Parameter and buffer by ``function`` of it."""
        for module in self.children() if recurse else ():
            module._apply(function)  # a subclass may override _apply
        with no_grad():
            self._apply_to_own(function)
        return self

    def _apply_to_own(self, function: Callable[[Tensor], Tensor]) -> None:
        for name, parameter in self._parameters.items():
            if parameter is not None:
                self._parameters[name] = convert(parameter, function)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = function(buffer)

    def to(self: Self, *args: object, **kwargs: object) -> Self:
        """Move to a device, or cast floating Parameters and buffers to a dtype, in place; return the module."""

        device, dtype = device_and_dtype(*args, **kwargs)

        def convert(x: Tensor) -> Tensor:
            return x.to(device, dtype) if x.dtype.kind in INEXACT else x.to(device)

        return self._apply(convert)

    def _cast(self: Self, name: str) -> Self:
        return self._apply(lambda x: getattr(x, name)() if x.dtype.kind in FLOATING else x)

    def float(self: Self) -> Self:
        """Cast floating Parameters and buffers to float32."""
        return self._cast("float")

    def double(self: Self) -> Self:
        """Cast floating Parameters and buffers to float64."""
        return self._cast("double")

    def half(self: Self) -> Self:
        """Cast floating Parameters and buffers to float16."""
        return self._cast("half")

    def type(self: Self, dst_type: Any) -> Self:
        """Cast Parameters and buffers to a dtype or legacy type."""
        return self._apply(lambda x: x.type(dst_type))

    def bfloat16(self: Self) -> Self:
        """Cast floating Parameters and buffers to bfloat16."""
        return self._cast("bfloat16")

    def to_empty(self: Self, *, device: Any, recurse: bool = True) -> Self:
        """Move to a device without copying: the values of Parameters and buffers are undefined afterwards."""
        return self._apply(lambda x: x.new_empty(x.shape, device=device), recurse)

    def share_memory(self: Self) -> Self:
        """Move Parameters and buffers to memory shared with processes forked from this one."""
        return self._apply(methodcaller("share_memory_"))

    def compile(self, **options: object) -> None:
        """Compile ``forward`` in place: later calls of the module replay compiled programs.

        Hooks run outside of the program; ``train``, ``eval``, ``state_dict`` and the Parameters are unaffected.
        Copies and pickles contain the uncompiled module, as in PyTorch. A second call compiles again.

        Args:
            options: passed to ``retrograd.compile``.

        Raises:
            TypeError: an option is unknown.

        >>> model = rg.nn.Linear(2, 1)
        >>> model.compile()
        >>> model(rg.ones(3, 2)).shape, model.forward
        ((3, 1), <compiled Linear.forward>)
        """
        own = self.__getstate__().get("forward")  # a forward that the program assigned to this instance
        forward = type(self).forward.__get__(self) if own is None else own
        self._replace("forward", provided["compile"](forward, **options))

    def cpu(self: Self) -> Self:
        """Move to the CPU."""
        return self._apply(lambda x: x.cpu())

    def cuda(self: Self, device: Any = None) -> Self:
        """Move to a GPU."""
        return self._apply(lambda x: x.cuda(device))

    def xpu(self: Self, device: object = None) -> Self:
        """Raise RuntimeError: Retrograd does not support the devices xpu, ipu and mtia."""
        raise RuntimeError("Retrograd computes on 'cpu' and 'cuda', and does not have the devices xpu, ipu and mtia")

    ipu = mtia = xpu

    # Printing and pickling

    def extra_repr(self) -> str:
        """The text between the parentheses in the module's repr."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        children = [f"({name}): {_indent(repr(module))}" for name, module in self._modules.items()]
        if not children and len(lines) <= 1:
            return f"{self._get_name()}({extra})"
        return f"{self._get_name()}(\n  " + "\n  ".join(lines + children) + "\n)"

    _repr_html_ = repr_html("module_html")

    def _replace(self, name: str, value: object) -> None:
        """Replace an attribute of this instance. Copies and pickles have the previous value, or no such attribute."""
        own = self.__getstate__().get(name, ABSENT)
        self.__dict__.setdefault("_replaced", {})[name] = value, own
        self.__dict__[name] = value

    def __getstate__(self) -> dict[str, object]:
        state = dict(self.__dict__)
        for name, (value, own) in state.pop("_replaced", {}).items():
            if state.get(name) is value:
                del state[name]
                state.update({} if own is ABSENT else {name: own})
        return state

    def __setstate__(self, state: dict[str, object]) -> None:
        Module.__init__(self)
        self.__dict__.update(state)


_plain_call = Module.__call__


def _choose_call() -> None:
    """Route calls through the global hooks while any is registered."""
    call = Module._call_hooked if global_hooks.any_at_calls() else _plain_call
    Module.__call__ = global_hooks.telling(call)  # type: ignore[method-assign]


global_hooks.changed.append(_choose_call)


def _indent(text: str) -> str:
    return text.replace("\n", "\n  ")
