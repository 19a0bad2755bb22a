"""``torch._foreach_add`` and its like: an operator applied to each Tensor of a list.

The functions loop in Python. Optimizers of packages call them; Retrograd's own optimizers do not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...._generated.linalg import vector_norm
from ...._generated.toplevel import pow as power
from ....core.tensor.tensor import Tensor

_UNARY = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round "
    "rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"
)
_WITH_OTHERS = "add addcdiv addcmul clamp_max clamp_min div lerp maximum minimum mul pow sub"
_METHODS = {"maximum": "clamp_min", "minimum": "clamp_max"}  # they accept numbers, too, and have in-place forms


def _each(name: str, in_place: bool) -> Callable[..., list[Tensor] | None]:
    """Return the function over lists: arguments that are lists have one element per Tensor, others are repeated."""

    def apply(self: Sequence[Tensor], *others: object, **options: object) -> list[Tensor] | None:
        if isinstance(self, Tensor) or not isinstance(self, Sequence):  # a number, whose powers are asked for
            (exponents,) = others
            assert isinstance(exponents, Sequence)
            return [power(self, exponent) for exponent in exponents]
        columns = [
            list(other) if isinstance(other, (list, tuple)) or isinstance(other, Tensor) and other.ndim else None
            for other in others
        ]
        for place, column in enumerate(columns, 2):
            if column is not None and len(column) != len(self):
                raise RuntimeError(
                    f"_foreach_{name}: lists must have the same number of elements, got {len(self)} and {len(column)} "
                    f"as argument {place}"
                )
        results = [
            one(x, *[column[i] if column is not None else other for column, other in zip(columns, others)], **options)
            for i, x in enumerate(self)
        ]
        return None if in_place else results

    def one(x: Tensor, *rest: object, **options: object) -> Tensor:
        if name.startswith("addc") and len(rest) == 3:
            rest, options["value"] = rest[:2], rest[2]
        result: Tensor = getattr(x, _METHODS.get(name, name) + "_" * in_place)(*rest, **options)
        return result

    apply.__name__ = apply.__qualname__ = f"_foreach_{name}{'_' * in_place}"
    apply.__doc__ = f"Apply ``{name}{'_' * in_place}`` to each Tensor of a list."
    return apply


def _foreach_norm(self: Sequence[Tensor], ord: float = 2, dtype: type | str | None = None) -> list[Tensor]:
    """Return the norm of each Tensor."""
    return [vector_norm(x, ord, dtype=dtype) for x in self]


def _foreach_max(self: Sequence[Tensor]) -> list[Tensor]:
    """Return the largest element of each Tensor."""
    return [x.max() for x in self]


def _foreach_copy_(self: Sequence[Tensor], src: Sequence[Tensor], non_blocking: bool = False) -> None:
    """Write each source into its Tensor."""
    for x, source in zip(self, src, strict=True):
        x.copy_(source)


def _foreach_zero_(self: Sequence[Tensor]) -> None:
    """Fill each Tensor with zeros."""
    for x in self:
        x.zero_()


NAMES: dict[str, str | dict[str, object]] = {
    "retrograd": {
        **{
            f"_foreach_{name}{'_' * in_place}": _each(name, in_place)
            for name in f"{_UNARY} {_WITH_OTHERS}".split()
            for in_place in (False, True)
        },
        **{own.__name__: own for own in (_foreach_copy_, _foreach_max, _foreach_norm, _foreach_zero_)},
    }
}
