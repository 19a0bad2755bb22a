"""Collective operations on Tensors: every rank of a group calls them with Tensors of equal shape and dtype.

Non-contiguous Tensors are copied to contiguous buffers and back. For differentiable collectives see ``nn.functional``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from ..core.arrays import Array
from ..core.arrays.devices import backend_of
from ..core.arrays.dtypes import DType
from ..core.errors import describe
from ..core.graph.modes import no_grad
from ..core.tensor.tensor import Tensor, new_tensor
from ..ops.table.documentation import like
from .groups import ProcessGroup, Transport, group_of, world_group
from .mpi import Request
from .reduce_ops import ReduceOp, check_reduction, narrowed, widened
from .work import Work, communicator


def tensor_of(name: str, argument: str, value: object) -> Tensor:
    """Return ``value`` if it is a Tensor, else raise TypeError."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}: {argument} must be a Tensor, got {type(value).__name__}")
    return value


def flat(array: Array) -> Array:
    """Return the elements as a 1-d contiguous array in row-major order, a copy only if the array is not contiguous."""
    return backend_of(array).xp.ascontiguousarray(array).reshape(-1)


def empty(like: Array, size: int, dtype: DType | None = None) -> Array:
    """Return an uninitialized 1-d array of ``size`` elements on the device of ``like``."""
    return backend_of(like).xp.empty(size, like.dtype if dtype is None else dtype)


def write(tensor: Tensor, values: Array) -> None:
    """Write a 1-d array of elements into a Tensor of any strides."""
    with no_grad():
        tensor.detach().copy_(new_tensor(values.reshape(tensor.shape)))


def run_collective(
    group: ProcessGroup, text: str, launch: Callable[[Transport], list[Request]] | None, like: Array
) -> None:
    """Run ``launch`` on the group's transport and wait for the requests that it returns."""

    def start() -> list[Request]:
        return [] if launch is None else launch(group.transport(like))

    group.run(text, start)


@like(world_group, raises="ValueError")
def all_reduce(
    tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: object = None, async_op: bool = False
) -> Work | None:
    """Combine the Tensors of all ranks elementwise, in place. All ranks receive bitwise equal results.

    Args:
        tensor: a Tensor of the same shape and dtype on all ranks; written in place.
        op: ``SUM``, ``AVG``, ``PRODUCT``, ``MIN``, ``MAX``; for integers also ``BAND``, ``BOR``, ``BXOR``. Half
            precision is accumulated in float32.
        group: the participating ranks; all by default.
        async_op: return a Work at once; the results are written when ``Work.wait()`` returns.

    Returns:
        A Work if ``async_op``, else None. None on ranks that are not in the group.

    Raises:
        TypeError: ``tensor`` is not a Tensor, or ``op`` is not a ReduceOp.
        RuntimeError: shape, dtype or call differs between the ranks, or the dtype does not support ``op``.
    """
    name = "all_reduce"
    pg = group_of(group)
    tensor_of(name, "tensor", tensor)
    check_reduction(name, tensor.dtype, op)
    if pg is None:
        return None

    def run_all_reduce() -> Tensor:
        send, how = widened(flat(tensor.array), op)
        receive = empty(send, send.size)
        run_collective(pg, f"{name}({describe(tensor)}, {op.name})", lambda c: c.all_reduce(send, receive, how), send)
        write(tensor, narrowed(receive, tensor.dtype, op, pg.size()))
        return tensor

    return communicator.run(run_all_reduce, async_op)


@like(all_reduce)
def reduce(
    tensor: Tensor, dst: int = 0, op: ReduceOp = ReduceOp.SUM, group: object = None, async_op: bool = False
) -> Work | None:
    """Combine the Tensors of all ranks into rank ``dst``'s Tensor; the other ranks' Tensors are unchanged.

    Args:
        tensor: a Tensor of the same shape and dtype on all ranks.
        dst: the global rank that receives the result.

    Raises:
        ValueError: ``dst`` is not in the group. Other errors as for ``all_reduce``.
    """
    name = "reduce"
    pg = group_of(group)
    tensor_of(name, "tensor", tensor)
    check_reduction(name, tensor.dtype, op)
    if pg is None:
        return None
    root = pg.group_rank_of(name, dst, "dst")

    def run_reduce() -> Tensor:
        send, how = widened(flat(tensor.array), op)
        receive = empty(send, send.size)
        text = f"{name}({describe(tensor)}, {op.name}, dst={dst})"
        run_collective(pg, text, lambda c: c.reduce(send, receive, how, root), send)
        if pg.rank() == root:
            write(tensor, narrowed(receive, tensor.dtype, op, pg.size()))
        return tensor

    return communicator.run(run_reduce, async_op)


@like(all_reduce)
def broadcast(tensor: Tensor, src: int = 0, group: object = None, async_op: bool = False) -> Work | None:
    """Copy rank ``src``'s Tensor into the Tensors of all ranks.

    Args:
        tensor: a Tensor of the same shape and dtype on all ranks; written in place on all but ``src``.
        src: the global rank of the sender.

    Raises:
        ValueError: ``src`` is not in the group. Other errors as for ``all_reduce``.
    """
    name = "broadcast"
    pg = group_of(group)
    tensor_of(name, "tensor", tensor)
    if pg is None:
        return None
    root = pg.group_rank_of(name, src, "src")

    def run_broadcast() -> Tensor:
        row = flat(tensor.array)
        if pg.rank() != root:
            row = empty(row, row.size)
        run_collective(pg, f"{name}({describe(tensor)}, src={src})", lambda c: c.broadcast(row, root), row)
        if pg.rank() != root:
            write(tensor, row)
        return tensor

    return communicator.run(run_broadcast, async_op)


@like(all_reduce)
def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: object = None, async_op: bool = False) -> Work | None:
    """Gather the Tensors of all ranks on every rank: ``tensor_list[i]`` receives the Tensor of group rank i.

    Args:
        tensor_list: one Tensor for each rank, each of the shape and dtype of ``tensor``.
        tensor: this rank's Tensor.

    Raises:
        RuntimeError: a length, shape or dtype in the list does not match. Other errors as for ``all_reduce``.
    """
    name = "all_gather"
    pg = group_of(group)
    tensor_of(name, "tensor", tensor)
    if pg is None:
        return None
    _check_list(name, "tensor_list", tensor_list, tensor, pg.size())

    def run_all_gather() -> list[Tensor]:
        rows = gather_rows(pg, name, tensor)
        for into, row in zip(tensor_list, rows, strict=True):
            write(into, row)
        return tensor_list

    return communicator.run(run_all_gather, async_op)


def gather_rows(pg: ProcessGroup, name: str, tensor: Tensor) -> Array:
    """Return an array whose row i has the elements of group rank i's Tensor."""
    send = flat(tensor.array)
    receive = empty(send, send.size * pg.size())
    run_collective(pg, f"{name}({describe(tensor)})", lambda c: c.all_gather(send, receive), send)
    return receive.reshape(pg.size(), send.size)


@like(all_reduce)
def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: object = None, async_op: bool = False
) -> Work | None:
    """Gather into one Tensor: the inputs concatenated or stacked along the first dimension.

    Args:
        output_tensor: has as many elements as all inputs together.
        input_tensor: this rank's Tensor.

    Raises:
        ValueError: ``output_tensor`` has another size or dtype. Other errors as for ``all_reduce``.
    """
    name = "all_gather_into_tensor"
    pg = group_of(group)
    tensor_of(name, "input_tensor", input_tensor)
    tensor_of(name, "output_tensor", output_tensor)
    if pg is None:
        return None
    _check_sizes(name, "output_tensor", output_tensor, input_tensor, pg.size())

    def run_all_gather_into_tensor() -> Tensor:
        write(output_tensor, gather_rows(pg, name, input_tensor))
        return output_tensor

    return communicator.run(run_all_gather_into_tensor, async_op)


@like(all_gather, reduce)
def gather(
    tensor: Tensor, gather_list: list[Tensor] | None = None, dst: int = 0, group: object = None, async_op: bool = False
) -> Work | None:
    """Gather the Tensors of all ranks on rank ``dst``.

    Args:
        gather_list: on ``dst`` one Tensor for each rank, elsewhere None.

    Raises:
        ValueError: ``gather_list`` is missing on ``dst`` or given elsewhere. Other errors as for ``all_reduce``.
    """
    name = "gather"
    pg = group_of(group)
    tensor_of(name, "tensor", tensor)
    if pg is None:
        return None
    root = pg.group_rank_of(name, dst, "dst")
    at_root = pg.rank() == root
    if at_root != bool(gather_list):
        raise ValueError(f"gather: gather_list must be given on rank dst={dst} and on no other rank")
    if gather_list:
        _check_list(name, "gather_list", gather_list, tensor, pg.size())

    def run_gather() -> list[Tensor] | None:
        send = flat(tensor.array)
        receive = empty(send, send.size * pg.size() if at_root else 0)
        run_collective(pg, f"{name}({describe(tensor)}, dst={dst})", lambda c: c.gather(send, receive, root), send)
        for into, row in zip(gather_list or (), receive.reshape(-1, send.size), strict=True):
            write(into, row)
        return gather_list

    return communicator.run(run_gather, async_op)


@like(broadcast)
def scatter(
    tensor: Tensor, scatter_list: list[Tensor] | None = None, src: int = 0, group: object = None, async_op: bool = False
) -> Work | None:
    """Send one Tensor of rank ``src``'s list to each rank.

    Args:
        tensor: receives this rank's Tensor.
        scatter_list: on ``src`` one Tensor for each rank, elsewhere None.

    Raises:
        ValueError: ``scatter_list`` is missing on ``src`` or given elsewhere. Other errors as for ``all_reduce``.
    """
    name = "scatter"
    pg = group_of(group)
    tensor_of(name, "tensor", tensor)
    if pg is None:
        return None
    root = pg.group_rank_of(name, src, "src")
    if (pg.rank() == root) != bool(scatter_list):
        raise ValueError(f"scatter: scatter_list must be given on rank src={src} and on no other rank")
    if scatter_list:
        _check_list(name, "scatter_list", scatter_list, tensor, pg.size())

    def run_scatter() -> Tensor:
        receive = empty(flat(tensor.array), tensor.array.size)
        send = _joined(scatter_list) if scatter_list else receive[:0]
        text = f"{name}({describe(tensor)}, src={src})"
        run_collective(pg, text, lambda c: c.scatter(send, receive, root), receive)
        write(tensor, receive)
        return tensor

    return communicator.run(run_scatter, async_op)


@like(all_reduce)
def reduce_scatter(
    output: Tensor,
    input_list: Sequence[Tensor],
    op: ReduceOp = ReduceOp.SUM,
    group: object = None,
    async_op: bool = False,
) -> Work | None:
    """Combine the i-th Tensors of all ranks' lists into group rank i's ``output``.

    Args:
        output: written in place.
        input_list: one Tensor for each rank, each of the shape and dtype of ``output``.
    """
    name = "reduce_scatter"
    pg = group_of(group)
    tensor_of(name, "output", output)
    check_reduction(name, output.dtype, op)
    if pg is None:
        return None
    _check_list(name, "input_list", input_list, output, pg.size())
    return _reduce_scatter(name, pg, output, lambda: _joined(input_list), op, async_op)


@like(reduce_scatter)
def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: ReduceOp = ReduceOp.SUM, group: object = None, async_op: bool = False
) -> Work | None:
    """Combine the ``input`` of all ranks; group rank i receives the i-th of the equal parts of the result.

    Args:
        input: has as many elements as all outputs together.
    """
    name = "reduce_scatter_tensor"
    pg = group_of(group)
    tensor_of(name, "output", output)
    tensor_of(name, "input", input)
    check_reduction(name, output.dtype, op)
    if pg is None:
        return None
    _check_sizes(name, "input", input, output, pg.size())
    return _reduce_scatter(name, pg, output, lambda: flat(input.array), op, async_op)


def _reduce_scatter(
    name: str, pg: ProcessGroup, output: Tensor, joined: Callable[[], object], op: ReduceOp, async_op: bool
) -> Work | None:
    def run_reduce_scatter() -> Tensor:
        send, how = widened(joined(), op)
        receive = empty(send, output.array.size)
        run_collective(
            pg,
            f"{name}({describe(output)}, {op.name})",
            lambda c: c.reduce_scatter(send, receive, how),
            send,
        )
        write(output, narrowed(receive, output.dtype, op, pg.size()))
        return output

    return communicator.run(run_reduce_scatter, async_op)


@like(all_reduce)
def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: Sequence[Tensor], group: object = None, async_op: bool = False
) -> Work | None:
    """Send the i-th Tensor of every rank's list to group rank i.

    Args:
        output_tensor_list: the i-th Tensor is received from rank i. Shapes may differ between the entries.
        input_tensor_list: the i-th Tensor is sent to rank i. All Tensors have one dtype.

    Raises:
        RuntimeError: a list has another length than the group, or an input has another size than its receiver's output.
    """
    name = "all_to_all"
    pg = group_of(group)
    if pg is None:
        return None
    lists = {"output_tensor_list": output_tensor_list, "input_tensor_list": input_tensor_list}
    for argument, tensors in lists.items():
        _check_list(name, argument, tensors, None, pg.size())
    dtype = input_tensor_list[0].dtype
    if any(x.dtype != dtype for tensors in lists.values() for x in tensors):
        raise RuntimeError(
            f"{name}: all Tensors must have one dtype, got {describe([*output_tensor_list, *input_tensor_list])}"
        )

    def run_all_to_all() -> list[Tensor]:
        send = _joined(input_tensor_list)
        sent, received = ([x.array.size for x in tensors] for tensors in (input_tensor_list, output_tensor_list))
        _write_all(output_tensor_list, _exchange(pg, name, send, sent, received))
        return output_tensor_list

    return communicator.run(run_all_to_all, async_op)


@like(all_reduce)
def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: object = None,
    async_op: bool = False,
) -> Work | None:
    """Send parts of one Tensor, split along its first dimension, to all ranks (``all_to_all``).

    Args:
        output: receives the parts, concatenated.
        input: the Tensor to split and send.
        output_split_sizes, input_split_sizes: lengths of the parts; equal by default.

    Raises:
        RuntimeError: the lengths do not add up to the first dimension, or differ from the receivers' lengths.
    """
    name = "all_to_all_single"
    pg = group_of(group)
    tensor_of(name, "output", output)
    tensor_of(name, "input", input)
    if pg is None:
        return None
    if input.dtype != output.dtype:
        raise RuntimeError(
            f"{name}: output and input must have one dtype, got {describe(output)} and {describe(input)}"
        )

    def counts(argument: str, tensor: Tensor, sizes: Sequence[int] | None) -> list[int]:
        length = tensor.shape[0] if tensor.ndim else 0
        if not sizes:
            if not tensor.ndim or length % pg.size():
                raise RuntimeError(
                    f"{name}: the first dimension of {argument} must be divisible by {pg.size()} ranks, "
                    f"got {describe(tensor)}; pass {argument}_split_sizes"
                )
            sizes = [length // pg.size()] * pg.size()
        if len(sizes) != pg.size() or sum(sizes) != length:
            raise RuntimeError(
                f"{name}: {argument}_split_sizes must be {pg.size()} lengths that sum to {length}, got {list(sizes)}"
            )
        return [n * (tensor.array.size // max(1, length)) for n in sizes]

    received, sent = counts("output", output, output_split_sizes), counts("input", input, input_split_sizes)

    def run_all_to_all_single() -> Tensor:
        write(output, _exchange(pg, name, flat(input.array), sent, received))
        return output

    return communicator.run(run_all_to_all_single, async_op)


def _exchange(pg: ProcessGroup, name: str, send: Array, sent: list[int], received: list[int]) -> Array:
    """Exchange parts with all ranks, after the sizes: a mismatch raises an error on all ranks before data is sent."""
    host = pg.transport(np.empty(0))
    mine, theirs = np.array(sent, np.int64), np.empty(len(sent), np.int64)
    ones = [1] * len(sent)
    pg.run(f"{name}({send.dtype})", lambda: host.all_to_all(mine, theirs, ones, ones))
    wrong = [(rank, int(n), m) for rank, n, m in zip(pg.ranks, theirs, received, strict=True) if n != m]
    receive = empty(send, sum(received))
    # All ranks agree on the outcome, so that no rank waits for a rank that raised an error.
    bad = np.array([bool(wrong)], np.uint8)
    any_bad = np.empty_like(bad)
    pg.run(f"{name}({send.dtype}), sizes", lambda: host.all_reduce(bad, any_bad, ReduceOp.MAX))
    if wrong:
        rank, n, m = wrong[0]
        me = pg.ranks[pg.rank()]
        raise RuntimeError(
            f"{name}: rank {rank} sends {n} elements to rank {me}, whose output expects {m}; make both sizes equal"
        )
    if any_bad[0]:
        raise RuntimeError(f"{name}: the sizes sent and expected by other ranks differ; see their errors")
    run_collective(pg, f"{name}({send.dtype}), data", lambda c: c.all_to_all(send, receive, sent, received), send)
    return receive


@like(all_reduce)
def barrier(group: object = None, async_op: bool = False, device_ids: object = None) -> Work | None:
    """Wait until all ranks of the group have called ``barrier``.

    Args:
        async_op: return a Work at once; ``Work.wait()`` waits for the other ranks.
        device_ids: ignored; for compatibility.
    """
    pg = group_of(group)
    if pg is None:
        return None
    return communicator.run(lambda: pg.run("barrier()", None), async_op)


def monitored_barrier(group: object = None, timeout: object = None, wait_all_ranks: bool = False) -> None:
    """Call ``barrier``, which reports missing ranks in any case."""
    barrier(group)


def broadcast_all(tensors: Iterable[Tensor], src: int, group: ProcessGroup) -> None:
    """Broadcast Tensors from the global rank ``src``, in one message per dtype and device."""
    kinds: dict[object, list[Tensor]] = {}
    for x in tensors:
        kinds.setdefault((x.dtype, x.device), []).append(x)
    for alike in kinds.values():
        row = _joined(alike)
        broadcast(new_tensor(row), src, group)
        if group.rank() != group.ranks.index(src):
            _write_all(alike, row)


def _write_all(tensors: Sequence[Tensor], row: Array) -> None:
    """Write the elements of all Tensors, which lie one after the other in ``row``."""
    start = 0
    for x in tensors:
        write(x, row[start : start + x.array.size])
        start += x.array.size


def _joined(tensors: Sequence[Tensor]) -> Array:
    rows = [flat(x.array) for x in tensors]
    return backend_of(rows[0]).xp.concatenate(rows)


def _check_list(name: str, argument: str, tensors: object, like: Tensor | None, count: int) -> None:
    if not isinstance(tensors, (list, tuple)) or not all(isinstance(x, Tensor) for x in tensors):
        raise TypeError(f"{name}: {argument} must be a list of Tensors, got {describe(tensors)}")
    if len(tensors) != count:
        raise RuntimeError(f"{name}: {argument} must have one Tensor for each of {count} ranks, got {len(tensors)}")
    if like is not None and any(x.dtype != like.dtype or x.shape != like.shape for x in tensors):
        raise RuntimeError(f"{name}: the Tensors in {argument} must be like {describe(like)}, got {describe(tensors)}")


def _check_sizes(name: str, argument: str, whole: Tensor, part: Tensor, count: int) -> None:
    if whole.array.size != part.array.size * count or whole.dtype != part.dtype:
        raise ValueError(
            f"{name}: {argument} must have {count} times as many elements as {describe(part)}, got {describe(whole)}"
        )


__all__ = [
    "all_gather", "all_gather_into_tensor", "all_reduce", "all_to_all", "all_to_all_single", "barrier", "broadcast",
    "gather", "monitored_barrier", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter",
]  # fmt: skip
