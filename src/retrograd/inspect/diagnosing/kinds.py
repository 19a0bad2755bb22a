"""The declaration of a kind of finding, and the case that rules examine."""

from __future__ import annotations

import copy
import math
import os
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import numpy as np

from ...core.source_location import Site
from ...core.tensor.tensor import Tensor
from ..record import Record
from .findings import JSON, Finding, as_json, figure
from .probes.replay import Budget
from .run import Optimized, Run
from .step_recorder import Array, Call, Source, Step, numbers

if TYPE_CHECKING:
    from .probes.replay import Curves, Edit, Program

R = TypeVar("R")

# Names of operators that are losses of a prediction and a target.
CLASS_LOSSES = frozenset({"cross_entropy", "nll_loss"})
PAIR_LOSSES = frozenset(
    ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits"]
)
_NO_LOSS = 1e-6
_DIED = 1e-9  # gradients up to this fraction of the first gradients count as 0
BINARY_LOSSES = frozenset({"binary_cross_entropy", "binary_cross_entropy_with_logits"})
LOSSES = CLASS_LOSSES | PAIR_LOSSES


class Place(NamedTuple):
    """A line of the program; ``Site`` and ``Record`` have the same attributes."""

    file: str
    line: int


class HasPlace(Protocol):
    """An object that refers to a line of the program."""

    @property
    def file(self) -> str:
        """The path of the file."""

    @property
    def line(self) -> int:
        """The number of the line."""


@dataclass
class Found:
    """The result of a rule: the line, figures for the texts and the evidence, and an edit that can be tried."""

    where: HasPlace | Place | Site | Record | None
    values: Mapping[str, object] = field(default_factory=dict)
    edit: Edit | None = None
    curves: Curves | None = None  # the losses with and without the edit, if the rule itself has tried the edit
    unproved: str = ""  # why a recorded step cannot show the effect of the edit
    message: str = ""  # used instead of the message of the kind
    fix: str = ""


Rule = Callable[["Case"], "Found | None"]


@dataclass(frozen=True)
class Kind:
    """A kind of finding: the question, the function that answers the question, and templates of message and fix."""

    name: str
    question: str
    message: str
    fix: str
    rule: Rule
    unproved: str = ""  # why a recorded step cannot show the effect of an edit of this kind


KINDS: dict[str, Kind] = {}


def kind(name: str, question: str, message: str, fix: str, unproved: str = "") -> Callable[[Rule], Rule]:
    """Decorate the rule of a kind of finding. The ``values`` of its result fill the fields of both templates."""

    def declare(rule: Rule) -> Rule:
        KINDS[name] = Kind(name, question, message, fix, rule, unproved)
        return rule

    return declare


class Case:
    """A run, with quantities derived from the run that several rules use."""

    def __init__(self, run: Run, budget: Budget | None = None) -> None:
        self.run = run
        self.budget = budget or Budget(run)  # the steps that all trials together may take
        self.failures: list[str] = []
        self._answers: dict[str, Found | None] = {}

    def answer(self, name: str) -> Found | None:
        """Return the result of the rule of a kind; the rule is called once."""
        if name not in self._answers:
            self._answers[name] = self.attempt(name, KINDS[name].rule)
        return self._answers[name]

    def attempt(self, name: str, function: Callable[[Case], R]) -> R | None:
        """Return ``function(self)``. If it raises an exception, record the failure and go on with the other rules."""
        try:
            return function(self)
        except Exception as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{os.path.basename(at.filename)}:{at.lineno}"
            self.failures.append(f"{name}: {type(error).__name__} in {place}, {error}")
            return None

    @cached_property
    def step(self) -> Step | None:
        """The last step that was recorded with a backward pass and its arrays."""
        return self.run.last

    @cached_property
    def losses(self) -> list[float]:
        """The losses of the steps of the main optimizer."""
        main = self.run.main
        found = main.losses if main is not None else self.run.losses
        return [x for x in found if not math.isnan(x) or self.run.bad is not None]

    def ends(self) -> tuple[float, float]:
        """Return the median loss of the first and of the last steps."""
        losses = self.losses
        if not losses:
            return math.nan, math.nan
        count = max(1, min(10, len(losses) // 5))
        return float(np.median(losses[:count])), float(np.median(losses[-count:]))

    def finite_ends(self) -> tuple[float, float]:
        """Return the first loss and the last finite loss; if all losses are finite, the medians of ``ends``."""
        first, last = self.ends()
        finite = [x for x in self.losses if math.isfinite(x)]
        if len(finite) == len(self.losses) or not finite:
            return first, last
        return finite[0], finite[-1]

    def course(self, of: Optimized | None = None) -> tuple[str, str]:
        """Return the first loss and the median of the last losses as texts, for the optimizer ``of`` if it is given."""
        losses = self.losses if of is None else of.losses
        first = next((x for x in losses if math.isfinite(x)), math.nan)
        last = float(np.median(losses[-max(1, min(10, len(losses) // 5)) :])) if losses else math.nan
        return figure(first), figure(last)

    @cached_property
    def stuck(self) -> bool:
        """Whether the loss did not fall, is not finite, or stays near that of guessing, after enough steps to tell."""
        first, last = self.ends()
        if not math.isfinite(last):
            return len(self.losses) >= 2
        if len(self.losses) < 10:
            return False
        if last > first - 0.1 * abs(first):
            return self.baseline is None or last > 0.6 * self.baseline
        return len(self.losses) >= 20 and self.baseline is not None and last > 0.8 * self.baseline

    @cached_property
    def died(self) -> bool:
        """Whether the loss no longer changes because the gradients of all parameters became 0 during the run."""
        sizes = [math.hypot(*x.gradients.values()) for x in self.main.history if x.gradients] if self.main else []
        return self.stuck and len(sizes) > 3 and max(sizes[-2:]) <= _DIED * max(sizes[:3])

    @cached_property
    def baseline(self) -> float | None:
        """The loss of the best constant prediction on the recorded batches, for known losses; None if it is 0.

        The loss of a constant is multiplied by the weight of the known loss in the program's loss, and summed over the
        backward passes of a step.
        """
        found, step = self._baseline(), self.step
        call = self.loss_call(step) if step is not None else None
        if found is None or step is None or call is None or not found > _NO_LOSS:
            return None
        passes = [root for root in step.roots if call.index in step.below(root.source)]
        if len(passes) == len(step.roots) == 1 and (total := self._sum_of_baselines(step, passes[0].scale)) is not None:
            return total
        same = [x for x in self.loss_calls(step) if (x.site, x.name) == (call.site, call.name)]
        slope = call.cotangent
        weight = abs(slope) / passes[-1].scale if slope is not None and math.isfinite(slope) and passes else 1.0
        return found * (weight or 1.0) * (len(same) if len(step.roots) >= len(same) else 1)

    def _sum_of_baselines(self, step: Step, scale: float) -> float | None:
        """Return the loss of constant predictions for a weighted sum of several known losses; None for other losses."""
        total = 0.0
        calls = self.loss_calls(step)
        for call in calls if len(calls) > 1 else ():
            found, slope = self._baseline(call), call.cotangent
            if found is None or not found > _NO_LOSS or slope is None or not math.isfinite(slope):
                return None
            total += abs(slope) / scale * found
        return total or None

    def _baseline(self, call: Call | None = None) -> float | None:
        step = self.step
        call = call or (self.loss_call(step) if step is not None else None)
        if step is None or call is None:
            return None
        found = self.target(step, call)
        if found is None or not found.size:
            return None
        target = np.concatenate([found[:0], *self.targets(call, found)]) if found.ndim else found
        if call.name in CLASS_LOSSES:
            shares = np.bincount(target.reshape(-1)[target.reshape(-1) >= 0].astype(int)) / target.size
            shares = shares[shares > 0]
            return float(-(shares * np.log(shares)).sum()) * (found.size if is_summed(call) else 1)
        count = found.size if is_summed(call) else 1
        if call.name == "mse_loss" and target.ndim:
            return float(np.var(target, axis=0).mean()) * count
        if call.name in BINARY_LOSSES and target.ndim and len(call.inputs) == 2:
            share = np.clip(target.astype(float).mean(axis=0), 0, 1)
            logs = np.log(np.clip(share, 1e-9, 1)), np.log(np.clip(1 - share, 1e-9, 1))
            return float(-(share * logs[0] + (1 - share) * logs[1]).mean()) * count
        return None

    @cached_property
    def rose(self) -> bool:
        """Whether a known loss was clearly above its start and the loss of guessing in a third of the first steps."""
        losses, base = self.losses, self.baseline
        early = np.asarray(losses[1 : max(10, len(losses) // 4)])
        if len(losses) < 30 or base is None or not all(map(math.isfinite, losses)):
            return False
        level = 1.25 * max(losses[0], base)
        return float(early.mean()) > level and float((early > level).mean()) > 1 / 3

    def targets(self, like: Call, found: np.ndarray) -> list[np.ndarray]:
        """Return the targets of all recorded steps whose loss is the same operator on examples of the same shape."""
        calls = [(step, self.loss_call(step)) for step in self.run.steps]
        same = [(step, call) for step, call in calls if call is not None and call.name == like.name]
        targets = [self.target(step, call) for step, call in same]
        return [x for x in targets if x is not None and x.shape[1:] == found.shape[1:] and x.ndim]

    def loss_calls(self, step: Step) -> list[Call]:
        """Return the calls of known losses that the backward passes of a step went through."""
        found: set[int] = set()
        for root in step.roots:
            found |= step.below(root.source)
        return [step.calls[i] for i in sorted(found) if step.calls[i].name in LOSSES]

    def loss_call(self, step: Step) -> Call | None:
        """Return the loss of the last backward pass of a step, if it is one of the known losses."""
        found = self.loss_calls(step)
        return found[-1] if found else None

    def target(self, step: Step, call: Call) -> np.ndarray | None:
        """Return the target of a loss as a NumPy array."""
        classes = call.params.get("classes")
        if classes is not None:
            return np.asarray(classes.index)
        if len(call.inputs) < 2 or not call.record.requires_grad:
            return None
        array = step.array(call.inputs[1]) if self.has_array(step, call.inputs[1]) else None
        return None if array is None else numbers(array)

    @staticmethod
    def has_array(step: Step, source: Source) -> bool:
        """Return whether the array of a source is still in the recording."""
        return source.call < 0 or len(step.calls[source.call].outputs) > source.output

    @cached_property
    def still(self) -> dict[int, Tensor]:
        """The leaves, by id, whose gradient was exactly zero in all recorded steps that computed it (at least two)."""
        leaves = {id(p): p for step in self.run.steps for root in step.roots for p in step.leaves(root.source)}
        found = {key: [step.arrived[key] for step in self.run.steps if key in step.arrived] for key in leaves}
        return {key: leaves[key] for key, seen in found.items() if len(seen) > 1 and not any(seen)}

    @cached_property
    def program(self) -> Program | None:
        """The last recorded step as a function of its parameters, if it can be run again."""
        from .probes.replay import program_of

        return program_of(self.run)

    @cached_property
    def graded(self) -> set[int]:
        """The ids of all parameters that had a gradient at some step."""
        return {key for x in self.run.optimizers for key in x.graded}

    @property
    def main(self) -> Optimized | None:
        """The optimizer with the most steps."""
        return self.run.main

    def edited(self, step: Step, call: Call | None) -> HasPlace | None:
        """Return the line to edit in order to change an operator: the line of its call, or the line that creates the
        layer if a container of this package calls the layer (as ``nn.Sequential`` calls ``nn.Softmax``)."""
        entry = step.module_of(call) if call is not None else None
        site = self.run.layer_site(step, entry) if entry is not None else None
        return site or (call.record if call is not None else None)

    def created(self, module: object) -> Site | None:
        """Return the line that creates a module; None if the module is a copy of another module."""
        known = self.run.created.get(id(module))
        return None if known is None or known[0]() is not module or known[1].file == copy.__file__ else known[1]

    def at_start(self, parameter: Tensor) -> Array:
        """Return a parameter's values before the first step."""
        for optimized in self.run.optimizers:
            if id(parameter) in optimized.start:
                return optimized.start[id(parameter)]
        step = self.run.first
        return None if step is None else step.values.get(id(parameter))


def all_leaves(step: Step) -> list[Tensor]:
    """Return the leaves that the calls of a step read, in order; a leaf that is read twice occurs twice."""
    return [x.leaf for call in step.calls for x in call.inputs if x.leaf is not None]


def is_summed(call: Call) -> bool:
    """Return whether a loss is a sum over examples."""
    if call.name in CLASS_LOSSES:
        return isinstance(call.params["classes"].divisor, int)
    return call.params.get("reduction") == "sum"


def finding(one: Kind, found: Found, curves: Curves | None, said: str) -> Finding:
    """Return the finding of a kind; ``said`` is the sentence about the trial of the edit."""
    where = found.where
    file, line = ("", 0) if where is None else (where.file, where.line)
    evidence: dict[str, JSON] = {name: as_json(value) for name, value in found.values.items()}
    if curves is not None:
        both: dict[str, JSON] = {"with": curves.fixed, "without": list(curves.own or curves.plain)}
        evidence["curves"] = both | ({"edited_loss": curves.plain} if curves.own else {})
    evidence["question"] = one.question
    evidence["proof"] = said
    message = found.message or one.message.format(**found.values)
    fix = found.fix or one.fix.format(**found.values)
    return Finding(one.name, file, line, f"{message} {said}".strip(), fix, evidence)
