"""The explanation of one gradient: its parts, and why it is zero or missing."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from textwrap import wrap
from typing import Any, Literal, TypeAlias

from ...core.arrays import Array
from ...core.arrays.devices import array_module
from ...core.arrays.dtypes import precision
from ...core.arrays.fp_warnings import silent
from ...core.errors import describe
from ...core.graph.backward import as_array
from ...core.graph.nodes import Node, edge_of
from ...core.tensor.tensor import Tensor
from ...nn.parameter import Parameter
from ..table import columns_of_terminal
from ..tracing import recorders, site_of
from .flow import Flow, PathObserver, Root
from .labels import call_of, distinct, line_of
from .loss_terms import NoExamples, examples, number_of_examples, terms
from .missing_gradient import reasons_of_none
from .paths import Path, distinct_texts, flows_along, largest_paths
from .zero_gradient import reasons_of_zero

Grouping = Literal["use", "line", "module", "term", "example"]
Label: TypeAlias = str | int  # the label of a part; an int is the number of an example
Parts: TypeAlias = dict[Label, Array]
_WIDTH = 120  # columns of the text where no terminal says how many there are
SHOWN = 6  # parts printed per line
MAX_EXAMPLES = 64  # the largest batch that is printed by example
MAX_VISITS = 50_000  # above this number of visited nodes, parts come from one forward-mode pass


class Explanation:
    """The parts of a gradient; returned by ``explain``.

    Attributes:
        total: the gradient as an array, None if the loss does not depend on the Tensor.
        reasons: sentences that say why the gradient is zero or missing, or what else is unusual about it.
    """

    def __init__(
        self,
        loss: Tensor,
        tensor: Tensor,
        index: tuple[int, ...] | None,
        flow: Flow | None,
        batch: Sequence[Tensor] | None,
        names: dict[int, str],
        compute: bool = True,
    ) -> None:
        self._tensor = tensor
        self._loss = loss
        self._index = index
        self._flow = flow
        self._batch = batch
        self._names = names
        self._parts: dict[str, Parts] = {}
        self._uses = PathObserver(edge_of(tensor))
        self.total: Any = None
        self.reasons: list[str] = []
        if not compute:  # a subclass sets total and reasons
            return
        if flow is not None and flow.reached:
            g = flow.walk(flow.roots, self._uses)
            self.total = None if g is None else _as_users_see(g)
        if self.total is None and flow is not None and flow.reached:
            ends = [call_of(node) for node, _ in self._uses.ends]
            self.reasons = [f"the rule of {call} gives no gradient for it" for call in dict.fromkeys(ends)]
        elif self.total is None:
            self.reasons = reasons_of_none(loss, tensor, flow, list(recorders), names)
        else:
            assert flow is not None
            self.reasons = reasons_of_zero(flow, tensor, index, self.total, self._uses, names)

    @cached_property
    def paths(self) -> list[Path]:
        """The paths with the largest share of the element or of the whole gradient, largest first."""
        if self._flow is None or self.total is None:
            return []
        return largest_paths(self._flow, _as_walks_see(self.total), self._index)

    def by(self, what: Grouping) -> Parts:
        """Return the gradient's parts, each an array of its shape; their sum is the gradient.

        Args:
            what: ``"use"`` gives one part per operator call that reads the Tensor; ``"line"`` (``file.py:31``) and
                ``"module"`` group these calls. ``"term"`` gives one part per term of the loss, as added by + and -,
                with its sign. ``"example"`` gives one part per example of the batch, and "the rest" for the gradient
                that flows through no example.

        An example's part is the gradient that flows through its row of the loss's unreduced terms. If an operator
        couples the examples, as batch norm does, the part is the gradient of that example's loss with respect to the
        Tensor, through all rows.

        Raises:
            ValueError: an unknown kind of part, or no batch axis was found.
        """
        makers: dict[str, Callable[[], Parts]] = {
            "use": self._by_use,
            "line": self._by_line,
            "module": lambda: self._grouped(_module_of),
            "term": self._by_term,
            "example": self._by_example,
        }
        if what not in makers:
            raise ValueError(f"by: expected 'use', 'line', 'module', 'term' or 'example', got {what!r}")
        if self.total is None:
            return {}
        if what not in self._parts:
            with silent():
                self._parts[what] = makers[what]()
        return dict(self._parts[what])

    def _by_use(self) -> Parts:
        nodes = sorted(self._uses.uses, key=lambda node: node.sequence)
        parts: Parts = dict(
            zip(distinct(map(call_of, nodes)), [_as_users_see(self._uses.uses[n]) for n in nodes], strict=True)
        )
        return parts | self._beside_uses()

    def _by_line(self) -> Parts:
        files: dict[str, set[str]] = {}
        for node in self._uses.uses:
            site = site_of(node)
            if site is not None:
                files.setdefault(line_of(node), set()).add(site.file)

        def label(node: Node) -> str:
            line = line_of(node)
            if len(files.get(line, ())) > 1:  # distinguish files of the same name by their folders
                return f"{os.path.basename(os.path.dirname(site_of(node).file))}/{line}"
            return line or "no line known"

        return self._grouped(label)

    def _grouped(self, label: Callable[[Node], str]) -> Parts:
        parts: Parts = {}
        for node in sorted(self._uses.uses, key=lambda node: node.sequence):
            name, g = label(node), _as_users_see(self._uses.uses[node])
            parts[name] = parts[name] + g if name in parts else g
        return parts | self._beside_uses()

    def _beside_uses(self) -> Parts:
        """Return the parts that come from no operator: the loss itself, and changes by the Tensor's hooks."""
        assert self._flow is not None
        parts: Parts = {}
        sent = sum(self._uses.uses.values(), array_module(self.total).zeros_like(self.total))
        for root, g in self._flow.roots:
            if root is self._flow.edge:
                parts["the loss itself"], sent = _as_users_see(g.copy()), sent + g
        hooks = self._flow.edge.hooks if type(self._flow.edge) is Node else self._tensor._hooks
        if hooks is not None:
            change = self.total - _as_users_see(as_array(sent))
            if (change != 0).any():
                parts["hooks of the Tensor"] = change
        return parts

    def _by_term(self) -> Parts:
        assert self._flow is not None
        return {label: self._through(roots) for label, roots in terms(self._flow, self._names)}

    def _by_example(self) -> Parts:
        assert self._flow is not None
        return {label: self._through(roots) for label, roots in examples(self._flow, self._batch)}

    def _through(self, roots: Sequence[Root]) -> Array:
        assert self._flow is not None
        useful = [(edge, g) for edge, g in roots if edge in self._flow.useful]
        g = self._flow.walk(useful) if useful else None
        return array_module(self._tensor).zeros_like(self._tensor.array) if g is None else _as_users_see(g)

    # As text

    _gradient = "gradient"  # the word for ``total`` in the text

    def __repr__(self) -> str:
        return str(self)

    @property
    def _name(self) -> str:
        named = self._names.get(id(self._tensor))
        tensor = describe(self._tensor) if named is None else f"{named}, {describe(self._tensor)}"
        return tensor if self._index is None else f"{tensor} at {self._index}"

    def __str__(self) -> str:
        with silent():
            text = self._text()
        return "\n".join(_wrapped(line, columns_of_terminal(_WIDTH)) for line in text.split("\n"))

    def _text(self) -> str:
        of = "" if self._loss._node is None else f" of {call_of(self._loss._node)}"
        if self.total is None:
            return "\n".join([f"no gradient{of} for {self._name}", *[f"  {reason}" for reason in self.reasons]])
        figure = self._figure(self.total)
        what = f"norm {figure:.4g}" if self._index is None and self.total.size > 1 else f"{figure:.6g}"
        what = what if self._finite(self.total) else "not finite"
        lines = [f"{self._gradient}{of} for {self._name}: {what}", *[f"  {reason}" for reason in self.reasons]]
        parts = self._part_lines()
        if self._index is None and self.total.size > 1 and any(": +" in line or ": -" in line for line in parts):
            if figure:
                what = "projections onto the gradient's direction, which add up to its norm"
            else:
                what = "norms, since a gradient of zero has no direction"
            lines.append(f"  figures of parts are {what}")
        return "\n".join([*lines, *parts])

    def _part_lines(self) -> list[str]:
        """Return the text's lines about the parts."""
        lines: list[str] = []
        if not any(map(self._figure, self.by("use").values())):
            return lines
        assert self._flow is not None
        kinds: list[Grouping] = ["term", "use", "line", "module"]
        for kind in kinds:
            if kind == "term" and (many := self._jvp_parts_text(list(terms(self._flow, self._names)))):
                lines.append(f"  by term: {many}")
                continue
            parts = self.by(kind)
            if len(parts) > 1 or kind == "line" and "no line known" not in parts:
                lines.append(f"  by {kind}: {self._parts_text(parts)}")
        try:
            count = number_of_examples(self._flow, self._batch)
            if self._batch is None and isinstance(self._tensor, Parameter) and self._tensor.shape[:1] == (count,):
                count = MAX_EXAMPLES + 1  # the axis may belong to the parameter, not to a batch
            if count <= MAX_EXAMPLES and count * len(self._flow.order) > MAX_VISITS:
                lines.append(
                    f"  by example: {self._jvp_parts_text(list(examples(self._flow, self._batch)), 'example ')}"
                )
            elif count <= MAX_EXAMPLES:
                lines.append(f"  by example: {self._parts_text(self.by('example'), 'example ')}")
        except NoExamples:
            pass
        if self._index is not None and self._finite(self.total) and len(self.paths) > 1:
            lines += ["  paths:", *[f"    {path}" for path in distinct_texts(self.paths[:SHOWN])]]
        return lines

    def _jvp_parts_text(self, parts: Sequence[tuple[Label, list[Root]]], prefix: str = "") -> str:
        """Return the text of the parts from one forward-mode pass, if there are too many for a backward pass each.

        Return "" if there are few parts.
        """
        assert self._flow is not None
        if len(parts) * len(self._flow.order) <= MAX_VISITS or len(parts) < 2:
            return ""
        figures = flows_along(self._flow, _as_walks_see(self.total), self._index, [roots for _, roots in parts])
        if figures is None or not self._finite(self.total):
            return f"{len(parts)} parts; by() computes each one"
        named: dict[Label, float] = {label: figure for (label, _), figure in zip(parts, figures, strict=True)}
        flowing, rest = math.fsum(map(abs, figures)), self._figure(self.total)
        off = abs(math.fsum(figures) - rest)
        known = 64 * max(precision(self.total.dtype), self._flow.precision) * flowing
        checked = "the gradient" if off <= known else f"differs from the gradient by {off:.2g}"
        return f"{self._listed(named, prefix)}; sum {math.fsum(figures):+.4g}, {checked}{_cancelled(flowing, rest)}"

    def _listed(self, figures: Mapping[Label, float], prefix: str) -> str:
        """Return the largest numbers with their labels, and the sum of the other numbers."""
        ranked = sorted(figures, key=lambda label: -abs(figures[label]))
        shown = max(1, min(SHOWN, sum(map(bool, figures.values()))))
        shown += len(ranked) == shown + 1  # "1 others" is never printed
        texts = [f"{figures[x]:+.4g} from {prefix if isinstance(x, int) else ''}{x}" for x in ranked[:shown]]
        others = ranked[shown:]
        if others:
            texts.append(f"{sum(figures[label] for label in others):+.4g} from {len(others)} others")
        return ", ".join(texts)

    def _parts_text(self, parts: Parts, prefix: str = "") -> str:
        """Return ``+812.4 from model.py:31, -811.9 from model.py:44`` with the sum, and the share that cancels."""
        if not self._finite(self.total):
            bad = [f"{prefix if isinstance(x, int) else ''}{x}" for x, g in parts.items() if not self._finite(g)]
            return (
                "not finite: " + ", ".join(bad[:SHOWN]) + (f" and {len(bad) - SHOWN} more" if len(bad) > SHOWN else "")
            )
        figures: dict[Label, float] = {label: self._figure(g) for label, g in parts.items()}
        added_up: Any = sum(parts.values())
        off = abs(added_up - self.total).max() if self.total.size else 0
        # Parts that cancel have rounding errors relative to the size of the parts, and so have the uses behind a part.
        added = [*parts.values(), *self.by("use").values()]
        size = max([float(abs(g).max()) for g in added if g.size], default=0.0)
        rounding = max(precision(self.total.dtype), self._flow.precision if self._flow is not None else 0.0)
        known = size * len(parts) * rounding * 64
        checked = "the gradient" if off <= known else f"differs from the gradient by {off:.2g}"
        cancelled = _cancelled(sum(map(abs, figures.values())), self._figure(self.total))
        return f"{self._listed(figures, prefix)}; sum {self._figure(added_up):+.4g}, {checked}{cancelled}"

    def _finite(self, g: Array) -> bool:
        """Return whether the explained element, or every element, is finite."""
        return bool(array_module(g).isfinite(g if self._index is None else g[self._index]).all())

    def _figure(self, g: Array) -> float:
        """Return one number for an array: the explained element, or the projection onto the gradient's direction."""
        if self._index is not None or self.total.size == 1:
            return float((g[self._index] if self._index is not None else g.reshape(-1)[0]).real) + 0.0  # no -0
        xp = array_module(self.total)
        wide = self.total.astype("c16" if self.total.dtype.kind == "c" else "f8")
        norm = float(xp.sqrt((abs(wide) ** 2).sum()))
        if norm == 0:
            return float(xp.sqrt((abs(g.astype(wide.dtype)) ** 2).sum()))
        return float((wide.conj() * g).sum().real) / norm + 0.0


def _wrapped(line: str, width: int) -> str:
    """Wrap a line at spaces; further lines are indented below the text of the line."""
    indent = len(line) - len(line.lstrip()) + 4
    return "\n".join(
        wrap(line, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False) or [line]
    )


def _cancelled(flowing: float, rest: float) -> str:
    """Return a text with the percentage that cancels, if it is more than half."""
    return f"; {100 * (1 - abs(rest) / flowing):.4g}% of it cancels" if flowing and abs(rest) < 0.5 * flowing else ""


def _module_of(node: Node) -> str:
    site = site_of(node)
    return (None if site is None else site.module) or "no module known"


def _as_users_see(g: object) -> Array:
    array: Array = as_array(g)
    return array.conj() if array.dtype.kind == "c" else array


_as_walks_see = _as_users_see  # conjugation is its own inverse
