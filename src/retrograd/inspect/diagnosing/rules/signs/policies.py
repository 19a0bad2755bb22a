"""The sign of the loss of a policy: a reward is to grow, and a step lowers the loss."""

from __future__ import annotations

import linecache
import math
import re
import tokenize
from functools import lru_cache
from io import StringIO

import numpy as np

from .....core.source_location import Site
from ....record import Record
from ...findings import figure
from ...kinds import Case, Found, HasPlace
from ...probes.replay import Changes, Program
from ...recording import Array, Call, Root, Source, Step

_REWARDS = frozenset(
    ["reward", "rewards", "rew", "rews", "returns", "ret", "rets", "advantage", "advantages", "adv"]
    + ["gain", "gains", "payoff", "payoffs", "utility", "utilities"]
)
_REWARD = re.compile(rf"(?<![^\W_])(?:{'|'.join(_REWARDS)})(?![^\W_])", re.IGNORECASE)
_COSTS = frozenset({"cost", "costs", "regret", "penalty"})
_REGRESSIONS = frozenset({"mse_loss", "smooth_l1_loss", "huber_loss", "l1_loss"})
_BETWEEN = frozenset({"exp", "sub", "add", "sum", "clamp", "where", "neg", "mean", "stack", "cat"})


def minimized_reward(case: Case) -> tuple[Record, str, Root] | None:
    """Return the line that needs the other sign, what it does, and the backward pass, if a policy avoids rewards.

    The sign of a reward and that of a cost differ by their meaning only, so the program has to name rewards, and no
    costs.
    """
    for step in reversed(case.run.steps):
        for root in step.roots:
            if root.source.call < 0 or root.inside or not _rewarded(root.site):
                continue
            found = _weighted(step, root) or _value_of_critic(case, step, root)
            if found is not None:
                return *found, root
    return None


@lru_cache(maxsize=8)
def _words(program: str) -> set[str]:
    """Return the words in the names of a program, without its comments and texts."""
    try:
        lines = StringIO(program).readline
        names = [x.string.lower() for x in tokenize.generate_tokens(lines) if x.type == tokenize.NAME]
    except (SyntaxError, tokenize.TokenError):
        return set()
    return {word for name in names for word in (name, *name.split("_"))}


def _rewarded(where: HasPlace) -> bool:
    program = "".join(linecache.getlines(where.file))
    if _REWARD.search(program) is None:  # also in comments and texts
        return False
    words = _words(program)
    return bool(words & _REWARDS) and not words & _COSTS


def _weighted(step: Step, root: Root) -> tuple[Record, str] | None:
    """Return the finding for log-probabilities times rewards whose sum is minimized."""
    found: dict[Site, list[tuple[float, np.ndarray, Call]]] = {}
    for index in sorted(step.below(root.source)):
        call = step.calls[index]
        if call.name != "mul" or len(call.inputs) != 2 or call.needs(0) == call.needs(1):
            continue
        place = 0 if call.needs(0) else 1
        sign, slope = likelihood(step, call.inputs[place]), slope_of(call)
        number, weight = _weight(step, call.inputs[1 - place], call.record.line)
        if not sign or not slope or not number or weight is None:
            continue
        found.setdefault(call.site, []).append((sign * slope * number, weight, call))
    # A line on which all weights are one number has the factor of a penalty, and no rewards.
    kept = [one for one in found.values() if np.unique(np.concatenate([weight for _, weight, _ in one])).size > 1]
    if not kept or not all(sign > 0 for one in kept for sign, _, _ in one):
        return None
    return kept[-1][-1][
        2
    ].record, "log-probabilities of actions, weighted by rewards, are minimized, without a minus sign"


def _named(code: str) -> bool:
    """Return whether a piece of code names a reward."""
    return any(word in _REWARDS for name in re.findall(r"[a-z_]+", code.lower()) for word in name.split("_"))


def slope_of(call: Call) -> float:
    """Return the sign of the gradient of the loss with respect to all elements of a result; 0 if they differ.

    It is 0 also below several backward passes, such as those of a critic and a generator.
    """
    g = call.record.gradients
    if g is None or call.record.passes > 1 or g.minimum < 0 < g.maximum or g.minimum == g.maximum == 0:
        return 0.0
    return 1.0 if g.maximum > 0 else -1.0


def likelihood(step: Step, source: Source) -> float:
    """Return 1 for a log-probability or a function that grows with it, -1 for a negated one, 0 for something else."""
    sign = 1.0
    for _ in range(20):
        call = step.producer(source)
        if call is None:
            return 0.0
        divisor = step.producer(call.inputs[1]) if call.name == "sub" else None
        if call.name in ("log_softmax", "logsigmoid", "log") or divisor is not None and divisor.name == "logsumexp":
            return sign
        if call.name in ("cross_entropy", "nll_loss"):
            return -sign
        place = next((i for i in range(len(call.inputs)) if call.needs(i)), None)
        if place is None or not (call.moves or call.name in _BETWEEN):
            return 0.0
        if call.name == "neg" or call.name == "sub" and place == 1:
            sign = -sign
        source = call.inputs[place]
    return 0.0


def _weight(step: Step, source: Source, line: int) -> tuple[float, np.ndarray | None]:
    """Return the sign with which a reward enters a weight of a line, and the weight; 0 if this is not clear."""
    if not Case.has_array(step, source):
        return 0.0, None
    array = step.array(source)
    values = np.asarray(array, dtype=float).reshape(-1) if np.size(array) else None
    sign = 1.0
    for _ in range(20):
        call = step.producer(source)
        if call is None:
            return sign, values
        if call.name == "neg":
            left, _, right = call.site.code.partition("=")
            if _named(left) and not _named(right):
                return sign, values  # this line defines the reward
            if call.record.line != line and not _named(right):
                return 0.0, None
            sign = -sign
        place = 0
        if call.name == "sub" and len(call.inputs) == 2 and _is_computed(step, call.inputs[0]):
            place, sign = 1, -sign  # a baseline minus the reward
        elif call.name not in ("sub", "div", "neg", "mul", "add") and not call.moves:
            return sign, values
        if call.name == "mul" and (number := call.inputs[1].value) is not None and np.size(number) == 1:
            sign *= float(np.sign(np.asarray(number).reshape(-1)[0])) or 1.0
        source = call.inputs[place]
    return sign, values


def _is_computed(step: Step, source: Source) -> bool:
    """Return whether a value is the output of a network's layer: a baseline, not a reward."""
    call = step.producer(step.origin(source))
    return call is not None and call.weighted


def _value_of_critic(case: Case, step: Step, root: Root) -> tuple[Record, str] | None:
    """Return the finding for an actor that minimizes what a critic predicts; the critic learns rewards."""
    acting = [case.run.optimizers[number] for number in root.optimizers]
    held = {id(p) for x in acting for p in x.parameters}
    below = step.below(root.source)
    head = step.producer(step.origin(root.source))
    if not acting or head is None or head.name not in ("mean", "sum", "neg"):
        return None
    for entry in step.outermost():
        mine = {id(p) for p in entry.module.parameters()}
        outputs = [step.calls[x.call] for x in entry.outputs if x.call in below]
        if not mine or mine & held or not outputs or not entry.grad_enabled:
            continue
        if any(x.shape[-1:] != (1,) and len(x.shape) > 1 for x in outputs) or not _learns_values(case, mine):
            continue
        given = {p for x in outputs for p in map(id, step.leaves(Source(x.index, 0, None, None)))}
        if given & held and all(slope_of(x) > 0 for x in outputs):
            what = "the actor minimizes the value that the critic predicts, and the critic learns rewards"
            return head.record, what
    return None


def _learns_values(case: Case, parameters: set[int]) -> bool:
    """Return whether an optimizer trains these parameters by a regression."""
    for step in case.run.steps:
        for root in step.roots:
            reached = {id(p) for p in step.leaves(root.source)}
            held = {id(p) for number in root.optimizers for p in case.run.optimizers[number].parameters}
            names = {step.calls[i].name for i in step.below(root.source)}
            if reached & parameters and held & parameters and names & _REGRESSIONS:
                return True
    return False


def undiscounted(case: Case, step: Step, call: Call) -> Found | None:
    """Return the finding for targets that are what a network predicts, times 1, plus data: they grow without an end.

    The network learns these targets, so that it predicts larger ones next. A discount, or a mask of the ends of
    episodes, keeps them finite.
    """
    source = call.inputs[1]
    if call.name not in ("mse_loss", "smooth_l1_loss", "huber_loss") or source.call < 0 or call.needs(1):
        return None
    below = step.below(source, through_cuts=True)
    ends = [x for entry in step.outermost() for x in entry.outputs if x.call in below and x.output == 0]
    predicted = {id(p) for p in step.leaves(call.inputs[0])}
    shapes = [tuple(step.calls[x.call].shape) for x in ends]
    if len(ends) != 1 or not predicted or shapes[0] != call.shapes[1] or math.prod(shapes[0]) < 8:
        return None
    program, index = Program(step, source), ends[0].call
    primitive: Array = step.calls[index].primitive

    def targets(more: float) -> np.ndarray:
        def moved(*inputs: Array, **params: Array) -> Array:
            return primitive(*inputs, **params) + more

        return np.asarray(program.run({}, Changes(calls={index: moved})).array, np.float64)

    try:
        before, after = targets(0.0), targets(1.0)
        given = before - np.asarray(program.run({}, wanted=ends[0]).array, np.float64)
    except Exception:
        return None
    if not bool((np.abs(after - before - 1) < 1e-3).all()) or not float(given.std()) > 1e-3 * float(
        np.abs(given).max()
    ):
        return None
    series = [case.target(one, x) for one in case.run.steps for x in case.loss_calls(one) if x.site is call.site]
    sizes = [abs(float(x.mean())) for x in series if x is not None]
    if len(sizes) < 3 or not sizes[-1] > 2 * max(sizes[:2]) or not sizes[-1] > float(np.abs(given).max()):
        return None
    what = (
        "the target is what a network predicts for other inputs, with the factor 1 for all examples, plus numbers: it "
        f"grows as the network learns it, in the recorded steps from {figure(sizes[0])} to {figure(sizes[-1])} on "
        "average."
    )
    fix = "multiply the prediction by a discount below 1, and by 0 where an episode ends: r + gamma * mask * value"
    made = step.producer(source)
    return Found(call.record if made is None else made.record, {"what": what, "fix": fix})
