"""Tensors of random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays.devices import all_examples
from ...core.arrays.dtypes import INEXACT, DType, as_dtype
from ...core.arrays.layout import broadcast_shapes
from ...core.errors import describe
from ...core.graph.primitive import operand
from ...core.tensor.tensor import Tensor, new_tensor
from ..table.arguments import integer
from ..table.registry import operator
from ..table.types import DeviceLike, DTypeLike, Operand, Size
from .creation import create, dtype_or_default, shape_of, with_grad
from .generators import Generator
from .random_arrays import check_within, integers, permutation, standard_normal, uniform

Draw = Callable[[Any, tuple[int, ...], DType, Generator | None], Any]


def _random(
    draw: Draw,
    shape: tuple[int, ...],
    dtype: DTypeLike | None,
    device: DeviceLike | None,
    requires_grad: bool,
    generator: Generator | None,
) -> Tensor:
    kind = dtype_or_default(dtype)
    if kind.kind not in INEXACT:
        raise NotImplementedError(f"not implemented for {kind}; expected a floating dtype")
    return create(lambda xp: draw(xp, shape, kind, generator), device, requires_grad)


@operator(method=False, differentiable=False, raises="length, dtype floating", args="size or shape")
def rand(
    *size: Size,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    **keywords: Size,
) -> Tensor:
    """Numbers uniform on ``[0, 1)``.

    Shape: ``rand(2, 3)`` and ``rand((2, 3))`` are of shape (2, 3).
    Dtype: floating; by default the default dtype.

    >>> rg.rand(2, 3).shape
    (2, 3)
    """
    return _random(uniform, shape_of(size, keywords), dtype, device, requires_grad, generator)


@operator(method=False, differentiable=False, like=rand)
def randn(
    *size: Size,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    **keywords: Size,
) -> Tensor:
    """``out[i] ~ N(0, 1)``: numbers normal with mean 0 and variance 1.

    Shape: ``randn(2, 3)`` and ``randn((2, 3))`` are of shape (2, 3).
    Dtype: floating and complex, by default the default dtype. Complex numbers have variance 1: 1/2 for each part.

    >>> rg.randn(2, 3).shape
    (2, 3)
    """
    return _random(standard_normal, shape_of(size, keywords), dtype, device, requires_grad, generator)


@operator(method=False, differentiable=False, args="input like, dtype like, device like", raises="dtype floating")
def rand_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Numbers uniform on ``[0, 1)``, in the shape, dtype and device of ``input``.

    Dtype: floating, or complex with both parts drawn; by default the input's.

    >>> rg.rand_like(rg.zeros(2, 3)).shape
    (2, 3)
    """
    x = operand(input)
    dtype, device = x.dtype if dtype is None else dtype, x.device if device is None else device
    return _random(uniform, x.shape, dtype, device, requires_grad, generator)


@operator(method=False, differentiable=False, like=rand_like)
def randn_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Numbers normal with mean 0 and variance 1, in the shape, dtype and device of ``input``.

    Dtype: floating and complex; by default the input's.

    >>> rg.randn_like(rg.zeros(2, 3)).shape
    (2, 3)
    """
    x = operand(input)
    dtype, device = x.dtype if dtype is None else dtype, x.device if device is None else device
    return _random(standard_normal, x.shape, dtype, device, requires_grad, generator)


@operator(method=False, differentiable=False, shape="size", dtype="default int64", args="dtype int64")
def randint(
    low: int = 0,
    high: int | Size | None = None,
    size: Size | None = None,
    *,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Integers uniform on ``low, ..., high - 1``: ``randint(high, size)`` or ``randint(low, high, size)``.

    Args:
        low: the smallest integer, by default 0.
        high: one more than the largest integer.

    Raises:
        RuntimeError: ``low`` is not less than ``high``, or the dtype does not hold the numbers between them.

    >>> rg.randint(5, (2,)).dtype
    retrograd.int64
    """
    if size is None:
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    if size is None:
        raise TypeError("the size is missing; call randint(low, high, size)")
    start, stop = integer(low, "low"), integer(high, "high")
    if start >= stop:
        raise RuntimeError(f"expected low to be less than high, got low={start} and high={stop}")
    shape = shape_of((size,))
    kind = np.dtype(np.int64) if dtype is None else as_dtype(dtype)
    check_within(kind, start, stop)
    return create(
        lambda xp: integers(xp, start, stop, shape, generator).astype(kind, copy=False), device, requires_grad
    )


@operator(
    method=False,
    differentiable=False,
    real=True,
    shape="same",
    like=randint,
    args="input like, dtype like, device like",
)
def randint_like(
    input: Tensor,
    low: int | None = None,
    high: int | None = None,
    *,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Integers uniform on ``low, ..., high - 1``, in the shape, dtype and device of ``input``.

    Dtype: any but complex; by default the input's.

    Args:
        low: the smallest integer, by default 0; a single bound is ``high``.

    >>> rg.randint_like(rg.zeros(2, 3), 5).shape
    (2, 3)
    """
    x = operand(input)
    if high is None:
        low, high = 0, integer(low, "high")
    dtype, device = x.dtype if dtype is None else dtype, x.device if device is None else device
    return randint(
        low or 0, high, x.shape, generator=generator, dtype=dtype, device=device, requires_grad=requires_grad
    )


@operator(method=False, differentiable=False, like=randint, shape="vector")
def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``0, ..., n - 1`` in random order.

    Args:
        n: the number of integers.

    Raises:
        RuntimeError: ``n`` is negative.

    >>> rg.randperm(4).sort().values
    tensor([0, 1, 2, 3])
    """
    (count,) = shape_of((integer(n, "n"),))
    kind = np.dtype(np.int64 if dtype is None else dtype)

    return create(lambda xp: permutation(xp, (count,), generator).astype(kind, copy=False), device, requires_grad)


@operator(method=False, differentiable=False, real=True, args="mean, std")
def normal(
    mean: Operand = 0.0,
    std: Operand = 1.0,
    size: Size | None = None,
    *,
    generator: Generator | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``mean + std * z``, where z is normal with mean 0 and variance 1.

    Shape: that of ``mean`` and ``std`` broadcast, or ``size`` where both are numbers.
    Dtype: floating; that of ``mean``, or of ``std`` where mean is a number.

    Args:
        size: the lengths of the dimensions, where mean and std are numbers.
        dtype: the dtype where mean and std are numbers, by default the default dtype.
        device: the device where mean and std are numbers, by default the default device.

    Raises:
        RuntimeError: a standard deviation is negative.

    >>> rg.normal(0.0, 1.0, (2, 3)).shape, rg.normal(rg.zeros(3), 2.0).shape
    ((2, 3), (3,))
    """
    deviation = operand(std, "std").array
    if deviation.size and not bool((all_examples(deviation) >= 0).all()):
        raise RuntimeError(f"expects every std >= 0, got {describe(std)}")
    if size is not None:
        noise = randn(size, generator=generator, dtype=dtype, device=device)
    else:
        tensors = [value for value in (mean, std) if isinstance(value, Tensor)]
        if not tensors:
            raise TypeError("pass size, or a Tensor for mean or std")
        shape = broadcast_shapes(*[value.shape for value in tensors])
        noise = randn(shape, generator=generator, dtype=tensors[0].dtype, device=tensors[0].device)
    result = noise.array * deviation + operand(mean, "mean").array
    return with_grad(new_tensor(result.astype(noise.array.dtype, copy=False)), requires_grad)
