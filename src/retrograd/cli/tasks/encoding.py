"""Encode the columns of a table as numbers for a network, with what the training rows determine."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

from ..console import UserError
from .csv_files import CsvFile, is_missing

MAX_CATEGORIES = 32  # maximum number of distinct values of a text column; a column with more values is not an input
MOST_CLASSES = 100
MOST_NUMBERED_CLASSES = 10  # maximum number of distinct integers in a target column for which the integers are classes
Array = np.ndarray
Kind = Literal["regression", "classification"]


@dataclass(frozen=True)
class Number:
    """A column of numbers, standardized; missing cells take the mean, and may have an indicator."""

    name: str
    mean: float
    deviation: float
    indicator: bool

    @property
    def inputs(self) -> list[str]:
        return [self.name, f"{self.name} is missing"] if self.indicator else [self.name]

    def encode(self, table: CsvFile) -> Array:
        values = table.numbers(self.name)
        if values is None:
            wrong = next(cell for cell in table.column(self.name) if not _is_numeric(cell))
            raise UserError(f"{table.path}: column {self.name!r} had numbers in training, got {wrong!r}")
        missing = np.isnan(values)
        scaled = np.where(missing, 0.0, (values - self.mean) / self.deviation)
        return np.column_stack([scaled, missing])[:, : len(self.inputs)]


@dataclass(frozen=True)
class Category:
    """A column of text: one input for each value. A value that was not in the training rows has no input."""

    name: str
    values: list[str]

    @property
    def inputs(self) -> list[str]:
        return [f"{self.name}={value}" for value in self.values]

    def encode(self, table: CsvFile) -> Array:
        cells = np.array(table.column(self.name))
        return (cells[:, None] == np.array(self.values)[None]).astype(np.float64)


@dataclass(frozen=True)
class Target:
    """The column to predict: the classes, or the mean and standard deviation of a quantity."""

    name: str
    classes: list[str] = field(default_factory=list)
    mean: float = 0.0
    deviation: float = 1.0

    @property
    def kind(self) -> Kind:
        return "classification" if self.classes else "regression"


@dataclass(frozen=True)
class Encoding:
    """The encoding of a table, as plain data in a checkpoint."""

    columns: list[Number | Category]
    target: Target
    left_out: dict[str, str] = field(default_factory=dict)  # columns that are not inputs, and the reasons

    @property
    def inputs(self) -> list[str]:
        """The names of the network's inputs."""
        return [name for column in self.columns for name in column.inputs]

    @property
    def outputs(self) -> int:
        return len(self.target.classes) or 1

    def encode(self, table: CsvFile) -> Array:
        """Return the inputs as float32, (rows, inputs)."""
        return np.hstack([column.encode(table) for column in self.columns]).astype(np.float32)

    def encode_target(self, table: CsvFile) -> Array:
        """Return class numbers, or standardized quantities (rows, 1); raise UserError for an invalid cell."""
        cells = table.column(self.target.name)
        if self.target.classes:
            places = {name: place for place, name in enumerate(self.target.classes)}
            unknown = sorted({cell for cell in cells if cell not in places})
            if unknown:
                raise UserError(f"{table.path}: {self.target.name!r} has the unknown class {unknown[0]!r}")
            return np.array([places[cell] for cell in cells], np.int64)
        values = table.numbers(self.target.name)
        if values is None or np.isnan(values).any():
            wrong = next(cell for cell in cells if is_missing(cell) or not _is_numeric(cell))
            raise UserError(f"{table.path}: {self.target.name!r} must be a number in every row, got {wrong!r}")
        return ((values - self.target.mean) / self.target.deviation).astype(np.float32)[:, None]

    def plain(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_plain(cls, saved: Mapping[str, Any]) -> "Encoding":
        """Return the encoding in a checkpoint; raise ValueError, TypeError or LookupError if it is invalid."""
        columns: list[Number | Category] = []
        for one in saved["columns"]:
            match one:
                case {"name": str(name), "values": list(values)} if values and all(isinstance(v, str) for v in values):
                    columns.append(Category(name, values))
                case {"name": str(name), "mean": float(mean), "deviation": float(deviation), "indicator": bool(shown)}:
                    columns.append(Number(name, mean, deviation, shown))
                case _:
                    raise ValueError(f"unknown column {one!r}")
        match saved["target"]:
            case {"name": str(name), "classes": list(classes), "mean": float(mean), "deviation": float(deviation)}:
                return cls(columns, Target(name, list(map(str, classes)), mean, deviation))
        raise ValueError(f"unknown target {saved['target']!r}")


def fit(table: CsvFile, target: str, kind: Kind | None, train: Array) -> Encoding:
    """Fit an encoding to the rows `train` of a table, and return it.

    Raises UserError if no column is left to learn from.
    """
    columns: list[Number | Category] = []
    left_out: dict[str, str] = {}
    for name in table.columns:
        if name == target:
            continue
        found = _column(table, name, train)
        if isinstance(found, str):
            left_out[name] = found
        else:
            columns.append(found)
    if not columns:
        reasons = "; ".join(f"{name!r} {why}" for name, why in left_out.items()) or "there is no other column"
        raise UserError(f"{table.path} has no column to predict {target!r} from: {reasons}")
    return Encoding(columns, fit_target(table, target, kind, train), left_out)


def fit_target(table: CsvFile, name: str, kind: Kind | None, train: Array) -> Target:
    """Return the target: text and few whole numbers are classes, other numbers are quantities."""
    cells = table.column(name)
    values = table.numbers(name)
    if kind is None:
        kind = kind_of(cells, values)
    if kind == "regression":
        if values is None:
            wrong = next(cell for cell in cells if not _is_numeric(cell))
            raise UserError(f"{table.path}: a regression needs numbers in {name!r}, got {wrong!r}")
        mean, deviation = float(values[train].mean()), float(values[train].std())
        if deviation == 0:
            raise UserError(f"{table.path}: {name!r} has one value, {mean:g}, in all training rows: nothing to learn")
        return Target(name, [], mean, deviation)
    classes = sorted(set(cells), key=_in_order)
    if len(classes) < 2:
        raise UserError(f"{table.path}: {name!r} has one value, {classes[0]!r}, in all rows: nothing to learn")
    if len(classes) > min(MOST_CLASSES, len(cells) // 2):
        raise UserError(
            f"{table.path}: {name!r} has {len(classes):,} distinct values in {len(cells):,} rows, which are too many "
            f"for classes; choose another --target{', or pass --kind regression' if values is not None else ''}"
        )
    return Target(name, classes)


def kind_of(cells: Sequence[str], values: Array | None) -> Kind:
    """Return whether a target column is for classification or regression."""
    if values is None:
        return "classification"
    distinct = np.unique(values)
    whole = bool((distinct == np.round(distinct)).all())
    return "classification" if whole and len(distinct) <= MOST_NUMBERED_CLASSES else "regression"


def _column(table: CsvFile, name: str, train: Array) -> Number | Category | str:
    """Return the encoding of a column, or why it has none."""
    values = table.numbers(name)
    if values is not None:
        known = values[train][~np.isnan(values[train])]
        if not len(known):
            return "is empty"
        if known.min() == known.max() and len(known) == len(train):
            return f"is {known[0]:g} in all training rows"
        deviation = float(known.std())
        return Number(name, float(known.mean()), deviation or 1.0, len(known) < len(train))
    cells = table.column(name)
    counts = Counter(cells[row] for row in train)
    if len(counts) == 1:
        return f"is {cells[train[0]]!r} in all training rows"
    if len(counts) > MAX_CATEGORIES:
        return f"has {len(counts):,} distinct texts, more than {MAX_CATEGORIES}"
    return Category(name, sorted(counts))


def _is_numeric(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return is_missing(cell)
    return True


def _in_order(cell: str) -> tuple[float, str]:
    """Return a sort key that orders class names that are numbers by their value."""
    try:
        return float(cell), cell
    except ValueError:
        return np.inf, cell
