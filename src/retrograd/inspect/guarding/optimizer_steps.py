"""The guard's check of an optimizer step, which runs no operators: compare parameters before and after."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ...autograd.arithmetic import shown
from ...autograd.influence import element, first_index
from ...core.arrays import Array
from ...core.arrays.devices import array_module, is_array
from ...core.arrays.dtypes import INEXACT
from ...core.arrays.fp_warnings import silent
from ...core.source_location import Site
from ...core.tensor.tensor import Tensor
from .history import Watched


class Entry(NamedTuple):
    """A parameter with its options and a copy of its values before the step."""

    parameter: Tensor
    options: dict[str, object]
    before: Array


class Step:
    """An optimizer step: the parameters that have a gradient, with their values before the step."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer
        self.entries = [
            Entry(p, group, p.array.copy())
            for group in optimizer.param_groups
            for p in group["params"]
            if p.grad is not None and p.dtype.kind in INEXACT
        ]

    def copies(self) -> Iterator[tuple[Tensor, Array]]:
        """Yield each parameter with its copy."""
        for entry in self.entries:
            yield entry.parameter, entry.before

    @property
    def has_finite_gradients(self) -> bool:
        """Whether all gradients that the step reads are finite."""
        return all(_is_finite(gradient_of(entry.parameter)) for entry in self.entries)

    def first_spoiled(self) -> Entry | None:
        """Return the first parameter that the step made infinite or NaN."""
        for entry in self.entries:
            if not _is_finite(entry.parameter.array) and _is_finite(entry.before):
                return entry
        return None


def gradient_of(parameter: Tensor) -> Array:
    """Return the array of a gradient, or the values of a sparse one."""
    grad: Any = parameter.grad
    return grad.array if isinstance(grad, Tensor) else grad.values().array


def report_step(watch: Watched, step: Step, entry: Entry, site: Site) -> str:
    """Return the report of a parameter that an optimizer step made infinite or NaN."""
    p, options, before = entry
    name = type(step.optimizer).__name__
    bad = ~array_module(p.array).isfinite(p.array)
    index = first_index(bad)
    g = gradient_of(p)
    slope = element(g, index) if g.shape == p.array.shape else None
    value = element(p.array, index)
    known = watch.names.of(p)
    at = f" at {index}" if index else ""
    count = f", {int(bad.sum())} of {bad.size} elements" if bad.size > 1 else ""
    lines = [
        f"{site}: the step of {name} made parameter{f' {known}' if known else ''} {shown(value)}{at}{count}",
        f"    {site.code}",
        f"  before the step it was {shown(element(before, index))}"
        + (f", its gradient is {shown(slope)}" if slope is not None else ""),
    ]
    state = [
        f"{key} {shown(element(x.array, index))}"
        for key, x in step.optimizer.state.get(p, {}).items()
        if isinstance(x, Tensor) and is_array(x.array) and x.array.shape == p.array.shape
    ]
    if state:
        lines.append(f"  state of {name} for this element after the step: {', '.join(state)}")
    numbers = {key: x for key, x in options.items() if isinstance(x, (int, float)) and not isinstance(x, bool)}
    if numbers:
        lines.append(f"  options: {', '.join(f'{key}={x:g}' for key, x in numbers.items())}")
    advice = ""
    with silent():
        if slope is not None and not bool(array_module(g).isfinite(slope)):
            lines.append("  no operator under this guard computed this gradient")
            advice = "find the code that writes to the gradient; call step() only if isfinite(p.grad).all()"
        elif value != value and numbers.get("eps") == 0:
            advice = f"pass {name} an eps above 0, such as 1e-8: the step divides by sqrt(0) + eps"
        elif "lr" in numbers:
            advice = f"lower the learning rate ({numbers['lr']:g})"
    return "\n".join([*(line for line in lines if line.strip()), *([f"what helps: {advice}"] if advice else [])])


def _is_finite(array: Array) -> bool:
    with silent():
        return bool(array_module(array).isfinite(array).all())
