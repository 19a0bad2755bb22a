"""Backward hooks on a module: a pair of identity functions around its forward intercepts the gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from ...autograd.function import Function
from ...core.graph.modes import modes
from ...core.tensor.tensor import Tensor, is_dense


class _Intercept(Function):
    """The identity, whose backward passes the gradients of all inputs through ``intercept``.

    Outputs without a gradient receive zeros if ``zeros``, else None.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(
        ctx: Any, intercept: Callable[[tuple[Any, ...]], tuple[Any, ...]], zeros: bool, *tensors: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.intercept = intercept
        ctx.set_materialize_grads(zeros)
        ctx.mark_non_differentiable(*[x for x in tensors if not x.requires_grad])
        return tensors

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return (None, None, *ctx.intercept(gradients))


class BackwardHooks:
    """Run a module's backward hooks for one forward."""

    def __init__(self, module: Any, hooks: list[Any], pre_hooks: list[Any]) -> None:
        self.module = module
        self.hooks = hooks
        self.pre_hooks = pre_hooks
        self.grad_output: tuple[object, ...] | None = None  # set while the inputs' gradients are still missing
        self.watches_inputs = False

    def watch_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments with the Tensors among them intercepted."""
        self.count = len(args)
        positions = [index for index, value in enumerate(args) if is_dense(value)]
        self.watches_inputs = modes.grad_enabled and any(args[index].requires_grad for index in positions)
        if not self.watches_inputs:
            return args

        def intercept(gradients: tuple[object, ...]) -> tuple[Any, ...]:
            grad_output, self.grad_output = self.grad_output, None
            if grad_output is None:  # no gradient arrived at the outputs, as can happen in a second derivative
                return gradients
            grad_input = _placed(positions, gradients, self.count)
            for hook in self.hooks:
                changed = hook(self.module, grad_input, grad_output)
                if changed is not None:
                    grad_input = _replacement("grad_input", changed, self.count)
            return tuple([grad_input[position] for position in positions])

        intercepted = _Intercept.apply(intercept, True, *[args[index] for index in positions])
        result = list(args)
        for position, tensor in zip(positions, intercepted, strict=True):
            result[position] = tensor
        return tuple(result)

    def watch_outputs(self, result: Any) -> Any:
        """Return the result with the Tensors in it intercepted."""
        is_sequence = isinstance(result, (tuple, list))
        if not is_sequence and not isinstance(result, Tensor):
            warnings.warn(
                "For backward hooks to be called, module output should be a Tensor or a tuple of Tensors but received "
                f"{type(result)}",
                UserWarning,
                stacklevel=4,
            )
        values = list(result) if is_sequence else [result]
        positions = [index for index, value in enumerate(values) if is_dense(value)]
        if not modes.grad_enabled or not any(values[index].requires_grad for index in positions):
            return result

        def intercept(gradients: tuple[object, ...]) -> tuple[Any, ...]:
            grad_output = _placed(positions, gradients, len(values))
            for hook in self.pre_hooks:
                changed = hook(self.module, grad_output)
                if changed is not None:
                    grad_output = _replacement("grad_output", changed, len(values))
            if self.watches_inputs:
                self.grad_output = grad_output
            elif self.hooks:
                self._run_without_inputs(grad_output)
            return tuple([grad_output[position] for position in positions])

        intercepted = _Intercept.apply(intercept, False, *[values[index] for index in positions])
        for position, tensor in zip(positions, intercepted, strict=True):
            values[position] = tensor
        if hasattr(result, "_make"):  # a named tuple
            return result._make(values)
        return type(result)(values) if is_sequence else values[0]

    def _run_without_inputs(self, grad_output: tuple[object, ...]) -> None:
        """Run the hooks if no input of the module requires a gradient."""
        warnings.warn(
            "Full backward hook is firing when gradients are computed with respect to module outputs since no inputs "
            "require gradients. See https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html"
            "#torch.nn.Module.register_full_backward_hook for more details.",
            UserWarning,
            stacklevel=2,
        )
        for hook in self.hooks:
            changed = hook(self.module, (None,) * self.count, grad_output)
            if changed is not None and not (isinstance(changed, tuple) and all(g is None for g in changed)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always return None or None for "
                    "all gradients."
                )


def _placed(positions: list[int], gradients: tuple[object, ...], count: int) -> tuple[Any, ...]:
    """Return the gradients at the positions of their Tensors among ``count`` values, None elsewhere."""
    placed: list[object] = [None] * count
    for position, gradient in zip(positions, gradients, strict=True):
        placed[position] = gradient
    return tuple(placed)


def _replacement(what: str, changed: object, count: int) -> tuple[Any, ...]:
    replaced = changed if isinstance(changed, tuple) else (changed,)
    if len(replaced) != count:
        hook = "Backward hook" if what == "grad_input" else "Backward pre hook"
        raise RuntimeError(f"{hook} returned an invalid number of {what}, got {len(replaced)}, but expected {count}")
    return replaced
