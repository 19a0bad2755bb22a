"""A training run's figures, written as they come: metrics.csv for spreadsheets, metrics.jsonl for programs."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from .console import UserError


class MetricsWriter:
    """Writes one row of figures at a time to `metrics.csv` and `metrics.jsonl` in a folder.

    Each row is flushed, so that a run that is killed leaves the rows before. Use it as a context manager.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from retrograd.cli.metrics import MetricsWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with MetricsWriter(Path(folder), ["epoch", "loss"]) as metrics:
    ...         metrics.write({"epoch": 1, "loss": 0.5})
    ...     print(Path(folder, "metrics.jsonl").read_text().strip())
    {"epoch": 1, "loss": 0.5}
    """

    def __init__(self, folder: Path, columns: Sequence[str]) -> None:
        self._csv_file = (folder / "metrics.csv").open("w", newline="", encoding="utf-8")
        self._jsonl_file = (folder / "metrics.jsonl").open("w", encoding="utf-8")
        self._csv = csv.DictWriter(self._csv_file, columns)
        self._csv.writeheader()

    def write(self, row: Mapping[str, float]) -> None:
        """Append a row; ValueError when it has a column that was not announced."""
        self._csv.writerow(row)
        self._jsonl_file.write(json.dumps(row) + "\n")
        self._csv_file.flush()
        self._jsonl_file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._csv_file.close()
        self._jsonl_file.close()


class TensorBoardWriter:
    """Writes figures as TensorBoard event files to the folder `tensorboard` in a folder; needs tensorboardX.

    Raises UserError when tensorboardX is not installed.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise UserError("--tensorboard needs tensorboardX: pip install 'retrograd[tensorboard]'") from None
        self._writer = SummaryWriter(str(folder / "tensorboard"))

    def write(self, step: int, figures: Mapping[str, float]) -> None:
        """Append each figure to the curve of its name."""
        for name, value in figures.items():
            self._writer.add_scalar(name, value, step)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()
