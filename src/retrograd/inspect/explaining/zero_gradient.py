"""Reasons why a gradient is zero."""

from __future__ import annotations

from typing import Any

from ...core.arrays import Array
from ...core.arrays.devices import array_module, is_array
from ...core.graph.nodes import Node
from ...core.tensor.tensor import Tensor
from ...func.forward import jvp_through
from ..statistics import statistics
from ..stepping.rule_source import names_read, rule_source, source_of, user_function, values_read
from .flow import Flow, PathObserver
from .labels import call_of, counted, name_of

MAX_REASONS = 4  # the most operators listed as places where a gradient became zero
_ARRIVES = " that receive a gradient"

_RECTIFIERS = {"relu", "threshold"}
_BOUNDED = {"clamp", "clamp_min", "clamp_max", "hardtanh", "hardsigmoid"}
_CHOOSING = {"maximum": "larger", "minimum": "smaller"}
_SATURATING = {"sigmoid": (0, 1), "tanh": (-1, 1), "softmax": (0, 1)}
_READING = {"getitem", "embedding", "gather", "index_select", "take", "take_along_dim", "masked_select"}
_WRITING = {"setitem", "fill", "overwrite", "masked_fill", "where", "scatter", "index_fill", "index_copy"}
_JOINING = {"cat", "stack"}
_NORMALIZING = ("batch_norm", "layer_norm", "group_norm", "instance_norm")
_PRODUCTS = ("mul", "mm", "matmul", "linear", "mv", "dot", "conv", "addmm", "div", "rms_norm", *_NORMALIZING)


def reasons_of_zero(
    flow: Flow,
    tensor: Tensor,
    index: tuple[int, ...] | None,
    total: Array,
    observed: PathObserver,
    names: dict[int, str],
) -> list[str]:
    """Return why a gradient is zero, at all elements or at the index, and other unusual properties of the gradient."""
    reasons = []
    if tensor._node is not None and not tensor.retains_grad:
        made = call_of(tensor._node)
        reasons.append(
            f"its .grad stays None all the same: it is not a leaf, but the result of {made}; call retain_grad() first"
        )
    xp = array_module(total)
    for count, what in ((int(xp.isnan(total).sum()), "NaN"), (int(xp.isinf(total).sum()), "infinite")):
        if count:
            are = "is" if count == 1 else "are"
            reasons.append(f"{counted(count, 'element')} of it {are} {what}: inspect.guard() finds the cause")
    if not total.any():
        reasons += _of_whole(flow, total, observed, names)
    elif index is not None and total[index] == 0:
        reasons += _of_element(flow, index, total, names)
    for node in observed.faint:
        if why := _of_cancellation(node.operator, call_of(node), None, {}):
            reasons.append(f"only rounding errors arrive: {why}")
    return reasons


def _of_whole(flow: Flow, total: Array, observed: PathObserver, names: dict[int, str]) -> list[str]:
    if total.size == 0:
        return ["it has no elements"]
    if not any((g != 0).any() for _, g in flow.roots):
        return ["it is zero: the upstream gradient of the loss is all zeros"]
    alive = [call_of(node) for node, g in observed.uses.items() if g.any()]
    if alive:
        return [f"it is zero: the gradients of {counted(len(alive), 'use')} ({', '.join(alive[:MAX_REASONS])}) cancel"]
    ends = [_ended(flow, node, g, None, names) for node, g in observed.ends]
    for node, senders in observed.cancelled:
        ways = ", ".join(dict.fromkeys(call_of(sender) for sender in senders[:MAX_REASONS]))
        ends.append(f"the gradients of {counted(len(senders), 'use')} of {call_of(node)} ({ways}) cancel")
    unique = list(dict.fromkeys(ends))
    reasons = [f"it is zero: {text}" for text in unique[:MAX_REASONS]]
    if len(unique) > MAX_REASONS:
        reasons.append(f"and likewise at {len(unique) - MAX_REASONS} more operators")
    return reasons or ["it is zero: gradients from different operators cancel before they reach it"]


def _of_element(flow: Flow, index: tuple[int, ...], total: Array, names: dict[int, str]) -> list[str]:
    """Follow the element forward to the operators whose output does not depend on it."""
    one = array_module(total).zeros_like(total)
    one[index] = 1
    try:
        with flow.unfreed():
            tangents = jvp_through([root for root, _ in flow.roots], {flow.edge: one})
    except (RuntimeError, NotImplementedError):
        return [f"element {index} is zero"]
    tangents[flow.edge] = one
    ends = []
    for node in reversed(flow.order):
        if node is flow.edge or node not in flow.useful:
            continue
        moving = [tangents.get(parent) for parent in node.parents if parent in flow.useful]
        reach = next((t for t in moving if t is not None and not isinstance(t, tuple) and (t != 0).any()), None)
        mine = tangents.get(node)
        still = mine is None or not any((t != 0).any() for t in (mine if isinstance(mine, tuple) else (mine,)))
        if reach is not None and still:
            ends.append(_ended(flow, node, None, reach != 0, names))
    unique = list(dict.fromkeys(ends))
    if not unique:
        return [f"element {index} is zero: its effects cancel in the loss"]
    return [f"element {index} is zero: {text}" for text in unique[:MAX_REASONS]]


def _ended(flow: Flow, node: Node, g: Array | None, reach: Array | None, names: dict[int, str]) -> str:
    """Return why a node maps a cotangent ``g`` to zeros; with ``reach``, why changes of its input do not pass."""
    call, operator = call_of(node), node.operator
    if user_function(node.plan.primitive) is not None:
        return f"the backward of {call} returns zeros"
    read = values_read(node, flow.saved(node))
    arrays = {name: value for name, value in read.items() if is_array(value)}
    if any(0 in parent.shape for parent in node.parents if parent in flow.useful):
        return f"{call} reads no elements"
    if _is_constant(flow, node, read):
        return f"the derivative of {call} is zero everywhere"
    place = g if is_array(g) else None
    where = reach if reach is not None else None if place is None else place != 0
    said = (
        _of_rectifier(operator, call, arrays, where, reach is not None, node)
        or _of_single(operator, call, read, node)
        or _of_saturation(operator, call, arrays, where)
        or _of_minimum(operator, call, read)
        or _of_zero_factor(flow, node, call, read, names, where)
        or _of_cancellation(operator, call, place, read)
    )
    if said:
        return said
    some = "" if where is None or bool(where.all()) else " that depend on it" if reach is not None else _ARRIVES
    ways = [index for index, parent in enumerate(node.parents) if parent in flow.useful]
    if operator in _BOUNDED and ways == [0]:
        return f"all inputs of {call}{some} lie outside its bounds, where its derivative is 0"
    if operator in _CHOOSING and len(ways) == 1:
        return f"the other input of {call} is {_CHOOSING[operator]} at all elements{some}"
    padding = read.get("padding") if operator == "embedding" else None
    if padding is not None and reach is not None and bool(reach[padding].any()):
        return f"{call} gives no gradient to row padding_idx"
    if operator in _READING and reach is not None:
        return f"{call} does not read {'it' if flow.edge in node.parents else 'the elements it affects'}"
    if operator in _WRITING:
        return f"{call} replaces {'all values' + some if some else 'its values'}"
    if operator == "dropout":
        return f"{call} dropped {'all elements' + some if some else 'all of it'}"
    if operator in _JOINING and place is not None:
        return f"the upstream gradient of {call} is 0 in the part that comes from it"
    if node.plan.primitive.elementwise and len(ways) == 1:
        return f"the derivative of {call} is 0 at all inputs{some}{_range(arrays, node, ways[0], where)}"
    if reach is not None:
        return f"the output of {call} does not depend on it"
    return f"{call} passes no gradient on: its rule is {' '.join(rule_source(node).split())[:100]}"


def _is_constant(flow: Flow, node: Node, read: dict[str, Any]) -> bool:
    """Return whether the rules give zeros for all values of the inputs: the rules read no array."""
    primitive, ways = node.plan.primitive, [n for n, parent in enumerate(node.parents) if parent in flow.useful]
    zeroth = node.operator == "pow" and isinstance(read.get("y"), (int, float)) and read["y"] == 0
    if zeroth or node.operator == "sign":
        return True
    rules = None if primitive.joint is not None else primitive.rules
    for place in ways if rules else ():
        rule = rules[place] if rules and place < len(rules) else None
        if rule is None or any(is_array(read[name]) for name in names_read(node, place, read)):
            return False
        if not any(text in source_of(rule) for text in ("ZEROS(", "zero_rule", "zeros_like")):
            return False
    return bool(rules)


def _range(arrays: dict[str, Array], node: Node, place: int, where: Array | None) -> str:
    """Return the range of an input's values where a gradient arrives, if they are known."""
    parent, name = node.parents[place], node.plan.primitive.inputs[place]
    x = arrays.get(name, parent.array if isinstance(parent, Tensor) else None)
    if x is None or where is None or x.shape != where.shape:
        return ""
    found = statistics(x[where])
    low, high = f"{found.minimum:.4g}", f"{found.maximum:.4g}"
    return "" if not found.size else f", {low}" if low == high else f", from {low} to {high}"


def _of_rectifier(
    operator: str, call: str, arrays: dict[str, Array], where: Array | None, reached: bool, node: Node
) -> str:
    if operator not in _RECTIFIERS or "ans" not in arrays and "x" not in arrays:
        return ""
    value = arrays["ans"] if "ans" in arrays else arrays["x"]
    off: Array = value <= 0
    x, leaf = arrays.get("x"), node.parents[0]
    if x is None and isinstance(leaf, Tensor) and leaf.shape == off.shape and bool(((leaf.array <= 0) == off).all()):
        x = leaf.array
    if bool(off.all()):
        negative = _sign_of_input(node, x)
        which = "the input" if value.size == 1 else f"all {value.size:,} inputs"
        return f"{which} of {call} {'is' if value.size == 1 else 'are'} {negative}"
    if where is not None and where.shape == off.shape and bool(off[where].all()):
        negative = _sign_of_input(node, x, where)
        if (count := int(where.sum())) == 1:
            return f"the input of {call} that {'depends on it' if reached else 'receives a gradient'} is {negative}"
        by = "depend on it" if reached else "receive a gradient"
        return f"all {count:,} inputs of {call} that {by} are {negative}"
    return ""


def _sign_of_input(node: Node, x: Array | None, where: Array | None = None) -> str:
    """Return the sign of a rectifier's input where it is not positive, from values that the rule or a trace saved."""
    inputs = getattr(node.site, "inputs", None)
    values, sample = [getattr(inputs[0].source, name, None) if inputs else None for name in ("values", "samples")]
    if x is None and where is not None and sample and sample[0] is not None and sample[0].size == where.size:
        x = sample[0].reshape(where.shape)  # a small array is sampled as a whole
    if x is not None:
        values = statistics(x if where is None else x[where])
    if values is not None and values.minimum == values.maximum == 0:
        return "exactly 0"
    return "negative" if values is not None and not values.zeros else "0 or negative"


def _of_single(operator: str, call: str, read: dict[str, Any], node: Node) -> str:
    """Return the reason for softmax over a single element, also within another operator."""
    if "softmax" not in operator and operator not in ("cross_entropy", "logsumexp"):
        return ""
    shape = read["x"].shape if is_array(read.get("x")) else node.shape
    axis = read.get("dim", 1 if len(shape) > 1 else 0)
    if isinstance(axis, int) and shape and shape[axis] == 1:
        return f"{call} is over a single element, for which softmax is constant 1"
    return ""


def _of_saturation(operator: str, call: str, arrays: dict[str, Array], where: Array | None) -> str:
    bounds, value = _SATURATING.get(operator), arrays.get("ans")
    if bounds is None or value is None:
        return ""
    low, high = bounds
    if where is not None and where.shape == value.shape:
        value = value[where]
    if bool(((value == low) | (value == high)).all()):
        if value.size == 1:
            return f"the output of {call} is {low} or {high}: it is saturated"
        return f"all {value.size:,} outputs of {call} that matter are {low} or {high}: it is saturated"
    return ""


def _of_minimum(operator: str, call: str, read: dict[str, Any]) -> str:
    x, y = (value if is_array(value) else None for value in map(read.get, ("x", "y")))
    if operator.endswith("_loss") and x is not None and y is not None and x.shape == y.shape and bool((x == y).all()):
        return f"both inputs of {call} are equal, where its derivative is 0"
    if operator in ("square", "pow", "abs", "norm") and x is not None and not x.any():
        return f"all inputs of {call} are 0, where its derivative is 0"
    if operator == "cross_entropy":
        classes = read["classes"]
        if classes.counted is not None and not classes.counted.any():
            return f"all targets of {call} are ignored"
        if is_array(classes.weight) and not classes.weight.any():
            return f"the class weights of all targets of {call} are 0"
        if not read["smoothing"]:
            return f"the probability of every target class in {call} rounds to 1"
    return ""


def _of_zero_factor(
    flow: Flow, node: Node, call: str, read: dict[str, object], names: dict[int, str], where: Array | None
) -> str:
    """Return the reason for a product with a factor of zeros."""
    inputs = node.plan.primitive.inputs
    if not node.operator.startswith(_PRODUCTS):
        return ""
    ways = {index for index, parent in enumerate(node.parents) if parent in flow.useful}
    for index, name in enumerate(inputs):
        value: Any = read.get(name)
        if ways <= {index}:
            continue  # the gradient's own path is not a factor
        if isinstance(value, (int, float)) and value == 0:
            return f"{call} multiplies by the number 0"
        if not is_array(value) or not value.size:
            continue
        there = node.plan.primitive.elementwise and where is not None and where.shape == node.shape
        if not value.any() or there and not array_module(value).broadcast_to(value, node.shape)[where].any():
            parent = node.parents[index]
            what = "a constant" if parent is None else name_of(parent, names)
            return f"{call} multiplies by {name}, {what}, which is {'0 where it matters' if value.any() else 'all 0'}"
    return ""


def _of_cancellation(operator: str, call: str, g: Array | None, read: dict[str, Any]) -> str:
    """Return the reason for operators that remove a component of their input, such as the mean."""
    if operator in _NORMALIZING:
        return f"the upstream gradient changes only mean and scale, which {call} removes"
    if operator in ("softmax", "log_softmax"):
        axis = read.get("dim")
        if (
            g is not None
            and isinstance(axis, int)
            and bool((abs(g - g.mean(axis, keepdims=True)) > 1e-3 * abs(g)).any())
        ):
            return f"the probabilities of {call} round to 0 and 1: it is saturated"
        return f"the upstream gradient of {call} is constant along its axis, over which its outputs sum to a constant"
    return ""
