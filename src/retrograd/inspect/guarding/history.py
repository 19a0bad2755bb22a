"""The inputs of recent operator calls, and the way back through them to a cause."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from types import MethodType
from typing import Any, NamedTuple

import numpy as np

from ...autograd.arithmetic import Predicate, shown, written
from ...autograd.influence import Index, element, influences, unobserved
from ...core.arrays import Array
from ...core.arrays.devices import array_module, backend_of, is_array
from ...core.arrays.dtypes import is_differentiable
from ...core.arrays.fp_warnings import silent
from ...core.graph.backward import differentiate
from ...core.graph.modes import enable_grad, no_grad
from ...core.graph.nodes import edge_of
from ...core.graph.primitive import Primitive, apply
from ...core.tensor.storage import byte_span
from ...core.tensor.tensor import Tensor, new_tensor
from ..memory import owner_of
from ..record import Departure, Input, Record
from ..recorder import Recorder

_MOST_BYTES = 1 << 28
_STEPS = 40

# Operators that move elements without changing their values.
_MOVING = """
amax amin as_strided cat clamp clamp_max clamp_min clone contiguous copy_ diag_embed diagonal embed embedding expand
fill flatten flip fmax fmin gather getitem identity index_copy index_fill index_put index_select keep kthvalue
masked_fill masked_scatter masked_select max maximum median min minimum move nan_to_num output overwrite pad permute
put relu repeat repeat_interleave reshape roll rot90 scatter select_scatter setitem slice_scatter sort split squeeze
stack take take_along_dim threshold topk transpose tril triu unbind unflatten unfold unsqueeze view view_copy where cast
"""
MOVING = frozenset(_MOVING.split())


class _Lost:
    """Stands for an array that was overwritten without a copy."""


LOST = _Lost()


class Past(NamedTuple):
    """A call: its inputs as arrays and numbers, the source of each input, its parameters, and its output arrays."""

    primitive: Primitive | None
    inputs: tuple[Any, ...]
    sources: tuple[Input | None, ...]
    params: dict[str, object]
    outputs: tuple[Any, ...]

    def places(self, index: Index, output: int = 0) -> list[Array | None]:
        """Return, per input, the places of the elements from which an element of the output is computed."""
        if self.primitive is None:
            return [None] * len(self.inputs)
        tensors = tuple([new_tensor(x) if is_array(x) else x for x in self.inputs])
        return influences(self.primitive, tensors, self.params, index, output)

    def passes_nothing(self, number: int, index: Index) -> bool:
        """Return whether the derivative of the outputs with respect to one element of an input is exactly 0."""
        if self.primitive is None or any(isinstance(x, _Lost) for x in self.inputs):
            return False
        tensors = [new_tensor(x) if is_array(x) else x for x in self.inputs]
        tensors[number]._requires = True
        try:
            with unobserved(), enable_grad(), silent():
                result = apply(self.primitive, tuple(tensors), self.params)
                ones = new_tensor(array_module(result.array).ones_like(result.array))
                found = differentiate("guard", [result], [ones], [tensors[number]], False, False)
        except Exception:  # several outputs, or an operator that cannot run again
            return False
        g = found.get(edge_of(tensors[number]))
        return g is not None and not element(getattr(g, "array", g), index)

    def is_overwritten(self, index: Index, value: Array, output: int = 0) -> bool:
        """Return whether the inputs no longer give this value: the program has overwritten them without an operator."""
        if self.primitive is None or isinstance(self.primitive.forward, MethodType):  # not known, or a custom Function
            return False
        if any(isinstance(x, _Lost) for x in self.inputs):
            return True
        tensors = tuple([new_tensor(x) if is_array(x) else x for x in self.inputs])
        try:
            with unobserved(), no_grad(), silent():
                result = apply(self.primitive, tensors, self.params)
                again = element((result[output] if isinstance(result, tuple) else result).array, index)
        except Exception:  # changed inputs can make the operator fail
            return True
        return bool(is_differentiable(again.dtype) and not np.isclose(again, value, 1e-3, equal_nan=True))

    def values(self, places: Sequence[Array | None]) -> list[Array | None]:
        """Return, per input, the elements at these places as NumPy arrays; None for inputs that are not known."""
        return [_elements(x, place) for x, place in zip(self.inputs, places, strict=True)]


def as_read(x: object, written: Array, before: Array) -> object:
    """Return an input of an in-place operator with its values before the write, if it shares the written memory."""
    if not is_array(x) or owner_of(x) is not owner_of(written):
        return x
    if x is written:
        return before
    if not isinstance(written, np.ndarray) or not written.flags.c_contiguous:
        return LOST
    offset = byte_span(x)[0] - byte_span(written)[0]
    if offset < 0 or byte_span(x)[1] > byte_span(written)[1] or min(x.strides, default=0) < 0:
        return LOST
    return np.ndarray(x.shape, x.dtype, before, offset, x.strides)


def _elements(x: object, places: Array | None) -> Array | None:
    if isinstance(x, (bool, int, float, complex)):
        return np.asarray([x])
    if not is_array(x) or places is None:
        return None
    values = backend_of(x).to_numpy(x.reshape(-1)[backend_of(x).asarray(places)])
    return values.astype(np.float32) if values.dtype.kind == "V" else values


class History:
    """The inputs and outputs of recent calls, within a memory limit.

    The history refers to the calls' own arrays. ``preserve`` replaces an array by a copy before an operator or an
    optimizer writes to it in place.
    """

    def __init__(self) -> None:
        self._calls: OrderedDict[int, tuple[Past, int]] = OrderedDict()
        self._owners: dict[int, set[int]] = {}  # by call: the ids of the memory's owners
        self._readers: dict[int, set[int]] = {}  # by the id of the memory's owner: calls that refer to it
        self._bytes = 0

    def add(self, record: Record, past: Past, nbytes: int) -> None:
        """Store the inputs and outputs of a record's call."""
        self._calls[record.index] = past, nbytes
        owners = self._owners[record.index] = set()
        for x in (*past.inputs, *past.outputs):
            if is_array(x):
                owners.add(id(owner_of(x)))
        for key in owners:
            readers = self._readers.get(key)
            if readers is None:
                self._readers[key] = {record.index}
            else:
                readers.add(record.index)
        self._bytes += nbytes
        while self._bytes > _MOST_BYTES and len(self._calls) > 1:
            self.forget(next(iter(self._calls)))

    def forget(self, index: int) -> None:
        """Remove a call."""
        _, nbytes = self._calls.pop(index, (None, 0))
        self._bytes -= nbytes
        for key in self._owners.pop(index, ()):
            readers = self._readers.get(key)
            if readers is not None:
                readers.discard(index)
                if not readers:
                    del self._readers[key]

    def preserve(self, array: Array, copy: Array | None = None) -> None:
        """Give copies to the calls that refer to the array's memory, which is about to be overwritten.

        ``copy`` is an existing copy of the array. Arrays larger than the history's limit are marked as lost.
        """
        owner = owner_of(array)
        copies: dict[int, Array | _Lost] = {} if copy is None else {id(array): copy}
        held: list[object] = []  # keeps replaced objects alive, so that no id is reused
        added = 0

        def replaced(x: Any) -> Any:
            nonlocal added
            if not is_array(x) or owner_of(x) is not owner:
                return x
            if id(x) not in copies:
                held.append(x)
                added += x.nbytes
                copies[id(x)] = x.copy() if self._bytes + added <= _MOST_BYTES else LOST
            return copies[id(x)]

        for index in self._readers.pop(id(owner), ()):
            past, nbytes = self._calls[index]
            held.append(past)
            inputs, outputs = (tuple(map(replaced, values)) for values in (past.inputs, past.outputs))
            self._calls[index] = past._replace(inputs=inputs, outputs=outputs), nbytes + added
            self._bytes += added
            added = 0

    def of(self, record: Record) -> Past | None:
        """Return the inputs and outputs of a record's call, or None if they are no longer stored."""
        found = self._calls.get(record.index)
        return None if found is None else found[0]


class Link(NamedTuple):
    """A step of the way back: the operator, a text on its result, whether it only moved the element, and whether its
    inputs are known."""

    record: Record
    text: str
    moved: bool
    known: bool = True


class Way(NamedTuple):
    """The way back from an element: the operators that computed it, and the leaf where the way ends, or None."""

    links: list[Link]
    leaf: Input | None
    at: Index
    value: Any


def way_back(history: History, start: Input, array: Array, place: int, bad: Predicate) -> Way:
    """Follow an element of an input back to the first operator or leaf with a ``bad`` value."""
    links: list[Link] = []
    x, steps = start, 0
    while True:
        index = tuple(map(int, np.unravel_index(place, array.shape))) if is_array(array) else ()
        value = element(array, index) if is_array(array) else array
        source = x.source
        while isinstance(source, Departure):
            x = x._replace(source=source.source, name=source.name)
            source = source.source
        if (
            source is None or source.creates or x.requires_grad and not source.requires_grad
        ):  # not computed from a Tensor, or a leaf
            return Way(links, x, index, value)
        past = history.of(source)
        steps += 1
        output = 0 if past is None else next((i for i, one in enumerate(past.outputs) if one is array), 0)
        shape = source.shape[output] if isinstance(source.dtype, tuple) else source.shape
        if past is None or steps > _STEPS or is_array(array) and shape != array.shape:
            links.append(Link(source, f"{source.operator} gave {shown(value)}", False, False))
            return Way(links, None, index, value)
        if past.is_overwritten(index, value, output):
            text = f"it gave {shown(value)}; its inputs have been overwritten since"
            links.append(Link(source, text, False, False))
            return Way(links, None, index, value)
        places = past.places(index, output)
        values = past.values(places)
        moved = source.operator in MOVING
        links.append(Link(source, f"{written(source.operator, values, past.params)} = {shown(value)}", moved))
        number = _culprit(values, past, bad)
        if number is None:
            return Way(links, None, index, value)
        if not moved and not _carries(source.operator, values, number, value, bad):
            return Way(links, None, index, value)
        elements = values[number]
        assert elements is not None
        at = int(np.argmax(_magnitudes(np.where(bad(elements), elements, 0))))
        at = at if bool(bad(elements[at])) else int(np.argmax(bad(elements)))
        following = past.sources[number]
        assert following is not None
        x, array = following, past.inputs[number]
        read = places[number]
        place = 0 if read is None else int(read[at])


def _culprit(values: Sequence[Array | None], past: Past, bad: Predicate) -> int | None:
    """Return the input that is already bad: arrays before numbers, larger values before smaller ones."""
    found = [
        (is_array(past.inputs[number]), float(np.nanmax(_magnitudes(x[bad(x)]), initial=0.0)), -number)
        for number, x in enumerate(values)
        if x is not None and x.size and x.dtype.kind in "fcViub" and past.sources[number] is not None and bad(x).any()
    ]
    if not found:
        return None
    number = -max(found)[2]
    return number if is_array(past.inputs[number]) else None


def _carries(operator: str, values: Sequence[Array | None], number: int, out: Array, bad: Predicate) -> bool:
    """Return whether a bad input is the cause of a bad output.

    An input that is too large causes outputs that are too large. An input outside a domain, such as a negative number,
    is the cause only if it outweighs the other terms of a sum, or decides the sign of a product.
    """
    if not bad(np.array([0.0, -1.0, -2.0, 2.0])).any():
        return True
    x = values[number]
    assert x is not None
    others = [y for i, y in enumerate(values) if i != number and y is not None]
    if x.size > 1 or any(y.size > 1 for y in others):
        return not others and bool(bad(x).all())
    if operator in ("add", "sub"):
        return all(bool(abs(x[0]) >= abs(y[0])) for y in others)
    if operator in ("mul", "div", "pow"):
        return bool(bad(np.array([out / 1000, out * 1000], dtype=np.float64)).all())
    return True


def _magnitudes(x: Array) -> Array:
    return np.abs(x.astype(np.complex128 if x.dtype.kind == "c" else np.float64))


def tensor_inputs(inputs: tuple[object, ...], record: Record) -> tuple[Input | None, ...]:
    """Return the record's inputs in the order of the call's arguments."""
    recorded = iter(record.inputs)
    return tuple(
        [next(recorded, None) if isinstance(x, (Tensor, int, float, complex)) or is_array(x) else None for x in inputs]
    )


class Watched(Recorder):
    """The records of a guard, with the data for its reports."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History()
        self.sizes: dict[int, list[float]] = {}  # by parameter: the largest element at each backward pass
        self.overflows = False  # whether the last report is of an overflow
