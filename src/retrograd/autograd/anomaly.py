"""Anomaly mode: every recorded operator remembers the user's line, and the first non-finite gradient stops the walk."""

from __future__ import annotations

import zlib
from typing import Any
from weakref import ref

from ..core.arrays.devices import all_examples, array_module, backend_of, is_array
from ..core.errors import GuardError, describe
from ..core.graph.backward import as_array
from ..core.graph.modes import Mode, Switch, modes
from ..core.graph.nodes import Node
from ..core.graph.observers import Observer
from ..core.source_location import user_site


class detect_anomaly(Mode):
    """While active, find where a gradient becomes NaN or infinite, and memory that changed behind the engine's back.

    Every operator recorded inside remembers the line of the program that ran it. A backward walk inside stops at the
    first operator whose rule gives a non-finite gradient from finite ones, and names operator, input and line. What a
    node saved is summed up (CRC-32) when recorded and again when used: a difference means that somebody wrote the
    memory through ``.array`` or a shared NumPy array. Both make programs several times slower.

    A context manager and a decorator, on the thread that enters it.

    Args:
        check_nan: look at gradients, too; else lines and memory only.

    Raises:
        RuntimeError: by the walk, at the first non-finite gradient.
        GuardError: by the walk, for memory that changed after it was saved; a RuntimeError.

    >>> x = rg.tensor([0.0, 4.0], requires_grad=True)
    >>> with rg.autograd.detect_anomaly():
    ...     try:
    ...         x.sqrt().sum().backward()
    ...     except RuntimeError as error:
    ...         print(str(error).splitlines()[0])
    sqrt: its gradient for input 0 is not finite (1 infinite, 0 NaN of 2 elements)
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        super().__init__()

    @property
    def changes(self) -> dict[str, Any]:  # type: ignore[override]
        """The thread's observers, with one that looks for anomalies."""
        return {"observers": (*_others(), _Anomaly(self.check_nan))}

    def _clone(self) -> Mode:
        return detect_anomaly(self.check_nan)


class set_detect_anomaly(Switch):
    """Turn anomaly mode on or off: at once as a function, until the end as a context manager.

    Args:
        mode: on or off.
        check_nan: as for ``detect_anomaly``.

    >>> with rg.autograd.set_detect_anomaly(True):
    ...     pass
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        self.changes = {"observers": (*_others(), _Anomaly(check_nan)) if mode else _others()}
        Switch.__init__(self)


def is_anomaly_enabled() -> bool:
    """Whether this thread is in anomaly mode."""
    return any(isinstance(observer, _Anomaly) for observer in modes.observers)


def _others() -> tuple[Observer, ...]:
    return tuple([observer for observer in modes.observers if not isinstance(observer, _Anomaly)])


class _Anomaly(Observer):
    """What the engine calls while anomaly mode is on."""

    def __init__(self, check_nan: bool) -> None:
        self.check_nan = check_nan
        # Entries leave with their nodes, by a function in C, which Ctrl-C cannot interrupt.
        self.checksums: dict[ref[Node], tuple[int, ...]] = {}
        self.incoming: Any = None  # what the rules that run now were given

    def recorded(self, node: Node) -> None:
        if node.site is None:
            node.site = user_site()
        self.checksums[ref(node, self.checksums.pop)] = _checksums(node.saved)

    def left(self, node: Node) -> None:
        self.incoming = None

    def entered(self, node: Node, g: Any) -> None:
        self.incoming = g
        known = self.checksums.get(ref(node))
        if known is not None and _checksums(node.saved) != known:
            raise GuardError(
                f"{node.operator}: memory that it saved for its gradient was changed behind the engine's back, through "
                f".array or a shared NumPy array; the operator ran here:\n{node.site.in_traceback()}"
            )

    def sent(self, node: Node, index: int, given: object, g: Any, before: object) -> None:
        if not self.check_nan:
            return
        received = as_array(getattr(g, "array", g))
        array = all_examples(received)
        xp = array_module(array)
        finite = xp.isfinite(array)
        if bool(finite.all()):
            return
        nans = int(xp.isnan(array).sum())
        infinite = int(array.size - int(finite.sum()) - nans)
        where = "\nno line is known: the operator was recorded outside anomaly mode"
        if node.site is not None:
            where = f"\nthe operator ran here:\n{node.site.in_traceback()}"
        raise RuntimeError(
            f"{node.operator}: its gradient for input {index} is not finite ({infinite} infinite, {nans} NaN of "
            f"{array.size} elements{', all examples of vmap counted' if received is not array else ''})\n"
            f"{_rule(node, index, array, self.incoming) if received is array else ''}"
            f"it saved {describe([value for value in node.saved or () if is_array(value)])}{where}"
        )


def _rule(node: Node, number: int, g: Any, incoming: Any) -> str:
    """Which rule of arithmetic made the first element that is not finite."""
    from .arithmetic import rule_backward, shown
    from .influence import element, first_index, saved_values

    index = first_index(~array_module(g).isfinite(g))
    came = getattr(incoming, "array", incoming)
    same = getattr(came, "shape", None) == g.shape
    out = element(g, index)
    values = saved_values(node, index, g.shape)
    finding = rule_backward(
        node.operator, values, number, element(as_array(came), index) if same else None, out, g.dtype
    )
    where = f"at {index} it" if index else "it"
    return f"{where} is {shown(out)}: {finding.sentence}; inspect.guard() tells where the value came from\n"


def _checksums(saved: tuple[Any, ...] | None) -> tuple[int, ...]:
    def one(value: object) -> int:
        value = all_examples(value)
        array = backend_of(value).to_numpy(value)
        return zlib.crc32(array.tobytes())

    return tuple([one(value) for value in saved or () if is_array(value)])
