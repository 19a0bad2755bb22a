"""Accumulate matrix products into an array within one GEMM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...kernels import multiplies
from ...kernels.loops.matrices.products import USEFUL, add_dot
from ..program import Instruction, Value
from .expressions import row_major

PRODUCTS = frozenset(("x @ y", "x @ y.T", "x.T @ y"))


class Product:
    """An instruction that multiplies two matrices."""

    def __init__(self, step: Instruction) -> None:
        self.step = step
        (self.out,) = step.outs
        self.x, self.y = step.args[:2]
        self.has_bias = len(step.args) > 2

    def matrices(self, x: Any, y: Any) -> tuple[Array, Array]:
        """Return the factors as two matrices."""
        x = x if x.ndim == 2 else x.reshape(-1, x.shape[-1])
        if self.step.computes == "x.T @ y":
            return x.T, y if y.ndim == 2 else y.reshape(-1, y.shape[-1])
        return x, y.T if self.step.computes == "x @ y.T" else y


def product_of(step: Instruction) -> Product | None:
    """Return the instruction as a product that loops can compute, or None."""
    if step.computes not in PRODUCTS or len(step.outs) != 1 or step.writes or step.kwargs:
        return None
    x, y, *bias = step.args
    (out,) = step.outs
    if not all(isinstance(v, Value) and v.shape is not None and v.dtype in _FLOATS for v in step.args):
        return None
    if len({v.dtype for v in (out, *step.args)}) != 1 or not multiplies():
        return None
    if len(x.shape) < 2 or len(y.shape) != 2 and not (step.computes == "x.T @ y" and len(y.shape) > 2):
        return None
    if len(x.shape) > 2 and not row_major(x) or len(y.shape) > 2 and not row_major(y):
        return None
    columns = out.shape[-1]
    if not row_major(out) or out.root is not out or min(out.size // max(columns, 1), columns) < 2:
        return None
    if x.size * columns < USEFUL or not (_is_matrix(x) and _is_matrix(y)):
        return None
    return Product(step)


_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def _is_matrix(value: Value) -> bool:
    """Return whether BLAS accepts the layout: row-major, or column-major."""
    if row_major(value):
        return True
    return len(value.shape) == 2 and value.strides == (value.dtype.itemsize, value.dtype.itemsize * value.shape[0])


def accumulated(instructions: Sequence[Instruction], gives: Sequence[Value]) -> list[Instruction]:
    """Replace a product that is only added to an array by ``out += x @ y``, as for gradients that accumulate.

    BLAS adds while it multiplies, so the rounding may differ.
    """
    steps = list(instructions)
    readers: dict[Value, list[int]] = {value: [-1] for value in gives}
    for index, step in enumerate(steps):
        for value in (*step.reads(), *[out.root for out in step.outs if out.root is not out]):
            readers.setdefault(value, []).append(index)
    gone: set[int] = set()
    for index, step in enumerate(steps):
        product = None if step.on_gpu else product_of(step)
        if product is None or product.has_bias or len(product.out.shape) != 2:
            continue
        places = readers.get(product.out, [])
        if len(places) != 1 or places[0] < index:
            continue
        last = steps[places[0]]
        total = last.kwargs.get("out")
        if last.function is not np.add or last.args != (total, product.out) or last.outs:
            continue
        if type(total) is not Value or not set(last.kwargs) <= {"out", "casting"}:
            continue
        written = {value.root for between in steps[index + 1 : places[0]] for value in between.writes}
        read = {product.x.root, product.y.root}
        if (total.shape, total.dtype) != (product.out.shape, product.out.dtype) or not row_major(total):
            continue
        if total.root in read or written & read:
            continue
        add_product = AddProduct(product)
        steps[places[0]] = last.changed(
            function=add_product, kind="whole", args=(total, product.x, product.y), kwargs={}
        )
        gone.add(index)
    return [step for index, step in enumerate(steps) if index not in gone]


class AddProduct:
    """A product as a function that adds it to an array."""

    __name__ = "add_product"

    def __init__(self, product: Product) -> None:
        self.product = product

    def __call__(self, total: Any, x: Any, y: Any) -> None:
        add_dot(total, *self.product.matrices(x, y))
