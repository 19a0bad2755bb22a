"""A run: a task, its trainer, and the loop."""

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
