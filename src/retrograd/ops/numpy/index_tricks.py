"""``r_`` and ``c_`` for Tensors; NumPy's own do not dispatch to Tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._generated import toplevel as ops
from ...core.graph.primitive import is_operand
from ...core.tensor.tensor import Tensor
from .arguments import alike


class Joiner:
    """Join the items between the brackets to one Tensor: ``np.r_`` or ``np.c_`` for Tensors.

    The items are those of NumPy: Tensors, arrays, lists, numbers and slices as ranges (``0:1:5j`` for five numbers). A
    string as the first item gives the axis, the minimum number of dimensions and their position: ``"1,2,0"``.

    Derivative: each piece of ``g`` to its operand.
    Dtype: NumPy's; a range of integers is an int64 array, with which float32 is promoted to float64.

    Raises:
        TypeError: an item is not a Tensor, array, list, number or slice, or is ``"r"`` or ``"c"`` (for matrices).
        RuntimeError: the shapes of the items do not match.

    >>> x = rg.tensor([2.0, 3.0], requires_grad=True)
    >>> rg.r_[1.0, x, 0:2]
    tensor([1., 2., 3., 0., 1.], dtype=float64, grad_fn=<getitem>)
    >>> rg.c_[x, x * x]
    tensor([[2., 4.],
            [3., 9.]], grad_fn=<getitem>)
    """

    def __init__(self, numpys: Any, name: str) -> None:
        self._numpys = numpys
        self._name = name

    def __repr__(self) -> str:
        return f"retrograd.{self._name}"

    def __getitem__(self, key: Any) -> Tensor:
        items = list(key) if isinstance(key, tuple) else [key]
        if items and isinstance(items[0], str) and items[0] in ("r", "c"):
            raise TypeError(f"{self._name}[{items[0]!r}]: NumPy's class matrix is not supported")
        places = [place for place, item in enumerate(items) if not (place == 0 and isinstance(item, str))]
        if not places:
            raise ValueError(f"{self._name}: expected at least one item to join")
        for place in places:
            if isinstance(items[place], slice):
                items[place] = np.r_[items[place]]
            elif not is_operand(items[place]) and not isinstance(items[place], (list, tuple)):
                raise TypeError(f"{self._name}: expected Tensors, arrays, numbers or slices, got {type(items[place])}")
        operands = alike(*[items[place] for place in places])
        # Let NumPy join arrays of flat positions, which gives the result's shape and order.
        first = 0
        for place, operand in zip(places, operands, strict=True):
            items[place] = np.arange(first, first + operand.array.size).reshape(operand.shape)[()]
            first += operand.array.size
        try:
            order = self._numpys[tuple(items)]
        except ValueError as error:
            shapes = ", ".join(str(tuple(operand.shape)) for operand in operands)
            raise RuntimeError(f"{self._name} of the shapes {shapes}: {error}") from None
        return ops.cat([ops.reshape(operand, (-1,)) for operand in operands])[order]


r_ = Joiner(np.r_, "r_")
c_ = Joiner(np.c_, "c_")
