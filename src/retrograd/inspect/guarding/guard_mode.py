"""``guard``: stop at the first number that is not finite, forward or backward, and report where it came from."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from types import MethodType
from weakref import WeakKeyDictionary, WeakSet

import numpy as np

from ...autograd.arithmetic import rule_forward
from ...autograd.influence import element, first_index, unobserved
from ...core.arrays import Array
from ...core.arrays.devices import all_examples, array_module, is_array
from ...core.arrays.dtypes import INEXACT
from ...core.arrays.fp_warnings import silent
from ...core.errors import GuardError
from ...core.graph.backward import as_array
from ...core.graph.modes import Mode, modes
from ...core.graph.nodes import Node
from ...core.graph.plan import Inputs, Params, Recordable
from ...core.graph.primitive import Primitive
from ...core.mapping.batched import Batched
from ...core.source_location import Site, user_site
from ...core.tensor.tensor import Tensor, is_dense
from ..record import Record
from ..recorder import is_layered
from .gradient_norms import GradientNorms
from .history import MOVING, Past, Watched, as_read, tensor_inputs
from .optimizer_steps import Step, report_step
from .reports import named, report_backward, report_data, report_forward, report_layered, report_root

_MOST_RECORDS = 50_000
_FEW = 4096  # elements that are looked at one by one
_WALKS = 3  # records are deleted after this number of backward passes


class guard(Mode):
    """Stop at the first NaN, infinity or overflow, forward or backward, and report its origin.

    The report names line, operator and module, the index of the first bad element and the number of bad elements, the
    input values there, the rule of arithmetic that produced the bad element, and the operators back to the line of the
    cause. Operators without a gradient are also checked. Intended infinities (``masked_fill(mask, -inf)``,
    ``full(n, -inf)``, the logarithm of a mask) do not stop the program; a NaN computed from them does.

    ``vanishing`` and ``exploding`` bound the gradient norms of each backward pass. A backward pass that exceeds a bound
    ends with an error that contains a chart of the norms.

    Use ``guard`` as a context manager or a decorator; it checks the thread that enters it.

    Args:
        vanishing: the smallest norm of a gradient, relative to the norm at the start of the backward pass.
        exploding: the largest norm of a gradient, relative to the norm at the start of the backward pass.
        forward: check the results of operators.
        backward: check gradients.

    Attributes:
        story: the report, empty until a bad number is found.
        chart: the gradient norms of the last backward pass, by operator and line, if a bound is set.

    Raises:
        GuardError: a ``RuntimeError`` with the report.
        TypeError: a bound is not a number.
        ValueError: a bound is not positive.

    >>> x = rg.tensor([4.0, -1.0])
    >>> with rg.inspect.guard() as g:
    ...     try:
    ...         x.sqrt()
    ...     except RuntimeError as error:
    ...         print(str(error).splitlines()[2].strip())
    sqrt(-1.0): the square root of a negative number is NaN
    """

    def __init__(
        self,
        *,
        vanishing: float | None = None,
        exploding: float | None = None,
        forward: bool = True,
        backward: bool = True,
    ) -> None:
        for name, bound in (("vanishing", vanishing), ("exploding", exploding)):
            if bound is not None and (isinstance(bound, bool) or not isinstance(bound, Real)):
                raise TypeError(f"guard: {name} must be a number or None, got {type(bound).__name__}")
            if bound is not None and not bound > 0:
                raise ValueError(f"guard: {name} must be positive, got {bound!r}")
        super().__init__()
        self._watch = _GuardObserver(forward, backward, GradientNorms(vanishing, exploding))

    @property
    def changes(self) -> dict[str, object]:  # type: ignore[override]
        """Append the guard to the thread's observers."""
        if self._watch in modes.observers:
            raise RuntimeError("guard: this guard is already active; create another one to nest them")
        self._watch.story = ""
        return {"observers": (*modes.observers, self._watch)}

    def _clone(self) -> Mode:
        return self

    @property
    def story(self) -> str:
        """The report; empty until a bad number is found."""
        return self._watch.story

    @property
    def chart(self) -> str:
        """The gradient norms of the last backward pass, by operator and line."""
        return self._watch.norms.chart()


class _GuardObserver(Watched):
    accounts = False

    def __init__(self, forward: bool, backward: bool, norms: GradientNorms) -> None:
        super().__init__()
        self.looks_forward = forward
        self.looks_backward = backward
        self.norms = norms
        self.story = ""
        self._before: Array | None = None  # the values that an in-place operator will overwrite
        self._incoming: list[object] = []
        self._walk_site: Site | None = None
        self._ends: list[int] = []  # the number of records at the end of each recent backward pass
        self._below: WeakKeyDictionary[Node, Record] = (
            WeakKeyDictionary()
        )  # records of calls inside vmap, for all examples
        self._step: Step | None = None  # the optimizer step in progress
        self._scaling = False  # whether a GradScaler is multiplying
        self._scaled: WeakSet[Node] = WeakSet()  # losses multiplied by a GradScaler
        self._scaled_walk = False
        self._intended = ""  # the report of an overflow after which a GradScaler may skip the step
        self._muted = False  # whether gradients contain this overflow, so that nothing more is reported

    def record_statistics(self, record: Record, array: Array, gradient: bool) -> None:
        if gradient:
            self.norms.add(record, array)

    def report(self, story: str) -> None:
        """Stop the program with a report, or store it for an overflow after which a GradScaler may skip the step."""
        if self._scaled_walk and self.overflows:
            self._intended = self._intended or story
            self._muted = True
            return
        self.story = story
        raise GuardError(story)

    def _compose_report(self, story: Callable[..., str], record: Record | None, *args: object) -> None:
        """Compose a report and stop; if composing fails, report the bad number without details."""
        self.overflows = False
        try:
            with unobserved():
                text = story(record, *args)
        except Exception as error:
            place = f"{record.site}: {named(record)}" if record is not None else "backward"
            text = f"{place} gave a number that is not finite; the full report failed ({error!r})"
        self.report(text)

    # Forward

    def called(
        self, primitive: Recordable, inputs: Inputs, params: Params, outputs: tuple[Tensor, ...], node: Node | None
    ) -> None:
        super().called(primitive, inputs, params, outputs, node)
        if node is not None and outputs and isinstance(outputs[0].array, Batched):
            x = outputs[0]
            while isinstance(x.array, Batched):
                x = x.array.value
            source = self.source(x)
            if isinstance(source, Record):
                self._below[node] = source

    def writing(self, x: Tensor) -> None:
        if x.array.dtype.kind in INEXACT and not is_layered((x,)):
            self._before = x.array.copy()
            self.history.preserve(x.array, self._before)
        elif not is_layered((x,)):
            self.history.preserve(x.array)

    def ran(
        self, record: Record, primitive: Recordable | None, inputs: Inputs, params: Params, outputs: tuple[Tensor, ...]
    ) -> None:
        before, self._before = self._before, None
        if self.story:
            return
        arrays = [x.array if is_dense(x) else x for x in inputs]
        if before is not None and primitive is not None and outputs and inputs and outputs[0] is inputs[0]:
            arrays = [before if place == 0 else as_read(x, outputs[0].array, before) for place, x in enumerate(arrays)]
        if primitive is not None and not isinstance(primitive, Primitive):
            return
        given = tuple([output.array for output in outputs])
        past = Past(primitive, tuple(arrays), tensor_inputs(inputs, record), params, given)
        if self.norms.watches and outputs:
            self.norms.add_output(record, outputs[0].array)
        self.history.add(record, past, sum([output.array.nbytes for output in outputs]))
        if len(self.records) > _MOST_RECORDS:
            self._forget(_MOST_RECORDS // 2)
        if record.creates:
            return
        if record.phase == "backward" and record.site is self._walk_site or not self.looks_forward:
            return  # operators of a derivative rule, reported by the backward pass
        if primitive is not None and isinstance(primitive.forward, MethodType) and self.records[-1] is not record:
            return  # a Function whose forward called operators
        for number, output in enumerate(outputs):
            array = output.array
            if array.dtype.kind in INEXACT:
                if not finite(array):
                    with silent():
                        self._check_output(record, past, number, array)
            elif record.operator == "cast" and array.dtype.kind in "iu" and not _all_finite(past.inputs[:1]):
                self._check_cast(record, past)

    def _check_output(self, record: Record, past: Past, output: int, out: Array) -> None:
        """Report an output that is not finite if it is neither inherited from an input nor intended."""
        xp = array_module(out)
        nan = xp.isnan(out)
        arrays = [x for x in past.inputs if is_array(x) and x.dtype.kind in INEXACT]
        bad = [x for x in arrays if not finite(x)]
        if self._scaling or bad and self._muted:
            return
        on_purpose = any(_is_not_finite(x) for x in (*past.inputs, *past.params.values()))
        elementwise = past.primitive is not None and past.primitive.elementwise
        if not any(is_array(x) for x in past.inputs) or record.operator in MOVING and (bad or on_purpose):
            return
        if not bad:
            if not on_purpose and not _is_log_of_mask(record, arrays) or bool(nan.any()):
                self._compose_report(self._new_report, record, past, output, out, ~xp.isfinite(out))
            return
        if bool(nan.any()):
            known = [xp.isnan(x) for x in bad]
            if elementwise:
                new = nan & ~_any(known, nan.shape)
                if bool(new.any()):
                    self._compose_report(self._new_report, record, past, output, out, new)
                else:
                    self._compose_report(self._data_report, record, past, output, out, nan)
            elif not any(bool(x.any()) for x in known):
                self._compose_report(self._new_report, record, past, output, out, nan)
            else:
                self._compose_report(self._data_report, record, past, output, out, nan)
        elif elementwise and not on_purpose:
            new = xp.isinf(out) & ~_any([xp.isinf(x) for x in bad], nan.shape)
            if bool(new.any()) and not _is_log_of_mask(record, arrays):
                self._compose_report(self._new_report, record, past, output, out, new)

    def _check_cast(self, record: Record, past: Past) -> None:
        x = past.inputs[0]
        bad = ~array_module(x).isfinite(x)
        self._compose_report(self._data_report, record, past, 0, x, bad)

    def _new_report(self, record: Record, past: Past, output: int, out: Array, bad: Array) -> str:
        index = first_index(bad)
        places = past.places(index, output)
        finding = rule_forward(record.operator, past.values(places), element(out, index), out.dtype, past.params)
        return report_forward(self, record, past, places, finding, out, bad, index)

    def _data_report(self, record: Record, past: Past, output: int, out: Array, bad: Array) -> str:
        index = first_index(bad)
        places = past.places(index, output)
        values = past.values(places)
        culprits = [
            i for i, x in enumerate(values) if x is not None and x.dtype.kind in INEXACT and not np.isfinite(x).all()
        ]
        if not culprits:  # the places of the inputs are not known: take the first one that is not finite
            culprits = [
                i for i, x in enumerate(past.inputs) if is_array(x) and x.dtype.kind in INEXACT and not finite(x)
            ]
            places = [None if x is None else np.arange(x.size) if is_array(x) else None for x in past.inputs]
            values = past.values(places)
        number = culprits[0]
        read, place = values[number], places[number]
        assert read is not None and place is not None
        at = int(np.argmax(~np.isfinite(read)))
        return report_data(self, record, past, number, int(place[at]), out, bad, index)

    # Optimizers and GradScalers

    def stepping(self, optimizer: object) -> None:
        if self.story:
            return
        self._step = step = Step(optimizer)
        for p, before in step.copies():
            self.history.preserve(p.array, before)
        intended, self._intended, self._muted = self._intended, "", False
        if intended and not step.has_finite_gradients:
            self._scaled_walk = False
            self.report(intended)

    def stepped(self, optimizer: object) -> None:
        step, self._step = self._step, None
        if step is None or self.story or not self.looks_forward:
            return
        found = step.first_spoiled()
        if found is not None:
            self._compose_report(lambda _: report_step(self, step, found, user_site(4)), None)

    def scaling(self, x: Tensor) -> None:
        self._scaling = True

    def scaled(self, result: Tensor) -> None:
        self._scaling = False
        if isinstance(result._node, Node):
            self._scaled.add(result._node)

    # Backward

    def began(self) -> None:
        super().began()
        if len(self._walks) == 1:
            self._scaled_walk = self._muted = False
            self._walk_site = user_site(2)
            self._incoming.clear()
            self.norms.begin()

    def entered(self, node: Node, g: object) -> None:
        super().entered(node, g)
        self._scaled_walk = self._scaled_walk or node in self._scaled
        if self.looks_backward and not self.story and not self._incoming:
            given = g if isinstance(g, (tuple, list)) else (g,)
            arrays = [as_array(getattr(x, "array", x)) for x in given if x is not None]
            for array in [] if is_layered(arrays) else arrays:
                if not finite(array):
                    self._compose_report(
                        lambda _, node, g: report_root(self, node, g), self.record_of(node), node, array
                    )
        self._incoming.append(g)

    def left(self, node: Node) -> None:
        super().left(node)
        if len(self._incoming) > 1:  # the first entry stays: it shows that the pass has begun
            self._incoming.pop()

    def sent(self, node: Node, index: int, given: object, g: object, before: object) -> None:
        if self.story or not self.looks_backward and not self.norms.watches or self._muted:
            return
        array = as_array(getattr(g, "array", g))
        if array.dtype.kind not in INEXACT:
            return
        layered = is_layered((array,))
        if layered and not self.looks_backward:
            return
        if not layered and self.norms.watches and isinstance(node.parents[index], Tensor):
            self.norms.reach(self.names.of(node.parents[index]), self.record_of(node))
        if not self.looks_backward or finite(all_examples(array)):
            return
        with silent():
            incoming = self._incoming[-1] if self._incoming else None
            if incoming is not None and not isinstance(incoming, (tuple, list)):
                incoming = all_examples(as_array(getattr(incoming, "array", incoming)))
            given = all_examples(as_array(getattr(given, "array", given)))
            compose = self._layered_report if layered else self._backward_report
            self._compose_report(compose, self.record_of(node), node, index, given, all_examples(array), incoming)

    def _backward_report(
        self, record: Record | None, node: Node, index: int, given: Array, g: Array, incoming: Array
    ) -> str:
        return report_backward(self, node, index, given, g, incoming, record)

    def _layered_report(self, _: Record | None, node: Node, index: int, given: Array, g: Array, incoming: Array) -> str:
        return report_layered(self, node, index, given, g, incoming, self._below.get(node))

    def finished(self, leaf: Tensor, g: object) -> None:
        if self.story:
            return
        array = as_array(getattr(g, "array", g))
        if is_layered((array, leaf)):
            return
        name = self.names.of(leaf)
        if self._intended and leaf.grad is not None and not finite(leaf.grad.array):
            self._muted = True  # .grad of an earlier backward pass, to which this one adds
        with silent():
            if self.norms.watches:
                self.norms.add_leaf(name or "a leaf", array)
            if leaf.array.size:
                sizes = self.sizes.setdefault(self.names.number(leaf), [])
                sizes.append(float(abs(leaf.array).max()))
                del sizes[:-20]

    def ended(self) -> None:
        super().ended()
        if self._walks:
            return
        self._incoming.clear()
        self._ends.append(len(self.records))
        if len(self._ends) > _WALKS:
            count = self._ends.pop(0)
            self._forget(count)
            self._ends = [end - count for end in self._ends]
        if not self.story and not self._muted:
            found = self.norms.judge()
            if found:
                self.report(found)

    def _forget(self, count: int) -> None:
        """Delete the first records and their stored inputs."""
        for record in self.records[:count]:
            self.history.forget(record.index)
            record.inputs, record.writes = (), None
            if record.sequence is not None:
                self._of_node.pop(record.sequence, None)
        del self.records[:count]
        del self.departures[:]
        self._of_tensor = {key: entry for key, entry in self._of_tensor.items() if entry[0]() is not None}


def finite(array: Array) -> bool:
    """Return whether all elements are finite: a finite sum has finite terms."""
    if type(array) is np.ndarray and array.size <= _FEW:  # neither of these functions warns
        return bool(np.logical_and.reduce(np.isfinite(array), None))
    with silent():
        total = array.sum(dtype=np.float32) if array.dtype == np.float16 else array.sum()
        xp = array_module(array)
        return bool(xp.isfinite(total)) or bool(xp.isfinite(array).all())


def _any(masks: list[Array], shape: tuple[int, ...]) -> Array:
    found = np.zeros(shape, bool) if isinstance(masks[0], np.ndarray) else array_module(masks[0]).zeros(shape, bool)
    for mask in masks:
        found |= mask
    return found


def _all_finite(values: tuple[object, ...]) -> bool:
    return all(finite(x) for x in values if is_array(x) and x.dtype.kind in INEXACT)


def _is_not_finite(value: object) -> bool:
    return isinstance(value, (float, np.floating)) and not math.isfinite(value)


def _is_log_of_mask(record: Record, arrays: list[Array]) -> bool:
    """Return whether the call is ``mask.log()``, which gives -inf intentionally."""
    if not record.operator.startswith("log") or any(x.requires_grad for x in record.inputs):
        return False
    return all(bool(((x == 0) | (x == 1)).all()) for x in arrays)
