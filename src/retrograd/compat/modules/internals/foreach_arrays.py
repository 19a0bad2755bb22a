"""``_foreach`` functions computed on the arrays of all Tensors, without an operator call per Tensor.

``write`` covers what PyTorch's optimizers call, for Tensors of one dtype that no graph needs. A call of the compiled
loops for many arrays computes products with a number, averages and zeros. The other functions call NumPy on each array,
which is faster than an operator for small arrays; large arrays are left to the operators, which run on all threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from ....core.arrays import Array
from ....core.arrays.fp_warnings import silently
from ....core.graph.modes import modes, watchers
from ....core.tensor.mutation import memory_of_its_own
from ....core.tensor.tensor import Tensor, new_tensor
from ....kernels.loops.elements import updates
from ....nn.parameter import Parameter

_LARGE = 1 << 14  # for larger arrays, the overhead of an operator's call is a small part of its time
_HUGE = 1e30  # larger numbers are left to operators, which raise an error if a number does not fit into float32


def _add(x: Array, scratch: Array, other: Array | float, alpha: float) -> None:
    np.add(x, other if alpha == 1 else np.multiply(other, alpha, out=scratch), out=x)


def _add_scaled(operation: np.ufunc) -> Callable[..., None]:
    def add(x: Array, scratch: Array, first: Array, second: Array, value: float) -> None:
        operation(first, second, out=scratch)
        x += scratch if value == 1 else np.multiply(scratch, value, out=scratch)

    return add


_FUNCTIONS: dict[str, Callable[..., object]] = {
    "add": _add,
    "addcdiv": _add_scaled(np.divide),
    "addcmul": _add_scaled(np.multiply),
    "div": lambda x, scratch, other: np.divide(x, other, out=x),
    "mul": lambda x, scratch, other: np.multiply(x, other, out=x),
    "neg": lambda x, scratch: np.negative(x, out=x),
    "reciprocal": lambda x, scratch: np.divide(1, x, out=x),
    "sqrt": lambda x, scratch: np.sqrt(x, out=x),
    "sub": lambda x, scratch, other, alpha: _add(x, scratch, other, -alpha),
}
NAMES = frozenset([*_FUNCTIONS, "lerp", "zero"])


Row: TypeAlias = tuple[Array, list[Array | float]]


def _operands(tensors: Sequence[Tensor], columns: Sequence[object]) -> list[Row] | None:
    """Return for each Tensor its array and its other operands; None if one of them needs an operator.

    A column is a list with one element per Tensor, or a number for all.
    """
    lists = [[column] * len(tensors) if isinstance(column, (int, float)) else column for column in columns]
    if any(not isinstance(column, (list, tuple)) or len(column) != len(tensors) for column in lists):
        return None
    if len({id(x) for x in tensors}) < len(tensors):
        return None
    rows: list[Row] = []
    for index, x in enumerate(tensors):
        array = x.array
        if type(x) not in (Tensor, Parameter) or type(array) is not np.ndarray or array.dtype.char not in "fd":
            return None
        row: list[Array | float] = []
        for other in [column[index] for column in lists if isinstance(column, (list, tuple))]:
            if isinstance(other, (int, float)):
                if not abs(other) < _HUGE:
                    return None
                row.append(other)
                continue
            if type(other) not in (Tensor, Parameter) or modes.grad_enabled and other._requires:
                return None
            if other.array.dtype is not array.dtype or other.array.shape != array.shape:
                return None
            if other is not x and np.may_share_memory(other.array, array):
                return None
            row.append(other.array)
        rows.append((array, row))
    return rows


@silently
def write(name: str, tensors: Sequence[Tensor], columns: Sequence[object]) -> bool:
    """Write the results of ``_foreach_{name}_`` if all Tensors can be written at once, and return whether they were.

    Args:
        name: one of ``NAMES``.
        tensors: the Tensors to write.
        columns: the other operands, each a number for all Tensors or a list with one element per Tensor; for ``add``
            and ``sub`` the last is ``alpha``, for ``addcmul`` and ``addcdiv`` ``value``.
    """
    if watchers or modes.tracer is not None or not all(isinstance(x, Tensor) for x in tensors):
        return False
    rows = _operands(tensors, columns)
    if rows is None:
        return False
    loop = _loop(name, columns, rows)
    if loop is None and (name not in _FUNCTIONS or max(x.array.size for x in tensors) > _LARGE):
        return False
    targets = [memory_of_its_own(x) for x in tensors]
    if any(target is None for target in targets):
        return False
    if loop is not None:
        updates.update(loop[0], _arrays(rows), (), loop[1])
        return True
    function = _FUNCTIONS[name]
    scratch: dict[tuple[int, ...], Array] = {}
    for array, operands in rows:
        if array.shape not in scratch:
            scratch[array.shape] = np.empty_like(array)
        function(array, scratch[array.shape], *operands)
    return True


def _loop(name: str, columns: Sequence[object], rows: Sequence[Row]) -> tuple[str, tuple[float, ...]] | None:
    """Return the compiled loop for a function and its factors; None if there is none."""
    last = columns[-1] if columns else 0.0
    if not isinstance(last, (int, float)):
        return None
    if name == "mul":
        found: tuple[str, tuple[float, ...]] = "scaled", (last,)
    elif name == "lerp" and 0 <= last <= 1:
        found = "averaged", (last, 1 - last)
    elif name == "zero":
        found = "filled", (0.0,)
    else:
        return None
    return found if updates.takes(_arrays(rows), found[0], len(found[1])) else None


def _arrays(rows: Sequence[Row]) -> list[list[Array]]:
    """Return the arrays of each row, which a loop for many arrays takes."""
    return [[array, *(operand for operand in row if isinstance(operand, np.ndarray))] for array, row in rows]


def norms(tensors: Sequence[Tensor]) -> tuple[Tensor, ...] | None:
    """Return the 2-norm of each Tensor by one call of a loop; None if some Tensor needs an operator."""
    rows = None if watchers or modes.tracer is not None else _operands(tensors, [])
    if rows is None or any(modes.grad_enabled and x._requires or not x.array.size for x in tensors):
        return None
    if not updates.takes(_arrays(rows), updates.SQUARES, 0):
        return None
    sums = updates.sums_of_squares([x.array for x in tensors])
    return tuple(new_tensor(np.array(value)) for value in np.sqrt(sums).astype(tensors[0].array.dtype))
