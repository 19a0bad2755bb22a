"""The table from NumPy's functions to their rules on Tensors, with NumPy's argument names and defaults."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from .arguments import Rules, about, tensor, without_derivative, without_gradient
from .rules import (
    fourier,
    linear_algebra,
    manipulation,
    mathematics,
    of_functions,
    polynomials,
    ranges,
    selection,
    statistics,
    writing,
)

RULES: Rules = {
    **statistics.RULES,
    **mathematics.RULES,
    **manipulation.RULES,
    **selection.RULES,
    **linear_algebra.RULES,
    **fourier.RULES,
    **of_functions.RULES,
    **polynomials.RULES,
    **ranges.RULES,
    **writing.RULES,
    "shape": lambda a: tensor(a).shape,
    "ndim": lambda a: tensor(a).ndim,
    "size": lambda a, axis=None: tensor(a).array.size if axis is None else tensor(a).shape[axis],
    "array_repr": lambda arr, *_, **__: repr(arr),
    "array_str": lambda a, *_, **__: str(a),
    "array2string": lambda a, *_, **__: str(a),
}

# Results without a derivative: indices, counts, bools.
INDICES = set(
    """all any argmax argmin argsort argwhere nonzero flatnonzero count_nonzero searchsorted digitize isclose
    isin lexsort argpartition nanargmax nanargmin isneginf isposinf iscomplex isreal tril_indices_from
    triu_indices_from diag_indices_from ix_ unravel_index ravel_multi_index packbits unpackbits""".split()  # noqa: SIM905
)
FACTS = set(
    """allclose array_equal array_equiv iscomplexobj isrealobj result_type can_cast may_share_memory shares_memory
    min_scalar_type common_type linalg.matrix_rank einsum_path""".split()  # noqa: SIM905
)
FILES = {"save", "savetxt", "savez", "savez_compressed"}  # functions that accept only Tensors that do not require grad

# On integers and bools, which have no gradient, NumPy itself computes these functions, except those that may return the
# memory of an argument.
COMPUTED = {
    name for room in (statistics, mathematics, linear_algebra, fourier, polynomials, ranges) for name in room.RULES
} - {"real", "imag", "real_if_close", "nan_to_num", "linalg.diagonal", "linalg.lstsq", "trim_zeros"}

_found: dict[object, Callable[..., object] | None] = {}
_out_places: dict[object, int | None] = {}


def place_of_out(function: Any) -> int | None:
    """Return the position of the argument ``out`` of a NumPy function; rules have no ``out``."""
    try:
        return _out_places[function]
    except KeyError:
        pass
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:  # a function implemented in C, without a signature
        parameters = []
    positional = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    found = positional.index("out") if "out" in positional else None
    _out_places[function] = found
    return found


def name_of(function: Any) -> str:
    """Return a NumPy function's name in the tables: ``sum``, ``linalg.inv``."""
    name = f"{function.__module__}.{function.__name__}".removeprefix("numpy.")
    return name.replace("_scimath_impl", "scimath")  # the module's name since NumPy 2.3


def rule_of(function: Any) -> Callable[..., Any] | None:
    """Return the rule of a NumPy function on Tensors, or None."""
    try:
        return _found[function]
    except KeyError:
        pass
    name = name_of(function)
    rule = RULES.get(name)
    if name in INDICES:
        rule = without_derivative(function)
    elif name in FACTS:
        rule = about(function)
    elif name in FILES:
        rule = without_gradient(function)
    elif rule is not None:
        rule.__qualname__ = f"np.{name}"  # errors about arguments name the function
    _found[function] = rule
    return rule
