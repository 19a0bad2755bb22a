"""`retrograd train TASK`: train a model on real data, and write metrics, weights, plots and a report."""

import argparse
import contextlib
import logging
import shlex
import sys
from collections.abc import Iterator

import retrograd as rg
from retrograd.training import DivergenceError, Loop, plots

from ...arguments import make_output_folder
from ...console import ProgressLine, Table, UserError, figure_text, plural, print_table
from ...parser import Subparsers
from ...tasks import TASKS
from ...training import processes
from ...training.checkpoints import FILE, require_safetensors
from ...training.metrics import MetricsWriter, TensorBoardWriter
from ...training.recipes import RECIPES
from ...training.report import Plot, Section, Text, write_report
from ...training.runs import Run, explained, make_run
from ...training.settings import Settings, add_options, collect
from ...training.trainers import EngineTrainer
from ..info import environment

REPORT = "report.html"
WATCHED = "watch.html"
EXAMINED = "doctor.json"


EXAMPLES = """\
  retrograd train --data my.csv --target price     regression or classification, by the column
  retrograd train --text book.txt                  a character model of any text
  retrograd train mnist --epochs 2 --out runs/mnist
  retrograd train housing --resume runs/housing    go on with a stopped run
"""
TASK_EXAMPLES = {
    "mnist": "  retrograd train mnist\n  retrograd train mnist --model mlp --engine manual\n",
    "fashion": "  retrograd train fashion --epochs 1\n",
    "shakespeare": "  retrograd train shakespeare --steps 500\n",
    "names": "  retrograd train names --model transformer\n",
    "housing": "  retrograd train housing\n  retrograd train housing --model mlp --epochs 10 --out runs/mlp\n",
    "table": "  retrograd train --data my.csv --target price\n"
    "  retrograd train --data my.csv --target city --model linear --out runs/linear\n",
    "text": "  retrograd train --text book.txt\n  retrograd train --text book.txt --steps 500 --seed 1\n",
}


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "train",
        help="train a model on real data",
        description="Train a model on your data or on a task, and write a report of the run. 'train --data FILE.csv' "
        "means 'train table --data FILE.csv', 'train --text FILE' means 'train text --text FILE'. "
        "'retrograd train TASK --help' lists the settings of a task.",
        examples=EXAMPLES,
    )
    parser.implied = {"--data": "table", "--target": "table", "--text": "text"}
    tasks = parser.add_subparsers(title="tasks", metavar="TASK", dest="task", required=True)
    for task, text in TASKS.items():
        recipes = "; ".join(
            f"{model}: {r.epochs} epochs, batches of {r.batch_size}, {r.optimizer} at {r.lr:g}"
            for model, r in RECIPES[task].items()
        )
        one = tasks.add_parser(
            task,
            help=text,
            description=f"Train on {text}. Defaults: {recipes}.",
            examples=TASK_EXAMPLES[task],
        )
        add_options(one, task)
        one.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    require_safetensors()
    with processes.joined():
        return run_with(collect(options.task, options))


def run_with(settings: Settings) -> int:
    """Train, in one or several processes."""
    set_threads(settings.threads)
    if processes.leading():
        make_output_folder(settings.out)
        if settings.checkpoint is None and (settings.out / FILE).exists():
            print(f"{settings.out} has an earlier run, which is replaced; --out FOLDER keeps both")
    started: Run | None = None
    try:
        started = make_run(settings)
        train(started, settings)
        if processes.leading():
            with without_advice():
                finish(started, settings)
    except DivergenceError as error:
        raise UserError(
            f"the {error.name} is {error.value} at step {error.step}; try a smaller --lr than {settings.lr:g}"
        ) from None
    except KeyboardInterrupt:
        if processes.leading():
            print(how_to_resume(None if started is None else started.loop, settings), file=sys.stderr)
        return 130
    return 0


def how_to_resume(loop: Loop | None, settings: Settings) -> str:
    if loop is None or loop.saved is None:
        return "interrupted before the first checkpoint; the run cannot be resumed"
    resumed = settings.checkpoint
    path = resumed.path if resumed is not None and resumed.step == loop.saved else settings.out / FILE
    return (
        f"interrupted; the checkpoint has step {loop.saved} of {loop.steps}; "
        f"resume with: retrograd train {settings.task} --resume {shlex.quote(str(path))}"
    )


def train(run: Run, settings: Settings) -> None:
    """Run the loop; show progress and write figures."""
    loop, report = run.loop, settings.out / REPORT
    if not processes.leading():
        if loop.completed < loop.steps:
            loop.run()
        return
    if loop.completed >= loop.steps:
        if report.exists():
            raise UserError(
                f"the run has completed {loop.completed} of {plural(loop.steps, 'step')}; "
                "pass a larger --epochs or --steps"
            )
        return  # the run stopped between its last step and its report
    report.unlink(missing_ok=True)  # the report of an earlier run in the same folder
    parameters = sum(p.numel() for p in run.task.model.parameters())
    by = f" by {processes.count()} processes" if processes.count() > 1 else ""
    size, length = plural(parameters, "parameter"), plural(loop.steps, "step")
    print(f"{settings.task}: {settings.model} of {size}, {length}{by}", flush=True)
    part, score = run.task.test.name, run.task.score

    with contextlib.ExitStack() as stack:
        metrics = stack.enter_context(MetricsWriter(settings.out))
        board = stack.enter_context(TensorBoardWriter(settings.out)) if settings.tensorboard else None
        if settings.watch:
            stack.enter_context(watching(run, settings))
        if settings.doctor:
            stack.enter_context(examining(run, settings))
        rows = {row["step"]: row for row in loop.history}
        for number, loss in enumerate(loop.losses, start=1):
            metrics.step(number, loss)
            if number in rows:
                metrics.row(rows[number])
        progress = stack.enter_context(ProgressLine("step", loop.steps, done=loop.completed))
        latest: dict[str, float] = {}

        def on_step(loop: Loop) -> None:
            metrics.step(loop.completed, loop.losses[-1])
            if board is not None:
                board.write(loop.completed, {"train/step_loss": loop.losses[-1]})
            if loop.evaluated:
                row = loop.history[-1]
                metrics.row(row)
                latest.update({f"{part} {name}": row[f"{part}_{name}"] for name in ("loss", score)})
                if board is not None:
                    figures = [name for name in row if name not in ("epoch", "step", "seconds")]
                    board.write(loop.completed, {name.replace("_", "/", 1): row[name] for name in figures})
            recent = loop.recent()
            speed = recent.pop("examples_per_second")
            progress.update(loop.completed, {**recent, **latest, "examples/s": speed})

        loop.run(on_step)
    if isinstance(run.trainer, EngineTrainer) and run.trainer.compiled is not None:
        print(run.trainer.compiled.summary())


@contextlib.contextmanager
def watching(run: Run, settings: Settings) -> Iterator[None]:
    """Watch the run; when it ends or fails, print the alarms and write the page."""
    trainer = run.trainer
    assert isinstance(trainer, EngineTrainer)  # the settings allow --watch only with this trainer
    from retrograd.inspect import watch

    w = watch(trainer.model, trainer.optimizer, live=False)
    try:
        with w:
            yield
    finally:
        if w.records:
            w.save(settings.out / WATCHED)
            for alarm in w.alarms:
                print(f"alarm at step {run.loop.completed - w.steps + alarm.step}: {alarm}")
            print(f"watched: {plural(len(w.alarms), 'alarm') if w.alarms else 'no alarms'}; {settings.out / WATCHED}")


@contextlib.contextmanager
def examining(run: Run, settings: Settings) -> Iterator[None]:
    """Watch the run as a doctor; when it ends or fails, print the report and write the findings."""
    trainer = run.trainer
    assert isinstance(trainer, EngineTrainer)  # the settings allow --doctor only with this trainer
    from retrograd.inspect import doctor

    d = doctor(trainer.model, trainer.optimizer)
    try:
        with d:
            yield
    finally:
        (settings.out / EXAMINED).write_text(d.to_json() + "\n", encoding="utf-8")
        print(f"{d.report()}\n{settings.out / EXAMINED}")


def finish(run: Run, settings: Settings) -> None:
    """Print the results; write weights, plots and report."""
    folder = settings.out
    sections: list[Section] = [results(run.loop)]
    if plots.available():
        sections += curves(run)
    else:
        print(plots.INSTALL)
    sections += run.task.sections(run.trainer.predict, settings.seed)
    sections.append(Text("How to read this", explained(run)))
    for section in sections:
        match section:
            case Table():
                print_table(section)
            case Text():
                print(f"{section.title}\n{section.text}")
            case Plot():
                (folder / f"{section.name}.png").write_bytes(section.images[0])
    weights = run.trainer.parts()["model"].state_dict()
    rg.save({name: tensor.cpu() for name, tensor in weights.items()}, folder / "weights.safetensors")
    pages = [facts(run, settings), *sections, configuration(settings), *environment()]
    write_report(folder / REPORT, f"{settings.task}: {settings.model}", pages)
    print(f"report: {folder / REPORT}")


@contextlib.contextmanager
def without_advice() -> Iterator[None]:
    """Suppress Matplotlib's advice about its cache folder."""
    logger = logging.getLogger("matplotlib")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def facts(run: Run, settings: Settings) -> Table:
    """Return a table of the model, its size, and the size of the data."""
    rows = [
        ("task", TASKS[settings.task]),
        ("model", f"{type(run.task.model).__name__} ({settings.model})"),
        ("parameters", f"{sum(p.numel() for p in run.task.model.parameters()):,}"),
        ("training examples", f"{len(run.task.train.dataset):,}"),
        (f"{run.task.test.name} examples", f"{len(run.task.test.targets):,}"),
        ("steps", f"{run.loop.completed:,}"),
    ]
    return Table("Run", ["what", "value"], rows)


def results(loop: Loop) -> Table:
    """Return a table with a row per evaluation, at most ten."""
    names = [name for name in loop.history[-1] if name != "examples_per_second"]
    shown = loop.history if len(loop.history) <= 20 else loop.history[:: -(len(loop.history) // 10)][::-1]
    rows = [[figure_text(name, row[name]) for name in names] for row in shown]
    return Table("Results", [name.replace("_", " ") for name in names], rows)


def configuration(settings: Settings) -> Table:
    rows = [(name, str(value)) for name, value in settings.plain().items() if value is not None]
    return Table("Configuration", ["setting", "value"], rows)


def curves(run: Run) -> list[Plot]:
    """Return plots of the loss and the error rate over epochs, or over steps if no epoch is complete."""
    loop, part = run.loop, run.task.test.name
    length = len(run.task.train) if loop.completed >= len(run.task.train) else 1
    unit = "step" if length == 1 else "epoch"
    across = [row["step"] / length for row in loop.history]
    losses = {name: (across, [row[f"{name}_loss"] for row in loop.history]) for name in ("train", part)}
    steps = [(number + 1) / length for number in range(loop.completed)], loop.losses
    figure = plots.learning_curves(losses, steps=steps, references=run.task.references(), xlabel=unit)
    drawings = [Plot("loss", "Loss of each step, mean per epoch, and on the held-out data", figure)]
    if run.task.score == "accuracy":
        errors = {name: (across, [1 - row[f"{name}_accuracy"] for row in loop.history]) for name in ("train", part)}
        figure = plots.learning_curves(errors, xlabel=unit, ylabel="error rate", title="Error")
        drawings.append(Plot("error", "Error rate", figure))
    return drawings


def set_threads(threads: int | None) -> None:
    """Set the number of BLAS threads; several processes on one machine share the cores."""
    asked, threads = threads, threads or processes.threads_of_each()
    if threads is None:
        return
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        if asked is None:
            return
        raise UserError(
            "--threads needs threadpoolctl: pip install threadpoolctl, or set OMP_NUM_THREADS instead"
        ) from None
    threadpool_limits(threads)
