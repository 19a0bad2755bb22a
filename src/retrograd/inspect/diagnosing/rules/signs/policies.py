"""Check the sign of a policy's loss: a reward should increase, while a step lowers the loss."""

from __future__ import annotations

import linecache
import math
import re

import numpy as np

from .....core.source_location import Site
from .....core.tensor.tensor import new_tensor
from ....record import Record
from ...findings import figure
from ...kinds import Case, Found, HasPlace
from ...probes.replay import Changes, Program
from ...step_recorder import Array, Call, Params, Root, Source, Step, start_of

_REGRESSIONS = frozenset({"mse_loss", "smooth_l1_loss", "huber_loss", "l1_loss"})
_COSTS = re.compile(r"(?<![^\W_])(?:costs?|regrets?|penalty|penalties)(?![^\W_])", re.IGNORECASE)
_ROUNDING = 1e-4  # the largest rounding error of a sum of probabilities
_BETWEEN = frozenset({"exp", "sub", "add", "sum", "clamp", "where", "neg", "mean", "stack", "cat"})


def minimized_reward(case: Case) -> tuple[Record, str, Root] | None:
    """Return the line that needs the other sign, what it does, and the backward pass, if a policy avoids rewards.

    Costs and rewards differ only in meaning. If the numbers themselves do not show that they are rewards, weights of
    log-probabilities count as rewards, which environments usually return, unless names in the program contain "cost".
    """
    for step in case.run.steps:  # start with the least trained policy
        for root in step.roots:
            if root.source.call < 0 or root.inside:
                continue
            weighted = _weighted(step, root)
            found = weighted or _value_of_critic(case, step, root)
            why = "" if found is None else _are_rewards(found[2])
            if found is not None and (why or weighted is not None and not _names_costs(root.site)):
                return found[0], f"{found[1]}; {why}" if why else found[1], root
    return None


def _names_costs(where: HasPlace) -> bool:
    return any(map(_COSTS.search, linecache.getlines(where.file)))


def _are_rewards(numbers: np.ndarray) -> str:
    """Return a text that says why numbers that a policy minimizes are no costs; "" if this is not clear.

    Negative costs could fall without a bound. If most of the first costs already have the least value, nothing is left
    to learn.
    """
    if not numbers.size or not np.isfinite(numbers).all() or numbers.min() == numbers.max():
        return ""
    if numbers.max() <= 0:
        return f"the rewards are {figure(numbers.min())} to {figure(numbers.max())}, and get further below 0"
    least = float((numbers == numbers.min()).mean())
    if least > 0.5:
        return f"{least:.0%} of the rewards are the least one, {figure(numbers.min())}, already"
    return ""


def _weighted(step: Step, root: Root) -> tuple[Record, str, np.ndarray] | None:
    """Return the line, a text and the rewards, if a sum of log-probabilities times rewards is minimized."""
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
    # If all weights of a line are equal, they are the factor of a penalty and no rewards.
    kept = [one for one in found.values() if np.unique(np.concatenate([weight for _, weight, _ in one])).size > 1]
    if not kept or not all(sign > 0 for one in kept for sign, _, _ in one):
        return None
    what = "log-probabilities of actions, weighted by rewards, are minimized, without a minus sign"
    return kept[-1][-1][2].record, what, np.concatenate([weight for _, weight, _ in kept[-1]])


def lowered_spread(case: Case) -> tuple[Record, str, Root] | None:
    """Return the line of a term that is largest if all actions are equally likely, and that a policy's loss lowers.

    To detect an entropy however the program writes it, the term is computed again with multiples of the actions'
    scores and with the scores in reverse order: an entropy falls as the scores move apart, in any order.
    """
    step = case.step
    for root in step.roots if step is not None else ():
        below = sorted(step.below(root.source)) if step is not None else []
        if step is None or not any(_is_policy_term(step, step.calls[i]) for i in below):
            continue
        for index in below:
            call = step.calls[index]
            head = _scores(step, call) if slope_of(call) > 0 and call.outputs else None
            if head is not None and _is_spread(step, call, head):
                what = (
                    "a term that is largest if all actions are equally likely (an entropy) is minimized beside "
                    "log-probabilities weighted by numbers: the policy settles on one action before it knows rewards"
                )
                return _joining(step, call).record, what, root
    return None


def _joining(step: Step, call: Call) -> Call:
    """Return the call that adds a term to other terms of the loss."""
    while (reader := next((x for x in step.readers(call.index) if x.record.gradients is not None), None)) is not None:
        call = reader
        if sum(call.needs(place) for place in range(len(call.inputs))) > 1:
            break
    return call


def _is_policy_term(step: Step, call: Call) -> bool:
    """Return whether a call multiplies log-probabilities, or ratios of probabilities, by data that are not constant."""
    if call.name != "mul" or len(call.inputs) != 2 or call.needs(0) == call.needs(1):
        return False
    place = 0 if call.needs(0) else 1
    other = call.inputs[1 - place]
    weights = step.numbers(other) if Case.has_array(step, other) else np.zeros(0)
    return (
        weights.size > 1
        and bool((weights != weights.reshape(-1)[0]).any())
        and bool(likelihood(step, call.inputs[place]))
    )


def _scores(step: Step, call: Call) -> Call | None:
    """Return the layer on whose output alone a value depends; None if the value also depends on other data."""
    heads: set[int] = set()
    pending, seen = [x for x in call.inputs if x.call >= 0], {call.index}
    while pending:
        x = pending.pop()
        if x.call in seen:
            continue
        seen.add(x.call)
        one = step.calls[x.call]
        if one.weighted:
            heads.add(one.index)
            continue
        if not one.record.requires_grad or one.name in ("gather", "getitem", "take_along_dim"):
            return None
        if any(y.call < 0 and np.size(y.value) > 1 for y in one.inputs):
            return None
        pending += [y for y in one.inputs if y.call >= 0]
    head = step.calls[heads.pop()] if len(heads) == 1 else None
    return head if head is not None and head.outputs and head.shape[-1:] > (1,) else None


def _is_spread(step: Step, call: Call, head: Call) -> bool:
    program = Program(step, Source(call.index, 0, None, None))
    scores = np.asarray(head.outputs[0], np.float64)

    def term(x: np.ndarray) -> float:
        changes = Changes(calls={head.index: lambda *inputs, **params: new_tensor(x.astype(head.record.dtype))})
        return float(np.asarray(program.run({}, changes).array, np.float64).mean())

    spread = scores / (float(scores.std()) or 1.0)
    try:
        even, near, far, turned = term(0 * spread), term(spread), term(3 * spread), term(spread[..., ::-1])
    except Exception:
        return False
    return min(even - near, near - far) > 1e-2 * abs(even) and abs(turned - near) < 1e-3 * abs(even) and even > 0


def slope_of(call: Call) -> float:
    """Return the sign of the gradient with respect to the elements of a result; 0 if the elements' signs differ."""
    g = call.record.gradients
    if g is None or g.minimum < 0 < g.maximum or g.minimum == g.maximum == 0:
        return 0.0
    return 1.0 if g.maximum > 0 else -1.0


def likelihood(step: Step, source: Source) -> float:
    """Return 1 for a log-probability or an increasing function of one, -1 for a decreasing function, 0 for others."""
    sign = 1.0
    for _ in range(20):
        call = step.producer(source)
        if call is None:
            return 0.0
        divisor = step.producer(call.inputs[1]) if call.name == "sub" else None
        is_log = call.name == "log" and _is_probability(step, call.inputs[0])
        if is_log or call.name in ("log_softmax", "logsigmoid") or divisor is not None and divisor.name == "logsumexp":
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


def _is_probability(step: Step, source: Source) -> bool:
    """Return whether values are selected from numbers whose sum is 1, or from outputs of a sigmoid."""
    call = step.producer(step.origin(source, ("clamp", "add")))
    if call is None or not call.outputs or call.name == "sigmoid":
        return call is not None and call.name == "sigmoid"
    x = np.asarray(call.outputs[0])
    return bool(x.ndim and x.shape[-1] > 1 and (abs(x.sum(-1) - 1) < _ROUNDING).all())


def _weight(step: Step, source: Source, line: int) -> tuple[float, np.ndarray | None]:
    """Return the sign of a reward in the weight of a log-probability, and the rewards; 0 and None if not clear."""
    values, sign = None, 1.0
    for _ in range(20):
        if Case.has_array(step, source) and np.size(array := step.array(source)):
            values = np.asarray(array, dtype=float).reshape(-1)
        call = step.producer(source)
        if call is None:
            return sign, values
        if call.name == "neg":
            if call.record.line != line:
                return 0.0, None  # the other line may define the reward as a negated number, or change its sign
            sign = -sign
        place = 0
        if call.name == "sub" and len(call.inputs) == 2 and _is_computed(step, call.inputs[0]):
            place, sign = 1, -sign  # the weight is a baseline minus the reward
        elif call.name not in ("sub", "div", "neg", "mul", "add") and not call.moves:
            return sign, values
        if call.name == "mul" and (number := call.inputs[1].value) is not None and np.size(number) == 1:
            sign *= float(np.sign(np.asarray(number).reshape(-1)[0])) or 1.0
        source = call.inputs[place]
    return sign, values


def _is_computed(step: Step, source: Source) -> bool:
    """Return whether a value is the output of a layer: a baseline, not a reward."""
    call = step.producer(step.origin(source))
    return call is not None and call.weighted


def _value_of_critic(case: Case, step: Step, root: Root) -> tuple[Record, str, np.ndarray] | None:
    """Return the line, a text and the critic's targets, if an actor minimizes the predicted rewards of a critic."""
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
        if any(x.shape[-1:] != (1,) and len(x.shape) > 1 for x in outputs):
            continue
        given = {p for x in outputs for p in map(id, step.leaves(Source(x.index, 0, None, None)))}
        learned = _values_learned(case, mine) if given & held and all(slope_of(x) > 0 for x in outputs) else None
        if learned is not None:
            what = "the actor minimizes the value that the critic predicts, and the critic learns rewards"
            return head.record, what, learned
    return None


def _values_learned(case: Case, parameters: set[int]) -> np.ndarray | None:
    """Return the targets of the first regression by which an optimizer trains these parameters."""
    for step in case.run.steps:
        for root in step.roots:
            reached = {id(p) for p in step.leaves(root.source)}
            held = {id(p) for number in root.optimizers for p in case.run.optimizers[number].parameters}
            for call in case.loss_calls(step) if reached & parameters & held else ():
                target = case.target(step, call) if call.name in _REGRESSIONS else None
                if target is not None and call.index in step.below(root.source):
                    return np.asarray(target, np.float64).reshape(-1)
    return None


def undiscounted(case: Case, step: Step, call: Call) -> Found | None:
    """Return the finding for targets that are a network's prediction, undiscounted, plus data.

    The network learns these targets and then predicts larger targets, which grow without a bound. A discount, or a mask
    at the ends of episodes, keeps the targets finite.
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


def unread_ends(step: Step, call: Call) -> Found | None:
    """Return the finding for targets that add a network's prediction for each example, if the program does not use the
    selected 0/1 numbers of the examples, which probably say where an episode ends."""
    source = call.inputs[1] if len(call.inputs) > 1 else None
    if call.name not in _REGRESSIONS or source is None or source.call < 0 or call.needs(1):
        return None
    below = step.below(source, through_cuts=True)
    predicted = [x for entry in step.outermost() for x in entry.outputs if x.call in below]
    given = _selections(step)
    count = call.shapes[1][:1]
    used = {x.call for one in step.calls for x in one.inputs} | {x.call for one in step.modules for x in one.inputs}
    known = {id(x.source) for x in step.departures}
    starts = {start for one in step.calls for start in _memory_of(one.params)}
    for calls in given if predicted else ():
        read = [x for x in calls if x.index in used or id(x.record) in known or start_of(x.outputs[0]) in starts]
        if len(read) < 2 or not any(x.index in below for x in read):
            continue
        for x in calls:
            array = np.asarray(x.outputs[0])
            if any(x is y for y in read) or array.shape[:1] != count or array.size != count[0]:
                continue
            ends = float((array == 1).mean())
            if not bool(np.isin(array, (0, 1)).all()) or not 0 < ends < 0.5:
                continue
            what = (
                f"the target adds what a network predicts to data, for all examples, and nothing reads the 0/1 numbers "
                f"of the batch that line {x.record.line} selects ({ends:.0%} of them are 1): if they say where an "
                "episode ends, its last step gets the value of a state that never comes."
            )
            fix = "multiply the prediction by 0 where an episode ends: r + gamma * (1 - done) * value"
            made = step.producer(source)
            return Found(call.record if made is None else made.record, {"what": what, "fix": fix})
    return None


def _selections(step: Step) -> list[list[Call]]:
    """Return groups of calls that select the same rows from several arrays: three or more calls with one index."""
    found: dict[object, list[Call]] = {}
    for call in step.calls:
        if call.name in ("getitem", "index_select", "gather") and call.outputs and not call.needs(0):
            index = call.params.get("index")
            key = getattr(index, "key", index)
            key = key[0] if isinstance(key, tuple) and len(key) == 1 else key
            if isinstance(key, (slice, np.ndarray)):
                found.setdefault(str(key) if isinstance(key, slice) else key.tobytes(), []).append(call)
    return [x for x in found.values() if len(x) > 2]


def _memory_of(params: Params) -> list[int]:
    """Return the memory addresses of a call's array parameters, such as indices."""
    found: list[int] = []
    for value in params.values():
        key = getattr(value, "key", getattr(value, "index", value))
        parts = key if isinstance(key, tuple) else (key,)
        found += [start_of(x) for x in parts if isinstance(x, np.ndarray)]
    return found
