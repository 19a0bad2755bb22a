"""List the calls of a model's run for the exporter, as a list of primitives and public operators.

The exporter needs only a ``ModelCalls`` (a list of calls on known values), so another front end can supply it.
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
from ..core.graph.plan import Params
from ..core.tensor.tensor import Tensor, new_tensor
from ..func.nests import flatten, mapped
from ..ops.make.creation import tensor
from ..ops.table.registry import OPERATORS
from .graph import UnsupportedError

Whole = Callable[[str, tuple[Any, ...], dict[str, Any]], bool]

# Operators whose results depend only on the shape of their input.
_OF_SHAPES = {
    "zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty",
}  # fmt: skip


@dataclass(slots=True)
class Call:
    """A primitive call with its parameters; or, with ``whole``, a public operator's call with its arguments by name."""

    name: str
    inputs: tuple[Any, ...]
    params: Params
    outputs: tuple[Any, ...]
    whole: bool = False


@dataclass(slots=True)
class ModelCalls:
    """The calls of one run of a model, with its inputs and outputs."""

    inputs: list[Tensor]
    outputs: list[Tensor]
    calls: list[Call] = field(default_factory=list)
    # Names of operators by the ids of outputs that they computed from values of the graph without a primitive.
    unknown: dict[int, str] = field(default_factory=dict)
    references: list[object] = field(default_factory=list)  # references that prevent reuse of ids


@cache
def _random() -> set[str]:
    """Return the names of public operators that draw random numbers."""
    return {entry.name for entry in OPERATORS.values() if "generator" in signature(entry.function).parameters}


class _CallObserver(Observer):
    def __init__(self, run: ModelCalls, whole: Whole) -> None:
        self.run, self.whole = run, whole
        self.live = {id(x) for x in run.inputs}
        self.results: set[int] = set()
        self.open: list[tuple[str, bool]] = []
        self.skipping = 0

    def _tensors(self, values: Iterable[object]) -> list[Tensor]:
        return [x for value in values for x in flatten(value)[0] if isinstance(x, Tensor)]

    def _note(self, call: Call) -> None:
        self.run.calls.append(call)
        self.run.references.append(call)
        if any(id(x) in self.live for x in self._tensors((call.inputs, call.params))):
            self.live.update(id(x) for x in call.outputs)
        self.results.update(id(x) for x in call.outputs)

    def called(self, primitive: Any, inputs: Any, params: Any, outputs: Any, node: Any) -> None:
        if not self.skipping:
            self._note(Call(primitive.name, tuple(inputs), dict(params), tuple(outputs)))

    def opened(self, what: object, inputs: object) -> None:
        if not isinstance(what, str):
            return
        if what in _random():
            raise UnsupportedError(f"export: {what} draws random numbers, which would be constants in the file")
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
                if id(x) not in self.results and id(x) not in given:
                    self.run.unknown[id(x)] = name
                    self.run.references.append(x)
                    self.live.add(id(x))

    def became(self, x: Tensor, other: Tensor) -> None:
        if self.skipping:
            return
        before = new_tensor(x.array)  # for earlier calls: the Tensor before the change
        for call in self.run.calls:
            call.inputs, call.params, call.outputs = mapped(
                lambda y: before if y is x else y, (call.inputs, call.params, call.outputs)
            )
        self.run.inputs = [before if y is x else y for y in self.run.inputs]
        for known in (self.live, self.results):
            known.update({id(before)} if id(x) in known else ())
        self._note(Call("identity", (other,), {}, (x,)))

    def departed(self, x: Tensor, how: str, result: Tensor | None) -> None:
        if id(x) not in self.live or self.skipping:
            return
        if result is not None:
            self._note(Call("identity", (x,), {}, (result,)))
        else:
            warnings.warn(
                f"onnx.export: the model reads values of a Tensor by {how}; the result becomes a constant in the file",
                UserWarning,
                stacklevel=3,
            )


def _arguments(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    names = getattr(inputs, "names", ())
    values = tuple(inputs)
    split = len(values) - len(names)
    return values[:split], dict(zip(names, values[split:], strict=True))


def calls_of(model: Any, args: tuple[object, ...], kwargs: dict[str, object], whole: Whole) -> ModelCalls:
    """Run a model and record its calls; ``whole`` decides which public operators are recorded as single calls."""
    inputs = [x for x in flatten((args, kwargs))[0] if isinstance(x, Tensor)]
    run = ModelCalls(inputs, [])
    with no_grad(), observing(_CallObserver(run, whole)):
        result = model(*args, **kwargs)
    for x in flatten(result)[0]:
        if not isinstance(x, Tensor):
            raise TypeError(f"export: the model must return only Tensors, got {type(x).__name__}")
        run.outputs.append(x)
    return run


def resized(args: object, kwargs: object, changes: dict[int, dict[int, int]]) -> tuple[Any, Any]:
    """Return the arguments with axes of other lengths, by repeating elements of the Tensors.

    Args:
        args, kwargs: the arguments of the model.
        changes: by the index of the Tensor, the new length of each axis.
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
