"""Explain a run's figures in sentences: whether it has learned, overfits, or would gain from more steps."""

import math

from ..tasks import Task
from .runs import Run

FALLING = 0.02  # relative fall of the loss in the last fifth of the run that more steps may continue
RISEN = 0.03  # relative rise of the held-out loss from its lowest that counts as overfitting


def explained(run: Run) -> str:
    """Return what the curves say, and what to try next."""
    return "\n".join([*_figures(run.task), *_curves(run)])


def _figures(task: Task) -> list[str]:
    part = task.test.name
    held_out = f"The {part} rows were not used for training; only their figures say how the model does on new data."
    if task.score == "r2":
        return [
            held_out,
            "R2 is the share of the variance that the model explains: 1 is perfect, 0 is as good as the mean, below 0 "
            "is worse than the mean.",
        ]
    classes = len(task.vocabulary) or int(task.test.targets.max()) + 1
    return [
        held_out,
        f"The loss is the cross entropy: {math.log(classes):.3f} is the loss of a guess among {classes} classes of "
        "equal probability; 0 is certainty that is always right.",
    ]


def _curves(run: Run) -> list[str]:
    history, part = run.loop.history, run.task.test.name
    losses = [row[f"{part}_loss"] for row in history]
    train = [row["train_loss"] for row in history]
    unit = "epoch" if history[-1]["epoch"] >= 1 else "step"
    best = min(range(len(losses)), key=losses.__getitem__)
    lines = []
    if len(losses) < 3:
        return ["Fewer than three evaluations are too few to judge the run; train for more epochs."]
    if losses[-1] > losses[best] * (1 + RISEN) and losses[-1] > losses[best] + 1e-6:
        lines.append(
            f"Overfitting: the {part} loss was lowest at {unit} {history[best][unit]:g} ({losses[best]:.4f}) and is "
            f"{losses[-1]:.4f} now, while the training loss fell to {train[-1]:.4f}. Train for fewer epochs "
            f"(--{unit}s {max(1, int(history[best][unit]))}), use a smaller model, or get more data."
        )
    elif len(losses) >= 5 and losses[-1] < losses[-1 - max(1, len(losses) // 5)] * (1 - FALLING):
        lines.append(
            f"The {part} loss is still falling ({losses[-1 - max(1, len(losses) // 5)]:.4f} to {losses[-1]:.4f} in the "
            f"last fifth of the run): more epochs may help."
        )
    else:
        lines.append(
            f"The {part} loss ends at {losses[-1]:.4f}, about its lowest value: longer runs will change little."
        )
    return lines
