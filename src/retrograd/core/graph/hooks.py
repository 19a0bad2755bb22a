"""Methods that register hooks on Tensors and graph nodes.

This module adds the methods to ``Tensor`` and ``Node``, which import neither the backward pass nor in-place writes.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any
from weakref import WeakKeyDictionary, ref

from ..tensor.mutation import read_through_base
from ..tensor.tensor import Tensor, tensor_method
from .backward import changed_by, conjugate, replaced_by, shown_to_hooks
from .fitting import all_outputs, fit
from .handles import LeafHooks, NodeHooks, RemovableHandle
from .in_place import accumulation_hooks
from .nodes import AccumulateGrad, Node
from .plan import WHOLE, Plan, pull
from .reentrant import reentrant


def grad_fn(self: Tensor) -> Node | None:
    """The graph node that computed this Tensor, None for a leaf.

    >>> (rg.ones(2, requires_grad=True) * 2).grad_fn.operator
    'mul'
    """
    if self._node is not None:
        read_through_base(self)
    return self._node


tensor_method(property(grad_fn), "grad_fn")


@tensor_method
def register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Call ``hook(grad)`` whenever a backward pass has computed this Tensor's gradient; its result replaces ``grad``.

    The gradient is taken with respect to the Tensor's current value. After an in-place write, which gives the Tensor a
    new value, the hook still receives the gradient of the old value.

    Args:
        hook: called with the gradient; returns its replacement, or None.

    >>> x = rg.tensor([1.0, 2.0], requires_grad=True)
    >>> handle = x.register_hook(lambda grad: grad * 10)
    >>> (x * 3).sum().backward()
    >>> x.grad
    tensor([30., 30.])

    Raises:
        RuntimeError: the Tensor needs no gradient.
    """
    if not self._requires:
        raise RuntimeError("register_hook: cannot register a hook on a Tensor that does not require grad")
    if self._node is None:
        return RemovableHandle(_leaf_hooks(self).on_gradient, hook)
    read_through_base(self)
    if self._node.hooks is None:
        self._node.hooks = {}
    return RemovableHandle(self._node.hooks, hook)


@tensor_method
def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Tensor], None]) -> RemovableHandle:
    """Call ``hook(tensor)`` on a leaf after a backward pass has added to its ``.grad``.

    Args:
        hook: called with the leaf.

    >>> x = rg.ones(2, requires_grad=True)
    >>> handle = x.register_post_accumulate_grad_hook(lambda tensor: print(tensor.grad))
    >>> (x * 3).sum().backward()
    tensor([3., 3.])

    Raises:
        RuntimeError: the Tensor is not a leaf, or does not require grad. If the hook returns a value other than None,
            ``backward`` raises RuntimeError.
    """
    if not self._requires or self._node is not None:
        raise RuntimeError(
            "register_post_accumulate_grad_hook: post accumulate grad hooks cannot be registered on non-leaf tensors; "
            "expected a leaf that requires grad"
        )
    accumulation_hooks[:] = [None]
    return RemovableHandle(_leaf_hooks(self).on_accumulation, hook)


@tensor_method
def retain_grad(self: Tensor) -> None:
    """Let backward passes also store the gradient of this non-leaf in ``.grad``.

    >>> x = rg.ones(2, requires_grad=True)
    >>> y = x * 3
    >>> y.retain_grad()
    >>> y.sum().backward()
    >>> y.grad
    tensor([1., 1.])

    Raises:
        RuntimeError: the Tensor needs no gradient.
    """
    if not self._requires:
        raise RuntimeError("retain_grad: can't retain_grad on a Tensor that has requires_grad=False")
    if self._node is None or self.retains_grad:
        return
    read_through_base(self)
    me = ref(self)

    def keep(gradient: Tensor) -> None:
        tensor = me()
        if tensor is not None:
            tensor._grad = gradient.clone() if tensor._grad is None else tensor._grad + gradient

    if self._node.hooks is None:
        self._node.hooks = {}
    self._node.hooks[-id(self)] = keep


def hooked(plan: Plan, node: Node, hooks: NodeHooks) -> Plan:
    """Return a copy of ``plan`` for one node that calls ``hooks`` with the node's incoming and outgoing gradients."""
    hooked_plan = copy(plan)
    me = ref(node)  # weak, since the node refers to the plan: a cycle would delay freeing the graph

    def joint(g: Any, saved: Any, needs: tuple[bool, ...]) -> list[Any]:
        node = me()
        assert node is not None
        for before in list(hooks.before.values()):
            g = changed_by(before, g, node)
        given = g
        if isinstance(g, tuple):
            g = all_outputs(node, g)
        together: Any = None if plan.joint is None else plan.joint(g, saved, needs)
        found: list[Any] = [None] * len(node.parents)
        for index, rule, place in plan.rules:
            gi = together[index] if rule is None else pull(rule, place, g, saved)
            if gi is not None and plan.select is None:
                parent = node.parents[index]
                gi = fit(gi, parent if type(parent) is Node else parent.array, node)
            found[index] = gi
        recorded = any(isinstance(x, Tensor) for x in (g if isinstance(g, tuple) else (g,)))
        outgoing = tuple([shown_to_hooks(x) for x in found])
        incoming = tuple([shown_to_hooks(x) for x in (given if isinstance(given, tuple) else (given,))])
        for hook in list(hooks.after.values()):
            changed = reentrant(hook, outgoing, incoming)
            if changed is not None:
                outgoing = replaced_by(node, outgoing, changed)
        return [x if x is None or recorded else conjugate(x).array for x in outgoing]

    hooked_plan.joint = joint
    hooked_plan.rules = tuple((index, None, WHOLE) for index, _, _ in plan.rules)
    return hooked_plan


def register_node_hook(self: Node, hook: Callable[[Any, Any], Any]) -> RemovableHandle:
    """Call ``hook(grad_inputs, grad_outputs)`` after this node's rules have run; its result replaces ``grad_inputs``.

    Both arguments are tuples of Tensors, with None where there is no gradient. ``grad_inputs`` has one entry per input
    of the operator, ``grad_outputs`` one per output.

    >>> x = rg.tensor([1.0, 2.0], requires_grad=True)
    >>> y = x * 3
    >>> handle = y.grad_fn.register_hook(lambda inputs, outputs: print(inputs[0], outputs[0]))
    >>> y.sum().backward()
    tensor([3., 3.]) tensor([1., 1.])
    """
    return RemovableHandle(_node_hooks(self).after, hook)


def register_prehook(self: Node, hook: Callable[[Any], Any]) -> RemovableHandle:
    """Call ``hook(grad_outputs)`` before this node's rules run; its result replaces the gradients.

    The hooks of the node's Tensor are called first. If the backward pass ends at this node, ``autograd.grad`` does not
    call the hook, and ``backward(inputs=...)`` calls it but ignores its result.
    """
    return RemovableHandle(_node_hooks(self).before, hook)


def _node_hooks(node: Node) -> NodeHooks:
    if node.plan.select is not None:  # the node selects one output: its parent is the operator's own node
        node = node.parents[0]
    if node.plan.node_hooks is None:
        hooks = NodeHooks()
        node.plan = hooked(node.plan, node, hooks)
        node.plan.node_hooks = hooks
    return node.plan.node_hooks


def register_leaf_hook(self: AccumulateGrad, hook: Callable[[Any, Any], Any]) -> RemovableHandle:
    """Call ``hook((), (grad,))`` after a backward pass has added to the leaf's ``.grad``.

    ``grad`` is the leaf's new ``.grad``; PyTorch passes the gradient that was added.
    """

    def on_accumulation(leaf: Tensor) -> None:
        reentrant(hook, (), (leaf.grad,))

    return self.variable.register_post_accumulate_grad_hook(on_accumulation)


def register_leaf_prehook(self: AccumulateGrad, hook: Callable[[Any], Any]) -> RemovableHandle:
    """Call ``hook((grad,))`` before a backward pass adds to the leaf's ``.grad``; its result is added instead."""

    return RemovableHandle(_leaf_hooks(self.variable).before_accumulation, hook)


def _leaf_hooks(leaf: Tensor) -> LeafHooks:
    if leaf._hooks is None:
        leaf._hooks = LeafHooks()
    return leaf._hooks


_metadata: WeakKeyDictionary[Node, dict[str, Any]] = WeakKeyDictionary()


def metadata(self: Node) -> dict[str, Any]:
    """A dictionary for user data that lives as long as the node."""
    return _metadata.setdefault(self, {})


def leaf_metadata(self: AccumulateGrad) -> dict[str, Any]:
    """A dictionary for user data that lives as long as the leaf."""
    return _leaf_hooks(self.variable).metadata


Node.metadata = property(metadata)  # type: ignore[attr-defined]
AccumulateGrad.metadata = property(leaf_metadata)  # type: ignore[attr-defined]
AccumulateGrad.register_hook = register_leaf_hook  # type: ignore[attr-defined]
AccumulateGrad.register_prehook = register_leaf_prehook  # type: ignore[attr-defined]
Node.register_hook = register_node_hook  # type: ignore[attr-defined]
Node.register_prehook = register_prehook  # type: ignore[attr-defined]
