"""Derivative rules within a trace: traced as all else, or one instruction each where they cannot be."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any, Protocol

from ...core.graph.plan import WHOLE, Plan
from ...core.tensor.tensor import Tensor
from ..program import Program


class Whole(Exception):
    """A rule does something that is not to be traced: it becomes one instruction."""


class Tracing(Protocol):
    """What rules need of the tracer."""

    program: Program

    @property
    def recording(self) -> bool:
        """Whether what happens on this thread now belongs in the program."""

    def call(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], *, kind: str = ""
    ) -> Any:
        """Call a function and record it."""


class Rules:
    """The plans of nodes that a tracer meets, with rules that it is told of."""

    def __init__(self, tracer: Tracing) -> None:
        self.attempts = 0  # rules that are running and may become one instruction
        self._tracer = tracer
        self._plans: dict[int, tuple[Plan, Plan]] = {}

    def traced(self, plan: Plan) -> Plan:
        """The plan with rules that become one instruction where they cannot be traced."""
        known = self._plans.get(id(plan))
        if known is not None:
            return known[1]
        own = copy(plan)
        width = len(plan.primitive.layout)
        own.rules = tuple(
            (index, None if rule is None else self._attempted(rule, width if place == WHOLE else 0), place)
            for index, rule, place in plan.rules
        )
        own.joint = None if plan.joint is None else self._attempted(plan.joint, width)
        self._plans[id(plan)] = plan, own
        return own

    def plan_of(self, node: Any) -> Plan:
        """A node's plan as it is without a trace."""
        return next((plan for plan, own in self._plans.values() if own is node.plan), node.plan)

    def _attempted(self, rule: Callable[..., Any], width: int) -> Callable[..., Any]:
        tracer = self._tracer

        def run(g: Any, *rest: Any) -> Any:
            if width:  # without the storages behind
                rest = (rest[0][:width], *rest[1:])
            if not tracer.recording or isinstance(g, Tensor):
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

        return run
