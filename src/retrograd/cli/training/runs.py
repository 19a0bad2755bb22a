"""A run: a task, its trainer, and the loop; an interpretation of its curves."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from retrograd import distributed
from retrograd.training import Loop

from ..console import UserError
from ..tasks import Task, make_task
from . import processes
from .checkpoints import FILE
from .settings import Settings
from .trainers import EngineTrainer, ManualTrainer, Trainer

FALLING = 0.02  # more steps are advised if the loss fell by more than this fraction in the last fifth of the run
RISEN = 0.03  # the run overfits if the held-out loss rose by more than this fraction from its lowest value


@dataclass
class Run:
    """A training run, new or resumed."""

    task: Task
    trainer: Trainer
    loop: Loop


def make_run(settings: Settings) -> Run:
    """Return the run of these settings, at its first step or at the checkpoint's."""
    if settings.batch_size < processes.count():
        raise UserError(f"--batch-size {settings.batch_size} is less than the {processes.count()} processes")
    if processes.leading():  # only one process downloads missing data
        task = make_task(settings.values)
    if processes.count() > 1:
        distributed.barrier()
        if not processes.leading():
            task = make_task(settings.values)
    trainer: Trainer
    if settings.values.get("engine") == "manual":
        trainer = ManualTrainer(task, settings.recipe)
    else:
        trainer = EngineTrainer(task, settings.recipe, settings.device, settings.compile)

    def step(batch: Any) -> tuple[dict[str, float], int]:
        inputs, targets = (part.numpy() for part in batch)
        rate = settings.recipe.rate(loop.completed, loop.steps)
        rows, total = processes.part(len(inputs)), task.count(targets)
        inputs, targets = inputs[rows], targets[rows]
        with processes.own_random(), fitting(settings, loop):
            # The mean over all targets is the mean of the processes' means, weighted by their numbers of targets.
            weight = processes.count() * task.count(targets) / total
            loss, output = trainer.step(task.augment(inputs), targets, rate, weight)
        return processes.mean(*task.figures(loss, output, targets))

    loop = Loop(
        step,
        task.train,
        settings.steps or settings.epochs * len(task.train),
        evaluate=lambda: task.evaluate(trainer.predict),
        checkpoint=settings.out / FILE,
        metadata={"config": settings.plain(), "vocabulary": task.vocabulary, "columns": task.columns()},
        **trainer.parts(),
    )
    if settings.checkpoint is not None:
        loop.resume(settings.checkpoint.path)
        wanted = {"train_loss", f"{task.test.name}_loss", f"{task.test.name}_{task.score}"}
        if task.score == "accuracy":
            wanted.add("train_accuracy")
        if loop.history and not wanted <= loop.history[0].keys():
            raise UserError(f"{settings.checkpoint.path}: its history is not from 'retrograd train {settings.task}'")
    return Run(task, trainer, loop)


@contextmanager
def fitting(settings: Settings, loop: Loop) -> Iterator[None]:
    """Convert any error in the first step of a resumed run to UserError: the optimizer's state may be invalid."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError) as error:
        resumed = settings.checkpoint
        if resumed is None or loop.completed != resumed.step:
            raise
        raise UserError(f"{resumed.path}: the run cannot be resumed: {type(error).__name__}: {error}") from error


def explained(run: Run) -> str:
    """Return an interpretation of the curves, and advice."""
    return "\n".join([*_figures(run.task), *_curves(run)])


def _figures(task: Task) -> list[str]:
    part = task.test.name
    held_out = f"The {part} rows were not used for training; only their figures measure the model on new data."
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
    before = -1 - max(1, len(losses) // 5)  # the last evaluation before the last fifth of the run
    lines = []
    if len(losses) < 3:
        return ["Fewer than three evaluations are too few to judge the run; train for more epochs."]
    if losses[-1] > losses[best] * (1 + RISEN) and losses[-1] > losses[best] + 1e-6:
        lines.append(
            f"Overfitting: the {part} loss was lowest at {unit} {history[best][unit]:g} ({losses[best]:.4f}) and is "
            f"{losses[-1]:.4f} now, while the training loss fell to {train[-1]:.4f}. Train for fewer epochs "
            f"(--{unit}s {max(1, int(history[best][unit]))}), use a smaller model, or get more data."
        )
    elif losses[-1] < losses[before] * (1 - FALLING):
        lines.append(
            f"The {part} loss is still falling ({losses[before]:.4f} to {losses[-1]:.4f} from {unit} "
            f"{history[before][unit]:g} to {history[-1][unit]:g}): more epochs may help."
        )
    else:
        lines.append(
            f"The {part} loss ends at {losses[-1]:.4f}, about its lowest value: longer runs will change little."
        )
    return lines
