"""Properties of a Tensor: its size, memory layout and kind of dtype."""

from __future__ import annotations

from typing import overload

from ...core.arrays.devices import backend_of
from ...core.arrays.dtypes import FLOATING
from ...core.graph.primitive import operand
from ...core.tensor.tensor import Tensor
from ..table.arguments import dimension
from ..table.registry import operator


@operator(differentiable=False, aliases=("nelement",), shape="any", dtype="any")
def numel(input: Tensor) -> int:
    """``shape[0] * ... * shape[n - 1]``: the number of elements.

    >>> rg.zeros(2, 3).numel()
    6
    """
    return operand(input).array.size


@overload
def size(self: Tensor, dim: None = None) -> tuple[int, ...]: ...
@overload
def size(self: Tensor, dim: int) -> int: ...
@operator(namespace="Tensor", differentiable=False, shape="any", dtype="any")
def size(self: Tensor, dim: int | None = None) -> tuple[int, ...] | int:
    """``self.shape``, or ``self.shape[dim]``.

    Args:
        dim: the dimension; None for the whole shape.

    >>> rg.zeros(2, 3).size(), rg.zeros(2, 3).size(-1)
    ((2, 3), 3)
    """
    if dim is None:
        return self.shape
    if not self.array.ndim:
        raise IndexError(f"dimension {dim} is out of range: the Tensor has no dimensions")
    return self.array.shape[dimension(dim, self.array.ndim)]


@operator(namespace="Tensor", differentiable=False, aliases=("ndimension",), shape="any", dtype="any")
def dim(self: Tensor) -> int:
    """``len(self.shape)``: the number of dimensions.

    >>> rg.zeros(2, 3).dim()
    2
    """
    return self.array.ndim


@operator(namespace="Tensor", differentiable=False, like=dim)
def element_size(self: Tensor) -> int:
    """``nbytes / numel``: bytes per element.

    >>> rg.zeros(2).element_size()
    4
    """
    return self.array.dtype.itemsize


@overload
def stride(self: Tensor, dim: None = None) -> tuple[int, ...]: ...
@overload
def stride(self: Tensor, dim: int) -> int: ...
@operator(namespace="Tensor", differentiable=False, like=size)
def stride(self: Tensor, dim: int | None = None) -> tuple[int, ...] | int:
    """``address(x[i + 1]) - address(x[i])`` in elements, per dimension or along one.

    Args:
        dim: the dimension; None for all.

    >>> rg.zeros(2, 3).stride(), rg.zeros(1, 3).expand(2, 3).stride()
    ((3, 1), (0, 1))
    """
    array = self.array
    steps = [step // array.dtype.itemsize for step in array.strides]
    # Along dimensions of length 1, NumPy's stride may be 0; PyTorch's is that of row-major order. New empty arrays
    # of NumPy have strides 0, and empty views the strides of their base.
    empty = 0 in array.shape and not all(steps)
    following = 1
    for place in reversed(range(len(steps))):
        if empty or steps[place] == 0 and array.shape[place] == 1:
            steps[place] = following
        following = steps[place] * max(1, array.shape[place])
    return tuple(steps) if dim is None else steps[dimension(dim, len(steps))]


@operator(namespace="Tensor", differentiable=False, like=dim)
def is_contiguous(self: Tensor) -> bool:
    """``stride[i] = stride[i + 1] * shape[i + 1]``: whether the elements are in row-major order without gaps.

    >>> rg.zeros(2, 3).is_contiguous(), rg.zeros(2, 3).T.is_contiguous()
    (True, False)
    """
    return bool(self.array.flags.c_contiguous)


@operator(namespace="Tensor", differentiable=False, like=dim)
def data_ptr(self: Tensor) -> int:
    """``address(x[0, ..., 0])``: the address of the first element in memory, in bytes.

    0 if there are no elements, and on the device ``meta``.

    >>> x = rg.zeros(4)
    >>> x[1:].data_ptr() - x.data_ptr()
    4
    """
    backend = backend_of(self.array)
    return 0 if backend.name == "meta" or not self.array.size else backend.address(self.array)


@operator(differentiable=False, like=numel)
def is_floating_point(input: Tensor) -> bool:
    """``dtype in (float16, float32, float64)``: whether the elements are real floating numbers.

    >>> rg.is_floating_point(rg.zeros(1)), rg.is_floating_point(rg.arange(1))
    (True, False)
    """
    return operand(input).array.dtype.kind in FLOATING


@operator(differentiable=False, like=numel)
def is_complex(input: Tensor) -> bool:
    """``dtype in (complex64, complex128)``: whether the elements are complex numbers.

    >>> rg.is_complex(rg.tensor(1j)), rg.is_complex(rg.zeros(1))
    (True, False)
    """
    return operand(input).array.dtype.kind == "c"
