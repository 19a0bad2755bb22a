"""Plans for recording calls of a primitive: which values a node saves, and the arguments of each rule."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any, Literal, Protocol, get_args

from ...core.arrays import Array
from ..arrays.devices import is_array
from .handles import NodeHooks

Rule = Callable[..., Any]
Values = list[Any]
Inputs = tuple[object, ...]  # the inputs of a call of a primitive
Params = dict[str, Any]  # its parameters, by name
InPlace = Callable[[Array, Values, Array | None], Array | None]  # see the module ``in_place``

# What ``compile`` may know of a primitive's forward (``Primitive(computes=...)``):
#
# * a product of two matrices, or of rows and a matrix; a third input is added to each row;
# * the sum or the mean over the parameter ``dim``; the norm of order ``p`` of several arrays;
# * the elements copied to another dtype, memory or shape, or the inputs joined along ``dim``;
# * ``x[index]`` ("index") or a copy of x after ``x[index] = value`` ("store"), and the gradients of these: zeros with x
#   at the index ("place"), and x with zeros at the index ("erase").
Known = Literal[
    "x @ y", "x @ y.T", "x.T @ y", "sum", "mean", "norm", "copy", "reshape", "join", "index", "store", "place", "erase"
]
KNOWN: tuple[str, ...] = get_args(Known)

# In the rules of a ``Plan``: call the rule with the cotangent only, or with the tuple of all saved values.
ALONE, WHOLE = -1, -2


# Decorators of rules; bfloat16, in which NumPy cannot compute, adds one when it is first used.
calling: list[Callable[[Rule, Recordable], Rule]] = []


class Recordable(Protocol):
    """The attributes of a primitive that recording a call reads."""

    name: str
    inputs: tuple[str, ...]
    variadic: bool
    outputs: int
    residuals: tuple[str, ...]
    fills: bool
    elementwise: bool
    halves: Callable[..., Array] | None
    promote: str | None
    cheap: bool
    bfloat16: str
    in_place: InPlace | None
    piecewise_linear: bool
    rules: tuple[Rule | None, ...] | None
    called: Callable[[Rule], Rule] | None
    joint: Rule | None
    jvp: Rule | None
    jvps: tuple[Any, ...] | None
    layout: tuple[str, ...]
    position: dict[str, int]
    view: bool
    wide: bool

    def plan(self, mask: Any) -> Plan:
        """Return the plan for calls whose inputs need gradients according to ``mask``."""

    def saved_tensors(self, node: Any) -> tuple[Any, ...]:
        """Return the node's saved values as Tensors attached to the graph."""


def rule_arguments(rule: Rule) -> tuple[str, ...]:
    """Return the names of a rule's arguments, in order; for a wrapped rule, those of its ``reference``."""
    code = getattr(rule, "reference", rule).__code__
    return code.co_varnames[: code.co_argcount]


class Plan:
    """How calls of one primitive are recorded for one set of inputs that need gradients.

    ``keep`` says for each place of the primitive's layout whether its value is saved. ``rules`` are triples of an
    input's index, its rule (None with a ``joint`` rule), and the rule's second argument: the saved value at a place
    from 0 on, nothing for ``ALONE``, or the tuple of all saved values for ``WHOLE``.

    ``kept_params`` are pairs of a saved parameter's place and name, ``kept_residuals`` of the place and index of a
    residual, ``kept_shapes`` of a place and the index of the input whose shape is saved. ``blank`` is a list of None
    for the saved values, which a call fills in, followed by one item per input's storage if inputs are saved.
    """

    __slots__ = (
        "blank",
        "exact",
        "joint",
        "keep",
        "keep_ans",
        "keep_x",
        "keep_y",
        "keeps_arrays",
        "kept_inputs",
        "kept_params",
        "kept_residuals",
        "kept_shapes",
        "node_hooks",
        "primitive",
        "rules",
        "saves",
        "select",
        "several",
        "unary",
    )

    def __init__(self, primitive: Recordable, mask: int) -> None:
        self.primitive = primitive
        self.node_hooks: NodeHooks | None = None
        self.select: int | None = None
        self.several = primitive.outputs != 1
        # Gradients of elementwise primitives have the output's shape: the backward pass sums them only for an input of
        # another shape.
        self.exact = primitive.elementwise
        self.unary = len(primitive.inputs) == 1 and not primitive.variadic
        wanted: set[str] = set()
        self.joint: Any = None
        needed = [index for index in range(mask.bit_length()) if mask >> index & 1]
        rules: list[tuple[int, Any, int]] = []
        if primitive.joint is not None:
            wanted.update(rule_arguments(primitive.joint))
            self.joint = _called(_bind_joint(primitive.joint, primitive.position), primitive)
            rules = [(index, None, WHOLE) for index in needed]
        elif primitive.rules is not None:
            for index in needed:
                rule = primitive.rules[index]
                if rule is not None:
                    wanted.update(rule_arguments(rule))
                    bound, place = bind(rule, primitive.position)
                    rules.append((index, _called(bound, primitive), place))
        self.rules = tuple(rules)
        self.keep = tuple(name in wanted for name in primitive.layout)
        self.saves = any(self.keep)
        self.keep_x = self.keep[0]
        self.keep_y = len(primitive.inputs) == 2 and self.keep[1]
        width = len(primitive.inputs)
        self.keep_ans = self.keep[width]
        # Whether nodes save arrays that a backward pass frees. Saved parameters and residuals may be arrays or not:
        # ``frees`` checks.
        self.keeps_arrays = any(self.keep[: width + 1]) or self.joint is not None
        self.kept_inputs = tuple(place for place in range(width) if self.keep[place])
        self.kept_params: list[tuple[int, str]] = []
        self.kept_residuals: list[tuple[int, int]] = []
        self.kept_shapes: list[tuple[int, int]] = []
        for place in range(width + 1, len(self.keep)):
            if self.keep[place]:
                name = primitive.layout[place]
                shaped = name.removesuffix("_shape")
                if name in primitive.residuals:
                    self.kept_residuals.append((place, primitive.residuals.index(name)))
                elif shaped != name and shaped in primitive.inputs:
                    self.kept_shapes.append((place, primitive.inputs.index(shaped)))
                else:
                    self.kept_params.append((place, name))
        storages = width if self.kept_inputs and not primitive.variadic else 0
        self.blank: Values = [None] * (len(primitive.layout) + storages)

    def frees(self, saved: tuple[object, ...]) -> bool:
        """Return whether the saved values of a node contain arrays that a backward pass should free."""
        if self.keeps_arrays:
            return True
        for kept in (self.kept_params, self.kept_residuals):
            for place, _ in kept:
                if is_array(saved[place]):
                    return True
        return False


def _called(rule: Rule, primitive: Recordable) -> Rule:
    if primitive.called is not None:
        rule = primitive.called(rule)
    for change in calling:
        rule = change(rule, primitive)
    return rule


def bind(rule: Rule, position: dict[str, int], first: str = "g") -> tuple[Callable[..., Any], int]:
    """Return the rule and the place of its second argument, after the cotangent or tangent (see ``Plan``)."""
    arguments = rule_arguments(rule)
    assert arguments[0] == first, f"the first argument of a rule is {first}, not {arguments}"
    places = [position[name] for name in arguments[1:]]
    if not places:
        return rule, ALONE
    if len(places) == 1:
        return rule, places[0]
    if len(places) == 2:
        i, j = places
        return lambda g, saved: rule(g, saved[i], saved[j]), WHOLE
    get = itemgetter(*places)
    return lambda g, saved: rule(g, *get(saved)), WHOLE


def _bind_joint(rule: Rule, position: dict[str, int]) -> Callable[[Any, tuple[Any, ...], tuple[bool, ...]], Any]:
    names = rule_arguments(rule)[1:]

    def joint(g: object, saved: tuple[object, ...], needs: tuple[bool, ...]) -> Any:
        return rule(g, *[needs if name == "needs" else saved[position[name]] for name in names])

    return joint


def pull(rule: Any, place: int, g: Any, saved: Any) -> Any:
    """Return the result of a plan's rule for the cotangent ``g``."""
    return rule(g, saved[place]) if place >= 0 else rule(g) if place == ALONE else rule(g, saved)
