"""Anomaly mode: record the user's line of each operator, and stop the backward pass at a non-finite gradient."""

from __future__ import annotations

from typing import Any
from weakref import ref

from ..core.arrays import Array
from ..core.arrays.devices import all_examples, array_module, backend_of, is_array
from ..core.errors import GuardError, describe
from ..core.graph.backward import as_array
from ..core.graph.modes import Mode, Switch, modes
from ..core.graph.nodes import Node
from ..core.graph.observers import Observer
from ..core.source_location import user_site
from ..core.tensor import tensor


class detect_anomaly(Mode):
    """Find where a gradient becomes NaN or infinite, and detect writes to saved memory that bypass the engine.

    In anomaly mode, every recorded operator stores the line of the program that called it. A backward pass stops at
    the first operator whose rule returns a non-finite gradient although its upstream gradient is finite; the error
    names the operator, the input and the line. In PyTorch programs (``retrograd run``) the backward pass stops only at
    NaN, as in PyTorch. A checksum (CRC-32) of each saved array is stored when an operator is recorded and compared when
    the array is used: a difference means that the memory was written through ``.array`` or a shared NumPy array. Both
    checks make programs several times slower.

    Use ``detect_anomaly`` as a context manager or a decorator; it applies to the thread that enters it.

    Args:
        check_nan: also check that gradients are finite; if False, only record lines and check memory.

    Raises:
        RuntimeError: raised by the backward pass at the first non-finite gradient.
        GuardError: a RuntimeError, raised by the backward pass if memory changed after it was saved.

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
    def changes(self) -> dict[str, object]:  # type: ignore[override]
        """Return the thread's observers, with one that checks for anomalies."""
        return {"observers": (*_other_observers(), _Anomaly(self.check_nan))}

    def _clone(self) -> Mode:
        return detect_anomaly(self.check_nan)


class set_detect_anomaly(Switch):
    """Turn anomaly mode on or off, as a function or as a context manager.

    Args:
        mode: whether anomaly mode is on.
        check_nan: as for ``detect_anomaly``.

    >>> with rg.autograd.set_detect_anomaly(True):
    ...     pass
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.check_nan = check_nan
        self.changes = {"observers": (*_other_observers(), _Anomaly(check_nan)) if mode else _other_observers()}
        Switch.__init__(self)


def is_anomaly_enabled() -> bool:
    """Return whether this thread is in anomaly mode."""
    return any(isinstance(observer, _Anomaly) for observer in modes.observers)


def _other_observers() -> tuple[Observer, ...]:
    return tuple([observer for observer in modes.observers if not isinstance(observer, _Anomaly)])


class _Anomaly(Observer):
    """The observer that is active in anomaly mode."""

    def __init__(self, check_nan: bool) -> None:
        self.check_nan = check_nan
        # Entries are removed with their nodes by dict.pop: Ctrl-C cannot interrupt a weakref callback written in C.
        self.checksums: dict[ref[Node], tuple[int, ...]] = {}
        self.incoming: Any = None  # the upstream gradient of the running rules

    def recorded(self, node: Node) -> None:
        if node.site is None:
            node.site = user_site()
        self.checksums[ref(node, self.checksums.pop)] = _checksums(node.saved)

    def left(self, node: Node) -> None:
        self.incoming = None

    def entered(self, node: Node, g: object) -> None:
        self.incoming = g
        known = self.checksums.get(ref(node))
        if known is not None and _checksums(node.saved) != known:
            raise GuardError(
                f"{node.operator}: memory saved for its gradient was written through .array or a shared NumPy array, "
                f"which bypasses copy on write; the operator ran here:\n{node.site.in_traceback()}"
            )

    def sent(self, node: Node, index: int, given: object, g: Array, before: object) -> None:
        if not self.check_nan:
            return
        received = as_array(getattr(g, "array", g))
        array = all_examples(received)
        xp = array_module(array)
        finite = xp.isfinite(array)
        if bool(finite.all()):
            return
        nans = int(xp.isnan(array).sum())
        if not nans and not tensor.arrays_keep_dtype:  # a program of PyTorch, whose anomaly mode accepts infinity
            return
        infinite = int(array.size - int(finite.sum()) - nans)
        where = "\nits line is unknown: the operator was recorded outside anomaly mode"
        if node.site is not None:
            where = f"\nthe operator ran here:\n{node.site.in_traceback()}"
        raise RuntimeError(
            f"{node.operator}: its gradient for input {index} is not finite ({infinite} infinite, {nans} NaN of "
            f"{array.size} elements{', over all examples of vmap' if received is not array else ''})\n"
            f"{_arithmetic_rule(node, index, array, self.incoming) if received is array else ''}"
            f"it saved {describe([value for value in node.saved or () if is_array(value)])}{where}"
        )


def _arithmetic_rule(node: Node, number: int, g: Any, incoming: Any) -> str:
    """Describe the arithmetic rule that produced the first non-finite element."""
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
    return f"{where} is {shown(out)}: {finding.sentence}; inspect.guard() shows where the value came from\n"


def _checksums(saved: tuple[object, ...] | None) -> tuple[int, ...]:
    def checksum(value: object) -> int:
        value = all_examples(value)
        array = backend_of(value).to_numpy(value)
        from zlib import crc32

        return crc32(array.tobytes())

    return tuple([checksum(value) for value in saved or () if is_array(value)])
