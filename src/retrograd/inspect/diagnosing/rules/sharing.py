"""Rules on weights that layers share by mistake: lists of one layer, one layer under two names, equal models."""

from __future__ import annotations

import re

from ....nn.base.module import Module
from ..kinds import Case, Found, kind
from ..probes.batches import carried_over, untied
from ..step_recorder import Array, Opened, Step
from .program_text import attribute_line, text_of_class

_SERVED = 0.25  # below this share of the first loss, the network has learned
_CLEARLY = 0.8  # separate weights must lower the loss below this share


@kind(
    "tied-copies",
    "Are layers that look separate really separate?",
    "{what}",
    "{fix}",
    "the recorded step has one set of these weights only",
)
def tied_copies(case: Case) -> Found | None:
    held = {id(p) for x in case.run.optimizers for p in x.parameters}
    seen: set[int] = set()
    for step in case.run.steps:
        for root in step.outermost():
            for container in root.module.modules():
                if id(container) in seen:
                    continue
                seen.add(id(container))
                shared = _under_two_names(case, step, container)
                if shared is not None:
                    return shared
                listed = type(container).__name__
                if listed not in ("ModuleList", "Sequential", "ModuleDict", "ParameterList", "ParameterDict"):
                    continue
                of_parameters = listed.startswith("Parameter")
                values = container._parameters if of_parameters else container._modules
                parts: list[Array] = [x for x in values.values() if x is not None]
                counts = [sum(x is y for y in parts) for x in parts]
                again = [x for x, count in zip(parts, counts, strict=True) if count > 1]
                meant = bool(again) and not of_parameters and _is_meant(case, step, again[0])
                if (
                    again
                    and not meant
                    and any(id(p) in held for p in ([again[0]] if of_parameters else again[0].parameters()))
                ):
                    name = type(again[0]).__name__
                    what = f"one {name} stands {max(counts)} times in a {type(container).__name__}: all share weights."
                    fix = "create one module per place: [make() for _ in range(n)], where each call creates weights"
                    return Found(case.created(container) or root.site, {"what": what, "fix": fix})
    return _identical_models(case)


def _is_meant(case: Case, step: Step, module: Module) -> bool:
    """Return whether weights are shared on purpose: a block is applied to its own results, and learns well.

    Several heads on one input should have separate weights. Copies of the network with separate weights for each call
    show whether their loss on another batch would be lower.
    """
    calls = [x for x in step.modules if x.module is module]
    if next(iter(module.children()), None) is None or len(calls) < 2 or not calls[1].inputs or not calls[0].outputs:
        return False
    if calls[0].outputs[0].call not in step.below(calls[1].inputs[0], through_cuts=True):
        return False
    program, main, (first, last) = case.program, case.main, case.ends()
    if program is None or main is None or last < _SERVED * first:
        return True
    carried = carried_over(case.run, program, untied(program, module, main.start), case.budget, len(case.losses))
    return carried is None or carried.fixed > _CLEARLY * carried.plain


def _under_two_names(case: Case, step: Step, module: Module) -> Found | None:
    """Return the finding for one layer that a module has under two names, if the module uses both names."""
    parts = [(name, x) for name, x in module._modules.items() if x is not None and not name.isdigit()]
    twice = [(a, b, x) for i, (a, x) in enumerate(parts) for b, y in parts[i + 1 :] if x is y]
    for a, b, x in twice:
        entry = next((one for one in step.modules if one.module is module), None)
        calls = [one for one in step.modules if one.module is x]
        lines = "" if entry is None else text_of_class(entry)
        named = all(re.search(rf"\bself\.{name}\b\s*[.(]", lines) for name in (a, b))
        if entry is None or len(calls) < 2 or not named or not any(p._requires for p in x.parameters()):
            continue
        one = type(x).__name__
        what = f"self.{a} and self.{b} of {type(module).__name__} are one {one}: both names share its weights."
        fix = f"create a {type(x).__name__} for each of them"
        return Found(attribute_line(entry, b), {"what": what, "fix": fix})
    return None


def _identical_models(case: Case) -> Found | None:
    """Return the finding for several models that start with the same values and stay the same."""
    step = case.run.first
    if step is None or case.main is None or case.main.steps < 2:
        return None
    held = {id(p) for x in case.run.optimizers for p in x.parameters}
    models: list[Opened] = []
    for entry in step.outermost():
        if all(entry.module is not x.module for x in models) and entry.grad_enabled:
            models.append(entry)
    lists = [x for entry in models for x in entry.module.modules() if type(x).__name__ in ("ModuleList", "ModuleDict")]
    first = {id(x.module): x for x in reversed(step.modules)}  # the first call of each module
    inside = [[first[id(x)] for x in one._modules.values() if id(x) in first] for one in lists]
    for a, others in [(a, group[i + 1 :]) for group in [models, *inside] for i, a in enumerate(group)]:
        for b in others:
            pa, pb = list(a.module.parameters()), list(b.module.parameters())
            if not pa or len(pa) != len(pb) or any(x is y for x, y in zip(pa, pb, strict=True)):
                continue
            if not all(id(p) in held and p._requires for p in (*pa, *pb)):
                continue
            start = [case.at_start(p) for p in pa]
            moved = any(s is not None and bool((s != p.array).any()) for s, p in zip(start, pa, strict=True))
            same = all(x.shape == y.shape and bool((x.array == y.array).all()) for x, y in zip(pa, pb, strict=True))
            if moved and same:
                what = f"two {type(a.module).__name__} started with the same values and are still equal after training."
                fix = "initialize each of them with random numbers of its own"
                around = next((x for x in lists if any(b.module is y for y in x._modules.values())), None)
                made = case.created(b.module) or (None if around is None else case.created(around))
                return Found(made or b.site, {"what": what, "fix": fix})
    return None
