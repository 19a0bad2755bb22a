"""Observers for the time before the first step, for the start of an evaluation, and for writes between steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import ref

import numpy as np

from ...core.graph.modes import modes
from ...core.graph.nodes import Node
from ...core.graph.observers import Observer, attach, detach
from ...core.graph.plan import Recordable
from ...core.source_location import Site, user_site
from ...core.tensor.tensor import Tensor, is_dense
from .run import Data, Evaluation, Optimized, Renewal, Run
from .step_recorder import SELECTIONS, Array, Inputs, Params, StepRecorder, moves, start_of, tensors_in

if TYPE_CHECKING:
    from ...nn.base.module import Module

AS_FUNCTION = "Dropout (as a function)"
_DATA = 32  # numbers
_MOST_DATA = 10_000
_MOST_BYTES = 1 << 26  # of all data in which rows are looked for
_ALIKE = 0.3  # cosine of the weights before and after a write that keeps what they have learned
_RENEWALS = 3  # that are noted
EVALUATED = 200  # operators of an evaluation that are watched


def _owner(x: np.ndarray) -> np.ndarray:
    """Follow views to the array whose memory they share."""
    while isinstance(x.base, np.ndarray):
        x = x.base
    return x


class UntilGraph(Observer):
    """Waits for the first call that is recorded for differentiation, or of a module, and notes writes until then.

    A block that is left later may restore it; then it takes itself out again.
    """

    def __init__(self, begin: Callable[[], StepRecorder | None], run: Run) -> None:
        self.begin = begin
        self.run = run
        self.recorder: StepRecorder | None = None  # while the call runs at which it began
        self.within: object = None  # that call
        self.over = False
        self.no_grad: Site | None = None  # the line that has switched recording off

    def switched(self, grad_enabled: bool) -> None:
        if grad_enabled:
            self.no_grad = None
        elif modes.grad_enabled:
            self.no_grad = user_site(3)

    def writing(self, x: Tensor) -> None:
        if not self.over:
            self.run.written[x.array.__array_interface__["data"][0]] = user_site(3)

    def opened(self, what: object, inputs: Inputs) -> None:
        if not isinstance(what, str) and self._begins(what) and self.recorder is not None:
            self._note_batch(inputs)
            self.recorder.opened(what, inputs)

    def closed(self, what: object, inputs: Inputs, result: Array) -> None:
        if self.recorder is not None and what is self.within:
            self.recorder.closed(what, inputs, result)
            self.recorder = None

    def calling(self, primitive: Recordable, inputs: Inputs, params: Params) -> None:
        recorded = modes.grad_enabled and any(is_dense(x) and x._requires for x in inputs)
        if recorded and self._begins(primitive) and self.recorder is not None:
            self.recorder.calling(primitive, inputs, params)

    def called(
        self, primitive: Recordable, inputs: Inputs, params: Params, outputs: tuple[Tensor, ...], node: Node | None
    ) -> None:
        if self.recorder is not None and primitive is self.within:
            self.recorder.called(primitive, inputs, params, outputs, node)
            self.recorder = None
        elif not self.over:
            self._note_data(primitive, inputs, outputs)

    def _note_data(self, primitive: Recordable, inputs: Inputs, outputs: tuple[Tensor, ...]) -> None:
        """Record the line that computes many numbers."""
        x, given = getattr(outputs[0], "array", None), getattr(inputs[0], "array", None) if inputs else None
        if not isinstance(x, np.ndarray) or x.size < _DATA or len(self.run.data) >= _MOST_DATA:
            return
        start = x.__array_interface__["data"][0]
        # A selection keeps the line of what it selects from; that of an array that NumPy has made is not known.
        known = self.run.data_site(given) if moves(primitive) else None
        if x.dtype.kind == "f" and (known is not None or primitive.name not in SELECTIONS):
            self.run.data.append(Data(known or user_site(4), start, x.nbytes, ref(x), ref(_owner(x))))

    def _note_batch(self, inputs: Inputs) -> None:
        """Record the line that computed the data whose rows the first batch has, which a DataLoader copies."""
        arrays = [x.array for x in tensors_in(inputs) if not x._requires]
        x = next(
            (x for x in arrays if isinstance(x, np.ndarray) and x.dtype.kind == "f" and x.ndim > 1 and len(x)), None
        )
        if x is None or x[0].size < 2:
            return
        remaining = _MOST_BYTES
        for one in reversed(self.run.data):
            data = one.array()
            if data is None or data.dtype != x.dtype or data.shape[1:] != x.shape[1:] or not len(data) > len(x):
                continue
            remaining -= data.nbytes
            if remaining < 0:
                return
            if all((data == row).reshape(len(data), -1).all(1).any() for row in x[:2]):
                self.run.fed = one.site, x.shape[1:]
                return

    def _begins(self, what: object) -> bool:
        """Begin to record at a call, once."""
        if self.over:
            detach(self)
            return False
        self.over = True
        self.run.data[:] = [x for x in self.run.data if x.owner() is not None]  # the memory of others is used again
        self.recorder, self.within = self.begin(), what
        if self.recorder is not None:
            self.recorder.begin_under(self.no_grad)
        return True


class AtEvaluation(Observer):
    """Watches the first operators of an evaluation for dropout that runs in it as a function."""

    def __init__(self, evaluations: dict[str, Evaluation], module: Module, step: int) -> None:
        self.evaluations = evaluations
        self.module = module
        self.step = step
        self.remaining = EVALUATED
        self.training = False  # whether the innermost module alone is in training mode, which is on purpose

    def opened(self, what: object, inputs: Inputs) -> None:
        if not isinstance(what, str):
            self.training = bool(getattr(what, "training", False))

    def called(
        self, primitive: Recordable, inputs: Inputs, params: Params, outputs: tuple[Tensor, ...], node: Node | None
    ) -> None:
        self.remaining -= 1
        if self.remaining <= 0 or modes.grad_enabled:
            detach(self)
        elif primitive.name == "dropout" and not self.module.training and not self.training:
            site = user_site(3)
            found = Evaluation(AS_FUNCTION, site, calls=1, periods=1, step=self.step)
            self.evaluations.setdefault(f"{site.file}:{site.line}", found)


class Renewals(Observer):
    """Notes lines that give a parameter entirely other values between steps of its optimizer.

    The first numbers of one matrix of each optimizer are compared. Only after they have changed between two steps it
    observes, until the next such write, so that a program without such writes runs at full speed.
    """

    late = True

    def __init__(self, run: Run) -> None:
        self.run = run
        self._kept: dict[int, tuple[Optimized, int, Tensor, bytes]] = {}  # by optimizer: a matrix after a step
        self._seen: dict[int, tuple[Site, np.ndarray]] = {}  # by optimizer: a write, and the values before it
        self._over: set[int] = set()  # optimizers whose parameters are written to, but not made anew
        self._steps = False  # whether an optimizer makes its step

    def after_step(self, x: Optimized) -> None:
        """Keep the first numbers of a matrix."""
        known = self._kept.get(id(x))
        if known is not None:
            p = known[2]
        elif id(x) in self._over or len(self.run.renewals) == _RENEWALS or not x.parameters:
            return
        else:
            p = next((p for p in x.parameters if p.array.ndim > 1), x.parameters[0])
        self._kept[id(x)] = x, x.created_again, p, p.array.reshape(-1)[:64].tobytes()

    def before_backward(self) -> None:
        """Compare them."""
        kept = self._kept
        changed = [key for key, (_, _, p, before) in kept.items() if p.array.reshape(-1)[:64].tobytes() != before]
        for key in changed:
            x, created, p, _ = kept.pop(key)
            seen = self._seen.pop(key, None)
            if x.created_again != created:
                continue  # another training of the same model, as for folds of the data
            if seen is None:
                attach(self)
                continue
            old, new = seen[1].reshape(-1), np.asarray(p.array, np.float64).reshape(-1)
            if abs(old @ new) > _ALIKE * float(np.linalg.norm(old) * np.linalg.norm(new)):
                self._over.add(key)
            else:
                self.run.renewals.append(Renewal(x, p, seen[0], x.steps))
            full = len(self.run.renewals) == _RENEWALS
            if full or key in self._over:
                detach(self)
            if full:
                kept.clear()
                break

    def stepping(self, optimizer: object) -> None:
        self._steps = True

    def stepped(self, optimizer: object) -> None:
        self._steps = False

    def writing(self, x: Tensor) -> None:
        for key, (_, _, p, _) in self._kept.items() if not self._steps else ():
            if key not in self._seen and start_of(x.array) == start_of(p.array) and isinstance(p.array, np.ndarray):
                self._seen[key] = user_site(3), p.array.astype(np.float64)
