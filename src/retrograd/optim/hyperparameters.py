"""Hyper-parameters: name, type, default and range of each, written once in the optimizer's ``__init__``.

    def __init__(self, params: ParamsT, lr: LearningRate = 1e-3, rho: Fraction = 0.9) -> None:
        super().__init__(params, hyperparameters(locals()))

The ranges are annotations (``typing.Annotated``), so that editors see ``lr: float | Tensor``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, TypeAlias, get_type_hints

from ..core.errors import describe
from ..core.tensor.tensor import Tensor

ParamGroup: TypeAlias = dict[str, Any]  # the options of a parameter group, and its ``params``


def number(value: float | Tensor) -> float:
    """Return a hyper-parameter as a Python number; PyTorch also allows Tensors of one element."""
    return float(value.item()) if isinstance(value, Tensor) else value


def numbers(group: ParamGroup, *names: str) -> list[float]:
    """Return options of a parameter group as a flat list of Python numbers; Tensors remain if it is differentiable."""
    found: list[float] = []
    for name in names:
        value = group[name]
        if type(value) is tuple or type(value) is list:
            found += value
        else:
            found.append(value)
    if group.get("differentiable"):
        return found
    return [value if type(value) is float else number(value) for value in found]


@dataclass(frozen=True)
class Range:
    """The condition on a hyper-parameter, as text and as a predicate of a number, or of each of ``count`` numbers."""

    words: str
    allows: Callable[[Any], bool]
    count: int | None = None

    def check(self, optimizer: str, name: str, value: Any) -> None:
        """Raise ValueError if the value is out of range, TypeError if it cannot be compared."""
        if self.count is not None:
            if len(value) != self.count:
                raise ValueError(f"{optimizer}: {name} must be {self.count} numbers, got {value}")
            for index, item in enumerate(value):
                Range(self.words, self.allows).check(optimizer, f"{name}[{index}]", item)
            return
        if isinstance(value, Tensor) and value.array.size != 1:
            raise ValueError(f"{optimizer}: {name} must be a number or a Tensor with 1 element, got {describe(value)}")
        try:
            allowed = self.allows(number(value))
        except (TypeError, IndexError) as error:
            raise TypeError(f"{optimizer}: {name} must be {self.words}, got {value!r}") from error
        if not allowed:
            raise ValueError(f"{optimizer}: {name} must be {self.words}, got {value}")


NOT_NEGATIVE = Range(">= 0", lambda x: x >= 0)
DECAY = Range("in [0, 1)", lambda x: 0 <= x < 1, count=2)

LearningRate: TypeAlias = Annotated[float | Tensor, NOT_NEGATIVE]
NotNegative: TypeAlias = Annotated[float, NOT_NEGATIVE]
Fraction: TypeAlias = Annotated[float, Range("in [0, 1]", lambda x: 0 <= x <= 1)]
Betas: TypeAlias = Annotated[tuple[float | Tensor, float | Tensor], DECAY]


def hyperparameters(arguments: dict[str, object]) -> dict[str, Any]:
    """Return the defaults of the groups from the ``locals()`` of ``__init__``, after checking their ranges."""
    optimizer = type(arguments["self"]).__name__
    defaults = {name: value for name, value in arguments.items() if name not in ("self", "params", "__class__")}
    for name, allowed in _ranges(arguments["__class__"]).items():
        allowed.check(optimizer, name, defaults[name])
    # foreach, fused and capturable have no effect, but PyTorch refuses this combination.
    if defaults.get("fused") and defaults.get("foreach"):
        raise RuntimeError(f"{optimizer}: `fused` and `foreach` cannot be `True` together.")
    return defaults


@cache
def _ranges(optimizer: type) -> dict[str, Range]:
    """Return the ranges in the signature of the ``__init__`` of the class."""
    hints = get_type_hints(optimizer.__dict__["__init__"], include_extras=True)
    return {
        name: note for name, hint in hints.items() for note in getattr(hint, "__metadata__", ()) if type(note) is Range
    }


# Descriptions of arguments, and errors per argument, for the docstrings of all optimizers.
ARGUMENTS = {
    "params": "the parameters, or groups of them.",
    "lr": "the learning rate.",
    "betas": "the decay rates of the two moments.",
    "eps": "added to the denominator for numerical stability.",
    "weight_decay": "L2 penalty.",
    "maximize": "ascend instead of descending.",
    "foreach": "accepted, without effect.",
    "capturable": "accepted, without effect.",
    "fused": "accepted, without effect.",
    "differentiable": "record the steps, so that gradients flow through them (see ``optim.differentiable``).",
}
ERRORS = {"params": "ValueError: a hyper-parameter is out of range."}
