"""Checkpointing: free the values that a function saves for the backward pass, and recompute them when they are needed.

The function is recorded as usual, so every derivative works as without a checkpoint. Then its nodes free their saved
values (``Released`` in core/graph/nodes.py). The first node whose values a backward pass needs runs the function a
second time, and each node takes the saved values of its counterpart in the second run (Chen et al. 2016, *Training
deep nets with sublinear memory cost*).

With early stop, observers number the nodes that both runs record. A node's counterpart is the node with the same
number, and an exception ends the second run after the last node that saved a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from typing import Any
from weakref import ref

import numpy as np

from ..core.arrays.devices import Wrapping
from ..core.errors import describe
from ..core.graph.call_node import attach, saved_of
from ..core.graph.modes import enable_grad, modes, on_level, surroundings
from ..core.graph.nodes import NOTHING, Node, edge_of, new_node, next_sequence, reachable, saved_by
from ..core.graph.observers import Observer, observing
from ..core.graph.plan import Inputs, Params, Recordable
from ..core.tensor.storage import Storage, Token, storage_of
from ..core.tensor.tensor import Tensor, is_dense
from ..func.modules import substituted, substitutions
from ..func.nests import flatten
from ..ops.make.generators import get_rng_state, set_rng_state
from .context import Context

# The value set by ``set_checkpoint_early_stop``, which overrides the argument ``early_stop``.
EARLY_STOP: ContextVar[bool | None] = ContextVar("EARLY_STOP", default=None)


def checkpoint(
    function: Callable[..., object],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] | None = None,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """Return ``function(*args, **kwargs)`` without saving intermediate values; the backward pass recomputes them.

    Gradients reach the arguments, parameters, and all other Tensors that the function reads, in reverse and forward
    mode and in every order. Both runs use the same random numbers; writes to arguments take effect once. The function
    must compute the same in both runs. It can run under ``functional_call``.

    Args:
        function: returns a nest of Tensors and other values.
        args, kwargs: its arguments: nests of Tensors and other values.
        use_reentrant: accepted for compatibility; both values behave as False does in PyTorch.
        context_fn: returns two context managers, for the first and the second run.
        determinism_check: ``"none"`` disables the comparison of shapes and dtypes between the runs.
        debug: accepted for compatibility; the error always names the difference.
        early_stop: end the second run as soon as all needed values are computed, so that later side effects of the
            function happen once. With False, both runs may differ in operators that the result does not depend on.
        preserve_rng_state: use the same random numbers in the second run.

    Returns:
        The result of ``function``.

    Raises:
        RuntimeError: by the backward pass, if the second run differs from the first, or if a leaf that the function
            reads was changed in place between the runs.
        ValueError: ``determinism_check`` is neither ``"default"`` nor ``"none"``.

    >>> import retrograd as rg
    >>> from retrograd.utils.checkpoint import checkpoint
    >>> x = rg.tensor([1.0, 2.0], requires_grad=True)
    >>> checkpoint(lambda x: (x**2).exp(), x).sum().backward()
    >>> x.grad
    tensor([  5.4366, 218.3926])
    """
    if determinism_check not in ("default", "none"):
        raise ValueError(f"checkpoint: determinism_check must be 'default' or 'none', got {determinism_check!r}")
    return run(function, args, kwargs, preserve_rng_state, context_fn, determinism_check == "default", early_stop)


def run(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    preserve_rng_state: bool = True,
    context_fn: Callable[[], tuple[Any, Any]] | None = None,
    check: bool = True,
    early_stop: bool = True,
) -> Any:
    """Implement ``checkpoint``, with the function's keyword arguments in a dict."""
    if not modes.grad_enabled:
        return function(*args, **kwargs)
    first, second = (nullcontext(), None) if context_fn is None else context_fn()
    part = Part(function, args, kwargs, preserve_rng_state, second, check)
    enforced = EARLY_STOP.get()
    # No early stop under vmap, which records on several layers, or compile, which removes unused values itself.
    stops = (early_stop if enforced is None else enforced) and modes.level is None and modes.tracer is None
    numbering = _Numbering() if stops else None
    with (
        first,
        nullcontext() if part.twice is None else part.twice.first(),
        nullcontext() if numbering is None else observing(numbering),
    ):
        result = function(*args, **kwargs)
    part.release(result, numbering)
    return result


class _Numbering(Observer):
    """Numbers the nodes that a first run records, by their sequence numbers."""

    counts = late = True

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}

    def recorded(self, node: Node) -> None:
        self.numbers[node.sequence] = len(self.numbers)


class _Complete(BaseException):
    """Ends a second run. Not an Exception, so that ``except Exception`` in the function does not catch it."""


class _Stop(Observer):
    """Collects the nodes that a second run records, and ends the run at the node described by ``last``."""

    counts = True

    def __init__(self, count: int, last: tuple[object, ...]) -> None:
        self.count = count
        self.late = count > 1  # False from the last node on, since ``late`` observers do not get ``answering``
        self.primitive, self.shape, self.dtype = last[:3]
        self.nodes: list[Node] = []

    def recorded(self, node: Node) -> None:
        self.nodes.append(node)
        self.late = len(self.nodes) < self.count - 1

    def answering(
        self, primitive: Recordable, inputs: Inputs, arrays: Inputs, params: Params, forward: Callable[..., object]
    ) -> Callable[..., Any]:
        """Record the last node without computing a result that it does not save."""
        if primitive is not self.primitive or not modes.grad_enabled or modes.level is not None:
            return forward
        parents = tuple([edge_of(x) if isinstance(x, Tensor) else None for x in inputs])
        if len(self.nodes) != self.count - 1 or not any(parent is not None for parent in parents):
            return forward
        plan = primitive.plan(tuple([parent is not None for parent in parents]))
        if plan.keep_ans or plan.kept_residuals:
            return forward
        new_node(plan, parents, saved_of(plan, inputs, arrays, params, (), None, ()), self.shape, self.dtype)
        raise _Complete

    def called(
        self, primitive: Recordable, inputs: Inputs, params: Params, outputs: tuple[Tensor, ...], node: Node | None
    ) -> None:
        if len(self.nodes) >= self.count:
            raise _Complete


_SMALL = (int, float, complex, str, slice, type(None), type(Ellipsis), np.generic, np.dtype, type)


def _is_small(saved: object) -> bool:
    """Return whether a saved value has no array in it: a number, a shape, an index of slices, or a tuple of these."""
    return isinstance(saved, _SMALL) or isinstance(saved, tuple) and all(map(_is_small, saved))


class Part:
    """A checkpointed call, which can run again and replaces the saved values of its nodes."""

    def __init__(
        self,
        function: Callable[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, Any],
        preserve_rng_state: bool,
        context: Any,
        check: bool,
    ) -> None:
        self.function = function
        leaves, self.structure = flatten((args, kwargs))
        # Refer to arrays and edges, since the Tensors may be written before the second run. As each Storage has another
        # reference, such a write goes to a copy of the array.
        self.leaves = [
            (x.array, edge_of(x), storage_of(x)) if is_dense(x) else (x,) for x in leaves
        ]  # fmt: skip
        self.state = get_rng_state() if preserve_rng_state else None
        self.twice = modes.tracer.runs_twice() if preserve_rng_state and modes.tracer is not None else None
        self.context = context
        self.check = check
        self.substitutions = substitutions()
        self.surroundings = [found() for found in surroundings]
        self.level = modes.level
        self.began = next_sequence()
        self.nodes: list[list[ref[Node]]] = []
        self.numbers: list[int] | None = None  # the numbers of ``nodes``, if the second run may stop early
        self.facts: list[tuple[object, ...]] = []
        self.read: list[tuple[Tensor, int, Any]] = []

    def release(self, result: Tensor, numbering: _Numbering | None = None) -> None:
        """Free the saved values of the nodes below the result."""
        nodes = self._recorded(result, self.began)
        if numbering is not None:
            # Drop nodes without a number, and nodes after the last one that saved an array.
            nodes = [node for node in nodes if node.sequence in numbering.numbers]
            first = next((index for index, node in enumerate(nodes) if not _is_small(node.saved)), len(nodes))
            nodes = nodes[first:]
            self.numbers = [numbering.numbers[node.sequence] for node in nodes]
        self.facts = _facts(nodes)
        self.nodes = [[ref(node)] for node in nodes]
        leaves = {id(x): x for node in nodes for x in node.parents if isinstance(x, Tensor)}
        self.read = [(x, x._version, x.array) for x in leaves.values()]
        for node in nodes:
            if node.saved is not NOTHING and (numbering is None or not _is_small(node.saved)):
                node.saved = self
        for observer in modes.observers:
            observer.released(nodes)

    def arrays(self) -> list[Any]:
        """Return the argument arrays that are kept in memory for the second run."""
        return [leaf[0] for leaf in self.leaves if len(leaf) > 1]

    @staticmethod
    def _recorded(result: Any, began: int) -> list[Node]:
        """Return the nodes below the result with sequence number ``began`` or later, on all layers of ``vmap``."""
        edges = []
        for y in flatten(result)[0]:
            while is_dense(y):
                edges.append(edge_of(y))
                y = getattr(y.array, "value", None) if isinstance(y.array, Wrapping) else None
        return reachable((edge for edge in edges if type(edge) is Node and edge.sequence >= began), began)[0]

    def restore(self) -> None:
        """Run the function again, and give each node the saved values of its counterpart."""
        for x, version, array in self.read:
            if x._version != version or x.array is not array:
                raise RuntimeError(
                    f"checkpoint: {describe(x)}, a leaf that {_name_of(self.function)} reads, was changed in place "
                    "after the first run, so the second run would give wrong gradients; change the leaf after backward"
                )
        nodes = self._run_again()
        facts = _facts(nodes)
        if len(facts) != len(self.facts):
            raise RuntimeError(
                f"checkpoint: {_name_of(self.function)} recorded {len(self.facts)} operators in the first run and "
                f"{len(facts)} in the second; both runs must be the same{self._hint()}"
            )
        for before, now in zip(self.facts, facts, strict=True) if facts != self.facts else ():
            same = _same(before, now) if self.check else before[0] is now[0]
            if not same:
                raise RuntimeError(
                    f"checkpoint: both runs of {_name_of(self.function)} must be the same: {_described(before)} in the "
                    f"first run, {_described(now)} in the second{self._hint()}"
                )
        pairs = [
            (node, new)
            for places, new in zip(self.nodes, nodes, strict=True)
            for node in [place() for place in places]
            if node is not None and node.saved is self
        ]
        counterparts = {new: node for node, new in pairs}
        for node, new in pairs:
            self._take_saved_values(node, new, counterparts)

    def _hint(self) -> str:
        if self.numbers is None:
            return ""
        return "; if the result does not depend on the difference, pass early_stop=False"

    @staticmethod
    def _take_saved_values(node: Node, new: Node, counterparts: dict[Node, Node]) -> None:
        if not isinstance(new.saved, Part):
            saved_by(new)  # a memory budget may have freed some of the values again
        node.saved = new.saved
        if isinstance(new.saved, Part):  # a checkpoint inside this one
            for places in new.saved.nodes:
                if places[0]() is new:
                    places.append(ref(node))
        elif type(new.saved) is tuple:
            for value in new.saved:
                if isinstance(value, Context):
                    value.move(node, counterparts)

    def _run_again(self) -> list[Node]:
        leaves = [leaf[0] if len(leaf) == 1 else attach(*leaf) for leaf in self.leaves]
        args, kwargs = self.structure.unflatten(leaves)
        began = next_sequence()
        stop = None if self.numbers is None else _Stop(self.numbers[0] + 1, self.facts[0])
        result = None
        with (
            suppress(_Complete),
            ExitStack() as stack,
            self._same_random_numbers(),
            on_level(self.level),
            enable_grad(),
            substituted(self.substitutions),
            self.context or nullcontext(),
        ):
            for surrounding in self.surroundings:
                stack.enter_context(surrounding())
            with nullcontext() if stop is None else observing(stop):
                result = self.function(*args, **kwargs)
        if stop is None:
            return self._recorded(result, began)
        return [stop.nodes[number] for number in self.numbers or () if number < len(stop.nodes)]

    @contextmanager
    def _same_random_numbers(self) -> Iterator[None]:
        """With ``preserve_rng_state``, use the random numbers of the first run inside, and restore the state after."""
        if self.twice is not None and modes.tracer is self.twice.tracer:
            with self.twice.second():
                yield
            return
        if self.state is None:
            yield
            return
        found = get_rng_state()
        set_rng_state(self.state)
        try:
            yield
        finally:
            set_rng_state(found)


def _facts(nodes: list[Node]) -> list[tuple[Any, ...]]:
    """Return what must be equal in both runs: per node the primitive, shape, dtype, numbers, origin of inputs."""
    places = {node: index for index, node in enumerate(nodes)}
    return [
        (
            node.plan.primitive,
            node.shape,
            node.dtype,
            _numbers(node.saved or None),
            *[parent if parent is None else places.get(parent, id(parent)) for parent in node.parents],
        )
        for node in nodes
    ]


_OTHERS = frozenset((np.ndarray, Token, Storage, type(None)))  # the types of most values that nodes save


def _numbers(value: object) -> object:
    """Return the Python numbers and texts among the values that a node saved, with None for all other values."""
    if type(value) is tuple:
        return tuple([None if type(item) in _OTHERS else _numbers(item) for item in value])
    if type(value) is slice:
        return (_numbers(value.start), _numbers(value.stop), _numbers(value.step))
    if type(value) not in (int, float, complex, bool, str):
        return None
    return value if value == value else "nan"


def _same(before: tuple[object, ...], now: tuple[object, ...]) -> bool:
    return before[:3] == now[:3] and before[4:] == now[4:] and _agree(before[3], now[3])


def _agree(before: object, now: object) -> bool:
    """Return whether the numbers that two nodes saved are equal; None, for any other value, agrees with all values."""
    if before is None or now is None:
        return True
    if type(before) is tuple and type(now) is tuple:
        return len(before) == len(now) and all(map(_agree, before, now))
    return before == now


def _described(fact: tuple[Any, ...]) -> str:
    primitive, shape, dtype, numbers, *parents = fact
    given = [number for number in numbers if number is not None] if numbers else []
    with_numbers = f" and the numbers {', '.join(map(str, given))}" if given else ""
    return f"{primitive.name} with a result of {dtype}{shape} and {len(parents)} inputs{with_numbers}"


def _name_of(function: Any) -> str:
    return getattr(function, "__qualname__", type(function).__name__)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Apply a chain of functions or modules in segments, each but the last one a ``checkpoint``.

    Args:
        functions: a Sequential, or a sequence of functions of one argument.
        segments: the number of segments.
        input: the argument of the first function.
        use_reentrant, kwargs: as for ``checkpoint``.

    Raises:
        ValueError: there are fewer functions than segments.

    >>> import retrograd as rg
    >>> from retrograd.utils.checkpoint import checkpoint_sequential
    >>> model = rg.nn.Sequential(rg.nn.Linear(2, 2), rg.nn.Tanh(), rg.nn.Linear(2, 1))
    >>> checkpoint_sequential(model, 2, rg.ones(1, 2)).shape == (1, 1)
    True
    """
    chain = list(functions.children()) if hasattr(functions, "children") else list(functions)
    if not 1 <= segments <= max(1, len(chain)):
        raise ValueError(f"checkpoint_sequential: segments must be from 1 to {len(chain)}, got {segments}")

    def part(start: int, end: int) -> Callable[[Tensor], Tensor]:
        def run_segment(x: Tensor) -> Tensor:
            for function in chain[start:end]:
                x = function(x)
            return x

        return run_segment

    size = len(chain) // segments
    end = 0
    for start in range(0, size * (segments - 1), size):
        end = start + size
        input = checkpoint(part(start, end), input, use_reentrant=use_reentrant, **kwargs)
    return part(end, len(chain))(input)
