"""Write a training run's figures: each step to metrics.jsonl, evaluations to metrics.csv as well."""

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from ..console import UserError


class MetricsWriter:
    """Writes a run's figures to a folder: `metrics.jsonl` for programs, `metrics.csv` for spreadsheets.

    Each line is flushed, so that a killed run leaves the previous lines. Use it as a context manager.

    >>> import tempfile
    >>> from pathlib import Path
    >>> from retrograd.cli.training.metrics import MetricsWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with MetricsWriter(Path(folder)) as metrics:
    ...         metrics.step(1, 0.5)
    ...         metrics.row({"epoch": 1, "step": 1, "train_loss": 0.5})
    ...     print(Path(folder, "metrics.jsonl").read_text().strip())
    ...     print(Path(folder, "metrics.csv").read_text().strip())
    {"step": 1, "loss": 0.5}
    {"epoch": 1, "step": 1, "train_loss": 0.5}
    epoch,step,train_loss
    1,1,0.5
    """

    def __init__(self, folder: Path) -> None:
        self._csv_file = (folder / "metrics.csv").open("w", newline="", encoding="utf-8", buffering=1)
        self._jsonl_file = (folder / "metrics.jsonl").open("w", encoding="utf-8", buffering=1)
        self._csv: csv.DictWriter[str] | None = None

    def step(self, number: int, loss: float) -> None:
        """Write a step's loss."""
        self._jsonl_file.write(json.dumps({"step": number, "loss": loss}) + "\n")

    def row(self, row: Mapping[str, float]) -> None:
        """Write an evaluation's figures; every row has the names of the first row."""
        if self._csv is None:
            self._csv = csv.DictWriter(self._csv_file, list(row), lineterminator="\n")
            self._csv.writeheader()
        self._csv.writerow(row)
        self._jsonl_file.write(json.dumps(row) + "\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._csv_file.close()
        self._jsonl_file.close()


class TensorBoardWriter:
    """Writes figures as TensorBoard event files to the subfolder `tensorboard`; needs tensorboardX.

    Raises UserError if tensorboardX is not installed.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise UserError("--tensorboard needs tensorboardX: pip install 'retrograd[tensorboard]'") from None
        self._writer = SummaryWriter(str(folder / "tensorboard"))

    def write(self, step: int, figures: Mapping[str, float]) -> None:
        """Append each figure to the curve with its name."""
        for name, value in figures.items():
            self._writer.add_scalar(name, value, step)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.close()
