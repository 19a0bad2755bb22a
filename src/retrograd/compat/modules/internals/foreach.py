"""``torch._foreach_add`` and similar functions: an operator applied to each Tensor of a list.

As in PyTorch, results are a tuple, and functions that write in place return their list. Optimizers of packages call
them; Retrograd's own optimizers do not.

They loop over operators in Python, except for what PyTorch's optimizers call, for Tensors of one dtype that no graph
needs: a call of the compiled loops for many arrays computes products with a number, averages and zeros, and the other
functions call NumPy on each array, which is faster than an operator for small arrays. Large arrays are left to the
operators, which run on all threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

import numpy as np

from ...._generated.linalg import vector_norm
from ...._generated.toplevel import pow as power
from ....core.arrays import Array
from ....core.arrays.fp_warnings import silently
from ....core.graph.modes import modes, watchers
from ....core.tensor.mutation import memory_of_its_own
from ....core.tensor.tensor import Tensor, new_tensor
from ....kernels.loops.elements import updates
from ....nn.parameter import Parameter
from ....ops.table.types import DTypeLike

_UNARY = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round "
    "rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"
)
_WITH_OTHERS = "add addcdiv addcmul clamp_max clamp_min div lerp maximum minimum mul pow sub"
# The clamp functions accept numbers and have in-place forms.
_METHODS = {"maximum": "clamp_min", "minimum": "clamp_max"}


Results: TypeAlias = "Sequence[Tensor]"


def _check(name: str, self: object) -> None:
    if not isinstance(self, (list, tuple)):
        raise TypeError(f"{name}: expected a list or tuple of Tensors, got {type(self).__name__}")
    if not self:
        raise RuntimeError(f"{name}: Tensor list must have at least one tensor.")
    for place, x in enumerate(self):
        if not isinstance(x, Tensor):
            raise TypeError(f"{name}: expected Tensor as element {place} in argument 0, but got {type(x).__name__}")


def _each(name: str, in_place: bool) -> Callable[..., Results]:
    """Return the function over lists: a list has one argument per Tensor, other arguments are used for all Tensors."""
    full = f"_foreach_{name}{'_' * in_place}"
    method = _METHODS.get(name, name) + "_" * in_place

    def apply(self: Sequence[Tensor] | complex, *others: object, **options: object) -> Results:
        if name == "pow" and isinstance(self, (int, float, complex)):
            (exponents,) = others
            _check(full, exponents)
            return tuple(power(self, exponent) for exponent in cast(Sequence[Tensor], exponents))
        _check(full, self)
        if name.startswith("addc"):
            others, options["value"] = others[:2], _value(others, options)
        tensors = cast(Sequence[Tensor], self)
        if in_place and name in _AT_ONCE:
            factors = [options.get("alpha", 1)] if name in ("add", "sub") else list(options.values())
            if len(options) <= len(factors) and _write_at_once(name, tensors, [*others, *factors]):
                return tensors
        values = options.get("value")
        columns = [_column(full, len(tensors), place, other) for place, other in enumerate((*others, values), 1)]
        *columns, values_column = columns
        results = []
        for i, x in enumerate(tensors):
            if values_column is not None:
                options["value"] = values_column[i]
            rest = [column[i] if column is not None else other for column, other in zip(columns, others)]
            results.append(getattr(x, method)(*rest, **options))
        return tensors if in_place else tuple(results)

    apply.__name__ = apply.__qualname__ = full
    apply.__doc__ = f"Apply ``{method}`` to each Tensor of a list, and return the {'list' if in_place else 'results'}."
    return apply


def _value(others: Sequence[object], options: dict[str, object]) -> object:
    """Return the factor of ``addcmul`` and ``addcdiv``: the third argument, ``value`` or ``scalars``."""
    given = [*others[2:], *(options.pop(key) for key in ("value", "scalars") if key in options), 1]
    return given[0]


def _column(name: str, length: int, place: int, other: object) -> Sequence[object] | None:
    """Return the elements of an argument that is a list with one element per Tensor, else None."""
    if not (isinstance(other, (list, tuple)) or isinstance(other, Tensor) and other.ndim):
        return None
    column: Sequence[object] = list(other)
    if len(column) != length:
        raise RuntimeError(
            f"{name}: lists must have the same number of elements, got {length} and {len(column)} as argument {place}"
        )
    return column


def _foreach_norm(self: Sequence[Tensor], ord: float = 2, dtype: DTypeLike | None = None) -> Results:
    """Return the norm of each Tensor."""
    _check("_foreach_norm", self)
    norms = _norms_at_once(self) if ord == 2 and dtype is None else None
    if norms is not None:
        return norms
    return tuple(vector_norm(x, ord, dtype=dtype) for x in self)


def _foreach_powsum(self: Sequence[Tensor], ord: float = 2, dtype: DTypeLike | None = None) -> Results:
    """Return the sum of powers of the magnitudes of each Tensor."""
    _check("_foreach_powsum", self)
    return tuple((x if dtype is None else x.to(dtype)).abs().pow(ord).sum() for x in self)


def _foreach_max(self: Sequence[Tensor]) -> Results:
    """Return the largest element of each Tensor."""
    _check("_foreach_max", self)
    return tuple(x.max() for x in self)


def _foreach_clone(self: Sequence[Tensor], *, memory_format: object = None) -> Results:
    """Return copies of the Tensors."""
    _check("_foreach_clone", self)
    return tuple(x.clone() for x in self)


def _foreach_copy_(self: Sequence[Tensor], src: Sequence[Tensor], non_blocking: bool = False) -> Results:
    """Write each source into its Tensor, and return the list."""
    _check("_foreach_copy_", self)
    _column("_foreach_copy_", len(self), 1, src)
    for x, source in zip(self, src, strict=True):
        x.copy_(source)
    return self


def _foreach_zero_(self: Sequence[Tensor]) -> Results:
    """Fill each Tensor with zeros, and return the list."""
    _check("_foreach_zero_", self)
    if _write_at_once("zero", self, []):
        return self
    for x in self:
        x.zero_()
    return self


# Functions computed on the arrays of all Tensors, without an operator call per Tensor


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
_AT_ONCE = frozenset([*_FUNCTIONS, "lerp", "zero"])


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
def _write_at_once(name: str, tensors: Sequence[Tensor], columns: Sequence[object]) -> bool:
    """Write the results of ``_foreach_{name}_`` if all Tensors can be written at once, and return whether they were.

    Args:
        name: one of ``_AT_ONCE``.
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


def _norms_at_once(tensors: Sequence[Tensor]) -> tuple[Tensor, ...] | None:
    """Return the 2-norm of each Tensor by one call of a loop; None if some Tensor needs an operator."""
    rows = None if watchers or modes.tracer is not None else _operands(tensors, [])
    if rows is None or any(modes.grad_enabled and x._requires or not x.array.size for x in tensors):
        return None
    if not updates.takes(_arrays(rows), updates.SQUARES, 0):
        return None
    sums = updates.sums_of_squares([x.array for x in tensors])
    return tuple(new_tensor(np.array(value)) for value in np.sqrt(sums).astype(tensors[0].array.dtype))


_OWN = (_foreach_clone, _foreach_copy_, _foreach_max, _foreach_norm, _foreach_powsum, _foreach_zero_)
NAMES: dict[str, str | dict[str, object]] = {
    "retrograd": {
        **{
            f"_foreach_{name}{'_' * in_place}": _each(name, in_place)
            for name in f"{_UNARY} {_WITH_OTHERS}".split()
            for in_place in (False, True)
        },
        "_foreach_mm": _each("mm", in_place=False),
        **{own.__name__: own for own in _OWN},
    }
}
