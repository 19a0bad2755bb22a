"""``torch._foreach_add`` and similar functions: an operator applied to each Tensor of a list.

As in PyTorch, results are a tuple, and functions that write in place return their list. They loop in Python, except for
what ``foreach_arrays`` can write at once. Optimizers of packages call them; Retrograd's own optimizers do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

from ...._generated.linalg import vector_norm
from ...._generated.toplevel import pow as power
from ....core.tensor.tensor import Tensor
from ....ops.table.types import DTypeLike
from . import foreach_arrays

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
        if in_place and name in foreach_arrays.NAMES:
            factors = [options.get("alpha", 1)] if name in ("add", "sub") else list(options.values())
            if len(options) <= len(factors) and foreach_arrays.write(name, tensors, [*others, *factors]):
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
    norms = foreach_arrays.norms(self) if ord == 2 and dtype is None else None
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
    if foreach_arrays.write("zero", self, []):
        return self
    for x in self:
        x.zero_()
    return self


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
