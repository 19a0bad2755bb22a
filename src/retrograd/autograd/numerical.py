"""Numerical derivatives by central differences, which are independent of the derivative rules and used to check them.

A complex number is treated as a pair of real ones: ``as_real`` returns an array as a vector of real coordinates, in
which PyTorch's gradient of a real function (``dL/dRe + i dL/dIm``) is the usual gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.arrays import Array
from ..core.arrays.devices import array_module, backend_of
from ..core.arrays.dtypes import is_differentiable
from ..core.errors import describe
from ..core.graph.modes import no_grad
from ..core.tensor.tensor import Tensor, new_tensor
from ..ops.make.creation import as_tensor

# The truncation error grows with the square of the step, the rounding error with its inverse. For values near 1 in
# float64, the two are equal near the cube root of the machine epsilon.
STEP = 6e-6


def numerical_gradient(func: Callable[..., object], *inputs: object, eps: float = STEP) -> Any:
    """Return the gradient of a scalar function, computed by central differences in float64.

    Each element is ``(f(x + eps) - f(x - eps)) / (2 eps)``. The truncation error is about ``eps**2 / 6`` times the
    third derivative of f, and the rounding error about ``1e-16 / eps`` times f.

    Args:
        func: takes float64 copies of the inputs, returns a Tensor with one element.
        inputs: Tensors, arrays or numbers.
        eps: the step.

    Returns:
        A float64 (or complex128) Tensor of the input's shape, or a tuple of these for several inputs.

    Raises:
        TypeError: an input is neither floating nor complex.
        RuntimeError: the result is not a single number.

    >>> from retrograd.autograd.numerical import numerical_gradient
    >>> gradient = numerical_gradient(lambda x: (x * x * x).sum(), rg.tensor([1.0, 2.0]))
    >>> [round(value, 6) for value in gradient.tolist()]
    [3.0, 12.0]
    """
    copies = [_double(index, value) for index, value in enumerate(inputs)]

    def scalar(*values: Tensor) -> list[Tensor]:
        result = func(*values)
        if not isinstance(result, Tensor):
            result = new_tensor(np.asarray(result))
        if result.array.size != 1:
            raise RuntimeError(f"numerical_gradient: the function must return a single number, got {describe(result)}")
        return [result]

    (rows,) = numerical_jacobian(scalar, copies, eps)
    gradients = tuple(
        new_tensor(backend_of(x.array).asarray(from_real(row[0], x.array.shape, x.array.dtype)))
        for row, x in zip(rows, copies, strict=True)
    )
    return gradients[0] if len(gradients) == 1 else gradients


def _double(index: int, value: object) -> Tensor:
    tensor = value if isinstance(value, Tensor) else as_tensor(value)
    if not is_differentiable(tensor.dtype):
        raise TypeError(f"numerical_gradient: input {index} must be floating or complex, got {describe(tensor)}")
    dtype = np.dtype("c16" if tensor.dtype.kind == "c" else "f8")
    return new_tensor(tensor.array.astype(dtype))


def numerical_jacobian(
    func: Callable[..., Sequence[Tensor]],
    inputs: Sequence[Tensor],
    eps: float = STEP,
    columns: Sequence[Sequence[int] | None] | None = None,
) -> list[list[np.ndarray]]:
    """Return the Jacobians of a function's outputs with respect to its inputs, by central differences.

    The inputs' memory is changed in place and restored, so a function may also read an input from elsewhere, as a
    module reads its parameters.

    Args:
        func: takes the inputs, returns a sequence of Tensors.
        inputs: floating or complex Tensors.
        eps: the step.
        columns: per input, the real coordinates to differentiate with respect to; by default all.

    Returns:
        Per output, per input, a matrix ``(real coordinates of the output, columns)``.
    """
    with no_grad():
        sizes = [as_real(output.array).size for output in func(*inputs)]
        jacobians = [[np.zeros((size, 0))] * len(inputs) for size in sizes]
        for index, x in enumerate(inputs):
            wanted = None if columns is None else columns[index]
            places = range(real_size(x)) if wanted is None else wanted
            differences = [_difference(func, inputs, x.array, place, eps) for place in places]
            for output in range(len(sizes) if differences else 0):
                jacobians[output][index] = np.stack([column[output] for column in differences], axis=1)
    return jacobians


def _difference(
    func: Callable[..., Sequence[Tensor]], inputs: Sequence[Tensor], array: Array, place: int, eps: float
) -> list[np.ndarray]:
    """Return one column: the derivative of every output with respect to one real coordinate of one input."""
    complex_parts = array.dtype.kind == "c"
    position = np.unravel_index(place // 2 if complex_parts else place, array.shape)
    unit = 1j if complex_parts and place % 2 else 1.0
    before = array[position].item()
    try:
        array[position] = before + eps * unit
        above = array[position].item()
        high = [as_real(output.array) for output in func(*inputs)]
        array[position] = before - eps * unit
        below = array[position].item()
        low = [as_real(output.array) for output in func(*inputs)]
    finally:
        array[position] = before
    step = ((above - below) / unit).real
    # Equal values have the difference 0, even if they are infinite.
    with np.errstate(invalid="ignore"):
        return [np.where(up == down, 0.0, (up - down) / step) for up, down in zip(high, low, strict=True)]


def directional_differences(
    func: Callable[..., Sequence[Tensor]], inputs: Sequence[Tensor], x: Tensor, direction: np.ndarray
) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the derivative of every output along a direction of one input, in real coordinates.

    The second result is the direction that was taken: ``direction`` as rounded when it was added to the input.
    """
    array, before = x.array, x.array.copy()
    step = STEP * from_real(direction, array.shape, array.dtype)
    with no_grad():
        try:
            array[...] = before + step
            above = as_real(array)
            high = [as_real(output.array) for output in func(*inputs)]
            array[...] = before - step
            below = as_real(array)
            low = [as_real(output.array) for output in func(*inputs)]
        finally:
            array[...] = before
    # Equal values have the difference 0, even if they are infinite.
    with np.errstate(invalid="ignore"):
        return [np.where(up == down, 0.0, (up - down) / (2 * STEP)) for up, down in zip(high, low, strict=True)], (
            above - below
        ) / (2 * STEP)


def real_size(x: Tensor) -> int:
    """Return the number of real coordinates of a Tensor."""
    return int(x.array.size) * (2 if x.array.dtype.kind == "c" else 1)


def as_real(array: Array) -> np.ndarray:
    """Return a copy of the array as a NumPy vector of real coordinates in float64."""
    array = backend_of(array).to_numpy(array)
    flat = np.array(array, dtype=np.complex128 if array.dtype.kind == "c" else np.float64).reshape(-1)
    return flat.view(np.float64)


def from_real(vector: np.ndarray, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Return the array with the given real coordinates: the inverse of ``as_real``."""
    wide = np.ascontiguousarray(vector, np.float64)
    return (wide.view(np.complex128) if dtype.kind == "c" else wide).reshape(shape).astype(dtype)


def unit_cotangent(output: Tensor, place: int) -> Tensor:
    """Return a Tensor like ``output`` that is 1 in one real coordinate and 0 elsewhere."""
    array = array_module(output).zeros(output.array.shape, output.array.dtype)
    complex_parts = array.dtype.kind == "c"
    position = np.unravel_index(place // 2 if complex_parts else place, array.shape)
    array[position] = 1j if complex_parts and place % 2 else 1.0
    return new_tensor(array)
