"""Primitives: operators defined by a forward function and one derivative rule per input.

A rule is a function of the cotangent ``g`` and of any further arguments, which are filled by name:

* the name of an input (``x``): its array, saved by the call;
* ``ans``: the output, saved;
* ``x_shape``: only the shape of input ``x``;
* a parameter of the call (``axis``), or a residual that the forward returned in addition to its result.

``Primitive("mul", np.multiply, "x y", [lambda g, y: g * y, lambda g, x: g * x])`` is therefore a complete operator: a
call saves exactly the values named by the rules of those inputs that need a gradient. Rules use operators and NumPy
functions, which accept arrays and Tensors, so one rule gives gradients, higher-order gradients and forward mode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from operator import itemgetter
from typing import Any, Literal
from weakref import WeakSet

import numpy as np
from numpy import ndarray

from ...core.arrays import Array
from ..arrays.devices import as_array_like, backend_of, is_array
from ..arrays.dtypes import INEXACT, get_default_dtype, is_array_or_number, is_differentiable, promoted
from ..arrays.fp_warnings import silently
from ..arrays.half_precision import in_float32
from ..arrays.layout import in_row_major
from ..errors import call_error, operator_error
from ..tensor.storage import Storage, Token, mark_created, share_view, shares_memory, token_of
from ..tensor.tensor import Tensor, new_tensor, to_array
from .call_node import attach, late_observers, node_of_call, saved_of, tell_late
from .modes import modes, unrecorded, watchers
from .nodes import NOTHING, Node, new_node, next_sequence
from .plan import KNOWN, InPlace, Known, Params, Plan, Rule, bind, rule_arguments

primitives: WeakSet[Primitive] = WeakSet()
# Functions applied to each new primitive; bfloat16, in which NumPy cannot compute, adds one when it is first used.
changes: list[Callable[[Primitive], None]] = []


class Primitive:
    """A named operator with its forward and its derivative rules.

    Args:
        name: the operator's name, shown in errors and graphs.
        forward: called with arrays (positional) and parameters (keywords); returns an array, with ``outputs`` a tuple
            of arrays, or with ``residuals`` the tuple ``(result, *residuals)``.
        inputs: the names of the inputs, separated by blanks; ``"*xs"`` for any number of inputs.
        vjps: the rule of each input, or None where no gradient exists.
        vjp: a single rule that returns the cotangents of all inputs; it may name ``needs``, a tuple of bools.
        jvps: for each input a rule ``rule(t, ...)`` that maps its tangent to the output's. A rule may name only what
            the input's ``vjps`` rule names. Give ``jvps`` only where transposing ``vjps`` would cost matrix products.
        promote: ``"same"`` converts all inputs to PyTorch's result type, ``"float"`` also converts integers to the
            default floating dtype, ``"no bool"`` raises an error for bools, ``"strict"`` for mixed floating dtypes.
        elementwise: the Jacobian is diagonal up to broadcasting, so forward mode uses the same rules.
        view: the result shares memory with the first input whenever the forward's array does.
        outputs: the number of outputs for a forward that returns a tuple of results; -1 for any number.
        residuals: names of the values that the forward returns after its result: constants that only rules read.
        write: in-place form ``write(out, *arrays, **params)``; a ufunc needs none.
        overwrites: ``write`` sets every element of ``out``.
        piecewise_linear: gradients do not depend on the inputs; with ``create_graph`` their derivatives are zero.
        signals: the forward may raise floating-point flags (log, division), which are suppressed.
        contiguous: results are in row-major order, as in PyTorch, whatever the order of the inputs.
        wide: half-precision inputs with Python numbers are computed in float32 (see arrays.half_precision).
        batch: the batching rule (see mapping.batching); elementwise primitives need none.
        shaped: True if the result's shape and dtype follow from the inputs', or ``shaped(make, *arrays, **params)``
            that returns ``make(shape, dtype)``, for meta tensors; False if the shape depends on elements.
        by_rows: like ``shaped=True``; elements depend on all elements of the first input along ``dim``, as in a sum.
        bfloat16: how results in it are computed: ``"rounded"`` from float32, unless an input (``"first"``: the first)
            is float32; ``"native"`` by forward and ``write``; ``"program"`` by operators, as for meta tensors.
        halves: a forward for inputs that are all bfloat16 (without ``promote``, some); rules must accept bfloat16, too.
        reference: the forward of an elementwise operator in NumPy's functions, with equal bits, which ``compile`` fuses
            instead of a forward that is not written in them.
        computes: what the forward computes, if ``compile`` knows more about it (see ``plan.Known``).
    """

    __slots__ = (
        "added", "batch", "bfloat16", "by_layout", "by_rows", "called", "cheap", "clips_by", "computes", "elementwise",
        "fills", "floats", "forward", "halves", "in_place", "inputs", "joint", "jvp", "jvps", "layout", "name",
        "of_sum", "outputs", "overwrites", "piecewise_linear", "plain", "plans", "position", "promote", "reference",
        "residuals", "rules", "shaped", "signals", "ufunc", "variadic", "view", "wide", "write", "__weakref__",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        forward: Callable[..., Any],
        inputs: str = "x",
        vjps: Sequence[Rule | None] | None = None,
        *,
        vjp: Rule | None = None,
        jvps: Sequence[Rule] | None = None,
        promote: str | None = None,
        elementwise: bool = False,
        view: bool = False,
        outputs: int = 1,
        residuals: str = "",
        write: Callable[..., Any] | None = None,
        overwrites: bool = False,
        signals: bool = False,
        piecewise_linear: bool = False,
        contiguous: bool = False,
        wide: bool = False,
        batch: Callable[[Any], Any] | None = None,
        shaped: Callable[..., Any] | bool | None = None,
        by_rows: bool = False,
        bfloat16: Literal["rounded", "first", "native", "program"] = "rounded",
        halves: Callable[..., Any] | None = None,
        reference: Callable[..., Any] | None = None,
        computes: Known | None = None,
    ) -> None:
        if computes is not None and computes not in KNOWN:
            raise ValueError(f"{name}: computes must be one of {', '.join(map(repr, KNOWN))}, got {computes!r}")
        self.name = name
        self.variadic = inputs.startswith("*")
        self.inputs = tuple(inputs.lstrip("*").split())
        self.rules = tuple(vjps) if vjps is not None else None
        self.called: Callable[[Rule], Rule] | None = None  # wraps each rule before it is called
        self.joint = vjp
        self.jvp: Rule | None = None  # set for a custom Function that defines forward mode
        self.promote, self.floats = promote, promote == "float"
        self.elementwise = elementwise
        self.cheap = elementwise  # whether the result costs little to compute again (``recomputed``)
        self.in_place: InPlace | None = None  # see the module ``in_place``
        self.clips_by: Primitive | None = None  # the mask in the rule of an operator that clips (``passes/maxima``)
        self.of_sum: Rule | None = None  # the forward of ``x + y`` instead of x, see ``compiler/passes/overwriting.py``
        self.added: Rule | None = None  # the forward that adds its first result to an array
        self.batch, self.shaped, self.halves, self.by_rows = batch, shaped, halves, by_rows
        self.bfloat16: str = bfloat16
        self.view, self.outputs = view, outputs
        self.fills = True  # cotangents of outputs without a gradient are passed as zeros, otherwise as None
        self.residuals = tuple(residuals.split())
        self.ufunc: Callable[..., Any] | None = None  # called as ufunc(x, y, out)
        if write is None and isinstance(forward, np.ufunc) and forward.nout == 1:
            write, overwrites = partial(_write_ufunc, forward), True
            self.ufunc, reference = silently(forward), forward
        self.reference, self.computes = reference, computes
        self.write, self.overwrites = write, overwrites
        self.piecewise_linear, self.wide = piecewise_linear, wide
        if contiguous:
            forward = in_row_major(forward, residuals != "")
        self.forward = silently(forward) if signals else forward
        self.signals = signals or promote is None  # without promotion, a write in place may convert its inputs
        self.plain = outputs == 1 and not view  # whether the fast path of ``apply`` handles the primitive
        self.plans: dict[Any, Plan] = {}
        read = [argument for rule in self._all_rules() for argument in rule_arguments(rule)]
        extras = [argument for argument in read if argument not in ("g", "needs")]
        self.layout = tuple(dict.fromkeys((*self.inputs, "ans", *extras)))
        self.by_layout = itemgetter(*self.layout)  # selects the saved values from a dictionary
        self.position = {argument: index for index, argument in enumerate(self.layout)}
        self.jvps = None if jvps is None else tuple([bind(rule, self.position, "t") for rule in jvps])
        primitives.add(self)
        for change in changes:
            change(self)

    def __repr__(self) -> str:
        return f"<primitive {self.name}>"

    def _all_rules(self) -> list[Rule]:
        if self.joint is not None:
            return [self.joint]
        return [rule for rule in self.rules or () if rule is not None]

    @property
    def differentiable(self) -> bool:
        """Whether any input has a gradient."""
        return self.rules is not None or self.joint is not None

    def __call__(self, *inputs: Any, **params: Any) -> Any:
        """Apply the primitive to arrays; if any input is a Tensor, return a Tensor and record the call."""
        for value in inputs:
            if isinstance(value, Tensor):
                return apply(self, inputs, params)
        forward = self.forward
        if watchers:
            if modes.level is not None:
                result = modes.level.on_arrays(self, inputs, params)
                if result is not NotImplemented:
                    return result[0] if self.residuals else result
            if modes.tracer is not None:
                forward = modes.tracer.forward_of(self)
        result = forward(*inputs, **params)
        return result[0] if self.residuals else result

    def plan(self, mask: Any) -> Plan:
        """Return the plan for calls whose inputs need gradients according to ``mask``: one bit or bool per input."""
        if type(mask) is tuple:
            mask = sum([need << index for index, need in enumerate(mask)])
        plan = self.plans.get(mask)
        if plan is None:
            plan = self.plans[mask] = Plan(self, mask)
        return plan

    def saved_tensors(self, node: Node) -> tuple[Any, ...]:
        """Return the node's saved values as Tensors attached to the graph, for rules that are themselves recorded."""
        saved = node.saved
        if not saved:
            return NOTHING
        values, storages = list(saved[: len(self.layout)]), saved[len(self.layout) :]
        if self.variadic:
            if values[0] is not None:
                values[0] = tuple(map(attach, values[0], node.parents, storages))
        else:
            for index, (edge, storage) in enumerate(zip(node.parents, storages, strict=False)):
                values[index] = attach(values[index], edge, storage)
        answer = len(self.inputs)
        if values[answer] is not None:
            if self.outputs == 1:
                values[answer] = attach(values[answer], node, storages[-1])
            else:
                answers = values[answer]
                places = zip(answers, range(len(answers)), storages[-len(answers) :], strict=True)
                values[answer] = tuple([_attach_output(x, node, k, storage) for x, k, storage in places])
        return tuple(values)


# The gradient of piecewise constant functions (floor, sign).
ZEROS: Primitive = Primitive("zeros", np.zeros_like, "x", [lambda g: ZEROS(g)], elementwise=True)

# Gives a gradient y a history that leads to x, although the value of y does not depend on x.
_ATTACH = Primitive("attach", lambda y, x: y, "y x", [lambda g: g, lambda g: ZEROS(g)], bfloat16="native")


def attached(g: Tensor, edge: object) -> Tensor:
    """Return ``g`` with a history that leads to ``edge`` and whose derivative is zero."""
    x = new_tensor(g.array)
    x._requires = True
    x._node = new_node(_ATTACH.plan(2), (None, edge), NOTHING, x.array.shape, x.array.dtype)
    return x


def _write_ufunc(ufunc: np.ufunc, out: Array, *arrays: object) -> None:
    ufunc(*arrays, out=out, casting="unsafe")


def _attach_output(array: Array, node: Node, index: int, storage: object) -> Tensor:
    """Return a saved output of a primitive with several outputs, attached to a new node that selects it."""
    edge = None
    if is_differentiable(array.dtype):
        edge = new_node(select_plan(index), (node,), NOTHING, array.shape, array.dtype)
    return attach(array, edge, storage)


@cache
def select_plan(index: int) -> Plan:
    """Return the plan of a node that selects output ``index`` of a primitive with several outputs."""
    plan = Plan(_SELECT, 1)
    plan.select = index
    return plan


_SELECT = Primitive("output", lambda x: x, "x", [lambda g: g], bfloat16="program")


# Python overhead dominates the cost of an operator on small arrays. The fast paths below therefore inline
# ``new_tensor``, ``new_node`` and ``storage_of``, and read the thread's mode only if some thread has switched recording
# off. If some thread has observers that are not ``late``, they call ``apply``.

_bare_tensor = Tensor.__new__


def apply1(primitive: Primitive, a: Tensor) -> Tensor:
    """Apply a unary primitive without parameters to a Tensor: a fast path of ``apply``."""
    observers = NOTHING
    if watchers:
        observers = late_observers(primitive)
        if not observers:
            return _apply(primitive, (_operand_of(primitive, a),), {})
    if not isinstance(a, Tensor):
        a = _operand_of(primitive, a)
    x = a.array
    if primitive.floats and x.dtype.kind not in "fcV":
        x = x.astype(get_default_dtype())
    try:
        out = primitive.forward(x)
    except Exception as error:
        raise operator_error(primitive.name, (a,), None, error) from None
    if type(out) is not ndarray and type(out) is not type(x):
        out = backend_of(x).asarray(out)
    t = _bare_tensor(Tensor)
    t.array = out
    t._grad = t._base = t._hooks = t._storage = None
    if not a._requires or unrecorded and not modes.grad_enabled or primitive.rules is None:
        t._requires = False
        t._node = None
        return tell_late(observers, primitive, (a,), (x,), {}, t) if observers else t
    try:
        plan = primitive.plans[1]
    except KeyError:
        plan = primitive.plan(1)
    t._requires = True
    t._node = node = Node()
    node.plan = plan
    parent = a._node
    node.left = a if parent is None else parent
    node.right = node.more = None
    node.shape = out.shape
    node.dtype = out.dtype
    node.sequence = next_sequence()
    node.hooks = node.site = None
    if plan.keep_ans:
        storage = t._storage = Token()
        if plan.keep_x:
            kept = a._storage
            if kept is None:
                kept = a._storage = Token()
            elif type(kept) is Storage:
                kept = token_of(a)
            node.saved = (x, out, kept, storage)
        else:
            node.saved = (None, out, storage)
    elif plan.keep_x:
        kept = a._storage
        if kept is None:
            kept = a._storage = Token()
        elif type(kept) is Storage:
            kept = token_of(a)
        node.saved = (x, None, kept)
    else:
        node.saved = NOTHING
    return tell_late(observers, primitive, (a,), (x,), {}, t) if observers else t


def apply2(primitive: Primitive, a: Any, b: Any) -> Tensor:
    """Apply a binary primitive without parameters to Tensors, arrays and numbers: a fast path of ``apply``."""
    observers = NOTHING
    if watchers:
        observers = late_observers(primitive)
        if not observers:
            return _apply(primitive, (a, b) if isinstance(a, Tensor) else (a, _operand_of(primitive, b)), {})
    left: Node | Tensor | None = None
    right: Node | Tensor | None = None
    mask = 0
    if isinstance(a, Tensor):
        x = a.array
        if a._requires:
            mask = 1
            left = a._node
            if left is None:
                left = a
        if isinstance(b, Tensor):
            y = b.array
            if b._requires:
                mask |= 2
                right = b._node
                if right is None:
                    right = b
            dtype = x.dtype
            if dtype is not y.dtype or primitive.floats and dtype.kind not in "fcV":
                if primitive.wide and (wide := in_float32(primitive, a, b)) is not None:
                    return wide
                x, y = promoted(primitive.name, primitive.promote, (a, b), (x, y))
        elif (type(b) is float or type(b) is int) and x.dtype.char in "fd":
            y = b
        else:
            if primitive.wide and x.dtype.itemsize == 2 and (wide := in_float32(primitive, a, b)) is not None:
                return wide
            x, y = promoted(primitive.name, primitive.promote, (a, b), (x, b))
    else:
        if not isinstance(b, Tensor):
            b = _operand_of(primitive, b)
        y = b.array
        if b._requires:
            mask = 2
            right = b._node
            if right is None:
                right = b
        if (type(a) is float or type(a) is int) and y.dtype.char in "fd":
            x = a
        else:
            if primitive.wide and y.dtype.itemsize == 2 and (wide := in_float32(primitive, a, b)) is not None:
                return wide
            x, y = promoted(primitive.name, primitive.promote, (a, b), (a, y))
    try:
        out = primitive.forward(x, y)
    except Exception as error:
        raise operator_error(primitive.name, (a, b), None, error) from None
    if type(out) is not ndarray and type(out) is not type(x) and type(out) is not type(y):
        out = backend_of(x if is_array(x) else y).asarray(out)
    t = _bare_tensor(Tensor)
    t.array = out
    t._grad = t._base = t._hooks = t._storage = None
    if not mask or unrecorded and not modes.grad_enabled or primitive.rules is None:
        t._requires = False
        t._node = None
        return tell_late(observers, primitive, (a, b), (x, y), {}, t) if observers else t
    try:
        plan = primitive.plans[mask]
    except KeyError:
        plan = primitive.plan(mask)
    t._requires = True
    t._node = node = Node()
    node.plan = plan
    node.left = left
    node.right = right
    node.more = None
    node.shape = out.shape
    node.dtype = out.dtype
    node.sequence = next_sequence()
    node.hooks = node.site = None
    if plan.saves:
        x_storage = y_storage = None
        if plan.keep_x:
            if left is not None or isinstance(a, Tensor):
                x_storage = a._storage
                if x_storage is None:
                    x_storage = a._storage = Token()
                elif type(x_storage) is Storage:
                    x_storage = token_of(a)
        else:
            x = None
        if plan.keep_y:
            if right is not None or isinstance(b, Tensor):
                y_storage = b._storage
                if y_storage is None:
                    y_storage = b._storage = Token()
                elif type(y_storage) is Storage:
                    y_storage = token_of(b)
        else:
            y = None
        if plan.keep_ans:
            storage = t._storage = Token()
            node.saved = (x, y, out, x_storage, y_storage, storage) if plan.kept_inputs else (None, None, out, storage)
        else:
            node.saved = (x, y, None, x_storage, y_storage)
    else:
        node.saved = NOTHING
    return tell_late(observers, primitive, (a, b), (x, y), {}, t) if observers else t


def apply(primitive: Primitive, inputs: tuple[Any, ...], params: Params, beside: list[Any] | None = None) -> Any:
    """Run a primitive on Tensors, arrays and numbers, and record the call if an input requires grad.

    Residuals are appended to ``beside``. Primitives with one output that is not a view are handled here; views,
    several outputs, observers and ``vmap`` are handled by ``_apply``, except for ``late`` observers.
    """
    observers = NOTHING
    if watchers or not primitive.plain:
        observers = late_observers(primitive)
        if not observers or primitive.wide:
            return _apply(primitive, inputs, params, beside)
    arrays: Any = []
    parents: list[Any] = []
    mask, bit = 0, 1
    for value in inputs:
        edge = None
        if isinstance(value, Tensor):
            if value._requires:
                mask |= bit
                edge = value if value._node is None else value._node
            value = value.array
        arrays.append(value)
        parents.append(edge)
        bit += bit
    if primitive.promote is not None and (  # arrays of one dtype are converted only to floating numbers
        (type(value) is not ndarray or primitive.floats and value.dtype.kind not in INEXACT)
        or (bit != 2 and (bit != 4 or type(x := arrays[0]) is not ndarray or x.dtype is not value.dtype))
    ):
        arrays = promoted(primitive.name, primitive.promote, inputs, tuple(arrays))
    try:
        out = primitive.forward(*arrays, **params)
    except Exception as error:
        raise operator_error(primitive.name, inputs, params, error) from None
    residuals: Sequence[Any] = NOTHING
    if primitive.residuals:
        out, *residuals = out
        if beside is not None:
            beside.extend(residuals)
    if type(out) is not ndarray and not is_array(out):
        out = as_array_like(out, arrays)
    t = _bare_tensor(Tensor)
    t.array = out
    t._grad = t._base = t._hooks = t._storage = t._node = None
    t._requires = False
    if not mask or unrecorded and not modes.grad_enabled or out.dtype.kind not in INEXACT:
        return tell_late(observers, primitive, inputs, arrays, params, t) if observers else t
    try:
        plan = primitive.plans[mask]
    except KeyError:
        plan = primitive.plan(mask)
    if plan.rules:
        t._requires = True
        t._node = node = Node()
        node.plan = plan
        node.left = parents[0]
        if bit == 2 and plan.unary:
            node.right = node.more = None
        elif bit == 4 and not plan.unary:
            node.right = parents[1]
            node.more = None
        else:
            node.right, node.more = parents[1] if bit > 2 else None, tuple(parents)
        node.saved = saved_of(plan, inputs, arrays, params, residuals, out, (t,)) if plan.saves else NOTHING
        node.shape = out.shape
        node.dtype = out.dtype
        node.sequence = next_sequence()
        node.hooks = node.site = None
    return tell_late(observers, primitive, inputs, arrays, params, t) if observers else t


_NOBODY: tuple[tuple[Any, ...], Any] = (), None


def _apply(primitive: Primitive, inputs: tuple[Any, ...], params: Params, beside: list[Any] | None = None) -> Any:
    """The general path of ``apply``."""
    observers, level = (modes.observers, modes.level) if watchers else _NOBODY
    tracer = modes.tracer if observers else None
    follow = None if tracer is None or beside is not None else tracer.follow
    if follow is not None and (out := follow(primitive, inputs, params)) is not NotImplemented:
        return out
    if primitive.wide and (wide := in_float32(primitive, *inputs)) is not None:
        return wide
    for observer in observers:
        observer.calling(primitive, inputs, params)
    forward = primitive.forward if tracer is None else tracer.forward_of(primitive)
    entered = None if level is None else level.entering(primitive, inputs, params)
    if entered is not None:
        inputs, forward = entered
    arrays = tuple([value.array if isinstance(value, Tensor) else value for value in inputs])
    try:
        if primitive.promote is not None:
            arrays = promoted(primitive.name, primitive.promote, inputs, arrays)
        for observer in observers:
            forward = observer.answering(primitive, inputs, arrays, params, forward)
        try:
            out = forward(*arrays, **params)
        except Exception as error:
            raise operator_error(primitive.name, inputs, params, error) from None
    except BaseException as error:
        for observer in observers:
            observer.failed(primitive, inputs, params, error)
        raise
    residuals: tuple[Any, ...] = ()
    if primitive.residuals:
        out, *residuals = out
        if beside is not None:
            beside.extend(residuals)
    needs = tuple([isinstance(value, Tensor) and value._requires for value in inputs])
    record = primitive.differentiable and modes.grad_enabled and True in needs
    if primitive.outputs != 1:
        outs = [out_ if is_array(out_) else as_array_like(out_, arrays) for out_ in out]
        tensors = tuple([new_tensor(array) for array in outs])
    else:
        if type(out) is not ndarray and not is_array(out):
            out = as_array_like(out, arrays)
        outs = [out]
        tensors = (new_tensor(out),)
        record = record and is_differentiable(out.dtype)
    node = node_of_call(primitive, inputs, arrays, params, residuals, outs, tensors, needs) if record else None
    if node is not None:
        if primitive.outputs == 1:
            tensors[0]._node = node
            tensors[0]._requires = True
        else:
            for index, tensor in enumerate(tensors):
                if is_differentiable(tensor.dtype):
                    array = tensor.array
                    tensor._node = new_node(select_plan(index), (node,), NOTHING, array.shape, array.dtype)
                    tensor._requires = True
    if primitive.view and isinstance(inputs[0], Tensor):
        for tensor in tensors:
            if shares_memory(tensor.array, arrays[0]):
                share_view(tensor, inputs[0], modes.grad_enabled)
    if level is not None and entered is None:
        mark_created(tensors, arrays, level)
    for observer in observers:
        observer.called(primitive, inputs, params, tensors, node)
    return tensors if primitive.outputs != 1 else tensors[0]


def is_operand(value: Any) -> bool:
    """Return whether operators accept the value: a Tensor, an array of a known library, or a number."""
    return isinstance(value, Tensor) or is_array_or_number(value)


def operand(value: Any, argument: str = "input") -> Tensor:
    """Return an operator's argument as a Tensor. Raise TypeError unless it is a Tensor, an array or a number."""
    if isinstance(value, Tensor):
        return value
    if is_array_or_number(value):
        return new_tensor(to_array(value, copy=False))
    raise TypeError(f"argument {argument!r} must be a Tensor, not {type(value).__name__}")


def _operand_of(primitive: Primitive, value: Any) -> Tensor:
    try:
        return operand(value)
    except TypeError as error:
        raise call_error(TypeError, primitive.name, (value,), None, str(error)) from None
