"""The backward pass: compute gradients of leaves from cotangents of the roots, visiting the latest node first.

Cotangents are the complex conjugates of PyTorch's gradients, so rules need no conjugation; gradients are conjugated
where they enter and leave the pass.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from operator import attrgetter
from sys import getrefcount
from typing import Any, TypeAlias

from numpy import ndarray

from ...core.arrays import Array
from ..arrays.devices import Wrapping, array_module, backend_of, is_array
from ..arrays.fp_warnings import silenced, silent
from ..arrays.layout import copied, is_view
from ..arrays.summation import LARGE, add_to, adding, plus
from ..errors import describe
from ..tensor.mutation import read_through_base
from ..tensor.storage import LOCAL_ONLY, is_saved, overlaps_itself, storage_of, unshare
from ..tensor.tensor import Tensor, new_tensor, tensor_method
from .fitting import add_to_output, all_outputs, fit
from .in_place import accumulation_hooks, postponed, run_in_place
from .modes import modes, recording, watchers, without_recording
from .nodes import NOTHING, Node, edge_of, leading_to, oldest, reachable, saved_by
from .observers import Observer
from .plan import ALONE
from .primitive import attached
from .reentrant import reentrant

Root: TypeAlias = tuple[Any, Any]  # an edge, and its cotangent: an array, or a Tensor where rules are recorded


class Walk:
    """One backward pass, from the cotangents of roots to the gradients of leaves or of the wanted edges.

    With ``create_graph`` the cotangents are Tensors and the rules are recorded; otherwise cotangents are bare arrays.
    Inside ``vmap`` cotangents are always Tensors. Without ``create_graph`` they have no history on their own level, but
    operators that the rules call may be recorded on the levels below.
    """

    def __init__(
        self,
        wanted: set[object] | None,
        retain_graph: bool,
        create_graph: bool,
        copied: bool = True,
        beyond: bool = True,
    ) -> None:
        self.wanted = wanted
        self.beyond = beyond  # whether the pass continues from a wanted node to its parents
        self.copied = copied  # whether the returned gradients share no memory, so that the caller may write to them
        self.retain_graph = retain_graph
        self.create_graph = create_graph
        self.layered = bool(watchers) and modes.level is not None
        self.tensors = create_graph or self.layered
        self.ends_run_prehooks = False  # whether prehooks of the nodes where the pass ends are called
        self.found: dict[Any, Any] = {}
        self.order: list[Node] = []
        self.useful: set[object] | None = None

    def reaches(self, edge: object) -> bool:
        """Return whether the pass may compute a gradient of the node or leaf."""
        if self.useful is not None:
            return edge in self.useful
        return edge in self.order or any(edge is parent for node in self.order for parent in node.parents)

    def run(self, roots: Sequence[Root]) -> dict[object, Any]:
        """Add gradients to the leaves' ``.grad``, or with ``wanted`` return a dictionary from edges to gradients."""
        if not watchers and not self.create_graph and self.wanted is None:
            return without_recording(silenced, self._to_leaves, roots)
        with recording(self.create_graph or self.layered and modes.grad_enabled), silent():
            if self.layered and not self.create_graph:
                roots = [(root, g if isinstance(g, Tensor) else new_tensor(g)) for root, g in roots]
            if not watchers:
                return self._to_any_edges(roots)
            observers = modes.observers
            for observer in observers:
                observer.began()
            if modes.tracer is not None and self.wanted:
                modes.tracer.seeks(self.wanted)
            try:
                return self._to_any_edges(roots)
            finally:
                for observer in observers:
                    observer.ended()

    def _to_leaves(self, roots: Sequence[Root]) -> dict[object, Any]:
        """Run the pass of a plain ``backward()``: the fast path without Tensors, inputs or observers."""
        freed = not self.retain_graph
        self.order, completes = reachable([root for root, _ in roots])
        order = self.order = postponed(self.order, completes) if accumulation_hooks and freed else self.order
        cotangents: dict[Any, Any] = {}
        summed: set[object] = set()
        for root, g in roots:
            if root in cotangents:
                g = cotangents[root] + g
                summed.add(root)
            cotangents[root] = g
        get, pop = cotangents.get, cotangents.pop
        readers: list[Node | None] = [None, *completes]
        if len(completes) > 1:
            readers[1:] = sorted(completes, key=attrgetter("sequence"))
        reader = readers.pop()
        for node in order:
            g = pop(node, None)
            if g is not None:
                plan, saved, rules = node.plan, node.saved, node.plan.rules
                if plan.primitive.in_place is not None and freed:
                    saved = None
                    rules, saved = ((), NOTHING) if run_in_place(node, g, cotangents, summed) else (rules, node.saved)
                if plan.several and type(g) is list:
                    g = tuple(g) if plan.node_hooks is not None else all_outputs(node, g)
                if node.hooks is not None:
                    g = self._run_hooks(node.hooks, g, node)
                if type(saved) is not tuple:
                    saved = saved_by(node)
                if plan.joint is not None:
                    together = plan.joint(g, saved, tuple([parent is not None for parent in node.parents]))
                exact, shape = plan.exact, node.shape
                for index, rule, place in rules:
                    if place >= 0:
                        gi = rule(g, saved[place])
                    elif place == ALONE:
                        gi = rule(g)
                    else:
                        gi = together[index] if rule is None else rule(g, saved)
                    if gi is None:
                        continue
                    parent = node.left if index == 0 else node.right if index == 1 else node.more[index]
                    if type(parent) is not Node:  # separate branches halve the cost of attributes (inline caches)
                        like = parent.array
                        if gi.dtype is not like.dtype or not (exact and like.shape == shape) and gi.shape != like.shape:
                            gi = fit(gi, like, node)
                    elif plan.select is not None:
                        add_to_output(cotangents, parent, plan.select, gi)
                        continue
                    elif gi.dtype is not parent.dtype or (
                        not (exact and parent.shape == shape) and gi.shape != parent.shape
                    ):
                        gi = fit(gi, parent, node)
                    before = get(parent)
                    if before is None:
                        cotangents[parent] = gi
                    elif parent in summed:
                        if adding:
                            cotangents[parent] = add_to(before, gi)
                        else:
                            before += gi
                            cotangents[parent] = before
                    else:
                        own = adding and before.size >= LARGE and getrefcount(before) == LOCAL_ONLY + 1
                        cotangents[parent] = (add_to if own and not is_view(before) else plus)(before, gi)
                        summed.add(parent)
                gi = before = together = None
                if freed and saved and (plan.keeps_arrays or plan.frees(saved)):
                    node.saved = None
                saved = None
            if node is reader:
                for leaf in completes[node]:
                    final = pop(leaf, None)
                    unshared = getrefcount(final) == LOCAL_ONLY  # not in the call below, whose arguments are references
                    if final is not None and leaf._hooks is None and not watchers:  # ``_finish``, inlined
                        with _accumulating[id(leaf) >> 4 & 15]:
                            _add_to_grad(leaf, final, unshared, False)
                    else:
                        self._finish(leaf, final, unshared)
                reader = readers.pop()
        if cotangents:
            for leaf in [key for key in cotangents if type(key) is not Node]:
                self._finish(leaf, pop(leaf), False)
        return self.found

    def _to_any_edges(self, roots: Sequence[Root]) -> dict[object, Any]:
        wanted, create_graph, retain_graph = self.wanted, self.create_graph, self.retain_graph
        tensors, apart = self.tensors, self.tensors and not self.create_graph
        self.order, completes = reachable((root for root, _ in roots), -1 if wanted is None else oldest(wanted))
        order, leading, useful = self.order, None, None
        if wanted is not None:
            leading = leading_to(wanted, order)
            useful = self.useful = leading | wanted
            if not self.beyond:
                leading -= wanted
        cotangents: dict[Any, Any] = {}
        summed: set[object] = set()  # nodes and leaves whose cotangent is a sum allocated by this pass: may be written
        for root, g in roots:
            if root in cotangents:
                cotangents[root] = cotangents[root] + g
                summed.add(root)
            else:
                cotangents[root] = g
        observers = modes.observers if watchers else ()
        receivers = [observer for observer in observers if type(observer).sent is not Observer.sent]
        frees_alone = not (retain_graph or tensors or receivers)
        entering = [observer.entered for observer in observers if type(observer).entered is not Observer.entered]
        leaving = [observer.left for observer in observers if type(observer).left is not Observer.left]
        if accumulation_hooks and wanted is None and frees_alone:
            order = self.order = postponed(order, completes)
        get, pop = cotangents.get, cotangents.pop
        # The nodes after which the gradient of some leaf is complete; ``reader`` is the first that the pass will reach.
        readers: list[Node | None] = [None, *sorted(completes, key=attrgetter("sequence"))]
        reader = readers.pop()
        for node in order:
            g = pop(node, None)
            if g is not None and (useful is None or node in useful):
                plan = node.plan
                if plan.several and type(g) is list:
                    g = tuple(g) if plan.node_hooks is not None else all_outputs(node, g)
                if node.hooks is not None:
                    g = self._run_hooks(node.hooks, g, node)
                if wanted is not None and node in wanted:
                    alone = leading is not None and node not in leading and getrefcount(g) == LOCAL_ONLY
                    self.found[node] = owned(g, alone) if self.copied and not create_graph else g
                    if self.ends_run_prehooks and plan.node_hooks is not None and node not in leading:  # type: ignore[operator]
                        for prehook in list(plan.node_hooks.before.values()):
                            g = changed_by(prehook, g, node)  # the result is discarded, as in PyTorch
            if g is not None and (leading is None or node in leading):
                saved = node.saved
                if type(saved) is not tuple:
                    saved = saved_by(node)
                if tensors:
                    saved = plan.primitive.saved_tensors(node)
                    if apart:
                        saved = without_history(saved)
                for entered in entering:
                    entered(node, g)
                exact, shape = plan.exact, node.shape
                together: Any = None
                if plan.joint is not None:
                    together = plan.joint(g, saved, tuple([parent is not None for parent in node.parents]))
                rules = plan.rules
                if frees_alone and plan.primitive.in_place is not None and (useful is None or node.left in useful):
                    saved = None
                    rules, saved = ((), NOTHING) if run_in_place(node, g, cotangents, summed) else (rules, node.saved)
                for index, rule, place in rules:
                    parent = node.left if index == 0 else node.right if index == 1 else node.more[index]
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
                    if apart:
                        gi = without_history(gi)
                    given = gi
                    if plan.select is not None:
                        before = add_to_output(cotangents, parent, plan.select, gi)
                        if receivers:
                            for observer in receivers:
                                observer.sent(node, index, given, gi, before)
                        continue
                    like = parent if type(parent) is Node else parent.array
                    if gi.dtype is not like.dtype or not (exact and like.shape == shape) and gi.shape != like.shape:
                        gi = fit(gi, like, node)
                    if create_graph and plan.primitive.piecewise_linear and not gi._requires:
                        gi = attached(gi, parent)
                    before = get(parent)
                    if receivers:
                        for observer in receivers:
                            observer.sent(node, index, given, gi, before)
                    if before is None:
                        cotangents[parent] = gi
                    elif parent in summed and not tensors:
                        cotangents[parent] = add_to(before, gi)
                    else:
                        cotangents[parent] = plus(before, gi)
                        summed.add(parent)
                for left in leaving:
                    left(node)
                gi = given = before = together = None
                if not retain_graph and saved is not NOTHING and plan.frees(saved):
                    node.saved = None
                saved = None
            if node is reader:
                for leaf in completes[node]:
                    final = pop(leaf, None)
                    unshared = getrefcount(final) == LOCAL_ONLY  # not in the call below, whose arguments are references
                    self._finish(leaf, final, unshared)
                reader = readers.pop()
        for leaf in [key for key in cotangents if type(key) is not Node]:
            self._finish(leaf, pop(leaf), False)
        return self.found

    def _finish(self, leaf: Tensor, g: Array, unshared: bool) -> None:
        """Deliver the complete gradient of a leaf. ``unshared`` says that only the pass refers to the array ``g``."""
        if g is None:
            return
        hooks = leaf._hooks
        if hooks is not None and hooks.on_gradient:
            g = self._run_hooks(hooks.on_gradient, g, leaf)
            unshared = False
        if watchers:
            for observer in modes.observers:
                observer.finished(leaf, g)
        if self.wanted is not None:
            if leaf in self.wanted:
                self.found[leaf] = g if self.create_graph else owned(g, unshared)
            return
        if self.tensors and not self.create_graph:
            g, unshared = owned(g, unshared), True
        accumulate(leaf, g, unshared, self.create_graph)

    def _run_hooks(self, hooks: dict[int, Callable[[Tensor], Tensor | None]], g: Any, place: object) -> Any:
        # Hooks get one Tensor object, on which programs set attributes, until a hook replaces the gradient.
        shown: Tensor | None = None
        # ``retain_grad`` (negative key) runs last: it stores the gradient as changed by the other hooks.
        for hook in [hooks[key] for key in sorted(hooks, key=lambda key: key < 0)]:
            if shown is None:
                shown = conjugate(g.clone() if self.tensors else new_tensor(as_array(g, place)))
            token = storage_of(shown)  # a second reference to the storage makes hooks write to a copy
            _hooked.walks.append(self)
            try:
                changed = reentrant(hook, shown)
            finally:
                _hooked.walks.pop()
            if changed is None and shown._version == token.version == 0:
                continue
            changed = shown if changed is None else changed
            if not isinstance(changed, Tensor):
                raise TypeError(f"hook of {place!r}: expected a Tensor or None, got {type(changed).__name__}")
            if changed.shape != shown.shape or changed.dtype != shown.dtype:
                raise RuntimeError(
                    f"hook of {place!r}: expected a gradient of {describe(shown)}, got {describe(changed)}"
                )
            g, shown = conjugate(changed) if self.tensors else conjugate(changed).array, None
        return g


class _Hooked(threading.local):
    """The backward passes of this thread that are calling a hook, outermost first."""

    def __init__(self) -> None:
        self.walks: list[Walk] = []


_hooked = _Hooked()


def walking() -> Walk | None:
    """Return the innermost backward pass of this thread that is calling a hook, or None."""
    return _hooked.walks[-1] if _hooked.walks else None


def as_array(value: object, like: object = None) -> Any:
    """Return a NumPy scalar, which NumPy returns in place of a 0-d array, as a 0-d array; an array unchanged."""
    return value if is_array(value) else backend_of(value).asarray(value)


def without_history(x: object) -> Any:
    """Return Tensors, also in tuples, without their history on the current level."""
    if isinstance(x, Tensor):
        return new_tensor(x.array) if x._requires else x
    return tuple(map(without_history, x)) if type(x) is tuple else x


def owned(g: Array, unshared: bool) -> Array:
    """Return an array that the user may write to: ``g`` if its memory is not shared, otherwise a copy."""
    if type(g) is not ndarray:
        g = as_array(g.array if isinstance(g, Tensor) else g)
        if isinstance(g, Wrapping):
            return g if unshared and g.unshared(2) else g.copy()
    return g if unshared and g.flags.c_contiguous and not is_view(g) else copied(g)


def conjugate(x: Tensor) -> Tensor:
    return x.conj() if x.dtype.kind == "c" else x


def changed_by(hook: Callable[[Any], object], g: Any, place: Any) -> Any:
    """Call a prehook on one gradient or a tuple; return its replacements as arrays or Tensors, as they were given."""
    several = isinstance(g, tuple)
    found = g if several else (g,)
    changed = reentrant(hook, tuple([shown_to_hooks(x) for x in found]))
    if changed is None:
        return g
    result = [
        x if x is None or isinstance(old, Tensor) else conjugate(x).array
        for x, old in zip(replaced_by(place, found, changed), found, strict=True)
    ]
    for x, old in zip(result, found, strict=True):
        if x is not None and old is not None and (x.shape != old.shape or x.dtype != old.dtype):
            raise RuntimeError(f"hook of {place!r}: expected a gradient of {describe(old)}, got {describe(x)}")
    return tuple(result) if several else result[0]


def shown_to_hooks(g: object) -> Tensor | None:
    return None if g is None else conjugate(g if isinstance(g, Tensor) else new_tensor(as_array(g)))


def replaced_by(node: Node, gradients: tuple[object, ...], changed: object) -> tuple[Tensor | None, ...]:
    changed = changed if isinstance(changed, tuple) else (changed,)
    if len(changed) != len(gradients) or not all(x is None or isinstance(x, Tensor) for x in changed):
        raise RuntimeError(
            f"hook of {node!r}: expected None or a tuple of {len(gradients)} Tensors or None, got {describe(changed)}"
        )
    return changed


# These locks make adding to .grad atomic, since backward passes on several threads may reach one leaf. They are
# reentrant, since the garbage collector may run arbitrary code during the addition.
_accumulating = tuple(threading.RLock() for _ in range(16))


def accumulate(leaf: Tensor, g: Array, unshared: bool, create_graph: bool) -> None:
    """Add a complete cotangent to ``leaf.grad``, in place if the memory is not shared, and call the leaf's hooks."""
    hooks = leaf._hooks
    if hooks is not None and hooks.before_accumulation:
        unshared = False
        for before in list(hooks.before_accumulation.values()):
            g = changed_by(before, g, leaf)
    with _accumulating[id(leaf) >> 4 & 15]:
        _add_to_grad(leaf, g, unshared, create_graph)
    if hooks is not None:
        for hook in list(hooks.on_accumulation.values()):
            result = hook(leaf)
            if result is not None:
                raise RuntimeError(
                    f"post accumulate grad hooks should return None, got {type(result).__name__}; "
                    "assign tensor.grad to replace the gradient"
                )


def _add_to_grad(leaf: Tensor, g: Any, unshared: bool, create_graph: bool) -> None:
    grad = leaf._grad
    if create_graph:
        g = conjugate(g)
        leaf._grad = g.clone() if grad is None else g + grad  # another leaf or the user may also refer to g
    else:
        if leaf.array.dtype.kind == "c":
            g, unshared = g.conj(), True
        if grad is None:
            leaf._grad = new_tensor(owned(g, unshared))
        elif grad.shape != leaf.array.shape:
            raise RuntimeError(
                f"backward: a leaf is {describe(leaf)}, but its .grad is {describe(grad)}; set .grad to None"
            )
        elif not grad.is_dense or not grad.array.flags.c_contiguous and overlaps_itself(grad.array):
            leaf._grad = new_tensor(as_array(g)) + grad
        else:
            if is_saved(grad):
                unshare(grad, keep_values=True)
            add_to(grad.array, g)


def differentiate(
    caller: str,
    outputs: Sequence[Tensor],
    cotangents: Sequence[Tensor | None],
    inputs: Sequence[Tensor] | None,
    retain_graph: bool | None,
    create_graph: bool,
    beyond: bool = True,
) -> dict[object, Any]:
    """Run a backward pass and return a dictionary from the edges of ``inputs`` to gradients.

    If ``inputs`` is None, add the gradients of all leaves to their ``.grad`` instead.
    """
    for index, x in enumerate(inputs or ()):
        if not x._requires:
            raise RuntimeError(f"{caller}: inputs[{index}], {describe(x)}, does not require grad")
        read_through_base(x)
    roots = root_cotangents(caller, outputs, cotangents, create_graph)
    wanted = None if inputs is None else {edge_of(x) for x in inputs}
    retain = create_graph if retain_graph is None else retain_graph
    walk = Walk(wanted, retain, create_graph, beyond=beyond)
    walk.ends_run_prehooks = caller == "backward"
    return walk.run(roots)


def root_cotangents(
    caller: str, outputs: Sequence[Tensor], cotangents: Sequence[Tensor | None], create_graph: bool = False
) -> list[Root]:
    """Return pairs of an output's edge and its checked cotangent: an array, or with ``create_graph`` a Tensor."""
    roots = [
        (edge_of(output), _checked_cotangent(caller, index, output, cotangent))
        for index, (output, cotangent) in enumerate(zip(outputs, cotangents, strict=True))
    ]
    return roots if create_graph else [(edge, g.array) for edge, g in roots]


def _checked_cotangent(caller: str, index: int, output: Tensor, cotangent: Tensor | None) -> Tensor:
    """Return the cotangent of one root, conjugated; by default ones for an output with a single element."""
    if not output._requires:
        raise RuntimeError(
            f"{caller}: element {index} of the outputs, {describe(output)}, does not require grad and was not "
            "computed by a recorded operator"
        )
    if cotangent is None and output.array.size == 1 and output.array.dtype.kind != "c":
        return new_tensor(array_module(output).ones(output.array.shape, output.array.dtype))
    if isinstance(cotangent, Tensor):
        x, g = output.array, cotangent.array
        if g.shape == x.shape and g.dtype is x.dtype and g.dtype.kind != "c":
            return cotangent
    name = "leaf" if output._node is None else output._node.operator
    if cotangent is None:
        if output.array.size != 1:
            raise RuntimeError(
                f"{caller}: grad can be implicitly created only for scalar outputs; the output of {name} is "
                f"{describe(output)}, so a gradient of that shape is needed"
            )
        raise RuntimeError(f"{caller}: grad can be implicitly created only for real outputs, not {output.dtype}")
    if not isinstance(cotangent, Tensor):
        raise TypeError(f"{caller}: the gradient of {name} must be a Tensor or None, got {type(cotangent).__name__}")
    if cotangent.array.shape != output.array.shape:
        raise RuntimeError(
            f"{caller}: mismatch in shape: the gradient is {describe(cotangent)}, "
            f"the output of {name} {describe(output)}"
        )
    if cotangent.dtype != output.dtype:
        if cotangent.dtype.kind == "c" and output.dtype.kind != "c":
            raise RuntimeError(
                f"{caller}: the gradient of {name}, {describe(output)}, is complex: {describe(cotangent)}"
            )
        cotangent = cotangent.astype(output.dtype)
    return conjugate(cotangent)


def accumulate_gradients(
    outputs: Sequence[Tensor],
    cotangents: Sequence[Tensor | None],
    inputs: Sequence[Tensor] | None,
    retain_graph: bool | None,
    create_graph: bool,
) -> None:
    """Add the gradients of all leaves, or only of ``inputs``, to their ``.grad``."""
    if inputs is not None and not inputs:
        raise RuntimeError("backward: inputs cannot be empty; leave it out to accumulate into every leaf")
    if create_graph:
        _warn_of_cycles()
    found = differentiate("backward", outputs, cotangents, inputs, retain_graph, create_graph)
    if not inputs:
        return
    with recording(create_graph):
        _accumulate_found(inputs, found, create_graph)


def _accumulate_found(inputs: Sequence[Tensor], found: dict[object, Any], create_graph: bool) -> None:
    for x in dict.fromkeys(inputs):
        g = found.get(edge := edge_of(x))
        if g is not None and not x.retains_grad:  # with ``retain_grad``, a hook has stored the gradient
            accumulate(edge if isinstance(edge, Tensor) else x, g, True, create_graph)


@cache
def _warn_of_cycles() -> None:
    """Warn, once per process as PyTorch does, that a recorded ``.grad`` and its leaf are a reference cycle."""
    warnings.warn(
        "Using backward() with create_graph=True will create a reference cycle between the parameter and its gradient "
        "which can cause a memory leak. We recommend using autograd.grad when creating the graph to avoid this. If you "
        "have to use this function, make sure to reset the .grad fields of your parameters to None after use to break "
        "the cycle and avoid the leak.",
        UserWarning,
        stacklevel=4,
    )


@tensor_method
def backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Sequence[Tensor] | Tensor | None = None,
) -> None:
    """Add the gradient of this Tensor with respect to the leaves it depends on to their ``.grad``.

    For a leaf ``x``: ``grad <- grad + gradient^T J``, with J the Jacobian of this Tensor with respect to x.

    Args:
        gradient: the cotangent, of this Tensor's shape; may be left out if this Tensor has a single element.
        retain_graph: keep the graph's saved values for another backward pass; by default only with ``create_graph``.
        create_graph: record the backward pass itself, so that gradients can be differentiated.
        inputs: accumulate into these Tensors only.

    Raises:
        RuntimeError: the Tensor does not require grad, it has several elements and ``gradient`` is left out, or the
            graph was freed by an earlier backward pass.

    >>> x = rg.tensor([1.0, 2.0], requires_grad=True)
    >>> (x**3).sum().backward()
    >>> x.grad
    tensor([ 3., 12.])
    """
    if inputs is None and not create_graph:
        cotangent = _checked_cotangent("backward", 0, self, gradient).array
        Walk(None, bool(retain_graph), False).run([(self if self._node is None else self._node, cotangent)])
        return
    wanted = [inputs] if isinstance(inputs, Tensor) else inputs if inputs is None else list(inputs)
    accumulate_gradients([self], [gradient], wanted, retain_graph, create_graph)
