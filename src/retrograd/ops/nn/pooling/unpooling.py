"""The partial inverses of maximum pooling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from ....core.arrays.devices import all_examples
from ....core.errors import InvalidValue, describe
from ....core.graph.primitive import apply, operand
from ....core.tensor.tensor import Tensor
from ...table.arguments import floating_operand
from ...table.types import Size
from ..spatial.sliding_windows import for_axes, per_axis, with_batch
from .sliding import WRITE_AT, strides_of


def _max_unpool(
    axes: int,
    input: Tensor,
    indices: Tensor,
    kernel_size: Size,
    stride: Size | None,
    padding: Size,
    output_size: Sequence[int] | None,
) -> Tensor:
    x, single = with_batch(floating_operand(input), axes)
    places = operand(indices, "indices")
    if places.dtype != np.int64:
        raise RuntimeError(f"indices must be int64, got {describe(places)}")
    if 0 in x.array.shape[2 if single else 1 :]:
        raise RuntimeError(f"expected input with non-zero dimensions after the batch, but got {describe(x)}")
    if places.array.shape != operand(input).array.shape:
        raise RuntimeError(f"indices must have the input's shape, got {describe(input)} and {describe(places)}")
    kernel = per_axis("kernel_size", kernel_size, axes, 1)
    strides = strides_of(stride, kernel)
    paddings = per_axis("padding", padding, axes)
    size = tuple([(t - 1) * s + k - 2 * p for t, s, k, p in zip(x.array.shape[2:], strides, kernel, paddings)])
    if output_size is not None:
        wanted = tuple(output_size)[2:] if len(output_size) == axes + 2 else tuple(output_size)
        if len(wanted) != axes:
            raise InvalidValue(f"output_size must have {axes} or {axes + 2} elements, got {describe(output_size)}")
        for axis, (least, s, length) in enumerate(zip(size, strides, wanted)):
            if not least - s < length < least + s:
                raise InvalidValue(
                    f"invalid output_size {tuple(output_size)} (dim {axis} must be between {least - s} and {least + s})"
                )
        size = wanted
    if min(size) < 0:
        raise InvalidValue(f"the output size {size} is negative for input {describe(input)}")
    index = places.array.copy()  # a copy for the backward pass, unaffected by later writes to the indices
    index = index[None] if single else index
    numbers = all_examples(index)
    if numbers.size and bool(((numbers < 0) | (numbers >= prod(size))).any()):
        raise RuntimeError(f"found an invalid max index (output volumes are of size {size}), in {describe(places)}")
    result = apply(WRITE_AT, (x,), {"index": index, "size": size})
    return result[0] if single else result


def _define(axes: int) -> Callable[..., Tensor]:
    """The partial inverse of ``max_pool{n}d``: each element goes back to where it was found, the rest is zero.

    Of elements with one index the last is written.

    Derivative: ``g`` at the index of each element, also of those that were written over.
    Shape: {input}; per axis
    ``(L - 1) * stride + kernel_size - 2 * padding``, unless ``output_size`` is given.
    Dtype: real floating, kept; the indices are int64.

    Args:
        input: the maxima.
        indices: of the input's shape, as ``max_pool{n}d`` returns them.
        kernel_size, stride, padding: the pooling's.
        output_size: the size of the pooling's input, by default the smallest it may have had.

    Raises:
        RuntimeError: the shapes differ, or an index is out of range.
        ValueError: ``output_size`` can't have been that of the pooling's input.
    """

    def max_unpool(
        input: Tensor,
        indices: Tensor,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        output_size: Sequence[int] | None = None,
    ) -> Tensor:
        return _max_unpool(axes, input, indices, kernel_size, stride, padding, output_size)

    return max_unpool


max_unpool1d, max_unpool2d, max_unpool3d = for_axes(
    _define,
    {
        1: """>>> F.max_unpool1d(rg.tensor([[[3.0, 2.0]]]), rg.tensor([[[1, 2]]]), 2)
    tensor([[[0., 3., 2., 0.]]])""",
        2: """>>> output, indices = F.max_pool2d(rg.arange(4.0).reshape(1, 1, 2, 2), 2, return_indices=True)
    >>> F.max_unpool2d(output, indices, 2)
    tensor([[[[0., 0.],
              [0., 3.]]]])""",
        3: """>>> output, indices = F.max_pool3d(rg.ones(1, 1, 2, 2, 2), 2, return_indices=True)
    >>> F.max_unpool3d(output, indices, 2).shape
    (1, 1, 2, 2, 2)""",
    },
    real=True,
)
