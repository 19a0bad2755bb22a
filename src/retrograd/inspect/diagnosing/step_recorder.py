"""Record a training step in full: every call with its arrays, which rules read and probes use to repeat the calls."""

from __future__ import annotations

import gc
import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from weakref import ref

import numpy as np

from ...core.arrays.bfloat16 import wide
from ...core.arrays.devices import backend_of, is_array
from ...core.arrays.dtypes import FLOATING
from ...core.graph.modes import modes
from ...core.graph.nodes import Node
from ...core.graph.observers import detach
from ...core.graph.plan import Recordable
from ...core.source_location import Site, user_site
from ...core.tensor.tensor import Tensor, is_dense
from ..names import Names
from ..record import Departure, Record
from ..recorder import Recorder
from ..statistics import sample, statistics

if TYPE_CHECKING:
    from ...nn.base.module import Module

Array: TypeAlias = Any  # a NumPy or CuPy array
Inputs: TypeAlias = tuple[Array, ...]  # the inputs of a call, as observers get them
Params: TypeAlias = dict[str, Array]

# Operators, other than views and selections, whose result consists of elements of the first input.
_COPIES = frozenset({"cast", "contiguous", "clone", "transfer", "view_copy", "flip", "repeat", "repeat_interleave"})
SELECTIONS = frozenset({"getitem", "gather", "take_along_dim", "index_select", "take", "masked_select"})

_PRODUCTS = frozenset({"linear", "mm", "matmul", "convolution"})
_SYMMETRIC = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"})
LOGARITHMS = frozenset({"log", "log_softmax", "logsigmoid", "log1p"})
_LEAST_SCALE = 1024.0  # the least factor of a loss that counts as the scale of a GradScaler
_MOST_PARTS = 64  # the most items of a container that are searched for Tensors
_OLD = 50  # the number of steps after which a living graph without a backward pass counts as kept by mistake
_MOST_BYTES = 1 << 29  # the most bytes of arrays that a recorded step keeps


def moves(primitive: Recordable) -> bool:
    """Return whether an operator's result consists of elements of its first input, in another shape or dtype."""
    return primitive.view or primitive.name in _COPIES or primitive.name in SELECTIONS


class Source(NamedTuple):
    """Where an input of a call comes from: a call with the number of its output, a leaf, or a constant.

    ``value`` is the array of a constant. For a call's result that needs no gradient, ``value`` is the array when it is
    read, which includes earlier writes through views. ``cut`` is the first ``detach`` or similar operator on the way.
    """

    call: int
    output: int
    leaf: Tensor | None
    value: Array
    cut: Departure | None = None


def same_source(a: Source, b: Source) -> bool:
    """Return whether two inputs are the same value."""
    if a.call >= 0 or b.call >= 0:
        return a.call == b.call and a.output == b.output
    return a.leaf is b.leaf if a.leaf is not None else a.value is b.value and a.value is not None


def _without_value(source: Source) -> Source:
    """Return the source without the array of a call's result, so that the source does not keep the array alive."""
    return source if source.call < 0 or source.value is None else source._replace(value=None)


class Call:
    """A call of an operator: its record, the sources of its inputs, its parameters and the arrays that it returned."""

    __slots__ = ("index", "inplace", "inputs", "outputs", "params", "primitive", "record", "shapes")

    def __init__(
        self,
        index: int,
        record: Record,
        primitive: Recordable | None,
        inputs: tuple[Source, ...],
        params: Params,
        outputs: Inputs,
        shapes: tuple[tuple[int, ...], ...],
        inplace: bool,
    ) -> None:
        self.index = index
        self.record = record
        self.primitive = primitive
        self.inputs = inputs
        self.params = params
        self.outputs = outputs
        self.shapes = shapes
        self.inplace = inplace

    name = property(lambda self: self.record.operator)
    site = property(lambda self: self.record.site)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first output, known also after the step has freed the array."""
        shape: tuple[Any, ...] = self.record.shape
        return shape[0] if shape and isinstance(shape[0], tuple) else shape

    @property
    def moves(self) -> bool:
        """Whether the result consists of elements of the first input, in another shape or dtype."""
        return self.primitive is not None and moves(self.primitive)

    @property
    def elementwise(self) -> bool:
        """Whether each element of the result depends on one element of each input, as the operator declares."""
        return self.primitive is not None and self.primitive.elementwise

    @property
    def weighted(self) -> bool:
        """Whether the call multiplies by a trainable matrix or kernel; scales and embedding tables do not count.

        The weight may be computed from parameters, as in weight normalization or quantization.
        """
        if self.elementwise or self.moves or self.name in ("embedding", "cat", "stack"):
            return False
        trained = any(x.leaf is not None and x.leaf._requires and x.leaf.array.ndim >= 2 for x in self.inputs)
        products = self.record.inputs[:2] if self.name in _PRODUCTS else ()
        return trained or any(x.requires_grad and x.is_of_leaves for x in products)

    def needs(self, place: int) -> bool:
        """Return whether an input depends on parameters."""
        return place < len(self.record.inputs) and self.record.inputs[place].requires_grad

    @property
    def untracked(self) -> bool:
        """Whether the call is not recorded for differentiation only because of ``no_grad``."""
        needing = any(x.requires_grad for x in self.record.inputs)
        return needing and not self.record.grad_enabled and not self.record.requires_grad

    @property
    def cotangent(self) -> float | None:
        """The gradient of the loss with respect to a one-element output; None if several backward passes visited it."""
        g = self.record.gradients
        return None if g is None or g.size != 1 or self.record.passes > 1 else g.mean


@dataclass
class Opened:
    """A call of a module, in which the operator calls from index ``start`` to ``end`` ran."""

    module: Module
    path: str
    training: bool
    grad_enabled: bool
    depth: int
    site: Site
    inputs: tuple[Source, ...]
    shapes: tuple[tuple[int, ...], ...]
    start: int
    end: int = -1
    outputs: tuple[Source, ...] = ()
    failed: BaseException | None = None


@dataclass
class Root:
    """A backward pass: the loss from which it started, and the numbers of the optimizers that stepped after it."""

    source: Source
    value: float
    site: Site
    scale: float = 1.0
    after: int = 0  # the number of optimizer steps before the backward pass
    inside: bool = False  # whether a step ran the backward pass, in a closure
    returned: bool = False  # whether the pass was a call of ``autograd.grad``, which stores no gradients
    optimizers: set[int] = field(default_factory=set)
    stepped: dict[int, Site] = field(default_factory=dict)  # by optimizer number: the line that steps it


@dataclass
class Step:
    """A recorded training step, from the end of one optimizer step to the end of the next."""

    number: int
    calls: list[Call] = field(default_factory=list)
    modules: list[Opened] = field(default_factory=list)
    roots: list[Root] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)
    departures: list[Departure] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)
    models: list[tuple[Module, str]] = field(default_factory=list)  # models with parameters, and their variables' names
    # The keys of these dictionaries are ids of leaves.
    values: dict[int, Array] = field(default_factory=dict)  # values of trainable leaves when they were first read
    later: dict[int, Array] = field(default_factory=dict)  # values after an optimizer step within this step
    after: dict[int, Array] = field(default_factory=dict)  # values after the step of the counted optimizer
    left_by: dict[int, tuple[Array, int]] = field(default_factory=dict)  # gradients after the last backward pass
    used: dict[int, tuple[Array, int]] = field(default_factory=dict)  # gradients at the start of the optimizer step
    replaced: dict[int, Array] = field(default_factory=dict)  # the array that was assigned to ``data``
    read: dict[int, Array] = field(default_factory=dict)  # the array that was read last
    marks: dict[int, bytes] = field(default_factory=dict)  # first elements of parameters that require no gradient
    left: list[tuple[Departure, Tensor]] = field(default_factory=list)  # departures of leaves, and these leaves
    arrived: dict[int, bool] = field(default_factory=dict)  # whether the gradient has a nonzero element
    switched: dict[int, tuple[bool, Site]] = field(default_factory=dict)  # by module id: the last train() or eval()
    wanted: set[int] = field(default_factory=set)  # ids of the inputs of autograd.grad
    asked: list[Source] = field(default_factory=list)  # the outputs of autograd.grad
    unwalked: list[tuple[int, ref[Node]]] = field(default_factory=list)  # calls that no backward pass went through

    def drop_arrays(self) -> None:
        """Free the large arrays of the step, except those that rules compare across steps."""
        for call in self.calls:
            large = sum([x.nbytes for x in call.outputs]) > 1 << 16
            if large and call.name not in ("relu", "cross_entropy", "nll_loss"):
                call.outputs = ()
            if any(x.call >= 0 and x.value is not None for x in call.inputs):
                call.inputs = tuple(map(_without_value, call.inputs))

    def producer(self, source: Source) -> Call | None:
        """Return the call that computed a value."""
        return self.calls[source.call] if source.call >= 0 else None

    def array(self, source: Source) -> Array:
        """Return the array of a source as it was recorded."""
        if source.call >= 0:
            return self.calls[source.call].outputs[source.output]
        return source.value if source.leaf is None else source.leaf.array

    def numbers(self, source: Source) -> np.ndarray:
        """Return the array of a source, bfloat16 as float32."""
        return numbers(self.array(source))

    def below(self, source: Source, through_cuts: bool = False) -> set[int]:
        """Return the indices of the calls that a value depends on, without those behind cuts and constants."""
        found: set[int] = set()
        pending = [source]
        while pending:
            x = pending.pop()
            if x.call < 0 or x.call in found or x.cut and not through_cuts:
                continue
            call = self.calls[x.call]
            found.add(x.call)
            pending += [y for y in call.inputs if through_cuts or call.inplace or call.record.requires_grad]
        return found

    def leaves(self, source: Source, everything: bool = False) -> list[Tensor]:
        """Return the leaves that gradients of a value reach; with ``everything`` also frozen and cut-off leaves."""
        found: dict[int, Tensor] = {}
        for index in self.below(source, through_cuts=everything):
            for x in self.calls[index].inputs:
                if x.leaf is None:
                    continue
                reached = x.leaf._requires and not x.cut and self.calls[index].record.requires_grad
                if reached or everything and isinstance(x.leaf, Tensor) and x.leaf.array.dtype.kind in FLOATING:
                    found[id(x.leaf)] = x.leaf
        return list(found.values())

    def origin(self, source: Source, through: Collection[str] = ()) -> Source:
        """Follow a value back through operators that only move elements, and through operators named ``through``."""
        while source.call >= 0:
            call = self.calls[source.call]
            if not call.inputs or not call.moves and call.name not in through:
                break
            source = call.inputs[0]
        return source

    def readers(self, index: int) -> Iterator[Call]:
        """Yield the calls that read an output of a call."""
        for call in self.calls[index + 1 :]:
            if any(x.call == index for x in call.inputs):
                yield call

    def passed(self) -> list[Call]:
        """Return the calls that the backward passes go through, latest first."""
        found: set[int] = set()
        for root in self.roots:
            found |= self.below(root.source)
        return [self.calls[i] for i in sorted(found, reverse=True)]

    def following(self, call: Call) -> list[Call]:
        """Return the calls that read a value, also through operators that move elements, logarithms and clamps."""
        found: list[Call] = []
        pending = [call]
        while pending:
            for reader in self.readers(pending.pop().index):
                if reader.moves or reader.name in LOGARITHMS or reader.name in ("clamp", "exp"):
                    pending.append(reader)
                found.append(reader)
        return found

    def assigned(self, p: Tensor) -> Call | None:
        """Return the call whose result the program assigned to a leaf by ``p.data = result``, without its graph."""
        values = self.values.get(id(p))
        for call in self.calls:
            x = call.outputs[0] if call.outputs and call.record.requires_grad and not call.inplace else None
            if x is None or values is None or x.shape != values.shape or x.dtype != values.dtype:
                continue
            equal = all(y.leaf is not p for y in call.inputs) and bool((x == values).all())
            if equal and next(self.readers(call.index), None) is None:
                return call
        return None

    def outermost(self) -> list[Opened]:
        """Return the calls of modules that are not inside a call of another module."""
        return [x for x in self.modules if x.depth == 0]

    def module_of(self, call: Call) -> Opened | None:
        """Return the innermost module call that ran an operator."""
        inside = [x for x in self.modules if x.start <= call.index < x.end]
        return max(inside, key=lambda x: x.depth) if inside else None

    def name(self, x: Tensor) -> str:
        """Return the name of a leaf, or a description."""
        known = self.names.get(id(x))
        if known:
            return known
        for entry in self.modules:
            for name, p in entry.module._parameters.items():
                if p is x:
                    return f"{entry.path or type(entry.module).__name__}.{name}"
        return f"a tensor of shape {tuple(x.shape)}"


def tensors_in(value: object, depth: int = 4) -> list[Tensor]:
    """Return the Tensors of a module's arguments or result: also those in sequences, dictionaries and plain objects."""
    if isinstance(value, Tensor):
        return [value] if is_dense(value) else []
    if not depth or value is None or isinstance(value, (str, int, float, np.ndarray, type)) or callable(value):
        return []
    if isinstance(value, dict):
        parts: Iterable[object] = value.values()
    elif isinstance(value, (list, tuple)):
        parts = value
    else:
        parts = getattr(value, "__dict__", {}).values()
    return [x for part in list(parts)[:_MOST_PARTS] for x in tensors_in(part, depth - 1)]


class StepRecorder(Recorder):
    """Records one step. It refers to leaves and arrays, and to no tensor that has a history."""

    accounts = True

    def __init__(self, number: int, names: Names | None = None) -> None:
        super().__init__()
        if names is not None:
            self.names = names
        self.step = Step(number)
        self._made: dict[int, tuple[ref[Tensor], Source]] = {}
        self._open: list[Opened] = []
        self._bytes = 0
        self._graph = False  # whether any call was recorded for differentiation
        self._used: set[int] = set()  # ids of the leaves that a call recorded for differentiation has read
        self.done = False

    def source_of(self, x: Array) -> Source:
        """Return the source of an input."""
        if not isinstance(x, Tensor):
            return Source(-1, 0, None, x)
        found = self._made.get(id(x))
        if found is not None and found[0]() is x and not (x._node is None and x._requires):
            return found[1] if x._requires or self._bytes >= _MOST_BYTES else found[1]._replace(value=x.array)
        if x._node is None and x._requires:
            if id(x) not in self.step.values:
                self.step.names[id(x)] = self.names.of(x)
            if id(x) not in self._used and self.step.read.get(id(x)) is not x.array:
                if id(x) in self.step.read:  # the program has assigned to ``x.data``
                    self.step.replaced[id(x)] = x.array
                self.step.values[id(x)], self.step.read[id(x)] = x.array.copy(), x.array
            return Source(-1, 0, x, None)
        leaf = x if type(x) is not Tensor and x._node is None else None
        if leaf is not None and id(x) not in self.step.marks:
            self.step.marks[id(x)] = mark(x.array)
        return Source(-1, 0, leaf, x.array)

    def calling(self, primitive: Recordable, inputs: Inputs, params: Params) -> None:
        if self.done:  # the end of a block that was entered earlier has attached this recorder again
            detach(self)
        else:
            super().calling(primitive, inputs, params)

    def ran(
        self, record: Record, primitive: Recordable | None, inputs: Inputs, params: Params, outputs: tuple[Tensor, ...]
    ) -> None:
        if record.phase == "backward":
            return
        calls = self.step.calls
        sources = tuple([self.source_of(x) for x in inputs])
        if record.requires_grad:
            self._used.update([id(x.leaf) for x in sources if x.leaf is not None])
        shapes = tuple([tuple(x.shape) if is_dense(x) or is_array(x) else () for x in inputs])
        if record.operator in _SYMMETRIC and not record.inputs[0].requires_grad and record.inputs[1].requires_grad:
            # The program passed the target first: exchange target and prediction.
            record.inputs = record.inputs[1::-1] + record.inputs[2:]
            sources, shapes = sources[1::-1] + sources[2:], shapes[1::-1] + shapes[2:]
        inplace = bool(inputs and outputs and inputs[0] is outputs[0])
        index = len(calls)
        self._bytes += sum([x.array.nbytes for x in outputs])
        kept = outputs if self._bytes < _MOST_BYTES else ()
        arrays = tuple([x.array.copy() if inplace else x.array for x in kept])
        self._graph = self._graph or record.requires_grad
        if inplace and not self._graph and sources[0].leaf is not None and id(sources[0].leaf) in self.step.values:
            self.step.values[id(sources[0].leaf)] = sources[0].leaf.array.copy()  # updated before the forward
        calls.append(Call(index, record, primitive, sources, params, arrays, shapes, inplace))
        node = outputs[0]._node if outputs and record.requires_grad and not inplace else None
        if isinstance(node, Node):
            self.step.unwalked.append((index, ref(node)))
        for number, x in enumerate(outputs):
            self._made[id(x)] = ref(x), Source(index, number, None, None)

    def record_statistics(self, record: Record, array: Array, gradient: bool) -> None:
        """Record statistics of an operator's output or its gradient; four correct digits suffice for texts."""
        found = statistics(array, exact=False)
        if gradient:  # pool the gradients of all backward passes through the operator
            record.gradients = found if record.gradients is None else record.gradients.pooled(found)
        else:
            record.values = found
        record.samples[gradient] = sample(array)

    def record_use(self, leaf: Tensor, node: Node, gradient: object) -> None:
        """Record nothing: no rule reads which operator sent a gradient to a leaf."""

    def record_leaf(self, leaf: Tensor, gradient: Array) -> None:
        """Record whether the gradient is zero everywhere; norms are measured at the optimizer's step."""
        arrived = self.step.arrived
        arrived[id(leaf)] = arrived.get(id(leaf), False) or bool(gradient.any())

    def departed(self, x: Tensor, how: str, result: Tensor | None) -> None:
        super().departed(x, how, result)
        if x._node is None and x._requires:
            self.step.left.append((self.departures[-1], x))
        if result is not None:
            source = self.source_of(x)
            self._made[id(result)] = ref(result), source._replace(cut=source.cut or self.departures[-1])

    def became(self, x: Tensor, other: Tensor) -> None:
        super().became(x, other)
        self._made[id(x)] = ref(x), self.source_of(other)

    def opened(self, what: object, inputs: Inputs) -> None:
        if self.done:
            detach(self)
            return
        super().opened(what, inputs)
        if isinstance(what, str):
            return
        module: Array = what
        tensors = tensors_in(inputs)
        entry = Opened(
            module,
            self.names.path,
            module.training,
            modes.grad_enabled,
            len(self._open),
            user_site(3),
            tuple([_without_value(self.source_of(x)) for x in tensors]),
            tuple([tuple(x.shape) for x in tensors]),
            len(self.step.calls),
        )
        self._open.append(entry)
        self.step.modules.append(entry)

    def closed(self, what: object, inputs: Inputs, result: Array) -> None:
        super().closed(what, inputs, result)
        if isinstance(what, str) or not self._open:
            return
        entry = self._open.pop()
        entry.end = len(self.step.calls)
        if isinstance(result, BaseException):
            entry.failed = result
            return
        entry.outputs = tuple([_without_value(self.source_of(x)) for x in tensors_in(result)])

    def root(
        self, x: Tensor, value: float, site: Site, scale: float, after: int, inside: bool, returned: bool = False
    ) -> None:
        """Record that a backward pass begins at ``x``."""
        self.step.roots.append(Root(self.source_of(x), value, site, scale, after, inside, returned))

    def finish(self) -> Step:
        """Complete and return the step."""
        self.done = True
        step = self.step
        step.records, step.departures = self.records, self.departures
        walked = {call.index for call in step.passed()}
        step.unwalked = [x for x in step.unwalked if x[0] not in walked and x[1]() is not None]
        leaves = {id(x.leaf): x.leaf for call in step.calls for x in call.inputs if x.leaf is not None}
        step.names.update({key: name for key in step.names if key in leaves and (name := self.names.full(leaves[key]))})
        step.models = [(root, x.variable) for x in self.names.models.values() if (root := x.root()) is not None]
        for entry in self._open:
            entry.end = len(step.calls)
        self._made.clear()
        return step


def kept_call(steps: Iterable[Step], count: int) -> Call | None:
    """Return the last call of a graph that stays alive for many steps without a backward pass, if there are several."""
    found: list[Call] = []
    for step in steps:
        alive = [index for index, node in step.unwalked if node() is not None] if step.number + _OLD <= count else []
        found += [step.calls[alive[-1]]] if alive else []
    sites = [x.site for x in found]
    return next((x for x in reversed(found) if sites.count(x.site) > 1), None)


def scale_of(x: Tensor) -> float:
    """Return the power of two by which a GradScaler has multiplied a loss, else 1."""
    node = x._node
    if isinstance(node, Node) and node.plan.primitive.name == "mul" and isinstance(node.saved, tuple):
        for value in node.saved:
            number = value if isinstance(value, (int, float)) else 0.0
            if getattr(value, "size", 0) == 1 and getattr(value, "ndim", 1) == 0:
                number = float(backend_of(value).to_numpy(value))
            if number >= _LEAST_SCALE and math.frexp(number)[0] == 0.5:
                return number
    return 1.0


def first_parents(node: Node, depth: int) -> list[Node]:
    """Return a node, the node of its first input that has one, and so on, up to ``depth`` steps."""
    found = [node]
    while len(found) <= depth:
        for parent in found[-1].parents:
            if type(parent) is Node:
                found.append(parent)
                break
        else:
            break
    return found


def has_reader(node: Node) -> bool:
    """Whether another node refers to this node, as in a sum of losses; only a Tensor refers to a step's own loss."""
    return any(type(x) is tuple or type(x) is Node for x in gc.get_referrers(node))


def beginning(p: Tensor) -> bytes | None:
    """Return the bytes of a gradient's first elements, to detect changes; None without a gradient."""
    grad = p._grad
    return None if grad is None else mark(grad.array)


def mark(array: Array) -> bytes:
    """Return the bytes of an array's first elements, to detect changes."""
    return bytes(_to_numpy(array.reshape(-1)[:64]).tobytes())


def start_of(array: Array) -> int:
    """Return the address of an array's memory, or the ``id`` of an array that is not NumPy's."""
    interface = getattr(array, "__array_interface__", None)
    return int(interface["data"][0]) if interface else id(array)


def numbers(array: Array) -> np.ndarray:
    """Return an array with bfloat16 as float32: NumPy would compute its mean and standard deviation in bfloat16."""
    found: np.ndarray = np.asarray(wide(array))
    return found


def has_gradient(p: Tensor) -> bool:
    """Return whether a parameter has a gradient that is not zero everywhere."""
    grad = p._grad
    if grad is None:
        return False
    array = grad.array
    return type(array) is np.ndarray and array.size > 0 and array.item(0) != 0 or bool(array.any())


def has_nonzero(array: Array) -> bool:
    """Return whether an element is not zero; checking the first element of a NumPy array alone is fast."""
    return type(array) is np.ndarray and array.size > 0 and array.item(0) != 0 or bool(array.any())


def smallest_with_gradient(parameters: Iterable[Tensor]) -> Tensor | None:
    """Return the parameter with the fewest elements among those that have a gradient."""
    return min(filter(has_gradient, parameters), key=lambda p: int(p.array.size), default=None)


def _to_numpy(array: Array) -> Array:
    return backend_of(array).to_numpy(array)


def number_of(x: Tensor) -> float:
    """Return a loss as a number; several elements are summed."""
    array = x.array
    if array.size == 1 and array.dtype.kind in FLOATING:
        return float(array.item())
    array = _to_numpy(array)
    return float(abs(array.sum()) if array.dtype.kind == "c" else array.sum())
