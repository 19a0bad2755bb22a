"""`retrograd train TASK`: train a model on real data, and leave its metrics, weights, plots and a report."""

import argparse
import contextlib
import sys
from pathlib import Path
from typing import Any

import numpy as np

import retrograd as rg
from retrograd.core.devices import Device
from retrograd.models import generate

from . import housing, plots
from .arguments import output_folder
from .checkpoints import require_safetensors
from .console import Progress, Table, UserError, print_table
from .info import environment
from .loop import Interrupted, Loop, Row
from .metrics import MetricsWriter, TensorBoardWriter
from .recipes import RECIPES
from .report import write_report
from .settings import Settings, add_options, collect
from .tasks import END, encode, make_task
from .trainers import EngineTrainer, ManualTrainer, Trainer

TASKS = {
    "mnist": "handwritten digits, by a convolutional network or an MLP",
    "fashion": "articles of clothing, by the same networks",
    "shakespeare": "text like Shakespeare's, by a character transformer",
    "names": "first names, by an LSTM or a transformer",
    "housing": "California house prices, by linear regression or an MLP",
}

SAMPLES = 10  # of a model of names
SAMPLE_LENGTH = 400  # characters of a model of text


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser("train", help="train a model on real data")
    tasks = parser.add_subparsers(title="tasks", metavar="TASK", dest="task", required=True)
    for task, text in TASKS.items():
        recipes = "; ".join(
            f"{model}: {r.epochs} epochs, batches of {r.batch_size}, {r.optimizer} at {r.lr:g}"
            for model, r in RECIPES[task].items()
        )
        one = tasks.add_parser(task, help=text, description=f"Train on {text}. Unless told otherwise, {recipes}.")
        add_options(one, task)
        one.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    settings = collect(options.task, options)
    set_threads(settings.threads)
    if settings.model == "linear":
        return housing.run(settings)
    folder = output_folder(settings.out)
    require_safetensors()
    check_device(settings.device)
    loop = make_loop(settings)
    parameters = sum(p.numel() for p in loop.task.model.parameters())
    print(f"{settings.task}: {settings.model} of {parameters:,} parameters, {loop.total} steps", flush=True)
    try:
        train(loop, settings)
    except Interrupted as stop:
        print(f"interrupted after step {stop.step} of {loop.total}; go on with:", file=sys.stderr)
        print(f"  retrograd train {settings.task} --resume {stop.path}", file=sys.stderr)
        return 130
    finish(loop, folder)
    return 0


def make_loop(settings: Settings) -> Loop:
    """The loop that the settings ask for, at its first step or where the checkpoint left it."""
    task = make_task(settings.task, settings.model, settings.batch_size, settings.seed)
    if len(task.train) == 0:
        raise UserError(f"--batch-size {settings.batch_size} is more than there are examples to train on")
    trainer: Trainer
    if settings.values.get("engine") == "manual":
        trainer = ManualTrainer(task, settings.recipe)
    else:
        trainer = EngineTrainer(task, settings.recipe, settings.device)
    total = settings.steps or settings.epochs * len(task.train)
    loop = Loop(task, trainer, settings.recipe, total, settings.out, settings.plain())
    if settings.checkpoint is not None:
        loop.load(settings.checkpoint)
        if loop.step >= total:
            raise UserError(f"the run has made {loop.step} of {total} steps; ask for more with --epochs or --steps")
    return loop


def train(loop: Loop, settings: Settings) -> None:
    """Run the loop; show how it goes and write its figures."""
    part = loop.task.test.name
    score = "r2" if loop.task.regression else "accuracy"
    columns = ["epoch", "step", "seconds", "train_loss", *([] if loop.task.regression else ["train_accuracy"])]
    columns += [f"{part}_loss", f"{part}_{score}", "examples_per_second"]
    latest: Row = {}

    with contextlib.ExitStack() as stack:
        metrics = stack.enter_context(MetricsWriter(loop.folder, columns))
        for row in loop.history:
            metrics.write(row)
        board = stack.enter_context(TensorBoardWriter(loop.folder)) if settings.tensorboard else None
        progress = stack.enter_context(Progress("step", loop.total, done=loop.step))

        def on_step(loop: Loop, loss: float) -> None:
            figures = loop.sums.figures(loop.task.regression)
            speed = figures.pop("examples_per_second")
            progress.update(loop.step, {**figures, **latest, "examples/s": speed})
            if board is not None:
                board.write(loop.step, {"train/step_loss": loss})

        def on_evaluation(loop: Loop, row: Row) -> None:
            metrics.write(row)
            latest.update({f"{part} {name}": row[f"{part}_{name}"] for name in ("loss", score)})
            if board is not None:
                board.write(loop.step, {name.replace("_", "/", 1): row[name] for name in columns[3:]})

        loop.run(on_step, on_evaluation)


def finish(loop: Loop, folder: Path) -> None:
    """Print the results; write weights, plots and report."""
    results = results_table(loop)
    print_table(results)
    tables = [results]
    if loop.task.vocabulary:
        tables.append(samples(loop))
        print_table(tables[-1])
    weights = loop.trainer.state_dict()["model"]
    rg.save({name: rg.as_tensor(value) for name, value in weights.items()}, folder / "weights.safetensors")
    figures = draw(loop, folder) if plots.available() else {}
    if not figures:
        print(plots.INSTALL)
    write_report(
        folder / "report.html",
        f"{loop.config['task']}: {loop.config['model']}",
        results=tables,
        figures=figures,
        config=loop.config,
        environment=environment(),
    )
    print(f"report: {folder / 'report.html'}")


def results_table(loop: Loop) -> Table:
    names = [name for name in loop.history[-1] if name != "examples_per_second"]
    rows = [[f"{row[name]:.6g}" for name in names] for row in loop.history]
    return Table("Results", [name.replace("_", " ") for name in names], rows)


def samples(loop: Loop) -> Table:
    """Text that the model makes up: names, or some lines."""
    random = np.random.default_rng(loop.config["seed"])
    vocabulary = loop.task.vocabulary
    names = loop.config["task"] == "names"
    codes: list[int] = []
    for _ in range(SAMPLES if names else 1):
        codes += generate(
            loop.task.model,
            list(encode(END, vocabulary)),
            SAMPLE_LENGTH,
            temperature=0.8,
            stop=vocabulary.index(END) if names else None,
            random=random,
        )
    text = "".join(vocabulary[code] for code in codes)
    return Table("Samples", ["text"], [[line] for line in text.split("\n") if line])


def draw(loop: Loop, folder: Path) -> dict[str, Path]:
    """Draw the curves over epochs; returns the files by caption."""
    part = loop.task.test.name
    path = folder / "loss.png"
    plots.loss_curves(path, {name: [row[f"{name}_loss"] for row in loop.history] for name in ("train", part)})
    figures = {"Loss, after each epoch: mean over its training batches, and on the rest of the data": path}
    if not loop.task.regression:
        path = folder / "error.png"
        errors = {name: [max(1 - row[f"{name}_accuracy"], 1e-6) for row in loop.history] for name in ("train", part)}
        plots.loss_curves(path, errors, ylabel="share of wrong answers", title="Error")
        figures["Share of wrong answers, after each epoch"] = path
    return figures


def check_device(device: str) -> None:
    try:
        rg.zeros(1, device=Device(device))
    except (RuntimeError, ValueError, ImportError, TypeError) as error:
        raise UserError(f"--device {device}: {error}") from None


def set_threads(threads: int | None) -> None:
    """Let the BLAS use this many threads from now on."""
    if threads is None:
        return
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        raise UserError(
            "--threads needs threadpoolctl: pip install threadpoolctl, or set OMP_NUM_THREADS instead"
        ) from None
    threadpool_limits(threads)
