"""Compare the calls of a Python loop with those of its block, each by a function written for that call.

A call of a step takes a few microseconds, and each call is compared. The comparison is therefore generated as Python
code, in which all expectations are constants: which input is which result, and the shape and dtype of each result.
``is_predictable`` says whether the results of a call have known forms without computing them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import unwrap
from typing import Protocol, TypeAlias
from weakref import ref

import numpy as np

from ...core.arrays import Array
from ...core.graph.modes import modes
from ...core.graph.primitive import Primitive
from ...core.tensor.storage import share
from ...core.tensor.tensor import Tensor
from ..program import Arguments, Keywords, equal
from ..trace.traced_arrays import Traced
from ..trace.tracer import Tracer
from ..trace.untrace import is_package_function
from .call_log import BEFORE, NUMBER, OWN, PLAIN, SAME, Block, Call, Source, is_row

_PLAIN = (int, str, bool, type(None), type(Ellipsis))

Comparison: TypeAlias = Callable[[Primitive, Arguments, Keywords], object]


class Following(Protocol):
    """The state of a loop that is being followed, which the comparisons read and change.

    The comparisons also call the methods ``starts_with``, ``is_same``, ``is_slice``, ``computed`` and ``end_step``.
    """

    tracer: Tracer
    lazy: bool
    own: list[Traced | None]
    before: list[Traced | None]
    same: list[tuple[Tensor, Array] | None]
    slices: list[list[Tensor]]
    numbers: list[list[float]]
    rows: dict[int, list[int]]
    made: list[tuple[ref[Traced], ref[Tensor]]]


def comparisons(steps: Following, block: Block, kind: type[Tensor]) -> list[Comparison]:
    """Return a function for each call of a block.

    A function returns the result of a call and installs the function of the next call; for a call other than the
    expected one it returns NotImplemented. ``kind`` is the class of results that require grad.
    """
    found: list[Comparison] = []
    for at in range(len(block.calls)):
        found.append(_Code(steps, block, at, kind).compiled(found))
    return found


class _Code:
    """The Python code of a comparison, and the objects that it names."""

    def __init__(self, steps: Following, block: Block, at: int, kind: type[Tensor]) -> None:
        self.names: dict[str, object] = {
            "here": modes.__dict__, "tracer": steps.tracer, "steps": steps, "own": steps.own, "before": steps.before,
            "same": steps.same, "made": steps.made, "Tensor": Tensor, "Traced": Traced, "Kind": kind, "equal": equal,
            "ref": ref, "new": Tensor.__new__, "new_traced": Traced.__new__, "share": share, "is_row": is_row,
            "missing": object(),
        }  # fmt: skip
        self.lines: list[str] = []
        self.at, self.last = at, at == len(block.calls) - 1
        self._compare(block.calls[at], block.sources[at], steps)
        self._make(block.calls[at], block.first[at], steps)

    def _name(self, x: object, name: str) -> str:
        """Return a name for an object."""
        name = f"{name}_{len(self.names)}"
        self.names[name] = x
        return name

    def _unless(self, *conditions: str) -> None:
        """End the comparison unless the conditions hold."""
        self.lines.append(f"if not ({' and '.join(conditions)}): return NotImplemented")

    def _compare(self, call: Call, sources: Sequence[Source], steps: Following) -> None:
        """Compare primitive, modes, parameters and inputs; collect in lists the inputs that differ between steps."""
        self._unless(
            f"primitive is {self._name(call.primitive, 'primitive')}",
            f"len(inputs) == {len(sources)}",
            f"here['grad_enabled'] is {call.grad}",
            "here['level'] is None",
            "len(here['observers']) == 1",
            "not tracer._busy",
        )
        if call.row:
            self._unless("len(params) == 1", "is_row(primitive, params)")
        else:
            self._unless(*self._same_params(call.params))
        self.columns: list[tuple[object, str]] = []
        for n, source in enumerate(sources):
            x, k, known = f"inputs[{n}]", source.index, self._name(source.known, "known")
            self.lines.append(f"x = {x}")
            if source.kind == NUMBER:
                self._unless("type(x) is float or type(x) is int")
                self.columns.append((steps.numbers[k], x))
            elif source.kind >= PLAIN:
                self._unless(f"x is {known} or equal(x, {known})")
            else:
                self._unless("isinstance(x, Tensor)", f"x._requires is {source.requires}")
                self._unless(self._same_tensor(source, self._name(source, "source"), steps, x))
        if call.row:
            self.lines.append("row = params['index'][0]")
            if steps.lazy:  # if steps are computed, an index out of range raises an error there
                self._unless("-len(inputs[0].array) <= row < len(inputs[0].array)")
            self.columns.append((steps.rows[self.at], "row"))

    def _same_params(self, params: Keywords) -> list[str]:
        """Return the conditions under which parameters are interchangeable with these; True and 1 are not."""
        conditions = [f"len(params) == {len(params)}" if params else "not params"]
        for name, value in params.items():
            known = self._name(value, "known")
            if type(value) is tuple and all(type(x) in _PLAIN for x in value):
                types = self._name(tuple(map(type, value)), "types")
                conditions.append(f"type(p := params.get({name!r}, missing)) is tuple and p == {known}")
                conditions.append(f"tuple(map(type, p)) == {types}")
            else:
                conditions.append(f"((p := params.get({name!r}, missing)) is {known} or equal(p, {known}))")
        return conditions

    def _same_tensor(self, source: Source, name: str, steps: Following, x: str) -> str:
        """Return the condition under which ``x`` is the Tensor of its source."""
        k = source.index
        if source.kind == OWN:
            return f"x.array is own[{k}]"
        if source.kind == BEFORE:
            return f"(x.array is before[{k}] or steps.starts_with(x, {name}))"
        if source.kind == SAME:
            known = f"same[{k}] is not None and x is same[{k}][0] and x.array is same[{k}][1]"
            return f"({known} or steps.is_same(x, {name}))"
        self.columns.append((steps.slices[k], x))
        return f"steps.is_slice(x.array, {name})"

    def _make(self, call: Call, first: int, steps: Following) -> None:
        """Append the code that creates the results of the call."""
        if not steps.lazy:
            self.lines.append(f"arrays = steps.computed({self.at}, inputs, params)")
            self._unless("arrays is not None")
        self.lines += [f"{self._name(column, 'column')}.append({what})" for column, what in self.columns]
        names = []
        for n, ((form, edge), shares) in enumerate(zip(call.results, call.shares, strict=True)):
            x, k = f"x{n}", first + n
            names.append(x)
            self.lines += ["t = new_traced(Traced)", "t.tracer = tracer"]
            self.lines += (
                [f"t.form = {self._name(form, 'form')}"] if steps.lazy else [f"t.form, t.numbers = None, arrays[{n}]"]
            )
            self.lines += [f"{x} = new({'Tensor' if edge is None else 'Kind'})", f"{x}.array = own[{k}] = t"]
            self.lines.append(f"{x}._requires = {edge is not None}")
            self.lines.append(f"{x}._grad = {x}._base = {x}._hooks = {x}._storage = None")
            if edge is None:
                self.lines.append(f"{x}._node = None")
            if shares:
                self.lines.append(f"share({x}, inputs[0], {call.grad})")
            self.lines.append(f"made.append((ref(t), ref({x})))")
        self.lines += ["steps.end_step()"] if self.last else []
        self.lines.append(f"tracer.follow = following[{0 if self.last else self.at + 1}]")
        self.lines.append("return " + (names[0] if call.primitive.outputs == 1 else f"({', '.join(names)},)"))

    def compiled(self, following: list[Comparison]) -> Comparison:
        """Compile the function. ``following`` will have the functions of all calls."""
        source = "def compare(primitive, inputs, params):\n" + "\n".join("    " + line for line in self.lines)
        names: Keywords = self.names | {"following": following}
        exec(compile(source, f"<call {self.at} of a loop>", "exec"), names)
        made: Comparison = names.pop("compare")  # popped, so that the function does not refer to itself
        return made


def is_predictable(block: Block) -> bool:
    """Return whether all results of a step have the forms that the block states, whatever the elements.

    A custom Function may do anything, so only primitives of this package are predictable.
    """
    return all(map(_is_predictable, block.calls))


def _is_predictable(call: Call) -> bool:
    primitive = call.primitive
    # Remove the wrappers for compiled loops and for the device meta.
    forward = unwrap(getattr(primitive.forward, "reference", primitive.forward))
    if not (isinstance(forward, np.ufunc) or is_package_function(forward)):
        return False
    if primitive.elementwise or primitive.view:
        return True
    # An error that depends on elements, such as that of ``inv``, is raised again by the call that causes it.
    inputs = [read[0] for read in call.reads if isinstance(read, tuple)]
    return bool(primitive.by_rows or primitive.shaped) and all(value.dtype.kind in "fc" for value in inputs)


__all__ = ["comparisons", "is_predictable"]
