"""What an example call of an operator is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from ..core.errors import describe_call


class Call:
    """One call of an operator: ``call(x, y, dim=0)``.

    Floating (and complex) NumPy arrays among the arguments, also in lists and tuples, become Tensors, in float64 as
    drawn, and are differentiated; integer and bool arrays become Tensors without a gradient; ``Fixed(array)`` makes a
    floating Tensor that is not differentiated.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        self.args = args
        self.kwargs = kwargs

    def __repr__(self) -> str:
        return describe_call("", self.args, self.kwargs)


Calls = Callable[[np.random.Generator], Iterable[Call]]


def together(*parts: Calls) -> Calls:
    """The calls of all parts, one after another."""
    return lambda rng: chain.from_iterable(part(rng) for part in parts)


@dataclass(frozen=True)
class Fixed:
    """A floating array of a call that is not differentiated."""

    array: Any


@dataclass(frozen=True)
class Case:
    """How to exercise one operator.

    Args:
        name: its name in the operator table, with the namespace (``"linalg.inv"``).
        calls: from a seeded generator to example calls, on points where derivatives exist (away from kinks and ties);
            among them broadcasting, 0-d, several axes, negative axes and each option of the operator.
        reference: the same function on NumPy arrays (NumPy or SciPy), for the forward value; None where only PyTorch
            serves as reference.
        torch: the name of PyTorch's function (``"torch.linalg.inv"``), by default the same as ours; ``""`` where
            it has none.
        edge_calls: calls where only the forward (and that gradients are finite and equal PyTorch's) is checked: kinks,
            ties, zeros, infinities, empty tensors.
        order: how many times it can be differentiated: 0, 1 or 2.
        dtypes: floating dtypes in which the result must keep the inputs' dtype.
        tolerance: relative error allowed of first-order gradients against central differences.
        torch_tolerance: relative error allowed against PyTorch, which rounds some constants to
            float32 (celu, hardsigmoid).
        wrap: makes of the operator (and of the reference and PyTorch's) the function to exercise, where not every point
            or result serves: a decomposition of a symmetric matrix, say, as a function of any matrix.
        random: the result is random; only shape, dtype and gradient given a seed are checked.
    """

    name: str
    calls: Calls
    reference: Callable[..., Any] | None = None
    torch: str | None = None
    edge_calls: Calls | None = None
    order: int = 2
    dtypes: tuple[str, ...] = ("float32", "float16")
    tolerance: float = 1e-6
    torch_tolerance: float = 1e-10
    wrap: Callable[[Callable[..., Any]], Callable[..., Any]] | None = None
    random: bool = False

    def wrapped(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function to exercise, made of the operator's."""
        return function if self.wrap is None else self.wrap(function)
