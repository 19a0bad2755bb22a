"""Rules on cuts in the graph: values that a backward pass does not reach, and writes that it does not see."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import numpy as np

from ....core.source_location import Site
from ....nn.parameter import Parameter
from ...record import Departure, Record
from ..findings import figure, listing
from ..kinds import LOSSES, Case, Found, all_leaves, kind
from ..own_updates import OwnUpdate
from ..probes.replay import Changes, Edit
from ..run import Optimized
from ..step_recorder import Call, Root, Source, Step
from .gradients import unused_loss
from .signs.policies import likelihood
from .stillness import cut_states, depending, elementwise_from, flat, meets_data, to_new_leaf

_WITHOUT_GRADIENT = {
    name: f"compute the loss from what {name} gets: an index has no gradient" for name in ("argmax", "argmin")
} | dict.fromkeys(
    ("gt", "ge", "lt", "le", "eq", "ne"),
    "use a smooth step in place of the comparison, such as torch.sigmoid((x - threshold) / width)",
)
_COPIES_NUMBERS = re.compile(r"\b(tensor|as_tensor|FloatTensor|Tensor)\(")
_REDUCTIONS = frozenset({"mean", "sum"})
_WITHOUT_NUMPY = (
    "compute with operators on Tensors between the parameters and the loss: numpy() cuts the graph with and without "
    "detach()"
)
_REPLACED = (
    "under no_grad, this line replaces a parameter by a new Tensor that requires no gradient, and the next backward "
    "pass fails."
)
_IN_PLACE = (
    "change the parameter in place (w -= lr * w.grad; w.grad = None), or call requires_grad_() on the new Tensor"
)
_DISTANCES = frozenset({"square", "pow", "abs"})
_MOST = 50  # the most departures, or cuts, that are compared


@kind(
    "detached",
    "Does the loss depend on the parameters?",
    "{what}",
    "remove {how} from this line, or compute the loss from the value before it",
    "the recorded step does not show what the program is to compute in its place",
)
def detached(case: Case) -> Found | None:
    run = case.run
    error = run.error
    if run.failed_backward is not None and error is not None and "does not require grad" in str(error):
        if run.steps and not any(p._requires for p in all_leaves(run.steps[-1])) and run.frozen:
            return None  # no cut: all parameters that the step reads are frozen
        cut = _of_whole_loss(run.steps[-1]) if run.steps else None
        lost = _update_of(run.steps, cut)
        if lost is not None:
            return Found(lost.record, {"how": "no_grad"}, message=_REPLACED, fix=_IN_PLACE)
        how = _named(cut) if cut is not None else "an operator without a gradient"
        what = f"the loss does not depend on any parameter: {how} cuts the graph, and the backward pass fails."
        return Found(cut if cut is not None else run.failed_backward, {"what": what, "how": how})
    if len(run.steps) < 2 or not run.backwards:
        return None
    if any(x.steps > 1 and x.parameters and not any(p._requires for p in x.parameters) for x in run.optimizers):
        return None  # no cut: all parameters of an optimizer are frozen
    for x in run.optimizers:
        if x.steps < 2 or x.emptied:
            continue
        found = _without_gradient(case, x) or _constant_term(case, x) or _number_term(case)
        found = found or _of_others(case, x) or _sampled(case, x)
        if found is not None:
            return found
    return flat(case) or cut_states(case)


def _update_of(steps: list[Step], cut: Departure | None) -> Call | None:
    """Return the call under ``no_grad`` that computes a new value of a leaf, as in ``w = w - lr * w.grad``."""
    for call in steps[-1].calls if steps and cut is not None and cut.how == "no_grad" else ():
        leaf = next((x.leaf for x in call.inputs if x.leaf is not None and x.leaf._requires), None)
        if call.untracked and not call.inplace and leaf is not None and tuple(leaf.shape) == call.shape:
            return call
    return None


def _of_whole_loss(step: Step) -> Departure | None:
    for root in step.roots[-1:]:
        found = _first_cut(step, root.source, None)
        if found is not None:
            return found
    return next((x for x in reversed(step.departures) if x.requires_grad), None)


def _named(cut: Departure) -> str:
    """Return the name of the operation that cuts the graph, as the program writes it."""
    code = cut.site.code
    if cut.how in ("numpy", "item", "tolist") and _COPIES_NUMBERS.search(code):
        return "tensor()"
    return ".data" if cut.how == "detach" and ".data" in code and "detach" not in code else cut.how


def _without_gradient(case: Case, x: Optimized) -> Found | None:
    """Return the finding for parameters that the forward pass uses, and that no backward pass reaches."""
    missing = [p for p in x.parameters if id(p) not in x.graded and p._requires]
    if not missing:
        return None
    wanted = {id(p) for p in missing}
    for step in [*case.run.steps[1:3], *case.run.steps[:1]]:  # the recording of the first step may begin late
        reached = {id(p) for root in step.roots for p in step.leaves(root.source)}
        if not step.roots or reached & wanted:
            continue
        read = {id(y.leaf) for call in step.calls for y in call.inputs if y.leaf is not None} & wanted
        if not read:
            found = _copied(case, step, x, wanted)
            if found is not None:
                return found
            continue
        number = case.run.optimizers.index(x)
        roots = sorted(step.roots, key=lambda root: number not in root.optimizers)  # first the loss that x minimizes
        on_path = (_first_cut(step, root.source, read) for root in roots)
        cut = next((found for found in on_path if found is not None), None)
        if cut is None and _trains_others(case, step):
            continue
        cut = cut or _as_number(step, x)
        if cut is None and unused_loss(step, x) is None:  # with an unused loss, only its backward pass is missing
            cut = to_new_leaf(step, read) or _as_numbers(step, read) or _cut_between(step, read)
        if cut is None:
            continue
        names = [step.name(p) for p in missing if id(p) in read]
        shown = listing(names)
        how = _named(cut)
        what = (
            f"the loss does not depend on {shown}: {how} cuts the graph, and {case.run.title(x)} never gets a gradient "
            f"for {'it' if len(names) == 1 else 'them'}."
        )
        return Found(cut, {"what": what, "how": how}, _joined(cut, x), fix=_edit_of(cut))
    return None


def _by_numpy(cut: Departure) -> bool:
    """Return whether a value is converted to NumPy, which cuts the graph with and without ``detach``."""
    return "numpy(" in cut.site.code


def _trains_others(case: Case, step: Step) -> bool:
    """Return whether backward passes reach Parameters of another model: Parameters that no optimizer has."""
    held = {id(p) for x in case.run.optimizers for p in x.parameters}
    reached = [p for root in step.roots for p in step.leaves(root.source)]
    return any(isinstance(p, Parameter) and id(p) not in held for p in reached)


def _constants(step: Step) -> list[float]:
    """Return the constant single numbers among the inputs of the calls that the backward passes visit."""
    return [
        float(np.asarray(y.value).reshape(-1)[0])
        for root in step.roots
        for i in step.below(root.source)
        for y in step.calls[i].inputs
        if y.call < 0 and y.leaf is None and isinstance(y.value, (int, float, np.ndarray)) and np.size(y.value) == 1
    ]


def _as_number(step: Step, x: Optimized) -> Departure | None:
    """Return where the loss of an optimizer's parameters became a number, if the backward pass uses this number."""
    loss = unused_loss(step, x)
    values = None if loss is None else loss.record.values
    if loss is None or values is None:
        return None
    if not any(math.isclose(number, values.mean, rel_tol=1e-5) for number in _constants(step)):
        return None
    return next((one for one in step.departures if one.source is loss.record and one.requires_grad), None)


def _copied(case: Case, step: Step, x: Optimized, wanted: set[int]) -> Found | None:
    """Return the finding for a parameter if the program uses a copy of the parameter that is a separate leaf."""
    shapes = {tuple(p.shape) for root in step.roots for p in step.leaves(root.source)}
    for cut, p in step.left:
        if id(p) not in wanted:
            continue
        if cut.how in ("item", "tolist") and p.array.size == 1:
            number = float(p.array.reshape(-1)[0])  # unchanged since, as p gets no gradient
            if not any(math.isclose(x, number, rel_tol=1e-6) for x in _constants(step)):
                continue
        elif tuple(p.shape) not in shapes or cut.how == "item":
            continue
        how, name = _named(cut), cut.name or step.name(p)
        what = (
            f"the loss depends on a copy of {name} that {how} makes without its graph, and {case.run.title(x)} never "
            f"gets a gradient for {name} itself."
        )
        return Found(cut, {"what": what, "how": how})
    return None


def replaced_leaf(case: Case) -> Found | None:
    """Return the finding for a leaf that the program replaces by a new leaf, while an optimizer has the old leaf."""
    for x in case.run.optimizers:
        last = case.run.last
        if last is None or x.steps < 3 or x.graded_at >= x.steps - 1 or isinstance(x.optimizer, OwnUpdate):
            continue
        reached = [p for root in last.roots for p in last.leaves(root.source)]
        held = {id(p) for p in x.parameters}
        shapes = [tuple(p.shape) for p in reached if not isinstance(p, Parameter)]
        for step in case.run.steps:
            for cut, p in step.left:
                if id(p) not in held or tuple(p.shape) not in shapes or any(id(p) == id(q) for q in reached):
                    continue
                name = cut.name or step.name(p)
                what = (
                    f"this line replaces {name} by a new Tensor, and {case.run.title(x)} still holds the first one, "
                    "which nothing uses."
                )
                fix = f"change {name} in place (under torch.no_grad()), or leave it to the optimizer"
                return Found(cut, {"optimizer": case.run.title(x), "names": name}, message=what, fix=fix)
    return None


def _joined(cut: Departure, of: Optimized | None = None) -> Edit | None:
    only = cut.how in ("detach", "detach_", "no_grad") and not _by_numpy(cut)
    return Edit(f"without {_named(cut)}", Changes(joined=True), of=of) if only else None


def _edit_of(cut: Departure) -> str:
    """Return the text of the edit for a value that leaves the graph; "" stands for the ``fix`` of the kind."""
    if _by_numpy(cut):
        return _WITHOUT_NUMPY
    if _named(cut) == "tensor()":
        return "join the Tensors by torch.stack or torch.cat: tensor() copies their numbers, without the graph"
    if cut.how == "item" and ("append(" in cut.site.code or " for " in cut.site.code):
        return "keep the Tensors, without .item(), and join them by torch.stack: a number has no graph"
    if cut.how == "no_grad":
        return "compute this outside of torch.no_grad()"
    return _WITHOUT_GRADIENT.get(cut.how, "")


def _constant_term(case: Case, x: Optimized) -> Found | None:
    """Return the finding for a term of the loss that is computed from detached values, and so has no gradient."""
    trained = {id(p) for p in x.parameters if p._requires}
    for step in case.run.steps[1:]:
        for root in step.roots:
            for call in _terms(step, root.source):
                source = Source(call.index, 0, None, None)
                below = step.below(source, through_cuts=True)
                read = {id(y.leaf) for i in below for y in step.calls[i].inputs if y.leaf is not None} & trained
                cut = (_cut_on_line(step, call, read) or _first_cut(step, source, read)) if read else None
                value = call.record.values
                if cut is None or value is None:
                    continue
                how = _named(cut)
                what = (
                    f"{call.name} of line {call.record.line} is a term of the loss ({figure(value.mean)} here) and has "
                    f"no gradient: {how} cuts it off from all parameters, so that no step lowers it."
                )
                return Found(cut, {"what": what, "how": how}, _joined(cut))
    return None


def _of_others(case: Case, x: Optimized) -> Found | None:
    """Return the finding for a term of an optimizer's loss that is cut off from the optimizer's parameters.

    The term has gradients only with respect to other parameters, such as a discriminator's, which no step uses.
    """
    number = case.run.optimizers.index(x)
    held = {id(p) for p in x.parameters if p._requires}
    steps = [step for step in case.run.steps[1:] if step.roots]
    stepped: dict[Site, set[int]] = {}  # by line of a term: numbers of the optimizers that step after its backward pass
    terms: list[tuple[Step, Root, Call]] = []
    for step in steps:
        for root in step.roots:
            for call in sums(step, root.source):
                if call.name not in ("add", "sub", "neg", "mul", "div"):
                    stepped.setdefault(call.site, set()).update(root.optimizers)
                    terms += [(step, root, call)] if root.optimizers == {number} else []
    for step, root, call in terms:
        source = Source(call.index, 0, None, None)
        reached = {id(p) for p in step.leaves(source)}
        others = {n for n, y in enumerate(case.run.optimizers) if reached & {id(p) for p in y.parameters}}
        known = {id(p) for y in case.run.optimizers for p in y.parameters}
        if not reached or reached & held or reached & known and not others or others & stepped[call.site]:
            continue
        if not held & {id(p) for p in step.leaves(root.source)}:
            continue
        below = step.below(source, through_cuts=True)
        read = {id(y.leaf) for i in below for y in step.calls[i].inputs if y.leaf is not None} & held
        cut = (_cut_on_line(step, call, read) or _first_cut(step, source, read)) if read else None
        value = call.record.values
        if cut is None or value is None:
            continue
        how = _named(cut)
        to = "parameters that no optimizer holds"
        if others:
            trained = case.run.title(case.run.optimizers[min(others)])
            to = f"those of {trained}, which makes no step after this backward pass"
        what = (
            f"{call.name} of line {call.record.line} is a term of the loss that {case.run.title(x)} lowers "
            f"({figure(value.mean)} here), and {how} cuts it off from that optimizer's parameters: its gradient "
            f"reaches only {to}."
        )
        return Found(cut, {"what": what, "how": how}, _joined(cut, x))
    return None


def _sampled(case: Case, x: Optimized) -> Found | None:
    """Return the finding for a random sample that passes no gradient on to the parameters of its distribution.

    A layer reads the sample, such as the decoder of a variational autoencoder. The distribution's parameters only get a
    gradient from a term of the loss that does not depend on the data, such as the divergence from a prior.
    """
    held = {id(p) for p in x.parameters}
    for step in case.run.steps[1:3]:
        random = {call.index for call in step.calls if call.shape and call.name.startswith(("rand", "normal"))}
        for root in step.roots:
            graph = {i for i in step.below(root.source) if step.calls[i].record.requires_grad}
            for index in sorted(step.below(root.source, through_cuts=True)):
                call = step.calls[index]
                layers = [y for y in step.readers(index) if y.weighted]
                if not layers:
                    continue
                drawn = elementwise_from(step, {index})
                lost, given, cut = _lost_at(step, call, layers, drawn)
                leaves = [p for i in given for p in step.leaves(Source(i, 0, None, None)) if id(p) in held]
                if not drawn & random or not leaves or not given & graph or meets_data(step, graph, given):
                    continue
                how = "no_grad" if cut is None else _named(cut)
                fix = f"compute the sample without {how}, so that gradients pass"
                if ".sample(" in call.site.code:
                    how, fix = "sample()", "use rsample() in place of sample()"
                elif call.name == "normal":
                    fix = f"use mean + std * torch.randn_like(std) without {how}: torch.normal has no gradient"
                names = [*dict.fromkeys(step.name(p) for p in leaves)]
                what = (
                    "the sample of this line has no gradient, and what is computed from it trains nothing before it: "
                    f"{listing(names)} get only the gradient of terms without data."
                )
                edit = Edit("with its gradient", Changes(joined=cut is not None, tracked=frozenset(lost)), of=x)
                return Found(cut or call.record, {"what": what, "how": how}, edit, fix=fix)
    return None


def _lost_at(
    step: Step, call: Call, layers: list[Call], drawn: set[int]
) -> tuple[set[int], set[int], Departure | None]:
    """Return where the gradient of a value that layers read is lost: the calls without a gradient, the calls with a
    gradient from which these compute, and the cut, None under ``no_grad``. All are empty if no gradient is lost.

    The gradient is lost in one of three places: between the value and the layer (``layer(z.detach())``), in calls under
    ``no_grad``, or before the elementwise calls that compute the value, ``drawn`` (``mean.detach() + noise``).
    """
    after = next((y.cut for one in layers for y in one.inputs if y.call == call.index and y.cut), None)
    if call.record.requires_grad and after is None:
        return set(), set(), None
    untracked = {i for i in drawn if not step.calls[i].record.grad_enabled}
    before = [y for i in drawn for y in step.calls[i].inputs if y.cut is not None and y.call >= 0]
    if after is None and not call.untracked:
        return untracked, {y.call for y in before}, before[0].cut if before else None
    lost = untracked if after is None else {call.index}
    inputs = [(i, n, y.call) for i in lost for n, y in enumerate(step.calls[i].inputs)]
    return lost, {source for i, n, source in inputs if step.calls[i].needs(n)} - lost, after


def _cut_on_line(step: Step, call: Call, read: set[int]) -> Departure | None:
    """Return the last cut of a value that depends on these leaves, if it is on the line of a term of the loss."""
    depends = depending(step, read)
    below = [step.calls[i] for i in step.below(Source(call.index, 0, None, None), through_cuts=True)]
    cuts = [y.cut for x in below for y in x.inputs if y.cut is not None and (y.call in depends or id(y.leaf) in read)]
    here = (call.site.file, call.site.line)
    return next((x for x in reversed(cuts) if x.requires_grad and (x.site.file, x.site.line) == here), None)


def _number_term(case: Case) -> Found | None:
    """Return the finding for a term of the loss that ``item`` or a similar method has converted to a number.

    The number is a multiple of a value that depends on parameters, with the same factor in two steps.
    """
    first, second = ([x for x in case.run.steps if x.roots] + [None, None])[:2]
    if first is None or second is None:
        return None
    for before, number in _numbers(first):
        for later, other in _numbers(second):
            if (before.line, before.operator) != (later.line, later.operator) or number == other:
                continue
            for cut in _values_left(first, before):
                for again in _values_left(second, later):
                    a, b = number / cut[1], other / again[1]
                    if cut[0].site is again[0].site and abs(a - b) <= 1e-4 * abs(a):
                        how = f"{cut[0].how}()"
                        what = (
                            f"a term of the loss in line {before.line} ({figure(number)} at first) is a number: {how} "
                            "cuts it off from the parameters, so that no step lowers it."
                        )
                        return Found(cut[0], {"what": what, "how": how})
    return None


def _numbers(step: Step) -> list[tuple[Record, float]]:
    """Return the numbers that are added to a loss, each with the record of the addition."""
    found: list[tuple[Record, float]] = []
    for root in step.roots:
        for call in sums(step, root.source):
            for x in call.inputs if call.name in ("add", "sub") else ():
                if x.call < 0 and isinstance(x.value, float) and x.value:
                    found.append((call.record, x.value))
    return found


def _values_left(step: Step, before: Record) -> list[tuple[Departure, float]]:
    """Return the conversions to numbers of values that depend on parameters, before a call, with the numbers."""
    found: list[tuple[Departure, float]] = []
    for x in step.departures[-_MOST:]:
        record = x.source if x.requires_grad and x.how in ("item", "tolist", "numpy") else None
        values = record.values if isinstance(record, Record) and record.index < before.index else None
        if values is not None and values.size == 1 and values.mean:
            found.append((x, values.mean))
    return found


def _terms(step: Step, source: Source) -> Iterator[Call]:
    """Yield the terms of a sum that are losses but have no gradient."""
    for call in sums(step, source):
        if not call.record.requires_grad and _is_loss(step, call):
            yield call


def sums(step: Step, source: Source) -> Iterator[Call]:
    """Yield the sums in a loss and their terms, also behind constant factors."""
    pending, seen = [source], 0
    while pending and seen < 100:
        seen += 1
        call = step.producer(step.origin(pending.pop()))
        if call is None or call.shape != ():
            continue
        computed = [x for x in call.inputs if x.call >= 0]
        if call.name in ("add", "sub", "neg") or call.name in ("mul", "div") and len(computed) == 1:
            pending += computed
        yield call


def _is_loss(step: Step, call: Call) -> bool:
    """Return whether a call is a loss of a prediction and a target: a known loss, or a reduction of distances or of
    weighted log-probabilities that the program writes out."""
    if call.name in LOSSES:
        return True
    before = step.producer(step.origin(call.inputs[0])) if call.name in _REDUCTIONS and call.inputs else None
    if before is not None and before.name == "mul" and any(x.cut and likelihood(step, x) for x in before.inputs):
        return True
    between = step.producer(before.inputs[0]) if before is not None and before.name in _DISTANCES else None
    return between is not None and between.name == "sub"


def _first_cut(step: Step, source: Source, read: set[int] | None) -> Departure | None:
    """Return the cut below a value that cuts off the most of these leaves; with ``read`` None, return the first cut.

    A straight-through estimator detaches a copy of each weight; a cut between layers cuts off all earlier weights.
    """
    depends = None if read is None else depending(step, read)
    ended: Departure | None = None
    widest: Departure | None = None
    most = 0
    behind: dict[int, int] = {}
    for index in sorted(step.below(source, through_cuts=True)):
        call = step.calls[index]
        for y in call.inputs:
            of_these = depends is None or read is None or y.call in depends or id(y.leaf) in read
            if y.cut is None or not y.cut.requires_grad or not of_these:
                continue
            if read is None:
                return y.cut
            if y.call not in behind and len(behind) < _MOST:
                cut_off = step.leaves(y._replace(cut=None), everything=True)
                behind[y.call] = 1 if y.call < 0 else len(read.intersection(map(id, cut_off)))
            if behind.get(y.call, 0) > most:
                widest, most = y.cut, behind[y.call]
        if widest is None and ended is None and (depends is None or index in depends):
            ended = _ended(call)
            if ended is not None and ended.how == "no_grad":
                return ended
    return widest or ended  # an operator without a gradient, such as a comparison, is often intended


def _ended(call: Call) -> Departure | None:
    """Return the departure at a call that ends the graph: under ``no_grad``, or of an operator without a gradient."""
    needing = [x for x in call.record.inputs if x.requires_grad]
    if not needing or call.record.requires_grad or call.record.creates or call.name.endswith("_like"):
        return None  # results of ones_like and similar operators do not depend on the values
    how = "no_grad" if not call.record.grad_enabled else call.name
    return Departure(how, call.record.no_grad or call.site, "", needing[0], 0)


def _as_numbers(step: Step, read: set[int]) -> Departure | None:
    """Return the first ``item`` of a value that depends on these leaves and is in the graph of no backward pass.

    A program may compute its loss from such numbers. A loss that is only printed by ``item`` is in a graph.
    """
    depends = depending(step, read)
    inside = set[int]().union(*[step.below(root.source, through_cuts=True) for root in step.roots])
    lost = {id(step.calls[i].record) for i in depends - inside if i < max(inside, default=0)}
    return next((x for x in step.departures if x.how == "item" and x.requires_grad and id(x.source) in lost), None)


def _cut_between(step: Step, read: set[int]) -> Departure | None:
    """Return the first departure from the graph of a value that depends on these leaves."""
    depends = depending(step, read)
    records = {id(step.calls[i].record) for i in depends}
    for departure in step.departures:
        if departure.requires_grad and id(departure.source) in records and departure.how not in ("item", "bool"):
            return departure
    ends = (_ended(call) for call in step.calls if call.index in depends)
    return next((x for x in ends if x is not None), None) or next(
        (x for x in step.departures if x.requires_grad and id(x.source) in records), None
    )
