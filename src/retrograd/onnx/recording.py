"""What a model does, call by call: the engine's own record of primitives and public operators, for the exporter.

The front of the exporter: whatever gives a ``Recording`` (a list of calls on known values) can stand in its place.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from inspect import signature
from typing import Any

import numpy as np

from ..core.graph.modes import no_grad
from ..core.graph.observers import Observer, observing
from ..core.tensor.tensor import Tensor
from ..func.nests import flatten
from ..ops.make.creation import tensor
from ..ops.table.registry import OPERATORS
from .graph import UnsupportedError

Whole = Callable[[str, tuple[Any, ...], dict[str, Any]], bool]

# Their results depend on the shape of what they are given, and on nothing else of it.
_OF_SHAPES = {
    "zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty",
}  # fmt: skip


@dataclass(slots=True)
class Call:
    """A primitive that ran, with its parameters; or, with ``whole``, a public operator, with its arguments by name."""

    name: str
    inputs: tuple[Any, ...]
    params: dict[str, Any]
    outputs: tuple[Any, ...]
    whole: bool = False


@dataclass(slots=True)
class Recording:
    """The calls of one run of a model, what went in and what came out."""

    inputs: list[Tensor]
    outputs: list[Tensor]
    calls: list[Call] = field(default_factory=list)
    # Tensors that came out of an operator that ran no primitive: what was made of numbers that are in the graph.
    unknown: dict[int, str] = field(default_factory=dict)
    kept: list[Any] = field(default_factory=list)  # so that no id is given twice


@cache
def _random() -> set[str]:
    """The public operators that draw."""
    return {entry.name for entry in OPERATORS.values() if "generator" in signature(entry.function).parameters}


class _Recorder(Observer):
    def __init__(self, recording: Recording, whole: Whole) -> None:
        self.recording, self.whole = recording, whole
        self.live = {id(x) for x in recording.inputs}
        self.made: set[int] = set()
        self.open: list[tuple[str, bool]] = []
        self.skipping = 0

    def _tensors(self, values: Iterable[Any]) -> list[Tensor]:
        return [x for value in values for x in flatten(value)[0] if isinstance(x, Tensor)]

    def _note(self, call: Call) -> None:
        self.recording.calls.append(call)
        self.recording.kept.append(call)
        if any(id(x) in self.live for x in self._tensors((call.inputs, call.params))):
            self.live.update(id(x) for x in call.outputs)
        self.made.update(id(x) for x in call.outputs)

    def called(self, primitive: Any, inputs: Any, params: Any, outputs: Any, node: Any) -> None:
        if not self.skipping:
            self._note(Call(primitive.name, tuple(inputs), dict(params), tuple(outputs)))

    def opened(self, what: object, inputs: Any) -> None:
        if not isinstance(what, str):
            return
        if what in _random():
            raise UnsupportedError(
                f"export: {what} draws random numbers, which would be the same in each run of the file"
            )
        args, named = _arguments(inputs)
        whole = not self.skipping and self.whole(what, args, named)
        self.open.append((what, whole))
        self.skipping += whole

    def closed(self, what: Any, inputs: Any, result: Any) -> None:
        if not isinstance(what, str) or not self.open:
            return
        name, whole = self.open.pop()
        self.skipping -= whole
        if isinstance(result, BaseException) or self.skipping:
            return
        outputs = self._tensors([result])
        if whole:
            args, named = _arguments(inputs)
            self._note(Call(name, args, named, tuple(outputs), whole=True))
            return
        if what not in _OF_SHAPES and any(id(x) in self.live for x in self._tensors(inputs)):
            given = {id(x) for x in self._tensors(inputs)}
            for x in outputs:
                if id(x) not in self.made and id(x) not in given:
                    self.recording.unknown[id(x)] = name
                    self.recording.kept.append(x)
                    self.live.add(id(x))

    def departed(self, x: Tensor, how: str, result: Tensor | None) -> None:
        if id(x) not in self.live or self.skipping:
            return
        if result is not None:
            self._note(Call("identity", (x,), {}, (result,)))
        else:
            warnings.warn(
                f"onnx.export: the model reads values of a Tensor by {how}; what it makes of them stays as it is here",
                UserWarning,
                stacklevel=3,
            )


def _arguments(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    names = getattr(inputs, "names", ())
    values = tuple(inputs)
    split = len(values) - len(names)
    return values[:split], dict(zip(names, values[split:], strict=True))


def record(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], whole: Whole) -> Recording:
    """Run a model and write down what it does; ``whole`` says which public operators are calls of their own."""
    inputs = [x for x in flatten((args, kwargs))[0] if isinstance(x, Tensor)]
    recording = Recording(inputs, [])
    with no_grad(), observing(_Recorder(recording, whole)):
        result = model(*args, **kwargs)
    for x in flatten(result)[0]:
        if not isinstance(x, Tensor):
            raise TypeError(f"export: the model must return Tensors, got {type(x).__name__}")
        recording.outputs.append(x)
    return recording


def resized(args: object, kwargs: object, changes: dict[int, dict[int, int]]) -> tuple[Any, Any]:
    """The arguments with axes of other lengths: the Tensor with a number has its rows over again.

    Args:
        args, kwargs: of the model.
        changes: by the number of the Tensor, the new length of each axis.
    """
    leaves, structure = flatten((args, kwargs))
    number, found = 0, []
    for leaf in leaves:
        if isinstance(leaf, Tensor):
            array = leaf.detach().cpu().numpy()
            for axis, length in changes.get(number, {}).items():
                array = np.take(array, np.arange(length) % array.shape[axis], axis)
            number += 1
            leaf = tensor(array, device=leaf.device)
        found.append(leaf)
    args, kwargs = structure.unflatten(found)
    return args, kwargs
