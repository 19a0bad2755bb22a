"""Read CSV files: the delimiter is found, and every problem names the file, the line and the column."""

import csv
import io
import math
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..console import UserError, is_number
from ..parser import suggestion

DELIMITERS = (",", ";", "\t", "|")
_DECIMAL_COMMA = re.compile(r"^([+-]?\d+),(\d+)$")
MISSING = frozenset(("", "na", "n/a", "nan", "null", "none", "?"))  # texts of missing cells, in lower case


@dataclass(frozen=True)
class CsvFile:
    """A table of text: the column names, and the cells by column."""

    path: Path
    columns: dict[str, list[str]]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def column(self, name: str) -> list[str]:
        """Return the cells of a column; raise UserError if there is no such column."""
        if name not in self.columns:
            near = suggestion(name, self.columns) or f"; the columns are {', '.join(self.columns)}"
            raise UserError(f"{self.path} has no column {name!r}{near}")
        return self.columns[name]

    def numbers(self, name: str) -> np.ndarray | None:
        """Return a column as float64 with NaN for missing cells, or None if a cell is not a number."""
        values = np.full(len(self), math.nan)
        for row, cell in enumerate(self.column(name)):
            if is_missing(cell):
                continue
            try:
                values[row] = float(cell)
            except ValueError:
                return None
            if math.isinf(values[row]):
                raise UserError(f"{self.path}: column {name!r}, row {row + 1}: {cell!r} is not a finite number")
        return values


def is_missing(cell: str) -> bool:
    """Return whether a cell marks its value as missing.

    >>> from retrograd.cli.tasks.csv_files import is_missing
    >>> [is_missing(cell) for cell in ("", "NA", "0", "nan")]
    [True, True, False, True]
    """
    return cell.lower() in MISSING


def read_text(path: Path) -> str:
    """Return a text file in UTF-8 with its line ends as newlines; raise UserError if the file is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} is not a text file in UTF-8: byte {error.start} is {error.object[error.start]:#04x}"
        ) from None
    except ValueError as error:  # the name contains a NUL
        raise UserError(f"{str(path)!r} is not a file name: {error}") from None


def read_csv(path: Path) -> CsvFile:
    """Return the table in a CSV file whose first line names the columns.

    Raises UserError for a file without names or rows, and for a row with another number of cells.
    """
    text = read_text(path)
    first = text.partition("\n")[0]
    delimiter = max(DELIMITERS, key=first.count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    try:
        names = [name.strip() for name in next(rows, [])]
        if not any(names):
            raise UserError(f"{path} is empty: expected a line of column names, and a line for each example")
        if all(is_number(name) for name in names):
            raise UserError(f"{path} begins with numbers: expected a first line of column names, got {first[:60]!r}")
        for place, name in enumerate(names):
            if name in names[:place]:
                raise UserError(f"{path} has two columns named {name!r}")
        cells: list[list[str]] = [[] for _ in names]
        for row in rows:
            if not row:  # ignore an empty line
                continue
            if len(row) != len(names):
                wanted = f"expected {len(names)} cells separated by {delimiter!r}"
                raise UserError(f"{path}, line {rows.line_num}: {wanted}, got {len(row)}")
            for column, cell in zip(cells, row):
                column.append(cell.strip())
    except csv.Error as error:
        raise UserError(f"{path}, line {rows.line_num}: {error}") from None
    if not cells[0]:
        raise UserError(f"{path} has column names, but no rows")
    if delimiter != "," and _has_decimal_commas(cells):
        cells = [[_DECIMAL_COMMA.sub(r"\1.\2", cell) for cell in column] for column in cells]
    return CsvFile(path, dict(zip(names, cells)))


def _has_decimal_commas(cells: list[list[str]]) -> bool:
    """Return whether commas separate decimals, as in 1,5, and not thousands, as they may in 1,500.

    >>> [_has_decimal_commas([cells]) for cells in (["1,5", "2"], ["1,500", "2,000"], ["1,5", "2.5"], ["0,125"])]
    [True, False, False, True]
    """
    numbers = [cell for column in cells for cell in column if _DECIMAL_COMMA.fullmatch(cell) or is_number(cell)]
    decimals = [match for cell in numbers if (match := _DECIMAL_COMMA.fullmatch(cell))]
    return not any("." in cell for cell in numbers) and any(
        len(match[2]) != 3 or len(match[1].lstrip("+-")) > 3 or match[1].lstrip("+-") == "0" for match in decimals
    )
