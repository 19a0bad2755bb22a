"""Differentiable collectives. The loss is the sum of the losses of all ranks, as in PyTorch.

The gradient of a linear collective is its transpose: all-reduce (sum) for all-reduce, reduce-scatter for all-gather.
All ranks must therefore run the backward pass through the same collectives in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...autograd.function import Function
from ...core.arrays.devices import backend_of
from ...core.tensor.tensor import Tensor, new_tensor
from ...ops.table.documentation import like
from .. import collectives as plain
from ..groups import group_of
from ..reduce_ops import ReduceOp


def _like(x: Tensor) -> Tensor:
    return new_tensor(backend_of(x.array).xp.empty(x.shape, x.dtype))


def _copy(x: Tensor) -> Tensor:
    return x.detach().clone()


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, op: ReduceOp, group: object, tensor: Tensor) -> Tensor:
        ctx.op, ctx.group = op, group
        result = _copy(tensor)
        plain.all_reduce(result, op, group)
        if op in (ReduceOp.MIN, ReduceOp.MAX, ReduceOp.PRODUCT):
            ctx.save_for_backward(tensor, result)
        return result

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.op in (ReduceOp.SUM, ReduceOp.AVG):
            return None, None, all_reduce(g, ctx.op, ctx.group)
        tensor, result = ctx.saved_tensors
        total = all_reduce(g, ReduceOp.SUM, ctx.group)
        if ctx.op is ReduceOp.PRODUCT:  # the product of the other ranks' elements
            return None, None, total * result / tensor
        # Ranks that attain the extreme value share its gradient equally.
        chosen = (tensor == result).to(g.dtype)
        return None, None, total * chosen / all_reduce(chosen, ReduceOp.SUM, ctx.group)


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, group: object, tensor: Tensor) -> Tensor:
        ctx.dst, ctx.group = dst, group
        result = _copy(tensor)
        plain.reduce(result, dst, ReduceOp.SUM, group)
        return result

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, broadcast(g, ctx.dst, ctx.group)


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: object, tensor: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        result = _copy(tensor)
        plain.broadcast(result, src, group)
        return result

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        total = all_reduce(g, ReduceOp.SUM, ctx.group)
        return None, None, total if _is(ctx.src, ctx.group) else total * 0


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, group: object, tensor: Tensor) -> Tensor:
        ctx.group = group
        process_group = group_of(group)
        assert process_group is not None
        rows = plain.gather_rows(process_group, "all_gather", tensor)
        return new_tensor(rows.reshape(process_group.size(), *tensor.shape))

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        return None, _ReduceScatter.apply(ReduceOp.SUM, ctx.group, g)


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, op: ReduceOp, group: object, stacked: Tensor) -> Tensor:
        ctx.op, ctx.group = op, group
        result = _like(stacked[0])
        plain.reduce_scatter(result, [stacked[i] for i in range(stacked.shape[0])], op, group)
        return result

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor | None, ...]:
        whole = _AllGather.apply(ctx.group, g)
        return None, None, whole if ctx.op is ReduceOp.SUM else whole / whole.shape[0]


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, group: object, shapes: Sequence[tuple[int, ...]], *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.group, ctx.shapes = group, [x.shape for x in tensors]
        outputs = [new_tensor(np.empty(shape, tensors[0].dtype)).to(tensors[0].device) for shape in shapes]
        plain.all_to_all(outputs, list(tensors), group)
        return tuple(outputs)

    @staticmethod
    def backward(ctx: Any, *gs: Tensor) -> tuple[Tensor | None, ...]:
        return None, None, *_AllToAll.apply(ctx.group, ctx.shapes, *gs)


def _is(rank: int, group: object) -> bool:
    process_group = group_of(group)
    return process_group is not None and process_group.ranks[process_group.rank()] == rank


@like(plain.reduce)
def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: object = None) -> Tensor:
    """Differentiable ``all_reduce``, out of place; the gradient of a sum is the sum of all ranks' gradients.

    Args:
        op: ``SUM``, ``AVG``, ``MIN``, ``MAX`` or ``PRODUCT``.
    """
    return _AllReduce.apply(op, group, tensor)


def all_gather(tensor: Tensor, group: object = None) -> tuple[Tensor, ...]:
    """Return the Tensors of all ranks. The gradient is the sum over ranks of the gradients of this rank's Tensor."""
    return tuple(_AllGather.apply(group, tensor).unbind(0))


def gather(tensor: Tensor, dst: int = 0, group: object = None) -> tuple[Tensor, ...]:
    """Return the Tensors of all ranks on rank ``dst``, and zeros on the others."""
    found = all_gather(tensor, group)
    return found if _is(dst, group) else tuple(x * 0 for x in found)


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: ReduceOp = ReduceOp.SUM, group: object = None
) -> Tensor:
    """Return the sum over ranks of the i-th Tensors on rank i; ``output`` is not used."""
    from ..._generated.toplevel import stack

    return _ReduceScatter.apply(op, group, stack(list(input_list)))


def scatter(tensors: Sequence[Tensor], src: int = 0, group: object = None) -> Tensor:
    """Return the Tensor for this rank from rank ``src``'s list."""
    from ..._generated.toplevel import stack

    process_group = group_of(group)
    assert process_group is not None
    return _Broadcast.apply(src, group, stack(list(tensors)))[process_group.rank()]


def broadcast(tensor: Tensor, src: int = 0, group: object = None) -> Tensor:
    """Return rank ``src``'s Tensor. The gradient on ``src`` is the sum of all ranks' gradients, elsewhere zero."""
    return _Broadcast.apply(src, group, tensor)


def reduce(tensor: Tensor, dst: int = 0, op: ReduceOp = ReduceOp.SUM, group: object = None) -> Tensor:
    """Return the sum over ranks on rank ``dst`` and ``tensor`` elsewhere; the gradient comes from rank ``dst``."""
    if op is not ReduceOp.SUM:
        raise RuntimeError(f"reduce: only ReduceOp.SUM is differentiable, got {op}")
    return _Reduce.apply(dst, group, tensor)


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: object = None
) -> tuple[Tensor, ...]:
    """Return the i-th Tensors of all ranks on rank i, in the outputs' shapes."""
    return _AllToAll.apply(group, [x.shape for x in output_tensor_list], *input_tensor_list)


__all__ = [
    "all_gather", "all_reduce", "all_to_all", "broadcast", "gather", "reduce", "reduce_scatter", "scatter",
]  # fmt: skip
