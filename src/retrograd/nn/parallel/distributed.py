"""``DistributedDataParallel``: one model in many processes, each with a part of the batch.

Gradients are stored in buckets: buffers that are summed over all ranks while the backward pass continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ...core.arrays.devices import backend_of
from ...core.arrays.dtypes import INEXACT
from ...core.errors import describe
from ...core.graph.modes import is_grad_enabled
from ...core.graph.nodes import Node, edge_of, reachable
from ...core.tensor.tensor import Tensor, new_tensor
from ...distributed.collectives import all_reduce, broadcast_all, run_collective
from ...distributed.errors import DistError
from ...distributed.groups import ProcessGroup, group_of
from ...distributed.hub import listed
from ...distributed.objects import gather_from_all
from ...distributed.reduce_ops import ReduceOp
from ...distributed.work import Work, communicator
from ..base.module import Module

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
        """Write this rank's term of the mean, ``.grad / size``, into the buffer; zeros if there is no gradient."""
        grad, part = self.parameters[index].grad, self.part(index)
        if grad is None:
            part[...] = 0
        else:
            np.multiply(grad.array, 1 / size, out=part, casting="same_kind")
        self.waiting -= 1

    def launch(self, group: ProcessGroup) -> None:
        """Start the all-reduce that sums the buffer over all ranks."""
        row = self._row
        text = f"DistributedDataParallel's bucket {self.number} of {row.dtype}{row.shape}"
        self.work = communicator.submit(
            Work(lambda: run_collective(group, text, lambda c: c.all_reduce(row, row, ReduceOp.SUM), row))
        )

    def collect(self, used: Sequence[bool] | None) -> None:
        """Set ``.grad`` of all parameters that a rank has used to the mean, and reset for the next backward pass.

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


BUCKET = 4.0  # MiB, the default: larger buckets start later, smaller ones have more latency


class DistributedDataParallel(Module):
    """A module whose gradients are averaged over all ranks; ``backward`` leaves bitwise equal ``.grad`` on all.

    Each rank calls the module with its own part of the batch. Gradients are collected in buckets, in the reverse order
    of the parameters, and each bucket is summed over the ranks while the backward pass continues (Li et al., 2020).
    Rank 0's parameters and buffers are broadcast at construction, and buffers again before each call in training.

    Args:
        module: the module, registered as the submodule ``module``, whose name begins all names of the state dict.
        device_ids, output_device, dim: ignored; for compatibility. The module stays on its device.
        broadcast_buffers: broadcast rank 0's buffers before each call in training.
        process_group: the participating ranks; all by default.
        bucket_cap_mb: MiB of gradients per bucket.
        find_unused_parameters: search the graph of the outputs for parameters that the loss cannot depend on. Their
            gradient is the mean over the ranks that use them; if no rank does, ``.grad`` is unchanged.
        gradient_as_bucket_view, check_reduction, static_graph: ignored; for compatibility.

    Raises:
        RuntimeError: no parameter requires a gradient, the parameters differ between the ranks, or (when called) a
            parameter received no gradient in the previous backward pass.
        ValueError: ``init_process_group`` was not called.
    """

    def __init__(
        self,
        module: Module,
        device_ids: object = None,
        output_device: object = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        process_group: object = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        **options: object,
    ) -> None:
        super().__init__()
        group = group_of(process_group)
        if group is None:
            raise RuntimeError(
                "DistributedDataParallel: this rank is not a member of process_group; construct it on members only"
            )
        self.process_group: ProcessGroup = group
        self.module = module
        self.device_ids, self.output_device, self.dim = device_ids, output_device, dim
        self.broadcast_buffers = broadcast_buffers
        self.find_unused_parameters = find_unused_parameters
        self.require_backward_grad_sync = True
        named = {name: p for name, p in module.named_parameters() if p.requires_grad}
        if not named:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameters that require a "
                "gradient."
            )
        self._check_alike()
        parameters = list(module.parameters())
        broadcast_all([*parameters, *module.buffers()], self.process_group.ranks[0], self.process_group)
        self._buckets = in_buckets(list(named.values()), int((bucket_cap_mb or BUCKET) * (1 << 20)))
        self._names = {id(p): name for name, p in named.items()}
        self._begun = False  # whether the current backward pass has computed some gradients but not all
        self._next = 0  # the next bucket to send; all ranks send buckets in order
        self._used: dict[int, bool] = {}
        for bucket in self._buckets:
            for index, parameter in enumerate(bucket.parameters):
                parameter.register_post_accumulate_grad_hook(self._hook(bucket, index))

    def forward(self, *inputs: object, **kwargs: object) -> Any:
        if self._begun:
            self._tell_missing()
        if self.broadcast_buffers and self.training and self.require_backward_grad_sync:
            broadcast_all(self.module.buffers(), self.process_group.ranks[0], self.process_group)
        output = self.module(*inputs, **kwargs)
        if self.find_unused_parameters and self.require_backward_grad_sync and is_grad_enabled():
            self._leave_out_unused(output)
        return output

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Accumulate gradients locally inside the block; the next backward pass of a call outside averages them.

        The forward must run inside the block, too, as in PyTorch.
        """
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def _check_alike(self) -> None:
        """Raise an error that names parameters and buffers that differ between the ranks."""
        own = {
            name: describe(x) + ("" if x.requires_grad else ", frozen") for name, x in self.module.named_parameters()
        }
        own |= {f"buffer {name}": describe(x) for name, x in self.module.named_buffers()}
        everyone = gather_from_all(self.process_group, own)
        names = list(dict.fromkeys(name for one in everyone for name in one))
        for name in names:
            found: dict[str, list[int]] = {}
            for rank, one in zip(self.process_group.ranks, everyone, strict=True):
                found.setdefault(one.get(name, "none"), []).append(rank)
            if len(found) > 1:
                few = sorted(found.items(), key=lambda item: (len(item[1]), -item[1][0]))
                shapes = [f"{listed(ranks)} ha{'s' if len(ranks) == 1 else 've'} {text}" for text, ranks in few]
                raise DistError(
                    f"DistributedDataParallel: the parameters differ between the ranks: {name}: {', '.join(shapes)}"
                )
        if any(list(one) != names for one in everyone):
            raise DistError(
                "DistributedDataParallel: the order of the parameters differs between the ranks; "
                "create them in the same order on all ranks"
            )

    def _hook(self, bucket: Any, index: int) -> Callable[[Tensor], None]:
        def ready(parameter: Tensor) -> None:
            if not self.require_backward_grad_sync:
                return
            if self._begun and id(parameter) in self._used:
                name = self._names[id(parameter)]
                raise RuntimeError(
                    f"DistributedDataParallel: Expected to mark a variable ready only once: {name} "
                    "received a second gradient before other parameters received their first; reach all parameters "
                    "in one backward pass, or pass find_unused_parameters=True"
                )
            self._begun = True
            self._used[id(parameter)] = True
            bucket.put(index, self.process_group.size())
            self._send()

        return ready

    def _send(self) -> None:
        """Send the buckets that are next in order; after the last bucket, wait for all of them."""
        while self._next < len(self._buckets) and not self._buckets[self._next].waiting:
            self._buckets[self._next].launch(self.process_group)
            self._next += 1
        if self._next == len(self._buckets):
            self._collect()

    def _collect(self) -> None:
        used: dict[int, bool] | None = None
        if self.find_unused_parameters:
            parameters = [p for bucket in self._buckets for p in bucket.parameters]
            flags = new_tensor(np.array([self._used.get(id(p), False) for p in parameters]))
            all_reduce(flags, ReduceOp.MAX, self.process_group)
            used = dict(zip(map(id, parameters), flags.tolist(), strict=True))
        for bucket in self._buckets:
            flags_of = None if used is None else [used[id(p)] for p in bucket.parameters]
            bucket.collect(flags_of)
        self._begun, self._next, self._used = False, 0, {}

    def _leave_out_unused(self, output: object) -> None:
        edges = {edge_of(x) for x in _tensors(output)} - {None}
        _, completes = reachable([edge for edge in edges if type(edge) is Node])
        found = {id(leaf) for leaves in completes.values() for leaf in leaves}
        found |= {id(edge) for edge in edges if type(edge) is not Node}
        self._used = {}
        for bucket in self._buckets:
            bucket.waiting = len(bucket.parameters)
            for index, parameter in enumerate(bucket.parameters):
                if id(parameter) not in found:
                    self._used[id(parameter)] = parameter.grad is not None  # .grad may come from no_sync
                    bucket.put(index, self.process_group.size())
        if not any(bucket.waiting for bucket in self._buckets):
            self._send()  # without a gradient, no hook is called that would send the buckets

    def _tell_missing(self) -> None:
        missing = [self._names[id(p)] for b in self._buckets for p in b.parameters if id(p) not in self._used]
        self._begun, self._next, self._used = False, 0, {}
        shown = ", ".join(missing[:8]) + (", ..." if len(missing) > 8 else "")
        raise RuntimeError(
            "DistributedDataParallel: Expected to have finished reduction in the prior iteration before starting a new "
            f"one: {len(missing)} parameters got no gradient ({shown}); use all outputs of forward in the loss, or "
            "pass find_unused_parameters=True"
        )


def _tensors(value: object) -> Iterator[Tensor]:
    """Yield the Tensors in an output: in lists, tuples, dictionaries and attributes of objects."""
    if isinstance(value, Tensor):
        yield value
        return
    if isinstance(value, dict):
        parts: Any = value.values()
    elif isinstance(value, (list, tuple, set)):
        parts = value
    else:
        parts = vars(value).values() if hasattr(value, "__dict__") and not callable(value) else ()
    for part in parts:
        yield from _tensors(part)
