"""Write a result over an argument that no later instruction reads.

Eager backward passes do so where a reference count allows it (``core/graph/in_place.py``): the gradient of logits is
written over the logits, gradients of one parameter are added in place, and rows of an embedding are added to the
gradient that its table has already. A program knows the lifetimes of all arrays, so that any ufunc can write its result
over an argument of the same layout.

The argument must be memory that the program allocates (``Instruction.asked``), that does not leave the program, and
that no effect has given to the user. Later instructions refer to the argument instead of the result.

An addition in place joins the kernel before or after it, as for residual connections and their gradients. A primitive
declares the forms of its forward that do so in one loop:

* ``of_sum(x, plus, ...)`` writes ``x + plus`` over x, and returns what the forward returns for the sum;
* ``added(..., total=total)`` adds the first result of the forward to ``total``, and returns the other results.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ...core.arrays import Array
from ...core.arrays.summation import LARGE
from ...ops.indexing.indexing import ACCUMULATE, Index, add_at
from ...ops.nn.losses.classes import CROSS_ENTROPY_BACKWARD
from ..program import Asked, Instruction, Value, replaced
from ..run.arenas import MIN_PLANNED_BYTES
from .destinations import ufunc_of
from .expressions import row_major
from .matrix_products import AddProduct, product_of


def overwritten(
    instructions: Sequence[Instruction], takes: Iterable[Value], gives: Iterable[Value]
) -> list[Instruction]:
    """Return the program with results over arguments that are not needed any more.

    ``takes`` are the values from outside, ``gives`` the program's results.
    """
    return _Overwriting(instructions, takes, gives).steps()


_IN_PLACE: dict[str, object] = {"outs": (), "asked": (), "several": False, "checks": False}


class _Overwriting:
    def __init__(self, instructions: Sequence[Instruction], takes: Iterable[Value], gives: Iterable[Value]) -> None:
        self.instructions = instructions
        self.gives = {value.root for value in gives}
        self.held = {value.root for value in takes} | self.gives  # roots that must keep their elements
        self.last: dict[Value, int] = {}  # the last instruction that reads a root or a view of it
        self.readers: dict[Value, list[int]] = {}
        self.written: dict[Value, list[int]] = {}  # instructions that write, by root
        self.maker: dict[Value, int] = {}
        self.views: dict[Value, list[Value]] = {}
        for index, step in enumerate(instructions):
            for value in dict.fromkeys(step.read):
                self.last[value.root] = index
                self.readers.setdefault(value, []).append(index)
            for value in step.writes:
                self.written.setdefault(value.root, []).append(index)
            for out in step.outs:
                self.last[out.root] = index
                self.maker[out] = index
                if out.root is not out:
                    self.views.setdefault(out.root, []).append(out)
        self.same: dict[Value, Value] = {}
        self.gone: set[int] = set()

    def steps(self) -> list[Instruction]:
        """Return the instructions of the new program."""
        found: list[Instruction] = []
        for index, old in enumerate(self.instructions):
            step = self._renamed(old)
            new = None if step.on_gpu or step.writes or len(step.outs) != 1 else self._changed(index, step)
            of_sum = of_sum_before(step, found[-1]) if found and new is None else None
            if of_sum is not None:
                self.gone.add(index - 1)
            found.append(of_sum or new or step)
            if step.kind == "effect":
                self.held.update(value.root for value in step.read)
        return [step for index, step in enumerate(found) if index not in self.gone]

    def _renamed(self, step: Instruction) -> Instruction:
        if not self.same or self.same.keys().isdisjoint(step.read):
            return step

        def now(value: object) -> object:
            return self.same.get(value, value) if type(value) is Value else value

        return step.changed(
            args=replaced(step.args, now), kwargs=replaced(step.kwargs, now),
            writes=tuple([self.same.get(value, value) for value in step.writes]),
        )  # fmt: skip

    def _changed(self, index: int, step: Instruction) -> Instruction | None:
        """Return the instruction that writes over an argument instead, or None."""
        (out,) = step.outs
        if out.shape is None:  # the result is a number
            return None
        if step.primitive is CROSS_ENTROPY_BACKWARD:
            target = step.args[1]
            if out.dtype.kind != "f" or not self._may_write(index, step, out, target):
                return None
            new = step.changed(kwargs=step.kwargs | {"in_place": True})
        else:
            ufunc = None if step.kind not in ("array", "primitive") or step.checks else ufunc_of(step)
            if ufunc is None:
                return None
            target = next((x for x in step.args if self._may_write(index, step, out, x)), None)
            if target is None:
                return None
            if ufunc is np.add:
                added = self._added(index, step, target) or self._sum(index, step, target)
                if added is not None:
                    self._rename(index, out, target)
                    return added
            new = step.changed(function=ufunc, kind="array", primitive=None, kwargs={"out": target})
        self._rename(index, out, target)
        return new.changed(**_IN_PLACE, writes=(target,))

    def _may_write(self, index: int, step: Instruction, out: Value, x: object) -> bool:
        """Return whether the result may overwrite an argument."""
        if (
            type(x) is not Value
            or x.shape is None
            or out.root is not out
            or out in self.gives
            or out.nbytes < MIN_PLANNED_BYTES
        ):
            return False
        root = x.root
        if (x.shape, x.dtype, x.strides) != (out.shape, out.dtype, out.strides) or root.nbytes != x.nbytes:
            return False
        if root in self.held or self.last[root] > index or not row_major(x):
            return False
        if any(other.root is root and other is not x for other in step.read):
            return False
        maker = self.maker.get(root)
        return maker is not None and allocates(self.instructions[maker], root)

    def _sum(self, index: int, step: Instruction, total: Value) -> Instruction | None:
        """Return an instruction that computes the other argument and adds it to ``total`` in one call."""
        at = self._only_adds(index, step, total)
        if at is None or total.size < LARGE:
            return None
        maker = self._renamed(self.instructions[at])
        part = maker.outs[0]
        if maker.primitive is ACCUMULATE:
            new = step.changed(function=_add_rows, args=(total, *maker.args), kwargs={"index": maker.kwargs["index"]})
        else:
            product = product_of(maker)
            if product is None or product.has_bias or len(part.shape) != 2:
                return None
            new = step.changed(function=AddProduct(product), args=(total, product.x, product.y), kwargs={})
        self._move(at, index)
        return new.changed(kind="whole", primitive=None, **_IN_PLACE, writes=(total,))

    def _added(self, index: int, step: Instruction, total: Value) -> Instruction | None:
        """Return the instruction that makes the other argument, in the form that adds it to ``total``, or None."""
        at = self._only_adds(index, step, total)
        if at is None:
            return None
        maker = self._renamed(self.instructions[at])
        first, *others = maker.outs
        if maker.paths != tuple([(k,) for k in range(len(maker.outs))]) or any(
            reader < index for out in others for reader in self.readers.get(out, ())
        ):
            return None
        new = with_addition(maker, total)
        if new is not None:
            self._move(at, index)
        return new

    def _only_adds(self, index: int, step: Instruction, total: Value) -> int | None:
        """Return the instruction whose first result is only added to ``total`` and that may run later, or None."""
        (part,) = [x for x in step.args if x is not total] or [None]
        if type(part) is not Value or part.root is not part or part in self.held or part.shape != total.shape:
            return None
        at = self.maker.get(part)
        if at is None or self.readers.get(part) != [index] or part in self.views or part in self.written:
            return None
        roots = {value.root for value in self._renamed(self.instructions[at]).read}
        if total.root in roots or any(at < n < index for root in roots for n in self.written.get(root, ())):
            return None
        return at if self.instructions[at].outs[0] is part else None

    def _move(self, at: int, index: int) -> None:
        """Note that an instruction runs as a part of a later one."""
        self.gone.add(at)
        maker = self._renamed(self.instructions[at])
        for root in {value.root for value in maker.read}:
            self.last[root] = max(self.last[root], index)
        self.maker |= dict.fromkeys(maker.outs, index)

    def _rename(self, index: int, out: Value, target: Value) -> None:
        """Let later instructions refer to the argument instead of the result."""
        root = target.root
        self.same[out] = target
        self.last[root] = max(self.last[root], self.last[out])
        self.written.setdefault(root, []).extend([index, *self.written.get(out, ())])
        for view in self.views.pop(out, ()):
            view.root = root
            self.views.setdefault(root, []).append(view)


def allocates(step: Instruction, root: Value) -> bool:
    """Return whether the memory of a result is new in each call."""
    if any(asked.out is not None and step.outs[asked.out] is root for asked in step.asked):
        return True
    return step.kind in ("array", "primitive") and step.outs == (root,) and ufunc_of(step) is not None


def _add_rows(total: Array, values: Array, index: Index) -> None:
    add_at(total, index, values)


def of_sum_before(step: Instruction, addition: Instruction) -> Instruction | None:
    """Return an instruction that computes ``x += y``, the instruction before, and then a function of x, or None."""
    primitive, args = step.primitive, addition.args
    if primitive is None or primitive.of_sum is None or step.function is not primitive.forward or step.writes:
        return None
    if addition.function is not np.add or addition.outs or set(addition.kwargs) != {"out"}:
        return None
    if addition.checks or step.checks or step.on_gpu:
        return None
    x = addition.kwargs["out"]
    if step.args[0] is not x or len(args) != 2 or x not in args:
        return None
    plus = args[0] if args[1] is x else args[1]
    if type(plus) is not Value or not _alike(x, plus) or plus.root is x.root or x.root in _others(step):
        return None
    return step.changed(function=primitive.of_sum, args=(x, plus, *step.args[1:]), writes=(x,))


def without_sum(step: Instruction) -> Instruction:
    """Return an instruction of ``of_sum_before`` without the addition; any other instruction is unchanged."""
    primitive = step.primitive
    if primitive is None or primitive.of_sum is None or step.function is not primitive.of_sum:
        return step
    return step.changed(function=primitive.forward, args=(step.args[0], *step.args[2:]), writes=())


def with_addition(step: Instruction, total: Value) -> Instruction | None:
    """Return an instruction that adds the first result of ``step`` to ``total``, or None."""
    primitive = step.primitive
    if primitive is None or primitive.added is None or step.function is not primitive.forward or step.writes:
        return None
    if not _alike(step.outs[0], total):
        return None
    asked = [Asked(a.shape, a.dtype, a.out and a.out - 1) for a in step.asked if a.out != 0]
    new = step.changed(
        kind="whole", function=primitive.added, primitive=None, writes=(total,), kwargs=step.kwargs | {"total": total},
        outs=step.outs[1:], several=True, asked=tuple(asked),
    )  # fmt: skip
    new.paths = step.paths[:-1]
    return new


def _alike(x: Value, y: Value) -> bool:
    return (x.shape, x.dtype) == (y.shape, y.dtype) and x.dtype.kind == "f" and row_major(x) and row_major(y)


def _others(step: Instruction) -> set[Value]:
    """Return the roots of all arguments but the first."""
    return {value.root for value in step.changed(args=step.args[1:]).read}
