"""Rules on parameters: which optimizer has them, whether they are registered in the model, and their values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from ....core.arrays.dtypes import FLOATING, precision
from ....core.source_location import Site
from ....core.tensor.tensor import Tensor
from ....nn.parameter import Parameter
from ....ops.nn.activations.rectifiers import leaky_relu
from ....optim.sgd import SGD
from ..findings import figure, listing
from ..kinds import Case, Found, HasPlace, all_leaves, kind
from ..own_updates import OwnUpdate
from ..probes.batches import gain
from ..probes.proof import better, compare
from ..probes.replay import Changes, Curves, Edit, Replacement, same
from ..run import Optimized
from ..step_recorder import Array, Call, Opened, Step, numbers
from .cuts import replaced_leaf
from .gradients import ONE_LOSS
from .growth.rates import rate_place
from .modes import place_of
from .program_text import (
    assigned_line,
    attribute_line,
    class_lines,
    name_of,
    parameters_of,
    replaced_data,
)
from .stillness import all_frozen, names_below, saturated
from .writes import derived_attribute

_DEAD = 0.9  # the least share of dead units: units that are zero for all examples of all recorded steps
_LEAST_UNITS = 3
_LONG = 80  # the most characters of an expression in a text
_LEARNED = 0.1  # below this share of the first loss, the network has learned
_LESS = 0.5  # the edit must lower the loss below this share
_GATES = {"gru": 3, "lstm": 4}  # the number of gates, each of which has one row of the weights per unit


def _held(case: Case) -> set[int]:
    return {id(p) for x in case.run.optimizers for p in x.parameters}


def _unheld(case: Case, step: Step) -> list[Tensor]:
    """Return the leaves that get gradients in a step, although no optimizer has them and they never change."""
    held = _held(case)
    inputs = {id(x.leaf) for entry in step.modules for x in entry.inputs if x.leaf is not None}
    found = {}
    for root in step.roots:
        for p in () if root.returned else step.leaves(root.source):
            if id(p) in held or id(p) in step.wanted:
                continue
            if not isinstance(p, Parameter) and id(p) in inputs or id(p) in case.still:
                continue  # data, or leaves whose gradient is always 0
            seen = [one.values[id(p)] for one in case.run.steps if id(p) in one.values]
            seen = seen[1:] or seen  # the first step may include the setup
            still = all(x.shape == p.array.shape and bool((x == p.array).all()) for x in seen)
            if seen and still and step.assigned(p) is None:
                found[id(p)] = p
    return list(found.values())


def _owner(step: Step, p: Tensor) -> Opened | None:
    """Return the call of the module that directly contains a parameter."""
    for entry in step.modules:
        if any(q is p for q in entry.module._parameters.values()):
            return entry
    return None


@kind(
    "modules-not-registered",
    "Does the model know all of its layers?",
    "{count} layers that {model} calls are not among its modules ({layers}): parameters() does not have theirs, and no "
    "step changes them.",
    "keep layers as attributes, or in nn.ModuleList or nn.ModuleDict, in __init__",
)
def modules_not_registered(case: Case) -> Found | None:
    held = _held(case)
    for step in case.run.steps:
        if not held and case.run.error is None:
            continue
        for root in step.outermost():
            known = {id(x) for x in root.module.modules()}
            strange: dict[int, Opened] = {}
            for entry in step.modules:
                if not (root.start <= entry.start and entry.end <= root.end) or id(entry.module) in known:
                    continue
                own = [p for p in entry.module.parameters(recurse=False) if p._requires]
                if own and not any(id(p) in held for p in own):
                    strange[id(entry.module)] = entry
            if strange and any(id(p) in held for p in root.module.parameters()) or strange and not known & held:
                first = next(iter(strange.values()))
                around = [x for x in step.modules if x.start <= first.start and first.end <= x.end]
                entry = next((x for x in around if id(x.module) not in known), first)  # the outermost unknown block
                caller = next((x for x in reversed(around) if id(x.module) in known), root)
                layers = listing([type(x.module).__name__ for x in strange.values()])
                where = _kept_in(case, caller, entry) or case.created(entry.module) or entry.site
                values = {"count": len(strange), "model": type(caller.module).__name__, "layers": layers}
                return Found(where, values, Edit("with all of them", everything=True))
    listed = _listed_parameters(case, held) or derived_attribute(case, held)
    if listed is not None:
        return listed
    error = case.run.error
    if isinstance(error, ValueError) and "empty parameter list" in str(error) and not all_frozen(case):
        values = {"count": "all", "model": "the model", "layers": "none is registered"}
        return Found(place_of(error), values)
    return None


def _listed_parameters(case: Case, held: set[int]) -> Found | None:
    """Return the finding for Parameters in a plain list or dictionary of a module."""
    for step in case.run.steps:
        for entry in step.modules if held else ():
            for name, value in vars(entry.module).items():
                if name.startswith("_") or not isinstance(value, (list, tuple, dict)):
                    continue
                parts = value.values() if isinstance(value, dict) else value
                loose = [p for p in parts if isinstance(p, Parameter) and p._requires and id(p) not in held]
                if loose and any(p.grad is not None or id(p) in step.values for p in loose):
                    model = type(entry.module).__name__
                    where = attribute_line(entry, name)
                    values = {"count": len(loose), "model": model, "layers": f"Parameters in self.{name}"}
                    return Found(where, values, Edit("with all of them", everything=True))
    return None


def _kept_in(case: Case, caller: Opened, entry: Opened) -> HasPlace | None:
    """Return the line on which a module stores a list of layers, if the layers were created outside of its class."""
    made = case.created(entry.module)
    inside = class_lines(caller)
    file = type(caller.module).forward.__code__.co_filename
    if made is None or not inside or made.file == file and made.line in inside:
        return None
    for name, value in vars(caller.module).items():
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
        if any(x is entry.module for x in parts):
            found = attribute_line(caller, name)
            return None if found is caller.site else found
    return None


@kind(
    "reused-optimizer-of-old-model",
    "Does the optimizer hold the parameters of the model that runs?",
    "{optimizer} was created for other parameters: it holds {stale} that the model no longer uses, and not {names}, "
    "which it trains with now.",
    "create the optimizer after {made}",
)
def reused_optimizer(case: Case) -> Found | None:
    for step in reversed(case.run.steps):
        missing = [p for p in _unheld(case, step) if isinstance(p, Parameter)]
        if not missing or not step.roots:
            continue
        late = [one for one in case.run.steps if one.number >= step.number - 1]
        used = {id(p) for one in late for root in one.roots for p in one.leaves(root.source, everything=True)}
        live = {id(p) for entry in step.modules if entry.grad_enabled for p in entry.module.parameters()}
        for x in case.run.optimizers:
            stale = [p for p in x.parameters if id(p) not in used and id(p) not in live]
            in_turn = len(stale) == len(x.parameters) and x.graded_at >= x.steps - 1  # models are trained in turn
            if stale and x.steps and not in_turn:
                names = listing([step.name(p) for p in missing])
                values = {
                    "optimizer": case.run.title(x),
                    "stale": f"{len(stale)} of {len(x.parameters)}",
                    "names": names,
                    "made": _made_after(case, step, x, missing),
                }
                return Found(x.created or x.stepped, values, Edit("with its parameters", everything=True))
    return replaced_leaf(case)


def _made_after(case: Case, step: Step, x: Optimized, missing: Sequence[Tensor]) -> str:
    """Return a text that names what must precede the creation of an optimizer: a later line that creates the model."""
    for entry in step.outermost():
        made = case.created(entry.module)
        if (
            made is not None
            and made.line != getattr(x.created, "line", 0)
            and {*map(id, missing)} <= {*map(id, entry.module.parameters())}
        ):
            return f"line {made.line} has created the model that it is to train, each time that this line runs"
    return "the last change of the model's layers"


@kind(
    "parameters-not-optimized",
    "Does an optimizer hold all trainable parameters?",
    "{names} {get} a gradient in each step, and {nothing}: {they} never {change}.",
    "{fix}; or freeze {them} with requires_grad_(False), if this is meant",
)
def parameters_not_optimized(case: Case) -> Found | None:
    stepping = [x for x in case.run.optimizers if x.steps]
    if not stepping:
        return None
    steps = [step for step in case.run.steps if step.roots]
    if len(steps) < 2 and (case.main is None or case.main.steps > 1):
        return None
    if not steps:
        return None
    step = steps[-1]
    missing = {id(p): p for p in _unheld(case, step)}
    if len(steps) > 1:
        # With several optimizers, the first recorded step ends at the first step of one of them.
        persistent = {id(p) for one in steps[: min(2, len(steps) - 1)] for p in all_leaves(one)}
        missing = {key: p for key, p in missing.items() if key in persistent}
    missing = {key: p for key, p in missing.items() if key not in case.run.loaded}
    if not missing or _only_head(case, step, missing):
        return None
    names = listing([step.name(p) for p in missing.values()])
    near = _of_same_model(step, case.run.optimizers, stepping, set(missing))
    where = near.created or near.stepped
    one = len(missing) == 1
    if one and not isinstance(next(iter(missing.values())), Parameter):
        names = f"{names} (not a Parameter)"
    them = "it" if one else "them"
    own = isinstance(stepping[0].optimizer, OwnUpdate)
    nothing = f"the program's own update leaves {them} out" if own else f"no optimizer holds {them}"
    values = {"names": names, "count": len(missing), "nothing": nothing, "them": them}
    values |= {
        "get": "gets" if one else "get",
        "they": "it" if one else "they",
        "change": "changes" if one else "change",
    }
    values["fix"] = f"update {them}, too" if own else _given_to(case, step, near, missing)
    roots = [
        root for root in step.roots if case.main is None or case.run.optimizers.index(case.main) in root.optimizers
    ]
    if roots and not any(id(p) in missing for root in roots for p in step.leaves(root.source)):
        return Found(where, values, unproved=ONE_LOSS)
    return Found(where, values, Edit("with all of them", everything=True))


def _given_to(case: Case, step: Step, x: Optimized, missing: dict[int, Tensor]) -> str:
    """Return the text of the edit that adds parameters to an optimizer."""
    written = parameters_of(step, missing) or ", ".join(step.names.get(key, "") for key in missing)
    others = [y for y in case.run.optimizers if y is not x and {*map(id, x.parameters)} <= {*map(id, y.parameters)}]
    if others and written:
        other = case.run.title(others[0])
        return f"create this {x.name} of {written}, in place of parameters that {other} already has"
    if not written or len(written) > _LONG:
        return f"give {'it' if len(missing) == 1 else 'them'} to the optimizer, too"
    written = written if written.endswith("()") or written[0] == "[" else f"[{written}]"
    return f"give {'it' if len(missing) == 1 else 'them'} to {case.run.title(x)}: " + (
        f'{name_of(case.run, x) or "optimizer"}.add_param_group({{"params": {written}}})'
    )


def _of_same_model(step: Step, optimizers: list[Optimized], stepping: list[Optimized], missing: set[int]) -> Optimized:
    """Return the optimizer with the most parameters of the models to which the missing parameters belong."""
    held = [{id(p) for p in x.parameters} for x in stepping]
    twice = [x for n, x in enumerate(stepping) if any(held[n] <= other for other in held[:n])]
    if twice:  # two optimizers have the same parameters: take the one that steps after the backward pass
        numbers = {
            n for root in step.roots if missing & {id(p) for p in step.leaves(root.source)} for n in root.optimizers
        }
        number = {id(x.optimizer): n for n, x in enumerate(optimizers)}
        equal = [x for n, x in enumerate(stepping) if any(held[n] <= y for m, y in enumerate(held) if m != n)]
        return next((x for x in equal if numbers == {number[id(x.optimizer)]}), twice[0])
    models = [{id(p) for p in entry.module.parameters()} for entry in step.outermost()]
    whole = set[int]().union(*[x for x in models if x & missing])
    return max(stepping, key=lambda x: sum(id(p) in whole for p in x.parameters))


def _only_head(case: Case, step: Step, missing: dict[int, Tensor]) -> bool:
    """Return whether only the last layers of one module are trained, and they learn: the others are random features."""
    first, last = case.finite_ends()
    if not last < 0.6 * first or all(p.array.ndim < 2 for p in missing.values()):
        return False  # vectors, such as scales, compute no features
    held = _held(case)
    used = list(dict.fromkeys(id(p) for p in all_leaves(step)))
    for entry in step.outermost():
        inside = {id(p) for p in entry.module.parameters() if p._requires}
        own = [key for key in used if key in inside]
        flags = [key in held for key in own if key in held or key in missing]
        if any(flags) and not all(flags) and flags == sorted(flags):
            return set(missing) <= set(own)
    return False


@kind(
    "constant-init",
    "Do the units of a layer differ?",
    "all {units} units of {name} have the same weights{zero}, and stay the same: they get the same gradient in each "
    "step.",
    "initialize weights at random (nn.init.kaiming_normal_), and only biases with a constant",
    "the recorded step could not be run again",
)
def constant_init(case: Case) -> Found | None:
    main = case.main
    steps = [step for step in case.run.steps if step.roots]
    if main is None or main.steps < 2 or not steps:
        return None
    first, last = ({id(p): p for root in x.roots for p in x.leaves(root.source)} for x in (steps[0], steps[-1]))
    leaves = {id(p): p for p in main.parameters} | {key: p for key, p in first.items() if last.get(key) is p}
    for p in leaves.values():
        if p.array.ndim < 2 or p.array.dtype.kind not in FLOATING or not p._requires:
            continue
        step = next((x for x in steps if id(p) in x.values), steps[0])
        start = main.start.get(id(p), step.values.get(id(p)))
        used = [call for call in step.calls if any(x.leaf is p for x in call.inputs)]
        columns = bool(used) and used[0].name in ("mm", "matmul") and p.array.ndim == 2 and used[0].inputs[-1].leaf is p
        end = p.array.T if columns else p.array
        gates = _GATES.get(used[0].name, 1) if used else 1
        if start is None or len(end) < 2 * gates or len(end) % gates or not _alike(start.T if columns else start):
            continue
        if not all(_alike(part, trained=True) for part in np.split(end, gates)):
            continue
        if not used or used[0].name == "embedding" and (id(p) not in case.still or end.any()):
            continue
        where = case.run.written.get(p.array.__array_interface__["data"][0])
        owner = _owner(step, p)
        made = _made(case, owner, p) if owner is not None else None
        site = where or replaced_data(case.run, used[0].site) or made or assigned_line(used[0].site, step.name(p))
        edit = Edit("with random weights", values=_random(main))
        zero = "" if end.any() else " (all are 0)"
        return Found(site, {"units": len(end) // gates, "name": step.name(p), "zero": zero}, edit)
    return None


def _random(main: Optimized) -> dict[int, Array]:
    """Return random values for those of the optimizer's matrices whose elements are initially all equal."""
    rng = np.random.default_rng(0)
    found: dict[int, Array] = {}
    for p in main.parameters:
        start = main.start.get(id(p))
        if isinstance(start, np.ndarray) and start.ndim > 1 and bool((start == start.flat[0]).all()):
            bound = 1 / np.sqrt(start[0].size)
            found[id(p)] = rng.uniform(-bound, bound, start.shape).astype(start.dtype)
    return found


def _made(case: Case, owner: Opened, p: Tensor) -> HasPlace | None:
    """Return the line that creates a parameter in the class of its module, or else the line that creates the module."""
    if type(owner.module).__module__.partition(".")[0] == __name__.partition(".")[0]:
        return case.created(owner.module)
    name = next((name for name, q in owner.module._parameters.items() if q is p), "")
    found = attribute_line(owner, name)
    return case.created(owner.module) if found is owner.site else found


def _alike(array: Array, trained: bool = False) -> bool:
    rows = numbers(array).reshape(array.shape[0], -1)
    # Equal units drift apart slowly, since the rounding of their sums differs.
    spread = float(np.abs(rows - rows[:1]).max()) if rows.size else math.inf
    rounding = max(1e-3, 2 * precision(array.dtype)) if trained else 1e-5
    return rows.shape[1] > 0 and spread <= rounding * float(np.abs(rows[:1]).max())


@kind(
    "dead-units",
    "Do units of relu layers work?",
    "{dead} of {units} units of relu here are 0 for every example of the recorded steps: no gradient passes them.",
    "{fix}",
)
def dead_units(case: Case) -> Found | None:
    if case.main is None or case.main.steps < 3:
        return None
    cut_off = saturated(case)
    if cut_off is not None:
        step, call = cut_off
        bounded = Edit(f"without {call.name}", Changes(calls={call.index: same}), one_loss=True)
        what = (
            f"all elements that {call.name} gets here are outside of its range: its result is constant, and the "
            f"gradient of {names_below(case, step, call)} is exactly 0."
        )
        return Found(
            case.edited(step, call), {}, bounded, message=what, fix=f"remove this {call.name}, or widen its range"
        )
    cut_scores = _cut_scores(case)
    if cut_scores is not None:
        return cut_scores
    alive: dict[tuple[str, int, int], Array] = {}
    calls: dict[tuple[str, int, int], Call] = {}
    steps = [step for step in case.run.steps if step.roots][-4:]
    for step in steps:
        for key, call, now in _relus(step):
            alive[key] = now if key not in alive or alive[key].shape != now.shape else alive[key] | now
            calls[key] = call
    worst = None
    for key, mask in alive.items():
        share = 1 - float(mask.mean())
        if not case.stuck and not (share == 1.0 and calls[key].record.module):
            continue
        if share >= _DEAD and (mask.size >= _LEAST_UNITS or share == 1.0) and worst is None:
            worst = key
    if worst is None:
        return _died(case, steps[-1]) if steps and case.stuck else None
    mask = alive[worst]
    dead = calls[worst]
    added = case.answer("accumulation-unscaled")
    moved_by_sum = isinstance(case.main.optimizer, SGD) and _worked(case, dead, ~mask)
    if added is not None and (moved_by_sum or _learns_with(case, added)):
        return None  # the units died because steps with accumulated gradients were too large
    biased = None if _worked(case, dead, ~mask) else _by_biases(case, dead)
    if biased is not None:
        where, zeroed, curves = biased
        figures = {"dead": int((~mask).sum()), "units": int(mask.size), "steps": len(steps)}
        what = (
            f"{figures['dead']} of {mask.size} units of the relu of line {dead.record.line} are 0 for every example of "
            "the recorded steps: no gradient passes them. This line gives negative values to all biases of the layer "
            "before it."
        )
        fix = "initialize the biases of layers before a relu with 0; only the output's may have the value of a prior"
        return Found(where, figures, zeroed, curves, message=what, fix=fix)
    scaled = _by_scale(case, dead)
    if scaled is not None:
        return scaled
    last = case.step is not None and any(x is dead for x in case.step.calls)
    final = case.step is not None and last and _is_output(case.step, dead)
    replaced: dict[int, Replacement] = {dead.index: same if final else lambda x, **params: leaky_relu(x)}
    text, changes = "without it" if final else "with leaky_relu", Changes(calls=replaced)
    edit = Edit(text, changes, start=False, one_loss=True) if last else None
    fix = "remove this relu: it is the output of the network, which it keeps from negative values"
    if not final:
        fix = "lower the learning rate, initialize biases with 0 and weights by kaiming_normal_, or use leaky_relu"
    values = {"dead": int((~mask).sum()), "units": int(mask.size), "steps": len(steps), "fix": fix}
    return Found(case.edited(case.step, dead) if case.step is not None and last else dead.record, values, edit)


def _relus(step: Step) -> Iterator[tuple[tuple[str, int, int], Call, Array]]:
    """Yield the calls of relu of a step, each with its place and, per unit, whether it is positive for any example."""
    seen: dict[tuple[str, int], int] = {}
    for call in step.calls:
        if call.name != "relu" or not call.outputs or call.outputs[0].ndim < 2 or not call.record.requires_grad:
            continue
        place = call.site.file, call.site.line
        seen[place] = number = seen.get(place, 0) + 1
        array = np.asarray(call.outputs[0])
        axis = 1 if array.ndim > 2 and call.record.module and array.ndim == 4 else array.ndim - 1
        yield (*place, number), call, (array > 0).any(axis=tuple([i for i in range(array.ndim) if i != axis]))


def _died(case: Case, step: Step) -> Found | None:
    """Return the finding for a relu that died: all units are 0 in the last recorded step, and most were not at first.

    No gradient passes the relu any more, so trials at other learning rates from this step show nothing.
    """
    for _, call, alive in _relus(step):
        if case.main is None or alive.any() or not _worked(case, call, ~alive):
            continue
        values = {"dead": alive.size, "units": alive.size, "steps": step.number}
        what = (
            f"all {alive.size} units of the relu of line {call.record.line} are 0 for every example of step "
            f"{step.number}, and most of them were not when the training began: its steps, at a learning rate of "
            f"{figure(max(case.main.rates, default=0.0))}, moved them there, and no gradient passes them any more."
        )
        fix = "lower the learning rate, or use leaky_relu"
        why = "units that are 0 for every example stay so at any learning rate"
        return Found(rate_place(case.main), values, message=what, fix=fix, unproved=why)
    return None


def _cut_scores(case: Case) -> Found | None:
    """Return the finding for a relu at the output of a network, if copies without this relu have a far lower loss on
    another recorded batch."""
    step, program, (first, last) = case.step, case.program, case.ends()
    if step is None or program is None or program.step is not step or not last > _LEARNED * first:
        return None
    for _, call, alive in _relus(step):
        if call.index not in program.order or not _is_output(step, call) or bool(alive.all()):
            continue
        bounded = Edit("without it", Changes(calls={call.index: same}), one_loss=True)
        reached = gain(case, bounded.changes, "without it", _LESS)
        if not reached:
            continue
        what = (
            f"this relu is the output of the network: {int((~alive).sum())} of its {alive.size} units are 0 for every "
            f"example of a batch, and get no gradient. {reached}"
        )
        return Found(case.edited(step, call), {}, bounded, message=what, fix="remove this relu")
    return None


def _by_biases(case: Case, relu: Call) -> tuple[HasPlace, Edit, Curves] | None:
    """Return the line of the setup that made all biases of the layer before a relu negative, the edit and its curves.

    The edit sets all biases before a relu that the line made negative to 0. Return None unless it lowers the loss.
    """
    step = next((x for x in case.run.steps if any(y is relu for y in x.calls)), None)
    if step is None:
        return None
    negative: list[tuple[Call, Tensor, Site]] = []
    for call in step.calls:
        layer = step.producer(step.origin(call.inputs[0])) if call.name == relu.name else None
        for x in layer.inputs if layer is not None and not layer.name.startswith("batch_norm") else ():
            site = _made_negative(case, x.leaf) if x.leaf is not None else None
            negative += [(call, x.leaf, site)] if x.leaf is not None and site is not None else []
    where = next((site for call, _, site in negative if call is relu), None)
    if where is None:
        return None
    zeros = {id(p): np.zeros_like(np.asarray(p.array)) for _, p, site in negative if site is where}
    edit = Edit("with these biases at 0", values=zeros)
    curves = compare(case.run, case.program, edit, case.budget)
    return (where, edit, curves) if curves is not None and better(curves) else None


def _by_scale(case: Case, relu: Call) -> Found | None:
    """Return the finding for a normalization before a relu whose scale the setup has set to 0."""
    step = next((x for x in case.run.steps if any(y is relu for y in x.calls)), None)
    layer = None if step is None else step.producer(step.origin(relu.inputs[0]))
    for x in layer.inputs if layer is not None and "norm" in layer.name else ():
        start = case.at_start(x.leaf) if x.leaf is not None else None
        site = case.run.written.get(x.leaf.array.__array_interface__["data"][0]) if x.leaf is not None else None
        if step is None or x.leaf is None or not isinstance(start, np.ndarray) or start.any() or site is None:
            continue
        if "weight" not in step.name(x.leaf):
            continue
        what = (
            f"this line sets {step.name(x.leaf)}, the scale of a normalization, to 0: all units of the relu after it "
            "are 0, and no gradient passes them."
        )
        return Found(site, {}, message=what, fix="set the scale to 1, and the bias to 0")
    return None


def _made_negative(case: Case, p: Tensor) -> Site | None:
    """Return the line of the setup that wrote to a vector, if all elements were negative before the first step."""
    start = case.at_start(p) if p._requires and p.array.ndim == 1 and isinstance(p.array, np.ndarray) else None
    if start is None or not start.size or not float(start.max()) < 0:
        return None
    return case.run.written.get(p.array.__array_interface__["data"][0])


def _learns_with(case: Case, found: Found) -> bool:
    """Return whether the edit of a finding clearly lowers the loss of a copy on the recorded batch."""
    curves = found.curves
    if curves is None and found.edit is not None:
        curves = compare(case.run, case.program, found.edit, case.budget)
    return curves is not None and better(curves)


def _worked(case: Case, relu: Call, dead: Array) -> bool:
    """Return whether most of the ``dead`` units of a relu were positive for some example in the first recording."""
    place = relu.site.file, relu.site.line, relu.record.module
    same = (
        now
        for step in case.run.steps
        if step.roots
        for key, call, now in _relus(step)
        if (*key[:2], call.record.module) == place and now.shape == dead.shape
    )
    first = next(same, None)
    return first is not None and 2 * int((first & dead).sum()) > int(dead.sum())


def _is_output(step: Step, call: Call) -> bool:
    """Return whether no later layer with weights depends on a value."""
    reached = {call.index}
    for later in step.calls[call.index + 1 :]:
        if any(x.call in reached for x in later.inputs):
            if later.weighted:
                return False
            reached.add(later.index)
    return True
