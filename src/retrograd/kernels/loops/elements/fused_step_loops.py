"""The loops that execute the bytecode of fused elementwise steps, defined in ``fused_steps.py``.

Each operation runs as a separate loop over a block, or an accumulator executes many operations in one loop. Results are
bitwise equal to NumPy's. Intermediate results stay in the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...runtime.thread_protocol import shared
from ..regions.accumulator_loops import run_rows
from ..sequences.common import matrix_at
from . import fused_steps as at
from .basic_loops import BY_ELEMENT, _compiled, _sum

_step = _compiled()
_run_rows: Callable[..., None] = run_rows


@_step
def _vector(address: int, n: int, number: Any) -> np.ndarray:
    row: np.ndarray = matrix_at(address, 1, n, number)[0]
    return row


@_step
def _combine(operation: int, out: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    """Execute an operation of two numbers."""
    if operation == at.ADD:
        for j in range(out.size):
            out[j] = x[j] + y[j]
    elif operation == at.SUBTRACT:
        for j in range(out.size):
            out[j] = x[j] - y[j]
    elif operation == at.MULTIPLY:
        for j in range(out.size):
            out[j] = x[j] * y[j]
    elif operation == at.DIVIDE:
        for j in range(out.size):
            out[j] = x[j] / y[j]
    elif operation == at.MAXIMUM:
        for j in range(out.size):
            out[j] = x[j] if x[j] >= y[j] or x[j] != x[j] else y[j]
    elif operation == at.MINIMUM:
        for j in range(out.size):
            out[j] = x[j] if x[j] <= y[j] or x[j] != x[j] else y[j]
    elif operation == at.LESS:
        for j in range(out.size):
            out[j] = x[j] < y[j]
    elif operation == at.LESS_EQUAL:
        for j in range(out.size):
            out[j] = x[j] <= y[j]
    elif operation == at.GREATER:
        for j in range(out.size):
            out[j] = x[j] > y[j]
    elif operation == at.GREATER_EQUAL:
        for j in range(out.size):
            out[j] = x[j] >= y[j]
    elif operation == at.EQUAL:
        for j in range(out.size):
            out[j] = x[j] == y[j]
    elif operation == at.NOT_EQUAL:
        for j in range(out.size):
            out[j] = x[j] != y[j]
    elif operation == at.AND:
        for j in range(out.size):
            out[j] = x[j] * y[j]
    elif operation == at.OR:
        for j in range(out.size):
            out[j] = (x[j] != 0) | (y[j] != 0)


@_step
def _change(operation: int, out: np.ndarray, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> None:
    """Execute an operation of one number, or the selection between two."""
    if operation == at.NEGATIVE:
        for j in range(out.size):
            out[j] = -x[j]
    elif operation == at.SQRT:
        for j in range(out.size):
            out[j] = np.sqrt(x[j])
    elif operation == at.ABSOLUTE:
        for j in range(out.size):
            out[j] = abs(x[j])
    elif operation == at.NOT:
        for j in range(out.size):
            out[j] = x[j] == 0
    elif operation == at.COPY:
        for j in range(out.size):
            out[j] = x[j]
    elif operation == at.CHOOSE:
        for j in range(out.size):
            yes, no = y[j], z[j]  # both are read in any case, so that the loop is vectorized
            out[j] = yes if x[j] != 0 else no


@_step
def _loaded(out: np.ndarray, x: int, step: int, outer: int, columns: int, number: Any) -> None:
    """Load rows of elements at the address x, with the dtype of ``number``, to a block."""
    values = _vector(x, out.size, number)
    if columns == out.size and step == values.itemsize:
        for j in range(out.size):
            out[j] = values[j]
    elif columns == out.size and step == 0:
        value = values[0]
        for j in range(out.size):
            out[j] = value
    elif columns == out.size:
        for j in range(out.size):
            out[j] = _vector(x + j * step, 1, number)[0]
    else:
        left = columns
        for j in range(out.size):
            out[j] = _vector(x, 1, number)[0]
            x, left = x + step, left - 1
            if left == 0:
                x, left = x + outer - columns * step, columns


@_step
def _load(operation: int, out: np.ndarray, x: int, step: int, outer: int, columns: int) -> None:
    """Load rows of ``columns`` elements at a distance of ``step`` bytes; the rows are ``outer`` bytes apart."""
    if operation == at.LOAD_FLOAT32:
        _loaded(out, x, step, outer, columns, np.float32(0))
    elif operation == at.LOAD_FLOAT64:
        _loaded(out, x, step, outer, columns, np.float64(0))
    elif operation == at.LOAD_INT32:
        _loaded(out, x, step, outer, columns, np.int32(0))
    elif operation == at.LOAD_INT64:
        _loaded(out, x, step, outer, columns, np.int64(0))
    else:
        _loaded(out, x, step, outer, columns, np.uint8(0))
    if operation == at.LOAD_BOOL:
        for j in range(out.size):
            out[j] = out[j] != 0


@_step
def _end(operation: int, out: int, x: np.ndarray) -> None:
    """Execute an operation that writes to an array of another dtype, at an address."""
    if operation == at.STORE_BOOL:
        written = _vector(out, x.size, np.uint8(0))
        for j in range(x.size):
            written[j] = x[j] != 0
    elif operation == at.SUM_ROW:
        _vector(out, 1, np.float64(0))[0] += _sum(x)
    else:
        totals = _vector(out, x.size, np.float64(0))
        for j in range(x.size):
            totals[j] += x[j]


@_step
def _no_function(operation: int, out: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    pass


def _or_over(name: str, number: int, others: Callable[..., None]) -> Callable[..., None]:
    """Return a function that applies function ``name`` if the operation is ``number``, otherwise calls ``others``."""
    function = BY_ELEMENT[name]

    @_step
    def change(out: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
        for j in range(out.size):
            out[j] = function(x[j])

    @_step
    def combine(out: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
        for j in range(out.size):
            out[j] = function(x[j], y[j])

    over = combine if name.endswith("_backward") else change

    def execute(operation: int, out: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
        if operation == number:
            over(out, x, y)
        else:
            others(operation, out, x, y)

    chosen: Callable[..., None] = _step(execute)
    return chosen


_function: Callable[..., None] = _no_function
for _name, _number in at.FUNCTIONS.items():
    _function = _or_over(_name, _number, _function)


def _executed(functions: Callable[..., None]) -> Callable[..., None]:
    """Return the loop for a dtype, with its ``functions``: for float64 only NumPy's operations exist."""

    def body(
        code: np.ndarray, places: np.ndarray, numbers: np.ndarray, like: np.ndarray, rows: int, columns: int,
        block: int, middle: int, inner: int, registers: int, start: int, stop: int,
    ) -> None:  # fmt: skip
        """Execute the code. A row of ``places`` is an array's address, four strides, and the stride between parts.

        Parts are blocks of rows, or of columns if there is one row. The first registers hold ``numbers``.
        """
        arrays, none, length, rows_at = len(places), like[0], at.LANES, np.int64(code.ctypes.data)
        memory = np.empty((registers + 1) * length, like.dtype)
        slots = np.empty(arrays + registers, np.int64)
        for k in range(registers):
            slots[arrays + k] = np.int64(memory.ctypes.data) + k * length * memory.itemsize
        for k in range(len(numbers)):
            memory[k * length : (k + 1) * length] = numbers[k]
        for part in range(start, stop):
            low, high, first, last = 0, columns, part * block, min(rows, part * block + block)
            if rows == 1:
                low, high, first, last = part * block, min(columns, part * block + block), 0, 1
            for row in range(first, last):
                r = row // inner
                for column in range(low, high, length):
                    n = min(length, high - column)
                    for k in range(arrays):
                        outer = r // middle * places[k, 1] + r % middle * places[k, 2] + row % inner * places[k, 3]
                        slots[k] = places[k, 0] + outer + column * places[k, 4] + part * places[k, 5]
                    for k in range(len(code)):
                        operation = code[k, 0]
                        if operation == at.DONE:
                            break
                        if operation == at.RUN:
                            _run_rows(rows_at + 40 * code[k, 1], np.int64(slots.ctypes.data), n, none)
                            continue
                        target, at_x = slots[code[k, 1]], slots[code[k, 2]]
                        if operation >= at.STORE_BOOL and operation <= at.SUM_COLUMNS:
                            _end(operation, target, _vector(at_x, n, none))
                            continue
                        out = _vector(target, n, none)
                        if operation >= at.LOAD_FLOAT32 and operation < at.STORE_BOOL:
                            _load(operation, out, at_x, places[code[k, 2], 4], 0, out.size)
                            continue
                        x, y = _vector(at_x, n, none), _vector(slots[code[k, 3]], n, none)
                        if operation < at.NEGATIVE:
                            _combine(operation, out, x, y)
                        elif operation < at.LOAD_FLOAT32:
                            _change(operation, out, x, y, _vector(slots[code[k, 4]], n, none))
                        else:
                            functions(operation, out, x, y)

    return body


_single, _double = _executed(_function), _executed(_no_function)
_single.__name__, _double.__name__ = "float32", "float64"
float32, float64 = shared()(_single), shared()(_double)
