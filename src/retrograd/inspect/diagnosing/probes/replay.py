"""Run a recorded step again as a function of its parameters, with other values or with calls replaced.

Only operators run, none of the program's own code. Values that no recorded call computed are constants, as recorded;
so are results of random operators and the masks of dropout. A ``Program`` is used only if it reproduces the recorded
loss. ``Budget`` bounds the steps of all trials.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ....core.arrays.devices import backend_of
from ....core.graph.primitive import Primitive
from ....core.tensor.tensor import Tensor, new_tensor
from ....ops.nn.normalization.statistics import batch_norm
from ..run import Optimized, Run
from ..step_recorder import Array, Inputs, Params, Source, Step

_TOLERANCE = 2e-3  # the relative tolerance between a recorded loss and the recomputed one
_MOST_CALLS = 20_000

# Trials are bounded by numbers of steps, so that findings do not depend on timing.
QUESTION_STEPS = 50  # the number of steps of all trials that answer questions
PROOF_STEPS = 60  # the number of steps of the proof, or of the last questions if the others have found no cause
_MOST_SECONDS = 60.0  # a limit on the CPU time of all trials, which normally is not reached

Replacement = Callable[..., Array]  # replaces a call: takes the call's inputs and returns its outputs


@dataclass(frozen=True)
class Changes:
    """Changes to a recorded step: functions that replace calls, and arrays that replace constants.

    ``calls`` maps the index of a call to a function of its inputs and parameters, ``params`` maps it to other
    parameters, ``inputs`` maps (call, position) to an array, and ``root`` is applied to the loss. With ``joined``,
    ``detach`` and ``no_grad`` are ignored; ``tracked`` has the calls for which only ``no_grad`` is ignored.
    """

    calls: Mapping[int, Replacement] = field(default_factory=dict)
    params: Mapping[int, Params] = field(default_factory=dict)
    inputs: Mapping[tuple[int, int], Array] = field(default_factory=dict)
    root: Callable[[Tensor], Tensor] | None = None
    joined: bool = False
    tracked: frozenset[int] = frozenset()


NOTHING = Changes()


def same(x: Tensor, *others: object, **params: object) -> Tensor:
    """Return the first input: replaces a call by the identity."""
    return x


class Curves(NamedTuple):
    """Losses of two trainings from the same state, with and without an edit.

    ``fixed`` has the losses with the edit, ``plain`` those without. If the edit changes the loss itself, both are
    measured by the edited loss, and ``own`` has the losses without the edit by the original loss; else it is empty.
    """

    fixed: list[float]
    plain: list[float]
    own: Sequence[float] = ()

    def compared(self) -> Curves:
        """Return all curves with the length of ``fixed``, so that their ends can be compared."""
        steps = len(self.fixed)
        return Curves(self.fixed, self.plain[:steps], self.own[:steps])


@dataclass(frozen=True)
class Edit:
    """An edit that can be tried on a recorded step.

    Attributes:
        text: the edit in a few words, as in "with y[:, None]".
        changes: the changes to the recorded step.
        options: factors of the optimizer's options by name, such as ``{"lr": 0.1}``.
        without: how the training without the edit differs from repeating the recorded step: ``"carry"`` keeps gradients
            from step to step, ``"none"`` makes no optimizer steps.
        start: whether to start from the parameters before the first step, not from those of the recorded step.
        everything: optimize all trainable leaves, not only those of the optimizer.
        values: other initial values of leaves, by the id of the leaf.
        frozen: also optimize leaves that do not require grad.
        one_loss: whether the losses with and without the edit can be compared, although the edit changes the result.
        clip: the norm to which gradients are clipped; 0 for no clipping.
        of: the optimizer whose loss the edit concerns, if it is not the main optimizer.
        written: changes for the training without the edit, such as the sum of several backward passes.
    """

    text: str
    changes: Changes = NOTHING
    options: Mapping[str, float] = field(default_factory=dict)
    without: str = ""
    start: bool = True
    values: Mapping[int, Array] = field(default_factory=dict)
    everything: bool = False
    frozen: bool = False
    one_loss: bool = False
    clip: float = 0.0
    written: Changes = NOTHING
    of: Optimized | None = None


class Program:
    """The calls of a recorded step that a loss depends on, as a function of the leaves."""

    def __init__(self, step: Step, source: Source, moving: bool = True, scale: float = 1.0, as_read: int = 0) -> None:
        self.step = step
        self.moving = moving  # whether batch normalization computes its statistics again
        self.source = source
        self.scale = scale  # the factor by which a GradScaler multiplied the loss
        self.order = sorted(step.below(source, through_cuts=True))
        self.values: Mapping[int, Array] = step.values
        self._as_read = as_read
        self._moving: set[int] = set()  # calls whose results depend on parameters
        if as_read:
            self._leave_out_constants()

    def _leave_out_constants(self) -> None:
        for index in self.order:
            if any(
                (x.leaf is not None or x.call in self._moving) and not self.is_given(x) for x in self._inputs(index)
            ):
                self._moving.add(index)
        order: set[int] = set()
        pending = [self.source]
        while pending:
            x = pending.pop()
            if x.call >= 0 and x.call not in order and not self.is_given(x):
                order.add(x.call)
                pending += self._inputs(x.call)
        self.order = sorted(order)

    def _inputs(self, index: int) -> Sequence[Source]:
        return self.step.calls[index].inputs

    def is_given(self, x: Source) -> bool:
        """Return whether a call's result is used as it was read in the recording, and not computed again.

        With ``as_read`` of 1, these are results that do not depend on parameters, since views or NumPy may have written
        to them. With 2, also detached results, since an optimizer may have changed the parameters within the step.
        """
        if not self._as_read or x.call < 0 or x.value is None:
            return False
        return x.call not in self._moving or self._as_read > 1 and x.cut is not None

    def run(
        self,
        values: Mapping[int, Tensor],
        changes: Changes = NOTHING,
        wanted: Source | None = None,
        kept: dict[int, Inputs] | None = None,
    ) -> Tensor:
        """Return the loss, or the value ``wanted``, with other Tensors for the leaves: ``values`` by id of a leaf.

        The results of all calls are added to ``kept``.
        """
        results: dict[int, Inputs] = {}

        def value(source: Source) -> Array:
            x: Array
            if self.is_given(source):
                x = new_tensor(source.value)
            elif source.call >= 0:
                x = results[source.call][source.output]
            elif source.leaf is not None:
                x = values.get(id(source.leaf))
                x = new_tensor(source.leaf.array) if x is None else x
            else:
                x = new_tensor(source.value) if isinstance(source.value, np.ndarray) else source.value
            return x.detach() if source.cut and not changes.joined and isinstance(x, Tensor) else x

        for index in self.order:
            call = self.step.calls[index]
            inputs = [
                new_tensor(changes.inputs[index, place]) if (index, place) in changes.inputs else value(x)
                for place, x in enumerate(call.inputs)
            ]
            primitive = call.primitive
            if index in changes.calls:
                out = changes.calls[index](*inputs, **call.params)
            elif call.record.creates or not isinstance(primitive, Primitive):
                if call.record.requires_grad or not call.outputs:
                    raise NotReplayableError(call.name)
                out = tuple(map(new_tensor, call.outputs))
            elif call.name == "batch_norm":
                mean, var = (None, None) if self.moving else _statistics(self.step.array(call.inputs[0]))
                out = batch_norm(inputs[0], mean, var, inputs[1], inputs[2], self.moving, eps=call.params["eps"])
            else:
                params = {**call.params, **changes.params.get(index, {})}
                out = primitive(*inputs, **params)
            made = [x if isinstance(x, Tensor) else new_tensor(x) for x in _listed(out)]
            ended = call.untracked and not changes.joined and index not in changes.tracked
            results[index] = tuple([x.detach() for x in made] if ended and index not in changes.calls else made)
        if kept is not None:
            kept.update(results)
        loss = value(self.source if wanted is None else wanted)
        if self.scale != 1.0 and wanted is None:
            loss = loss / self.scale
        return changes.root(loss) if changes.root is not None and wanted is None else loss

    def leaves(self, everything: bool = False) -> list[Tensor]:
        """Return the trainable leaves that the loss depends on, ``everything`` as in ``Step.leaves``."""
        return self.step.leaves(self.source, everything)


class NotReplayableError(RuntimeError):
    """A call of the recorded step cannot be run again."""


def program_of(run: Run, of: Optimized | None = None) -> Program | None:
    """Return the program of the last backward pass before a step of an optimizer, by default the main optimizer.

    Return None if the program does not reproduce the recorded loss.
    """
    step = run.last
    if step is None:
        return None
    main = of or run.main
    roots = [x for x in step.roots if x.source.call >= 0]
    if main is not None and len(run.optimizers) > 1:
        number = run.optimizers.index(main)
        roots = [x for x in roots if number in x.optimizers] or ([] if of is not None else roots)
    if not roots:
        return None
    root = roots[-1]
    programs = (Program(step, root.source, scale=root.scale, as_read=as_read) for as_read in range(3))
    return next((x for x in programs if len(x.order) <= _MOST_CALLS and _with_values(x, root.value)), None)


def _with_values(program: Program, value: float) -> bool:
    """Return whether a program reproduces the recorded loss with the values of leaves that were read first, or later.

    If later values reproduce the loss, they become ``program.values``.
    """
    if not reproduces(program, value, program.values):
        program.values = program.step.values | program.step.later
        return bool(program.step.later) and reproduces(program, value, program.values)
    return True


def reproduces(program: Program, value: float, values: Mapping[int, Array], changes: Changes = NOTHING) -> bool:
    """Return whether a program, with these changes and values of the leaves, computes the recorded loss ``value``."""
    try:
        again = program.run({key: new_tensor(x) for key, x in values.items()}, changes)
    except Exception:
        return False
    total = float(backend_of(again.array).to_numpy(again.array).sum())
    bad = not math.isfinite(value) and not math.isfinite(total)
    return bad or abs(total - value) <= _TOLERANCE * max(abs(value), 1e-6)


def copies(program: Program, values: Mapping[int, Array], everything: bool = False) -> dict[int, Tensor]:
    """Return trainable copies of the program's leaves with these values."""
    found: dict[int, Tensor] = {}
    for leaf in program.leaves(everything):
        array = values.get(id(leaf), leaf.array)
        copy = new_tensor(array.copy())
        copy.requires_grad = True
        found[id(leaf)] = copy
    return found


def _statistics(x: Array) -> tuple[Tensor, Tensor]:
    """Return mean and biased variance of each channel."""
    axes = (0, *range(2, x.ndim))
    return new_tensor(x.mean(axis=axes)), new_tensor(x.var(axis=axes))


def _listed(out: Array) -> Sequence[Array]:
    return out if isinstance(out, (tuple, list)) else (out,)


class Budget:
    """The steps that trials may still take; those of the proof are reserved."""

    def __init__(self, run: Run) -> None:
        self.remaining = QUESTION_STEPS + PROOF_STEPS
        self.reserved = PROOF_STEPS
        self.spent = False  # whether a step was refused
        self._end = time.process_time() + max(_MOST_SECONDS, 4 * self.remaining * run.seconds / max(1, run.count))

    def share(self, count: int, most: int, of_proof: bool = False) -> int:
        """Return how many steps each of ``count`` trials may take, up to ``most``; ``of_proof``: also reserved ones."""
        if of_proof:
            self.reserved = min(self.reserved, max(0, self.remaining - count * most))
        return min(most, max(0, self.remaining - self.reserved) // count)

    def release(self) -> None:
        """Allow the steps that were reserved."""
        self.reserved = 0
        self.spent = not self.remaining

    def take(self) -> bool:
        """Take one step; return False if only reserved steps are left."""
        self.spent = self.remaining <= self.reserved or time.process_time() > self._end
        self.remaining -= not self.spent
        return not self.spent
