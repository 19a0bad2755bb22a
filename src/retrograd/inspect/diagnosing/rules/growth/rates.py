"""Rules on learning rates and weight decay, from the history of a run and from trials at other rates."""

from __future__ import annotations

import inspect
import linecache
import math
import tokenize
from dataclasses import replace

import numpy as np

from .....core.tensor.tensor import Tensor
from .....optim.sgd import SGD
from ...findings import figure
from ...kinds import CLASS_LOSSES, Case, Found, HasPlace, Place, kind
from ...own_updates import OwnUpdate
from ...probes.proof import STEPS, better, compare, train
from ...probes.replay import NOTHING, Changes, Curves, Edit, Replacement, same
from ...run import Optimized
from ...step_recorder import Call, Source, Step
from .changed import decayed_by_hand, shrunk

# Movements of parameters during a run are relative to the size of the parameters.
_STILL = 2e-3  # the rate may be too low if the parameters moved by less than this
_CRAWLED = 0.8  # the same if the last loss is above this share of the first loss ...
_STEPPED = 2e-2  # ... and the parameters moved by less than this
_LITTLE = 0.1  # the same if the loss is above that of a constant prediction and the parameters moved by less than this
_BELOW = 1e-2  # a rate up to this share of the default of the optimizer's class is far below the default
_MOVES = 0.1  # parameters should move by about this much
_LEAST_STEPS = 50
_MANY_STEPS = 100
_PART = 0.5  # a lower rate is preferred if it lowers the loss by at least this share of the higher rate's gain
_FEW = 15  # the least number of steps of a trial
_FAR = 0.5  # a loss above this share of a reference is still far from low
_LEARNED = 0.1  # the rate was suitable if the last loss is below this share of the first loss
_LEARNED_SOME = 0.25  # the same if the first steps replaced the parameters
_OVERWRITTEN = 1.0  # a step of this size, relative to the parameters, replaces the parameters
LARGE = 0.1  # a step of this size, relative to the parameters, is large
_EMPTIED = 0.05  # decay is too strong if it left less than this share of the matrices' first size
_HELD = 0.7  # a loss above this share of its first value does not fall
_DEAD = 0.3  # a network is dead if it gains less than this share of the gain of the same steps from the start
_FREED = 0.5  # without decay, the loss must be below this share of the loss with decay


def _rate(case: Case) -> float:
    main = case.main
    return max(main.rates) if main is not None and main.rates else math.nan


def rate_texts(case: Case, factor: float, further: str = "") -> dict[str, object]:
    """Return the texts that propose to multiply the learning rates by a factor, with the lines that set the rates."""
    main = case.main
    assert main is not None
    groups = _own_rates(main)
    title = case.run.title(main)
    values: dict[str, object] = {"rate": figure(_rate(case)), "better_rate": figure(_rate(case) * factor)}
    values |= {"optimizer": title, "further": further}
    if groups:
        changed = [f"{figure(x)}{_of_line(main, x)} to {figure(x * factor)}" for x in groups]
        default = main.optimizer.defaults.get("lr")
        instead = f", which replace lr={figure(float(default))}" if isinstance(default, (int, float)) else ""
        values["of_optimizer"] = f"the learning rates of the parameter groups of {title}{instead}: {', '.join(changed)}"
        return values
    line = _of_line(main, _rate(case))
    values["of_optimizer"] = f"the learning rate of {title} from {values['rate']}{line} to {values['better_rate']}"
    return values


def _own_rates(main: Optimized) -> list[float]:
    """Return the initial learning rates of the parameter groups, sorted, if they replace the optimizer's rate."""
    groups = main.optimizer.param_groups
    if not main.history or isinstance(main.optimizer, OwnUpdate):
        return []
    pairs = zip(groups, main.history[0].rates, strict=False)
    rates = sorted({float(group.get("initial_lr", rate)) for group, rate in pairs})
    default = main.optimizer.defaults.get("lr")
    scheduled = any("initial_lr" in group for group in groups) or len(set(main.rates)) > 1
    return [] if scheduled or default is None or all(x == default for x in rates) else rates


def _line_of(main: Optimized, rate: float) -> int | None:
    """Return the line with this number in the file that creates the optimizer; None unless there is exactly one."""
    site = main.created
    found: set[int] = set()
    try:
        lines = iter(linecache.getlines(site.file) if site is not None else [])
        for x in tokenize.generate_tokens(lines.__next__):
            if x.type == tokenize.NUMBER and x.string[:2].lower() not in ("0x", "0b", "0o"):
                found |= {x.start[0]} if complex(x.string.replace("_", "")) == rate else set()
    except (SyntaxError, ValueError, tokenize.TokenError, StopIteration):
        return None
    return next(iter(found)) if len(found) == 1 else None


def _of_line(main: Optimized, rate: float) -> str:
    """Return the line of a rate as text, "" if it is unknown or the line that creates the optimizer."""
    line = _line_of(main, rate)
    return "" if line is None or main.created is None or line == main.created.line else f" (line {line})"


def rate_place(main: Optimized) -> HasPlace | None:
    """Return the line that sets the largest learning rate: that of a parameter group, or of the optimizer."""
    rates = _own_rates(main)
    line = _line_of(main, rates[-1]) if rates else None
    return (
        Place(main.created.file, line)
        if line is not None and main.created is not None
        else (main.created or main.stepped)
    )


@kind(
    "learning-rate-too-high",
    "Are the steps small enough?",
    "the loss {course} at a learning rate of {rate}{lower}.",
    "lower {of_optimizer}{further}",
)
def learning_rate_too_high(case: Case) -> Found | None:
    main = case.main
    if main is None or main.steps < 3 or not main.rates or not case.losses or not _rate(case):
        return None
    first, last = case.ends()
    finite = [x for x in case.losses if math.isfinite(x)]
    first = first if math.isfinite(first) or not finite else finite[0]
    lowest = min(abs(first), abs(finite[0])) if finite else abs(first)  # the first steps may have exploded
    diverged = len(finite) < len(case.losses) or last > 2 * lowest + 1e-3
    if not diverged and last < _LEARNED * min(case.losses[0], case.baseline or math.inf):
        return None  # the training succeeded, even if the loss rose at first, as that of a vector quantizer does
    if isinstance(main.optimizer, SGD) and case.answer("accumulation-unscaled") is not None:
        return None  # the steps are too large because gradients are added up
    if case.answer("graph-grows") is not None:
        return None  # a backward pass from a sum over steps repeats the gradients of earlier steps
    overwritten = None if diverged else _overwritten(case, last)
    if not diverged and not case.rose and not (case.stuck and len(case.losses) >= 10):
        return overwritten
    if not diverged and not case.rose and moved(case) < 0.05:
        return None
    program = case.program
    if program is None:
        return overwritten
    most = max(_FEW, case.budget.share(5, STEPS))
    plain = train(case.run, program, NOTHING, NOTHING, {}, "", Edit(""), case.budget, most=most)
    best: Found | None = None
    gained = 0.0
    for factor in (0.1, 0.01, 0.001, 0.0001):
        edit = Edit(f"with lr={figure(_rate(case) * factor)}", options={"lr": factor})
        fixed = train(case.run, program, NOTHING, NOTHING, {"lr": factor}, "", edit, case.budget, most=most)
        curves = Curves(fixed, plain)
        falls = math.isfinite(fixed[-1]) and fixed[-1] < fixed[0] - 0.02 * abs(fixed[0])
        fails = not math.isfinite(plain[-1]) or plain[-1] > 0.98 * plain[0] or len(plain) < len(fixed)
        fails = fails or case.rose and max(plain) > 1.25 * plain[0]
        fails = fails or case.stuck and fixed[0] - fixed[-1] > 3 * (plain[0] - plain[-1])
        gain = fixed[0] - fixed[-1]
        if best is not None and not gain > _PART * gained:
            break  # the previous rate was much better
        if falls and fails and better(curves):
            # A rate that is too high for several batches may still memorize one batch: take the lowest good rate.
            gained = max(gain, gained)
            course = "goes from {} to {}".format(*case.course())
            further = "" if math.isfinite(last) else ", and lower if other batches make it grow again"
            values = rate_texts(case, factor, further)
            values |= {"course": course, "lower": f"; at {values['better_rate']} that of a recorded batch falls"}
            best = Found(rate_place(main), values, edit, curves)
    return best or overwritten or _destroyed(case, plain) or _above_guessing(case, last) or _grown(case, lowest, last)


def _destroyed(case: Case, before: list[float]) -> Found | None:
    """Return the finding for steps that destroyed the network: it has learned nothing, and can hardly learn any more.

    A copy with the initial values learns the recorded batch (losses ``before``, at the rate of the run) far below the
    loss of guessing; a copy with the last values does not.
    """
    base, losses, program = case.baseline, case.losses, case.program
    if not case.stuck or base is None or program is None or len(losses) < _LEAST_STEPS or case.main is None:
        return None
    call = case.loss_call(case.step) if case.step is not None else None
    if call is None or call.name not in CLASS_LOSSES or sum(x.steps > 0 for x in case.run.optimizers) != 1:
        return None  # targets of other losses may be predictions, which change
    few = case.budget.share(1, _FEW, of_proof=True)
    after = train(case.run, program, NOTHING, NOTHING, {}, "", Edit("", start=False), case.budget, most=few)
    gained, left = base - before[-1], base - after[-1]
    if not gained > (1 - _HELD) * base or not left < _DEAD * gained or len(after) <= _FEW:
        return None
    values = rate_texts(case, 0.1) | {"course": "goes from {} to {}".format(*case.course())}
    values["lower"] = (
        f". Copies with the first parameters learn a recorded batch ({figure(before[0])} -> {figure(before[-1])}), "
        f"copies with those of the end hardly do any more ({figure(after[0])} -> {figure(after[-1])})"
    )
    return Found(rate_place(case.main), values, unproved="the recorded batch is memorized at either rate")


def _overwritten(case: Case, last: float) -> Found | None:
    """Return the finding for a step larger than the parameters, if the loss rose far above its start or is that of
    guessing.

    Trials cannot show this, since the network may memorize the recorded batch at such a rate.
    """
    losses, base, main = case.losses, case.baseline, case.main
    if main is None or len(losses) < _LEAST_STEPS or not all(map(math.isfinite, losses)):
        return None
    start = losses[0] if base is None else min(losses[0], base)
    step, size = largest_step(main)
    if not last > _LEARNED_SOME * start > 0 or not size > _OVERWRITTEN or not moved(case) > 2.0:
        return None
    overshot = max(losses[1 : max(15, len(losses) // 10)]) > 1.25 * max(losses[0], base or 0.0)
    if not overshot and not (base is not None and last > 0.97 * base):
        return None
    course = "goes from {} to {}".format(*case.course())
    values = rate_texts(case, 0.01) | {"course": course, "size": figure(size)}
    values["lower"] = f", and step {step} changes parameters by {figure(size)} times their size"
    return Found(rate_place(main), values, unproved="the network memorizes the recorded batch at either rate")


def largest_step(main: Optimized) -> tuple[int, float]:
    """Return the number of the measured step with the largest change of the parameters, relative to their size.

    The second result is this change: the median over the parameters that are not 0.
    """
    found = (0, 0.0)
    for one in main.history:
        shares = [change / size for name, change in one.updates.items() if (size := one.weights.get(name))]
        if shares and (share := float(np.median(shares))) > found[1]:
            found = one.step + 1, share
    return found


def _grown(case: Case, first: float, last: float) -> Found | None:
    """Return the finding for a loss that ends far above its start and that of guessing after large moves of parameters.

    Large moves are more than twice the size of the parameters.
    """
    main, base = case.main, case.baseline
    if main is None or not last > 2 * max(abs(first), base or 0.0) or not moved(case) > 2.0:
        return None
    if base is None and largest_step(main)[1] < LARGE:
        return None  # with small steps, the target itself may grow, such as the returns of a policy
    values = rate_texts(case, 0.01) | {"course": "goes from {} to {}".format(*case.course())}
    why = "the network memorizes the recorded batch at either rate"
    values["lower"] = ", while parameters move by more than their size"
    return Found(rate_place(main), values, unproved=why)


def _above_guessing(case: Case, last: float) -> Found | None:
    """Return the finding for class losses that stay above that of guessing after large moves of parameters.

    Trials cannot show this, since a network with embeddings memorizes the recorded batch at such a rate.
    """
    main, base, losses = case.main, case.baseline, case.losses
    step = case.step
    call = case.loss_call(step) if step is not None else None
    if main is None or base is None or call is None or call.name not in CLASS_LOSSES or len(losses) < _LEAST_STEPS:
        return None
    late = losses[len(losses) // 2 :]
    known = (
        call.params["classes"].index.size * len(case.run.steps) >= 10 * call.shapes[0][1]
    )  # enough targets to estimate the loss of guessing
    above = all(map(math.isfinite, late)) and min(float(np.median(late)), last) > 1.03 * base
    if not known or not above or not moved(case) > 2.0:
        return None
    course = "stays above {}, that of guessing, from {} to {},".format(figure(base), *case.course())
    values = rate_texts(case, 0.01) | {"course": course, "lower": ", while parameters move by more than their size"}
    why = "the network memorizes the recorded batch at either rate"
    return Found(rate_place(main), values, unproved=why)


def moved(case: Case) -> float:
    """Return how far parameters moved in the run, relative to their size: the median over parameters."""
    main = case.main
    shares: list[float] = []
    if main is None:
        return math.nan
    for p in main.parameters:
        start = main.start.get(id(p))
        if start is None or not p._requires or p.array.ndim < 2 and len(main.parameters) > 1:
            continue
        norm = float(np.linalg.norm(start))
        move = float(np.linalg.norm(p.array - start))
        shares.append(move / norm if norm else (math.inf if move else 0.0))
    return float(np.median(shares)) if shares else math.nan


@kind(
    "learning-rate-too-low",
    "Are the steps large enough?",
    "in {steps} steps at a learning rate of {rate} the parameters moved by {moved} of their size, and the loss went "
    "from {first} to {last}.",
    "raise {of_optimizer}",
)
def learning_rate_too_low(case: Case) -> Found | None:
    main = case.main
    if main is None or main.steps < 10 or not main.rates:
        return None
    if not any(main.rates) and not any(x.scheduler.optimizer is main.optimizer for x in case.run.schedules):
        return _of_zero(case, main)
    if not _rate(case) > 0:
        return None
    first, last = case.ends()
    if not math.isfinite(first):
        return None
    untrained = _untrained(case) or _below_default(case)
    crawls = main.steps >= 2 * _LEAST_STEPS and last > _CRAWLED * first > 0 and moved(case) < _STEPPED
    crawls = crawls and not untrained
    if not untrained and not crawls and (last < first - 0.05 * abs(first) or not moved(case) < _STILL):
        return None
    if case.baseline is not None and last < _FAR * case.baseline:
        return None  # converged
    program = case.program
    if program is None:
        return None
    plain: list[float] = []
    most = max(_FEW, case.budget.share(5, STEPS))
    factors = _larger(moved(case))
    if case.stuck and isinstance(main.optimizer, SGD):  # gradients may be small at first
        factors += [x for more in (300, 1e3, 3e3, 1e4) if (x := factors[0] * more) * _rate(case) < 1.01]
    for factor in factors:
        edit = Edit(f"with lr={figure(_rate(case) * factor)}", options={"lr": factor})
        fixed = train(case.run, program, NOTHING, NOTHING, {"lr": factor}, "", edit, case.budget, most=most)
        if math.isfinite(fixed[-1]) and fixed[-1] < fixed[0] - (0.5 if crawls else 0.2) * abs(fixed[0]):
            plain = plain or train(case.run, program, NOTHING, NOTHING, {}, "", Edit(""), case.budget, most=most)
            if not untrained and plain[-1] < plain[0] - 0.05 * abs(plain[0]):
                return None
            if not fixed[-1] < plain[-1] - 0.2 * abs(fixed[0]):
                continue
            values = rate_texts(case, factor) | {"steps": main.steps, "moved": figure(moved(case))}
            values |= dict(zip(("first", "last"), case.course(), strict=True))
            smaller = shrunk(case)
            if smaller is not None:
                where, left = smaller
                what = (
                    f"this line leaves {figure(left)} of the gradients before the step, so that in {main.steps} steps "
                    f"the parameters moved by {figure(moved(case))} of their size, and the loss went from "
                    f"{values['first']} to {values['last']}."
                )
                fix = f"leave the gradients larger, or raise {values['of_optimizer']}"
                return Found(where, values, edit, Curves(fixed, plain), message=what, fix=fix)
            return Found(rate_place(main), values, edit, Curves(fixed, plain))
    return None


def _of_zero(case: Case, main: Optimized) -> Found:
    """Return the finding for an optimizer whose learning rate is 0 in all steps."""
    what = f"the learning rate of {case.run.title(main)} is 0 in all {main.steps} steps: they change nothing."
    fix = "give the optimizer a learning rate, or call the step() of what is to set it"
    where = main.created or main.stepped
    return Found(where, {}, message=what, fix=fix, unproved="the rate that is meant is not known")


def _larger(moved: float) -> list[float]:
    """Return factors of the rate; with the first one, parameters would have moved by about a tenth of their size."""
    likely = 10.0 ** min(6, max(1, round(math.log10(_MOVES / moved)))) if moved > 0 else 1e3
    return [likely, *[x for x in (likely * 10, likely * 100, likely / 10, likely / 100) if 10 <= x <= 1e7]]


def _below_default(case: Case) -> bool:
    """Return whether a rate is far below the default of the optimizer's class, as 1e-3 for Adadelta, and many steps
    moved the parameters little and left the loss at that of guessing."""
    main = case.main
    parameter = inspect.signature(type(main.optimizer)).parameters.get("lr") if main is not None else None
    default = parameter.default if parameter is not None else None
    if main is None or case.baseline is None or not isinstance(default, float):
        return False
    far = _rate(case) <= _BELOW * default and main.steps >= 2 * _LEAST_STEPS
    return far and case.stuck and moved(case) < _LITTLE


def _untrained(case: Case) -> bool:
    """Return whether a squared error is above that of a constant prediction after many steps with little movement."""
    step, main = case.step, case.main
    call = case.loss_call(step) if step is not None else None
    if call is None or call.name != "mse_loss" or case.baseline is None or main is None:
        return False
    most = _LITTLE if main.steps < _MANY_STEPS else 3 * _LITTLE
    return main.steps >= _LEAST_STEPS and case.ends()[1] > case.baseline and moved(case) < most


@kind(
    "weight-decay-too-high",
    "Is the weight decay small beside the gradient?",
    "{decay} pulls at the parameters {ratio}.",
    "lower {factor}",
)
def weight_decay_too_high(case: Case) -> Found | None:
    main = case.main
    if main is None or main.steps < 10:
        return None
    penalty = _penalty(case, main) or decayed_by_hand(case)
    if penalty is not None:
        return penalty
    decay = max([float(group.get("weight_decay", 0.0) or 0.0) for group in main.optimizer.param_groups])
    first, last = case.ends()
    if decay < 1e-2 or not last > _LEARNED * first:
        return None
    curves = (_slowed(case) if last > _FAR * first else None) or _held_up(case)
    values = {"decay": f"weight_decay={figure(decay)}", "ratio": _pull(case, main, decay)}
    values["factor"] = f"weight_decay of {case.run.title(main)} from {figure(decay)} to 1e-4"
    if curves is None and (left := _left(main)) < _EMPTIED and case.stuck:
        values["ratio"] += f", which have {figure(left)} of their first size left (the median of the matrices)"
        why = "the network needs more steps than a trial has, with and without the decay"
        return Found(main.created or main.stepped, values, unproved=why)
    if curves is None:
        return None
    return Found(main.created or main.stepped, values, _UNDECAYED, curves)


def _left(main: Optimized) -> float:
    """Return the norm of matrices divided by their norm before the first step: the median over the matrices."""
    starts = [(p, main.start.get(id(p))) for p in main.parameters if p.array.ndim > 1]
    sizes = [(float(np.linalg.norm(p.array)), float(np.linalg.norm(x))) for p, x in starts if x is not None]
    return float(np.median([now / first for now, first in sizes if first])) if any(x for _, x in sizes) else math.inf


_UNDECAYED = Edit("with weight_decay=0", options={"weight_decay": 0.0})


def _held_up(case: Case) -> Curves | None:
    """Return the curves from the last recorded step, if the loss of its batch falls only without weight decay."""
    curves = compare(case.run, case.program, replace(_UNDECAYED, start=False), case.budget)
    if curves is None or not better(curves):
        return None
    stays = curves.plain[-1] > _HELD * curves.plain[0] > 0
    return curves if stays and curves.fixed[-1] < _FREED * curves.plain[-1] else None


def _slowed(case: Case) -> Curves | None:
    """Return the curves from the initial parameters, if the loss of a batch falls much further without weight decay."""
    curves = compare(case.run, case.program, _UNDECAYED, case.budget)
    if curves is None or not better(curves):
        return None
    share = 0.85 if case.stuck and curves.plain[-1] > 0.9 * curves.plain[0] else 0.67
    return curves if curves.fixed[-1] < share * curves.plain[-1] else None


def _pull(case: Case, main: Optimized, decay: float) -> str:
    """Return the strength of weight decay, as a text.

    If the optimizer adds the decay to the gradient, the strength is relative to the gradient; if it applies the decay
    to the parameters (AdamW), the strength is relative to the change of a step.
    """
    recorded = {step.number for step in case.run.steps}
    measured = [x for x in main.history if x.weights and x.updates and x.step in recorded]
    apart = main.name == "AdamW" or any(group.get("decoupled_weight_decay") for group in main.optimizer.param_groups)
    ratios = []
    for one in measured[len(measured) // 2 :]:
        pull = decay * math.sqrt(sum([x * x for x in one.weights.values()])) * (max(one.rates) if apart else 1.0)
        push = math.sqrt(sum([x * x for x in (one.updates if apart else one.gradients).values()]))
        ratios.append(pull / push if push else math.inf)
    ratio = figure(float(np.median(ratios)) if ratios else math.nan)
    return f"by {ratio} times the length of a step" if apart else f"{ratio} times as hard as the loss does"


def _penalty(case: Case, main: Optimized) -> Found | None:
    """Return the finding for a penalty on parameters, written as a term of the loss."""
    step, base = case.step, case.baseline
    loss = case.loss_call(step) if step is not None else None
    if step is None or not step.roots or loss is None or base is None or loss.record.values is None:
        return None
    if not loss.record.values.mean > _FAR * base:
        return None
    calls: dict[int, Replacement] = {}
    source = step.roots[-1].source
    last: Call | None = None
    while (call := step.producer(source)) is not None and call.name == "add" and len(call.inputs) == 2:
        penalties = [place for place in range(2) if of_parameters(step, call.inputs[place])]
        if len(penalties) != 1:
            break
        calls[call.index] = _second if penalties[0] == 0 else same
        last, source = last or call, call.inputs[1 - penalties[0]]
    if last is None:
        return None
    edit = Edit("without the penalty", Changes(calls=calls))
    curves = compare(case.run, case.program, edit, case.budget)
    share = 1.0 if loss.record.values.mean > 0.9 * base else 0.67
    if curves is None or not better(curves) or not curves.fixed[-1] < share * curves.plain[-1]:
        return None
    values = {"decay": "the penalty on parameters in the loss", "ratio": "harder than the loss of the predictions does"}
    return Found(last.record, {**values, "factor": "the factor of the penalty"}, edit, curves)


def _second(a: Tensor, b: Tensor, **params: object) -> Tensor:
    return b


def of_parameters(step: Step, source: Source) -> bool:
    """Return whether a value depends on parameters and on no data."""
    below = [step.calls[index] for index in step.below(source, through_cuts=True)]
    inputs = [x for call in below for x in call.inputs if x.call < 0]
    data = any(x.leaf is None and np.size(x.value) > 1 for x in inputs)
    data = data or any(call.shape and call.name.startswith("rand") for call in below)
    return not data and any(x.leaf is not None and x.leaf._requires for x in inputs)
