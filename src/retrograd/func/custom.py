"""Functions with user-defined derivatives, as in JAX: ``custom_vjp`` and ``custom_jvp``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

from ..autograd.function import Function, requires_on_some_layer
from ..core.arrays.dtypes import is_array_or_number
from ..core.errors import describe
from ..core.graph.modes import enable_grad, modes
from ..core.graph.primitive import operand
from ..core.tensor.tensor import Tensor, is_dense
from ..ops.make.generators import get_rng_state, set_rng_state
from ..ops.table.documentation import like
from .function_graph import record, zeros_at
from .nests import Mismatch, Structure, flatten
from .reverse import apply_vjp


class _Custom:
    """The base class: separate differentiable from other arguments, and record the call as one operator."""

    kind: type[Function]

    def __init__(self, fun: Callable[..., object], nondiff_argnums: Sequence[int] = ()) -> None:
        functools.update_wrapper(self, fun)
        self.fun = fun
        self.name = getattr(fun, "__name__", type(fun).__name__)
        self.nondiff_argnums = (nondiff_argnums,) if isinstance(nondiff_argnums, int) else tuple(nondiff_argnums)
        # One Function subclass per function, so that the graph and errors show the function's name.
        self.operator: Any = type(self.name, (self.kind,), {"__module__": __name__})

    def __call__(self, *args: object, **kwargs: object) -> Any:
        self._check_rules()
        if kwargs:
            bound = signature(self.fun).bind(*args, **kwargs)
            bound.apply_defaults()
            if bound.kwargs:
                raise TypeError(
                    f"{self.name}: keyword-only arguments have no derivative rule, got {', '.join(bound.kwargs)}"
                )
            args = bound.args
        call = _Call(self, args)
        if not modes.grad_enabled or not any(map(requires_on_some_layer, call.tensors)):
            result = self.fun(*args)
            self._check_captured(flatten(result)[0])
            return result
        outputs = self.operator.apply(call, *call.tensors)
        return call.output.unflatten(outputs)

    def _check_rules(self) -> None:
        raise NotImplementedError

    def _check_captured(self, outputs: Sequence[object]) -> None:
        if modes.grad_enabled and any(isinstance(y, Tensor) and y._requires for y in outputs):
            raise self.captured()

    def captured(self) -> RuntimeError:
        return RuntimeError(
            f"{type(self).__name__}: {self.name} reads a Tensor that requires grad and is not one of its arguments, so "
            "it has no derivative rule; pass it as an argument, or detach it"
        )


class _Call:
    """One call: its arguments, flattened to Tensors, and the structures needed to rebuild them."""

    output: Structure

    def __init__(self, custom: _Custom, args: tuple[object, ...]) -> None:
        for number in custom.nondiff_argnums:
            if not -len(args) <= number < len(args):
                raise TypeError(
                    f"{type(custom).__name__}: {custom.name} has nondiff_argnums={custom.nondiff_argnums}, but was "
                    f"called with {len(args)} arguments"
                )
        fixed = [number % len(args) for number in custom.nondiff_argnums]
        self.custom = custom
        self.fixed = {place: args[place] for place in fixed}
        self.moving = [place for place in range(len(args)) if place not in self.fixed]
        self.leaves, self.structure = flatten(tuple(args[place] for place in self.moving))
        self.places = [place for place, leaf in enumerate(self.leaves) if is_dense(leaf)]
        self.tensors = [self.leaves[place] for place in self.places]
        self.leaves = [None if is_dense(leaf) else leaf for leaf in self.leaves]

    @property
    def nondiff(self) -> list[object]:
        """Return the arguments at ``nondiff_argnums``, which rules receive first."""
        return [self.fixed[place] for place in sorted(self.fixed)]

    def primals(self, tensors: Sequence[Tensor]) -> tuple[object, ...]:
        """Return the differentiable arguments, with their Tensors replaced by ``tensors``."""
        return self._nest(tensors, self.leaves)

    def tangents(self, tensors: Sequence[Tensor]) -> tuple[object, ...]:
        """Return a nest like ``primals``; the tangents of numbers are zero."""
        return self._nest(tensors, [0.0 if isinstance(leaf, (float, complex)) else None for leaf in self.leaves])

    def _nest(self, tensors: Sequence[Tensor], others: Sequence[object]) -> tuple[object, ...]:
        leaves = list(others)
        for place, x in zip(self.places, tensors, strict=True):
            leaves[place] = x
        return self.structure.unflatten(leaves)

    def arguments(self, tensors: Sequence[Tensor]) -> list[object]:
        """Return all arguments in order, with their Tensors replaced by ``tensors``."""
        moving = iter(self.primals(tensors))
        count = len(self.fixed) + len(self.moving)
        return [self.fixed[place] if place in self.fixed else next(moving) for place in range(count)]

    def outputs(self, result: object) -> tuple[object, ...]:
        """Return the leaves of the function's result, detached, and store its structure in ``output``."""
        leaves, self.output = flatten(result)
        return tuple(x.detach() if is_dense(x) else x for x in leaves)


class _VjpFunction(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(ctx: Any, call: _Call, *tensors: Tensor) -> tuple[object, ...]:
        ctx.state = get_rng_state()
        result, ctx.residuals = _run_fwd(call, [x.detach() for x in tensors])
        if any(is_dense(y) and y._requires for y in flatten(result)[0]):
            raise call.custom.captured()
        ctx.call = call
        ctx.save_for_backward(*tensors)
        return call.outputs(result)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[object, ...]:
        call: _Call = ctx.call
        custom = call.custom
        assert isinstance(custom, custom_vjp) and custom.bwd is not None
        residuals = ctx.residuals
        if modes.grad_enabled:
            # For a higher derivative, recompute the residuals from Tensors that have a history.
            found_state = get_rng_state()
            set_rng_state(ctx.state)
            try:
                residuals = _run_fwd(call, ctx.saved_tensors)[1]
            finally:
                set_rng_state(found_state)
        returned = custom.bwd(*call.nondiff, residuals, call.output.unflatten(cotangents))
        if not isinstance(returned, (tuple, list)):
            raise TypeError(
                f"custom_vjp: bwd of {custom.name} must return a tuple of cotangents, got {type(returned).__name__}"
            )
        if len(returned) != len(call.moving):
            raise TypeError(
                f"custom_vjp: bwd of {custom.name} must return {len(call.moving)} cotangents, got {len(returned)}"
            )
        found: list[object] = []
        for place, g, child in zip(call.moving, returned, call.structure.children, strict=True):
            try:
                found += [None] * child.size if g is None else child.leaves_of(g, f"the cotangent of args[{place}]")
            except Mismatch as error:
                raise TypeError(f"custom_vjp: bwd of {custom.name}: {error}") from None
        return (None, *[found[place] for place in call.places])


def _run_fwd(call: _Call, tensors: Sequence[Tensor]) -> tuple[object, object]:
    custom = call.custom
    assert isinstance(custom, custom_vjp) and custom.fwd is not None
    with enable_grad():
        returned = custom.fwd(*call.arguments(tensors))
    if not isinstance(returned, tuple) or len(returned) != 2:
        raise TypeError(
            f"custom_vjp: fwd of {custom.name} must return a pair (output, residuals), got {describe(returned)}"
        )
    return returned


class custom_vjp(_Custom):
    """A function with a user-defined derivative in reverse mode, as in JAX.

    ``defvjp(fwd, bwd)`` sets the derivative. ``fwd`` takes the function's arguments and returns ``(output,
    residuals)``. ``bwd(*nondiff, residuals, g)`` takes the residuals and the cotangents of the output and returns a
    tuple with the cotangent of each differentiable argument: a nest like the argument, or None for zeros.

    For higher derivatives ``fwd`` runs again, so that the residuals are also differentiated; forward mode transposes
    ``bwd``. Complex cotangents follow PyTorch's convention for gradients, as in ``autograd.Function``.

    Args:
        fun: takes and returns nests of Tensors.
        nondiff_argnums: the indices of arguments without a derivative; ``bwd`` receives them first.

    Raises:
        AttributeError: the function is called before ``defvjp``.
        TypeError: ``fwd`` or ``bwd`` returns something of the wrong form.
        RuntimeError: the function reads a Tensor that requires grad and is not one of its arguments.

    >>> from retrograd.func import custom_vjp, grad
    >>> @custom_vjp
    ... def clipped(x):
    ...     return x.clone()
    >>> clipped.defvjp(lambda x: (x.clone(), None), lambda kept, g: (g.clamp(-1, 1),))
    >>> grad(lambda x: (clipped(x) * rg.tensor([0.5, 100.0])).sum())(rg.zeros(2))
    tensor([0.5, 1. ])
    """

    kind = _VjpFunction
    fwd: Callable[..., object] | None = None
    bwd: Callable[..., object] | None = None

    def defvjp(self, fwd: Callable[..., object], bwd: Callable[..., object]) -> None:
        """Set the derivative; see the class."""
        self.fwd, self.bwd = fwd, bwd

    def _check_rules(self) -> None:
        if self.fwd is None:
            raise AttributeError(f"custom_vjp: {self.name} has no derivative; set it with defvjp(fwd, bwd)")


class _JvpFunction(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(ctx: Any, call: _Call, *tensors: Tensor) -> tuple[object, ...]:
        with enable_grad():
            result = call.custom.fun(*call.arguments([x.detach() for x in tensors]))
        outputs = flatten(result)[0]
        if any(isinstance(y, Tensor) and y._requires for y in outputs):
            raise call.custom.captured()
        ctx.call = call
        ctx.save_for_backward(*tensors)
        return call.outputs(result)

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: Tensor) -> tuple[Tensor, ...]:
        return tuple(_tangents_of_outputs(ctx, ctx.saved_tensors, tangents))

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[object, ...]:
        """Return the transpose of the rule, which is linear in the tangents, applied to the cotangents."""
        primals = ctx.saved_tensors
        if not modes.grad_enabled:
            primals = [x.detach() for x in primals]
        moving = [place for place, need in enumerate(ctx.needs_input_grad[1:]) if need]
        zeros = [zeros_at(x) for x in primals]

        def rule(*tangents: Tensor) -> list[Tensor]:
            every = list(zeros)
            for place, t in zip(moving, tangents, strict=True):
                every[place] = t
            return _tangents_of_outputs(ctx, primals, every)

        points = [zeros[place] for place in moving]
        recorded = record("custom_jvp", rule, points, flatten(tuple(points))[1])
        found: list[Tensor | None] = [None] * len(primals)
        for place, g in zip(moving, apply_vjp(recorded, cotangents, retain_graph=False), strict=True):
            found[place] = g
        return (None, *found)


def _tangents_of_outputs(ctx: Any, primals: Sequence[Tensor], tangents: Sequence[Tensor]) -> list[Tensor]:
    call: _Call = ctx.call
    custom = call.custom
    assert isinstance(custom, custom_jvp) and custom.jvp is not None
    returned = custom.jvp(*call.nondiff, call.primals(primals), call.tangents(tangents))
    if not isinstance(returned, (tuple, list)) or len(returned) != 2:
        raise TypeError(
            f"custom_jvp: the rule of {custom.name} must return a pair (output, tangent), got {describe(returned)}"
        )
    try:
        leaves = call.output.leaves_of(returned[1], "the tangent")
    except Mismatch as error:
        raise TypeError(f"custom_jvp: the rule of {custom.name}: {error}") from None
    results = []
    for t, path, (shape, dtype) in zip(leaves, call.output.paths("the tangent"), ctx._outputs, strict=True):
        if not is_array_or_number(t) and not isinstance(t, Tensor) or operand(t).shape != shape:
            raise TypeError(
                f"custom_jvp: the rule of {custom.name}: {path} is {describe(t)}, but the output has shape {shape}"
            )
        t = operand(t)
        results.append(t if t.dtype == dtype else t.astype(dtype))
    return results


@like(custom_vjp, raises="RuntimeError")
class custom_jvp(_Custom):
    """A function with a user-defined derivative in forward mode, as in JAX; reverse mode transposes it.

    ``defjvp(rule)`` sets the derivative. ``rule(*nondiff, primals, tangents)`` takes tuples of the differentiable
    arguments and their tangents and returns ``(output, tangent)``, where the tangent must be linear in the tangents.
    ``defjvps`` sets one rule ``rule(tangent, output, *primals)`` per argument; the output's tangent is their sum.

    Args:
        nondiff_argnums: the indices of arguments without a derivative; the rule receives them first.

    Raises:
        AttributeError: the function is called before ``defjvp``.
        TypeError: the rule returns something of the wrong form.

    >>> from retrograd.func import custom_jvp, grad
    >>> @custom_jvp
    ... def log1pexp(x):
    ...     return rg.log1p(rg.exp(x))
    >>> @log1pexp.defjvp
    ... def rule(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return log1pexp(x), (1 - 1 / (1 + rg.exp(x))) * t
    >>> grad(log1pexp)(rg.tensor(100.0))
    tensor(1.)
    """

    kind = _JvpFunction
    jvp: Callable[..., object] | None = None

    def defjvp(self, jvp: Callable[..., object]) -> Callable[..., object]:
        """Set the derivative and return it, so that this method works as a decorator; see the class."""
        self.jvp = jvp
        return jvp

    def defjvps(self, *jvps: Callable[..., object] | None) -> None:
        """Set one rule per argument, None for a derivative of zero."""
        if self.nondiff_argnums:
            raise TypeError(f"custom_jvp: defjvps of {self.name} does not support nondiff_argnums; use defjvp")

        def jvp(primals: tuple[object, ...], tangents: tuple[object, ...]) -> tuple[object, object]:
            if len(jvps) != len(primals):
                raise TypeError(f"custom_jvp: {self.name} has {len(jvps)} rules, but {len(primals)} arguments")
            output = self(*primals)
            leaves, structure = flatten(output)
            total: list[object] = [zeros_at(y) if isinstance(y, Tensor) else y for y in leaves]
            for rule, t in zip(jvps, tangents, strict=True):
                if rule is not None:
                    parts = structure.leaves_of(rule(t, output, *primals), "the tangent")
                    total = [a + b for a, b in zip(total, parts, strict=True)]
            return output, structure.unflatten(total)

        self.defjvp(jvp)

    def _check_rules(self) -> None:
        if self.jvp is None:
            raise AttributeError(f"custom_jvp: {self.name} has no derivative; set it with defjvp(rule)")
