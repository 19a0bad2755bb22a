"""Broadcasting without a copy, and its adjoint, a sum."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import array_module
from ...core.arrays.layout import broadcast_shapes
from ...core.errors import describe
from ...core.graph.fitting import unbroadcast
from ...core.graph.primitive import Primitive, operand
from ...core.tensor.tensor import Tensor
from ..table.arguments import integers, only_keyword
from ..table.registry import operator
from ..table.types import Operand, Size
from .shape import apply_view, reshape

if TYPE_CHECKING:
    from ...core.mapping.batching import Call


def _expand(x: Array, shape: tuple[int, ...]) -> Array:
    if x.shape == shape:
        return x[...]
    if type(x) is np.ndarray and x.flags.c_contiguous and x.size:
        strides = _expanded_strides(x.shape, x.strides, shape)
        if strides is not None:  # otherwise broadcast_to raises the error
            return np.ndarray(shape, x.dtype, x, 0, strides)
    out = array_module(x).broadcast_to(x, shape)
    if getattr(x.flags, "writeable", False):
        out.flags.writeable = True  # NumPy returns a read-only view, but parts of it without overlap may be written.
    return out


@lru_cache(maxsize=256)
def _expanded_strides(own: tuple[int, ...], strides: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the strides after broadcasting to the shape, or None if the shapes do not broadcast."""
    new = len(shape) - len(own)
    axes = list(zip(own, strides, shape[new:], strict=True))
    if any(length not in (1, wanted) for length, _, wanted in axes):
        return None
    return (0,) * new + tuple([step if length == wanted else 0 for length, step, wanted in axes])


def _expand_examples(call: Call) -> Tensor:
    x, shape = call.full(0), tuple(call.params["shape"])
    own = x.array.shape
    x = x.reshape((own[0],) + (1,) * (len(shape) + 1 - len(own)) + own[1:])
    return call.below([x], {"shape": (call.size, *shape)})


EXPAND: Primitive = Primitive(
    "expand", _expand, "x", [lambda g, x_shape: unbroadcast(g, x_shape)], view=True, batch=_expand_examples
)


@operator(namespace="Tensor", derivative="summed over repeats")
def expand(self: Tensor, *sizes: Size, **keywords: Size) -> Tensor:
    """``out[i, j] = input[0, j]``: a view in which dimensions of length 1 are repeated to the given lengths.

    Since elements share memory, the result can only be filled with one value. Views of the result whose elements do not
    share memory can be written.

    Shape: (*) to ``sizes``, which may prepend new dimensions.

    Args:
        sizes: the lengths, as separate arguments or as a sequence; -1 keeps a length.

    Raises:
        RuntimeError: the length of a dimension other than 1 would change, or there are too few lengths.

    >>> rg.tensor([[1], [2]]).expand(-1, 3)
    tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    if keywords:
        sizes = (only_keyword("size", sizes, keywords),)
    lengths = integers(sizes)
    own = self.array.shape
    new = len(lengths) - len(own)
    least = min(lengths, default=0)
    if new < 0 or least < 0 and any(length < (0 if place < new else -1) for place, length in enumerate(lengths)):
        raise RuntimeError(
            f"expand({describe(self)}, {lengths}): expected at least {len(own)} lengths, -1 only for own dimensions"
        )
    shape = lengths
    if least < 0:
        shape = tuple([own[place - new] if length == -1 else length for place, length in enumerate(lengths)])
    return apply_view(EXPAND, self, {"shape": shape})


@operator(namespace="Tensor", dtype="same", args="other shape")
def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """``self.expand(other.shape)``.

    Derivative: ``g`` summed over the repeated dimensions; none to ``other``.
    Shape: any that broadcasts to the shape of ``other``.

    Raises:
        RuntimeError: the shape does not broadcast to that of ``other``.

    >>> rg.ones(1, 2).expand_as(rg.zeros(3, 2)).shape
    (3, 2)
    """
    return expand(self, other.shape)


@operator(derivative="summed over repeats")
def broadcast_to(input: Tensor, size: Size) -> Tensor:
    """``input.expand(size)``.

    Shape: any that broadcasts to ``size``.

    Args:
        size: the shape of the result.

    Raises:
        RuntimeError: the input does not broadcast to the size.

    >>> rg.broadcast_to(rg.tensor([1, 2]), (2, 2))
    tensor([[1, 2],
            [1, 2]])
    """
    return expand(operand(input), size)


@operator(method=False, raises="broadcast", derivative="summed over repeats")
def broadcast_tensors(*tensors: Operand) -> tuple[Tensor, ...]:
    """``broadcast_to(x, shape)`` of each Tensor, as a view, to their common shape.

    Shape: any that broadcast; all results have the common shape.
    Dtype: any; each result has the dtype of its input.

    Args:
        tensors: the Tensors, as separate arguments.

    >>> [x.shape for x in rg.broadcast_tensors(rg.zeros(3, 1), rg.zeros(2))]
    [(3, 2), (3, 2)]
    """
    inputs = [operand(x, "tensors") for x in tensors]
    try:
        shape = broadcast_shapes(*[x.array.shape for x in inputs])
    except ValueError:
        raise RuntimeError(f"the shapes do not broadcast: {', '.join(map(describe, inputs))}") from None
    return tuple([apply_view(EXPAND, x, {"shape": shape}) for x in inputs])


@operator(namespace="Tensor", shape="to size")
def sum_to_size(self: Tensor, *size: Size, **keywords: Size) -> Tensor:
    """The sum over the dimensions along which ``size`` broadcasts to the shape of this Tensor.

    Derivative: ``g`` expanded to the input's shape.
    Dtype: any; sums of integers are int64.

    Args:
        size: the lengths, as separate arguments or as a sequence.

    Raises:
        RuntimeError: ``size`` does not broadcast to the shape.

    >>> rg.ones(2, 3).sum_to_size(1, 3)
    tensor([[2., 2., 2.]])
    """
    if keywords:
        size = (only_keyword("size", size, keywords),)
    shape, own = integers(size), self.array.shape
    new = len(own) - len(shape)
    if new < 0 or any(length not in (1, own[place + new]) for place, length in enumerate(shape)):
        raise RuntimeError(f"{shape} does not broadcast to the shape of {describe(self)}")
    dims = [*range(new), *[place + new for place, length in enumerate(shape) if length != own[place + new]]]
    if not shape:  # also for 0-d Tensors: their integers become int64, as in PyTorch
        return self.sum()
    return reshape(self.sum(tuple(dims)), shape) if dims else self
