"""``trace``: record a step, and print, filter, group and compare the records."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from operator import attrgetter
from typing import Any, Literal
from weakref import WeakSet

from ..core.graph.modes import Mode, modes
from ..core.graph.nodes import Node
from ..core.missing_names import repr_html
from ..core.source_location import Site
from ..core.tensor.tensor import Tensor
from .diff import Difference, compare
from .record import Departure, Record
from .recorder import Recorder
from .statistics import Statistics
from .table import columns_of_terminal, cut, duration, percent, size, table

_NAMED = 30  # the most names in a message

Grouping = Literal["line", "module", "operator"]


class Records:
    """Records of a trace, in the order in which the operators ran."""

    _other = 0.0
    _leaves: Sequence[tuple[int, int, Statistics]] = ()  # gradients of leaves: see ``Recorder.leaves``

    def __init__(self, records: list[Record], departures: list[Departure], missing: str = "") -> None:
        self.records = records
        self._departures = departures
        self._missing = missing  # the text printed if there are no records

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)

    def __bool__(self) -> bool:
        return bool(self.records)

    def __getitem__(self, index: int) -> Record:
        return self.records[index]

    def __str__(self) -> str:
        return table(self.records) if self.records or not self._missing else self._missing

    def __repr__(self) -> str:
        return f"<trace of {len(self.records)} operators>"

    _repr_html_ = repr_html("records_html")

    @property
    def forward(self) -> float:
        """Seconds in forward calls."""
        return math.fsum(record.forward for record in self.records)

    @property
    def backward(self) -> float:
        """Seconds in derivative rules."""
        return math.fsum(record.backward for record in self.records)

    @property
    def seconds(self) -> float:
        """Seconds forward and backward."""
        return self.forward + self.backward

    @property
    def other(self) -> float:
        """For a line in a profile, the seconds outside of operators; else 0."""
        return self._other

    @property
    def kept(self) -> int:
        """Bytes that operators saved for a backward pass, without those saved and freed during one (checkpoints)."""
        return sum(record.kept for record in self.records if not record.briefly)

    @property
    def departures(self) -> list[Departure]:
        """Where values that need a gradient left the graph, in order: calls of ``item``, ``detach`` or similar methods,
        operators without a gradient, such as comparisons and casts to integers, and operators under ``no_grad``."""
        found = [x for x in self._departures if x.requires_grad]
        for record in self.records:
            if record.requires_grad or record.phase == "backward" or record.within or record.error is not None:
                continue
            for x in record.inputs:
                if x.requires_grad:
                    how = record.operator if record.grad_enabled else "no_grad"
                    found.append(Departure(how, record.site, record.module, x, record.index))
        return sorted(found, key=lambda departure: departure.order)

    @property
    def failed(self) -> Record | None:
        """The last operator that raised an exception, or None."""
        return next((record for record in reversed(self.records) if record.error is not None), None)

    def filter(
        self,
        predicate: Callable[[Record], bool] | None = None,
        /,
        *,
        operator: str | None = None,
        module: str | None = None,
        line: int | str | None = None,
        phase: str | None = None,
    ) -> Records:
        """Return the records that satisfy all conditions.

        Args:
            predicate: a function of a record.
            operator: the operator's name, the name of the public operator that the program called (``pow`` for
                ``x**2``, which is a ``square``), or a pattern with ``*``.
            module: the module's path, which includes its submodules, or a pattern with ``*``.
            line: the line's number, or ``file.py:31``.
            phase: ``"forward"`` or ``"backward"``.

        >>> with rg.inspect.trace() as t:
        ...     y = rg.ones(3).exp().sum()
        >>> [record.operator for record in t.filter(operator="exp")]
        ['exp']
        """

        def fits(record: Record) -> bool:
            return (
                (operator is None or any(fnmatchcase(name, operator) for name in _names(record)))
                and (module is None or _inside(record.module, module))
                and (line is None or line in (record.line, str(record.site), f"{record.file}:{record.line}"))
                and (phase is None or phase == record.phase)
                and (predicate is None or bool(predicate(record)))
            )

        sites = {id(record.site) for record in self.records if fits(record)}
        found = [x for x in self.records if fits(x)]
        wanted = {"operator": operator, "module": module, "line": line, "phase": phase}
        missing = "" if found or not self.records else _no_match_text(self.records, wanted)
        kept = Records(found, [x for x in self._departures if id(x.site) in sites], missing)
        kept._leaves = self._leaves
        return kept

    def by(self, what: Grouping) -> Groups:
        """Return the records by line (``file.py:31``), module or operator, in order of first appearance.

        Each group has its own ``forward``, ``backward``, ``seconds`` and ``kept``; printing the groups gives a table.

        >>> with rg.inspect.trace() as t:
        ...     y = (rg.ones(3) * 2 * 3).sum()
        >>> {name: len(records) for name, records in t.by("operator").items()}
        {'ones': 1, 'mul': 2, 'sum': 1}
        """
        if what not in ("line", "module", "operator"):
            raise ValueError(f"trace.by: expected 'line', 'module' or 'operator', got {what!r}")
        groups: dict[str, list[Record]] = {}
        label = self._line_label() if what == "line" else attrgetter(what)
        for record in self.records:
            groups.setdefault(label(record), []).append(record)
        return Groups({name: Records(records, []) for name, records in groups.items()})

    def _line_label(self) -> Callable[[Record], str]:
        """Return a label function: ``file.py:31``, with the folder if two files have the same name."""
        files: dict[str, set[str]] = {}
        for record in self.records:
            files.setdefault(os.path.basename(record.file), set()).add(record.file)

        def label(record: Record) -> str:
            if len(files[os.path.basename(record.file)]) == 1:
                return str(record.site)
            return f"{os.sep.join(record.file.split(os.sep)[-2:])}:{record.line}"

        return label

    def diff(
        self, other: Records, rtol: float | None = None, atol: float | None = None, ignore_dtype: bool = False
    ) -> Difference:
        """Return the first operator at which two runs differ: in name, shape or dtype, values or gradients.

        Args:
            other: the other run.
            rtol, atol: tolerances; by default those of ``testing.assert_close`` for the coarser dtype.
            ignore_dtype: do not report different dtypes.

        Returns:
            A ``Difference``, false if there is none.

        >>> def run(x):
        ...     with rg.inspect.trace() as t:
        ...         (x * x).exp().sum()
        ...     return t
        >>> print(run(rg.ones(2)).diff(run(rg.ones(2))))
        no difference
        """
        if not isinstance(other, Records):
            raise TypeError(f"trace.diff: expected another trace, got {type(other).__name__}")
        return compare(self.records, other.records, rtol, atol, ignore_dtype)

    def to_json(self) -> str:
        """Return all records as JSON; NaN and infinities are the strings ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``.

        >>> import json
        >>> with rg.inspect.trace() as t:
        ...     y = rg.ones(3).exp()
        >>> json.loads(t.to_json())["records"][1]["operator"]
        'exp'
        """
        return json.dumps({"records": [_plain(record) for record in self.records]}, allow_nan=False)


class Groups(dict[str, Records]):
    """Groups of records; ``str`` gives a table of the time and memory of each group."""

    outside = 0.0  # seconds outside of operators that are not part of the groups

    _repr_html_ = repr_html("groups_html")

    def __str__(self) -> str:
        if not self:
            return "no operator ran"
        beside = any(group.other for group in self.values())
        whole = sum(group.seconds + group.other for group in self.values()) + self.outside
        headings = ("forward", "backward", *(("other",) if beside else ()), "share", "kept", "operators")
        rows = [
            (
                duration(x.forward),
                duration(x.backward),
                *((duration(x.other),) if beside else ()),
                percent((x.seconds + x.other) / whole if whole else 0),
                size(x.kept),
                str(len(x)),
            )
            for x in self.values()
        ]
        labels = list(self)
        if self.outside:
            rows.append(("", "", percent(self.outside / whole), "", ""))
            labels.append(f"outside of operators, {duration(self.outside)}")
        widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
        figures = ["  ".join(map(str.rjust, row, widths)) for row in (headings, *rows)]
        width = columns_of_terminal(160)
        lines = zip(figures, ("", *labels), strict=True)
        return "\n".join(cut(f"{text}  {label}".rstrip(), width) for text, label in lines)


class trace(Records, Mode):  # type: ignore[misc]  # no file, though Mode is one for its C code
    """Record what a program does: each operator with its line and module, its results and gradients, its time and the
    memory that it saves.

    Use ``trace`` as a context manager around a step or any part of a program; it records the thread that enters it.
    Entering it again adds records. A trace stores statistics, and keeps no Tensor or graph alive.

    Args:
        keep: ``"values"`` keeps copies of outputs and gradients, as ``record.value`` and ``record.gradient``.

    Raises:
        ValueError: ``keep`` has another value.
        RuntimeError: the trace is already active.

    >>> x = rg.tensor([1.0, 2.0], requires_grad=True)
    >>> with rg.inspect.trace() as t:
    ...     (x * x).sum().backward()
    >>> [(record.operator, record.values.maximum, record.gradients.maximum) for record in t.records]
    [('mul', 4.0, 1.0), ('sum', 5.0, 1.0)]
    """

    def __init__(self, keep: Literal["values"] | None = None) -> None:
        if keep not in (None, "values"):
            raise ValueError(f"trace: keep must be 'values' or None, got {keep!r}")
        self.recorder = Recorder(keep)
        recorders.add(self.recorder)
        _latest[:] = [self.recorder] if keep is None else []
        Mode.__init__(self)
        Records.__init__(self, self.recorder.records, self.recorder.departures)
        self._leaves = self.recorder.leaves

    @property
    def changes(self) -> dict[str, Any]:  # type: ignore[override]
        """Append the recorder of this trace to the thread's observers."""
        if self.recorder in modes.observers:
            raise RuntimeError("trace: this trace is already active; create another one to nest them")
        return {"observers": (*modes.observers, self.recorder)}

    def _clone(self) -> Mode:
        return self

    def record_of(self, x: Node | Tensor) -> Record | None:
        """Return the record of the operator that computed a node or a Tensor, None if this trace did not see it."""
        if isinstance(x, Node):
            return self.recorder.record_of(x)
        source = self.recorder.source(x)
        return source.source if isinstance(source, Departure) else source  # type: ignore[return-value]

    def departure_of(self, x: Tensor) -> Departure | None:
        """Return how a Tensor lost its history, if the Tensor is the result of ``detach`` or a similar method."""
        source = self.recorder.source(x)
        return source if isinstance(source, Departure) else None

    def name_of(self, x: Tensor) -> str:
        """Return the name of a leaf: the path of a parameter, or the program's variable; "" if it is not known."""
        return self.recorder.names.of(x)

    @staticmethod
    def site_of(node: Node) -> Site | Record | None:
        """Return where a node was recorded: ``file``, ``line``, ``code`` and ``module``; None outside of traces."""
        return site_of(node)

    @staticmethod
    def module_of(node: Node) -> str:
        """Return the path of the module that recorded a node, "" outside of modules and of traces."""
        return module_of(node)


# Recorders of living traces, in which Tensors without history are looked up.
recorders: WeakSet[Recorder] = WeakSet()
_latest: list[Recorder] = []  # keeps the latest recorder alive, which refers to no arrays


def site_of(node: Node) -> Any:
    """Return where a node was recorded (``file``, ``line``, ``code``, ``module``), None outside of traces."""
    return node.site if node.site is not None or node.plan.select is None else node.parents[0].site


def module_of(node: Node) -> str:
    """Return the path of the module that recorded a node, "" if it is not known."""
    site = site_of(node)
    return "" if site is None else site.module


def _names(record: Record) -> set[str]:
    """Return the names by which an operator can be filtered: its own and the public operator's, also without "_"."""
    return {record.operator, record.label, record.call, record.call.strip("_")}


def _no_match_text(records: list[Record], wanted: dict[str, Any]) -> str:
    """Return the text for a filter without matches, with the available names."""
    asked = {name: value for name, value in wanted.items() if value is not None}
    text = f"nothing matches {', '.join(f'{name}={value!r}' for name, value in asked.items()) or 'the predicate'}"
    for name in asked:
        there = [str(x.site) if name == "line" else getattr(x, name) for x in records]
        known = list(dict.fromkeys(filter(None, there)))
        more = f", and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
        text += f"\navailable {name}s: {', '.join(known[:_NAMED]) or 'none'}{more}"
    return text


def _inside(path: str, module: str) -> bool:
    return path == module or bool(module) and path.startswith(module + ".") or fnmatchcase(path, module)


def _plain(record: Record) -> dict[str, Any]:
    return {
        "index": record.index,
        "operator": record.operator,
        "call": record.call,
        "module": record.module,
        "file": os.path.abspath(record.file) if os.path.exists(record.file) else record.file,
        "line": record.line,
        "code": record.code,
        "phase": record.phase,
        "shape": _jsonable(record.shape),
        "dtype": _jsonable(record.dtype),
        "inputs": [
            {
                "record": x.source.index if isinstance(x.source, Record) else None,
                "name": x.name,
                "shape": list(x.shape),
                "dtype": _jsonable(x.dtype),
                "requires_grad": x.requires_grad,
            }
            for x in record.inputs
        ],
        "writes": record.writes is not None,
        "requires_grad": record.requires_grad,
        "values": _statistics(record.values),
        "gradients": _statistics(record.gradients),
        "kept": record.kept,
        "forward": record.forward,
        "backward": record.backward,
        "error": None if record.error is None else f"{type(record.error).__name__}: {record.error}",
    }


def _statistics(statistics: Statistics | None) -> dict[str, Any] | None:
    if statistics is None:
        return None
    return {name: _jsonable(getattr(statistics, name)) for name in Statistics.__slots__}


def _jsonable(value: object) -> Any:
    if isinstance(value, tuple):
        return [_jsonable(x) for x in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value if value is None or isinstance(value, (int, float)) else str(value)
