"""Build the nodes, values and constants of an ONNX graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.errors import describe
from ..core.tensor.tensor import Tensor
from .graph import UnsupportedError
from .model_calls import Call, ModelCalls
from .table import DTYPES

CODES = {name: code for code, name in DTYPES.items()}


class Symbol:
    """A dynamic length: the input axes that have it, and its values in the first run and in the run that changes it."""

    def __init__(self, name: str, places: list[tuple[int, int]], length: int, other: int) -> None:
        self.name, self.places, self.length, self.other = name, places, length, other


class Builder:
    """An ONNX graph under construction.

    Args:
        base: the recorded run to write.
        others: runs that differ from ``base`` by one symbol each.
        symbols: the symbols of ``others``.
        opset: the version of the ONNX operators.
        names: the names of the inputs, in order.
        weights: the model's Parameters and buffers, by id.
    """

    def __init__(
        self,
        base: ModelCalls,
        others: list[ModelCalls],
        symbols: list[Symbol],
        opset: int,
        names: list[str],
        weights: dict[int, str],
    ) -> None:
        import onnx

        self.onnx, self.opset = onnx, opset
        self.base, self.others, self.symbols = base, others, symbols
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.names: dict[int, str] = {id(x): name for x, name in zip(base.inputs, names, strict=True)}
        self.weights = weights
        self._used = set(names) | set(weights.values())
        self._constants: dict[object, str] = {}
        self._lengths: dict[object, str] = {}
        self._call: Call | None = None
        self._twins: list[Call] = []

    # Calls, with the corresponding calls of the other runs

    def at(self, number: int) -> Call:
        """Select the current call."""
        self._call = self.base.calls[number]
        self._twins = [other.calls[number] for other in self.others]
        return self._call

    def fail(self, why: str) -> UnsupportedError:
        """Return an error that names the operator of the current call."""
        assert self._call is not None
        return UnsupportedError(f"export: {self._call.name} cannot be written as ONNX: {why}")

    def fixed(self, value: object, *theirs: object) -> object:
        """Return a value that must be equal in all runs."""
        if any(other != value for other in theirs):
            raise self.fail("a parameter depends on the length of a dynamic axis")
        return value

    def param(self, name: str) -> Any:
        """Return a parameter of the call, which must be equal in all runs."""
        assert self._call is not None
        return self.fixed(self._call.params[name], *[twin.params[name] for twin in self._twins])

    def sizes(self, value: Sequence[int], theirs: Sequence[Sequence[int]]) -> str:
        """Return the name of a 1-D value of lengths, computed from the symbols where they are dynamic."""
        found = [self._size(length, [other[place] for other in theirs]) for place, length in enumerate(value)]
        if all(isinstance(part, int) for part in found):
            return self.constant(np.asarray(found, np.int64))
        return self.node("Concat", [p if isinstance(p, str) else self.ints(p) for p in found], axis=0)

    def shape(self, place: int = 0) -> str:
        """Return the name of the shape of an output of the call."""
        assert self._call is not None
        theirs = [tuple(twin.outputs[place].shape) for twin in self._twins]
        mine = tuple(self._call.outputs[place].shape)
        return self.sizes(mine, theirs)

    def target(self, place: int = 0) -> str:
        """Return the name of the value with an output's shape, for Reshape; a single dynamic length is -1."""
        assert self._call is not None
        mine = tuple(self._call.outputs[place].shape)
        theirs = [tuple(twin.outputs[place].shape) for twin in self._twins]
        moving = [axis for axis, length in enumerate(mine) if any(other[axis] != length for other in theirs)]
        if len(moving) == 1 and 0 not in mine:
            return self.constant(np.asarray([-1 if axis in moving else n for axis, n in enumerate(mine)], np.int64))
        return self.sizes(mine, theirs)

    def _size(self, length: int, theirs: list[int]) -> int | str:
        """Return a static length as an integer, or the name of a dynamic length (a 1-D value with one element)."""
        moving = [
            (symbol, other) for symbol, other in zip(self.symbols, theirs, strict=True) if other != length
        ]  # fmt: skip
        if not moving:
            return int(length)
        key = (length, tuple(theirs))
        if key in self._lengths:
            return self._lengths[key]
        if len(moving) == 1:
            symbol, other = moving[0]
            factor, rest = divmod(other - length, symbol.other - symbol.length)
            offset = length - factor * symbol.length
            if rest:
                raise self.fail(f"a length of {length} is not a multiple of the axis {symbol.name!r}")
            found = self.length(symbol)
            if factor != 1:
                found = self.node("Mul", [found, self.constant(np.asarray([factor], np.int64))])
            if offset:
                found = self.node("Add", [found, self.constant(np.asarray([offset], np.int64))])
        else:
            product = int(np.prod([symbol.length for symbol, _ in moving]))
            fits = all(other * symbol.length == length * symbol.other for symbol, other in moving)
            if length % product or not fits:
                raise self.fail(f"a length of {length} is not a product of {', '.join(s.name for s, _ in moving)}")
            found = self.length(moving[0][0])
            for symbol, _ in moving[1:]:
                found = self.node("Mul", [found, self.length(symbol)])
            if length != product:
                found = self.node("Mul", [found, self.constant(np.asarray([length // product], np.int64))])
        self._lengths[key] = found
        return found

    def length(self, symbol: Symbol) -> str:
        """Return the name of the length of a symbol's axis, a 1-D value with one element."""
        if symbol not in self._lengths:
            number, axis = symbol.places[0]
            shape = self.node("Shape", [self.names[id(self.base.inputs[number])]])
            self._lengths[symbol] = self.node("Gather", [shape, self.constant(np.asarray([axis], np.int64))], axis=0)
        return self._lengths[symbol]

    # Values

    def fresh(self, stem: str) -> str:
        number, name = 0, stem
        while name in self._used:
            number += 1
            name = f"{stem}_{number}"
        self._used.add(name)
        return name

    def node(self, kind: str, inputs: Sequence[str], outputs: int = 1, **attributes: Any) -> Any:
        """Add a node; return the name of its output, or a list of several."""
        names = [self.fresh(kind.lower()) for _ in range(outputs)]
        given = {name: value for name, value in attributes.items() if value is not None}
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), names, name=names[0], **given))
        return names[0] if outputs == 1 else names

    def constant(self, array: object, name: str | None = None) -> str:
        """Return the name of a constant: an initializer for a weight, else a Constant node, shared if small."""
        array = np.asarray(array)
        key = None if name is not None or array.size > 64 else (array.dtype.str, array.shape, array.tobytes())
        if key is not None and key in self._constants:
            return self._constants[key]
        code = CODES.get(array.dtype.name)
        if code is None:
            raise self.fail(f"ONNX does not support the dtype {array.dtype}")
        raw = np.ascontiguousarray(array).tobytes()
        if name is not None:
            self.initializers.append(self.onnx.helper.make_tensor(name, code, array.shape, raw, raw=True))
            return name
        name = self.fresh("constant")
        value = self.onnx.helper.make_tensor(name, code, array.shape, raw, raw=True)
        self.nodes.append(self.onnx.helper.make_node("Constant", [], [name], name=name, value=value))
        if key is not None:
            self._constants[key] = name
        return name

    def ints(self, *values: int) -> str:
        return self.constant(np.asarray(values, np.int64))

    def is_live(self, x: object) -> bool:
        """Whether a value is computed in the graph."""
        return id(x) in self.names or id(x) in self.base.unknown

    def name(self, x: Any, dtype: Any = None, theirs: Sequence[object] = ()) -> str:
        """Return the name of a Tensor's value, cast to ``dtype`` if given; a number or array becomes a constant.

        ``theirs`` are the corresponding Tensors of the other runs.
        """
        if not isinstance(x, Tensor):
            return self.constant(np.asarray(x, dtype))
        if dtype is not None and x.dtype != dtype and not self.is_live(x) and not any_differs(x, theirs):
            return self.constant(x.detach().cpu().numpy().astype(dtype))
        found = self._known(x, theirs)
        return found if dtype is None or x.dtype == dtype else self.cast(found, dtype)

    def _known(self, x: Tensor, theirs: Sequence[Any]) -> str:
        if id(x) in self.names:
            return self.names[id(x)]
        if id(x) in self.base.unknown:
            raise UnsupportedError(f"export: {self.base.unknown[id(x)]} cannot be written as ONNX")
        array = x.detach().cpu().numpy()
        weight = self.weights.get(id(x))
        if weight is not None:
            self.names[id(x)] = self.constant(array, weight)
        elif not any_differs(x, theirs):
            self.names[id(x)] = self.constant(array)
        else:
            self.names[id(x)] = self._computed_constant(x, array, [other.detach().cpu().numpy() for other in theirs])
        self.base.references.append(x)
        return self.names[id(x)]

    def _computed_constant(self, x: Tensor, array: Any, theirs: list[Any]) -> str:
        """Return the name of a Tensor that depends only on dynamic lengths: a filled Tensor or a range."""
        if array.size and all((other == array.flat[0]).all() for other in (array, *theirs)):
            shape = self.sizes(array.shape, [other.shape for other in theirs])
            return self.node("Expand", [self.constant(array.flat[0]), shape])
        if array.ndim == 1 and all(_is_range(other) for other in (array, *theirs)):
            ends = [int(other[0]) + len(other) for other in theirs]
            first = self._size(int(array[0]), [int(other[0]) for other in theirs])
            last = self._size(int(array[0]) + len(array), ends)
            bounds = [self.scalar(first), self.scalar(last), self.constant(np.asarray(1, np.int64))]
            found = self.node("Range", bounds)
            return found if array.dtype == np.int64 else self.cast(found, array.dtype)
        raise self.fail(f"{describe(x)}, which the model creates, depends on the length of a dynamic axis")

    def scalar(self, value: int | str) -> str:
        """Return the name of a length as a 0-d value."""
        if isinstance(value, int):
            return self.constant(np.asarray(value, np.int64))
        return self.node("Squeeze", [value, self.ints(0)])

    def cast(self, name: str, dtype: Any) -> str:
        code = CODES.get(np.dtype(dtype).name)
        if code is None:
            raise self.fail(f"ONNX does not support the dtype {dtype}")
        return self.node("Cast", [name], to=code)

    def input(self, place: int, dtype: object = None) -> str:
        """Return the name of an input of the call."""
        assert self._call is not None
        return self.name(self._call.inputs[place], dtype, [twin.inputs[place] for twin in self._twins])

    def argument(self, x: object, dtype: object = None) -> str:
        """Return the name of a Tensor among the arguments of a call."""
        assert self._call is not None
        for place, value in enumerate(self._call.inputs):
            if value is x:
                return self.input(place, dtype)
        return self.name(x, dtype)

    def differs(self) -> bool:
        """Whether the call's outputs depend on the lengths of dynamic axes."""
        assert self._call is not None
        return any(
            any_differs(x, [twin.outputs[place] for twin in self._twins]) for place, x in enumerate(self._call.outputs)
        )

    def others_of(self, pick: Any) -> list[Any]:
        """Return the values that ``pick`` selects from the corresponding calls of the other runs."""
        return [pick(twin) for twin in self._twins]


def any_differs(x: Tensor, theirs: Sequence[object]) -> bool:
    """Whether the corresponding Tensors of the other runs differ."""
    array = x.detach().cpu().numpy()
    nan = array.dtype.kind == "f"
    return any(
        not isinstance(other, Tensor) or not np.array_equal(array, other.detach().cpu().numpy(), equal_nan=nan)
        for other in theirs
    )


def _is_range(array: Any) -> bool:
    """Whether the elements are consecutive integers."""
    if not array.size or array.dtype.kind not in "iuf" or array[0] != int(array[0]):
        return False
    return bool((array == array[0] + np.arange(len(array))).all())
