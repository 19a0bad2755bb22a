"""Rules on schedules: whether the learning rate stays large enough."""

from __future__ import annotations

import linecache
import math
import re

import numpy as np

from ...findings import figure
from ...kinds import Case, Found, HasPlace, Place, kind
from ...probes.proof import STEPS, better, train
from ...probes.replay import NOTHING, Curves, Edit
from ...run import Optimized, Schedule

_KILLED = 0.9e-2  # a rate below this share of the largest rate is too low
_LOW = 5e-2  # this bound applies instead of _KILLED if the loss did not fall
_COLD = 2e-2  # a warm-up that stays below this share of the optimizer's rate is too long
_CRAWLED = 0.8  # a loss above this share of its first value has hardly fallen
_LEAST_STEPS = 50


@kind(
    "scheduler-kills-rate",
    "Does the schedule leave a learning rate to learn with?",
    "{scheduler} lowered the learning rate from {high} to {low} within {steps} steps (below {limit} from step "
    "{since} on), while the loss is still {loss}.",
    "call scheduler.step() once per epoch, or give it a slower schedule",
)
def scheduler_kills_rate(case: Case) -> Found | None:
    unborn = _never_warm(case)
    if unborn is not None:
        return unborn
    for main in case.run.optimizers:
        rates = np.asarray(main.rates)
        if main.steps < 8 or not rates.max() > 0 or not math.isfinite(rates.max()):
            continue
        top = int(rates.argmax())
        limit = (_LOW if case.stuck and main is case.main else _KILLED) * rates.max()
        low = rates[top:] < limit
        if low.sum() < (0.25 if case.stuck else 0.4) * len(rates) or rates[-1] >= limit:
            continue
        losses = [x for x in main.losses if math.isfinite(x)]
        if losses and abs(losses[-1]) < 0.05 * abs(losses[0]):
            continue
        schedule = next((x for x in case.run.schedules if x.scheduler.optimizer is main.optimizer), None)
        name = type(schedule.scheduler).__name__ if schedule is not None else "the program"
        turned = _turned_mode(schedule) if schedule is not None and name == "ReduceLROnPlateau" else ""
        if name == "ReduceLROnPlateau" and not turned:
            continue  # ReduceLROnPlateau follows the loss
        where = schedule.stepped or schedule.created if schedule is not None else _rate_line(main) or main.stepped
        own = schedule is not None and "lr_lambdas" in schedule.scheduler.__dict__
        where = schedule.created if schedule is not None and own else where
        since = top + int(np.flatnonzero(low)[0])
        values = {"scheduler": name, "high": figure(rates.max()), "low": figure(rates[-1]), "steps": len(rates)}
        values |= {"limit": figure(limit), "since": since, "loss": figure(losses[-1]) if losses else "nan"}
        text = fix = ""
        if turned and schedule is not None:
            where, mode = schedule.created, schedule.scheduler.__dict__["mode"]
            right = "max" if mode == "min" else "min"
            better_is = "larger" if right == "max" else "smaller"
            start, end = figure(schedule.metrics[0]), figure(schedule.metrics[-1])
            text = (
                f"{name} with mode={mode!r} gets {turned}, of which {better_is} is better: it went from {start} to "
                f"{end}, which counts as no improvement, and the learning rate from {values['high']} to "
                f"{values['low']}."
            )
            fix = f'pass mode="{right}" to {name}'
        if main is not case.main or case.program is None:
            return Found(where, values, message=text, fix=fix, unproved="the recorded step could not be run again")
        edit = Edit(f"with the rate at {values['high']}", start=False)
        most = case.budget.share(2, STEPS)
        high, killed = (
            train(case.run, case.program, NOTHING, NOTHING, options, "", edit, case.budget, most=most)
            for options in ({}, {"lr": rates[-1] / rates.max()})
        )
        return Found(where, values, edit, Curves(high, killed), message=text, fix=fix)
    return None


def _never_warm(case: Case) -> Found | None:
    """Return the finding for a schedule that kept the learning rate low in all steps, such as a warm-up that is longer
    than the run, if the loss hardly fell."""
    main, (first, last) = case.main, case.ends()
    schedule = next(
        (x for x in case.run.schedules if main is not None and x.scheduler.optimizer is main.optimizer), None
    )
    if main is None or schedule is None or main.steps < _LEAST_STEPS or case.run.limited or not schedule.sites:
        return None  # if the run was limited, the warm-up may go on
    if last < _CRAWLED * first:
        return None
    base, most = max(schedule.scheduler.base_lrs, default=0.0), max(main.rates)
    if not most < _COLD * base or case.program is None:
        return None
    edit, count = Edit(f"with the rate at {figure(base)}"), case.budget.share(2, STEPS)
    high, low = (
        train(case.run, case.program, NOTHING, NOTHING, options, how, edit, case.budget, most=count)
        for options, how in (({"lr": base / most if most else 1.0}, ""), ({}, "" if most else "none"))
    )
    if most and not better(Curves(high, low)):
        return None
    name = type(schedule.scheduler).__name__
    text = (
        f"{name} leaves at most {figure(most)} of the learning rate of {figure(base)} in all {main.steps} steps, and "
        f"the loss is still {figure(last)}."
    )
    fix = f"make the warm-up shorter, or call {name}.step() as often as it counts"
    return Found(
        schedule.created, {}, edit if most else None, Curves(high, low) if most else None, message=text, fix=fix
    )


def _turned_mode(schedule: Schedule) -> str:
    """Return the program's expression for the metric of ReduceLROnPlateau, if the schedule has the wrong ``mode``.

    The expression contains a word such as "accuracy" for mode "min", and nearly all later metrics are worse than the
    first metric according to the mode.
    """
    mode, site, metrics = schedule.scheduler.__dict__.get("mode"), schedule.stepped, schedule.metrics
    given = re.search(r"\.step\((.*)\)", site.code) if site is not None else None
    if given is None or len(metrics) < 4 or not all(map(math.isfinite, metrics)):
        return ""
    words = set(re.findall(r"[a-z0-9]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", given[1]).lower().replace("_", " ")))
    large, small = bool(words & _LARGER_IS_BETTER), bool(words & _SMALLER_IS_BETTER)
    wrong = large and not small if mode == "min" else small and not large
    falls = [x < metrics[0] for x in metrics[1:]] if mode == "max" else [x > metrics[0] for x in metrics[1:]]
    return given[1].strip() if wrong and sum(falls) >= _MOSTLY * len(falls) else ""


_MOSTLY = 0.8  # the least share of later metrics that must be worse than the first
_LARGER_IS_BETTER = frozenset(
    ["accuracy", "accuracies", "acc", "accs", "f1", "auc", "auroc", "iou", "dice", "psnr", "ssim", "bleu", "recall"]
    + ["precision", "reward", "rewards", "score", "r2", "map", "correct", "top1"]
)
_SMALLER_IS_BETTER = frozenset(
    ["loss", "losses", "error", "errors", "err", "mse", "mae", "rmse", "nll", "perplexity", "ppl", "wer", "cost", "neg"]
)


def _rate_line(main: Optimized) -> HasPlace | None:
    """Return the line that assigns a learning rate to a parameter group, in the file that steps the optimizer."""
    assigned = re.compile(r"""^\s*[\w.\[\]]+\[["']lr["']\]\s*[-+*/]?=[^=]""")
    lowered = re.compile(r"^\s*(\w*(?:lr|rate)\w*)\s*(?:[*/]=|=\s*\1\s*[*/])")
    for site, pattern in [(site, x) for x in (assigned, lowered) for site in (main.stepped, main.created)]:
        for number, line in enumerate(linecache.getlines(site.file) if site is not None else (), start=1):
            if site is not None and pattern.match(line):
                return Place(site.file, number)
    return None
