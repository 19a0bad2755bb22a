"""Steps that call NumPy's inner loops, and steps that access elements by index."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...core.arrays.dtypes import DType, int64
from .emission import Body, Kernel, broadcast_strides, collapsed, type_of
from .machine_code import LINALG, InnerLoop, inner_loop
from .region_steps import Place, Step, Unlowered, kernel_of


class NumpyCall(NamedTuple):
    """Calls of NumPy's inner loop, one for each row."""

    loop: InnerLoop
    lengths: list[int]  # lengths of the rows' axes
    sizes: list[int]  # the dimensions that the loop receives
    strides: list[int]  # the strides that the loop receives
    outer: list[tuple[int, list[int]]]  # for each argument the number of its operand, and its strides between rows


class Gathering(NamedTuple):
    """Reads or writes at indices."""

    how: str  # take, put or add
    inner: list[int]  # the lengths of the subarray that an index selects; below, its strides in both arrays
    of_x: list[int]
    of_part: list[int]
    bounds: list[int]  # for each index the length of its dimension, and the stride
    leading: list[int]

    def operands(self, step: Step) -> list[Place]:
        """Return the indexed array, the array of the selected elements, and the indices."""
        one, other, *indices = step.operands
        return [other, one, *indices] if self.how == "take" else [one, other, *indices]


def _numpy_loop(ufunc: np.ufunc, dtypes: Sequence[DType]) -> InnerLoop:
    chars = [np.dtype(dtype).char for dtype in dtypes]
    found = inner_loop(ufunc, "".join(chars[: ufunc.nin]) + "->" + chars[-1])
    if found is None:
        raise Unlowered(f"{ufunc.__name__} of {', '.join(chars)}")
    return found


def _call(body: Body, loop: InnerLoop, pointers: Sequence[str]) -> None:
    """Call NumPy's loop with the arguments that ``_frame`` allocated."""
    loop.add_symbols()
    for k, pointer in enumerate(pointers):
        place = body.give(f"getelementptr inbounds ptr, ptr %args, i64 {k}")
        body.do(f"store ptr {pointer}, ptr {place}")
    body.declared.add(f"declare void @{loop.symbol}(ptr, ptr, ptr, ptr)")
    if loop.data:
        body.declared.add(f"{loop.data_symbol} = external global i8")
    body.do(f"call void @{loop.symbol}(ptr %args, ptr %count, ptr %steps, ptr {loop.data_symbol})")


def _frame(body: Body, count: int, strides: Sequence[int], sizes: Sequence[int] = ()) -> None:
    body.do(f"%args = alloca [{len(strides)} x ptr]")
    body.do(f"%count = alloca [{1 + len(sizes)} x i64]")
    for k, size in enumerate((count, *sizes)):
        place = body.give(f"getelementptr inbounds i64, ptr %count, i64 {k}")
        body.do(f"store i64 {size}, ptr {place}")
    body.do(f"%steps = alloca [{len(strides)} x i64]")
    for k, stride in enumerate(strides):
        place = body.give(f"getelementptr inbounds i64, ptr %steps, i64 {k}")
        body.do(f"store i64 {stride}, ptr {place}")


def loop_call(ufunc: np.ufunc, dtypes: Sequence[DType], out: Place, inputs: Sequence[Place]) -> Step:
    """Return ``out = ufunc(inputs)`` by NumPy's inner loop, called for each row of the result."""
    loop = _numpy_loop(ufunc, dtypes)
    wide = [
        place._replace(shape=out.shape, strides=broadcast_strides(place.shape, place.strides, out.shape))
        for place in inputs
    ]

    lengths, strides = collapsed(out.shape, *[place.strides for place in (out, *wide)])
    return _rows(ufunc.__name__, [out, *wide], loop, lengths, strides, [*range(1, len(strides)), 0])


def _rows(
    name: str, operands: list[Place], loop: InnerLoop, lengths: list[int], strides: list[list[int]], order: list[int]
) -> Step:
    """Return a step that calls an inner loop for each row, with the operands in a given order."""
    count, last = lengths[-1] if lengths else 1, [strides[k][-1] if lengths else 0 for k in order]

    def make(step: Step) -> Kernel:
        body = Body()
        _frame(body, count, last)

        def row(indices: list[str]) -> None:
            _call(body, loop, [body.address(f"%p{k}", indices, strides[k][:-1]) for k in order])

        body.nest(lengths[:-1], row)
        body.do("ret void")
        return kernel_of(step, body)

    outer = [(k, strides[k][:-1]) for k in order]
    return Step(name, operands, 1, make, content=NumpyCall(loop, lengths[:-1], [count], last, outer))


def reduction(ufunc: np.ufunc, x: Place, out: Place) -> Step:
    """Return ``out = ufunc(out, x)`` along the dimensions in which the stride of ``out`` is 0, in NumPy's order."""
    loop = _numpy_loop(ufunc, (out.dtype, x.dtype, out.dtype))
    lengths, (of_x, of_out) = collapsed(x.shape, x.strides, out.strides)
    return _rows(f"{ufunc.__name__}.reduce", [out, x], loop, lengths, [of_out, of_x], [0, 1, 0])


def accumulation(x: Place, out: Place) -> Step:
    """Return ``out += x`` in double precision, along the dimensions in which the stride of ``out`` is 0."""

    def make(step: Step) -> Kernel:
        body = Body()
        lengths, (of_x, of_out) = collapsed(x.shape, x.strides, out.strides)

        def element(indices: list[str]) -> None:
            target = body.address("%p0", indices, of_out)
            value = body.cast(body.load(body.address("%p1", indices, of_x), x.dtype), x.dtype, out.dtype)
            body.store(body.give(f"fadd double {body.load(target, out.dtype)}, {value}"), target, out.dtype)

        body.nest(lengths, element)
        body.do("ret void")
        return kernel_of(step, body)

    return Step("accurate_sum", [out, x], 1, make)


def factorization(name: str, out: Place, inputs: Sequence[Place]) -> Step:
    """Return ``out = inv(x)`` or ``solve(x, y)`` for one matrix, by the function of NumPy that calls LAPACK.

    NumPy fills the result with NaN if LAPACK fails; the step then fails, so that another call raises the error.
    """
    loop = _numpy_loop(getattr(sys.modules[LINALG], name), [place.dtype for place in (*inputs, out)])
    sizes = [inputs[0].shape[0], *(inputs[1].shape[1:] if len(inputs) == 2 else ())]
    strides = [stride for place in (*inputs, out) for stride in place.strides]

    def make(step: Step) -> Kernel:
        body = Body()
        places = [out, *inputs]
        order = [*range(1, len(places)), 0]
        _frame(body, 1, [*[0] * len(places), *strides], sizes)
        _call(body, loop, [f"%p{k}" for k in order])
        kind = type_of(out.dtype)
        first = body.load("%p0", out.dtype)
        body.do(f"%fine = fcmp oeq {kind} {first}, {first}")
        body.do("ret i1 %fine")
        return kernel_of(step, body)._replace(result="i1")

    places = [out, *inputs]
    outer: list[tuple[int, list[int]]] = [(k, []) for k in [*range(1, len(places)), 0]]
    content = NumpyCall(loop, [], [1, *sizes], [*[0] * len(places), *strides], outer)
    return Step(name, places, 1, make, checked=True, content=content)


def gathering(x: Place, indices: Sequence[Place], rest: Sequence[int], part: Place, how: str) -> Step:
    """Return ``part = x[indices]`` (take), ``x[indices] = part`` (put) or ``+=`` (add), with checks of the indices."""
    places = indices[0].shape
    inner, (of_x, of_part) = collapsed(
        [x.shape[d] for d in rest], [x.strides[d] for d in rest], part.strides[len(places) :]
    )
    bounds = [x.shape[d] for d in range(len(indices))]
    leading = [x.strides[d] for d in range(len(indices))]

    def make(step: Step) -> Kernel:
        body = Body()
        taking = how == "take"
        at_x, at_part = ("%p1", "%p0") if taking else ("%p0", "%p1")

        def element(where: list[str]) -> None:
            row = at_x
            for k, place in enumerate(indices):
                index = body.load(body.address(f"%p{k + 2}", where, place.strides), place.dtype)
                index = body.cast(index, place.dtype, int64)
                negative = body.give(f"icmp slt i64 {index}, 0")
                other = body.give(f"add i64 {index}, {bounds[k]}")
                index = body.give(f"select i1 {negative}, i64 {other}, i64 {index}")
                inside = body.give(f"icmp ult i64 {index}, {bounds[k]}")
                label = body.name()[1:]
                body.do(f"br i1 {inside}, label %{label}, label %outside")
                body.block(label)
                row = body.address(row, [index], [leading[k]])
            there = body.address(at_part, where, part.strides[: len(places)])

            def copy(place: list[str]) -> None:
                one, other = body.address(row, place, of_x), body.address(there, place, of_part)
                if taking:
                    body.store(body.load(one, x.dtype), other, x.dtype)
                    return
                value = body.load(other, x.dtype)
                if how == "add":
                    add = "fadd" if x.dtype.kind == "f" else "add"
                    value = body.give(f"{add} {type_of(x.dtype)} {body.load(one, x.dtype)}, {value}")
                body.store(value, one, x.dtype)

            body.nest(inner, copy)

        body.nest(places, element)
        body.do("ret i1 true")
        body.block("outside")
        body.do("ret i1 false")
        return kernel_of(step, body)._replace(result="i1")

    operands = [part, x, *indices] if how == "take" else [x, part, *indices]
    content = Gathering(how, inner, of_x, of_part, bounds, leading)
    return Step(f"{how}_rows", operands, 1, make, checked=True, content=content)
