"""The records of a trace: calls, their inputs, and values that left the graph."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..core.source_location import Site
from .statistics import Statistics

_NONE: Mapping[str, str] = {}
_FEW = 12  # the most calls that compute a weight from parameters


class Input(NamedTuple):
    """An input of a call: its source, and the name of a leaf, a constant or a number if it is known.

    ``name`` is a parameter's path (``blocks.2.weight``), a variable's name, or the number itself. ``leaf`` is a unique
    number of a leaf, and 0 for other inputs.
    """

    source: Record | Departure | None
    name: str
    shape: tuple[int, ...]
    dtype: Any
    requires_grad: bool
    leaf: int = 0

    @property
    def is_of_leaves(self) -> bool:
        """Whether the input is computed, in few calls, from leaves and numbers, and not from data."""
        pending, count = [self], 0
        while pending and count < _FEW:
            x = pending.pop()
            if isinstance(x.source, Record):
                pending += x.source.inputs
                count += 1
            elif x.source is None and not x.leaf and math.prod(x.shape) > 1:
                return False
        return not pending


class Record:
    """One call of an operator.

    Attributes:
        index: its position in the trace.
        operator: the operator's name in ``grad_fn``.
        call: the public operator that the program called and that called this operator, such as ``std``, which calls
            ``var`` and ``sqrt``.
        file, line, code, function: the program's line that called it, its text, and the function around it.
        module: the path of the module that ran it (``blocks.2.attn``), the class of the outermost module for its own
            operators, and "" outside of modules.
        phase: ``"forward"``, or ``"backward"`` for operators that run during a backward pass.
        shape, dtype: of the output; tuples for several outputs.
        inputs: an ``Input`` for each.
        writes: for an in-place operator, the ``Input`` that it overwrites (for a view, its base); else None.
        values, gradients: ``Statistics`` of the (first) output and, after a backward pass, of its gradient (of several
            outputs, the first with a gradient other than zero); else None.
        kept: bytes that its node, and no earlier node of the trace, saves for the backward pass; ``briefly`` says
            whether they were saved and freed during one backward pass, as in recomputing a checkpoint.
        forward, backward, seconds: seconds in each phase, and their sum.
        requires_grad: whether it was recorded for differentiation.
        grad_enabled: whether recording was enabled; ``no_grad`` is the ``Site`` that disabled it, if known.
        within: the name of the custom Function in whose forward it ran, or None.
        creates: whether it has no Tensor inputs (``randn``, ``tensor``).
        classes: the class names of modules by path, shared by all records of a trace.
        sequence: the number of its node, or None.
        walked: the position of its node in the traced backward passes, or None.
        passes: how many backward passes have visited its node: 0 if none has, more than 1 with several losses. With
            several, ``gradients`` are those of the last pass; in the doctor's records, of all passes together.
        error: the exception that it raised, or None.
        value, gradient: copies of output and gradient, with ``keep="values"``; else None.
        samples: some elements of output and gradient, for comparison.
    """

    __slots__ = (
        "__weakref__", "backward", "briefly", "call", "classes", "creates", "dtype", "error", "forward", "grad_enabled",
        "gradient", "gradients", "index", "inputs", "kept", "module", "no_grad", "operator", "passes", "phase",
        "requires_grad", "samples", "sequence", "shape", "site", "value", "values", "walked", "within", "writes",
    )  # fmt: skip

    def __init__(self, index: int, operator: str, call: str, site: Site, module: str, phase: str) -> None:
        self.index = index
        self.operator = operator
        self.call = call
        self.site = site
        self.module = module
        self.phase = phase
        self.classes: Mapping[str, str] = _NONE
        self.inputs: tuple[Input, ...] = ()
        self.writes: Input | None = None
        self.shape: Any = ()
        self.dtype: Any = None
        self.values: Statistics | None = None
        self.gradients: Statistics | None = None
        self.kept = 0
        self.briefly = False
        self.forward = 0.0
        self.backward = 0.0
        self.requires_grad = False
        self.grad_enabled = True
        self.no_grad: Site | None = None
        self.within: str | None = None
        self.creates = False
        self.sequence: int | None = None
        self.walked: int | None = None
        self.passes = 0
        self.error: BaseException | None = None
        self.value: Any = None
        self.gradient: Any = None
        self.samples: list[Any] = [None, None]

    file = property(lambda self: self.site.file)
    line = property(lambda self: self.site.line)
    code = property(lambda self: self.site.code)
    function = property(lambda self: self.site.function)
    seconds = property(lambda self: self.forward + self.backward)

    @property
    def label(self) -> str:
        """The operator, with PyTorch's underscore if it works in place: ``add_``."""
        marked = self.writes is None or self.operator == "setitem" or self.operator.endswith("_")
        return self.operator if marked else f"{self.operator}_"

    def in_traceback(self) -> str:
        """The line as in a traceback."""
        return self.site.in_traceback()

    def __repr__(self) -> str:
        where = f" in {self.module}" if self.module else ""
        return f"<{self.operator} at {self.site}{where}>"


class Departure:
    """Values that left the graph: by ``item``, ``detach`` or a similar method, under ``no_grad``, or by an operator
    without a gradient. ``how`` is the name of the method or operator, or ``no_grad``."""

    __slots__ = ("dtype", "how", "leaf", "module", "name", "order", "requires_grad", "shape", "site", "source")

    def __init__(self, how: str, site: Site, module: str, x: Input, order: int) -> None:
        self.how = how
        self.site = site
        self.module = module
        self.source, self.name, self.shape, self.dtype, self.requires_grad, self.leaf = x
        self.order = order

    file = property(lambda self: self.site.file)
    line = property(lambda self: self.site.line)
    code = property(lambda self: self.site.code)

    def __repr__(self) -> str:
        return f"<{self.how} at {self.site}>"
