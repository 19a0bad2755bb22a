"""How hooks are registered: on Tensors, and on the nodes of the graph.

The methods are entered on ``Tensor`` and ``Node`` here, as operators are by ``ops``: neither class knows the backward
pass or in-place writes, which these methods need.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any
from weakref import WeakKeyDictionary, ref

from ..tensor.mutation import read_through_base
from ..tensor.tensor import Tensor, tensor_method
from .backward import changed_by, conjugate, fit, replaced_by, shown_to_hooks
from .handles import LeafHooks, NodeHooks, RemovableHandle
from .nodes import AccumulateGrad, Node
from .plan import WHOLE, Plan, pull
from .reentrant import reentrant


@tensor_method
def register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
    """Call ``hook(grad)`` whenever a backward pass has computed this Tensor's gradient; its result replaces that.

    The gradient is the one with respect to the value that the Tensor has now: an in-place write afterwards gives the
    Tensor another value, and the hook stays with the old one.

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
        RuntimeError: the Tensor is not a leaf or needs no gradient; by backward, where the hook returns something.
    """
    if not self._requires or self._node is not None:
        raise RuntimeError(
            "register_post_accumulate_grad_hook: post accumulate grad hooks cannot be registered on non-leaf tensors; "
            "wanted a leaf that requires grad"
        )
    return RemovableHandle(_leaf_hooks(self).on_accumulation, hook)


@tensor_method
def retain_grad(self: Tensor) -> None:
    """Let backward passes store the gradient of this non-leaf in ``.grad``, too.

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
    """A plan as the given one, for one node, whose hooks see the gradients that come in, and those that go out."""
    hooked_plan = copy(plan)
    me = ref(node)  # which holds the plan: a cycle would keep the graph until the collector runs

    def joint(g: Any, saved: Any, needs: tuple[bool, ...]) -> list[Any]:
        node = me()
        assert node is not None
        for before in list(hooks.before.values()):
            g = changed_by(before, g, node)
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
        incoming = tuple([shown_to_hooks(x) for x in g]) if isinstance(g, tuple) else (shown_to_hooks(g),)
        for hook in list(hooks.after.values()):
            changed = reentrant(hook, outgoing, incoming)
            if changed is not None:
                outgoing = replaced_by(node, outgoing, changed)
        return [x if x is None or recorded else conjugate(x).array for x in outgoing]

    hooked_plan.joint = joint
    hooked_plan.rules = tuple((index, None, WHOLE) for index, _, _ in plan.rules)
    return hooked_plan


def register_node_hook(self: Node, hook: Callable[[Any, Any], Any]) -> RemovableHandle:
    """Call ``hook(grad_inputs, grad_outputs)`` when a walk has passed this node; what it returns replaces the first.

    Both are tuples of Tensors, with None where no gradient goes; the inputs' are in the order of the operator's inputs,
    and the outputs' are all those of the operator.

    >>> x = rg.tensor([1.0, 2.0], requires_grad=True)
    >>> y = x * 3
    >>> handle = y.grad_fn.register_hook(lambda inputs, outputs: print(inputs[0], outputs[0]))
    >>> y.sum().backward()
    tensor([3., 3.]) tensor([1., 1.])
    """
    return RemovableHandle(_node_hooks(self).after, hook)


def register_prehook(self: Node, hook: Callable[[Any], Any]) -> RemovableHandle:
    """Call ``hook(grad_outputs)`` before a walk passes this node; what it returns replaces the gradients.

    It is called after the hooks of the node's Tensor, and not where ``autograd.grad`` ends at this node. Where
    ``backward(inputs=...)`` does, the hook is called, but does not change the gradient.
    """
    return RemovableHandle(_node_hooks(self).before, hook)


def _node_hooks(node: Node) -> NodeHooks:
    if node.plan.select is not None:  # stands for one output: the operator's own node is below it
        node = node.parents[0]
    if node.plan.node_hooks is None:
        hooks = NodeHooks()
        node.plan = hooked(node.plan, node, hooks)
        node.plan.node_hooks = hooks
    return node.plan.node_hooks


def register_leaf_hook(self: AccumulateGrad, hook: Callable[[Any, Any], Any]) -> RemovableHandle:
    """Call ``hook((), (grad,))`` after a walk has added to the leaf's ``.grad``.

    ``grad`` is what ``.grad`` holds then; PyTorch shows what was added.
    """

    def on_accumulation(leaf: Tensor) -> None:
        reentrant(hook, (), (leaf.grad,))

    return self.variable.register_post_accumulate_grad_hook(on_accumulation)


def register_leaf_prehook(self: AccumulateGrad, hook: Callable[[Any], Any]) -> RemovableHandle:
    """Call ``hook((grad,))`` before a walk adds a gradient to the leaf's ``.grad``; its result is added instead."""

    return RemovableHandle(_leaf_hooks(self.variable).before_accumulation, hook)


def _leaf_hooks(leaf: Tensor) -> LeafHooks:
    if leaf._hooks is None:
        leaf._hooks = LeafHooks()
    return leaf._hooks


_metadata: WeakKeyDictionary[Node, dict[str, Any]] = WeakKeyDictionary()


def metadata(self: Node) -> dict[str, Any]:
    """A dictionary for programs to write to, kept as long as the node."""
    return _metadata.setdefault(self, {})


def leaf_metadata(self: AccumulateGrad) -> dict[str, Any]:
    """A dictionary for programs to write to, kept as long as the leaf."""
    return _leaf_hooks(self.variable).metadata


Node.metadata = property(metadata)  # type: ignore[attr-defined]
AccumulateGrad.metadata = property(leaf_metadata)  # type: ignore[attr-defined]
AccumulateGrad.register_hook = register_leaf_hook  # type: ignore[attr-defined]
AccumulateGrad.register_prehook = register_leaf_prehook  # type: ignore[attr-defined]
Node.register_hook = register_node_hook  # type: ignore[attr-defined]
Node.register_prehook = register_prehook  # type: ignore[attr-defined]
