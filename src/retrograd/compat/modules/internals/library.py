"""``library`` and ``ops``: operators that programs register, by name. They are Python functions.

PyTorch registers several functions for one operator: per device, for shapes without data, for mixed precision. Here
only the function for the device of the arguments runs. Its derivative is the registered function, or else the
derivative of the operators that it calls.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from enum import Enum
from typing import NoReturn, TypeVar

from ....autograd.context import Context
from ....autograd.function import Function
from ....core.tensor import tensor
from ....core.tensor.tensor import Tensor
from ...absent import DOCUMENTATION
from ..jit import Packet as Packet
from ..jit import aten as aten

Kernel = Callable[..., object]
Given = TypeVar("Given")

# Functions for these keys change how PyTorch dispatches, traces or casts. They are not needed to compute.
_WITHOUT_EFFECT = ("Meta", "Autocast", "FuncTorch", "Functionalize", "Python", "ADInplaceOrView", "BackendSelect")


class CustomOp:
    """An operator that a program registered. ``register_autograd`` gives it a derivative.

    Args:
        name: the operator's name, such as ``"mylib::double"``.
        function: the implementation for every device; None if it is registered later.
        differentiable: whether the function consists of operators with derivatives, which the program cannot replace.
    """

    def __init__(self, name: str, function: Kernel | None = None, differentiable: bool = False) -> None:
        self.name = self._qualname = name
        self.__name__ = name.rpartition("::")[2]
        self.__doc__ = function.__doc__ if function is not None else None
        self._differentiable = differentiable
        self._kernels: dict[str, Kernel] = {} if function is None else {"": function}
        self._autograd: tuple[Callable[..., object], Callable[..., object] | None] | None = None

    def __repr__(self) -> str:
        return f"<operator {self.name}>"

    def __call__(self, *args: object, **kwargs: object) -> object:
        kernel = self._kernel(args)
        if self._autograd is None or "Autograd" in self._kernels:
            return kernel(*args, **kwargs)
        given = inspect.signature(self._kernels.get("", kernel)).bind(*args, **kwargs)
        given.apply_defaults()
        return self._differentiated().apply(*given.args, *given.kwargs.values())

    def _kernel(self, args: Sequence[object]) -> Kernel:
        on_gpu = any(isinstance(x, Tensor) and x.is_cuda for x in args)
        for key in ("Autograd", "CUDA" if on_gpu else "CPU", ""):
            if key in self._kernels:
                return self._kernels[key]
        device = "CUDA" if on_gpu else "CPU"
        raise NotImplementedError(
            f"Could not run '{self.name}' with arguments from the '{device}' backend: no function is registered for "
            f"it, only for {sorted(self._kernels) or 'none'}; use Library.impl or register_kernel"
        )

    def _differentiated(self) -> type[Function]:
        assert self._autograd is not None
        derivative, setup_context = self._autograd

        class Registered(Function):
            @staticmethod
            def forward(ctx: Context, *args: object) -> object:
                plain = [x.detach() if isinstance(x, Tensor) else x for x in args]
                output = self._kernel(plain)(*plain)
                if setup_context is not None:
                    setup_context(ctx, args, output)
                return output

        setattr(Registered, "backward", staticmethod(derivative))  # noqa: B010
        Registered.__name__ = self.__name__
        return Registered

    # PyTorch distinguishes overloads of an operator. Here every overload is the operator itself.

    @property
    def default(self) -> CustomOp:
        """The operator itself."""
        return self

    def overloads(self) -> list[str]:
        """Return the names of the overloads: only ``default``."""
        return ["default"]

    def register_fake(self, function: Given | None = None, /) -> Given | Callable[[Given], Given]:
        """Accepted for compatibility: shapes follow from the computation."""
        return function if function is not None else lambda f: f

    def register_kernel(
        self, device_types: str | Sequence[str | None] | None, function: Kernel | None = None, /
    ) -> Kernel | Callable[[Kernel], Kernel]:
        """Register the function for a device type, such as ``"cuda"``, or for several; None for every one."""
        kinds = [device_types] if isinstance(device_types, str) or device_types is None else device_types

        def register(kernel: Kernel) -> Kernel:
            self._kernels.update({(kind or "").upper(): kernel for kind in kinds})
            return kernel

        return register(function) if function is not None else register

    def register_autograd(
        self, backward: Callable[..., object], /, *, setup_context: Callable[..., object] | None = None
    ) -> None:
        """Give the operator a derivative: ``backward(ctx, *cotangents)``. ``setup_context`` saves what it reads."""
        if not self._differentiable:
            self._autograd = backward, setup_context

    register_vmap = register_torch_dispatch = register_autocast = register_kernel


_OPERATORS: dict[str, CustomOp] = {}


class Namespace:
    """``torch.ops.name``: the operators that are registered under a name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> CustomOp:
        try:
            return _OPERATORS[f"{self._name}::{name}"]
        except KeyError:
            raise AttributeError(f"torch.ops.{self._name} has no operator {name!r}: none is registered") from None

    def __dir__(self) -> Iterator[str]:
        return iter([name.rpartition("::")[2] for name in _OPERATORS if name.startswith(f"{self._name}::")])

    def __repr__(self) -> str:
        return f"<torch.ops.{self._name}: {', '.join(self.__dir__()) or 'no operators'}>"


class _Namespaces(dict[str, object]):
    """``torch.ops``: in programs of PyTorch every name is a namespace, as in PyTorch."""

    def __contains__(self, name: object) -> bool:
        named = f"{name}::"
        return super().__contains__(name) or (
            not tensor.arrays_keep_dtype
            and not named.startswith("_")
            or any(operator.startswith(named) for operator in _OPERATORS)
        )

    def __missing__(self, name: str) -> Namespace:
        space = self[name] = Namespace(name)
        return space


def enter(operators: Iterable[CustomOp]) -> None:
    """Register operators under their names."""
    _OPERATORS.update({operator.name: operator for operator in operators})


def load_library(path: str | os.PathLike[str]) -> None:
    """Register the operators of a compiled library that Retrograd has in Python: those of torchvision.

    Raises:
        OSError: any other library, which is compiled against PyTorch's.
    """
    folder, file = os.path.split(os.fspath(path))
    if os.path.basename(folder) == "torchvision" and file.startswith("_C."):
        from ...packages import OPERATORS

        enter(CustomOp(f"torchvision::{name}", function, differentiable=True) for name, function in OPERATORS.items())
        return
    raise OSError(f"load_library: {path} is compiled against PyTorch, and Retrograd cannot run it; see {DOCUMENTATION}")


# ``library``


def _operator(name: str | CustomOp) -> CustomOp:
    """Return the operator of a name such as ``"mylib::double.default"``."""
    if isinstance(name, CustomOp):
        return name
    found = _OPERATORS.get(name.partition(".")[0])
    if found is None:
        raise RuntimeError(f"operator {name} does not exist")
    return found


def custom_op(
    name: str,
    fn: Kernel | None = None,
    /,
    *,
    mutates_args: str | Iterable[str] = (),
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Sequence[object] | None = None,
) -> CustomOp | Callable[[Kernel], CustomOp]:
    """Register the function as an operator and return it, or return a decorator that does.

    Args:
        name: ``"namespace::name"``; the operator is also ``torch.ops.namespace.name``.
        fn: the function.
        mutates_args, device_types, schema, tags: accepted for compatibility.
    """

    def register(function: Kernel) -> CustomOp:
        operator = CustomOp(name, function)
        enter([operator])
        return operator

    return register(fn) if fn is not None else register


def register_fake(
    op: str | CustomOp, func: Given | None = None, /, **options: object
) -> Given | Callable[[Given], Given]:
    """Accepted for compatibility: shapes follow from the computation."""
    return _operator(op).register_fake(func)


def register_kernel(
    op: str | CustomOp, device_types: str | Sequence[str] | None, func: Kernel | None = None, /, **options: object
) -> Kernel | Callable[[Kernel], Kernel]:
    """Register the function that computes an operator on a device type; see ``CustomOp.register_kernel``."""
    return _operator(op).register_kernel(device_types, func)


def register_autograd(
    op: str | CustomOp,
    backward: Callable[..., object],
    /,
    *,
    setup_context: Callable[..., object] | None = None,
    lib: object = None,
) -> None:
    """Give an operator a derivative; see ``CustomOp.register_autograd``."""
    _operator(op).register_autograd(backward, setup_context=setup_context)


def register_vmap(op: str | CustomOp, func: Given | None = None, /, **options: object) -> object:
    """Accepted for compatibility: an operator without a rule for ``vmap`` runs once per example."""
    return _operator(op).register_fake(func)


register_torch_dispatch = register_autocast = register_vmap


def define(qualname: str, schema: str, *, lib: object = None, tags: object = ()) -> None:
    """Register an operator whose function follows with ``impl``.

    Args:
        qualname: ``"namespace::name"``.
        schema, lib, tags: accepted for compatibility.
    """
    enter([CustomOp(qualname)])


def impl(
    qualname: str | Library, types: str | Sequence[str], func: Kernel | str | None = None, *, lib: object = None
) -> Kernel | Callable[[Kernel], Kernel]:
    """Register a function of a defined operator, for device types. It may be a decorator.

    The older form ``impl(library, name, dispatch_key)`` is a decorator, too.
    """
    if isinstance(qualname, Library):
        key = func if isinstance(func, str) else ""
        return lambda function: qualname.impl(str(types), function, key)
    kinds = [None if kind == "default" else kind for kind in ([types] if isinstance(types, str) else types)]
    kernel = None if isinstance(func, str) else func
    return _operator(qualname).register_kernel(kinds, kernel)


class Library:
    """A namespace to which a program adds operators.

    Args:
        ns: the name of the namespace.
        kind: ``"DEF"``, ``"FRAGMENT"`` or ``"IMPL"``; all are treated alike.
        dispatch_key: the default key of functions of ``impl``.

    >>> from retrograd.compat.modules.internals.library import Library
    >>> library = Library("example", "DEF")
    >>> library.define("double(Tensor x) -> Tensor")
    'double'
    >>> double = library.impl("double", lambda x: 2 * x, "CPU")
    >>> rg.ops.example.double(rg.ones(2))
    tensor([2., 2.])
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags: object = ()) -> str:
        """Register an operator by its schema, such as ``"double(Tensor x) -> Tensor"``, and return its name."""
        name = schema.partition("(")[0].strip()
        plain = f"{self.ns}::{name.partition('.')[0]}"
        if plain not in _OPERATORS:
            enter([CustomOp(plain)])
        return name

    def impl(
        self, op_name: str | CustomOp, fn: Kernel, dispatch_key: str = "", *, with_keyset: bool = False, **options: bool
    ) -> Kernel:
        """Register a function of an operator for a dispatch key of PyTorch, such as ``"CPU"``.

        Functions for shapes, mixed precision and tracing are accepted without effect.

        Raises:
            NotImplementedError: the operator is PyTorch's own.
        """
        name = op_name.name if isinstance(op_name, CustomOp) else f"{self.ns}::{op_name.rpartition('::')[2]}"
        key = dispatch_key or self.dispatch_key
        if self.ns == "aten" or isinstance(op_name, Packet):
            raise NotImplementedError(f"Library.impl: {op_name} cannot be replaced; Retrograd's own operator runs")
        if not key.startswith(_WITHOUT_EFFECT):
            kind = "Autograd" if key.startswith("Autograd") else "" if key.startswith("Composite") else key
            _operator(name)._kernels[kind] = fn
        return fn

    def fallback(self, fn: Kernel, dispatch_key: str = "", *, with_keyset: bool = False) -> None:
        """Accepted without effect: it changes how PyTorch dispatches."""

    def _destroy(self) -> None:
        """Remove the operators of the namespace."""
        for name in [name for name in _OPERATORS if name.startswith(f"{self.ns}::")]:
            del _OPERATORS[name]


def fallthrough_kernel() -> None:
    """Raise an error: the function is a mark for ``Library.impl`` and ``Library.fallback``."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


# ``_C``: names of PyTorch's dispatcher


class DispatchKey(Enum):
    """The keys by which PyTorch's dispatcher chooses functions, as far as packages name them."""

    AutocastCPU = "AutocastCPU"
    AutocastCUDA = "AutocastCUDA"
    AutocastXPU = "AutocastXPU"
    Autograd = "Autograd"
    AutogradCPU = "AutogradCPU"
    AutogradCUDA = "AutogradCUDA"
    CPU = "CPU"
    CUDA = "CUDA"
    CompositeExplicitAutograd = "CompositeExplicitAutograd"
    CompositeImplicitAutograd = "CompositeImplicitAutograd"
    Meta = "Meta"


class DispatchKeySet(frozenset[DispatchKey]):
    """A set of keys: ``DispatchKeySet(key) | DispatchKeySet(other)``."""

    def __new__(cls, *keys: DispatchKey) -> DispatchKeySet:
        return super().__new__(cls, keys)


def _ExcludeDispatchKeyGuard(keys: DispatchKeySet) -> nullcontext[None]:
    """Return a context manager that has no effect."""
    return nullcontext()


def get_ctx() -> NoReturn:
    """Raise an error: functions for shapes are not called.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError("get_ctx() can only be called inside of a function for shapes, and Retrograd calls none")


NAMES: dict[str, str | dict[str, object]] = {
    "_C": "DispatchKey DispatchKeySet _ExcludeDispatchKeyGuard",
    "_custom_ops": "custom_op get_ctx impl_abstract=register_fake",
    "library": """
        CustomOp CustomOpDef=CustomOp Library Packet aten custom_op define fallthrough_kernel get_ctx impl
        impl_abstract=register_fake load_library register_autocast register_autograd register_fake register_kernel
        register_torch_dispatch register_vmap triton_op=custom_op
    """,
    "ops": _Namespaces(aten=aten, load_library=load_library),
}
