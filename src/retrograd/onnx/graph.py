"""A graph of the file as steps that are run in order, with the graphs inside ``If``, ``Loop`` and ``Scan``."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import _generated
from ..core.tensor.tensor import Tensor
from . import operators  # noqa: F401  they enter themselves in the table
from .table import OPERATORS, SETTINGS, Attributes, array_of, constant

rg = _generated.toplevel

MOST_TURNS = 1 << 16  # of all loops of a call: the file may hold one that does not end
TURNS = ""  # among the values of a call, where no name of a file is: the turns that its loops have made
MOST_NODES = 1 << 18  # of a graph, with those of the functions that it calls
DEEPEST = 100  # functions in each other
Scope = ChainMap[str, Any]
Enter = Callable[[str, np.ndarray, bool], str]


class UnsupportedError(RuntimeError):
    """The file has operators or dtypes that are not computed here, or that cannot be written."""


@dataclass(frozen=True, slots=True)
class Step:
    """A node: what it computes, the names that it reads and gives, and those that nobody reads after it."""

    at: Attributes
    function: Callable[..., Any]
    inputs: list[str]
    outputs: list[str]
    last: tuple[str, ...]
    bodies: dict[str, Graph]


class Graph:
    """The steps of a graph, and the numbers that stand in it.

    Args:
        proto: ONNX's GraphProto.
        version: of the operators.
        dtypes: what is computed with in place of dtypes of the file, filled by ``module.double()``.
        enter: takes a name, an array and whether it is trained, and gives the name under which ``values`` has it.
        where: a path of the graphs that this one stands in, for names.
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
        """The names that it reads from the graphs around it."""
        made = {name for step in self.steps for name in step.outputs} | set(self.inputs) | set(self.constants)
        return self._needed - made

    def run(self, values: dict[str, Any], around: Scope, inputs: list[Any]) -> list[Any]:
        """The outputs for these inputs, with the numbers that ``values`` has now."""
        here: dict[str, Any] = dict(zip(self.inputs, inputs, strict=True))
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
            except Exception as error:  # the file may give a node any inputs and attributes
                plain = type(error) in _PLAIN
                text = _located(step, str(error) if plain else f"{type(error).__name__}: {error}")
                raise (type(error) if plain else RuntimeError)(text) from error
            results = result if isinstance(result, tuple) else (result,)
            if any(step.outputs[len(results) :]):
                raise RuntimeError(_located(step, f"gives {len(results)} outputs, not {len(step.outputs)}"))
            here.update(zip(step.outputs, results, strict=False))
            for name in step.last:
                here.pop(name, None)
        return [scope[name] for name in self.outputs]


_PLAIN = (ValueError, RuntimeError, TypeError, IndexError)


def _located(step: Step, text: str) -> str:
    return text if text.startswith("node ") else f"node {step.at.name or step.outputs[0]!r} ({step.at.type}): {text}"


def check_functions(model: Any) -> None:
    """Refuse functions that call themselves, or that make too many nodes when each call is replaced by its nodes.

    Raises:
        ValueError: a function calls itself.
        UnsupportedError: there would be too many nodes, or functions in too many others.
    """
    functions = {(f.domain, f.name, f.overload): f for f in model.functions}
    sizes: dict[tuple[str, str, str], tuple[int, int]] = {}  # nodes and depth, (0, 0) while it is being counted

    def size(nodes: Iterator[Any], depth: int) -> tuple[int, int]:
        if depth > DEEPEST:
            raise UnsupportedError(f"functions stand in more than {DEEPEST} others")
        total, deepest = 0, 0
        for node in nodes:
            key = node.domain, node.op_type, node.overload
            if key not in functions:
                total += 1
                continue
            if key not in sizes:
                sizes[key] = 0, 0
                sizes[key] = size(nodes_of(functions[key]), depth + 1)
            elif not sizes[key][1]:
                raise ValueError(f"the function {node.op_type!r} calls itself")
            total, deepest = total + sizes[key][0], max(deepest, sizes[key][1])
            if total > MOST_NODES:
                raise UnsupportedError(f"the functions make more than {MOST_NODES} nodes")
        if deepest >= DEEPEST:
            raise UnsupportedError(f"functions stand in more than {DEEPEST} others")
        return total, deepest + 1

    size(nodes_of(model.graph), 0)


def check_names(proto: Any, around: frozenset[str] = frozenset()) -> None:
    """Refuse a graph in which something is read before it is given, as in a circle.

    Raises:
        ValueError: a node has no output, or it or the graph reads a name that nothing before gives.
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
                raise ValueError(f"{what} reads {name!r}, which nothing before it gives")
        for attribute in node.attribute:
            if attribute.type == 5:
                check_names(attribute.g, frozenset(known))
        known.update(name for name in node.output if name)
    for value in proto.output:
        if value.name not in known:
            raise ValueError(f"the graph's output {value.name!r} is given by no node")


def nodes_of(proto: Any) -> Iterator[Any]:
    """All nodes of a graph and of those inside it."""
    for node in proto.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == 5:
                yield from nodes_of(attribute.g)


def _settings(proto: Any) -> set[str]:
    """The names that nodes read as settings, which are no weights."""
    return {
        name
        for node in nodes_of(proto)
        for place, name in enumerate(node.input)
        if place in SETTINGS.get(node.op_type, ())
    }


def _large_constant(node: Any) -> np.ndarray | None:
    """The array of a node that holds floating numbers: a weight, if it has more than one."""
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
    turns = values[TURNS]
    while on and (limit is None or count < limit):
        turns[0] += 1
        if turns[0] > MOST_TURNS:
            raise RuntimeError(f"the call has made {MOST_TURNS} turns of loops, and goes on; no more are made")
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
