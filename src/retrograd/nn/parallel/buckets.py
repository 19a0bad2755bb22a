"""Gradient buckets: buffers that are summed over all ranks while the backward pass continues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.arrays.devices import backend_of
from ...core.arrays.dtypes import INEXACT
from ...core.tensor.tensor import Tensor, new_tensor
from ...distributed.collectives import run_collective
from ...distributed.groups import ProcessGroup
from ...distributed.reductions import ReduceOp
from ...distributed.work import Work, communicator

FIRST = 1 << 20  # bytes of the first bucket, small so that its communication starts early


class Bucket:
    """Parameters whose gradients are communicated together in one buffer.

    Attributes:
        waiting: the number of parameters without a gradient in this backward pass.
    """

    def __init__(self, number: int, parameters: Sequence[Tensor]) -> None:
        self.number = number
        self.parameters = list(parameters)
        self.starts = np.cumsum([0, *(p.array.size for p in parameters)]).tolist()
        self.waiting = len(parameters)
        self.work: Work | None = None
        self._row: Any = None

    def part(self, index: int) -> Any:
        """Return the part of the buffer for a parameter's gradient; the buffer is allocated at first use."""
        parameter = self.parameters[index]
        if self._row is None:
            dtype = parameter.array.dtype
            if dtype.itemsize == 2 and dtype.kind in INEXACT:
                dtype = np.dtype(np.float32)  # half precision is accumulated in float32
            self._row = backend_of(parameter.array).xp.empty(self.starts[-1], dtype)
        return self._row[self.starts[index] : self.starts[index + 1]].reshape(parameter.shape)

    def put(self, index: int, size: int) -> None:
        """Write this rank's part of the mean, ``.grad / size``, into the buffer; zeros if there is no gradient."""
        grad, part = self.parameters[index].grad, self.part(index)
        if grad is None:
            part[...] = 0
        else:
            np.multiply(grad.array, 1 / size, out=part, casting="same_kind")
        self.waiting -= 1

    def launch(self, group: ProcessGroup) -> None:
        """Start to sum the buffer over all ranks."""
        row = self._row
        text = f"DistributedDataParallel's bucket {self.number} of {row.dtype}{row.shape}"
        self.work = communicator.submit(
            Work(lambda: run_collective(group, text, lambda c: c.all_reduce(row, row, ReduceOp.SUM), row))
        )

    def collect(self, used: Sequence[bool] | None) -> None:
        """Set ``.grad`` to the means, except of parameters that no rank has used, and reset for the next backward pass.

        The gradients are views of the buffer; the next backward pass allocates a new buffer.
        """
        assert self.work is not None
        self.work.wait()
        for index, parameter in enumerate(self.parameters):
            if used is None or used[index]:
                parameter.grad = new_tensor(self.part(index).astype(parameter.dtype, copy=False))
        self._row = self.work = None
        self.waiting = len(self.parameters)


def in_buckets(parameters: Sequence[Tensor], limit: int) -> list[Bucket]:
    """Group the parameters, in reverse order as gradients arrive, into buckets of one dtype, device and size limit."""
    rows: list[list[Tensor]] = []
    open_rows: dict[object, list[Tensor]] = {}
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
