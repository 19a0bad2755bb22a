"""The graph of recorded operators and the backward walk over it.

A ``Node`` is one recorded call. Its ``parents`` are, per input, the node that made it, the leaf Tensor itself, or None
where no gradient is wanted. Nodes carry a sequence number taken when they were made; since inputs exist before
outputs, descending order of these numbers is a topological order and the walk needs no recursion.

Cotangents follow the transpose convention (for complex numbers the conjugate of PyTorch's gradient), which keeps the
rules free of conjugates; the walk conjugates where gradients meet the user.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from operator import attrgetter
from sys import getrefcount
from typing import TYPE_CHECKING, Any

from .devices import array_module, backend_of, is_array
from .dtypes import is_differentiable
from .errors import describe
from .modes import modes, set_grad_enabled, watchers
from .quiet import silent
from .storage import LOCAL_ONLY, is_saved, overlaps_itself, storage_of, unshare
from .summation import accurate_sum

if TYPE_CHECKING:
    from .primitive import Plan
    from .tensor import Tensor

next_sequence = count().__next__

NOTHING: tuple[Any, ...] = ()

# What a rule is called with besides the cotangent, where that is not one saved value (see ``Plan``).
ALONE, WHOLE = -1, -2


class Node:
    """One recorded call of a primitive.

    ``shape`` and ``dtype`` are the output's; for several outputs, tuples of them. ``saved`` holds what the rules read,
    laid out as the primitive says, and is None once the walk has freed it.
    """

    __slots__ = ("__weakref__", "dtype", "hooks", "parents", "plan", "saved", "sequence", "shape", "site")

    plan: Plan
    parents: tuple[Any, ...]
    saved: tuple[Any, ...] | None
    sequence: int
    shape: Any
    dtype: Any
    hooks: dict[int, Callable[[Tensor], Tensor | None]] | None
    site: Any

    def __repr__(self) -> str:
        return f"<{self.name} node {self.sequence}>"

    @property
    def name(self) -> str:
        """The operator's name."""
        return self.plan.primitive.name

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The nodes (or leaf Tensors) this one's inputs came from, as PyTorch shows them."""
        return tuple((parent, 0) for parent in self.parents)


def new_node(plan: Plan, parents: tuple[Any, ...], saved: tuple[Any, ...], shape: Any, dtype: Any) -> Node:
    node = Node()
    node.plan = plan
    node.parents = parents
    node.saved = saved
    node.shape = shape
    node.dtype = dtype
    node.hooks = None
    node.sequence = next_sequence()
    node.site = None
    if watchers and modes.anomaly is not None:
        modes.anomaly.recorded(node)
    return node


def edge_of(x: Tensor) -> Any:
    """What a recorded call keeps of an input: its node, the leaf Tensor itself, or None where it needs no gradient."""
    if not x._requires:
        return None
    return x if x._node is None else x._node


def unbroadcast(g: Any, shape: tuple[int, ...]) -> Any:
    """Sum ``g`` over the axes along which an input of the given shape was broadcast."""
    extra = len(g.shape) - len(shape)
    axes = tuple(range(extra)) + tuple(
        axis + extra for axis, length in enumerate(shape) if length == 1 and g.shape[axis + extra] != 1
    )
    if axes:
        g = g.sum(axis=axes, keepdims=True) if isinstance(g, _Tensor) else accurate_sum(g, axes, True)
    return g.reshape(shape)


def fit(g: Any, parent: Any, node: Node) -> Any:
    """The cotangent in the shape and dtype of the input it belongs to."""
    shape, dtype = parent.shape, parent.dtype
    if g.shape != shape:
        try:
            g = unbroadcast(g, shape)
        except (ValueError, RuntimeError, IndexError) as error:
            raise RuntimeError(
                f"{node.name}: its rule gave a gradient of {describe(g)} for an input of {shape}"
            ) from error
    if g.dtype != dtype:
        if g.dtype.kind == "c" and dtype.kind != "c":
            g = g.real
        g = g.astype(dtype)
    return g


def reachable(roots: Iterable[Any]) -> tuple[list[Node], dict[Any, list[Tensor]]]:
    """The nodes below the roots, latest first, and per node the leaves that no earlier node reads."""
    stack = [root for root in roots if type(root) is Node]
    seen = set(stack)
    stack = list(seen)
    order: list[Node] = []
    first_reader: dict[Tensor, Node] = {}
    while stack:
        node = stack.pop()
        order.append(node)
        for parent in node.parents:
            if type(parent) is Node:
                if parent not in seen:
                    seen.add(parent)
                    stack.append(parent)
            elif parent is not None:
                reader = first_reader.get(parent)
                if reader is None or node.sequence < reader.sequence:
                    first_reader[parent] = node
    order.sort(key=attrgetter("sequence"), reverse=True)
    completes: dict[Any, list[Tensor]] = {}
    for leaf, reader in first_reader.items():
        completes.setdefault(reader, []).append(leaf)
    return order, completes


def leading_to(wanted: set[Any], order: list[Node]) -> set[Any]:
    """The wanted nodes and leaves, and every node with one of them below it."""
    useful = set(wanted)
    for node in reversed(order):
        for parent in node.parents:
            if parent is not None and parent in useful:
                useful.add(node)
                break
    return useful


def pull(rule: Any, place: int, g: Any, saved: Any) -> Any:
    """A plan's rule at the cotangent ``g``."""
    return rule(g, saved[place]) if place >= 0 else rule(g) if place == ALONE else rule(g, saved)


class Walk:
    """One backward walk: from cotangents of some roots to gradients of leaves, or of whatever was wanted.

    With ``create_graph`` the cotangents are Tensors and the rules are recorded; else they are bare arrays.
    """

    def __init__(self, wanted: set[Any] | None, retain_graph: bool, create_graph: bool) -> None:
        self.wanted = wanted
        self.retain_graph = retain_graph
        self.create_graph = create_graph
        self.found: dict[Any, Any] = {}

    def run(self, roots: Sequence[tuple[Any, Any]]) -> dict[Any, Any]:
        """Walk; gradients of leaves go to ``.grad``, or with ``wanted`` into the returned dictionary by node or
        leaf.
        """
        with set_grad_enabled(self.create_graph), silent():
            return self._run(roots)

    def _run(self, roots: Sequence[tuple[Any, Any]]) -> dict[Any, Any]:
        order, completes = reachable(root for root, _ in roots)
        wanted, create_graph, retain_graph = self.wanted, self.create_graph, self.retain_graph
        useful = None if wanted is None else leading_to(wanted, order)
        cotangents: dict[Any, Any] = {}
        summed: set[Any] = set()  # nodes and leaves whose cotangent is a sum that the walk itself made
        for root, g in roots:
            if root in cotangents:
                cotangents[root] = cotangents[root] + g
                summed.add(root)
            else:
                cotangents[root] = g
        anomaly = modes.anomaly if watchers else None
        get, pop = cotangents.get, cotangents.pop
        # The nodes after which some leaf is complete, and the next of them.
        readers: list[Any] = [None, *sorted(completes, key=attrgetter("sequence"))]
        reader = readers.pop()
        for node in order:
            g = pop(node, None)
            if g is not None and (useful is None or node in useful):
                plan = node.plan
                saved = node.saved
                if saved is None:
                    raise RuntimeError(
                        f"{plan.primitive.name}: backward through the graph a second time, after what the operator "
                        "saved was freed; specify retain_graph=True at the first backward or autograd.grad call"
                    )
                if plan.several and type(g) is list:
                    g = self._fill_outputs(node, g) if plan.primitive.fills else tuple(g)
                if node.hooks is not None:
                    g = self._run_hooks(node.hooks, g, node)
                if wanted is not None and node in wanted:
                    self.found[node] = g if create_graph else as_array(g).copy()
                if create_graph:
                    saved = plan.primitive.saved_tensors(node)
                if anomaly is not None:
                    anomaly.before(node, g)
                parents, exact, shape = node.parents, plan.exact, node.shape
                together: Any = None
                if plan.joint is not None:
                    together = plan.joint(g, saved, tuple([parent is not None for parent in parents]))
                for index, rule, place in plan.rules:
                    parent = parents[index]
                    if useful is not None and parent not in useful:
                        continue
                    if place >= 0:
                        gi = rule(g, saved[place])
                    elif place == ALONE:
                        gi = rule(g)
                    else:
                        gi = together[index] if rule is None else rule(g, saved)
                    if gi is None:
                        continue
                    if plan.select is not None:
                        outputs = get(parent)
                        if outputs is None:
                            outputs = cotangents[parent] = [None] * len(parent.shape)
                        before = outputs[plan.select]
                        outputs[plan.select] = gi if before is None else before + gi
                        continue
                    like = parent if type(parent) is Node else parent.array
                    if gi.dtype is not like.dtype or not (exact and like.shape == shape) and gi.shape != like.shape:
                        gi = fit(gi, like, node)
                    if anomaly is not None:
                        anomaly.after(node, index, gi)
                    before = get(parent)
                    if before is None:
                        cotangents[parent] = gi
                    elif parent in summed and not create_graph:
                        before += gi
                        cotangents[parent] = before
                    else:
                        cotangents[parent] = before + gi
                        summed.add(parent)
                gi = before = together = None
                if not retain_graph and saved is not NOTHING:
                    node.saved = None
                saved = None
            if node is reader:
                for leaf in completes[node]:
                    final = pop(leaf, None)
                    self._finish(leaf, final, getrefcount(final) == LOCAL_ONLY)
                reader = readers.pop()
        for leaf in [key for key in cotangents if type(key) is not Node]:
            self._finish(leaf, pop(leaf), False)
        return self.found

    def _finish(self, leaf: Tensor, g: Any, lone: bool) -> None:
        """Every contribution to a leaf has arrived; a lone array is held by nobody but the walk."""
        if g is None:
            return
        hooks = leaf._hooks
        if hooks is not None and hooks.on_gradient:
            g = self._run_hooks(hooks.on_gradient, g, leaf)
            lone = False
        if self.wanted is not None:
            if leaf in self.wanted:
                self.found[leaf] = g if self.create_graph else own(g, lone)
            return
        accumulate(leaf, g, lone, self.create_graph)

    def _fill_outputs(self, node: Node, outputs: list[Any]) -> tuple[Any, ...]:
        """Zeros stand for the outputs of a primitive that no gradient reached."""
        xp = array_module(next(g for g in outputs if g is not None))

        def zeros(index: int) -> Any:
            array = xp.zeros(node.shape[index], node.dtype[index])
            return _tensor(array) if self.create_graph else array

        return tuple(zeros(index) if g is None else g for index, g in enumerate(outputs))

    def _run_hooks(self, hooks: dict[int, Callable[[Tensor], Tensor | None]], g: Any, place: Any) -> Any:
        # ``retain_grad`` (entered under a negative number) keeps what the other hooks have made of the gradient.
        for hook in [hooks[key] for key in sorted(hooks, key=lambda key: key < 0)]:
            # A hook may write to what it is shown: the token it is saved under keeps that from other cotangents.
            shown = conjugate(g.clone() if self.create_graph else _tensor(as_array(g, place)))
            token = storage_of(shown)
            changed = hook(shown)
            if changed is None:
                if shown._version == token.version == 0:
                    continue
                changed = shown
            if not isinstance(changed, _Tensor):
                raise TypeError(f"hook of {place!r}: wanted a Tensor or None, got {type(changed).__name__}")
            if changed.shape != shown.shape or changed.dtype != shown.dtype:
                raise RuntimeError(
                    f"hook of {place!r}: wanted a gradient of {describe(shown)}, got {describe(changed)}"
                )
            changed = conjugate(changed)
            g = changed if self.create_graph else changed.array
        return g


def as_array(value: Any, like: Any = None) -> Any:
    """A NumPy scalar, which NumPy makes of 0-d results, as the 0-d array it stands for."""
    return value if is_array(value) else backend_of(value).asarray(value)


def own(g: Any, lone: bool) -> Any:
    """The array for a user to keep: itself when nobody else holds its memory, else a copy."""
    g = as_array(g)
    return g if lone and g.base is None and g.flags.c_contiguous else g.copy()


def conjugate(x: Tensor) -> Tensor:
    return x.conj() if x.dtype.kind == "c" else x


def accumulate(leaf: Tensor, g: Any, lone: bool, create_graph: bool) -> None:
    """Add a finished cotangent to ``leaf.grad``, in place where the buffer is its own."""
    grad = leaf._grad
    if create_graph:
        g = conjugate(g)
        leaf._grad = g.clone() if grad is None else grad + g  # g may be another leaf's, or the user's
    else:
        if leaf.dtype.kind == "c":
            g, lone = g.conj(), True
        if grad is None:
            leaf._grad = _tensor(own(g, lone))
        elif grad.array.shape != leaf.array.shape:
            raise RuntimeError(
                f"backward: a leaf is {describe(leaf)} now, its .grad still {describe(grad)}; set it to None"
            )
        elif not grad.array.flags.c_contiguous and overlaps_itself(grad.array):
            leaf._grad = grad + _tensor(as_array(g))
        else:
            if is_saved(grad):
                unshare(grad, keep_values=True)
            array = grad.array
            array += g
    hooks = leaf._hooks
    if hooks is not None:
        for hook in list(hooks.on_accumulation.values()):
            hook(leaf)


def accumulate_found(found: dict[Any, Any], wanted: Sequence[Tensor], create_graph: bool) -> None:
    """Add what a walk has found for the wanted Tensors to their ``.grad``, where ``retain_grad`` has not done so."""
    with set_grad_enabled(create_graph):
        for x in dict.fromkeys(wanted):
            g = found.get(edge_of(x))
            if g is not None and not x.retains_grad:
                accumulate(x, g, True, create_graph)


def backward(
    outputs: Sequence[Tensor],
    gradients: Sequence[Tensor | None],
    retain_graph: bool | None,
    create_graph: bool,
    inputs: Sequence[Tensor] | None,
    caller: str,
) -> dict[Any, Any]:
    """Check the arguments of ``backward`` and ``autograd.grad`` and walk."""
    roots: list[tuple[Any, Any]] = []
    for index, (output, gradient) in enumerate(zip(outputs, gradients, strict=True)):
        if not output._requires:
            raise RuntimeError(
                f"{caller}: element {index} of the outputs, {describe(output)}, does not require grad and was not "
                "made by a "
                "recorded operator"
            )
        name = "leaf" if output._node is None else output._node.name
        if gradient is None:
            if output.array.size != 1:
                raise RuntimeError(
                    f"{caller}: grad can be implicitly created only for scalar outputs; the output of {name} is "
                    f"{describe(output)}, so a gradient of that shape is needed"
                )
            if not is_differentiable(output.dtype) or output.dtype.kind == "c":
                raise RuntimeError(
                    f"{caller}: grad can be implicitly created only for real outputs, not {output.dtype}"
                )
            xp = array_module(output)
            gradient = _tensor(xp.ones(output.shape, output.dtype))
        elif not isinstance(gradient, _Tensor):
            raise TypeError(f"{caller}: the gradient of {name} must be a Tensor or None, got {type(gradient).__name__}")
        elif gradient.shape != output.shape:
            raise RuntimeError(
                f"{caller}: mismatch in shape: the gradient is {describe(gradient)}, the output of {name} "
                f"{describe(output)}"
            )
        if gradient.dtype != output.dtype:
            if gradient.dtype.kind == "c" and output.dtype.kind != "c":
                raise RuntimeError(
                    f"{caller}: the gradient of {name}, {describe(output)}, is complex: {describe(gradient)}"
                )
            gradient = gradient.astype(output.dtype)
        gradient = conjugate(gradient)
        roots.append((edge_of(output), gradient if create_graph else gradient.array))
    wanted = None if inputs is None else {edge_of(x) for x in inputs}
    retain = create_graph if retain_graph is None else retain_graph
    return Walk(wanted, retain, create_graph).run(roots)


# The Tensor class, entered by its module: the walk makes Tensors but the class needs the graph first.
_Tensor: Any = None


def _tensor(array: Any) -> Any:
    return _Tensor._wrap(array)
