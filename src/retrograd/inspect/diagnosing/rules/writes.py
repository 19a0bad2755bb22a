"""Rules on writes that the backward pass does not see, or that undo the changes of an optimizer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ....core.graph.nodes import Node, reachable
from ....core.source_location import Site
from ....core.tensor.tensor import Tensor
from ....nn.parameter import Parameter
from ..findings import figure, listing
from ..kinds import Case, Found, kind
from ..probes.proof import STEPS, train
from ..probes.replay import NOTHING, Edit
from ..run import Renewal
from ..step_recorder import Array, Call, Source, Step, start_of
from .program_text import assigned_data, attribute_line
from .stillness import FLAT, depending

_LOADS = 3  # the least number of times that a line loads the same values
_AT_BOUNDS = 0.7  # the least share of elements at the bounds
_UNDONE = 0.7  # a write of at least this share of the norm of an update undoes the update
_LEAST_TRIAL = 10  # the least number of losses of a trial
_APART = 10  # the least number of steps between two comparisons
_LEARNS = 0.8  # a copy learns if its last loss is below this share of its first loss


@kind(
    "data-write",
    "Does the backward pass see every change of the values?",
    "{what}",
    "{fix}",
    "the recorded step does not show what the program is to compute in its place",
)
def data_write(case: Case) -> Found | None:
    for step in case.run.steps:
        below = [(root.source.call, step.below(root.source)) for root in step.roots]
        for call in step.calls:
            if not call.inplace or not call.inputs or call.record.within:  # a custom Function has a rule of its own
                continue
            source = call.inputs[0]
            untracked = not call.record.grad_enabled and source.leaf is None and call.record.inputs[0].requires_grad
            if not source.cut and not untracked:
                continue
            # An operator read the value before the write, and the backward pass runs after the write.
            if any(_is_read(step, source, graph, call.index) for last, graph in below if call.index <= last):
                what = (
                    f"{call.record.label} on this line changes a value of shape {call.shape} between its use and the "
                    "backward pass; the gradient is that of the value before."
                )
                fix = "compute a new value instead (masked_fill, where, clamp), without .data or detach()"
                return Found(call.record, {"what": what, "fix": fix})
    held = {id(p): p for x in case.run.optimizers if x.steps > 1 for p in x.parameters}
    writes = [(step, *one) for step in case.run.steps if step.roots for one in _writes(step, held)]
    return (
        _computed_weights(case)
        or _loaded_again(case)
        or _renewed(case)
        or _overwritten(case)
        or _clipped_to_bounds(case, writes)
        or rounded_back(case, writes)
        or _averages_left(case, writes)
        or _undone(case, writes)
    )


def _is_read(step: Step, source: Source, graph: set[int], before: int) -> bool:
    """Return whether a graph contains a value. For a leaf: whether the graph reads the leaf, and this graph, or one
    that ``autograd.grad`` differentiated, has read it before the call with index ``before``."""
    if source.leaf is None:
        return source.call in graph
    reads = {call.index for call in step.calls if any(x.leaf is source.leaf for x in call.inputs)}
    differentiated = set[int]().union(*map(step.below, step.asked))
    return bool(reads & graph) and any(i < before for i in reads & (graph | differentiated))


def derived_attribute(case: Case, held: set[int]) -> Found | None:
    """Return the finding for an attribute that is computed once from a Parameter: ``Parameter(x).float()``."""
    steps = [step for step in case.run.steps if step.roots][-2:]
    read = [{id(x.value) for call in step.calls for x in call.inputs if x.call < 0} for step in steps]
    for entry in steps[-1].modules if held and len(steps) > 1 else ():
        for name, value in vars(entry.module).items():
            node = value._node if isinstance(value, Tensor) and value._requires else None
            if not isinstance(node, Node) or any(id(value.array) not in arrays for arrays in read):
                continue
            leaves = [x for one in reachable([node])[0] for x in one.parents if type(x) is not Node and x is not None]
            if not leaves or not all(isinstance(x, Parameter) and id(x) not in held for x in leaves):
                continue
            what = (
                f"self.{name} of {type(entry.module).__name__} is the result of an operator on a Parameter, and no "
                "Parameter itself: parameters() does not have it, and no step changes it."
            )
            fix = f"convert the values first: self.{name} = nn.Parameter(values.float())"
            return Found(attribute_line(entry, name), {"count": 1}, message=what, fix=fix)
    return None


def _computed_weights(case: Case) -> Found | None:
    """Return the finding for weights that are computed from an optimizer's parameters and assigned by ``.data``."""
    for x in case.run.optimizers:
        missing = {id(p) for p in x.parameters if id(p) not in x.graded and p._requires}
        if x.steps < 2 or x.graded or not missing:
            continue
        for step in case.run.steps[1:]:
            reached = [p for root in step.roots for p in step.leaves(root.source)]
            for p in reached if not any(id(p) in missing for p in reached) else ():
                call = step.assigned(p)
                if call is not None and call.index in depending(step, missing):
                    names = [step.name(q) for q in step.leaves(Source(call.index, 0, None, None)) if id(q) in missing]
                    what = (
                        f"{step.name(p)}, through which the loss is computed, gets the result of this line by .data, "
                        f"which drops its graph: no gradient reaches {' and '.join(names[:3])}, and "
                        f"{case.run.title(x)} changes nothing."
                    )
                    fix = "use the result itself: torch.func.functional_call(model, weights, inputs), without .data"
                    return Found(call.record, {"what": what, "fix": fix})
    return None


def _overwritten(case: Case) -> Found | None:
    """Return the finding for parameters that are overwritten in each step, with values that never change.

    A soft update in the wrong direction is an example: it writes the untrained target network over the network.
    """
    held = {id(p): p for x in case.run.optimizers if x.steps > 1 for p in x.parameters}
    steps = [step for step in case.run.steps if step.roots and step.number]
    writes = [(step, call, p) for step in steps for call, p in _writes(step, held)]
    written = {start_of(p.array) for _, _, p in writes} | set(map(start_of, _changed_arrays(steps)))
    kept: dict[tuple[Site, str, int], list[set[int]]] = {}
    for step, call, p in writes:
        known = kept.setdefault((call.site, call.name, id(p)), [])
        unchanged = {start for start in map(start_of, _given(step, call, p)) if start not in written}
        fresh = call.name == "copy_" and call.record.call not in ("copy_", "load_state_dict") or _is_random(step, call)
        known.append({0} if fresh else unchanged)
        if len(known) < 2 or not known[0] & known[-1]:
            continue
        optimizer = next(x for x in case.run.optimizers if any(q is p for q in x.parameters))
        source, fix = "values that nothing changes", "write in the other direction, or remove this line from the loop"
        if fresh:
            source, fix = "new random or constant values", "initialize once, before the loop"
        what = (
            f"in each step, {call.record.label} on this line overwrites {step.name(p)}, which "
            f"{case.run.title(optimizer)} trains, with {source}, and undoes what the optimizer has changed."
        )
        assigned = None if call.inplace else assigned_data(call.site)
        return Found(assigned or call.record, {"what": what, "fix": fix})
    return None


def rounded_back(case: Case, writes: Sequence[tuple[Step, Call, Tensor]]) -> Found | None:
    """Return the finding for parameters that the program overwrites with their own rounded values in each step.

    Rounding undoes small updates. A program with several writes in a step restores the values, which is no finding.
    """
    for step, call, p in writes:
        others = [one for one in writes if one[2] is p and one[0] is not step]
        later = next((x for x, _, _ in others if x.number == step.number + 1), None)
        if later is None or len([one for one in writes if one[2] is p and one[0] is step]) > 1:
            continue
        below = step.below(Source(call.index, 0, None, None), through_cuts=True)
        rounding = next((step.calls[i] for i in below if step.calls[i].name in FLAT), None)
        own = any(x.leaf is p for i in below for x in step.calls[i].inputs)
        before, after = step.values.get(id(p)), later.values.get(id(p))
        if rounding is None or not own or before is None or after is None or not step.arrived.get(id(p)):
            continue
        same = float((np.asarray(before) == np.asarray(after)).mean())
        if same < 0.5:
            continue
        where = next((x.site for x, q in step.left if q is p and ".data" in x.site.code), call.record)
        what = (
            f"in each step, {step.name(p)} is overwritten with its own rounded values ({rounding.name} of line "
            f"{rounding.record.line}): after the first update {same:.0%} of its elements were the same as before: "
            "rounding undoes updates that are smaller than half of its step."
        )
        fix = "leave the parameter as it is, and compute with a rounded copy: w + (rounded(w) - w).detach()"
        return Found(where, {"what": what, "fix": fix})
    return None


def _is_random(step: Step, call: Call) -> bool:
    """Return whether a write copies random numbers that depend on no data and no parameter."""
    below = [step.calls[i] for x in call.inputs[1:] for i in step.below(x, through_cuts=True)]
    random = any(x.name.startswith(("rand", "normal")) for x in below)
    return (
        call.name == "copy_"
        and random
        and all(x.leaf is None for one in below if not one.name.endswith("_like") for x in one.inputs)
    )


def _loaded_again(case: Case) -> Found | None:
    """Return the finding for a line that repeatedly loads the same values into a model that is trained.

    A program that trains one state on several folds of the data creates an optimizer for each fold.
    """
    for site, known in case.run.loads.items():
        groups = [[x for x in known if x.optimizers == number] for number in {x.optimizers for x in known}]
        loads = max(groups, key=len, default=[])
        held = {id(p) for x in case.run.optimizers if x.steps > 1 for p in x.parameters}
        if len(loads) < _LOADS or not any(id(p) in held for p in loads[0].parameters) or not case.stuck:
            continue
        if len({tuple(x.marks) for x in loads}) > 1 or len({x.steps for x in loads}) < len(loads):
            continue
        between = (loads[-1].steps - loads[0].steps) / (len(loads) - 1)
        what = (
            f"load_state_dict on this line gave the model the same values {len(loads)} times, every "
            f"{figure(between)} steps of an optimizer, and undid what the steps in between had changed."
        )
        return Found(site, {"what": what, "fix": "load these values once, before the loop"})
    return None


def _renewed(case: Case) -> Found | None:
    """Return the finding for a line that repeatedly initializes parameters during training, such as in each epoch."""
    lines: dict[Site, list[Renewal]] = {}
    for one in case.run.renewals:
        lines.setdefault(one.site, []).append(one)
    for site, found in lines.items():
        if len(found) < 2:
            continue
        between = found[1].steps - found[0].steps
        names = [step.name(found[0].parameter) for step in case.run.steps if step.roots]
        what = (
            f"this line gave {next(filter(None, names), 'a parameter')} new values that have nothing in common with "
            f"those that it had learned, again after {between} steps of {case.run.title(found[0].optimized)}: "
            "the training begins anew each time."
        )
        return Found(site, {"what": what, "fix": "initialize once, before the loop over the epochs"})
    return None


def _clipped_to_bounds(case: Case, writes: Sequence[tuple[Step, Call, Tensor]]) -> Found | None:
    """Return the finding for parameters whose elements are mostly at the bounds to which the program clips them."""
    clipped = [(step, call, p) for step, call, p in writes if call.name.startswith("clamp") and call.outputs]
    if not clipped or not case.stuck or sum(x.steps > 0 for x in case.run.optimizers) > 1:
        return None
    step = clipped[-1][0]
    arrays = [(np.asarray(call.outputs[0]), call) for one, call, _ in clipped if one is step]
    if any(not x.size for x, _ in arrays):
        return None
    bound = max(float(np.abs(x).max()) for x, _ in arrays)
    share = float(np.mean(np.concatenate([(np.abs(x) == bound).reshape(-1) for x, _ in arrays])))
    if share < _AT_BOUNDS or not bound:
        return None
    what = (
        f"in each step, this line clips parameters to at most {figure(bound)}, and {share:.0%} of their elements are "
        "at this bound: the network has no room to learn."
    )
    return Found(arrays[0][1].record, {"what": what, "fix": "widen the bounds, or do not clip parameters"})


def _averages_left(case: Case, writes: Sequence[tuple[Step, Call, Tensor]]) -> Found | None:
    """Return the finding for moving averages that are written over the parameters for an evaluation, and left there.

    In other steps the program updates the averages from the parameters, and after the write the network runs under
    ``no_grad``. If the program restores the parameters, the last write of the step has other values.
    """
    if not case.stuck:
        return None
    last = {(id(step), id(p)): (step, call, p) for step, call, p in writes}
    for step, call, p in last.values():
        follows = [
            one.site
            for other in case.run.steps
            for one in other.calls
            if one.inplace and one.inputs[0].leaf is not p and _reads(other, one, p)
            if start_of(_written_to(one)) in _memory_of(step, call, p)
        ]
        apart = [other for other in case.run.steps if (id(other), id(p)) not in last]
        averages = any(one.site in follows for other in apart for one in other.calls)
        evaluated = any(
            not x.grad_enabled and x.start > call.index and any(q is p for q in x.module.parameters())
            for x in step.modules
        )
        if not averages or not evaluated:
            continue
        optimizer = next(x for x in case.run.optimizers if any(q is p for q in x.parameters))
        what = (
            f"{call.record.label} on this line overwrites {step.name(p)}, which {case.run.title(optimizer)} trains, "
            "with a moving average for an evaluation, and nothing puts the trained values back before the next step: "
            "it undoes what the steps since the last evaluation have changed."
        )
        fix = "keep a copy of the parameters before the evaluation and put it back after it, or evaluate a copy"
        return Found(call.record, {"what": what, "fix": fix})
    return None


def _undone(case: Case, writes: Sequence[tuple[Step, Call, Tensor]]) -> Found | None:
    """Return the finding for parameters that change between two steps so that the first update is undone, however the
    program does it, if a copy that keeps the updates learns, or the parameters do not move in later steps."""
    first, second = case.run.steps[:2] if len(case.run.steps) > 1 else (None, None)
    if first is None or second is None or second.number != first.number + 1 or not first.after:
        return None
    if not case.stuck or sum(x.steps > 0 for x in case.run.optimizers) > 1:
        return None
    shares: dict[int, float] = {}
    returned: list[bool] = []
    held = {id(p): p for x in case.run.optimizers if x.steps > 1 for p in x.parameters if p.array.ndim > 1}
    for key in held:
        before, after, later = first.values.get(key), first.after.get(key), second.values.get(key)
        if before is None or after is None or later is None or not later.shape == after.shape == before.shape:
            continue
        update = float(np.linalg.norm(after - before))
        if not update or not bool(np.isfinite(later).all()):
            continue
        shares[key] = float(np.linalg.norm(later - after)) / update
        last = case.run.steps[-1].values.get(key)
        known = last is not None and case.run.steps[-1].number > second.number + _APART and last.shape == later.shape
        returned.append(known and float(np.linalg.norm(last - later)) < 2 * update)
    if not shares or float(np.median([*shares.values()])) < _UNDONE:
        return None
    most, program = case.budget.share(1, STEPS), case.program
    curve = (
        [] if program is None else train(case.run, program, NOTHING, NOTHING, {}, "", Edit(""), case.budget, most=most)
    )
    learns = len(curve) >= _LEAST_TRIAL and curve[-1] < _LEARNS * curve[0]
    if not learns and 2 * sum(returned) <= len(returned):
        return None
    of_these = [(call, p) for step, call, p in writes if step is second and shares.get(id(p), 0.0) >= _UNDONE]
    replaced = [key for key in shares if key in second.replaced]
    site = case.run.backward_site
    data = assigned_data(site) if site is not None and (replaced or not of_these) else None
    where = data or (of_these[-1][0].record if of_these else None)
    if where is None:
        return None
    names = listing([second.name(held[key]) for key, share in shares.items() if share >= _UNDONE])
    what = (
        f"after the optimizer's first step, the program gives other values to {names}: it changes them by "
        f"{figure(max(shares.values()))} times what the step has changed, and the loss does not fall"
    )
    if learns:
        what += (
            f"; a copy that keeps the values of its steps lowers the loss of a recorded batch from {figure(curve[0])} "
            f"to {figure(curve[-1])} in {len(curve) - 1} steps"
        )
    else:
        what += f"; after {case.run.steps[-1].number - second.number} more steps, they are where they were"
    what += "."
    return Found(where, {"what": what, "fix": "leave the parameters as the optimizer has changed them"})


def _memory_of(step: Step, call: Call, p: Tensor) -> set[int]:
    """Return the addresses of the arrays, other than the parameter's, with its shape that a write to it depends on."""
    sources = list(call.inputs[1:] if call.inplace else call.inputs)
    for index in {i for x in sources for i in step.below(x, through_cuts=True)}:
        sources += step.calls[index].inputs
    arrays = [x.value if x.leaf is None else x.leaf.array for x in sources if x.call < 0 and x.leaf is not p]
    return {start_of(x) for x in arrays if getattr(x, "shape", None) == p.array.shape}


def _written_to(call: Call) -> Array:
    """Return the array to which an in-place call writes."""
    source = call.inputs[0]
    return source.value if source.leaf is None else source.leaf.array


def _reads(step: Step, call: Call, p: Tensor) -> bool:
    """Return whether the result of a call depends on a parameter, also through cuts."""
    below = step.below(Source(call.index, 0, None, None), through_cuts=True)
    return any(x.leaf is p for i in below for x in step.calls[i].inputs)


def _writes(step: Step, held: dict[int, Tensor]) -> Iterator[tuple[Call, Tensor]]:
    """Yield the calls that change a parameter, and the parameter: in-place calls, or ``p.data = result``."""
    replaced: dict[int, list[int]] = {}
    for key, array in (*step.replaced.items(), *step.read.items()):
        if key in held and key not in replaced.get(start_of(array), ()):
            replaced.setdefault(start_of(array), []).append(key)
    for call in step.calls:
        leaf = call.inputs[0].leaf if call.inplace and call.inputs else None
        if leaf is not None and id(leaf) in held:
            yield call, leaf
        for key in (
            () if call.inplace or call.moves else replaced.get(start_of(call.outputs[0]), ()) if call.outputs else ()
        ):
            yield call, held[key]


def _changed_arrays(steps: list[Step]) -> Iterator[Array]:
    """Yield the arrays of leaves and constants that calls write to."""
    for step in steps:
        for call in step.calls:
            source = call.inputs[0] if call.inplace and call.inputs else None
            if source is not None and source.call < 0:
                yield source.value if source.leaf is None else source.leaf.array


def _given(step: Step, call: Call, p: Tensor) -> list[Array]:
    """Return the arrays with the parameter's shape that a write to it reads: other Parameters, or the copied array."""
    parameters = {start_of(q.array) for entry in step.modules for q in entry.module.parameters()}
    sources = list(call.inputs[1:] if call.inplace else call.inputs)
    copied = call.name in ("copy_", "clone") and step.origin(sources[0]).call < 0
    for index in {i for x in sources for i in step.below(x, through_cuts=True)}:
        sources += step.calls[index].inputs
    arrays = [x.value if x.leaf is None else x.leaf.array for x in sources if x.call < 0 and x.leaf is not p]
    same = [x for x in arrays if getattr(x, "shape", None) == p.array.shape and start_of(x) != start_of(p.array)]
    return same if copied or not call.inplace else [x for x in same if start_of(x) in parameters]
