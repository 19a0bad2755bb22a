"""Combined operations: interpolation, and sums with products and quotients."""

from __future__ import annotations

from ...core.arrays.dtypes import FLOATING, INEXACT, can_cast, float32, result_type
from ...core.arrays.python_numbers import converted
from ...core.graph.primitive import Primitive, apply, apply2, operand
from ...core.tensor.tensor import Tensor
from ...kernels.loops.elements.elementwise import in_one_pass
from ..table.elementwise_primitives import ARITHMETIC, elementwise
from ..table.registry import operator
from ..table.types import Number, Operand
from .arithmetic import ADD, DIV, MUL


@operator(inplace=True, shape="broadcast")
def addcmul(input: Tensor, tensor1: Operand, tensor2: Operand, *, value: Number = 1) -> Tensor:
    """``input + value * tensor1 * tensor2``, elementwise.

    Derivative: input: ``g``; tensor1: ``g * value * tensor2``; tensor2: ``g * value * tensor1``.
    Dtype: PyTorch's result type of all three.

    Args:
        tensor1: the first factor.
        tensor2: the second factor.
        value: a factor for the product.

    Raises:
        RuntimeError: the shapes do not broadcast, or ``value`` is beyond the range of the result.

    >>> rg.addcmul(rg.tensor([1.0]), rg.tensor([2.0]), rg.tensor([3.0]), value=10)
    tensor([61.])
    """
    return _sum_with(MUL, operand(input), operand(tensor1, "tensor1"), operand(tensor2, "tensor2"), value)


def _sum_with(primitive: Primitive, x: Tensor, y: Tensor, z: Tensor, value: Number) -> Tensor:
    """Return ``x + value * primitive(y, z)`` in the common result type; half precision is computed in float32."""
    dtype = result_type(x.array, y.array, z.array)
    if dtype.itemsize == 2 and dtype.kind in FLOATING:
        return _sum_with(primitive, x.to(float32), y.to(float32), z.to(float32), value).to(dtype)
    if dtype.kind == "b":
        raise NotImplementedError("is not defined for bools")
    if not (x.array.dtype is y.array.dtype is z.array.dtype):
        x, y, z = x.to(dtype), y.to(dtype), z.to(dtype)
    term, factor = apply2(primitive, y, z), converted(value, dtype)
    return apply2(ADD, x, term if factor == 1 else apply2(MUL, term, factor))


@operator(inplace=True, shape="broadcast")
def addcdiv(input: Tensor, tensor1: Operand, tensor2: Operand, *, value: Number = 1) -> Tensor:
    """``input + value * tensor1 / tensor2``, elementwise.

    Derivative: input: ``g``; tensor1: ``g * value / tensor2``; tensor2: ``-g * value * tensor1 / tensor2^2``, infinite
    or NaN where tensor2 is 0.
    Dtype: PyTorch's result type of all three; tensor1 and tensor2 are not both integers.

    Args:
        tensor1: the dividend.
        tensor2: the divisor.
        value: a factor for the quotient.

    Raises:
        RuntimeError: tensor1 and tensor2 are both of integers, or ``value`` is beyond the range of the result.

    >>> rg.addcdiv(rg.tensor([1.0]), rg.tensor([2.0]), rg.tensor([4.0]), value=10)
    tensor([6.])
    """
    dividend, divisor = operand(tensor1, "tensor1"), operand(tensor2, "tensor2")
    if dividend.array.dtype.kind in "iub" and divisor.array.dtype.kind in "iub":
        raise RuntimeError(
            f"division of integers is not supported: tensor1 is {dividend.dtype}, tensor2 {divisor.dtype}; convert one "
            "to a floating dtype"
        )
    return _sum_with(DIV, operand(input), dividend, divisor, value)


LERP = elementwise(
    "lerp",
    in_one_pass(ARITHMETIC["lerp"]),
    "x y weight",
    [lambda g, weight: g * (1 - weight), lambda g, weight: g * weight, lambda g, x, y: g * (y - x)],
    promote="strict",
    signals=True,
)
LERP_NUMBER = elementwise(
    "lerp",
    in_one_pass(ARITHMETIC["lerp_number"]),
    "x y",
    [lambda g, weight: g * (1 - weight), lambda g, weight: g * weight],
    promote="strict",
    signals=True,
)


@operator(inplace=True, shape="broadcast")
def lerp(input: Tensor, end: Operand, weight: Operand) -> Tensor:
    """``input + weight * (end - input)``, elementwise: linear interpolation, exact at both ends.

    Derivative: input: ``g * (1 - weight)``; end: ``g * weight``; weight: ``g * (end - input)``.
    Dtype: floating and complex, the same for all.

    Args:
        input: the value at weight 0.
        end: the value at weight 1.
        weight: the fraction of the way from ``input`` to ``end``; may lie outside ``[0, 1]``.

    Raises:
        RuntimeError: the dtypes differ, or the number ``weight`` is beyond the range of the dtype.
        NotImplementedError: the Tensors are not floating.

    >>> rg.lerp(rg.tensor([0.0, 10.0]), rg.tensor([10.0, 20.0]), 0.25)
    tensor([ 2.5, 12.5])
    """
    start, stop = operand(input), operand(end, "end")
    dtype = start.array.dtype
    if dtype.kind not in INEXACT:
        raise NotImplementedError(f"expected floating Tensors, got {dtype}")
    if isinstance(weight, (int, float, complex)):
        if dtype.itemsize == 2 and stop.array.dtype == dtype:
            return lerp(start.to(float32), stop.to(float32), weight).to(dtype)
        weight = converted(weight, dtype)
        if not isinstance(weight, complex):
            return apply(LERP_NUMBER, (start, stop), {"weight": weight})
    fraction = operand(weight, "weight")
    if not fraction.array.ndim and can_cast(fraction.array.dtype, dtype):
        fraction = fraction.to(dtype)
    return apply(LERP, (start, stop, fraction), {})
