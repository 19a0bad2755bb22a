"""Adjoints, and chains of products."""

from __future__ import annotations

from ....core.errors import describe
from ....core.graph.primitive import operand
from ....core.tensor.tensor import Tensor
from ...table.registry import operator
from .vector_products import multi_dot


@operator()
def adjoint(input: Tensor) -> Tensor:
    """The matrices conjugated, with their last two dimensions swapped: ``input.mH``.

    Derivative: ``adjoint(g)``.
    Shape: ``(..., m, n)``; ``(..., n, m)``; a number is conjugated.

    Raises:
        RuntimeError: the input has one dimension.

    >>> rg.adjoint(rg.tensor([[1, 2j]]))
    tensor([[1.-0.j],
            [0.-2.j]], dtype=complex64)
    """
    x = operand(input)
    if x.array.ndim == 1:
        raise RuntimeError(f"expected at least 2 dimensions, or none, got {describe(x)}")
    return x.mH if x.array.ndim else x.conj()


@operator(method=False)
def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of all matrices, in the order that takes the fewest operations: ``linalg.multi_dot(matrices)``.

    Derivative: that of the products.
    Shape: ``(n_0, n_1), (n_1, n_2), ...``; ``(n_0, n_k)``.
    Dtype: floating and complex, all one; the result has it.

    Raises:
        RuntimeError: one is not a matrix, or the shapes do not fit.

    >>> rg.chain_matmul(rg.ones(2, 3), rg.ones(3, 4), rg.ones(4, 1))
    tensor([[12.],
            [12.]])
    """
    for x in matrices:
        if operand(x).array.ndim != 2:
            raise RuntimeError(f"expected matrices, got {describe(x)}")
    return matrices[0] if len(matrices) == 1 else multi_dot(list(matrices))
