"""Example calls of an operator: ``Call`` and ``Case``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from ..core.errors import describe_call


class Call:
    """One call of an operator: ``Call(x, y, dim=0)``.

    Floating and complex NumPy arrays among the arguments, also in lists and tuples, become Tensors that require grad.
    Integer and bool arrays become Tensors without a gradient, ``Fixed(array)`` a floating Tensor without a gradient.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        self.args = args
        self.kwargs = kwargs

    def __repr__(self) -> str:
        return describe_call("", self.args, self.kwargs)


Calls = Callable[[np.random.Generator], Iterable[Call]]


def together(*parts: Calls) -> Calls:
    """Return a function that returns the calls of several functions, concatenated."""
    return lambda rng: chain.from_iterable(part(rng) for part in parts)


@dataclass(frozen=True)
class Fixed:
    """A floating array of a call that is not differentiated."""

    array: Any


@dataclass(frozen=True)
class Case:
    """How to test one operator.

    Args:
        name: its name in the operator table, with the namespace (``"linalg.inv"``).
        calls: takes a seeded generator, returns example calls at points where derivatives exist (away from kinks and
            ties); they should cover broadcasting, 0-d, several axes, negative axes and each option of the operator.
        reference: the NumPy or SciPy function for the forward value; None if only PyTorch is a reference.
        torch: the name of PyTorch's function (``"torch.linalg.inv"``), by default the same name; ``""`` if PyTorch has
            none.
        edge_calls: calls at kinks, ties, zeros, infinities and with empty tensors. Only the forward result is checked,
            and that gradients are finite and equal to PyTorch's.
        order: how many times the operator can be differentiated: 0, 1 or 2.
        dtypes: floating dtypes in which the result must have the inputs' dtype.
        tolerance: the relative error allowed between first-order gradients and central differences.
        torch_tolerance: the relative error allowed between results and PyTorch's, which rounds some constants to
            float32 (celu, hardsigmoid).
        wrap: takes the operator (or its reference) and returns the function to test, if not every input is valid or
            not every result is unique: for example, a decomposition of ``x + x.T`` as a function of any matrix.
        random: the result is random; only shape, dtype and the gradient for a given seed are checked.
    """

    name: str
    calls: Calls
    reference: Callable[..., object] | None = None
    torch: str | None = None
    edge_calls: Calls | None = None
    order: int = 2
    dtypes: tuple[str, ...] = ("float32", "float16")
    tolerance: float = 1e-6
    torch_tolerance: float = 1e-10
    wrap: Callable[[Callable[..., Any]], Callable[..., object]] | None = None
    random: bool = False

    def wrapped(self, function: Callable[..., object]) -> Callable[..., Any]:
        return function if self.wrap is None else self.wrap(function)
