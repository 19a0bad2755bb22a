"""``torch.cond`` and ``_higher_order_ops``: PyTorch's calls of the loops and branches in ``func``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ....core.tensor.tensor import Tensor
from ....func import associative_scan as _associative_scan
from ....func import cond as _cond
from ....func import map as _map
from ....func import scan as _scan
from ....func import while_loop as _while_loop
from ....func.nests import mapped

Result = TypeVar("Result")


def cond(
    pred: bool | int | float | Tensor,
    true_fn: Callable[..., Result],
    false_fn: Callable[..., Result],
    operands: Sequence[object] = (),
) -> Result:
    """Return ``true_fn(*operands)`` or ``false_fn(*operands)``, as ``func.cond``.

    Args:
        pred: a bool, or a Tensor with one element.
        true_fn, false_fn: take the operands.
        operands: a tuple or list of nests of Tensors.

    Raises:
        RuntimeError: ``operands`` is neither a tuple nor a list.
    """
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(f"cond: operands must be a tuple or list of Tensors, got {type(operands).__name__}")
    return _cond(pred, true_fn, false_fn, *operands)


def while_loop(
    cond_fn: Callable[..., object], body_fn: Callable[..., object], carried_inputs: Sequence[object]
) -> tuple[object, ...]:
    """Run ``values = body_fn(*values)`` while ``cond_fn(*values)`` is true, as ``func.while_loop``.

    Args:
        cond_fn, body_fn: take the values; ``body_fn`` returns a tuple of the new values.
        carried_inputs: a tuple or list of the initial values.

    Raises:
        RuntimeError: ``carried_inputs`` is neither a tuple nor a list.
    """
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(f"while_loop: carried_inputs must be a tuple or list, got {type(carried_inputs).__name__}")

    def body(values: tuple[object, ...]) -> tuple[object, ...]:
        following = body_fn(*values)
        return tuple(following) if isinstance(following, (tuple, list)) else (following,)

    return _while_loop(lambda values: cond_fn(*values), body, tuple(carried_inputs))


def scan(
    combine_fn: Callable[[Any, Any], tuple[object, object]],
    init: object,
    xs: object,
    *,
    dim: int = 0,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Run ``carry, y = combine_fn(carry, x)`` for the slices of ``xs`` along ``dim``, as ``func.scan``.

    Args:
        combine_fn, init, xs, reverse: as for ``func.scan``.
        dim: the dimension that is sliced, and along which results are stacked.
    """
    if dim:
        xs = mapped(lambda x: x.movedim(dim, 0), xs)
    carry, ys = _scan(combine_fn, init, xs, reverse=reverse)
    return carry, mapped(lambda y: y.movedim(0, dim), ys) if dim else ys


def associative_scan(
    combine_fn: Callable[[Any, Any], object],
    xs: object,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Any:
    """Return the results of combining the first ``1, 2, ..., n`` slices along ``dim``, as ``func.associative_scan``.

    Args:
        combine_fn, reverse: as for ``func.associative_scan``.
        xs: a nest of Tensors.
        dim: the dimension along which slices are combined.
        combine_mode: accepted for compatibility.
    """
    return _associative_scan(combine_fn, xs, reverse, dim)


def map(f: Callable[..., object], xs: object, *args: object) -> Any:
    """Return the stacked results of ``f(x, *args)`` for the slices of ``xs`` along the first dimension."""
    return _map(lambda x: f(x, *args), xs)


NAMES: Mapping[str, str | Mapping[str, object]] = {
    "retrograd": "cond",
    "_higher_order_ops": "associative_scan cond map scan while_loop",
}
