"""``Function``: operators with user-defined derivatives."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from copy import copy
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.arrays import Array
from ..core.arrays.devices import Wrapping, array_module, is_array
from ..core.arrays.dtypes import is_differentiable
from ..core.errors import describe
from ..core.graph.backward import as_array, conjugate
from ..core.graph.modes import modes, on_level, recording, watchers
from ..core.graph.nodes import NOTHING, Node, edge_of, new_node
from ..core.graph.primitive import Primitive, operand, select_plan
from ..core.graph.reentrant import reentrant
from ..core.missing_names import legacy_names
from ..core.named_tuples import NamedTuple
from ..core.tensor.mutation import check_writable, rewrite_history
from ..core.tensor.storage import leave
from ..core.tensor.tensor import Tensor, is_dense, new_tensor
from .context import Context, alias


class Function:
    """The base class of operators with a user-defined forward and derivative.

    Subclass it, write ``forward(ctx, *args)`` and ``backward(ctx, *grad_outputs)`` as static methods, and call
    ``YourFunction.apply(*args)``. ``backward`` returns a gradient (or None) per argument of ``forward``. With
    ``create_graph=True`` the call of ``backward`` is recorded, for second derivatives, unless it is
    ``once_differentiable``. Alternatively, write ``forward(*args)`` and ``setup_context(ctx, inputs, output)``.

    Forward mode calls the static method ``jvp(ctx, *tangents)`` if there is one, and otherwise transposes
    ``backward``, which must be linear in ``grad_outputs``. With ``generate_vmap_rule = True``, ``vmap`` (see ``func``)
    runs these methods on batched Tensors; otherwise it calls the static method ``vmap(info, in_dims, *args)``.

    Attributes:
        generate_vmap_rule: whether forward, backward and jvp consist of operators that can be batched.
        boxed_grads_call: whether ``backward(ctx, grad_outputs)`` receives the gradients as one list, and may remove
            gradients from this list.
        clear_saved_tensors_on_access: whether ``ctx.saved_tensors`` may be read only once, which frees the Tensors.

    Raises:
        RuntimeError: ``backward`` returned a wrong number of gradients, or one of the wrong shape.

    >>> class Cube(rg.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x * x
    ...
    ...     @staticmethod
    ...     def backward(ctx, grad_output):
    ...         (x,) = ctx.saved_tensors
    ...         return grad_output * 3 * x * x
    >>> x = rg.tensor([2.0], requires_grad=True)
    >>> Cube.apply(x).backward()
    >>> x.grad
    tensor([12.])
    """

    generate_vmap_rule: bool = False
    boxed_grads_call: bool = False
    clear_saved_tensors_on_access: bool = False

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the outputs from the arguments (after ``ctx``, unless there is a ``setup_context``)."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Context, inputs: tuple[Any, ...], output: object) -> None:
        """Save the values that ``backward`` needs, if ``forward`` does not take ``ctx``."""
        raise NotImplementedError("You must implement the setup_context function for custom autograd.Function.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Return the gradient of each argument of ``forward``, given the gradients of its outputs."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    @staticmethod
    def vjp(ctx: Context, *grad_outputs: object) -> list[Array | None]:
        """Alias of ``backward``."""
        return Function.backward(ctx, *grad_outputs)

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Return the tangent of each output of ``forward``, given those of its arguments (None for non-Tensors)."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )

    @staticmethod
    def vmap(info: object, in_dims: tuple[Any, ...], *args: object) -> Any:
        """Compute ``forward`` for many examples in one call.

        Args:
            info: has ``batch_size`` and ``randomness``.
            in_dims: per argument, the mapped dimension, None for an argument that is not mapped.
            args: the arguments with the mapped dimension.

        Returns:
            A pair ``(outputs, out_dims)``, where ``out_dims`` are the mapped dimensions in the same structure.
        """
        raise NotImplementedError("You must implement the static method vmap to use autograd.Function inside vmap.")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Raise RuntimeError: PyTorch's legacy Functions, whose instances are called, are not supported."""
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd "
            "function with static forward method: YourFunction.apply(...)"
        )

    @classmethod
    def apply(cls, *args: object, **kwargs: object) -> Any:
        """Run ``forward`` and record the call. Keyword arguments are converted to positional arguments."""
        with_context = cls.setup_context is Function.setup_context
        if kwargs:
            args = _positional_arguments(cls, (None, *args) if with_context else args, kwargs)[with_context:]
        elif not with_context and len(args) < _arity(cls):
            args = _positional_arguments(cls, args, {})  # setup_context also receives default values
        ctx = Context()
        ctx.needs_input_grad = tuple(isinstance(value, Tensor) and value._requires for value in args)
        record = modes.grad_enabled and any(ctx.needs_input_grad)
        if record and any(isinstance(value, Tensor) and value._requires and not value.is_dense for value in args):
            raise NotImplementedError(
                f"{cls.__name__}: a sparse Tensor that requires grad is not supported as an argument of a Function; "
                "pass its values() and indices()"
            )
        observers = modes.observers if watchers else ()
        for observer in observers:
            observer.calling(_function_primitive(cls), args, {})
        level = highest_level(args) if watchers and modes.level is not None else None
        try:
            if level is not None:
                ctx, output = _forward_under_vmap(cls, level, args, ctx.needs_input_grad)
            else:
                output = _run_forward(cls, ctx, args)
        except BaseException as error:
            for observer in observers:
                observer.failed(_function_primitive(cls), args, {}, error)
            raise
        several = isinstance(output, (tuple, list))
        outputs = [new_tensor(as_array(x)) if _is_numeric(x) else x for x in (output if several else (output,))]
        if not several and not isinstance(outputs[0], Tensor):
            raise TypeError(
                f"{cls.__name__}: output 0 of forward must be a Tensor or array, not {type(outputs[0]).__name__}"
            )
        given = {id(value) for value in args if isinstance(value, Tensor)} - {id(value) for value in ctx._dirty}
        tensors = [alias(value, ctx) if id(value) in given else value for value in outputs]
        node = None
        if record:
            for value in ctx._dirty:
                check_writable(cls.__name__, value)
                if all(value is not x for x in tensors):
                    raise RuntimeError(
                        f"{cls.__name__}: forward passed {describe(value)} to mark_dirty and must return it"
                    )
            _copy_aliased_outputs(tensors, args, ctx)
            node = cls._record(ctx, args, tensors)
        if observers:
            shown = tuple([x for x in tensors if is_dense(x)])
            for observer in observers:
                observer.called(_function_primitive(cls), args, {}, shown, node)
        return tuple(tensors) if several else tensors[0]

    @classmethod
    def _record(cls, ctx: Context, args: tuple[Any, ...], tensors: list[Any]) -> Node:
        primitive = _function_primitive(cls)
        parents = tuple(
            edge_of(value) if need else None for value, need in zip(args, ctx.needs_input_grad, strict=True)
        )
        shapes = tuple(x.array.shape if is_dense(x) else () for x in tensors)
        dtypes = tuple(x.array.dtype if is_dense(x) else None for x in tensors)
        saved: list[Any] = [None] * len(primitive.layout)
        saved[primitive.position["ctx"]] = ctx
        node = new_node(primitive.plan(ctx.needs_input_grad), parents, tuple(saved), shapes, dtypes)
        ctx._inputs, ctx._outputs = _shapes_and_dtypes(args, None), _shapes_and_dtypes(tensors, ((), None))
        ctx._differentiable = {
            index
            for index, x in enumerate(tensors)
            if is_dense(x) and is_differentiable(x.dtype) and id(x) not in ctx._non_differentiable
        }
        ctx._keep(tensors, node)
        ctx._clears = cls.clear_saved_tensors_on_access
        for index in sorted(ctx._differentiable):
            x = tensors[index]
            node_of_output = new_node(select_plan(index), (node,), NOTHING, x.array.shape, x.array.dtype)
            if any(x is value for value in args):
                rewrite_history(x, node_of_output)
            else:
                x._node = node_of_output
                x._requires = True
        return node


def _run_forward(cls: type[Function], ctx: Context, args: Sequence[object]) -> Any:
    with recording(False):
        if cls.setup_context is Function.setup_context:
            return cls.forward(ctx, *args)
        output = cls.forward(*args)
        cls.setup_context(ctx, tuple(args), output)
    return output


def _positional_arguments(cls: type[Function], args: tuple[object, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Return the arguments of a call of ``forward`` in positional order."""
    bound = signature(cls.forward).bind(*args, **kwargs)
    if bound.kwargs:
        raise TypeError(
            f"{cls.__name__}: forward has the keyword-only arguments {', '.join(bound.kwargs)}, for which backward "
            "cannot return a gradient; make them positional"
        )
    if cls.setup_context is not Function.setup_context:
        bound.apply_defaults()
    return bound.args


def _arity(cls: type[Function]) -> int:
    """Return the number of positional arguments of ``forward``, cached per class."""
    found = cls.__dict__.get("_places_of_forward")
    if found is None:
        kinds = [parameter.kind for parameter in signature(cls.forward).parameters.values()]
        found = sum(kind in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD) for kind in kinds)
        cls._places_of_forward = found  # type: ignore[attr-defined]
    return int(found)


def _shapes_and_dtypes(values: Sequence[object], other: object) -> tuple[Any, ...]:
    """Return the shape and dtype of each Tensor, and ``other`` for values that are not Tensors."""
    return tuple((x.array.shape, x.array.dtype) if is_dense(x) else other for x in values)


def _is_numeric(value: object) -> bool:
    return is_array(value) or isinstance(value, np.inexact)


def _copy_aliased_outputs(outputs: list[Any], args: tuple[object, ...], ctx: Context) -> None:
    """Copy outputs that share memory with an input, since a write to one would not update the history of the other."""
    storages = [value._storage for value in args if is_dense(value) and value._storage is not None]
    for x in outputs:
        if is_dense(x) and x._storage in storages and all(x is not value for value in ctx._dirty):
            leave(x)
            x.array = x.array.copy()
            x._base = None


def _function_primitive(cls: type[Function]) -> Primitive:
    """Return the primitive of a Function, created at its first recorded call."""
    primitive = cls.__dict__.get("_primitive")
    if primitive is None:

        def vjp(g: tuple[Array, ...], ctx: Context, needs: tuple[bool, ...]) -> list[Array | None]:
            return _run_backward(cls, ctx, g, needs)

        primitive = Primitive(cls.__name__, cls.apply, "*args", vjp=vjp, outputs=-1, bfloat16="program")
        primitive.fills = False
        if cls.jvp is not Function.jvp:

            def jvp(node: Node, tangents: dict[int, Any], recorded: bool) -> tuple[Any, ...]:
                return _run_jvp(cls, node.saved[primitive.position["ctx"]], tangents, recorded)

            primitive.jvp = jvp
        cls._primitive = primitive  # type: ignore[attr-defined]
    return primitive


def _backward_of(cls: type[Function]) -> Callable[..., object]:
    """Return the user's ``backward``, or its alias ``vjp``, as a function of ``ctx`` and each gradient."""
    backward = cls.backward
    if cls.vjp is not Function.vjp:
        if cls.backward is not Function.backward:
            raise RuntimeError(f"{cls.__name__}: both backward and its alias vjp are implemented; remove one of them")
        backward = cls.vjp
    return (lambda ctx, *gradients: backward(ctx, list(gradients))) if cls.boxed_grads_call else backward


def _run_backward(cls: type[Function], ctx: Context, g: tuple[Array, ...], needs: tuple[bool, ...]) -> list[Any]:
    """Call the user's ``backward`` with Tensors in PyTorch's complex convention and return the engine's cotangents."""
    given = next(x for x in g if x is not None)
    recorded = isinstance(given, Tensor)
    cotangents: list[Tensor | None] = []
    for x, (shape, dtype) in zip(g, ctx._outputs, strict=True):
        if x is None and ctx.materialize_grads and dtype is not None:
            x = array_module(given).zeros(shape, dtype)
        cotangents.append(x if x is None or isinstance(x, Tensor) else new_tensor(as_array(x)))
    with recording(recorded):
        returned = reentrant(_backward_of(cls), ctx, *[x if x is None else conjugate(x) for x in cotangents])
    listed = returned if isinstance(returned, (tuple, list)) else (returned,)
    gradients = [new_tensor(as_array(x)) if _is_numeric(x) else x for x in listed]
    wanted = len(needs)
    if len(gradients) > wanted and all(gradient is None for gradient in gradients[wanted:]):
        gradients = gradients[:wanted]
    if len(gradients) != wanted:
        raise RuntimeError(
            f"{cls.__name__}: backward returned {len(gradients)} gradients for {wanted} arguments of forward"
        )
    for index, gradient in enumerate(gradients):
        if gradient is not None and not isinstance(gradient, Tensor):
            raise TypeError(
                f"{cls.__name__}: backward must return a Tensor, an array or None for argument {index}, "
                f"got {type(gradient).__name__}"
            )
    results = [conjugate(x) if x is not None and need else None for x, need in zip(gradients, needs, strict=True)]
    return results if recorded else [x if x is None else x.array for x in results]


def _run_jvp(cls: type[Function], ctx: Context, given: dict[int, Any], recorded: bool) -> tuple[Any, ...]:
    """Call the user's ``jvp`` with Tensors and return the tangents of all outputs."""
    some = next(iter(given.values()))
    tangents: list[Tensor | None] = []
    for index, place in enumerate(ctx._inputs):
        t = given.get(index)
        if t is None and place is not None and ctx.materialize_grads:
            t = array_module(some).zeros(*place)
        if t is not None and ctx._dirty:
            t = t.clone() if isinstance(t, Tensor) else as_array(t).copy()  # jvp may write to it in place, as forward
        tangents.append(t if t is None or isinstance(t, Tensor) else new_tensor(as_array(t)))
    own = copy(ctx)
    if ctx._saved_forward is not None:
        own._saved = ctx._saved_forward
    with recording(recorded):
        returned = cls.jvp(own, *tangents)
    listed = returned if isinstance(returned, (tuple, list)) else (returned,)
    found = [new_tensor(as_array(x)) if _is_numeric(x) else x for x in listed]
    if len(found) != len(ctx._outputs):
        raise RuntimeError(f"{cls.__name__}: jvp returned {len(found)} tangents for {len(ctx._outputs)} outputs")
    results = []
    for index, (t, (shape, dtype)) in enumerate(zip(found, ctx._outputs, strict=True)):
        if t is None:
            t = None if dtype is None else new_tensor(array_module(some).zeros(shape, dtype))
        elif not isinstance(t, Tensor) or t.shape != shape:
            raise RuntimeError(
                f"{cls.__name__}: jvp returned {describe(t)} as the tangent of output {index}, which has shape {shape}"
            )
        elif index not in ctx._differentiable:
            raise RuntimeError(
                f"{cls.__name__}: jvp returned a tangent of output {index}, which is not differentiable; return None"
            )
        elif t.dtype != dtype:
            t = t.astype(dtype)
        results.append(t if t is None or recorded else t.array)
    return tuple(results)


# Inside vmap


def requires_on_some_layer(x: Tensor) -> bool:
    """Return whether a Tensor requires grad, on its own layer or, inside vmap, on a layer below."""
    below = getattr(x.array, "value", None) if isinstance(x.array, Wrapping) else None  # traced arrays have none
    return x._requires or isinstance(below, Tensor) and requires_on_some_layer(below)


def highest_level(args: Sequence[object]) -> Any:
    """Return the ``vmap`` level of a call, None if no argument differs between examples."""
    from ..core.mapping.batching import highest  # loaded only with vmap

    return highest(tuple(args), {})


def _lowered(level: object, x: Tensor) -> tuple[Tensor, bool]:
    """Return the Tensor of the layer below, and whether its first dimension is the mapped one."""
    array = x.array
    if isinstance(array, Wrapping) and array.level is level:
        return array.value, array.mapped
    return x, False


def _lowered_nest(level: Any, x: Any) -> tuple[Any, Any]:
    """Return an argument with the Tensors of the layer below, and a nest of the same structure with their in_dims."""
    if isinstance(x, Tensor):
        value, mapped = _lowered(level, x)
        return value, 0 if mapped else None
    if isinstance(x, dict):
        found = {key: _lowered_nest(level, value) for key, value in x.items()}
        return {key: value for key, (value, _) in found.items()}, {key: dims for key, (_, dims) in found.items()}
    if type(x) in (list, tuple):
        parts = [_lowered_nest(level, value) for value in x]
        return type(x)([value for value, _ in parts]), type(x)([dims for _, dims in parts])
    return x, None


def _lifted_nest(cls: type[Function], level: object, output: object, dims: object) -> Any:
    """Return the outputs of the static method ``vmap`` as Tensors of the level."""
    if isinstance(output, (list, tuple)):
        places = [dims] * len(output) if dims is None or isinstance(dims, int) else dims
        kind = tuple if isinstance(output, tuple) else list
        if isinstance(places, (kind, list)) and len(places) == len(output):
            return kind([_lifted_nest(cls, level, y, dim) for y, dim in zip(output, places, strict=True)])
    elif not isinstance(output, Tensor) and not is_array(output):
        return output
    elif dims is None or isinstance(dims, int):
        output = operand(output)
        return _lifted(level, output if dims is None else output.movedim(dims, 0), dims is not None)
    raise RuntimeError(
        f"{cls.__name__}.vmap: returned an incompatible (output, out_dims) pair: out_dims must be an integer or None "
        f"for all outputs, or a nest like the outputs, got {dims!r}"
    )


def _expanded(level: Any, x: Tensor) -> Tensor:
    value, mapped = _lowered(level, x)
    return value if mapped else value.expand((level.size, *value.array.shape))


def _lifted(level: Any, value: Tensor, mapped: bool = True) -> Tensor:
    from ..core.mapping.batched import Batched

    return new_tensor(Batched(level, value, mapped))


class VmapInfo(NamedTuple):
    """The ``info`` argument of a Function's static method ``vmap``."""

    batch_size: int
    randomness: str


def _forward_under_vmap(
    cls: type[Function], level: Any, args: tuple[object, ...], needs: tuple[bool, ...]
) -> tuple[Context, Any]:
    """Call ``forward`` for all examples. It is recorded on the layer below; ``backward`` is its derivative on all."""
    lowered = [_lowered(level, x) if is_dense(x) else (x, False) for x in args]
    values, flags = [value for value, _ in lowered], [mapped for _, mapped in lowered]
    ctx = Context()
    ctx.needs_input_grad = needs
    below = recording(modes.grad_enabled and level.grad_enabled)
    if cls.vmap is not Function.vmap:
        if cls.generate_vmap_rule:
            raise RuntimeError(
                f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and a static method "
                "vmap; leave out one of them"
            )
        info = VmapInfo(level.size, level.randomness)
        nests = [_lowered_nest(level, x) for x in args]
        with on_level(level.below), below:
            found = cls.vmap(info, tuple([dims for _, dims in nests]), *[value for value, _ in nests])
        if not isinstance(found, tuple) or len(found) != 2:
            raise RuntimeError(f"{cls.__name__}.vmap: expected to have two returns, the outputs and their out_dims")
        output = _lifted_nest(cls, level, *found)
        if cls.setup_context is not Function.setup_context:
            with recording(False):
                cls.setup_context(ctx, args, output)
        elif any(needs):
            raise RuntimeError(f"{cls.__name__}: vmap of its gradient needs a static method setup_context")
        return ctx, output
    if not cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it does not have vmap support: override and implement the "
            "static method vmap, or set generate_vmap_rule=True where forward and backward are made of operators"
        )
    call = _Examples.Call(cls, level, flags)
    with on_level(level.below), below:
        found = _Examples.apply(call, *values)
    results = tuple(_lifted(level, y) if isinstance(y, Tensor) else y for y in found)
    inner = call.ctx
    # Replace saved inputs and outputs of the inner call by the arguments and results of this layer.
    own = {id(x): y for x, y in zip((*call.inputs, *call.outputs), (*args, *results), strict=True)}
    inner._to_save = tuple(own.get(id(x), x) for x in inner._to_save)
    if inner._to_save_forward is not None:
        inner._to_save_forward = tuple(own.get(id(x), x) for x in inner._to_save_forward)
    inner._non_differentiable = {id(own[key]) for key in inner._non_differentiable if key in own}
    inner.needs_input_grad = needs
    return copy(inner), results if call.several else results[0]


class _Examples(Function):
    """A Function applied to all examples of a level."""

    generate_vmap_rule = True  # its methods can run inside another vmap

    class Call:
        """One call, and the results of its forward."""

        ctx: Context
        inputs: list[Any]
        outputs: list[Any]
        several: bool

        def __init__(self, cls: type[Function], level: Any, flags: list[bool]) -> None:
            self.cls, self.level, self.flags = cls, level, flags

    @staticmethod
    def forward(ctx: Any, call: _Examples.Call, *values: Any) -> Any:
        level = call.level
        inner = Context()
        inner.needs_input_grad = tuple(isinstance(x, Tensor) and is_differentiable(x.dtype) for x in values)
        call.inputs = [
            _lifted(level, x, mapped) if isinstance(x, Tensor) else x
            for x, mapped in zip(values, call.flags, strict=True)
        ]
        with on_level(level):
            output = _run_forward(call.cls, inner, call.inputs)
        if inner._dirty:
            raise RuntimeError(f"{call.cls.__name__}: mark_dirty is not supported inside vmap; return a new Tensor")
        call.ctx, call.several = inner, isinstance(output, (tuple, list))
        call.outputs = list(output) if call.several else [output]
        inner._inputs, inner._outputs = (
            _shapes_and_dtypes(call.inputs, None),
            _shapes_and_dtypes(call.outputs, ((), None)),
        )
        results = [_expanded(level, y) if isinstance(y, Tensor) else y for y in call.outputs]
        known = {id(x): y for x, y in zip((*call.inputs, *call.outputs), (*values, *results), strict=True)}
        saved = [None if x is None else known.get(id(x), _lowered(level, x)[0]) for x in inner._to_save]
        whole = {id(y) for y in call.outputs}
        ctx.flags = [x is not None and (id(x) in whole or _lowered(level, x)[1]) for x in inner._to_save]
        ctx.call, ctx.inner = call, copy(inner)
        ctx.save_for_backward(*saved)
        ctx.set_materialize_grads(inner.materialize_grads)
        ctx.mark_non_differentiable(
            *[y for x, y in zip(call.outputs, results, strict=True) if id(x) in inner._non_differentiable]
        )
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        call = ctx.call
        level, cls = call.level, call.cls
        inner = copy(ctx.inner)
        inner._given = tuple(
            None if x is None else _lifted(level, x, mapped)
            for x, mapped in zip(ctx.saved_tensors, ctx.flags, strict=True)
        )
        with on_level(level):
            returned = _backward_of(cls)(inner, *[None if g is None else _lifted(level, g) for g in cotangents])
        gradients: list[Any] = []
        for g, mapped in zip(
            returned if isinstance(returned, (tuple, list)) else (returned,), call.flags, strict=False
        ):
            if isinstance(g, Tensor):
                g = _expanded(level, g)
                g = g if mapped else g.sum(0)
            gradients.append(g)
        return (None, *gradients)


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a ``backward`` that cannot be differentiated itself.

    Args:
        backward: the static method ``backward`` of a ``Function``.

    Raises:
        RuntimeError: the result of ``backward`` is differentiated.

    >>> class Square(rg.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x * x
    ...     @staticmethod
    ...     @rg.autograd.once_differentiable
    ...     def backward(ctx, g):
    ...         (x,) = ctx.saved_tensors
    ...         return 2 * g * x
    >>> x = rg.tensor(3.0, requires_grad=True)
    >>> rg.autograd.grad(Square.apply(x), x)
    (tensor(6.),)
    """

    @functools.wraps(backward)
    def once(ctx: Context, *gradients: object) -> Any:
        with recording(False):
            results = backward(ctx, *[g.detach() if isinstance(g, Tensor) else g for g in gradients])
        if not any(isinstance(g, Tensor) and requires_on_some_layer(g) for g in gradients):
            return results
        several = isinstance(results, tuple)
        listed = results if several else (results,)
        guarded = [_Refuse.apply(x, *gradients) if isinstance(x, Tensor) else x for x in listed]
        return tuple(guarded) if several else guarded[0]

    return once


class _Refuse(Function):
    """The identity on its first argument; its derivative is an error."""

    generate_vmap_rule = True

    @staticmethod
    def forward(ctx: Context, x: Tensor, *gradients: Tensor) -> Tensor:
        return x.detach()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise RuntimeError("trying to differentiate twice a function that was marked with @once_differentiable")


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
