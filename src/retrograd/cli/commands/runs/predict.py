"""`retrograd predict RUN FILE.csv`: the predictions of a model that 'retrograd train --data' trained."""

import argparse
import csv
from pathlib import Path

import numpy as np

import retrograd as rg

from ...arguments import path
from ...console import Table, UserError, figure_text, plural, print_table
from ...parser import Subparsers
from ...tasks.csv_files import CsvFile, is_missing, read_csv
from ...tasks.encoding import Encoding
from ...tasks.tables import quantity, table_model
from ...training.checkpoints import SavedRun, load_weights, read_run

SHOWN = 5  # number of rows that are printed on a terminal
EXAMPLES = """\
  retrograd predict runs/my my.csv
  retrograd predict runs/my my.csv --out answers.csv
"""


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "predict",
        help="write a trained model's predictions for a CSV file",
        description="Apply a model trained by 'retrograd train --data' to the rows of a CSV file with the same "
        "columns; write the file with a column for the prediction and, for classes, its probability. If the file has "
        "the target column, the error is printed, too.",
        examples=EXAMPLES,
    )
    parser.add_argument("run_folder", type=path, metavar="RUN", help="the folder of the run, or its checkpoint")
    parser.add_argument("data", type=path, metavar="FILE.csv", help="the rows to predict")
    parser.add_argument("--out", type=path, metavar="OUT.csv", help="default: the file's name with .predicted.csv")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    saved = read_run(options.run_folder)
    encoding = encoding_of(saved)
    model = table_model(encoding, saved.config["model"])
    load_weights(model, saved)
    table = read_csv(options.data)
    out = options.out or options.data.with_name(f"{options.data.stem}.predicted.csv")
    model.eval()
    with rg.no_grad():
        output = model(rg.from_numpy(encoding.encode(table))).numpy()
    columns = predicted(encoding, output)
    write(out, table, columns)
    shown = [[*(values[row] for values in columns.values())] for row in range(min(SHOWN, len(table)))]
    print_table(Table(f"The first of {plural(len(table), 'row')}", list(columns), shown))
    score = scored(encoding, table, output)
    if score:
        print(score)
    print(f"predictions: {out}")
    return 0


def encoding_of(saved: SavedRun) -> Encoding:
    """Return the encoding of a run's table; raise UserError for a run of another task."""
    if saved.config["task"] != "table":
        raise UserError(f"{saved.path} is from 'retrograd train {saved.config['task']}', not from 'train --data'")
    try:
        return Encoding.from_plain(saved.columns)
    except (LookupError, TypeError, ValueError) as error:
        raise UserError(f"{saved.path}: the columns of the table cannot be read: {error}") from None


def predicted(encoding: Encoding, output: np.ndarray) -> dict[str, list[str]]:
    """Return the columns to write: the prediction, and the probability of a class."""
    target = encoding.target
    if not target.classes:
        return {f"predicted {target.name}": [f"{target.mean + target.deviation * float(y):.6g}" for y in output[:, 0]]}
    shares = rg.from_numpy(output).softmax(-1).numpy()
    return {
        f"predicted {target.name}": [target.classes[place] for place in shares.argmax(axis=1)],
        "probability": [f"{share:.4f}" for share in shares.max(axis=1)],
    }


def write(out: Path, table: CsvFile, columns: dict[str, list[str]]) -> None:
    """Write the table with further columns."""
    with out.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*table.columns, *columns])
        writer.writerows(zip(*table.columns.values(), *columns.values(), strict=True))


def scored(encoding: Encoding, table: CsvFile, output: np.ndarray) -> str:
    """Return the error on the rows, if they have the target."""
    name = encoding.target.name
    if name not in table.columns or any(map(is_missing, table.column(name))):
        return ""
    targets = encoding.encode_target(table)
    if encoding.target.classes:
        return f"accuracy: {figure_text('accuracy', (output.argmax(axis=1) == targets).mean())}"
    error = encoding.target.deviation * np.abs(output - targets).mean()
    return f"mean error: {quantity(error)}, in the unit of {name}"
