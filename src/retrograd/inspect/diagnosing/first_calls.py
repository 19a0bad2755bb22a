"""Observers for the time before the first training step, for evaluations, and for writes between steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import ref

import numpy as np

from ...core.arrays.dtypes import FLOATING
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
_DATA = 32  # the fewest elements of an array that counts as data
_MOST_DATA = 10_000
_MOST_BYTES = 1 << 26  # the most bytes of data that are searched for the rows of a batch
_ALIKE = 0.3  # above this cosine of the weights before and after a write, the write is no new initialization
_RENEWALS = 3  # the most writes that are recorded
EVALUATED = 200  # the number of operators of an evaluation that are watched


def _owner(x: np.ndarray) -> np.ndarray:
    """Follow views to the array whose memory they share."""
    while isinstance(x.base, np.ndarray):
        x = x.base
    return x


class UntilGraph(Observer):
    """Waits for the first call of a module or of an operator that is recorded, and records in-place writes until then.

    When a block ends that was entered earlier, this thread's old list of observers is restored; then this observer
    removes itself again.
    """

    def __init__(self, begin: Callable[[], StepRecorder | None], run: Run) -> None:
        self.begin = begin
        self.run = run
        self.recorder: StepRecorder | None = None  # gets the first call, which began before the recorder was attached
        self.within: object = None  # the module or primitive of the first call
        self.over = False
        self.no_grad: Site | None = None  # the line that switched recording off

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
        """Record the line that computed an array, if the array is large enough to be data."""
        x, given = getattr(outputs[0], "array", None), getattr(inputs[0], "array", None) if inputs else None
        if not isinstance(x, np.ndarray) or x.size < _DATA or len(self.run.data) >= _MOST_DATA:
            return
        start = x.__array_interface__["data"][0]
        # A selection gets the line of the array from which it selects; the line of an array made by NumPy is not known.
        known = self.run.data_site(given) if moves(primitive) else None
        if x.dtype.kind in FLOATING and (known is not None or primitive.name not in SELECTIONS):
            self.run.data.append(Data(known or user_site(4), start, x.nbytes, ref(x), ref(_owner(x))))

    def _note_batch(self, inputs: Inputs) -> None:
        """Record the line that computed the data from which the first batch was copied, as a DataLoader does."""
        arrays = [x.array for x in tensors_in(inputs) if not x._requires]
        x = next(
            (x for x in arrays if isinstance(x, np.ndarray) and x.dtype.kind in FLOATING and x.ndim > 1 and len(x)),
            None,
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
        """Start the recorder at the first call; return whether this call is the first."""
        if self.over:
            detach(self)
            return False
        self.over = True
        self.run.data[:] = [x for x in self.run.data if x.owner() is not None]  # freed memory is used again
        self.recorder, self.within = self.begin(), what
        if self.recorder is not None:
            self.recorder.begin_under(self.no_grad)
        return True


class AtEvaluation(Observer):
    """Watches the first operators of an evaluation for dropout that is called as a function, without a module."""

    def __init__(self, evaluations: dict[str, Evaluation], module: Module, step: int) -> None:
        self.evaluations = evaluations
        self.module = module
        self.step = step
        self.remaining = EVALUATED
        self.training = False  # whether only the innermost module is in training mode: then dropout is intended

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
    """Records lines that give a parameter entirely different values between two steps of its optimizer.

    The first 64 elements of one matrix of each optimizer are compared after each step. Only when they have changed
    between two steps, the observer is attached until the next such write, so that other programs run at full speed.
    """

    late = True

    def __init__(self, run: Run) -> None:
        self.run = run
        self._kept: dict[int, tuple[Optimized, int, Tensor, bytes]] = {}  # by optimizer: start of a matrix after a step
        self._seen: dict[int, tuple[Site, np.ndarray]] = {}  # by optimizer: a write, and the values before it
        self._over: set[int] = set()  # optimizers whose parameters are written to, but not initialized again
        self._steps = False  # whether an optimizer is updating its parameters

    def after_step(self, x: Optimized) -> None:
        """Store the first elements of one matrix."""
        known = self._kept.get(id(x))
        if known is not None:
            p = known[2]
        elif id(x) in self._over or len(self.run.renewals) == _RENEWALS or not x.parameters:
            return
        else:
            p = next((p for p in x.parameters if p.array.ndim > 1), x.parameters[0])
        self._kept[id(x)] = x, x.created_again, p, p.array.reshape(-1)[:64].tobytes()

    def before_backward(self) -> None:
        """Compare the stored elements with the current ones."""
        kept = self._kept
        changed = [key for key, (_, _, p, before) in kept.items() if p.array.reshape(-1)[:64].tobytes() != before]
        for key in changed:
            x, created, p, _ = kept.pop(key)
            seen = self._seen.pop(key, None)
            if x.created_again != created:
                continue  # the program trains the same model again, for example on another fold of the data
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
