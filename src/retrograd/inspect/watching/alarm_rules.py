"""The rules that raise alarms: each finds a sign of a problem in the records, and gives advice.

Each rule reads all records, of which the last is new, and yields its findings. The thresholds allow for what happens
in healthy runs: large first steps, weights that grow from zero, unusual batches, a saturated last sigmoid.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import NamedTuple

from .measures import StepRecord

_TOGETHER = 3  # up to this number of parameters, each gets its own alarm
_FIRST = 10  # the number of first steps, which are large in adaptive optimizers
_BEFORE = 10  # records before the first alarm in which a change of the settings counts as its cause
_JUMP = 2.0  # the least factor by which a setting must change to count as a cause
_USUAL = 100.0  # a larger standard deviation of activations at the start needs advice on scale
_ZERO = "call optimizer.zero_grad() before backward()"
_CALM = 20  # after this number of records without its condition, an alarm can be raised again


class Alarm(str):
    """The text of an alarm, with the finding's step, reason, name and figure."""

    step: int
    reason: str
    name: str
    figure: float

    def __new__(cls, text: str, step: int, reason: str, name: str, figure: float) -> Alarm:
        alarm = super().__new__(cls, text)
        alarm.step, alarm.reason, alarm.name, alarm.figure = step, reason, name, figure
        return alarm


class Found(NamedTuple):
    """A rule's finding: the parameter or activation (``""`` for the run), the figure, the text and the advice."""

    name: str
    figure: float
    text: str
    advice: str


class History:
    """All records, and running statistics, so that a rule reads only the new record."""

    def __init__(self) -> None:
        self.records: Sequence[StepRecord] = []
        self.now = StepRecord(0)
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.matrices: list[str] = []  # parameters with two or more axes, whose sizes are comparable
        self.updates: dict[str, deque[float]] = {}  # by matrix: the last 20 update ratios, relative to `scale`
        self.largest: deque[float] = deque(maxlen=20)  # the largest update ratio of each of the last 20 records
        self.highest = 0.0  # the highest learning rate
        self.falls: deque[tuple[str, float] | None] = deque(maxlen=3)
        self.best = math.inf  # the lowest median of five losses
        self.graded: set[str] = set()  # parameters that had a nonzero gradient
        self.zero_since: dict[str, int] = {}  # per parameter without a gradient: the first step without it
        self._scales: dict[str, float] = {}

    def add(self, records: Sequence[StepRecord], shapes: dict[str, tuple[int, ...]]) -> None:
        """Update the statistics with the last record."""
        self.records, self.now = records, records[-1]
        if shapes != self.shapes:
            self.shapes = shapes
            self.matrices = [name for name, shape in shapes.items() if len(shape) >= 2 and all(shape)]
            self._scales = {name: 0.3 / math.sqrt(max(1, math.prod(shapes[name][1:]))) for name in self.matrices}
        largest = 0.0
        for name in self.matrices:
            weights, ratio = self.now.weights.get(name), self.now.update_ratios.get(name, 0.0)
            update = ratio * min(1.0, weights.rms / self._scales[name]) if weights is not None and weights.norm else 0.0
            self.updates.setdefault(name, deque(maxlen=20)).append(update)
            largest = max(largest, update)
        self.largest.append(largest)
        self.highest = max(self.highest, *self.now.rates, 0.0)
        self.falls.append(_fall(self.matrices, self.now))
        for name in self.shapes:
            gradient = self.now.gradients.get(name)
            if gradient is not None and gradient.norm:
                self.graded.add(name)
                self.zero_since.pop(name, None)
            else:
                self.zero_since.setdefault(name, self.now.step)
        last = self.losses(5)
        if last:
            self.best = min(self.best, median(last))

    def last(self, count: int) -> Sequence[StepRecord]:
        """Return the last ``count`` records; an empty list if there are fewer."""
        return self.records[-count:] if len(self.records) >= count else []

    def scale(self, name: str) -> float:
        """Return the rms below which weights count as growing from zero: a fraction of ``1 / sqrt(fan in)``."""
        return self._scales[name]

    def collapsed(self) -> list[str]:
        """Return the matrices that weight decay has made small and keeps shrinking while the loss does not fall."""
        if len(self.records) < 10:
            return []
        start, losses = self.start, self.losses(5)
        if start is not None and losses and median(losses) < start - 0.3 * abs(start):
            return []
        first, before, found = self.records[0].weights, self.records[-10].weights, []
        for name in self.matrices:
            group = self.now.groups.get(name)
            if group is None or not self.now.decays[group] or name not in first or name not in before:
                continue
            size = self.now.weights[name].rms
            if size < 0.2 * first[name].rms and (size < 0.98 * before[name].rms or size < 1e-6 * first[name].rms):
                found.append(name)
        return found

    def fastest(self) -> str:
        """Return the matrix with the largest recent update ratio."""
        moved = {name: median(updates) for name, updates in self.updates.items() if updates}
        return max(moved, key=lambda name: moved[name], default="")

    @property
    def start(self) -> float | None:
        """The loss of the first records, None unless each has one."""
        losses = [record.losses[0] for record in self.records[:5] if len(record.losses) == 1]
        return median(losses) if len(losses) == 5 else None

    def losses(self, count: int) -> list[float]:
        """Return the losses of the last records; empty if there are fewer or one does not have exactly one loss."""
        losses = [record.losses[0] for record in self.last(count) if len(record.losses) == 1]
        return losses if len(losses) == count and all(map(math.isfinite, losses)) else []


Rule = Callable[[History], Iterator[Found]]


def not_finite(h: History) -> Iterator[Found]:
    """Find losses, gradients and weights that are not finite."""
    advice = "run the step under inspect.guard(), which reports its origin"
    first = next((f" (first in the output of {name})" for name, x in h.now.activations.items() if not x.finite), "")
    for loss in h.now.losses:
        if not math.isfinite(loss):
            yield Found("", loss, f"loss is {loss}{first}", advice)
            return  # everything computed from the loss is not finite either
    for what, table in (("weights", h.now.weights), ("gradient", h.now.gradients)):
        for name, found in table.items():
            if not found.finite:
                verb = "have" if what == "weights" else "has"
                yield Found(name, found.norm, f"the {what} of {name} {verb} values that are not finite", advice)


def update_too_large(h: History) -> Iterator[Found]:
    """Find update ratios far above the usual 1e-3, except while large steps make the loss fall."""
    one_loss = len(h.now.losses) == 1  # then the next record shows the step's effect on the loss
    losses = h.losses(3) or h.losses(2)
    fell = bool(losses) and losses[-1] < 0.9 * losses[0]
    rose = len(losses) > 1 and losses[-1] > 2 * abs(losses[-2])
    eight = h.losses(8)
    falling = bool(eight) and eight[-1] < 0.9 * eight[0]
    calm = len(h.records) < 8 or h.records[-8].step < _FIRST
    for name in h.matrices:
        last = list(h.updates[name])[-8:]
        now, two = last[-1], last[-2:]
        if one_loss and len(two) == 2 and two[0] > 3 and rose:
            ratio = h.records[-2].update_ratios[name]
            advice = f"lower the learning rate ({_rate_of(h.now, name)})"
            yield Found(name, ratio, f"update ratio of {name} {short(ratio)}", advice)
            continue
        if not 0.1 < now < math.inf:
            continue
        huge = now > 3 if not one_loss else len(two) == 2 and max(two) > 3 and not fell
        twice = len(last) > 2 and min(two) > 0.3 and not fell
        if huge or twice or not calm and not falling and len(last) == 8 and min(last) > 0.1:
            ratio = h.now.update_ratios[name]
            advice = f"lower the learning rate ({_rate_of(h.now, name)})"
            yield Found(name, ratio, f"update ratio of {name} {short(ratio)}", advice)


def update_too_small(h: History) -> Iterator[Found]:
    """Find updates that are too small to change the weights while the loss does not fall."""
    move = median(h.largest)
    if len(h.records) < 20 or not move < 3e-5 or h.collapsed():
        return
    records = h.last(20)
    rates = [max(record.rates, default=0.0) for record in records]
    if min(rates) <= 0 or rates[-1] < 0.5 * h.highest or rates[-1] > 1.01 * rates[0]:  # the rate decays or warms up
        return
    start, losses = h.start, h.losses(5)
    known = start is not None and bool(losses)
    if (
        start is not None and losses and median(losses) < start - 0.1 * abs(start)
    ):  # the loss has fallen and may have converged
        return
    if (known or move < 1e-7) and all(record.total_norm > 0 for record in records):
        text = f"the largest update ratio is {short(move)} over {len(records)} records"
        yield Found("", move, text, f"raise the learning rate ({_rates(h.now)})")


def vanishing(h: History) -> Iterator[Found]:
    """Find gradients that are much smaller in the first layers than in the last."""
    if len(h.falls) == 3 and all(fall is not None and fall[1] < 1e-4 for fall in h.falls) and not h.collapsed():
        name, fall = h.falls[-1] or ("", 0.0)
        text = f"vanishing gradients: the norm for {name} is {short(fall)} times that of the last layers"
        advice = "normalize between layers, add residual connections, or use fewer layers; relu or gelu with "
        advice += "kaiming_normal_ weights where sigmoid or tanh saturate"
        yield Found(name, fall, text, advice)


def exploding_through_layers(h: History) -> Iterator[Found]:
    """Find gradients that are much larger in the first layers than in the last."""
    if len(h.falls) == 3 and all(fall is not None and fall[1] > 1e4 for fall in h.falls):
        name, fall = h.falls[-1] or ("", 0.0)
        text = f"exploding gradients: the norm for {name} is {short(fall)} times that of the last layers"
        yield Found(name, fall, text, "scale the initial weights down, or normalize between layers")


def _fall(matrices: Sequence[str], record: StepRecord) -> tuple[str, float] | None:
    """Return the median gradient norm of the first third of the matrices, relative to that of the last third."""
    norms = [(record.gradients[name].norm, name) for name in matrices if name in record.gradients]
    norms = [(norm, name) for norm, name in norms if norm and math.isfinite(norm)]
    third = len(norms) // 3
    if not third:
        return None
    first = sorted(norms[:third])[third // 2]
    return first[1], first[0] / sorted(norms[-third:])[third // 2][0]


def exploding(h: History) -> Iterator[Found]:
    """Find total norms far above the usual."""
    norm, before = h.now.total_norm, [record.total_norm for record in h.records[-51:-1]]
    if not before or not 10 * max(record.total_norm for record in h.records[:5][: len(before)]) < norm < math.inf:
        return
    usual = median(before)
    if len(before) >= 5 and norm > 100 * usual > 0 or norm > 1000 * max(before) > 0:
        text = f"exploding gradients: total norm {short(norm)}, usually {short(usual)}"
        yield Found("", norm, text, "clip with nn.utils.clip_grad_norm_, or lower the learning rate")


def huge_activations(h: History) -> Iterator[Found]:
    """Find hidden activations with a huge standard deviation."""
    for name in h.now.activations:
        seen = [record.activations[name] for record in h.last(3) if name in record.activations]
        if len(seen) == 3 and all(x.hidden and not x.kind and x.std > 1e3 for x in seen):
            text = f"activations of {name} have a standard deviation of {short(seen[-1].std)}"
            first = h.records[0].activations.get(name)
            advice = "normalize the inputs, or scale the initial weights down"
            if first is not None and first.std < _USUAL:  # the activations have grown during training
                text += f", {short(first.std)} at step {h.records[0].step}"
                advice = f"lower the learning rate ({_rates(h.now, h.fastest())})"
            yield Found(name, seen[-1].std, text, advice)


def dead_units(h: History) -> Iterator[Found]:
    """Find relus with many units that are zero for every example."""
    for name in h.now.activations:
        seen = [x.dead for record in h.last(5) if (x := record.activations.get(name)) is not None]
        dead = [share for share in seen if share is not None]
        if len(dead) == 5 and min(dead) > 0.5:
            text = f"dead units: {dead[-1]:.0%} of the units of {name} are zero for every example"
            advice = "lower the learning rate, check the biases before it, or use leaky_relu or gelu"
            yield Found(name, dead[-1], text, advice)


def saturated(h: History) -> Iterator[Found]:
    """Find hidden tanh and sigmoid layers with mostly saturated outputs."""
    for name in h.now.activations:
        seen = [x for record in h.last(3) if (x := record.activations.get(name)) is not None]
        flat = [x.saturated for x in seen if x.hidden and x.kind in ("tanh", "sigmoid") and x.saturated is not None]
        if len(flat) == 3 and min(flat) > 0.75:
            text = f"saturated: {flat[-1]:.0%} of the outputs of {name} lie where {seen[-1].kind} is flat"
            yield Found(name, flat[-1], text, "scale the initial weights down, or normalize before it")


def no_gradient(h: History) -> Iterator[Found]:
    """Find parameters that require a gradient and receive none, or only zeros."""
    records = h.last(5)
    if not h.zero_since or not records:
        return
    usual = median(record.total_norm for record in h.records[:5])
    if min(record.total_norm for record in records) < 1e-3 * usual or h.collapsed():  # the run has converged
        return
    start, losses = h.start, h.losses(5)
    fails = start is not None and bool(losses) and median(losses) > start - 0.1 * abs(start)
    advice = "inspect.explain(loss, parameter) says why; if this is intended, set requires_grad=False"
    for name, since in h.zero_since.items():
        if not all(h.shapes.get(name, (0,))):
            continue
        found = [record.gradients.get(name) for record in records]
        missing, zero = all(x is None for x in found), all(x is not None and x.norm == 0 for x in found)
        if name in h.graded:  # after convergence a gradient may be exactly 0
            if fails and zero and h.now.step - since >= _CALM:
                yield Found(name, 0.0, f"the gradient of {name} is zero since step {since}", advice)
        elif missing:
            yield Found(name, 0.0, f"{name} never gets a gradient", advice)
        elif zero:
            yield Found(name, 0.0, f"the gradient of {name} is always zero", advice)


def not_zeroed(h: History) -> Iterator[Found]:
    """Find gradients that include those of earlier steps."""
    records = h.last(2)
    if records and all(record.carried for record in records):
        text = "gradients of earlier steps were not zeroed: backward() adds to them"
        yield Found("", h.now.total_norm, text, _ZERO)


def clipping(h: History) -> Iterator[Found]:
    """Find clipping that is active in every step."""
    records = h.last(20)
    left = [r.total_norm / r.total_norm_before_clipping for r in records if r.total_norm_before_clipping > 0]
    if len(left) == 20 and max(left) < 0.1:
        text = f"clipping is always active and scales the gradients by {short(median(left))}"
        yield Found("", median(left), text, "clip at a larger norm, or find what makes the gradients large")


def diverging(h: History) -> Iterator[Found]:
    """Find a loss that rises far above its first or its best value."""
    advice = f"lower the learning rate ({_rates(h.now, h.fastest())}), warm it up, or clip"
    latest, first = h.now.losses, h.records[0].losses
    if len(latest) == len(first) == 1 and 1000 * abs(first[0]) < latest[0] < math.inf:
        yield Found("", latest[0], f"the loss diverges: from {first[0]:.3g} to {latest[0]:.3g}", advice)
        return
    last, before, then = h.losses(5), h.losses(10)[:5], h.start
    if not last or not before or then is None or not math.isfinite(then):
        return
    now, start = median(last), [record.losses[0] for record in h.records[:5]]
    if now > then + 2 * max(abs(then), max(start) - min(start)) and now > median(before):
        yield Found("", now, f"the loss diverges: from {then:.3g} to {now:.3g}", advice)
        return
    if then > 0 and h.best > 0 and now > max(10 * h.best, 0.5 * then):
        yield Found("", now, f"the loss has risen again, from {h.best:.3g} to {now:.3g}", advice)


def growing(h: History) -> Iterator[Found]:
    """Find weights that keep growing."""
    if len(h.records) < 10:
        return
    first, before = h.records[0].weights, h.records[-10].weights
    for name in h.matrices:
        if name in first and name in before and name in h.now.weights:
            size = h.now.weights[name].rms
            times = size / max(first[name].rms, h.scale(name))
            if 20 < times < math.inf and size > 1.02 * before[name].rms:
                text = f"weights of {name} have grown to {times:.3g} times their initial size and keep growing"
                advice = f"lower the learning rate ({_rate_of(h.now, name)}), or use weight decay"
                yield Found(name, times, text, advice)


def shrinking(h: History) -> Iterator[Found]:
    """Find weights that weight decay makes too small."""
    for name in h.collapsed():
        times = h.now.weights[name].rms / h.records[0].weights[name].rms
        text = f"weights of {name} have shrunk to {short(times)} of their initial size, and the loss does not fall"
        decay = h.now.decays[h.now.groups[name]]
        yield Found(name, 1 / times if times else math.inf, text, f"lower the weight decay ({decay:.3g})")


RULES: dict[str, Rule] = {
    "not finite": not_finite,
    "update ratio": update_too_large,
    "small updates": update_too_small,
    "vanishing gradients": vanishing,
    "exploding through layers": exploding_through_layers,
    "exploding gradients": exploding,
    "huge activations": huge_activations,
    "dead units": dead_units,
    "saturated": saturated,
    "no gradient": no_gradient,
    "not zeroed": not_zeroed,
    "clipping": clipping,
    "diverging loss": diverging,
    "growing weights": growing,
    "shrinking weights": shrinking,
}


# If a rule finds several parameters, name the one with the largest figure, or the first one in the model.
_BY_FIGURE = {"update ratio", "growing weights", "shrinking weights"}


class Rules:
    """Raise each alarm once, and again after a number of records without its condition."""

    def __init__(self) -> None:
        self._history = History()
        self._judged = 0
        self._active: dict[tuple[str, str], int] = {}  # the last record with the condition

    def judge(self, records: Sequence[StepRecord], shapes: dict[str, tuple[int, ...]]) -> list[Alarm]:
        """Return the alarms that the last record raises."""
        history = self._history
        history.add(records, shapes)
        self._judged += 1
        raised: list[Alarm] = []
        # Then sums of gradients, and not the learning rate, are at fault.
        last = self._active.get(("not zeroed", ""), -_CALM - 1)
        carried = self._judged - last <= _CALM or next(not_zeroed(history), None) is not None
        for reason, rule in RULES.items():
            found = [x for x in rule(history) if self._is_new(reason, x.name)]
            if len(found) > _TOGETHER:
                ranked = sorted(found, key=lambda x: -x.figure) if reason in _BY_FIGURE else found
                worst, others = ranked[0], len(ranked) - 1
                found = [worst._replace(text=f"{worst.text}; also {others} more, such as {ranked[1].name}")]
            for x in found:
                advice = _ZERO if carried and "learning rate" in x.advice else x.advice
                raised.append(Alarm(f"{x.text}: {advice}", history.now.step, reason, x.name, x.figure))
        return raised

    def _is_new(self, reason: str, name: str) -> bool:
        last = self._active.get((reason, name), -_CALM - 1)
        self._active[reason, name] = self._judged
        return self._judged - last > _CALM


def short(value: float) -> str:
    """Format a figure as ``0.31`` or ``3e-5``."""
    if not math.isfinite(value) or value == 0 or 0.01 <= abs(value) < 1000:
        return f"{value:.2g}" if abs(value) < 100 else f"{value:.0f}"
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}"


def _rates(record: StepRecord, name: str = "") -> str:
    """Return the learning rates; if they differ and a parameter is named, only that of its group, with the name."""
    rates = list(dict.fromkeys(f"{rate:.3g}" for rate in record.rates))
    if len(rates) > 1 and name in record.groups:
        return f"{_rate_of(record, name)}, that of {name}"
    return ", ".join(rates) or "unknown"


def _rate_of(record: StepRecord, name: str) -> str:
    """Return the learning rate of a parameter's group."""
    group = record.groups.get(name)
    return "unknown" if group is None else f"{record.rates[group]:.3g}"


def cause_of(records: Sequence[StepRecord], alarms: Sequence[Alarm]) -> tuple[str, int]:
    """Return a sentence on the likely cause of the first alarm, and its step; an empty sentence if there is no alarm.

    The sentence names a change of the program's settings shortly before the alarm, else the first loss, gradient or
    weight that is not finite, else the alarm itself.
    """
    if not alarms:
        return "", 0
    first = min(alarms, key=lambda alarm: alarm.step)
    others = f"; {len(alarms) - 1} more alarm{'s' * (len(alarms) > 2)} followed" if len(alarms) > 1 else ""
    place = next((i for i, record in enumerate(records) if record.step >= first.step), len(records) - 1)
    for i in range(place, max(0, place - _BEFORE), -1):
        changes = _changes(records[i - 1], records[i])
        if changes:
            step = records[i].step
            when = f"step {step}" if step - records[i - 1].step == 1 else f"steps {records[i - 1].step + 1} to {step}"
            return f"{', '.join(changes)} at {when}; the first alarm came at step {first.step}{others}", step
    return f"step {first.step}: {first}{others}", first.step


def _changes(before: StepRecord, after: StepRecord) -> list[str]:
    """Return what the program changed between two records."""
    found = []
    for name, old, new in (("lr", before.rates, after.rates), ("weight decay", before.decays, after.decays)):
        if len(old) != len(new):
            found.append(f"{len(old)} -> {len(new)} parameter groups")
            continue
        pairs = {pair for pair in zip(old, new, strict=True) if _jumped(*pair)}
        found += [f"{name} {short(a)} -> {short(b)}" for a, b in sorted(pairs)]
    gone, new_names = before.weights.keys() - after.weights.keys(), after.weights.keys() - before.weights.keys()
    found += [f"{len(names)} parameters {verb}" for names, verb in ((gone, "left"), (new_names, "joined")) if names]
    return list(dict.fromkeys(found))


def _jumped(old: float, new: float) -> bool:
    if old == new or not math.isfinite(new):
        return old != new
    low, high = sorted((abs(old), abs(new)))
    return low == 0 or high / low >= _JUMP
