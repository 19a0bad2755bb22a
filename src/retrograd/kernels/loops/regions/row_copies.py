"""Copies of rows of elements by vectors; rows in regions are too short for loops that LLVM vectorizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ...runtime.numba_functions import routine
from ...tiles.packed_products import turner
from ...tiles.tiles import WORD, size_of
from ..elements.basic_loops import _compiled

_step = _compiled()
_SIDE = 8  # number of rows and of columns in a block that is transposed in registers
_turn: Callable[..., None] = turner(lambda size: _SIDE)
_size_of: Callable[..., int] = size_of


def _mover(wide: int, scale: int) -> Callable[..., int]:
    """Return ``move(out, x, number)``, which writes ``wide`` bytes, at least one element, and returns ``out``.

    The elements at the address x are ``scale`` elements apart: 0, 1, or 2.
    """

    @intrinsic
    def move(typing_context: object, out: object, x: object, number: types.Float) -> object:
        def generate(
            context: object, builder: ir.IRBuilder, signature: object, arguments: Sequence[ir.Value]
        ) -> ir.Value:
            out, x, _ = arguments
            size = number.bitwidth // 8
            lanes, element = max(1, wide // size), ir.IntType(8 * size)

            def load(first: int, count: int) -> ir.Value:
                kind = ir.VectorType(element, count).as_pointer()
                return builder.load(builder.inttoptr(builder.add(x, WORD(first * size)), kind), align=size)

            found = load(0, lanes if scale else 1)
            if scale != 1 and lanes > 1:
                picks = [0] * lanes if scale == 0 else [*range(0, lanes, 2), *range(lanes + 1, 2 * lanes, 2)]
                mask = ir.Constant(ir.VectorType(ir.IntType(32), lanes), picks)
                # The second vector ends with the last element that is needed: more memory may not exist.
                found = builder.shuffle_vector(found, load(lanes - 1, lanes) if scale else found, mask)
            builder.store(found, builder.inttoptr(out, found.type.as_pointer()), align=size)
            return out

        return types.int64(types.int64, types.int64, number), generate

    found: Callable[..., int] = move
    return found


def _copier(scale: int) -> Callable[..., None]:
    """Return a function that copies rows from elements that are ``scale`` elements apart to adjacent elements."""

    def by_vectors(wide: int) -> Callable[..., None]:
        move = _mover(wide, scale)

        def copy(
            out: int, out_outer: int, x: int, x_outer: int, rows: int, size: int, each: int, number: object
        ) -> None:
            for _ in range(rows):
                done = 0
                while done < size - each:
                    move(out + done, x + scale * done, number)
                    done += each
                move(out + size - each, x + scale * (size - each), number)  # may overlap the previous vector
                out, x = out + out_outer, x + x_outer

        compiled: Callable[..., None] = _step(copy)
        return compiled

    copy, short, single = by_vectors(64), by_vectors(16), by_vectors(1)

    def copy_adjacent(out: int, out_outer: int, x: int, x_outer: int, rows: int, size: int, number: object) -> None:
        if size >= 64:
            copy(out, out_outer, x, x_outer, rows, size, 64, number)
        elif size >= 16:
            short(out, out_outer, x, x_outer, rows, size, 16, number)
        elif size > 0:
            single(out, out_outer, x, x_outer, rows, size, _size_of(number), number)

    compiled: Callable[..., None] = _step(copy_adjacent)
    return compiled


_repeat, _copy, _copy_every_second, _move = _copier(0), _copier(1), _copier(2), _mover(1, 1)


@_step
def _copy_elements(
    out: int, out_outer: int, out_step: int, x: int, x_outer: int, x_step: int, rows: int, columns: int, number: object
) -> None:
    for _ in range(rows):
        for column in range(columns):
            _move(out + column * out_step, x + column * x_step, number)
        out, x = out + out_outer, x + x_outer


@_step
def _transpose(out: int, out_outer: int, x: int, x_step: int, rows: int, columns: int, number: object) -> None:
    """Copy rows to adjacent elements, from elements that are adjacent along columns."""
    size, whole = _size_of(number), columns - columns % _SIDE
    row = 0
    while row + _SIDE <= rows:
        to, at = out + row * out_outer, x + row * size
        for column in range(0, whole, _SIDE):
            _turn(at + column * x_step, x_step, to + column * size, out_outer, number)
        rest, behind = to + whole * size, at + whole * x_step
        _copy_elements(rest, out_outer, size, behind, size, x_step, _SIDE, columns - whole, number)
        row += _SIDE
    to, at = out + row * out_outer, x + row * size
    _copy_elements(to, out_outer, size, at, size, x_step, rows - row, columns, number)


@_step
def _copy_rows(
    out: int, out_outer: int, out_step: int, x: int, x_outer: int, x_step: int, rows: int, columns: int, number: object
) -> None:
    size = _size_of(number)
    if out_step != size:
        _copy_elements(out, out_outer, out_step, x, x_outer, x_step, rows, columns, number)
    elif x_step == size:
        _copy(out, out_outer, x, x_outer, rows, columns * size, number)
    elif x_step == 0:
        _repeat(out, out_outer, x, x_outer, rows, columns * size, number)
    elif x_step == 2 * size:
        _copy_every_second(out, out_outer, x, x_outer, rows, columns * size, number)
    elif x_outer == size:
        _transpose(out, out_outer, x, x_step, rows, columns, number)
    else:
        _copy_elements(out, out_outer, out_step, x, x_outer, x_step, rows, columns, number)


@routine
def copy_rows(
    out: int, out_outer: int, out_step: int, x: int, x_outer: int, x_step: int, rows: int, columns: int, size: int
) -> None:
    """Copy elements of 1, 4 or 8 bytes from one address to another; distances are in bytes."""
    if size == 4:
        _copy_rows(out, out_outer, out_step, x, x_outer, x_step, rows, columns, np.float32(0))
    elif size == 8:
        _copy_rows(out, out_outer, out_step, x, x_outer, x_step, rows, columns, np.float64(0))
    else:
        _copy_rows(out, out_outer, out_step, x, x_outer, x_step, rows, columns, np.uint8(0))
