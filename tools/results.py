"""Write the figures of docs/results.md from finished runs of `retrograd train`.

python -m tools.results FOLDER [--run]     FOLDER has a run of each name in RUNS; --run trains those that are missing
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.__main__ import machine
from benchmarks.page import describe
from retrograd.cli.training.checkpoints import FILE, read_run

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results.md"
BEGIN, END = "<!-- figures, written by python -m tools.results -->\n", "<!-- end of the figures -->\n"


@dataclass(frozen=True)
class Figure:
    """A run, the figure that the page gives, and what to compare it with."""

    title: str
    arguments: str
    figure: str
    text: str
    wanted: str
    picture: str = ""


SCORE, ACCURACY, R2 = "test_accuracy", "{:.2%} test accuracy", "test R2 {:.3f}"
RUNS = {
    "mnist": Figure("MNIST, CNN", "mnist", SCORE, ACCURACY, "99.2 %", "error"),
    "mnist-mlp": Figure("MNIST, MLP of 784-1024-1024-1024-10", "mnist --model mlp", SCORE, ACCURACY, "98.3 %", "error"),
    "mnist-manual": Figure("the same by hand-written layers", "mnist --engine manual", SCORE, ACCURACY, "98.3 %"),
    "shakespeare": Figure(
        "tiny Shakespeare", "shakespeare", "validation_loss", "validation loss {:.3f}", "1.88", "loss"
    ),
    "housing": Figure("California housing, linear", "housing", "test_r2", R2, "0.585 by least squares"),
    "housing-mlp": Figure("California housing, MLP", "housing --model mlp", "test_r2", R2, "0.78", "loss"),
}


def train(folder: Path) -> None:
    """Make the runs that are missing."""
    for name, run in RUNS.items():
        if not (folder / name / "report.html").exists():
            command = [sys.executable, "-m", "retrograd", "train", *run.arguments.split(), "--out", str(folder / name)]
            subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")})


def table(folder: Path) -> str:
    """Return the figures in Markdown, with the days of the runs and the kind of the machine."""
    lines = ["| run | command | parameters | steps | reached | wanted |", "|---|---|---:|---:|---|---|"]
    days = set()
    for name, run in RUNS.items():
        saved = read_run(folder / name)
        days.add(time.strftime("%Y-%m-%d", time.localtime((folder / name / FILE).stat().st_mtime)))
        text = (folder / name / "metrics.jsonl").read_text(encoding="utf-8")
        last = [row for row in map(json.loads, text.splitlines()) if "train_loss" in row][-1]
        size = re.search(r"<td>parameters</td><td[^>]*>([\d,]+)<", (folder / name / "report.html").read_text("utf-8"))
        cells = [run.title, f"`retrograd train {run.arguments}`", size[1] if size else "", f"{saved.step:,}"]
        lines.append(f"| {' | '.join([*cells, run.text.format(last[run.figure]), run.wanted])} |")
    about = {**machine(), "date": " and ".join(sorted(days))}
    about["versions"] = {name: about["versions"][name] for name in ("python", "numpy")}
    return "\n".join([*lines, "", f"Measured {describe(about)}.", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--run", action="store_true", help="train what is missing")
    options = parser.parse_args()
    if options.run:
        train(options.folder)
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(before + BEGIN + table(options.folder) + END + after, encoding="utf-8")
    for name, run in RUNS.items():
        if run.picture:
            picture = PAGE.parent / "images" / f"{name.replace('-', '_')}_{run.picture}.png"
            shutil.copy(options.folder / name / f"{run.picture}.png", picture)


if __name__ == "__main__":
    main()
