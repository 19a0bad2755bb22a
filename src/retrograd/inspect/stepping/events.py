"""One operator of a backward pass: the upstream gradient, what the rule read, and the gradients of the inputs."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import array_module, backend_of, is_array
from ...core.arrays.dtypes import FLOATING
from ...core.errors import describe
from ...core.graph.backward import as_array, conjugate
from ...core.graph.nodes import Node, edge_of
from ...core.missing_names import repr_html
from ...core.tensor.storage import Storage, Token
from ...core.tensor.tensor import Tensor, new_tensor
from ..tracing import site_of
from .formulas import formula, worked_element
from .rule_source import input_names, names_read, rule_source, user_function, values_read


class Event:
    """One operator of a backward pass.

    Attributes:
        index: its position in the backward pass, from 0; ``count`` is the number of all operators of the pass.
        operator: the operator's name in ``grad_fn``; ``call`` is the public operator's name, if a trace knows it.
        file: the user's file that called it. ``file``, ``line``, ``code`` and ``module`` are None without a trace.
        line: the number of the line that called it.
        code: the text of that line.
        module: the module it ran in.
        incoming: the gradient of its output; for several outputs a tuple, with None if no gradient reached an output.
        outgoing: the gradient of each input, in the input's shape and dtype; None for inputs without one.
        inputs: the names that the rule uses for the inputs.
        summed_over: per input, the axes over which the gradient was summed because the input was broadcast.
        added_to: per input, whether the gradient was added to one from another operator.
    """

    def __init__(self, index: int, node: Node, incoming: Array, names: dict[int, str]) -> None:
        self.index = index
        self.count = 0
        self.operator = node.operator
        site = site_of(node)
        self.call = getattr(site, "call", node.operator).strip("_")
        self.file = None if site is None else site.file
        self.line = None if site is None else site.line
        self.code = None if site is None else site.code
        self.module = None if site is None else site.module
        self.incoming: Tensor | tuple[Tensor | None, ...] = _of_one(node, _shown(incoming))
        self.inputs = input_names(node)
        count = len(node.parents)
        self.outgoing: list[Tensor | None] = [None] * count
        self.summed_over: list[tuple[int, ...]] = [()] * count
        self.added_to = [False] * count
        self._cast: list[str] = [""] * count
        self._node = node
        self._saved = node.saved
        self._names = names

    def __repr__(self) -> str:
        return f"<event {self.index}: {self.title}>"

    def sent(self, index: int, given: Any, g: Tensor, added: bool) -> None:
        """Record the gradient ``g`` that was sent to an input, made from the array ``given`` that the rule returned."""
        self.outgoing[index] = g
        self.summed_over[index] = _broadcast_axes(given.shape, g.shape)
        self.added_to[index] = added
        if given.dtype != g.dtype:
            self._cast[index] = f"cast from {given.dtype}"

    @property
    def formula(self) -> str:
        """The derivative that the operator's documentation states; "" for custom Functions and where none is stated."""
        custom = user_function(self._node.plan.primitive) is not None
        stated = "" if custom else formula(self.operator, self.call)
        return f"{stated} All divided by n, the number of elements." if stated and self._is_mean(stated) else stated

    def _is_mean(self, stated: str) -> bool:
        """Return whether the rules divide by the number of elements, which the documentation states for ``mean``."""
        return self.read.get("reduction") == "mean" and "divisor" not in stated

    @property
    def worked(self) -> str:
        """How the largest element of an input's gradient follows from what the rule read, as a line of text."""
        return worked_element(self)

    @property
    def rule(self) -> str:
        """The source of the derivative rule, with its comment and docstring; with several rules, one per input."""
        return rule_source(self._node)

    @property
    def read(self) -> dict[str, Any]:
        """The values that the rule read in addition to the gradient (inputs, output ``ans``, parameters), by name."""
        assert self._saved is not None
        return values_read(self._node, self._saved)

    def read_for(self, place: int) -> list[str]:
        """Return the names of the values that the rule of one input read.

        Args:
            place: the index of the input.
        """
        return names_read(self._node, place, self.read)

    @property
    def place(self) -> str:
        """``file.py:LINE``; empty if the line is not known."""
        return "" if self.file is None else f"{os.path.basename(self.file)}:{self.line}"

    @property
    def title(self) -> str:
        """``file.py:LINE operator``."""
        return f"{self.place} {self.operator}".strip()

    @property
    def nans(self) -> int:
        """The number of NaNs in the gradients of the inputs."""
        return sum(int(array_module(g).isnan(g.array).sum()) for g in self.outgoing if g is not None)

    @property
    def norm(self) -> float:
        """The largest Euclidean norm among the gradients of the inputs."""
        norms = [_norm(g.array) for g in self.outgoing if g is not None]
        return max(norms, default=0.0)

    def reaches(self, tensor: Tensor) -> bool:
        """Return whether the operator sent a gradient to the tensor, which is one of its inputs.

        Args:
            tensor: a leaf or an intermediate Tensor.
        """
        edge = edge_of(tensor)
        pairs = zip(self._node.parents, self.outgoing, strict=True)
        return edge is not None and any(parent is edge and g is not None for parent, g in pairs)

    def __str__(self) -> str:
        paint = _painter()
        where = f"  ({self.index + 1} of {self.count})" if self.count else ""
        lines = [paint("title", self.title) + (f"  in {self.module}" if self.module else "") + paint("soft", where)]
        if self.code:
            lines.append(f"    {self.code}")
        coming = self.incoming if isinstance(self.incoming, tuple) else (self.incoming,)
        for number, g in enumerate(coming):
            label = "upstream gradient" if len(coming) == 1 else f"upstream gradient of output {number}"
            lines.append(f"  {paint('name', label)}: {'no gradient' if g is None else summary(g)}")
        if self.formula:
            lines.append(f"  {paint('name', 'derivative')}: {paint('formula', self.formula)}")
        lines += [f"  {paint('name', 'rule')}:", textwrap.indent(self.rule, "    ")]
        lines += [f"  {paint('name', f'read {name}')} = {summary(value)}" for name, value in self.read.items()]
        for index, name in enumerate(self.inputs):
            g = self.outgoing[index]
            sent = paint("soft", "no gradient") if g is None else f"{summary(g)}{self.fate(index)}"
            lines.append(f"  {paint('name', f'gradient of {name}{self.target(index)}')}: {sent}")
        if self.worked:
            lines.append(f"  {paint('name', 'one element')}: {self.worked}")
        return "\n".join(lines)

    _repr_html_ = repr_html("event_html")

    def target(self, index: int) -> str:
        """Return which Tensor an input is, if known."""
        parent = self._node.parents[index]
        if parent is None:
            return ""
        if type(parent) is Node:
            site = site_of(parent)
            return f" ({parent.operator}{'' if site is None else f' of {os.path.basename(site.file)}:{site.line}'})"
        return f" ({self._names.get(id(parent), 'a leaf')})"

    def fate(self, index: int) -> str:
        """Return a text on the gradient of an input, such as ``, summed over axis 0, added to an earlier gradient``."""
        parts = []
        axes = self.summed_over[index]
        if axes:
            parts.append(f"summed over {'axis' if len(axes) == 1 else 'axes'} {', '.join(map(str, axes))}")
        if self._cast[index]:
            parts.append(self._cast[index])
        if self.added_to[index]:
            parts.append("added to an earlier gradient")
        return "".join(f", {part}" for part in parts)


_COLORS = {"soft": "2", "title": "1", "name": "36", "formula": "33"}  # codes of ANSI terminals


def _painter() -> Callable[[str, str], str]:
    """Return a function that colors a text for a terminal; without one, or with ``NO_COLOR``, texts stay plain."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return lambda kind, text: text
    return lambda kind, text: f"\x1b[{_COLORS[kind]}m{text}\x1b[0m" if text else ""


def _of_one(node: Node, incoming: Any) -> Any:
    """Return the single gradient of a custom Function with one output, as its ``backward`` receives it."""
    several = type(incoming) is not tuple or len(incoming) != 1 or user_function(node.plan.primitive) is None
    return incoming if several else incoming[0]


def _shown(g: Array) -> Any:
    """Return a cotangent as a new Tensor, in the form in which users see gradients."""
    if isinstance(g, tuple):
        return tuple([None if x is None else _shown(x) for x in g])
    return conjugate(new_tensor(as_array(g)))


def _broadcast_axes(given: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    extra = max(0, len(given) - len(shape))
    aligned = zip(given[extra:], shape, strict=False)
    return *range(extra), *[axis + extra for axis, (g, length) in enumerate(aligned) if length == 1 and g != 1]


def _norm(array: Array) -> float:
    magnitudes = array_module(array).abs(array)
    kind = "f8" if magnitudes.dtype.kind in FLOATING else magnitudes.dtype
    return float(array_module(array).sqrt((magnitudes.astype(kind) ** 2).sum()))


def _is_of_the_engine(part: object) -> bool:
    return isinstance(part, tuple) and all(type(one) in (Token, Storage) for one in part)


def summary(value: Any) -> str:
    """Return a value as one line: all of a few elements, else shape and range.

    >>> summary(np.arange(3.0))
    'float64(3,) [0. 1. 2.]'
    >>> summary(np.arange(12.0).reshape(3, 4))
    'float64(3, 4) from 0 to 11, mean 5.5, 1 zero'
    """
    if isinstance(value, Tensor):
        value = value.array
    if not is_array(value):
        if hasattr(value, "_fields"):  # a namedtuple of saved values, without the engine's own fields
            value = tuple([part for part in value if part is not None and not _is_of_the_engine(part)])
        return describe(value)
    array = backend_of(value).to_numpy(value)
    if array.size <= 6:
        return f"{describe(value)} {np.array2string(array, precision=4, separator=' ')}".replace("\n", "")
    if array.dtype.kind not in "fViu":
        return describe(value)
    finite = array[np.isfinite(array)]
    parts = (
        [f"from {finite.min():.4g} to {finite.max():.4g}, mean {finite.mean(dtype='f8'):.4g}"] if finite.size else []
    )
    zeros, nans = int((array == 0).sum()), int(np.isnan(array).sum())
    infinite = array.size - finite.size - nans
    if zeros == array.size:
        return f"{describe(value)} all zero"
    parts += [f"{count} {name}" for count, name in ((zeros, "zero"), (nans, "NaN"), (infinite, "infinite")) if count]
    return f"{describe(value)} {', '.join(parts)}"
