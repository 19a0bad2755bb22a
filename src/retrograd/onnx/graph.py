"""Execute an ONNX graph as a list of steps, with the subgraphs of ``If``, ``Loop`` and ``Scan``."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import retrograd.onnx.operators  # noqa: F401  they enter themselves in the table

from .. import _generated
from ..core.tensor.tensor import Tensor
from .table import OPERATORS, SETTINGS, Attributes, array_of, constant

rg = _generated.toplevel

MAX_ITERATIONS = 1 << 16  # maximum iterations of all loops in a call, because a loop in a file may be infinite
ITERATIONS = ""  # key of the iteration count among the values of a call; no name in a file is empty
MAX_NODES = 1 << 18  # maximum nodes of a graph and the functions that it calls
MAX_DEPTH = 100  # maximum depth of nested functions
Scope = ChainMap[str, Any]
Enter = Callable[[str, np.ndarray, bool], str]


class UnsupportedError(RuntimeError):
    """The file, or the model to export, has unsupported operators or dtypes."""


@dataclass(frozen=True, slots=True)
class Step:
    """A node: its function, the names that it reads and writes, and the names that no later step reads."""

    at: Attributes
    function: Callable[..., Any]
    inputs: list[str]
    outputs: list[str]
    last: tuple[str, ...]
    bodies: dict[str, Graph]


class Graph:
    """The steps of a graph, and its constants.

    Args:
        proto: ONNX's GraphProto.
        version: the version of the operators.
        dtypes: replacements for dtypes of the file, set by ``module.double()``.
        enter: registers an array, given a name and whether it is trained, and returns its key in ``values``.
        where: the path of the enclosing graphs, for names.
    """

    def __init__(self, proto: Any, version: int, dtypes: dict[Any, Any], enter: Enter, where: str = "") -> None:
        self.inputs = [value.name for value in proto.input]
        self.outputs = [value.name for value in proto.output]
        self.constants: dict[str, str] = {}
        settings = _settings(proto)
        if proto.sparse_initializer:
            raise UnsupportedError("sparse initializers are not supported")
        for initializer in proto.initializer:
            array = array_of(initializer)
            self.constants[initializer.name] = enter(where + initializer.name, array, initializer.name not in settings)
        self.inputs = [name for name in self.inputs if name not in self.constants]
        nodes: list[Any] = []
        for node in proto.node:
            weight = _large_constant(node)
            if weight is None:
                nodes.append(node)
            else:
                name = node.output[0]
                self.constants[name] = enter(where + name, weight, name not in settings)
        self.steps: list[Step] = []
        needed = set(self.outputs)
        for node in reversed(nodes):
            bodies = {
                attribute.name: Graph(attribute.g, version, dtypes, enter, f"{where}{node.name or node.output[0]}.")
                for attribute in node.attribute
                if attribute.type == 5
            }
            reads = {name for name in node.input if name}.union(*[body.free() for body in bodies.values()])
            last = tuple(reads - needed)
            needed |= reads
            at = Attributes(node, version, dtypes)
            function = CONTROL.get(node.op_type) or OPERATORS[node.op_type]
            self.steps.append(Step(at, function, list(node.input), list(node.output), last, bodies))
        self.steps.reverse()
        self._needed = needed

    def free(self) -> set[str]:
        """The names that the graph reads from enclosing graphs."""
        made = {name for step in self.steps for name in step.outputs} | set(self.inputs) | set(self.constants)
        return self._needed - made

    def run(self, values: dict[str, Any], around: Scope, inputs: list[Any]) -> list[Any]:
        """Return the outputs for given inputs and the current ``values``."""
        here: dict[str, object] = dict(zip(self.inputs, inputs, strict=True))
        scope = around.new_child(here)
        for name, entered in self.constants.items():
            here[name] = values[entered]
        for step in self.steps:
            given = [scope[name] if name else None for name in step.inputs]
            while given and given[-1] is None:
                given.pop()
            try:
                if step.bodies:
                    result = step.function(step, values, scope, given)
                else:
                    result = step.function(step.at, *given)
            except (UnsupportedError, MemoryError):
                raise
            except Exception as error:  # the file may pass any inputs and attributes to a node
                plain = type(error) in _PLAIN
                text = _located(step, str(error) if plain else f"{type(error).__name__}: {error}")
                raise (type(error) if plain else RuntimeError)(text) from error
            results = result if isinstance(result, tuple) else (result,)
            if any(step.outputs[len(results) :]):
                raise RuntimeError(_located(step, f"must return {len(step.outputs)} outputs, got {len(results)}"))
            here.update(zip(step.outputs, results, strict=False))
            for name in step.last:
                here.pop(name, None)
        return [scope[name] for name in self.outputs]


_PLAIN = (ValueError, RuntimeError, TypeError, IndexError)


def _located(step: Step, text: str) -> str:
    return text if text.startswith("node ") else f"node {step.at.name or step.outputs[0]!r} ({step.at.type}): {text}"


def check_functions(model: Any) -> None:
    """Raise an error for recursive functions, and for functions with too many nodes after inlining.

    Raises:
        ValueError: a function calls itself, directly or indirectly.
        UnsupportedError: there are too many nodes, or functions are nested too deeply.
    """
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    sizes: dict[tuple[str, str, str], tuple[int, int]] = {}  # nodes and depth of functions; (0, 0) while in progress

    def inlined_size(nodes: Iterator[Any], depth: int) -> tuple[int, int]:
        if depth > MAX_DEPTH:
            raise UnsupportedError(f"functions are nested more than {MAX_DEPTH} levels deep")
        total, deepest = 0, 0
        for node in nodes:
            key = node.domain, node.op_type, node.overload
            if key not in functions:
                total += 1
                continue
            if key not in sizes:
                sizes[key] = 0, 0
                sizes[key] = inlined_size(nodes_of(functions[key]), depth + 1)
            elif not sizes[key][1]:
                raise ValueError(f"the function {node.op_type!r} calls itself")
            total, deepest = total + sizes[key][0], max(deepest, sizes[key][1])
            if total > MAX_NODES:
                raise UnsupportedError(f"the functions have more than {MAX_NODES} nodes after inlining")
        if deepest >= MAX_DEPTH:
            raise UnsupportedError(f"functions are nested more than {MAX_DEPTH} levels deep")
        return total, deepest + 1

    inlined_size(nodes_of(model.graph), 0)


def check_names(proto: Any, around: frozenset[str] = frozenset()) -> None:
    """Check that the graph is topologically sorted.

    Raises:
        ValueError: a node has no output, or a name is read that no earlier node writes.
    """
    known = set(around)
    known.update(value.name for value in proto.input)
    known.update(value.name for value in proto.initializer)
    for node in proto.node:
        if not node.output:
            raise ValueError(f"node {node.name!r} ({node.op_type}) has no output")
        what = f"node {node.name or node.output[0]!r} ({node.op_type})"
        for name in node.input:
            if name and name not in known:
                raise ValueError(f"{what} reads {name!r}, which no earlier node writes")
        for attribute in node.attribute:
            if attribute.type == 5:
                check_names(attribute.g, frozenset(known))
        known.update(name for name in node.output if name)
    for value in proto.output:
        if value.name not in known:
            raise ValueError(f"the graph's output {value.name!r} is not written by any node")


def nodes_of(proto: Any) -> Iterator[Any]:
    """Yield all nodes of a graph and its subgraphs."""
    for node in proto.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == 5:
                yield from nodes_of(attribute.g)


def _settings(proto: object) -> set[str]:
    """Return the names that nodes read as settings, which are not weights."""
    return {
        name
        for node in nodes_of(proto)
        for place, name in enumerate(node.input)
        if place in SETTINGS.get(node.op_type, ())
    }


def _large_constant(node: Any) -> np.ndarray | None:
    """Return the array of a Constant node if it is a weight: floating, with more than one element."""
    if node.op_type != "Constant" or node.attribute[0].name != "value":
        return None
    array = array_of(node.attribute[0].t)
    return array if array.dtype.kind in "fV" and array.size > 1 else None


def _if(step: Step, values: dict[str, Any], scope: Scope, given: list[Any]) -> tuple[Any, ...]:
    body = step.bodies["then_branch" if bool(given[0].item()) else "else_branch"]
    return tuple(body.run(values, scope, []))


def _loop(step: Step, values: dict[str, Any], scope: Scope, given: list[Any]) -> tuple[Any, ...]:
    body = step.bodies["body"]
    given = given + [None] * (2 - len(given))
    limit = None if given[0] is None else int(given[0].item())
    on = True if given[1] is None else bool(given[1].item())
    carried, count = list(given[2:]), 0
    scanned: list[list[Any]] = [[] for _ in body.outputs[len(given) - 1 :]]
    iterations = values[ITERATIONS]
    while on and (limit is None or count < limit):
        iterations[0] += 1
        if iterations[0] > MAX_ITERATIONS:
            raise RuntimeError(f"the loops of the call exceed {MAX_ITERATIONS} iterations in total")
        outputs = body.run(values, scope, [constant(count, np.int64), constant(on, bool), *carried])
        on = bool(outputs[0].item())
        carried = outputs[1 : 1 + len(carried)]
        for kept, output in zip(scanned, outputs[1 + len(carried) :], strict=True):
            kept.append(output)
        count += 1
    return (*carried, *[rg.stack(kept) if kept else constant(np.zeros((0,)), np.float32) for kept in scanned])


def _scan(step: Step, values: dict[str, Any], scope: Scope, given: list[Any]) -> tuple[Any, ...]:
    body, at = step.bodies["body"], step.at
    count = at("num_scan_inputs")
    states, inputs = given[:-count], given[-count:]
    axes, ways = at("scan_input_axes", [0] * count), at("scan_input_directions", [0] * count)
    rows = [
        list(x.unbind(axis))[:: -1 if way else 1] for x, axis, way in zip(inputs, axes, ways, strict=True)
    ]  # fmt: skip
    scanned: list[list[Tensor]] = [[] for _ in body.outputs[len(states) :]]
    for parts in zip(*rows, strict=True):
        outputs = body.run(values, scope, [*states, *parts])
        states = outputs[: len(states)]
        for kept, output in zip(scanned, outputs[len(states) :], strict=True):
            kept.append(output)
    axes, ways = at("scan_output_axes", [0] * len(scanned)), at("scan_output_directions", [0] * len(scanned))
    return (*states, *[rg.stack(kept[:: -1 if way else 1], axis) for kept, axis, way in zip(scanned, axes, ways)])


CONTROL: dict[str, Callable[..., Any]] = {"If": _if, "Loop": _loop, "Scan": _scan}
