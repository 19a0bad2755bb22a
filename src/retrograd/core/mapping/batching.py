"""Calls of primitives inside ``vmap``: translate a call on one example to a call on all examples, one level below.

A ``Level`` is one call of a function under ``vmap``. A primitive runs on the highest level among its inputs; inputs of
lower levels are the same for all examples. The batching rule of the primitive computes the results of all examples by
calls on the level below. A primitive without a rule runs in a loop over the examples.

A batching rule is a function of a ``Call``. It returns the results of the primitive's forward as Tensors with all
examples along the first axis.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..arrays.devices import as_array_like, is_array
from ..arrays.dtypes import promoted
from ..arrays.layout import broadcast_shapes
from ..errors import describe
from ..graph.call_node import node_of_call
from ..graph.modes import modes, no_grad, watchers
from ..graph.nodes import Node
from ..graph.plan import Params
from ..graph.primitive import Primitive, apply, apply1, apply2
from ..nests import leaves, replaced
from ..tensor.mutation import (
    COPY,
    EMBED,
    ERASE,
    EXTRACT,
    MOVE,
    OVERWRITE,
    REPLACE,
    Layout,
    Place,
    apply_inplace,
    check_fits,
    rewrite_history,
)
from ..tensor.storage import storage_of
from ..tensor.tensor import Tensor, new_tensor
from .batched import Batched, snapshot, snapshot_of
from .layers import Layer
from .spreading import spread

# Parameters of these types contain no arrays; operators add the types of their own parameters.
PLAIN: set[type] = {int, float, bool, str, type(None), slice, complex, np.dtype, type(Ellipsis)}


class Call:
    """The argument of a batching rule: a call of a primitive on a level.

    ``values`` are the inputs on the level below: Tensors, bare arrays and numbers. An input that is ``mapped`` has all
    examples along its first axis. Parameters that differ between examples, also inside tuples and indices, are Tensors
    with all examples along the first axis.
    """

    __slots__ = ("level", "mapped", "params", "primitive", "values")

    def __init__(
        self, level: Level, primitive: Primitive, values: list[Any], mapped: tuple[bool, ...], params: Params
    ) -> None:
        self.level = level
        self.primitive = primitive
        self.values = values
        self.mapped = mapped
        self.params = params

    @property
    def size(self) -> int:
        """The number of examples."""
        return self.level.size

    def ndim(self, index: int = 0) -> int:
        """Return the number of dimensions of one example of an input."""
        return np.ndim(getattr(self.values[index], "array", self.values[index])) - self.mapped[index]

    def shape(self, index: int = 0) -> tuple[int, ...]:
        """Return the shape of one example of an input."""
        shape = np.shape(getattr(self.values[index], "array", self.values[index]))
        return shape[1:] if self.mapped[index] else shape

    def full(self, index: int) -> Tensor:
        """Return an input with all examples along the first axis, expanded if it is not mapped; None stays None."""
        value = self.values[index]
        if self.mapped[index] or value is None:
            return value
        x = value if isinstance(value, Tensor) else new_tensor(self.array_of(value))
        return x.expand((self.size, *x.array.shape))

    def array_of(self, value: object) -> Any:
        """Return a number or bare array as an array of the inputs' library."""
        arrays = tuple([x.array if isinstance(x, Tensor) else x for x in self.values])
        return value if is_array(value) else as_array_like(value, arrays)

    def below(self, values: Sequence[Any], params: Params | None = None, primitive: Any = None) -> Any:
        """Call the primitive on the level below; return Tensors followed by the residuals, which are arrays."""
        chosen = self.primitive if primitive is None else primitive
        if params is None:
            params = self.params
        if not params and chosen.elementwise and not chosen.view and len(chosen.layout) == len(chosen.inputs) + 1:
            if len(values) == 1:
                return apply1(chosen, values[0])
            if len(values) == 2 and chosen.promote is not None:
                return apply2(chosen, *values)
        beside: list[object] = []
        out = apply(chosen, tuple(values), params, beside)
        return (out, *beside) if chosen.residuals else out

    def tensors(self) -> list[Any]:
        """Return the inputs on the level itself, with the shapes of one example and without a history on the level."""
        level = self.level
        return [
            x if x is None else new_tensor(Batched(level, x if isinstance(x, Tensor) else new_tensor(x), flag))
            for x, flag in zip(self.values, self.mapped, strict=True)
        ]

    def parameters(self) -> dict[str, Any]:
        """Return the parameters on the level itself."""

        def lifted(part: object) -> Any:
            return Batched(self.level, part, True) if isinstance(part, Tensor) else part

        return {name: replaced(value, lifted) for name, value in self.params.items()}

    def values_of(self, results: object) -> Any:
        """Return results computed on the level as Tensors of the level below, with all examples."""
        if isinstance(results, (tuple, list)):
            return tuple([self.values_of(x) for x in results])
        if not isinstance(results, Tensor):
            return results
        array = results.array
        if type(array) is Batched and array.level is self.level:
            if array.mapped:
                return array.value
            results = array.value
        return results.expand((self.size, *results.array.shape))

    def looped(self) -> Any:
        """Run the primitive on each example and stack the results."""
        return looped(self) if self.size else of_no_example(self)

    def of_no_example(self) -> Any:
        """Return the results for zero examples."""
        return of_no_example(self)

    def after(self, count: int) -> Call:
        """Return the call without its first ``count`` inputs."""
        return Call(self.level, self.primitive, self.values[count:], self.mapped[count:], self.params)

    def needs_loop(self) -> bool:
        """Return whether a parameter differs between examples, for rules that support only mapped inputs."""
        return any(holds_tensor(value) for value in self.params.values())


class Level(Layer):
    """A level of ``vmap`` that runs primitives and draws random numbers for its examples."""

    below: Level | None

    def __init__(self, size: int, randomness: str) -> None:
        super().__init__(size)
        self.randomness = randomness
        self.grad_enabled = modes.grad_enabled
        self.thread = id(modes.__dict__)

    def drawn(self, draw: Callable[[tuple[int, ...]], object], shape: tuple[int, ...]) -> Any:
        """Draw random numbers of a shape, different for each example or the same for all.

        Raises:
            RuntimeError: ``randomness`` is ``"error"``.
        """
        self._check_randomness()
        different = self.randomness == "different"
        if different:
            shape = (self.size, *shape)
        if self.below is not None:
            array = self.below.drawn(draw, shape)
        else:
            level, modes.level = modes.level, None  # ``draw`` may call random operators
            try:
                array = draw(shape) if modes.tracer is None else modes.tracer.drawn(draw, (shape,), {})
            finally:
                modes.level = level
        return Batched(self, new_tensor(array), True) if different else array

    def _check_randomness(self) -> None:
        if self.randomness == "error":
            raise RuntimeError(
                "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
                "'different' randomness flags on vmap or perform the randomness operation out of vmap"
            )

    def drawn_from(self, draw: Callable[..., object], arrays: Sequence[Any]) -> Any:
        """Draw random numbers from distributions whose parameters are arrays, elementwise.

        Raises:
            RuntimeError: ``randomness`` is ``"error"``, or it is ``"same"`` and the distributions differ between
                examples.
        """
        shape = broadcast_shapes(*[array.shape for array in arrays])
        mapped = [type(array) is Batched and array.level is self and array.mapped for array in arrays]
        if self.randomness == "same" and any(mapped):
            raise RuntimeError(
                "vmap: does not support the same random numbers from distributions that differ between the examples; "
                "use randomness='different'"
            )
        self._check_randomness()
        values = []
        for array, flag in zip(arrays, mapped, strict=True):
            own = array.value if type(array) is Batched and array.level is self else new_tensor(array)
            values.append((_padded(own, len(shape)) if flag else own).array)
        if self.randomness == "different" and not any(mapped):
            values[0] = np.broadcast_to(values[0], (self.size, *shape))
        if self.below is not None:
            found = self.below.drawn_from(draw, values)
        else:
            found = draw(*values) if modes.tracer is None else modes.tracer.drawn(draw, tuple(values), {})
        return Batched(self, new_tensor(found), True) if self.randomness == "different" else found

    def lift(self, x: Tensor) -> Tensor:
        """Return a Tensor of a lower level as an unmapped Tensor of this level."""
        array = x.array
        if type(array) is Batched and array.level is self:
            return x
        return new_tensor(Batched(self, snapshot(x), False))

    def maps(self, x: Tensor) -> bool:
        """Return whether a Tensor is mapped on this level."""
        array = x.array
        return type(array) is Batched and array.level is self and array.mapped

    @staticmethod
    def entering(
        primitive: Primitive, inputs: tuple[object, ...], params: Params
    ) -> tuple[tuple[Any, ...], Callable[..., Any]] | None:
        """Return the inputs and the forward of a call on the highest level among its inputs; None without a level."""
        level = highest(inputs, params)
        if level is None:
            return None
        lifted = tuple([level.lift(x) if isinstance(x, Tensor) else x for x in inputs])
        return lifted, partial(forward, level, primitive)

    @staticmethod
    def on_arrays(primitive: Primitive, inputs: tuple[object, ...], params: Params) -> Any:
        """Call a primitive on bare arrays; return NotImplemented if none of them is Batched."""
        level = highest(inputs, params)
        if level is None:
            return NotImplemented
        return forward(level, primitive, *inputs, **params)

    @staticmethod
    def of(inputs: tuple[object, ...]) -> Any:
        """Return the highest level among the inputs of a call, or None."""
        return highest(inputs, {})

    @staticmethod
    def kept(value: object) -> Any:
        """Return the form in which a node saves a value: Batched arrays are replaced by snapshots."""
        kind = type(value)
        if kind is Batched:
            return snapshot_of(value)
        if kind in PLAIN:
            return value
        return replaced(value, lambda part: snapshot_of(part) if type(part) is Batched else part)

    @staticmethod
    def write(primitive: Primitive, x: Tensor, inputs: tuple[object, ...], params: Params) -> Any:
        """Write in place on the highest level among the inputs; return the node, or NotImplemented without a level."""
        level = highest(inputs, params)
        return NotImplemented if level is None else _write_on_level(level, primitive, x, inputs, params)


def highest(inputs: tuple[object, ...], params: Params) -> Any:
    """Return the highest level among the inputs and parameters of a call, or None."""
    found = None
    for value in inputs:
        array = value.array if isinstance(value, Tensor) else value
        if type(array) is Batched and (found is None or array.level.depth > found.depth):
            found = array.level
    for value in params.values():
        if not _is_plain(value):
            for array in leaves(value):
                if type(array) is Batched and (found is None or array.level.depth > found.depth):
                    found = array.level
    if found is not None:
        found.check()
    return found


def _is_plain(value: Any) -> bool:
    """Return whether the type of a parameter already shows that it contains no arrays."""
    kind = type(value)
    return kind in PLAIN or kind is tuple and PLAIN.issuperset(map(type, value))


def holds_tensor(value: object) -> bool:
    """Return whether a lowered parameter contains a Tensor: it then differs between the examples."""
    if _is_plain(value):
        return False
    return any(isinstance(part, Tensor) for part in leaves(value))


def forward(level: Level, primitive: Primitive, *arrays: Any, **params: Any) -> Any:
    """Run a primitive on arrays of a level: call its batching rule on the level below."""
    values = []
    flags = []
    for array in arrays:
        if type(array) is Batched and array.level is level:
            values.append(array.value)
            flags.append(array.mapped)
        else:
            values.append(array)
            flags.append(False)
    differ = False

    def lowered(part: object) -> Any:
        nonlocal differ
        if type(part) is not Batched or part.level is not level:
            return part
        differ = differ or part.mapped
        return part.value if part.mapped else part.value.array

    lower = params
    if params:
        lower = {name: value if _is_plain(value) else replaced(value, lowered) for name, value in params.items()}
    mapped = differ or True in flags
    call = Call(level, primitive, values, tuple(flags), lower)
    rule = primitive.batch
    if not mapped:
        rule = _as_it_is
    elif rule is None:
        rule = elementwise if primitive.elementwise else by_loop
    # The rule runs on the level below. Outside of all levels and without observers, the fast paths are used again.
    above, below = modes.level, level.below
    modes.level = below
    if below is None and not modes.observers:
        watchers.discard(level.thread)
    try:
        if modes.grad_enabled and not level.grad_enabled:
            with no_grad():
                result = rule(call)
        else:
            result = rule(call)
    finally:
        modes.level = above
        watchers.add(level.thread)

    def batched(out: object) -> Any:
        if isinstance(out, Tensor):
            return Batched(level, out, mapped)
        if isinstance(out, (tuple, list)):
            return tuple(map(batched, out))
        return Batched(level, new_tensor(out), mapped) if is_array(out) else out

    return batched(result)


def _as_it_is(call: Call) -> Tensor:
    return call.below(call.values)


# Rules for any primitive


def elementwise(call: Call) -> Any:
    """Align the inputs' dimensions behind that of the examples and call the primitive once."""
    values, mapped, params = call.values, call.mapped, call.params
    ndims = [len(getattr(value, "shape", ())) - flag for value, flag in zip(values, mapped)]
    ndim = max(ndims)
    for value in params.values():
        if isinstance(value, Tensor):
            ndim = max(ndim, value.array.ndim - 1)
    aligned = [
        _padded(value, ndim) if flag and own != ndim else value
        for value, flag, own in zip(values, mapped, ndims)
    ]  # fmt: skip
    if call.needs_loop():
        params = {
            name: _padded(value, ndim).array if isinstance(value, Tensor) else value for name, value in params.items()
        }
    return call.below(aligned, params)


def _padded(x: Tensor, ndim: int) -> Tensor:
    """Return x, with all examples, with dimensions of length 1 inserted so that one example has ``ndim`` dimensions."""
    shape = x.array.shape
    if len(shape) == ndim + 1:
        return x
    return x.reshape((shape[0],) + (1,) * (ndim + 1 - len(shape)) + shape[1:])


def by_loop(call: Call) -> Any:
    """Run the primitive once per example, with a warning."""
    warnings.warn(
        f"vmap: {call.primitive.name} has no batching rule; it runs in a loop over the examples, which is slow",
        UserWarning,
        stacklevel=6,
    )
    return call.looped()


def looped(call: Call) -> Any:
    """Run the primitive on each example and return the stacked results."""

    def at(index: int) -> Any:
        values = [value[index] if flag else value for value, flag in zip(call.values, call.mapped, strict=True)]
        values = [
            x if not flag or isinstance(x, Tensor) else new_tensor(x)
            for x, flag in zip(values, call.mapped, strict=True)
        ]
        params = {name: replaced(value, lambda part: _example(part, index)) for name, value in call.params.items()}
        return call.below(values, params)

    return _stacked([at(index) for index in range(call.size)])


def _example(part: object, index: int) -> Any:
    return part.array[index] if isinstance(part, Tensor) else part


def _stacked(column: Sequence[Any]) -> Any:
    first = column[0]
    if isinstance(first, (tuple, list)):
        return tuple([_stacked(part) for part in zip(*column, strict=True)])
    if isinstance(first, Tensor):
        return np.stack(list(column))
    return np.stack(list(column)) if is_array(first) or isinstance(first, np.generic) else first


def of_no_example(call: Call) -> Any:
    """Return results for zero examples; their shapes are those of the results for an example of zeros."""
    values = [
        np.zeros(value.array.shape[1:], value.array.dtype) if flag else value
        for value, flag in zip(call.values, call.mapped, strict=True)
    ]
    values = [new_tensor(x) if flag else x for x, flag in zip(values, call.mapped, strict=True)]
    params = {
        name: replaced(
            value,
            lambda part: np.zeros(part.array.shape[1:], part.array.dtype) if isinstance(part, Tensor) else part,
        )
        for name, value in call.params.items()
    }
    result = call.below(values, params)

    def none_of(x: object) -> Any:
        if isinstance(x, Tensor):
            return new_tensor(np.zeros((0, *x.array.shape), x.array.dtype))
        if isinstance(x, (tuple, list)):
            return tuple(map(none_of, x))
        return np.zeros((0, *np.shape(x)), x.dtype) if is_array(x) else x

    return none_of(result)


# The primitives of in-place writes


def _written_value(call: Call) -> Tensor:
    return call.full(1)


def _move_all_layouts(call: Call) -> Tensor:
    """Batch the primitive ``move`` between memory layouts: one large buffer contains the buffers of all examples."""
    size = call.size

    def all_of(layout: Layout, extent: int) -> Layout:
        return Layout((size, *layout.shape), (extent, *layout.strides), layout.dtype, layout.start)

    params = dict(call.params)
    place = params.get("place")
    if place is not None:
        extent = place.extent
        params["place"] = Place(all_of(place.base, extent), all_of(place.view, extent), size * extent)
    else:
        extent = params["extent"]
        params.update(
            source=all_of(params["source"], extent), target=all_of(params["target"], extent), extent=size * extent
        )
    return call.below([call.full(index) for index in range(len(call.values))], params)


COPY.batch = REPLACE.batch = _written_value
for _primitive in (MOVE, EXTRACT, EMBED, ERASE, OVERWRITE):
    _primitive.batch = _move_all_layouts


def _write_on_level(
    level: Level, primitive: Primitive, x: Tensor, inputs: tuple[object, ...], params: Params
) -> Node | None:
    """Write in place on a level: compute the result out of place and copy it to the examples of x, one level below."""
    name = primitive.name if primitive.name.endswith("_") else primitive.name + "_"
    others = inputs[1:]
    array: Any = x.array
    if (type(array) is not Batched or array.level is not level) and not spread(x, level):
        raise _unmapped_target(name, x, others)
    array = x.array
    entered = Level.entering(primitive, inputs, params)
    assert entered is not None
    lifted, run = entered
    arrays: tuple[Any, ...] = tuple([value.array if isinstance(value, Tensor) else value for value in lifted])
    check_fits(primitive, name, x, inputs, arrays)
    if primitive.promote is not None:
        arrays = promoted(primitive.name, primitive.promote, lifted, arrays)
    result = run(*arrays, **params)
    if primitive.residuals:
        result = result[0]
    if result.mapped and not array.mapped:
        raise _unmapped_target(name, x, others)
    needs = tuple([isinstance(value, Tensor) and value._requires for value in lifted])
    node: Node | None = None
    if primitive.differentiable and modes.grad_enabled and True in needs:
        node = node_of_call(primitive, lifted, arrays, params, (), (result,), (x,), needs)
        if node is not None:
            node.shape, node.dtype = array.shape, array.dtype
    value = result.value
    if array.mapped and not result.mapped:
        value = value.reshape((1,) * (array.ndim + 1 - value.array.ndim) + value.array.shape)
    elif result.ndim < array.ndim:
        value = _padded(value, array.ndim)
    if modes.grad_enabled and not level.grad_enabled:
        with no_grad():
            apply_inplace(REPLACE, array.value, value)
    else:
        apply_inplace(REPLACE, array.value, value)
    storage_of(x).version += 1
    if modes.grad_enabled:
        rewrite_history(x, node)
    return node


def _unmapped_target(name: str, x: Tensor, others: tuple[object, ...]) -> RuntimeError:
    return RuntimeError(
        f"vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in "
        f"extra_args that has more elements than `self`. This happened due to `other` being vmapped over but `self` "
        f"not being vmapped over in {name}({', '.join(map(describe, (x, *others)))}). Please try to use out-of-place "
        "operators instead of inplace arithmetic, or create self inside the mapped function: a Tensor that was created "
        "outside has one memory for all examples."
    )
