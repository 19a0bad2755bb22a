"""`retrograd compare RUN RUN ...`: the figures of several runs in one table and one picture."""

import argparse
import json
from pathlib import Path

from retrograd.training import plots

from ...arguments import path
from ...console import Table, UserError, figure_text, print_table
from ...parser import Subparsers
from ...training.checkpoints import SavedRun, read_run

METRICS = "metrics.jsonl"
NOT_COMPARED = ("task", "model", "out", "threads", "device")
Row = dict[str, float]


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "compare",
        help="compare training runs in a table and a picture",
        description="Print the final figures of several runs and the settings in which they differ, and draw their "
        "held-out losses.",
        examples="  retrograd compare runs/my runs/linear\n  retrograd compare runs/my runs/linear --out both.png\n",
    )
    parser.add_argument("runs", nargs="+", type=path, metavar="RUN", help="folders of runs, at least two")
    parser.add_argument("--out", type=path, metavar="OUT.png", default=Path("compare.png"), help="default: compare.png")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    if len(options.runs) < 2:
        raise UserError(f"pass at least two runs, got only {options.runs[0]}")
    if options.out.suffix != ".png":
        raise UserError(f"--out must end in .png, got {options.out}")
    runs = [read_run(folder) for folder in options.runs]
    names = names_of(options.runs)
    histories = [history(saved.path.parent) for saved in runs]
    print_table(figures(names, runs, histories))
    differing = settings(names, runs)
    if differing.rows:
        print_table(differing)
    if not plots.available():
        print(plots.INSTALL)
        return 0
    curves = {
        name: ([row["step"] for row in rows], [row[loss] for row in rows])
        for name, rows in zip(names, histories)
        for loss in rows[-1]
        if loss.endswith("_loss") and loss != "train_loss"
    }
    figure = plots.learning_curves(curves, xlabel="step", ylabel="held-out loss", title="Held-out loss")
    options.out.write_bytes(plots.render(figure))
    print(f"picture: {options.out}")
    return 0


def names_of(folders: list[Path]) -> list[str]:
    """Return a short, distinct name for each run."""
    short = [folder.name if folder.suffix != ".safetensors" else folder.parent.name for folder in folders]
    return short if len(set(short)) == len(short) else [str(folder) for folder in folders]


def history(folder: Path) -> list[Row]:
    """Return a run's evaluations; raise UserError if it has none."""
    rows = []
    for number, line in enumerate((folder / METRICS).read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            raise UserError(f"{folder / METRICS}, line {number}: expected a JSON object, got {line[:40]!r}") from None
        if isinstance(row, dict) and "train_loss" in row and "step" in row:
            rows.append(row)
    if not rows:
        raise UserError(f"{folder / METRICS} has no evaluation yet")
    return rows


def figures(names: list[str], runs: list[SavedRun], histories: list[list[Row]]) -> Table:
    """Return a table with a row per run: its last figures."""
    last = [rows[-1] for rows in histories]
    shared = [name for name in last[0] if all(name in row for row in last) and name != "examples_per_second"]
    rows = [
        [name, f"{saved.config['task']}: {saved.config['model']}", *(figure_text(key, row[key]) for key in shared)]
        for name, saved, row in zip(names, runs, last)
    ]
    return Table("Figures at the end", ["run", "model", *(key.replace("_", " ") for key in shared)], rows)


def settings(names: list[str], runs: list[SavedRun]) -> Table:
    """Return a table of the settings that are not the same in all runs."""
    keys = [key for key in dict.fromkeys(key for saved in runs for key in saved.config) if key not in NOT_COMPARED]
    rows = [[key, *(str(saved.config.get(key, "")) for saved in runs)] for key in keys]
    return Table("Settings that differ", ["setting", *names], [row for row in rows if len(set(row[1:])) > 1])
