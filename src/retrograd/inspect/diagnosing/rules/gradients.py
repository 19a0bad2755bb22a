"""Rules on gradients: whether they are computed, kept until the step, used once, and finite."""

from __future__ import annotations

import linecache
import math
import re
from dataclasses import replace

import numpy as np

from ....core.arrays.dtypes import FLOATING
from ....core.source_location import Site
from ....core.tensor.tensor import Tensor
from ....nn.parameter import Parameter
from ...record import Record
from ..findings import figure
from ..kinds import LOSSES, Case, Found, HasPlace, Place, kind
from ..own_updates import OwnUpdate
from ..probes.proof import STEPS, better, compare, train
from ..probes.replay import NOTHING, Curves, Edit
from ..run import Optimized, Run
from ..step_recorder import Array, Call, Source, Step
from .growth.rates import largest_step
from .program_text import is_never_stepped

_ALONE = 2  # at most this number of steps in a run suggests that the step is outside of the loop
_MANY = 20  # the least number of backward passes and of calls of zero_grad in such a run
_SHARE = 0.6  # the least share of steps with a problem
_LEAD_TO_NAN = ("unnormalized-input", "exploding-gradient")
_REMOVED = "remove these examples from the data, or replace such values"
_REPLACED = "replace such values before, by torch.where: a mask that multiplies afterwards leaves them (0 * NaN is NaN)"
_ZERO_GRAD = "call optimizer.zero_grad()"
ONE_LOSS = "the recorded step is that of another optimizer's loss"


def without_call(case: Case, method: str, near: HasPlace | None) -> Place | None:
    """Return the line that names a method and does not call it, such as ``optimizer.step``."""
    file = near.file if near is not None else case.run.script
    pattern = re.compile(rf"^\s*[^#=]+\.{method}\s*(#.*)?$")
    for number, line in enumerate(linecache.getlines(file), start=1):
        if pattern.match(line):
            return Place(file, number)
    return None


@kind(
    "backward-missing",
    "Does a backward pass run before each step?",
    "{steps} of {all} steps of {optimizer} found no gradient of its parameters: {why}.",
    "call backward() on {loss} before the step",
    "the recorded step has no backward pass that could be run again",
)
def backward_missing(case: Case) -> Found | None:
    for x in case.run.optimizers:
        if x.steps < 2 or x.idle < max(2, _SHARE * x.steps):
            continue
        loss = next((loss for step in case.run.steps if (loss := unused_loss(step, x)) is not None), None)
        if not case.run.backwards or loss is not None:
            where = without_call(case, "backward", x.stepped) or x.stepped
            name = "the loss" if loss is None else f"the loss of line {loss.record.line}"
            why = f"no backward pass starts from {name}" if case.run.backwards else "no backward pass ran before them"
            values = {"steps": x.idle, "all": x.steps, "optimizer": case.run.title(x), "why": why, "loss": name}
            return Found(where, values)
    return None


def unused_loss(step: Step, x: Optimized) -> Call | None:
    """Return a loss that depends on an optimizer's parameters and from which no backward pass of the step starts."""
    held = {id(p) for p in x.parameters}
    assigned = [step.assigned(p) for root in step.roots for p in step.leaves(root.source) if id(p) not in held]
    reached: set[int] = set()
    for root in step.roots:
        reached |= step.below(root.source)
        if root.source.call < 0 or not any(id(p) in held or isinstance(p, Parameter) for p in step.leaves(root.source)):
            return None  # the backward pass starts from a loss that was cut off from the graph
    for source in step.asked:
        reached |= step.below(source)
    read = {x.call for call in step.calls for x in call.inputs}
    for call in step.calls:
        unused = call.index not in reached and call.index not in read and not call.inplace
        if not unused or not call.record.requires_grad or math.prod(call.shape) != 1:
            continue
        source = Source(call.index, 0, None, None)
        depends = any(id(p) in held for p in step.leaves(source)) or _reads_earlier(step, source)
        if depends and all(y is not call for y in assigned):
            return call
    return None


def _reads_earlier(step: Step, source: Source) -> bool:
    """Return whether a value depends on results of an earlier step, whose leaves are unknown."""
    calls = [step.calls[i] for i in step.below(source)]
    return any(c.needs(n) and x.call < 0 and x.leaf is None for c in calls for n, x in enumerate(c.inputs))


@kind(
    "step-missing",
    "Does an optimizer use the gradients?",
    "{backwards} backward passes computed gradients for the parameters of {optimizer}, which never made a step.",
    "call optimizer.step() after loss.backward()",
)
def step_missing(case: Case) -> Found | None:
    run = case.run
    for x in run.optimizers:
        if x.steps and x.steps <= _ALONE and x.zeros >= _MANY * x.steps and run.backwards >= _MANY and x.graded_at < 1:
            text = (
                f"{run.title(x)} made {x.steps} step{'s' * (x.steps > 1)}, in this line, in a run of {run.backwards} "
                f"backward passes, and zeroed its gradients {x.zeros} times: all others were lost."
            )
            fix = "call it after each backward pass: this line belongs into the loop"
            return Found(x.stepped, {}, Edit("with the step", without="none"), message=text, fix=fix)
        if x.steps or x.backwards < 3 or not (x.had_gradient or x.zeroed) or not x.start or x.source is None:
            continue
        if case.main is not None and x.zeros < 3 and not is_never_stepped(run, x):
            continue  # the optimizer may be used in a later phase of the training
        if _is_updated(case, x):
            continue  # the program updates the parameters itself
        taken = _taken_step(case, x)
        if taken is not None:
            site, other = taken
            text = (
                f"{x.backwards} backward passes computed gradients for the parameters of {run.title(x)}, which never "
                f"made a step; this line, after such a backward pass, steps {run.title(other)}, whose parameters the "
                "backward pass does not reach."
            )
            edit = Edit("with the step", without="none") if x is case.main else None
            fix = f"step the {x.name} of line {x.created.line} here" if x.created is not None else "step this optimizer"
            values = {"backwards": x.backwards, "optimizer": case.run.title(x)}
            return Found(site, values, edit, message=text, fix=fix, unproved=ONE_LOSS)
        where = without_call(case, "step", run.backward_site) or _beside_zero_grad(
            case, x, _own_backward(case, x) or run.backward_site
        )
        edit = Edit("with the step", without="none") if case.main is None else None
        return Found(where, {"backwards": x.backwards, "optimizer": run.title(x)}, edit, unproved=ONE_LOSS)
    return None


def _is_updated(case: Case, x: Optimized) -> bool:
    """Return whether the program changes an optimizer's parameters itself, other than by clipping their values."""
    changed = [p for p in x.parameters if id(p) in x.start and bool((x.start[id(p)] != p.array).any())]
    writes = [
        call
        for step in case.run.steps
        for call in step.calls
        if call.inplace and call.inputs and any(call.inputs[0].leaf is p for p in changed)
    ]
    return bool(changed) and not (writes and all(call.name.startswith("clamp") for call in writes))


def _taken_step(case: Case, x: Optimized) -> tuple[Site, Optimized] | None:
    """Return the line that steps another optimizer after a backward pass that reaches only the parameters of ``x``."""
    mine = {id(p) for p in x.parameters}
    for step in case.run.steps:
        for root in step.roots:
            reached = {id(p) for p in step.leaves(root.source)}
            for number, site in root.stepped.items() if reached & mine else ():
                other = case.run.optimizers[number]
                if site is not None and not any(id(p) in reached for p in other.parameters):
                    return site, other
    return None


def _beside_zero_grad(case: Case, x: Optimized, site: Site | None) -> Site | None:
    """Return the line, in the function that calls ``zero_grad``, that calls the helper with the backward pass."""
    stack, zeroed = case.run.backward_stack, x.zeroed
    if site is None or zeroed is None or site not in stack:
        return site
    inner = stack[: stack.index(site) + 1]
    same = [y for y in inner if (y.file, y.function) == (zeroed.file, zeroed.function)]
    return same[-1] if same else site


def _own_backward(case: Case, x: Optimized) -> Site | None:
    """Return the line of the last backward pass of a step that reaches parameters of this optimizer and of no other."""
    mine = {id(p) for p in x.parameters}
    others = {id(p) for y in case.run.optimizers if y is not x for p in y.parameters}
    for step in case.run.steps:
        sites: list[Site] = []
        for root in step.roots:
            reached = {id(p) for p in step.leaves(root.source)}
            if reached & mine and not reached & others:
                if root.site in sites:
                    break  # the backward pass of the next batch
                sites.append(root.site)
        if sites:
            return sites[-1]
    return None


@kind(
    "zeroed-before-step",
    "Does the step find the gradient that the backward pass left?",
    "zero_grad() runs between backward() and step(): {emptied} of {steps} steps of {optimizer} {what}.",
    "{fix}",
)
def zeroed_before_step(case: Case) -> Found | None:
    for x in case.run.optimizers:
        others = {id(p) for y in case.run.optimizers if y is not x and y.steps for p in y.parameters}
        if others and all(id(p) in others for p in x.parameters):
            continue  # another optimizer uses the gradients
        if x.steps >= 2 and x.emptied >= max(2, _SHARE * x.steps):
            values = {
                "emptied": x.emptied,
                "steps": x.steps,
                "optimizer": case.run.title(x),
                "what": "found gradients of zero",
            }
            values["fix"] = "call zero_grad() before backward(), or after step()"
            edit, text = Edit("with zero_grad() moved", without="none"), ""
            if 2 * x.emptied_by_hand > x.emptied:
                text = (
                    f"the program sets gradients to None or zero between backward() and step(): {x.emptied} of "
                    f"{x.steps} steps of {values['optimizer']} found none."
                )
            return Found(x.zeroed if not text and x.zeroed else x.stepped, values, edit, message=text)
        if x.steps >= 2 and x.overwritten >= max(2, _SHARE * x.steps) and not _of_inputs(case):
            what = "used the gradient of their last backward pass only; those before it were lost"
            values = {"emptied": x.overwritten, "steps": x.steps, "optimizer": case.run.title(x), "what": what}
            values["fix"] = "call zero_grad() once per step, outside of the loop over the backward passes"
            why = "the doctor runs one backward pass of a recorded step again, and this edit is about several"
            return Found(x.zeroed or x.stepped, values, unproved=why)
    return None


def _of_inputs(case: Case) -> bool:
    """Return whether a backward pass is for the gradient of an input, as in adversarial training."""
    held = {id(p) for x in case.run.optimizers for p in x.parameters}
    return any(id(p) not in held and not isinstance(p, Parameter) for p in _reached(case))


def _reached(case: Case) -> list[Tensor]:
    """Return the leaves that the recorded backward passes reach."""
    return [p for step in case.run.steps for root in step.roots for p in step.leaves(root.source)]


@kind(
    "gradients-not-zeroed",
    "Does each step use its own gradient only?",
    "nothing zeroes the gradients of {optimizer}: {carried} of {steps} steps used the sum of all gradients so far.",
    "{call} before loss.backward(){rate}",
)
def gradients_not_zeroed(case: Case) -> Found | None:
    for x in case.run.optimizers:
        held = {id(p) for p in x.parameters}
        added = any(id(p) in held for p in _reached(case))  # otherwise the program assigns the gradients
        if added and x.steps >= 3 and x.carried >= max(2, _SHARE * (x.steps - 1)):
            where = without_call(case, "zero_grad", x.stepped) or _first_backward(case, x) or x.used
            edit, curves, rate = _with_zero_grad(case, x)
            call = "set p.grad to None for each parameter p" if isinstance(x.optimizer, OwnUpdate) else _ZERO_GRAD
            values = {
                "optimizer": case.run.title(x),
                "carried": x.carried,
                "steps": x.steps,
                "call": call,
                "rate": rate,
            }
            return Found(where, values, edit, curves)
    return None


def _first_backward(case: Case, x: Optimized) -> Site | None:
    """Return the line of the first backward pass since the previous step, among those whose gradients a step uses."""
    number = case.run.optimizers.index(x)
    for step in case.run.steps[1:]:
        last = next((root for root in step.roots if number in root.optimizers), None)
        if last is not None:
            return next(root.site for root in step.roots if root.after == last.after)
    return None


def _with_zero_grad(case: Case, x: Optimized) -> tuple[Edit, Curves | None, str]:
    """Return the edit, its curves and a text: at the same rate, or at a larger rate if this lowers the loss more.

    Sums of gradients act as a larger rate, so without them the rate may be too small.
    """
    first = Edit("with zero_grad()", without="carry")
    curves = compare(case.run, case.program, first, case.budget)
    program = case.program
    if program is not None and curves is not None and not better(curves) and x is case.main and x.rates:
        for factor in (10.0, 100.0):
            rate = figure(max(x.rates) * factor)
            edit = replace(first, text=f"with zero_grad() and lr={rate}", options={"lr": factor})
            most = case.budget.share(1, STEPS, of_proof=True)
            fixed = train(case.run, program, NOTHING, NOTHING, edit.options, "", edit, case.budget, most=most)
            tried = curves._replace(fixed=fixed).compared()
            if better(tried):
                return edit, tried, f", and raise the rate to {rate}: sums of gradients have acted as a larger rate"
    return first, curves, ""


@kind(
    "nan-birth",
    "Are all numbers finite?",
    "{what}{story}",
    "{fix}",
    "the recorded step does not show which value is meant here",
)
def nan_birth(case: Case) -> Found | None:
    run = case.run
    if run.bad is None and not (_spoils(case) and _first_bad_record(case) is not None):
        return None
    if run.bad is not None and (_diverged(case) or any(map(case.answer, _LEAD_TO_NAN)) or _overshot(case)):
        return None  # the NaN is an effect of another finding
    return first_bad(case)


def first_bad(case: Case) -> Found:
    """Return the finding for the first number that is not finite, whatever the earlier losses were."""
    run = case.run
    given = _bad_data(case)
    record = _first_bad_record(case)
    what = "parameters become NaN"
    if run.bad is not None:
        number, loss = run.bad
        stays = not any(map(math.isfinite, run.losses[number:]))
        what = f"the loss is {loss} {'from' if stays else 'at'} backward pass {number}{' on' if stays else ''}"
    fix = "keep the argument in the operator's domain, for example with an eps or a clamp"
    values: dict[str, object] = {"what": what, "story": ".", "fix": fix}
    if given is not None:
        call, what = given
        values |= {
            "story": f": {what}.",
            "data": True,
            "fix": _REPLACED if _is_masked(case, call) else _REMOVED,
        }
        return Found(call.record, values)
    if record is not None:
        bad = record.values is not None and not record.values.finite
        what = "whose result has a NaN or an infinity" if bad else "that passes on a gradient with a NaN"
        values["story"] = f": {record.operator} of line {record.line} is the first recorded call {what}."
        return Found(record, values)
    return Found(run.backward_site, values)


def _is_masked(case: Case, call: Call) -> bool:
    """Return whether a later call multiplies the result by data with zeros: a mask."""
    for step in case.run.steps:
        for later in step.passed():
            if later.name != "mul" or later.index < call.index:
                continue
            given = [x for n, x in enumerate(later.inputs) if not later.needs(n) and Case.has_array(step, x)]
            if any(np.size(x) > 1 and not np.all(x) for x in map(step.array, given)):
                return True
    return False


def _bad_data(case: Case) -> tuple[Call, str] | None:
    """Return the first call that gets NaN in its data, or NaN or infinity as a target of a loss, and a description."""
    for step in case.run.steps:
        for call in reversed(step.passed()):
            for place, x in enumerate(call.inputs):
                target = place == 1 and call.name in LOSSES and not call.needs(1) and Case.has_array(step, x)
                array: Array = step.array(x) if target else x.value if x.leaf is None and x.call < 0 else None
                if np.size(array) < 2 or getattr(array, "dtype", np.dtype(bool)).kind not in FLOATING:
                    continue
                count = int((~np.isfinite(array) if target else np.isnan(array)).sum())
                if count:
                    of = "the target" if target else f"the data (input {place})"
                    what = "NaN or infinite" if target else "NaN"
                    return call, f"{count} of {np.size(array)} elements of {of} of {call.name} are {what}"
    return None


def _first_bad_record(case: Case) -> Record | None:
    """Return the first recorded call with a NaN or an infinity in its result, or else with a NaN in its gradient."""
    run = case.run
    record: Record | None = None
    for step in run.steps:
        for candidate in step.records:
            found = candidate.values
            if found is None or not found.nans and not (found.infinities and candidate.operator in ("div", "log")):
                continue
            if any(_is_bad(x.source) for x in candidate.inputs) or candidate.operator in ("masked_fill", "full"):
                continue
            if candidate.creates or not found.nans and not run.bad:
                continue
            record = candidate
            break
        if record is None:
            record = _bad_gradient(step)
        if record is not None:
            break
    return record


def _is_bad(source: object) -> bool:
    values = getattr(source, "values", None)
    return values is not None and not values.finite


def _bad_gradient(step: Step) -> Record | None:
    """Return the call whose rule returned the first NaN of a backward pass: its own gradient is still finite."""
    walked = sorted([x for x in step.records if x.walked is not None], key=lambda x: x.walked or 0)
    for before, after in zip(walked, walked[1:], strict=False):
        if after.gradients is not None and after.gradients.nans and before.gradients is not None:
            readers = [x for x in walked if any(y.source is after for y in x.inputs)]
            return readers[0] if readers else before
    return None


def _spoils(case: Case) -> bool:
    """Return whether parameters have become NaN."""
    return any(
        bool(np.isnan(p.array).any()) for x in case.run.optimizers for p in x.parameters if p.dtype.kind in FLOATING
    )


def _diverged(case: Case) -> bool:
    """Return whether the loss grew far above its first value before it became NaN or infinite."""
    finite = [abs(x) for x in case.losses if math.isfinite(x)]
    return len(finite) >= 2 and max(finite[1:]) > 20 * max(min(finite), 1e-12) and max(finite[1:]) > 3 * finite[0]


def _overshot(case: Case) -> bool:
    """Return whether a step before the first NaN was larger than the parameters, and smaller steps lower the loss."""
    main = case.main
    return main is not None and largest_step(main)[1] > 1.0 and case.answer("learning-rate-too-high") is not None


@kind(
    "graph-grows",
    "Does each step have a graph of its own?",
    "{what}",
    "{fix}",
    "memory and time grow, and not the loss",
)
def graph_grows(case: Case) -> Found | None:
    run = case.run
    error = run.error
    if run.failed_backward is not None and error is not None and "a second time" in str(error):
        what = "the backward pass enters the graph of an earlier step, which is freed: a value is kept between steps."
        fix = "detach what is kept from step to step, such as a hidden state: h = h.detach()"
        return Found(run.failed_backward, {"what": what, "fix": fix})
    sizes = [(count, size) for count, size in run.graph_sizes if count > 1]
    if len(sizes) >= 4:
        counts, nodes = zip(*sizes, strict=True)
        rising = all(a < b for a, b in zip(nodes, nodes[1:], strict=False))
        if rising and nodes[-1] > 3 * nodes[0] and nodes[-1] - nodes[0] > 0.8 * (counts[-1] - counts[0]):
            what = (
                f"the graph of a backward pass has {nodes[0]} operators at pass {counts[0]} and {nodes[-1]} at pass "
                f"{counts[-1]}: each step adds to the graph of the steps before."
            )
            values = {"sizes": [list(x) for x in sizes]}
            summed = _sum_of_steps(run.last)
            if summed is not None:
                what += f" The loss is added to those of earlier steps in line {summed.record.line}, and the backward "
                what += "pass starts at the sum, so that gradients of earlier losses are computed again."
                fix = "call backward() on the loss of the step alone, and add up numbers: total += loss.item()"
                why = "the recorded step has no graphs of the steps before"
                return Found(run.backward_site, {"what": what, "fix": fix, **values}, unproved=why)
            fix = "detach what is kept from step to step, such as a hidden state: h = h.detach()"
            return Found(run.backward_site, {"what": what, "fix": fix, **values})
    if run.kept_graphs is not None:
        kept = _keeping_of(run.kept_graphs, run) or _keeping(run.kept_graphs, _ADDED if run.summed else _APPENDED)
        where = kept or (None if run.summed else _keeping(run.kept_graphs, _LISTED, _NEAR)) or run.kept_graphs
        how = "a sum of Tensors that grows" if run.summed else "a list of Tensors"
        what = f"the losses of all earlier steps are kept with their graphs, by {how}: memory grows in each step."
        return Found(where, {"what": what, "fix": "keep numbers, not Tensors: loss.item()"})
    if run.kept_call is not None:
        what = (
            f"the program keeps the result of {run.kept_call.name} of each step with its graph, which no backward pass "
            "walks and frees: memory grows in each step."
        )
        fix = "compute what is only measured under torch.no_grad(), or keep numbers: append(x.item())"
        return Found(run.kept_call.record, {"what": what, "fix": fix})
    return None


def _sum_of_steps(step: Step | None) -> Call | None:
    """Return the call that adds the loss of a step to a Tensor with the graphs of earlier steps."""
    call = None if step is None else step.producer(step.roots[-1].source)
    while step is not None and call is not None and call.shape == () and call.name in ("add", "div", "mul"):
        earlier = [x.call < 0 and x.leaf is None and call.needs(n) for n, x in enumerate(call.inputs)]
        if call.name == "add" and any(earlier):
            return call
        call = next((step.producer(x) for n, x in enumerate(call.inputs) if call.needs(n)), None)
    return None


_LOSS = r"(loss|total|sum|avg|epoch|running|cost|err)"
_ADDED = re.compile(rf"^\s*[\w.\[\]'\"]*{_LOSS}[\w.\[\]'\"]*\s*(\+=|=\s*[\w.\[\]'\"]+\s*\+)\s*[\w.]*\s*(#.*)?$")
_APPENDED = re.compile(rf"^\s*[\w.\[\]'\"]+\.append\(.*{_LOSS}.*\)\s*(#.*)?$")


_LISTED = re.compile(r"^\s*[\w.\[\]'\"]+\.append\([^()]*\)\s*(#.*)?$")
_NEAR = 20  # the number of lines, around a backward pass, that are searched


def _keeping_of(near: Site, run: Run) -> Place | None:
    """Return the line, near a backward pass, that adds or appends the loss variable on which backward is called."""
    started = re.match(r"\s*(\w+)\.backward\(", near.code)
    if started is None:
        return None
    name = rf"(?<![\w.]){started[1]}\b(?!\s*[.\w(\[])"
    summed = rf"(?P<sum>[\w.\[\]'\"]+)\s*(?:\+=|=[^#=]*(?P=sum)[^#=]*[+])\s*[^#=]*{name}"
    kept = summed if run.summed else rf"[\w.\[\]'\"]+\.append\([^#]*{name}"
    return _keeping(near, re.compile(rf"^\s*{kept}"), _NEAR)


def _keeping(near: Site, pattern: re.Pattern[str], most: int = 1 << 30) -> Place | None:
    """Return the line that matches the pattern and is nearest to a backward pass, without calls of ``item``."""
    lines = linecache.getlines(near.file)
    ordered = sorted(range(len(lines)), key=lambda i: abs(i + 1 - near.line))[: 2 * most]
    return next((Place(near.file, i + 1) for i in ordered if pattern.match(lines[i]) and "item" not in lines[i]), None)
