"""Matrix products fused with the elementwise steps that follow: a bias, an activation function, a residual.

The loop multiplies in the blocks of ``kernels/loops/matrices``, and applies the steps to a block while it is in the
cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...kernels import multiplies
from ...kernels.build.compile_ahead import Job
from ...kernels.build.object_layout import kind_of_array
from ...kernels.loops.matrices.products import USEFUL, add_dot, prepared, prepared_kinds
from ...kernels.runtime.result_arrays import empty
from ...kernels.runtime.threads import launch_products
from ..program import Asked, Instruction, Value
from .expressions import Step, row_major
from .fused_loops import Group, Names, compiled_loop, job_of, kinds_of, values_of
from .layouts import Layout, fits

_NAMES = {"linear", "matmul", "mm", "linear_weight"}


class Product:
    """An instruction that multiplies two matrices: the value of the bare product, and the step that adds a bias."""

    def __init__(self, step: Instruction) -> None:
        self.step = step
        (self.out,) = step.outs
        self.x, self.y = step.args[:2]
        bias = step.args[2] if len(step.args) > 2 else None
        self.bare = self.out if bias is None else Value(-1, self.out)
        self.steps = [] if bias is None else [Step(self.out, "({0} + {1})", (self.bare, bias), self.out.dtype)]

    def matrices(self, x: Any, y: Any) -> tuple[Array, Array]:
        """Return the factors as two matrices."""
        x = x if x.ndim == 2 else x.reshape(-1, x.shape[-1])
        if self.step.name == "linear":
            return x, y.T
        if self.step.name == "linear_weight":
            return x.T, y if y.ndim == 2 else y.reshape(-1, y.shape[-1])
        return x, y

    def takes(self, value: Value) -> bool:
        """Return whether the loop can read an operand besides the product."""
        if not fits(value, self.out.shape):
            return False
        layout = Layout(self.out.shape, [value], apart=len(self.out.shape) - 1)
        return len(layout.lengths) == 2


def product_of(step: Instruction) -> Product | None:
    """Return the instruction as a product that a loop can compute, or None."""
    if step.primitive is None or step.name not in _NAMES or len(step.outs) != 1 or step.writes or step.kwargs:
        return None
    x, y, *bias = step.args
    (out,) = step.outs
    if not all(isinstance(v, Value) and v.shape is not None and v.dtype in _FLOATS for v in step.args):
        return None
    if len({v.dtype for v in (out, *step.args)}) != 1 or not multiplies():
        return None
    if len(x.shape) < 2 or len(y.shape) != 2 and not (step.name == "linear_weight" and len(y.shape) > 2):
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
        if product is None or product.steps or len(product.out.shape) != 2:
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


class ProductLoop:
    """A product with the group that follows, as a function of the factors, arrays and numbers."""

    def __init__(self, product: Product, group: Group, kept: bool) -> None:
        self.product, self.group = product, group
        self.kept = kept  # whether other instructions read the product itself
        names = Names(group)
        self.beside = [x for x in names.arrays if x is not product.bare]
        self.reads = (product.x, product.y, *self.beside, *names.numbers)
        self.layout = Layout(group.shape, self.beside, apart=len(group.shape) - 1)
        self.operands = [self.layout.operands[x] for x in self.beside]
        self.__name__ = "+".join(dict.fromkeys(member.operator or member.name for member in group.members))[:60]
        self.written = [x for x in group.outs if x is not product.bare]
        # If only the loop reads the product, the first result is written over it.
        self.inplace = not kept and bool(self.written) and self.written[0].dtype == product.out.dtype
        self.loop = compiled_loop(self._source(names))
        shape = prod(group.shape[:-1]), group.shape[-1]
        returned = self.inplace or kept
        others = self.written[1:] if self.inplace else self.written
        self.asked = (
            Asked(shape, product.out.dtype, 0 if returned else None),
            *[Asked(shape, x.dtype, number + returned) for number, x in enumerate(others)],
        )

    def _source(self, names: Names) -> str:
        written = self.written[1:] if self.inplace else self.written
        given = [f"a{names.arrays.index(x)}" for x in self.beside]
        given += [f"s{n}" for n in range(len(names.numbers))] + [f"o{n}" for n in range(len(written))]
        rows, each = [], []
        for value, operand in zip(self.beside, self.operands, strict=True):
            n = names.arrays.index(value)
            place = {(0, 1): "r, low:high", (1,): "low:high", (0,): "r"}[operand.axes]
            if 1 in operand.axes:
                rows.append(f"x{n} = a{n}[{place}]")
                each.append(f"v{n} = x{n}[j]")
            else:
                rows.append(f"v{n} = a{n}[{place}]")
        rows += ["h = out[r, low:high]", *[f"y{n} = o{n}[r, low:high]" for n in range(len(written))]]
        each = [f"{names.names[self.product.bare]} = h[j]", *each, *names.lines]
        each += [f"h[j] = {names.names[self.written[0]]}"] if self.inplace else []
        each += [f"y{n}[j] = {names.names[x]}" for n, x in enumerate(written)]
        # LLVM assumes that memory behind an integer address aliases no argument, so the steps are a separate function.
        over = [
            *([f"{', '.join(given)}, = given"] if given else []),
            *names.once,
            "for r in range(top, bottom):",
            *["    " + line for line in rows],
            "    for j in range(high - low):",
            *["        " + line for line in each],
        ]
        factors = "x, x_turned, y, y_turned, out, block, how, taken, cuts"
        return (
            names.head()
            + "@apart\ndef over(given, out, top, bottom, low, high):\n"
            + "".join(f"    {line}\n" for line in over)
            + f"\n\n@shared()\ndef loop({', '.join([factors, *given, 'start', 'stop'])}):\n"
            + f"    given = ({''.join(name + ', ' for name in given)})\n"
            + f"    parts({factors}, start, stop, out.dtype.type(0), over, given)\n"
        )

    def __call__(self, x: Any, y: Any, *args: Any) -> Any:
        given = prepared(*self.product.matrices(x, y))
        assert given is not None
        blocks, least, factors = given
        width, shape, matrix = len(self.operands), self.group.shape, factors[4]
        arrays = [operand.bind(a) for operand, a in zip(self.operands, args, strict=False)]
        written = self.written[1:] if self.inplace else self.written
        outs = [empty(matrix.shape, value.dtype) for value in written]
        launch_products(self.loop, blocks, least, *factors, *arrays, *values_of(args[width:]), *outs)
        first = matrix.reshape(shape)
        found = [out.reshape(shape) for out in outs]
        if self.inplace or self.kept:
            found.insert(0, first)
        return tuple(found) if len(found) != 1 else found[0]

    @property
    def job(self) -> Job:
        """The job that compiles the loop before its first call."""
        factors = prepared_kinds(self.product.out.dtype)
        written = self.written[1:] if self.inplace else self.written
        outs = [kind_of_array(value.dtype, 2) for value in written]
        return job_of(self.loop, *factors, *kinds_of(self.operands, self.reads[2:]), *outs)

    @property
    def outs(self) -> tuple[Value, ...]:
        """The values of the results, in order."""
        return (self.product.bare, *self.written) if self.kept else tuple(self.written)
