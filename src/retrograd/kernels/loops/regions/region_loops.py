"""The loop that executes the code of a region, defined in ``region_code.py``.

Elements are computed by the same operations in the same order as by the region's LLVM code, so that results are bitwise
equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ...runtime.loop_blas import AS_IT_IS, TRANSPOSED, gemm, unflushed_gemm
from ...runtime.loop_calls import Loop
from ...runtime.numba_functions import makers, njit, routine
from ...runtime.object_layout import DATA, routine_symbol
from ...runtime.thread_protocol import call, launch, load
from ...tiles.packed_products import packed_product_at
from ...tiles.tiles import product_at, size_of
from ..elements.basic_loops import _compiled
from ..elements.fused_step_loops import _load, _vector
from ..elements.fused_steps import LOAD_FLOAT32, LOAD_FLOAT64
from ..matrices.products import PACKED, SINGLY, STRAIGHT, by_rows
from . import region_code as at
from .accumulator_loops import run_rows, set_word, word_at
from .row_copies import copy_rows
from .small_products import small_product

Result = TypeVar("Result")
_step = _compiled()
_call: Callable[..., None] = call
_read: Callable[..., int] = load
_flushing_gemm: Callable[..., None] = gemm
_plain_gemm: Callable[..., None] = unflushed_gemm
_run_rows: Callable[..., None] = run_rows
_word_at: Callable[..., int] = word_at
_set_word: Callable[..., None] = set_word
_size_of: Callable[..., int] = size_of


@intrinsic
def _power(typing_context: object, address: object, x: object, y: object) -> object:
    """Call the C function of two numbers at an address."""

    def generate(context: object, builder: ir.IRBuilder, signature: object, values: Sequence[object]) -> object:
        kind = ir.FunctionType(ir.DoubleType(), [ir.DoubleType()] * 2).as_pointer()
        return builder.call(builder.inttoptr(values[0], kind), values[1:])

    return types.float64(types.int64, types.float64, types.float64), generate


_pow: Callable[..., float] = _power


@_step
def _word(address: int) -> int:
    return _vector(address, 1, np.int64(0))[0]


@_step
def _fill(out: np.ndarray, value: object) -> None:
    for j in range(out.size):
        out[j] = value


@_step
def _load_rows(
    operation: int, out: int, x: int, outer: int, step: int, rows: int, columns: int, number: object, same: int
) -> None:
    """Fill a register with rows of elements at a distance of ``step`` bytes, the rows at a distance of ``outer``.

    The operation ``same`` loads elements like ``number``.
    """
    if operation == same:
        size = _size_of(number)
        copy_rows(out, columns * size, size, x, outer, step, rows, columns, size)
    elif columns < at.SHORT_ROW:
        _load(operation, _vector(out, rows * columns, number), x, step, outer, columns)
    else:
        for r in range(rows):
            _load(operation, _vector(out, columns, number), x + r * outer, step, 0, columns)
            out += columns * _size_of(number)


@_step
def _store_bytes(address: int, outer: int, step: int, x: np.ndarray, columns: int) -> None:
    """Write a register to rows of bytes, laid out as in ``_load_rows``."""
    left = columns
    for j in range(x.size):
        _vector(address, 1, np.uint8(0))[0] = np.uint8(x[j])
        address, left = address + step, left - 1
        if left == 0:
            address, left = address + outer - columns * step, columns


@_step
def _slots_filled(table: int, slots: int, count: int, words: int, buffers: int) -> None:
    """Write the addresses of slots, each of which is described by ``words`` words."""
    for k in range(count):
        place = slots + 8 * words * k
        _set_word(table + 8 * k, _word_at(buffers + 8 * _word_at(place)) + _word_at(place + 8))


@_step
def _converted(rows: int, count: int, table: int, number: object) -> None:
    """Convert single elements."""
    for k in range(count):
        row = rows + 24 * k
        target, source = _word_at(table + 8 * _word_at(row + 8)), _word_at(table + 8 * _word_at(row + 16))
        _load(_word_at(row), _vector(target, 1, number), source, 0, 0, 1)


@_step
def _flat(code: int, end: int, arena: int, number: object) -> int:
    """Execute successive FLAT steps, the first at the address; return the address of the next step."""
    table, size = arena + at.ARGUMENTS, _size_of(number)
    while True:
        slots, once, elements = _word_at(code + 24), _word_at(code + 32), _word_at(code + 40)
        first = code + 8 * _word_at(code + 48)
        _slots_filled(table, first, slots, 2, arena + at.BUFFERS)
        rows = first + 16 * slots
        _converted(rows, once, table, number)
        _run_rows(rows + 24 * once, table, elements, number)
        code += 8 * _word_at(code + 8)
        if code == end or _word_at(code) != at.FLAT or _word_at(code + 16) != size:
            return code


@_step
def _mapped(code: int, arena: int, number: object) -> None:
    """Execute a MAP, which begins at an address."""
    table, buffers = arena + at.ARGUMENTS, arena + at.BUFFERS
    slots, once, columns = _word_at(code + 24), _word_at(code + 32), _word_at(code + 40)
    group, block, places = _word_at(code + 72), _word_at(code + 80), _word_at(code + 88)
    loads, stores, first = _word_at(code + 96), _word_at(code + 104), code + 8 * _word_at(code + 112)
    _slots_filled(table, first, slots, 6, buffers)
    at_loads = first + 48 * slots
    _converted(at_loads, once, table, number)
    at_loads += 24 * once
    at_stores = at_loads + 24 * loads
    rows, neighbors, size = at_stores + 24 * stores, _word_at(code + 64), _size_of(number)
    same = LOAD_FLOAT32 if size == at.FLOAT32 else LOAD_FLOAT64
    for i0 in range(_word_at(code + 48)):
        for i1 in range(_word_at(code + 56)):
            for i2 in range(0, neighbors, group):
                together = min(group, neighbors - i2)
                for column in range(0, columns, block):
                    length = min(block, columns - column)
                    n = together * length
                    for k in range(places):
                        p = first + 48 * k
                        outer = i0 * _word_at(p + 16) + i1 * _word_at(p + 24) + i2 * _word_at(p + 32)
                        base = _word_at(buffers + 8 * _word_at(p)) + _word_at(p + 8)
                        _set_word(table + 8 * k, base + outer + column * _word_at(p + 40))
                    for k in range(loads):
                        row = at_loads + 24 * k
                        p = first + 48 * _word_at(row + 16)
                        out, x = _word_at(table + 8 * _word_at(row + 8)), _word_at(table + 8 * _word_at(row + 16))
                        outer, step = _word_at(p + 32), _word_at(p + 40)
                        _load_rows(_word_at(row), out, x, outer, step, together, length, number, same)
                    _run_rows(rows, table, n, number)
                    for k in range(stores):
                        row = at_stores + 24 * k
                        p = first + 48 * _word_at(row + 8)
                        out, x = _word_at(table + 8 * _word_at(row + 8)), _word_at(table + 8 * _word_at(row + 16))
                        outer, step = _word_at(p + 32), _word_at(p + 40)
                        if _word_at(row) == at.STORE_BYTE:
                            _store_bytes(out, outer, step, _vector(x, n, number), length)
                        else:
                            copy_rows(out, outer, step, x, length * size, size, together, length, size)


@_step
def _called(words: np.ndarray, first: int, arena: int) -> None:
    """Call a NumPy inner loop for each row."""
    function, data, arguments = words[first + 2], words[first + 3], words[first + 4]
    sizes = first + 10
    strides = sizes + words[first + 5]
    place = strides + words[first + 6]
    buffers = _vector(arena + at.BUFFERS, at.MAX_BUFFERS, np.int64(0))
    given = _vector(arena + at.ARGUMENTS, at.MAX_SLOTS, np.int64(0))
    begin = words.ctypes.data
    for i0 in range(words[first + 7]):
        for i1 in range(words[first + 8]):
            for i2 in range(words[first + 9]):
                for k in range(arguments):
                    p = place + 5 * k
                    outer = i0 * words[p + 2] + i1 * words[p + 3] + i2 * words[p + 4]
                    given[k] = buffers[words[p]] + words[p + 1] + outer
                _call(function, (arena + at.ARGUMENTS, begin + 8 * sizes, begin + 8 * strides, data))


@_step
def _place(words: np.ndarray, p: int, buffers: np.ndarray, i0: int, i1: int, i2: int, i3: int) -> int:
    """Return the address of an element of a place."""
    outer = i0 * words[p + 2] + i1 * words[p + 3] + i2 * words[p + 4] + i3 * words[p + 5]
    return buffers[words[p]] + words[p + 1] + outer


@_step
def _added_up(words: np.ndarray, first: int, buffers: np.ndarray) -> None:
    target, source, columns = first + 6, first + 12, words[first + 5]
    out_step, x_step = words[target + 5], words[source + 5]
    for i0 in range(words[first + 2]):
        for i1 in range(words[first + 3]):
            for i2 in range(words[first + 4]):
                out = _place(words, target, buffers, i0, i1, i2, 0)
                x = _place(words, source, buffers, i0, i1, i2, 0)
                if out_step == 0:
                    _vector(out, 1, 0.0)[0] += _total(x, x_step, columns)
                elif out_step == at.FLOAT64 and x_step == at.FLOAT32:
                    _totals(_vector(out, columns, 0.0), _vector(x, columns, np.float32(0)))
                else:
                    for i3 in range(columns):
                        _vector(out + i3 * out_step, 1, 0.0)[0] += _vector(x + i3 * x_step, 1, np.float32(0))[0]


@_compiled("reassoc")
def _total(x: int, step: int, count: int) -> float:
    """Add float32 elements in double precision, by vectors."""
    total, row = 0.0, _vector(x, count, np.float32(0))
    if step == at.FLOAT32:
        for j in range(count):
            total += np.float64(row[j])
    else:
        for j in range(count):
            total += np.float64(_vector(x + j * step, 1, np.float32(0))[0])
    return total


@_step
def _totals(out: np.ndarray, x: np.ndarray) -> None:
    for j in range(out.size):
        out[j] += x[j]


@_step
def _base(place: int, buffers: int) -> int:
    """Return the address of the first element of a place of the code."""
    return _word_at(buffers + 8 * _word_at(place)) + _word_at(place + 8)


@_step
def _copy(code: int, buffers: int, size: int) -> None:
    target, source, columns = code + 56, code + 104, _word_at(code + 48)
    out, x = _base(target, buffers), _base(source, buffers)
    out_outer, out_step, x_outer = _word_at(target + 32), _word_at(target + 40), _word_at(source + 32)
    x_step, rows = _word_at(source + 40), _word_at(code + 40)
    for i0 in range(_word_at(code + 24)):
        for i1 in range(_word_at(code + 32)):
            to = out + i0 * _word_at(target + 16) + i1 * _word_at(target + 24)
            given = x + i0 * _word_at(source + 16) + i1 * _word_at(source + 24)
            copy_rows(to, out_outer, out_step, given, x_outer, x_step, rows, columns, size)


@_step
def _filled(words: np.ndarray, first: int, buffers: np.ndarray, number: object) -> None:
    """Fill a place with the bits of an element of the size of ``number``."""
    value, size = _vector(words.ctypes.data + 8 * (first + 7), 1, number)[0], words[first + 2]
    for i0 in range(words[first + 3]):
        for i1 in range(words[first + 4]):
            for i2 in range(words[first + 5]):
                out, step = _place(words, first + 8, buffers, i0, i1, i2, 0), words[first + 13]
                if step == size:
                    _fill(_vector(out, words[first + 6], number), value)
                else:
                    for i3 in range(words[first + 6]):
                        _vector(out + i3 * step, 1, number)[0] = value


_by_rows = njit(by_rows)


@_step
def _at(code: int, arena: int, number: int) -> int:
    """Return the address of the matrix whose buffer and offset are the words from ``number`` on."""
    return _read(arena + at.BUFFERS + 8 * _read(code + 8 * number)) + _read(code + 8 * number + 8)


@_step
def _multiplied(code: int, arena: int, start: int, stop: int, zero: object) -> None:
    """Compute blocks of the product at a place of the code, by the method of eager products."""
    size, m, k, n = _read(code + 16), _read(code + 24), _read(code + 32), _read(code + 40)
    how, flushes, block = _read(code + 48), _read(code + 56), _read(code + 80)
    a, a_step, a_turned = _at(code, arena, 12), _read(code + 112), _read(code + 120)
    b, b_step, b_turned = _at(code, arena, 16), _read(code + 144), _read(code + 152)
    out, out_step = _at(code, arena, 20), _read(code + 176)
    tall = _by_rows(m, n, how)
    last = min(m if tall else n, stop * block)
    together = block if how == SINGLY else last - start * block
    a_way, b_way = TRANSPOSED if a_turned else AS_IT_IS, TRANSPOSED if b_turned else AS_IT_IS
    a_width, b_width, width = a_step // size, b_step // size, out_step // size
    for low in range(start * block, last, together):
        length = min(last, low + together) - low
        rows, columns = (length, n) if tall else (m, length)
        x = a + low * (size if a_turned else a_step) if tall else a
        y = b if tall else b + low * (b_step if b_turned else size)
        to = out + low * (out_step if tall else size)
        if how == STRAIGHT:
            down, along = (size, a_step) if a_turned else (a_step, size)
            product_at(rows, k, columns, x, down, along, y, b_step, to, out_step, zero)
        elif how == PACKED:
            packed_product_at(rows, k, columns, x, a_step, a_turned, y, b_step, b_turned, to, out_step, zero)
        elif flushes:
            _flushing_gemm(a_way, b_way, rows, columns, k, x, a_width, y, b_width, zero, to, width)
        else:
            _plain_gemm(a_way, b_way, rows, columns, k, x, a_width, y, b_width, zero, to, width)


@routine
def multiplied_part(given: int, start: int, stop: int) -> None:
    """Compute blocks of the product whose place in the code and whose arena are words at an address."""
    code, arena = _read(given), _read(given + 8)
    if _read(code + 16) == at.FLOAT32:
        _multiplied(code, arena, start, stop, np.float32(0))
    else:
        _multiplied(code, arena, start, stop, np.float64(0))


@intrinsic
def _task(typing_context: object) -> object:
    """Return the address of ``multiplied_part``, or 0 outside of the library."""

    def generate(context: object, builder: ir.IRBuilder, signature: object, values: Sequence[object]) -> object:
        word = ir.IntType(64)
        if not makers:
            return word(0)
        kind = ir.FunctionType(ir.IntType(32), [word] * 3)
        name = routine_symbol(__name__, "multiplied_part", "iii")
        return builder.ptrtoint(cgutils.get_or_insert_function(builder.module, kind, name), word)

    return types.int64(), generate


_address: Callable[..., int] = _task


@_step
def _shared_product(words: np.ndarray, first: int, arena: int) -> None:
    """Compute a large product, by the threads of the pool if there are several blocks."""
    given, task = _vector(arena + at.ARGUMENTS, 2, np.int64(0)), _address()
    given[0], given[1] = words.ctypes.data + 8 * first, arena
    blocks, least, pool = words[first + 8], words[first + 9], words[first + 23]
    if blocks == 1 or pool < 0 or task == 0:
        multiplied_part(arena + at.ARGUMENTS, 0, blocks)
        return
    settings = _read(arena + at.BUFFERS + 8 * pool)
    threads = _read(settings + 8)
    shares = threads * (1 if blocks <= threads * words[first + 24] else words[first + 11])
    part = max(least, (blocks + shares - 1) // shares)
    launch(_read(settings), threads, 0, blocks, part, task, arena + at.ARGUMENTS)


@_step
def _overlap(words: np.ndarray, first: int, buffers: np.ndarray) -> bool:
    a, b = buffers[words[first + 2]], buffers[words[first + 5]]
    return a + words[first + 3] < b + words[first + 7] and b + words[first + 6] < a + words[first + 4]


@_step
def _gathered(words: np.ndarray, first: int, buffers: np.ndarray, number: object) -> bool:
    """Move or add elements at indices; return whether all indices are within their bounds."""
    operation, indices, x, part = words[first], words[first + 3], first + 8, first + 12
    for i0 in range(words[first + 4]):
        for i1 in range(words[first + 5]):
            row = buffers[words[x]] + words[x + 1]
            for k in range(indices):
                p = part + 6 + 6 * k
                index = _word(buffers[words[p + 2]] + words[p + 3] + i0 * words[p + 4] + i1 * words[p + 5])
                index += words[p] if index < 0 else 0
                if index < 0 or index >= words[p]:
                    return False
                row += index * words[p + 1]
            for i2 in range(words[first + 6]):
                for i3 in range(words[first + 7]):
                    inside = _vector(row + i2 * words[x + 2] + i3 * words[x + 3], 1, number)
                    beside = _vector(_place(words, part, buffers, i0, i1, i2, i3), 1, number)
                    if operation == at.TAKE:
                        beside[0] = inside[0]
                    elif operation == at.PUT:
                        inside[0] = beside[0]
                    else:
                        inside[0] += beside[0]
    return True


@_step
def _rates(words: np.ndarray, first: int, buffers: np.ndarray, number: float) -> None:
    """Increment the step count; write Adam's step size and epsilon of this step."""
    given = first + 4
    step = _vector(buffers[words[given + 4]] + words[given + 5], 1, number)
    step[0] += number
    t = np.float64(step[0])
    lr = _vector(buffers[words[given + 6]] + words[given + 7], 1, 0.0)[0]
    beta1 = _vector(buffers[words[given + 8]] + words[given + 9], 1, 0.0)[0]
    beta2 = _vector(buffers[words[given + 10]] + words[given + 11], 1, 0.0)[0]
    eps = _vector(buffers[words[given + 12]] + words[given + 13], 1, 0.0)[0]
    root = np.sqrt(1.0 - _pow(words[first + 2], beta2, t))
    _vector(buffers[words[given]] + words[given + 1], 1, 0.0)[0] = lr * root / (1.0 - _pow(words[first + 2], beta1, t))
    _vector(buffers[words[given + 2]] + words[given + 3], 1, 0.0)[0] = eps * root


@_step
def _same(words: np.ndarray, first: int, buffers: np.ndarray) -> bool:
    """Return whether an element has the bits, or is the number, that it had in the trace."""
    size, address = words[first + 2], buffers[words[first + 4]] + words[first + 5]
    if words[first] == at.CHECK_FLOAT:
        seen = _vector(words.ctypes.data + 8 * (first + 3), 1, 0.0)[0]
        found = _vector(address, 1, 0.0)[0] if size == at.FLOAT64 else np.float64(_vector(address, 1, np.float32(0))[0])
        return found == seen
    seen, found = words.ctypes.data + 8 * (first + 3), True
    for k in range(size):
        found &= _vector(seen + k, 1, np.uint8(0))[0] == _vector(address + k, 1, np.uint8(0))[0]
    return found


@_step
def _begin(words: np.ndarray, first: int, buffers: np.ndarray, left: np.ndarray) -> None:
    """Point the buffers of a loop to the arrays that its first step reads and writes."""
    count, back, rows, carries = _word(buffers[words[first + 2]]), words[first + 3], words[first + 4], words[first + 5]
    left[0] = count
    at_row, at_carry = first + 6, first + 6 + 2 * rows
    for k in range(rows):
        if back:
            buffers[words[at_row + 2 * k]] += (count - 1) * words[at_row + 2 * k + 1]
    for k in range(carries):
        p = at_carry + 5 * k
        out, second, size = words[p + 1], words[p + 2], words[p + 4]
        if words[p + 3]:  # the second array has one row more than there are steps
            buffers[words[p]] = buffers[second] + (count * size if back else 0)
            buffers[out] = buffers[words[p]] + (-size if back else size)
        elif count % 2 == 0:  # the last step writes to the first array
            buffers[out], buffers[second] = buffers[second], buffers[out]


@_step
def _advance(words: np.ndarray, first: int, buffers: np.ndarray) -> None:
    """Move the buffers of a loop to the next step."""
    back, rows, carries = words[first + 3], words[first + 4], words[first + 5]
    at_row, at_carry = first + 6, first + 6 + 2 * rows
    for k in range(rows):
        size = words[at_row + 2 * k + 1]
        buffers[words[at_row + 2 * k]] += -size if back else size
    for k in range(carries):
        p = at_carry + 5 * k
        out, second, size = words[p + 1], words[p + 2], words[p + 4]
        buffers[words[p]] = buffers[out]
        if words[p + 3]:
            buffers[out] += -size if back else size
        else:
            buffers[out], buffers[second] = buffers[second], buffers[out]


@_step
def _is_number(words: np.ndarray, first: int, buffers: np.ndarray) -> bool:
    address = buffers[words[first + 3]] + words[first + 4]
    if words[first + 2] == at.FLOAT64:
        x = _vector(address, 1, 0.0)[0]
    else:
        x = np.float64(_vector(address, 1, np.float32(0))[0])
    return x == x


def _for_floats(function: Callable[..., Result]) -> Callable[..., Result]:
    """Return a function that executes a step in float32 or float64, depending on the size of an element."""

    def execute_in_floats(words: np.ndarray, first: int, buffers: np.ndarray) -> Result:
        if words[first + 2] == at.FLOAT32:
            return function(words, first, buffers, np.float32(0))
        return function(words, first, buffers, np.float64(0))

    compiled: Callable[..., Result] = _step(execute_in_floats)
    return compiled


def _for_sizes(function: Callable[..., Result]) -> Callable[..., Result]:
    """Return a function that executes a step that moves elements of 4, 8 or 1 bytes."""

    def execute_by_size(words: np.ndarray, first: int, buffers: np.ndarray) -> Result:
        if words[first + 2] == 4:
            return function(words, first, buffers, np.int32(0))
        if words[first + 2] == 8:
            return function(words, first, buffers, np.int64(0))
        return function(words, first, buffers, np.uint8(0))

    compiled: Callable[..., Result] = _step(execute_by_size)
    return compiled


_multiply, _add_at = _for_floats(small_product), _for_floats(_gathered)
_write, _move = _for_sizes(_filled), _for_sizes(_gathered)


@njit(error_model="numpy")
def _executed(items: int, program: int) -> None:
    """Execute the code at the address ``program`` on the arrays whose addresses are at ``items``, the arena last."""
    words = _vector(program, _word(program), np.int64(0))
    count = words[1]
    arena = _word(_word(items + 8 * (count - 1)) + DATA)
    buffers = _vector(arena + at.BUFFERS, at.MAX_BUFFERS, np.int64(0))
    for k in range(count):
        buffers[k] = _word(_word(items + 8 * k) + DATA)
    buffers[count] = program
    status = _vector(arena + at.STATUS, 1, np.int64(0))
    status[0], left = 0, _vector(arena + at.LEFT, 1, np.int64(0))
    first, end = at.HEADER, program + 8 * words.size
    while first < words.size:
        operation, size = words[first], words[first + 2]
        fine = True
        if operation == at.FLAT:
            if size == at.FLOAT32:
                following = _flat(program + 8 * first, end, arena, np.float32(0))
            else:
                following = _flat(program + 8 * first, end, arena, np.float64(0))
            first = (following - program) >> 3
            continue
        elif operation == at.MAP:
            if size == at.FLOAT32:
                _mapped(program + 8 * first, arena, np.float32(0))
            else:
                _mapped(program + 8 * first, arena, np.float64(0))
        elif operation == at.CALL:
            _called(words, first, arena)
        elif operation == at.PRODUCT:
            _multiply(words, first, buffers)
        elif operation == at.GEMM:
            _shared_product(words, first, arena)
        elif operation == at.COPY:
            _copy(program + 8 * first, arena + at.BUFFERS, size)
        elif operation == at.FILL:
            _write(words, first, buffers)
        elif operation == at.ADD_UP:
            _added_up(words, first, buffers)
        elif operation == at.SEPARATE:
            fine = not _overlap(words, first, buffers)
        elif operation == at.ADD_AT:
            fine = _add_at(words, first, buffers)
        elif operation == at.TAKE or operation == at.PUT:
            fine = _move(words, first, buffers)
        elif operation == at.RATES:
            if words[first + 3] == at.FLOAT32:
                _rates(words, first, buffers, np.float32(1))
            else:
                _rates(words, first, buffers, 1.0)
        elif operation == at.BEGIN:
            _begin(words, first, buffers, left)
        elif operation == at.AGAIN:
            left[0] -= 1
            if left[0] > 0:
                _advance(words, size, buffers)
                first = size + words[size + 1]
                continue
        elif operation == at.NUMBER:
            fine = _is_number(words, first, buffers)
        else:
            fine = _same(words, first, buffers)
        if not fine:
            status[0] = 1
            return
        first += words[first + 1]


execute = Loop(__name__, "execute", _executed)
