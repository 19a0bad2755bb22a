"""``library``: operators that programs register with PyTorch are Python functions here; and ``ops.aten``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ..autograd.function import Function
from ..core.tensor.tensor import Tensor


class CustomOp:
    """A function that a program made an operator; ``register_autograd`` gives it a derivative."""

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name, self._function = name, function
        self.__name__, self.__doc__ = function.__name__, function.__doc__
        self._differentiated: type[Function] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._differentiated is None or kwargs:
            return self._function(*args, **kwargs)
        return self._differentiated.apply(*args)

    def register_fake(self, function: Any = None, /) -> Any:
        """Taken for compatibility: shapes are found by computing."""
        return function if function is not None else lambda f: f

    def register_kernel(self, device_types: Any, function: Any = None, /) -> Any:
        """Taken for compatibility: the function given first computes on every device."""
        return function if function is not None else lambda f: f

    def register_autograd(self, backward: Callable[..., Any], /, *, setup_context: Any = None) -> None:
        """Give the operator a derivative: ``backward(ctx, *cotangents)``, and what it is to keep."""
        plain = self._function

        class Registered(Function):
            @staticmethod
            def forward(ctx: Any, *args: Any) -> Any:
                output = plain(*[x.detach() if isinstance(x, Tensor) else x for x in args])
                if setup_context is not None:
                    setup_context(ctx, args, output)
                return output

        Registered.backward = staticmethod(backward)  # type: ignore[method-assign]
        Registered.__name__ = self.__name__
        self._differentiated = Registered


def custom_op(
    name: str, fn: Any = None, /, *, mutates_args: Any = (), device_types: Any = None, schema: Any = None
) -> Any:
    """Make a function an operator: one that is called like it."""
    return CustomOp(name, fn) if fn is not None else lambda function: CustomOp(name, function)


triton_op = custom_op


def register_fake(op: Any, func: Any = None, /, **options: Any) -> Any:
    """Taken for compatibility."""
    return func if func is not None else lambda function: function


def register_autograd(op: Any, backward: Callable[..., Any], /, *, setup_context: Any = None, lib: Any = None) -> None:
    """``op.register_autograd(...)``."""
    op.register_autograd(backward, setup_context=setup_context)


impl_abstract = register_fake


class Packet:
    """``ops.aten.exp``: each overload of it, such as ``.default``, is the public function ``exp``."""

    is_packet = True

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self._name, self._function = name, function

    def __repr__(self) -> str:
        return f"<ops.aten.{self._name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __getattr__(self, overload: str) -> Any:
        if overload.startswith("__"):
            raise AttributeError(overload)
        return self._function


# Functions that PyTorch's dispatcher calls by other names than users do.
_DISPATCHED = {
    "_softmax": "nn.functional.softmax",
    "_log_softmax": "nn.functional.log_softmax",
    "native_layer_norm": "nn.functional.layer_norm",
    "native_group_norm": "nn.functional.group_norm",
    "native_batch_norm": "nn.functional.batch_norm",
    "native_dropout": "nn.functional.dropout",
    "_scaled_dot_product_flash_attention": "nn.functional.scaled_dot_product_attention",
    "_scaled_dot_product_flash_attention_for_cpu": "nn.functional.scaled_dot_product_attention",
    "_scaled_dot_product_efficient_attention": "nn.functional.scaled_dot_product_attention",
    "_scaled_dot_product_cudnn_attention": "nn.functional.scaled_dot_product_attention",
}


class Aten:
    """``ops.aten``: PyTorch's operators by their names, which programs hand to policies of selective checkpoints."""

    def __getattr__(self, name: str) -> Packet:
        dispatched = _DISPATCHED.get(name)
        for qualified in (dispatched,) if dispatched else (name, f"nn.functional.{name}"):
            function: Any = sys.modules["retrograd"]
            for part in qualified.split("."):
                function = getattr(function, part, None)
            if callable(function):
                return Packet(name, function)
        method = getattr(Tensor, name, None)
        if not callable(method) or name.startswith("__"):
            raise AttributeError(f"ops.aten has no operator {name!r} here; name the public function")
        return Packet(name, method)


aten = Aten()

__all__ = ["aten"]
