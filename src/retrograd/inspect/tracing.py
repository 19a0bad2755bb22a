"""``trace``: the record of a step, to be printed, filtered, grouped and compared."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from operator import attrgetter
from typing import Any, Literal
from weakref import WeakSet

from ..core.graph.modes import Mode, modes
from ..core.graph.nodes import Node
from ..core.source_location import Site
from ..core.tensor.tensor import Tensor
from .diff import Difference, compare
from .record import Departure, Record
from .recorder import Recorder
from .statistics import Statistics
from .table import groups_table, table

_NAMED = 30  # names in a text

Grouping = Literal["line", "module", "operator"]


class Records:
    """Records of a trace, in the order in which the operators ran."""

    _other = 0.0

    def __init__(self, records: list[Record], departures: list[Departure], missing: str = "") -> None:
        self.records = records
        self.told = departures
        self._missing = missing  # what is to be said where there are none

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
        """Of a line in a profile the seconds that it took beside operators, else 0."""
        return self._other

    @property
    def kept(self) -> int:
        """Bytes that the operators kept for a walk; what came and went within one (a checkpoint's) is no part of it."""
        return sum(record.kept for record in self.records if not record.briefly)

    @property
    def departures(self) -> list[Departure]:
        """Where values that needed a gradient left the graph, in order: calls of ``item``, ``detach`` and the like, and
        operators without gradient, such as comparisons, casts to integers, and whatever runs under ``no_grad``."""
        found = [x for x in self.told if x.requires_grad]
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
        """The records that fit.

        Args:
            predicate: says of a record whether it fits.
            operator: the operator's name, that of the public operator which the program called (``pow`` for ``x**2``,
                which is a ``square``), or a pattern with ``*``.
            module: the module's path, for it and those inside it, or a pattern with ``*``.
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
        missing = "" if found or not self.records else _nothing(self.records, wanted)
        return Records(found, [x for x in self.told if id(x.site) in sites], missing)

    def by(self, what: Grouping) -> Groups:
        """The records by line (``file.py:31``), module or operator, in order of first appearance.

        Each group has ``forward``, ``backward``, ``seconds`` and ``kept`` of its own; printed, they are a table.

        >>> with rg.inspect.trace() as t:
        ...     y = (rg.ones(3) * 2 * 3).sum()
        >>> {name: len(records) for name, records in t.by("operator").items()}
        {'ones': 1, 'mul': 2, 'sum': 1}
        """
        if what not in ("line", "module", "operator"):
            raise ValueError(f"trace.by: wanted 'line', 'module' or 'operator', got {what!r}")
        groups: dict[str, list[Record]] = {}
        label = self._line_label() if what == "line" else attrgetter(what)
        for record in self.records:
            groups.setdefault(label(record), []).append(record)
        return Groups({name: Records(records, []) for name, records in groups.items()})

    def _line_label(self) -> Callable[[Record], str]:
        """``file.py:31``, with the folder where two files have one name."""
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
        """The first operator at which two runs differ: in what it is, in shape or dtype, in values or gradients.

        Args:
            other: the other run.
            rtol, atol: how far values may lie apart; by default what ``testing.assert_close`` allows for the coarser of
                both dtypes.
            ignore_dtype: take another dtype for no difference.

        Returns:
            A ``Difference``, false where there is none.

        >>> def run(x):
        ...     with rg.inspect.trace() as t:
        ...         (x * x).exp().sum()
        ...     return t
        >>> print(run(rg.ones(2)).diff(run(rg.ones(2))))
        no difference
        """
        if not isinstance(other, Records):
            raise TypeError(f"trace.diff: wanted another trace, got {type(other).__name__}")
        return compare(self.records, other.records, rtol, atol, ignore_dtype)

    def to_json(self) -> str:
        """All records as JSON; what is not finite is the string ``"NaN"``, ``"Infinity"`` or ``"-Infinity"``.

        >>> import json
        >>> with rg.inspect.trace() as t:
        ...     y = rg.ones(3).exp()
        >>> json.loads(t.to_json())["records"][1]["operator"]
        'exp'
        """
        return json.dumps({"records": [_plain(record) for record in self.records]}, allow_nan=False)


class Groups(dict[str, Records]):
    """Records by what they have in common. Its ``str`` is a table of what each group took and kept."""

    outside = 0.0  # seconds in which no operator ran, where the groups have no part of these

    def __str__(self) -> str:
        return groups_table(self, outside=self.outside)


class trace(Records, Mode):  # type: ignore[misc]  # no file, though Mode is one for its C code
    """Record what a program does: each operator with its line and module, what it gave forward and backward, how long
    it took and what it kept.

    A context manager around a step, or any part of a program; what other threads do is not recorded. Entered again, it
    adds to its records. Arrays are looked at and let go: no Tensor and no graph stays alive by a trace.

    Args:
        keep: ``"values"`` keeps copies of outputs and gradients, as ``record.value`` and ``record.gradient``.

    Raises:
        ValueError: ``keep`` is anything else.
        RuntimeError: on entering a trace that is running.

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

    @property
    def changes(self) -> dict[str, Any]:  # type: ignore[override]
        """The thread's observers, with the recorder of this trace after them."""
        if self.recorder in modes.observers:
            raise RuntimeError("trace: this trace is running already; make another one to nest them")
        return {"observers": (*modes.observers, self.recorder)}

    def _clone(self) -> Mode:
        return self

    def record_of(self, x: Node | Tensor) -> Record | None:
        """The record of the operator that made a node or a Tensor, None where this trace saw none."""
        if isinstance(x, Node):
            return self.recorder.record_of(x)
        source = self.recorder.source(x)
        return source.source if isinstance(source, Departure) else source  # type: ignore[return-value]

    def departure_of(self, x: Tensor) -> Departure | None:
        """How a Tensor came to be without history, where it is the result of ``detach`` and the like."""
        source = self.recorder.source(x)
        return source if isinstance(source, Departure) else None

    def name_of(self, x: Tensor) -> str:
        """The name of a leaf: the path of a parameter, or the program's variable; "" where none is known."""
        return self.recorder.names.of(x)

    @staticmethod
    def site_of(node: Node) -> Site | Record | None:
        """Where a node was recorded: ``file``, ``line``, ``code`` and ``module``; None outside of any trace."""
        return site_of(node)

    @staticmethod
    def module_of(node: Node) -> str:
        """The path of the module that recorded a node, "" outside of modules and of traces."""
        return module_of(node)


# Those of the traces that are still there: what has lost its history is looked up in them.
recorders: WeakSet[Recorder] = WeakSet()
_latest: list[Recorder] = []  # is there, also where the program gave its trace no name; it holds numbers, and no array


def site_of(node: Node) -> Any:
    """Where a node was recorded (``file``, ``line``, ``code``, ``module``), None if under no trace."""
    return node.site if node.site is not None or node.plan.select is None else node.parents[0].site


def module_of(node: Node) -> str:
    """The path of the module that recorded a node, "" where none is known."""
    site = site_of(node)
    return "" if site is None else site.module


def _names(record: Record) -> set[str]:
    """What an operator may be asked for as: its own name, and that of the public operator, also without underscores."""
    return {record.operator, record.label, record.call, record.call.strip("_")}


def _nothing(records: list[Record], wanted: dict[str, Any]) -> str:
    """That no record fits, and what there is instead."""
    asked = {name: value for name, value in wanted.items() if value is not None}
    text = f"nothing matches {', '.join(f'{name}={value!r}' for name, value in asked.items()) or 'the predicate'}"
    for name in asked:
        there = [str(x.site) if name == "line" else getattr(x, name) for x in records]
        known = list(dict.fromkeys(filter(None, there)))
        more = f", and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
        text += f"\n{name}s there are: {', '.join(known[:_NAMED]) or 'none'}{more}"
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
