"""Gradients in buckets: rows of memory that are summed over all ranks while the walk still runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.arrays.devices import backend_of
from ...core.arrays.dtypes import INEXACT
from ...core.tensor.tensor import Tensor, new_tensor
from ...distributed.collectives import carry
from ...distributed.groups import ProcessGroup
from ...distributed.reductions import ReduceOp
from ...distributed.work import Work, communicator

FIRST = 1 << 20  # bytes of the first bucket, which is small so that it goes soon


class Bucket:
    """Parameters whose gradients travel together, in one row of memory.

    Attributes:
        waiting: how many of them have no gradient yet in this walk.
    """

    def __init__(self, number: int, parameters: Sequence[Tensor]) -> None:
        self.number = number
        self.parameters = list(parameters)
        self.starts = np.cumsum([0, *(p.array.size for p in parameters)]).tolist()
        self.waiting = len(parameters)
        self.work: Work | None = None
        self._row: Any = None

    def part(self, index: int) -> Any:
        """The place of a parameter's gradient; the row is made when it is first needed."""
        parameter = self.parameters[index]
        if self._row is None:
            dtype = parameter.dtype
            if dtype.itemsize == 2 and dtype.kind in INEXACT:
                dtype = np.dtype(np.float32)  # halves are added up in single precision
            self._row = backend_of(parameter.array).xp.empty(self.starts[-1], dtype)
        return self._row[self.starts[index] : self.starts[index + 1]].reshape(parameter.shape)

    def put(self, index: int, size: int) -> None:
        """Take over this rank's part of the mean: ``.grad`` over ``size`` ranks; zeros, where there is none."""
        grad, part = self.parameters[index].grad, self.part(index)
        if grad is None:
            part[...] = 0
        else:
            np.multiply(grad.array, 1 / size, out=part, casting="same_kind")
        self.waiting -= 1

    def launch(self, group: ProcessGroup) -> None:
        """Begin to sum the row over all ranks."""
        row = self._row
        text = f"DistributedDataParallel's bucket {self.number} of {row.dtype}{row.shape}"
        self.work = communicator.submit(
            Work(lambda: carry(group, text, lambda c: c.all_reduce(row, row, ReduceOp.SUM), row))
        )

    def collect(self, used: Sequence[bool] | None) -> None:
        """Let ``.grad`` be the means, save of parameters that no rank has used; and be ready for the next walk.

        The gradients are views of the row, which is theirs from now on; the next walk has a new one.
        """
        assert self.work is not None
        self.work.wait()
        for index, parameter in enumerate(self.parameters):
            if used is None or used[index]:
                parameter.grad = new_tensor(self.part(index).astype(parameter.dtype, copy=False))
        self._row = self.work = None
        self.waiting = len(self.parameters)


def in_buckets(parameters: Sequence[Tensor], limit: int) -> list[Bucket]:
    """The parameters, last first as gradients come, in buckets of one dtype and device and so many bytes each."""
    rows: list[list[Tensor]] = []
    open_rows: dict[Any, list[Tensor]] = {}
    for parameter in reversed(parameters):
        kind = parameter.dtype, parameter.device
        row = open_rows.get(kind)
        if row is None:
            row = open_rows[kind] = []
            rows.append(row)
        row.append(parameter)
        if sum(p.nbytes for p in row) >= (min(FIRST, limit) if row is rows[0] else limit):
            del open_rows[kind]
    return [Bucket(number, row) for number, row in enumerate(rows)]
