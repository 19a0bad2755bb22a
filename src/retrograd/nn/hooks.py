"""Hooks on the gradients of a whole module: a pair of identity functions around its forward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..autograd.function import Function
from ..core.tensor import Tensor


class _Observe(Function):
    """The identity; the gradients of all its inputs pass through ``see`` together."""

    @staticmethod
    def forward(ctx: Any, see: Callable[[tuple[Any, ...]], tuple[Any, ...]], *tensors: Tensor) -> Any:
        ctx.see = see
        ctx.set_materialize_grads(False)
        return tensors

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return (None, *ctx.see(gradients))


class BackwardHooks:
    """Runs a module's backward hooks for one forward."""

    def __init__(self, module: Any, hooks: list[Any], pre_hooks: list[Any]) -> None:
        self.module = module
        self.hooks = hooks
        self.pre_hooks = pre_hooks
        self.grad_output: tuple[Any, ...] = ()
        self.has_input = False

    def watch_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, with the Tensors among them observed."""
        places = [index for index, value in enumerate(args) if isinstance(value, Tensor)]
        self.has_input = any(args[index].requires_grad for index in places)
        self.count = len(args)
        if not self.has_input:
            return args

        def see(gradients: tuple[Any, ...]) -> tuple[Any, ...]:
            shown: list[Any] = [None] * self.count
            for place, gradient in zip(places, gradients, strict=True):
                shown[place] = gradient
            changed = self._run(tuple(shown))
            return tuple(changed[place] for place in places)

        observed = _Observe.apply(see, *[args[index] for index in places])
        result = list(args)
        for place, tensor in zip(places, observed, strict=True):
            result[place] = tensor
        return tuple(result)

    def watch_outputs(self, result: Any) -> Any:
        """The result, with the Tensors in it observed."""
        several = isinstance(result, (tuple, list))
        values = list(result) if several else [result]
        places = [index for index, value in enumerate(values) if isinstance(value, Tensor)]
        if not any(values[index].requires_grad for index in places):
            return result

        def see(gradients: tuple[Any, ...]) -> tuple[Any, ...]:
            shown: list[Any] = [None] * len(values)
            for place, gradient in zip(places, gradients, strict=True):
                shown[place] = gradient
            given = tuple(shown)
            for hook in self.pre_hooks:
                changed = hook(self.module, given)
                if changed is not None:
                    given = changed if isinstance(changed, tuple) else (changed,)
            self.grad_output = given
            if not self.has_input:
                self._run((None,) * self.count)
            return tuple(given[place] for place in places)

        observed = _Observe.apply(see, *[values[index] for index in places])
        for place, tensor in zip(places, observed, strict=True):
            values[place] = tensor
        return type(result)(values) if several else values[0]

    def _run(self, grad_input: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in self.hooks:
            changed = hook(self.module, grad_input, self.grad_output)
            if changed is not None:
                if not self.has_input:
                    raise RuntimeError("backward hook: returned gradients for inputs that require none")
                grad_input = changed if isinstance(changed, tuple) else (changed,)
                if len(grad_input) != self.count:
                    raise RuntimeError(f"backward hook: returned {len(grad_input)} gradients for {self.count} inputs")
        return grad_input
