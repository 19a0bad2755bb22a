"""Collectives: what all ranks of a group call together, on Tensors of equal shape and dtype.

Tensors that are not contiguous are copied into order and back. Nothing here is differentiated: see ``nn.functional``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.arrays.devices import backend_of
from ..core.errors import describe
from ..core.graph.modes import no_grad
from ..core.tensor.tensor import Tensor, new_tensor
from .groups import ProcessGroup, group_of
from .reductions import ReduceOp, check_reduction, narrowed, widened
from .work import Work, communicator

Tensors = Sequence[Tensor]


def tensor_of(name: str, argument: str, value: object) -> Tensor:
    """The value, if it is a Tensor with numbers in it; else TypeError."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}: {argument} must be a Tensor, got {type(value).__name__}")
    return value


def flat(array: Any) -> Any:
    """The array's elements in a row of their own or of the array, row-major; 0-d ones, too."""
    return backend_of(array).xp.ascontiguousarray(array).reshape(-1)


def empty(like: Any, size: int, dtype: Any = None) -> Any:
    """A new row of so many elements where the array is."""
    return backend_of(like).xp.empty(size, like.dtype if dtype is None else dtype)


def write(tensor: Tensor, values: Any) -> None:
    """Write a row of elements into the Tensor, whatever its strides."""
    with no_grad():
        tensor.detach().copy_(new_tensor(values.reshape(tensor.shape)))


def carry(group: ProcessGroup, text: str, launch: Callable[[Any], Any] | None, like: Any) -> None:
    """Run a call whose requests ``launch`` makes of the carrier; on GPUs, wait until the numbers are there."""

    def start() -> Any:
        return [] if launch is None else launch(group.carrier(like))

    group.run(text, start)


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Combine the Tensors of all ranks element by element; each rank's Tensor becomes the result, the same bits on all.

    Args:
        tensor: of the same shape and dtype on all ranks; written in place.
        op: how they are combined: ``SUM``, ``AVG``, ``PRODUCT``, ``MIN``, ``MAX``, of integers ``BAND``, ``BOR``,
            ``BXOR``. Half precision is added up in single.
        group: which ranks; all by default.
        async_op: return at once, with a Work whose ``wait()`` says when the Tensor is written.

    Returns:
        None, or the Work; None on ranks that are not in the group.

    Raises:
        TypeError: ``tensor`` is no Tensor, or ``op`` no ReduceOp.
        RuntimeError: the ranks differ in shape, dtype or call; or the dtype has no such combination.
        ValueError: ``init_process_group`` was not called.
    """
    name = "all_reduce"
    found = group_of(group)
    tensor_of(name, "tensor", tensor)
    check_reduction(name, tensor.dtype, op)
    if found is None:
        return None
    where = found

    def call() -> Tensor:
        send, how = widened(flat(tensor.array), op)
        receive = empty(send, send.size)
        carry(where, f"{name}({describe(tensor)}, {op.name})", lambda c: c.all_reduce(send, receive, how), send)
        write(tensor, narrowed(receive, tensor.dtype, op, where.size()))
        return tensor

    return communicator.run(call, async_op)


def reduce(
    tensor: Tensor, dst: int = 0, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Combine the Tensors of all ranks; rank ``dst``'s becomes the result, the others stay as they are.

    Args:
        tensor: of the same shape and dtype on all ranks.
        dst: the global rank.
        op, group, async_op: see ``all_reduce``.

    Raises:
        ValueError: ``dst`` is not in the group. The others are those of ``all_reduce``.
    """
    name = "reduce"
    found = group_of(group)
    tensor_of(name, "tensor", tensor)
    check_reduction(name, tensor.dtype, op)
    if found is None:
        return None
    where, root = found, found.place(name, dst, "dst")

    def call() -> Tensor:
        send, how = widened(flat(tensor.array), op)
        receive = empty(send, send.size)
        text = f"{name}({describe(tensor)}, {op.name}, dst={dst})"
        carry(where, text, lambda c: c.reduce(send, receive, how, root), send)
        if where.rank() == root:
            write(tensor, narrowed(receive, tensor.dtype, op, where.size()))
        return tensor

    return communicator.run(call, async_op)


def broadcast(tensor: Tensor, src: int = 0, group: Any = None, async_op: bool = False) -> Work | None:
    """Give every rank the numbers of rank ``src``.

    Args:
        tensor: of the same shape and dtype on all ranks; written in place on all but ``src``.
        src: the global rank.
        group, async_op: see ``all_reduce``.

    Raises:
        ValueError: ``src`` is not in the group. The others are those of ``all_reduce``.
    """
    name = "broadcast"
    found = group_of(group)
    tensor_of(name, "tensor", tensor)
    if found is None:
        return None
    where, root = found, found.place(name, src, "src")

    def call() -> Tensor:
        row = flat(tensor.array)
        if where.rank() != root:
            row = empty(row, row.size)
        carry(where, f"{name}({describe(tensor)}, src={src})", lambda c: c.broadcast(row, root), row)
        if where.rank() != root:
            write(tensor, row)
        return tensor

    return communicator.run(call, async_op)


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False) -> Work | None:
    """Give every rank the Tensors of all: ``tensor_list[i]`` becomes that of the group's rank i.

    Args:
        tensor_list: as many Tensors as ranks, each of the shape and dtype of ``tensor``.
        tensor: this rank's.
        group, async_op: see ``all_reduce``.

    Raises:
        RuntimeError: the list does not fit. The others are those of ``all_reduce``.
    """
    name = "all_gather"
    found = group_of(group)
    tensor_of(name, "tensor", tensor)
    if found is None:
        return None
    where = found
    _check_list(name, "tensor_list", tensor_list, tensor, where.size())

    def call() -> list[Tensor]:
        rows = gathered(where, name, tensor)
        for into, row in zip(tensor_list, rows, strict=True):
            write(into, row)
        return tensor_list

    return communicator.run(call, async_op)


def gathered(where: ProcessGroup, name: str, tensor: Tensor) -> Any:
    """The elements of all ranks' Tensors, a row for each rank."""
    send = flat(tensor.array)
    receive = empty(send, send.size * where.size())
    carry(where, f"{name}({describe(tensor)})", lambda c: c.all_gather(send, receive), send)
    return receive.reshape(where.size(), send.size)


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """``all_gather`` into one Tensor: the inputs one after the other along the first dimension, or in a new one.

    Args:
        output_tensor: of as many elements as all inputs together.
        input_tensor: this rank's.
        group, async_op: see ``all_reduce``.

    Raises:
        ValueError: ``output_tensor`` has another size or dtype. The others are those of ``all_reduce``.
    """
    name = "all_gather_into_tensor"
    found = group_of(group)
    tensor_of(name, "input_tensor", input_tensor)
    tensor_of(name, "output_tensor", output_tensor)
    if found is None:
        return None
    where = found
    _check_sizes(name, "output_tensor", output_tensor, input_tensor, where.size())

    def call() -> Tensor:
        write(output_tensor, gathered(where, name, input_tensor))
        return output_tensor

    return communicator.run(call, async_op)


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int = 0,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Give rank ``dst`` the Tensors of all.

    Args:
        tensor: this rank's.
        gather_list: on ``dst`` as many Tensors as ranks, elsewhere None.
        dst: the global rank.
        group, async_op: see ``all_reduce``.

    Raises:
        ValueError: a list on another rank than ``dst``, or none on it. The others are those of ``all_reduce``.
    """
    name = "gather"
    found = group_of(group)
    tensor_of(name, "tensor", tensor)
    if found is None:
        return None
    where, root = found, found.place(name, dst, "dst")
    at_root = where.rank() == root
    if at_root != bool(gather_list):
        raise ValueError(f"gather: gather_list must be given on dst={dst} and nowhere else")
    if gather_list:
        _check_list(name, "gather_list", gather_list, tensor, where.size())

    def call() -> Any:
        send = flat(tensor.array)
        receive = empty(send, send.size * where.size() if at_root else 0)
        carry(where, f"{name}({describe(tensor)}, dst={dst})", lambda c: c.gather(send, receive, root), send)
        for into, row in zip(gather_list or (), receive.reshape(-1, send.size), strict=True):
            write(into, row)
        return gather_list

    return communicator.run(call, async_op)


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int = 0,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Give each rank one of the Tensors of rank ``src``.

    Args:
        tensor: what this rank's part is written to.
        scatter_list: on ``src`` as many Tensors as ranks, elsewhere None.
        src: the global rank.
        group, async_op: see ``all_reduce``.

    Raises:
        ValueError: a list on another rank than ``src``, or none on it. The others are those of ``all_reduce``.
    """
    name = "scatter"
    found = group_of(group)
    tensor_of(name, "tensor", tensor)
    if found is None:
        return None
    where, root = found, found.place(name, src, "src")
    if (where.rank() == root) != bool(scatter_list):
        raise ValueError(f"scatter: scatter_list must be given on src={src} and nowhere else")
    if scatter_list:
        _check_list(name, "scatter_list", scatter_list, tensor, where.size())

    def call() -> Tensor:
        receive = empty(flat(tensor.array), tensor.array.size)
        send = _joined(scatter_list) if scatter_list else receive[:0]
        text = f"{name}({describe(tensor)}, src={src})"
        carry(where, text, lambda c: c.scatter(send, receive, root), receive)
        write(tensor, receive)
        return tensor

    return communicator.run(call, async_op)


def reduce_scatter(
    output: Tensor,
    input_list: Sequence[Tensor],
    op: ReduceOp = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Combine lists of Tensors of all ranks; the group's rank i gets what the i-th Tensors have come to.

    Args:
        output: what is written.
        input_list: as many Tensors as ranks, each of the shape and dtype of ``output``.
        op, group, async_op: see ``all_reduce``.
    """
    name = "reduce_scatter"
    found = group_of(group)
    tensor_of(name, "output", output)
    check_reduction(name, output.dtype, op)
    if found is None:
        return None
    _check_list(name, "input_list", input_list, output, found.size())
    return _reduce_scatter(name, found, output, lambda: _joined(input_list), op, async_op)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """``reduce_scatter`` of one Tensor: the group's rank i gets the i-th of the equal parts of the result.

    Args:
        output: what is written.
        input: of as many elements as all outputs together.
        op, group, async_op: see ``all_reduce``.
    """
    name = "reduce_scatter_tensor"
    found = group_of(group)
    tensor_of(name, "output", output)
    tensor_of(name, "input", input)
    check_reduction(name, output.dtype, op)
    if found is None:
        return None
    _check_sizes(name, "input", input, output, found.size())
    return _reduce_scatter(name, found, output, lambda: flat(input.array), op, async_op)


def _reduce_scatter(
    name: str, where: ProcessGroup, output: Tensor, joined: Callable[[], Any], op: ReduceOp, async_op: bool
) -> Work | None:
    def call() -> Tensor:
        send, how = widened(joined(), op)
        receive = empty(send, output.array.size)
        carry(where, f"{name}({describe(output)}, {op.name})", lambda c: c.reduce_scatter(send, receive, how), send)
        write(output, narrowed(receive, output.dtype, op, where.size()))
        return output

    return communicator.run(call, async_op)


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None, async_op: bool = False
) -> Work | None:
    """Give the group's rank i the i-th Tensor of every rank's list.

    Args:
        output_tensor_list: what is written: the i-th from rank i. Shapes may differ, as the senders' do.
        input_tensor_list: what is sent: the i-th to rank i. One dtype for all.
        group, async_op: see ``all_reduce``.

    Raises:
        RuntimeError: a list of another length than the group, or an input that does not fit its receiver's output.
    """
    name = "all_to_all"
    found = group_of(group)
    if found is None:
        return None
    where = found
    lists = {"output_tensor_list": output_tensor_list, "input_tensor_list": input_tensor_list}
    for argument, tensors in lists.items():
        _check_list(name, argument, tensors, None, where.size())
    dtype = input_tensor_list[0].dtype
    if any(x.dtype != dtype for tensors in lists.values() for x in tensors):
        raise RuntimeError(f"{name}: wanted one dtype, got {describe([*output_tensor_list, *input_tensor_list])}")

    def call() -> list[Tensor]:
        send = _joined(input_tensor_list)
        sent, received = ([x.array.size for x in tensors] for tensors in (input_tensor_list, output_tensor_list))
        receive = _exchange(where, name, send, sent, received)
        start = 0
        for into, count in zip(output_tensor_list, received, strict=True):
            write(into, receive[start : start + count])
            start += count
        return output_tensor_list

    return communicator.run(call, async_op)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """``all_to_all`` of parts of one Tensor along its first dimension.

    Args:
        output: what is written, one part after the other.
        input: what is sent.
        output_split_sizes, input_split_sizes: lengths of the parts; equal ones by default.
        group, async_op: see ``all_reduce``.

    Raises:
        RuntimeError: the parts do not add up to the Tensor, or do not fit their receivers'.
    """
    name = "all_to_all_single"
    found = group_of(group)
    tensor_of(name, "output", output)
    tensor_of(name, "input", input)
    if found is None:
        return None
    where = found
    if input.dtype != output.dtype:
        raise RuntimeError(f"{name}: wanted one dtype, got {describe(output)} and {describe(input)}")

    def counts(argument: str, tensor: Tensor, sizes: Sequence[int] | None) -> list[int]:
        length = tensor.shape[0] if tensor.ndim else 0
        if not sizes:
            if not tensor.ndim or length % where.size():
                raise RuntimeError(f"{name}: {argument}, {describe(tensor)}, has no {where.size()} equal parts")
            sizes = [length // where.size()] * where.size()
        if len(sizes) != where.size() or sum(sizes) != length:
            raise RuntimeError(f"{name}: {argument} {describe(tensor)} has no parts of {list(sizes)}")
        return [n * (tensor.array.size // max(1, length)) for n in sizes]

    received, sent = counts("output", output, output_split_sizes), counts("input", input, input_split_sizes)

    def call() -> Tensor:
        write(output, _exchange(where, name, flat(input.array), sent, received))
        return output

    return communicator.run(call, async_op)


def _exchange(where: ProcessGroup, name: str, send: Any, sent: list[int], received: list[int]) -> Any:
    """What comes of all ranks' sending: first how much, so that a misfit is told before anything is lost."""
    host = where.carrier(np.empty(0))
    mine, theirs = np.array(sent, np.int64), np.empty(len(sent), np.int64)
    ones = [1] * len(sent)
    where.run(f"{name}({send.dtype})", lambda: host.all_to_all(mine, theirs, ones, ones))
    wrong = [(rank, int(n), m) for rank, n, m in zip(where.ranks, theirs, received, strict=True) if n != m]
    receive = empty(send, sum(received))
    # Agreed upon, so that no rank waits for one that has found a misfit.
    bad = np.array([bool(wrong)], np.uint8)
    any_bad = np.empty_like(bad)
    where.run(f"{name}({send.dtype}), sizes", lambda: host.all_reduce(bad, any_bad, ReduceOp.MAX))
    if wrong:
        rank, n, m = wrong[0]
        me = where.ranks[where.rank()]
        raise RuntimeError(f"{name}: rank {rank} sends {n} elements to rank {me}, whose output has place for {m}")
    if any_bad[0]:
        raise RuntimeError(f"{name}: the sizes of other ranks' Tensors do not fit")
    carry(where, f"{name}({send.dtype}), data", lambda c: c.all_to_all(send, receive, sent, received), send)
    return receive


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None) -> Work | None:
    """Wait until all ranks of the group have come here.

    Args:
        group, async_op: see ``all_reduce``.
        device_ids: taken for compatibility.
    """
    found = group_of(group)
    if found is None:
        return None
    where = found
    return communicator.run(lambda: where.run("barrier()", None), async_op)


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """``barrier``: every one says who did not come."""
    barrier(group)


def _joined(tensors: Sequence[Tensor]) -> Any:
    rows = [flat(x.array) for x in tensors]
    return backend_of(rows[0]).xp.concatenate(rows)


def _check_list(name: str, argument: str, tensors: Any, like: Tensor | None, count: int) -> None:
    if not isinstance(tensors, (list, tuple)) or not all(isinstance(x, Tensor) for x in tensors):
        raise TypeError(f"{name}: {argument} must be a list of Tensors, got {describe(tensors)}")
    if len(tensors) != count:
        raise RuntimeError(f"{name}: {argument} must have a Tensor for each of {count} ranks, got {len(tensors)}")
    if like is not None and any(x.dtype != like.dtype or x.shape != like.shape for x in tensors):
        raise RuntimeError(f"{name}: {argument} must hold Tensors as {describe(like)}, got {describe(tensors)}")


def _check_sizes(name: str, argument: str, whole: Tensor, part: Tensor, count: int) -> None:
    if whole.array.size != part.array.size * count or whole.dtype != part.dtype:
        raise ValueError(
            f"{name}: {argument} must hold {count} times the elements of {describe(part)}, got {describe(whole)}"
        )


__all__ = [
    "all_gather", "all_gather_into_tensor", "all_reduce", "all_to_all", "all_to_all_single", "barrier", "broadcast",
    "gather", "monitored_barrier", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter",
]  # fmt: skip
