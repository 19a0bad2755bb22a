"""Trace derivative rules, or record a rule that cannot be traced as one instruction."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, Protocol

from ...core.arrays import Array
from ...core.graph.plan import WHOLE, Plan
from ...core.tensor.tensor import Tensor
from ..program import Program


class Whole(Exception):
    """A derivative rule cannot be traced and becomes one instruction."""


class Tracing(Protocol):
    """The part of the tracer that rules use."""

    program: Program

    @property
    def tracing(self) -> bool:
        """Whether calls on this thread belong to the program."""

    def call(
        self, function: Callable[..., Any], args: tuple[object, ...], kwargs: dict[str, object], *, kind: str = ""
    ) -> Any:
        """Call a function and record it."""


class Rules:
    """The plans of the nodes in a trace, with rules that the tracer handles."""

    def __init__(self, tracer: Tracing) -> None:
        self.attempts = 0  # running rules that can still become one instruction
        self._tracer = tracer
        self._plans: dict[int, tuple[Plan, Plan]] = {}

    def traceable(self, plan: Plan) -> Plan:
        """Return the plan with rules that become one instruction if they cannot be traced."""
        known = self._plans.get(id(plan))
        if known is not None:
            return known[1]
        own = copy(plan)
        width = len(plan.primitive.layout)
        own.rules = tuple(
            (index, None if rule is None else self._traced_or_whole(rule, width if place == WHOLE else 0), place)
            for index, rule, place in plan.rules
        )
        own.joint = None if plan.joint is None else self._traced_or_whole(plan.joint, width)
        self._plans[id(plan)] = plan, own
        return own

    def plan_of(self, node: Any) -> Plan:
        """Return the original plan of a node."""
        return next((plan for plan, own in self._plans.values() if own is node.plan), node.plan)

    def _traced_or_whole(self, rule: Callable[..., Any], width: int) -> Callable[..., Any]:
        tracer = self._tracer

        def trace_rule(g: Array, *rest: Any) -> Any:
            if width:  # drop the storages that follow the arrays
                rest = (rest[0][:width], *rest[1:])
            if not tracer.tracing or isinstance(g, Tensor):
                return rule(g, *rest)
            mark = len(tracer.program.instructions)
            self.attempts += 1
            try:
                return rule(g, *rest)
            except Whole:
                del tracer.program.instructions[mark:]
            finally:
                self.attempts -= 1
            return tracer.call(rule, (g, *rest), {}, kind="whole")

        return trace_rule
