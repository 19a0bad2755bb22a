"""Rules on parameters that do not change: exactly zero gradients, the operators that cause them, and frozen layers."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence

import numpy as np

from ....core.source_location import Site
from ....core.tensor.tensor import Tensor
from ....nn.base.module import Module
from ....nn.parameter import Parameter
from ...record import Departure, Record
from ..findings import listing
from ..kinds import Case, Found, all_leaves, kind
from ..probes.proof import better, compare
from ..probes.replay import Changes, Edit, same
from ..run import Optimized
from ..step_recorder import Call, Opened, Source, Step, mark, numbers
from .program_text import expression_of, inside_word

# Piecewise constant operators: their derivative is 0 wherever it exists.
FLAT = frozenset({"round", "floor", "ceil", "trunc", "sign", "sgn", "heaviside", "floor_divide", "fix"})

_MOST_NUMBERS = 50  # the most elements of a leaf that are compared with numbers that left the graph
# Operators that are constant outside of a range.
_BOUNDED = frozenset({"clamp", "clamp_min", "clamp_max", "hardtanh", "relu6", "hardsigmoid", "minimum", "maximum"})


def depending(step: Step, read: set[int]) -> set[int]:
    """Return the indices of the calls whose results depend on these leaves, also through cuts."""
    found: set[int] = set()
    for call in step.calls:
        if any(y.leaf is not None and id(y.leaf) in read or y.call in found for y in call.inputs):
            found.add(call.index)
    return found


def to_new_leaf(step: Step, read: set[int]) -> Departure | None:
    """Return where a number that depends on these leaves left the graph, if the loss reads a new leaf with this number.

    ``torch.tensor(numbers, requires_grad=True)`` creates such a leaf, which hides that the graph is cut.
    """
    leaves = [p for root in step.roots for p in step.leaves(root.source) if not isinstance(p, Parameter)]
    arrays = [np.asarray(step.values.get(id(p), p.array), float) for p in leaves]
    numbers = [x for array in arrays for x in array.reshape(-1)[:_MOST_NUMBERS]]
    records = {id(step.calls[i].record) for i in depending(step, read)}
    for x in step.departures:
        values = x.source.values if isinstance(x.source, Record) else None
        if x.how not in ("item", "tolist") or not x.requires_grad or id(x.source) not in records or values is None:
            continue
        if values.size == 1 and any(math.isclose(values.mean, number, rel_tol=1e-5) for number in numbers):
            return x
    return None


def elementwise_from(step: Step, start: Collection[int]) -> set[int]:
    """Return the calls ``start`` and the elementwise and moving calls before them, back to calls of other operators."""
    found: set[int] = set()
    pending = list(start)
    while pending:
        index = pending.pop()
        if index in found or index < 0:
            continue
        found.add(index)
        if step.calls[index].elementwise or step.calls[index].moves:
            pending += [y.call for y in step.calls[index].inputs]
    return found


def meets_data(step: Step, graph: set[int], given: set[int]) -> bool:
    """Return whether values are combined with data, or with results of other layers, before they become one number."""
    known = elementwise_from(step, given)
    for call in step.calls:
        reads = [y for y in call.inputs if y.call in known]
        if call.index not in graph or not reads or call.shape == ():
            continue
        others = [n for n, y in enumerate(call.inputs) if y.call not in known]
        if any(math.prod(call.shapes[n]) > 1 for n in others):
            return True
        known.add(call.index)
    return False


def trained(case: Case) -> set[int]:
    """Return the ids of the parameters of optimizers that step."""
    return {id(p) for x in case.run.optimizers if x.steps for p in x.parameters}


def blocks(case: Case) -> list[tuple[Step, Call]]:
    """Return the calls that get a gradient and pass none on to trained parameters, latest first.

    Only parameters whose gradient was exactly zero in all recorded steps count.
    """
    still = set(case.still) & trained(case) or set(case.still) if case.still else set()
    step = case.step
    if step is None or not still:
        return []
    depends = depending(step, still)
    return [
        (step, call)
        for call in step.passed()
        if call.index in depends and _arrives(call) and _passes_nothing(step, call, still, depends)
    ]


def flat_operator(case: Case) -> tuple[Step, Call] | None:
    """Return the call of a piecewise constant operator that passes no gradient on, with its step."""
    return next((x for x in blocks(case) if x[1].name in FLAT and x[1].record.call in FLAT), None)


def saturated(case: Case) -> tuple[Step, Call] | None:
    """Return the call of a clamping operator that passes no gradient on since all elements are out of range."""
    return next((x for x in blocks(case) if x[1].name in _BOUNDED), None)


def names_below(case: Case, step: Step, call: Call) -> str:
    """Return the names of the first three parameters below a call whose gradient is zero."""
    names = [step.name(p) for p in step.leaves(Source(call.index, 0, None, None)) if id(p) in case.still]
    return listing(names)


def _arrives(call: Call) -> bool:
    g = call.record.gradients
    return g is not None and not g.minimum == g.maximum == 0


def _passes_nothing(step: Step, call: Call, still: set[int], depends: set[int]) -> bool:
    given = [x for place, x in enumerate(call.inputs) if call.needs(place) and not x.cut]
    given = [x for x in given if x.call in depends or id(x.leaf) in still]
    return bool(given) and all(_is_zero(step, x, still) for x in given)


def _is_zero(step: Step, x: Source, still: set[int]) -> bool:
    """Return whether the total gradient with respect to an input is zero."""
    if x.call < 0:
        return id(x.leaf) in still
    g = step.calls[x.call].record.gradients
    return g is None or g.minimum == g.maximum == 0


def flat(case: Case) -> Found | None:
    """Return the finding for an operator whose derivative is 0 wherever it exists, so that nothing before it learns."""
    found = flat_operator(case)
    if found is None:
        return None
    step, call = found
    what = (
        f"the derivative of {call.name} is 0 wherever it exists, so that the gradient of "
        f"{names_below(case, step, call)} is exactly 0: no step changes what this line computes."
    )
    edit = Edit(f"without {call.name}", Changes(calls={call.index: same}))
    return Found(case.edited(step, call), {"what": what, "how": call.name}, edit)


def cut_states(case: Case) -> Found | None:
    """Return the finding for a layer that runs at each time step on a state that is detached at each step.

    If the loss depends only on the last result, no gradient reaches the earlier calls.
    """
    step = case.step
    if step is None or not step.roots or case.baseline is None or not case.stuck:
        return None
    reached, seen = (
        set[int]().union(*[step.below(root.source, cuts) for root in step.roots]) for cuts in (False, True)
    )
    calls: dict[int, list[Opened]] = {}
    for entry in step.modules:
        if entry.grad_enabled and entry.outputs and any(p._requires for p in entry.module.parameters()):
            calls.setdefault(id(entry.module), []).append(entry)
    for entries in calls.values():
        made = [{x.call for x in entry.outputs} for entry in entries]
        lost = [
            n
            for n, outputs in enumerate(made)
            if outputs & seen and not outputs & reached and any(step.calls[i].record.requires_grad for i in outputs)
        ]
        if len(lost) < _TIMES or len(lost) == len(made):
            continue
        last = entries[lost[-1] + 1] if lost[-1] + 1 < len(entries) else entries[-1]
        for x in last.inputs:
            before = step.below(x._replace(cut=None), through_cuts=True)
            cut = _cut_of(step, x)
            if cut is None or not before & made[lost[-1]]:
                continue
            how = "detach" if cut.how.startswith("detach") else cut.how
            edit = Edit(f"without {how}", Changes(joined=True))
            curves = compare(case.run, case.program, edit, case.budget)
            if curves is None or not curves.fixed[-1] < curves.plain[-1]:
                continue  # the edit did not help: the network can learn with this untrained part
            name = expression_of(step, last.module) or last.path
            what = (
                f"{how} cuts off the state of {name} before each call, and no loss reaches {len(lost)} of its "
                f"{len(entries)} calls: what they compute, and with it what is to be remembered, is not trained."
            )
            fix = f"call {how} once per sequence, before the loop over time, and not within it"
            return Found(cut, {"what": what, "how": how}, edit, curves, fix=fix)
    return None


def _cut_of(step: Step, source: Source) -> Departure | None:
    """Return the cut of a value, following copies back."""
    current: Source | None = source
    while current is not None and current.cut is None:
        call = step.producer(current)
        copied = call is not None and call.inputs and not call.record.requires_grad
        current = call.inputs[0] if call is not None and copied else None
    return None if current is None else current.cut


_TIMES = 3  # the least number of calls of a layer that no gradient reaches
_LEAST_AFTER = 10  # the least number of steps of an optimizer whose parameters were frozen later
_LONG = 50  # the number of steps in which trained layers learn something
_SERVES = 0.8  # above this share of the first loss of a batch, nothing is learned
_FREED = 0.9  # all layers together must lower the loss below this share of the loss with frozen layers
_EDGE = 1.1  # the limit of singular values of noise, relative to those of a large matrix of independent numbers
_THAWED = Edit("with requires_grad=True", frozen=True)


@kind(
    "frozen-layer",
    "Is what is frozen meant to be?",
    "{what}",
    "{fix}",
)
def frozen_layer(case: Case) -> Found | None:
    thawed = _thawed_by_name(case)
    if thawed is not None:
        return thawed
    if case.run.error is not None:
        return _nothing_trains(case, str(case.run.error))
    for x in case.run.optimizers:
        for place in range(len(x.optimizer.param_groups)):
            rates = [one.rates for one in x.history]
            scheduled = any(one.scheduler.optimizer is x.optimizer and any(one.sites) for one in case.run.schedules)
            never = all(one[place] == 0 for one in rates if place < len(one))
            if x.steps >= 3 and rates and not scheduled and never and any(map(any, rates)):
                what = f"a parameter group of {case.run.title(x)} has a learning rate of 0 in all {x.steps} steps."
                return Found(x.created or x.stepped, {"what": what, "fix": "give the group a learning rate"})
        frozen = [p for p in x.parameters if not p._requires]
        if x.steps >= 3 and not x.graded and len(frozen) == len(x.parameters) and x.created is not None:
            what = f"no parameter of {case.run.title(x)} requires a gradient: its {x.steps} steps changed nothing."
            fix = "set requires_grad to True for what this optimizer trains"
            where = next((site for p in frozen if (site := case.run.frozen.get(id(p))) is not None), x.created)
            return Found(where, {"what": what, "fix": fix}, _THAWED)
        later = _frozen_since(case, x)
        if later is not None:
            return later
    step = case.step
    if step is None or case.main is None or case.main.steps < 3:
        return None
    for root in step.outermost():
        if not root.training:
            continue
        inside = [x for x in step.modules if root.start <= x.start and x.end <= root.end]
        order = [(entry, w) for entry in inside if (w := _matrix(entry.module)) is not None]
        trained = [i for i, (_, w) in enumerate(order) if w._requires]
        own = {id(p) for p in root.module.parameters()}
        fresh = [
            (i, entry, w)
            for i, (entry, w) in enumerate(order)
            if not w._requires and id(w) in own and not _is_given(case, entry, w) and not _changes(case, w)
        ]
        by_default = _frozen_by_default(case, order) if trained else None
        if by_default is not None:
            return by_default
        untrained = [x for x in fresh if id(x[2]) not in case.graded]  # never trained, even in an earlier phase
        if not untrained:
            continue
        by_word = next(
            (found for _, entry, w in untrained if trained and (found := _frozen_by_word(case, entry, w))), None
        )
        if by_word is not None:
            return by_word
        late = [x for x in untrained if trained and x[0] > min(trained) and not _is_adapted(inside, x[1])]
        moving = [p.array.ndim for p in root.module.parameters() if p._requires and id(p) in case.graded]
        if not trained and untrained[-1][0] == len(order) - 1 and moving and max(moving) < 2:
            late = untrained[-1:]  # only biases are trained, and the head has random weights
        meant = {id(p) for x in case.run.optimizers for p in x.parameters} - case.graded
        first, last = case.finite_ends()
        learns = last < 0.6 * first  # random features may be intended
        early = [(i, entry, w) for i, entry, w in untrained if case.graded and id(w) in meant and not learns]
        half = fresh if trained and _is_half_frozen(case, order, fresh) else []
        if late or early or half:
            one = (late or early or half)[0]
            name = expression_of(step, one[1].module) or one[1].path
            others = len({id(x.module) for _, x, _ in untrained}) - 1
            what = f"{name} does not require a gradient: it stays at its random initialization"
            what += f", like {others} other layer{'s' * (others != 1)}." * bool(others) or "."
            fix = (
                f"leave it out of what is frozen, or call {name}.requires_grad_(True) after the freezing and before "
                "the optimizer is created"
            )
            where = _freezing(case, one[1]) or case.created(one[1].module) or one[1].site
            return Found(where, {"what": what, "fix": fix}, _THAWED)
        along = _frozen_along(case, order, untrained) if trained else None
        if along is not None:
            return along
    return _features_that_do_not_serve(case)


def _frozen_since(case: Case, x: Optimized) -> Found | None:
    """Return the finding for an optimizer whose parameters were all frozen after some of its steps."""
    trained = [p for p in x.parameters if id(p) in x.graded]
    sites = [case.run.frozen.get(id(p)) for p in trained]
    if x.steps < _LEAST_AFTER or 2 * x.graded_at > x.steps or not trained or any(p._requires for p in trained):
        return None
    where = next((site for site in sites if site is not None), None)
    if where is None:
        return None
    what = (
        f"all {len(trained)} parameters that {case.run.title(x)} has trained were set to require no gradient, and stay "
        f"so: of its {x.steps} steps those after step {x.graded_at + 1} changed nothing."
    )
    fix = "set requires_grad back to True before the next step of this optimizer"
    return Found(where, {"what": what, "fix": fix}, unproved="the recorded step has none of these parameters")


def _features_that_do_not_serve(case: Case) -> Found | None:
    """Return the finding for frozen layers that were trained for another task, if the later layers cannot learn a batch
    from their outputs, and all layers together can."""
    step = case.step
    if (
        step is None
        or len(case.losses) < _LONG
        or not case.stuck
        or len([x for x in case.run.optimizers if x.steps]) < 2
    ):
        return None
    leaves = [p for root in step.roots for p in step.leaves(root.source, everything=True)]
    frozen = [p for p in leaves if not p._requires and id(p) in case.graded and id(p) in case.run.frozen]
    if not frozen or not any(p._requires and id(p) in case.graded for p in leaves):
        return None
    if any(len({one.marks.get(id(p)) for one in case.run.steps[-2:]}) > 1 for p in frozen):
        return None  # the layers are trained in turn with others, such as a discriminator
    curves = compare(case.run, case.program, _THAWED, case.budget)
    if curves is None or not better(curves):
        return None
    if not curves.plain[-1] > _SERVES * curves.plain[0] or not curves.fixed[-1] < _FREED * curves.plain[-1]:
        return None
    names = listing([step.name(p) for p in frozen])
    what = (
        f"this line freezes {names}, which were trained for something else before, and the layers behind them learn "
        "little from their results."
    )
    fix = "do not freeze them, or train them further at a lower rate"
    return Found(case.run.frozen[id(frozen[0])], {"what": what, "fix": fix}, _THAWED, curves)


def _is_adapted(inside: Sequence[Opened], entry: Opened) -> bool:
    """Return whether the module that calls a frozen layer has two or more trained matrices of its own (an adapter)."""
    around = [x for x in inside if x.start <= entry.start and entry.end <= x.end and x.depth < entry.depth]
    own = around[-1].module._parameters.values() if around else ()
    return sum([p is not None and p._requires and p.array.ndim > 1 for p in own]) > 1


def _thawed_by_name(case: Case) -> Found | None:
    """Return the finding for ``module.requires_grad = True`` or ``False``, which changes no parameter of the module."""
    steps = sum([x.steps for x in case.run.optimizers])
    for one in case.run.thawed:
        module, wanted = one.module(), one.value
        now = [p for p in one.parameters if p._requires is not wanted]
        if module is None or module.__dict__.get("requires_grad") is not wanted or steps < one.steps + 3:
            continue
        if not wanted:
            now = [p for p in now if id(p) in case.graded and _moved(case, p)]
        if not now:
            continue
        names = dict.fromkeys([type(x).__name__ for y in case.run.thawed if y.site == one.site and (x := y.module())])
        still = "still do not require a gradient in" if wanted else "still require a gradient, and are trained in"
        what = (
            f"this line gives an attribute to a module ({', '.join(names)}), and no parameter changes by it: "
            f"{len(now)} parameters of {type(module).__name__} {still} the {steps - one.steps} steps after it."
        )
        target = re.match(r"\s*([\w.\[\]]+)\.requires_grad\s*=\s*([\w.]+)\s*$", one.site.code)
        call = f"{target[1]}.requires_grad_({target[2]})" if target is not None else f"module.requires_grad_({wanted})"
        values = {"what": what, "fix": f"call {call}: this sets it for all parameters below"}
        why = "that the parameters are trained is against the program, and no loss shows it"
        return Found(one.site, values, _THAWED) if wanted else Found(one.site, values, unproved=why)
    return None


def _moved(case: Case, p: Tensor) -> bool:
    """Return whether a parameter has changed since the first step."""
    start = case.at_start(p)
    return start is not None and bool((start != p.array).any())


def _matrix(module: Module) -> Tensor | None:
    """Return the first trained matrix of a layer, or else its first matrix."""
    own = [p for p in module._parameters.values() if p is not None and p.array.ndim >= 2]
    return next((p for p in own if p._requires), own[0] if own else None)


def all_frozen(case: Case) -> bool:
    """Return whether all parameters of the program's modules were set to require no gradient."""
    alive = [module for one, _ in case.run.created.values() if (module := one()) is not None]
    parameters = [p for module in alive for p in module._parameters.values() if p is not None]
    return bool(parameters) and all(not p._requires and id(p) in case.run.frozen for p in parameters)


def _nothing_trains(case: Case, error: str) -> Found | None:
    """Return the finding for a program that failed because all parameters to train are frozen."""
    run = case.run
    frozen: Site | None = None
    if "empty parameter list" in error and all_frozen(case):
        frozen = list(run.frozen.values())[-1]
        what = "the optimizer gets no parameter: all parameters of the model were set to require no gradient."
    elif run.failed_backward is not None and "does not require grad" in error and run.steps:
        leaves = all_leaves(run.steps[-1])
        sites = [run.frozen[id(p)] for p in leaves if id(p) in run.frozen and not p._requires]
        frozen = sites[-1] if sites and not any(p._requires for p in leaves) else None
        what = "the loss depends on no parameter that requires a gradient: all were set to require none."
    if frozen is None:
        return None
    fix = (
        "set requires_grad to True for what is to be trained; compare the names in the condition with "
        "named_parameters()"
    )
    return Found(frozen, {"what": what, "fix": fix}, unproved="the program ended before a step")


def _is_half_frozen(
    case: Case, order: Sequence[tuple[Opened, Tensor]], fresh: Sequence[tuple[int, Opened, Tensor]]
) -> bool:
    """Return whether several layers are frozen with their initial values, while other layers of their module train.

    A module that is frozen as a whole may compute random features on purpose.
    """
    parts = {entry.path.rpartition(".")[0] for entry, w in order if w._requires} - {""}
    for _, entry, w in fresh:
        made, written = case.created(entry.module), case.run.written.get(w.array.__array_interface__["data"][0])
        if made is None or written is None or (made.file, made.line) != (written.file, written.line):
            return False  # values were assigned, perhaps from a trained model
        if id(w) in case.graded or id(w) not in case.run.frozen or entry.path.rpartition(".")[0] not in parts:
            return False
    return len(fresh) > 1


def _is_given(case: Case, entry: Opened, p: Tensor) -> bool:
    """Return whether the values of a frozen parameter were loaded, or passed to ``from_pretrained``."""
    sites = case.run.frozen.get(id(p)), case.created(entry.module)
    return id(p) in case.run.loaded or any(site is not None and "from_pretrained" in site.code for site in sites)


def _frozen_by_default(case: Case, order: Sequence[tuple[Opened, Tensor]]) -> Found | None:
    """Return the finding for a table of random vectors that ``from_pretrained`` freezes, if the network learns nothing.

    Trained vectors vary more in some directions than in others; for these, freezing is intended.
    """
    if len(case.losses) < _LONG or not case.stuck:
        return None
    for entry, w in order:
        made = case.created(entry.module)
        site = case.run.frozen.get(id(w))
        given = not w._requires and made is not None and "from_pretrained" in made.code
        given = given and (site is None or made is None or site.line == made.line)  # not frozen later
        if not given or id(w) in case.run.loaded or id(w) in case.graded or not _is_noise(numbers(w.array)):
            continue
        curves = compare(case.run, case.program, _THAWED, case.budget)
        if curves is None or not better(curves):
            return None
        name = (expression_of(case.step, entry.module) if case.step is not None else "") or entry.path
        what = (
            f"from_pretrained freezes {name}, and its values are random numbers, which no step changes: by their "
            "singular values, no direction stands out, as it does in trained vectors."
        )
        return Found(made, {"what": what, "fix": "pass freeze=False, so that the vectors are trained"}, _THAWED, curves)
    return None


def _is_noise(array: np.ndarray) -> bool:
    """Return whether a matrix has the singular values of independent random numbers with one variance.

    >>> x = np.random.default_rng(0).normal(size=(200, 6))
    >>> _is_noise(x), _is_noise(x @ np.diag([4, 1, 1, 1, 1, 1]))
    (True, False)
    """
    rows = array[(array != 0).any(axis=-1)] if array.ndim == 2 else array
    if rows.ndim != 2 or rows.dtype.kind != "f" or min(rows.shape) < 2 or not rows.std() > 0:
        return False
    values = np.linalg.svd((rows - rows.mean(axis=0)) / rows.std(), compute_uv=False)
    long, short = (math.sqrt(x) for x in (max(rows.shape), min(rows.shape)))
    return bool(values[0] < _EDGE * (long + short))


def _frozen_along(
    case: Case, order: Sequence[tuple[Opened, Tensor]], fresh: Sequence[tuple[int, Opened, Tensor]]
) -> Found | None:
    """Return the finding for layers with random weights that are frozen in one loop, if the network learns nothing.

    The loop is meant to freeze layers that were trained before, but its condition also matches others; or no weights
    were loaded.
    """
    sites = {id(w): case.run.frozen.get(id(w)) for _, w in order}
    entries = [(entry, w) for _, entry, w in fresh if sites[id(w)] is not None]
    if not entries or len(case.losses) < _LONG:
        return None
    site = sites[id(entries[0][1])]
    entries = [(entry, w) for entry, w in entries if sites[id(w)] == site]
    same = [(entry, w) for entry, w in order if not w._requires and sites[id(w)] == site]
    given = [entry for entry, w in same if _is_given(case, entry, w)]
    trained = [entry for entry, w in same if id(w) in case.graded]
    if not case.stuck and not trained:
        return None
    curves = compare(case.run, case.program, _THAWED, case.budget)
    if (not given or not case.stuck) and (curves is None or not better(curves)):
        return None
    given += trained
    names = listing(
        [expression_of(case.step, entry.module) or entry.path for entry, _ in entries if case.step is not None]
    )
    one = len(entries) == 1
    what = f"{names} {'does' if one else 'do'} not require a gradient: {'it stays' if one else 'they stay'} at "
    what += f"{'its' if one else 'their'} random initialization, which no step has trained and nothing was loaded to"
    if given:
        what += f", and this line was to freeze {listing([entry.path for entry in given])}"
    fix = f"freeze only what was trained before: leave {names} out"
    return Found(site, {"what": what + ".", "fix": fix}, _THAWED, curves)


def _changes(case: Case, p: Tensor) -> bool:
    """Return whether the program changes a parameter that requires no gradient, such as a moving average."""
    return any(step.marks.get(id(p), now) != now for now in [mark(p.array)] for step in case.run.steps)


def _frozen_by_word(case: Case, entry: Opened, w: Tensor) -> Found | None:
    """Return the finding for a layer that is frozen because its name contains a text, such as "emb" in "member"."""
    site = case.run.frozen.get(id(w))
    found = inside_word(site, entry.path) if site is not None else None
    if found is None:
        return None
    text, word = found
    what = (
        f'the condition on "{text}" also freezes {entry.path}, whose name contains it inside of "{word}": this layer '
        "stays at its random initialization."
    )
    fix = f'compare the beginning of the name: name.startswith("{text}"), or name.split(".")'
    return Found(site, {"what": what, "fix": fix}, _THAWED)


def _freezing(case: Case, entry: Opened) -> Site | None:
    return case.run.frozen.get(id(entry.module._parameters["weight"]))
