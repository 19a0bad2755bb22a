"""Compute the maxima of windows before an operator that clips, and together with the normalization of their elements.

An operator that clips (``Primitive.clips_by``) returns its argument or, where that is smaller or equal, a constant, and
its derivative is 1 or, at the constant, 0: ``max(relu(x))`` and ``relu(max(x))`` are the same number. If it is not the
constant, it is the same element of x in both; if it is, the window adds 0 to the gradient of x, whichever element wins.

If nothing but maxima reads the result of a batch normalization, one loop computes both, so that the result and its
cotangent stay in the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from ...core.arrays import Array
from ...core.opaque_calls import LoopMissing
from ...kernels.loops.statistics.norms import CHANNELS, SHORTEST
from ...ops.nn.normalization.fused import BACKWARD, BATCH_NORM
from ...ops.nn.pooling.maximum import MAX_POOL, MAX_SCATTER
from ..program import Asked, Instruction, Value
from .expressions import row_major

MIN_SIZE = 1 << 13  # minimum number of normalized elements
FLOAT = np.dtype(np.float32)


class _Found(NamedTuple):
    """The indices of ``y = clip(x); p = max(y)`` and of ``dy = scatter(g); dx = mask(dy, y)`` in the backward pass."""

    clip: int
    maximum: int
    scatter: int | None = None
    mask: int | None = None


def maxima_first(instructions: Sequence[Instruction], gives: Sequence[Value]) -> list[Instruction]:
    """Return the program with ``p = clip(max(x))`` and ``dx = scatter(mask(g, p))`` if nothing else reads y or dy."""
    steps = list(instructions)
    if not any(step.primitive is MAX_POOL for step in steps):
        return steps
    return _with_normalization(_swapped(steps, gives), gives)


def _swapped(steps: Sequence[Instruction], gives: Sequence[Value]) -> list[Instruction]:
    search = _Search(steps, gives)
    number = 1 + max(value.index for step in steps for value in (*step.read, *step.outs))
    changed: dict[int, list[Instruction]] = {}
    for found in filter(None, map(search.found, range(len(steps)))):
        clip, maximum = steps[found.clip], steps[found.maximum]
        p, *winners = maximum.outs
        best = Value(number, p)
        changed[found.clip] = []
        changed[found.maximum] = [
            maximum.changed(args=clip.args, outs=(best, *winners)),
            _on(clip, (best,), p),
        ]
        if found.scatter is not None and found.mask is not None:
            scatter, mask = steps[found.scatter], steps[found.mask]
            kept = Value(number + 1, scatter.args[0])
            changed[found.scatter] = [
                _on(mask, (scatter.args[0], p), kept),
                scatter.changed(args=(kept,), outs=mask.outs),
            ]
            changed[found.mask] = []
        number += 2
    return [new for index, step in enumerate(steps) for new in changed.get(index, [step])]


def _on(step: Instruction, args: tuple[Value, ...], out: Value) -> Instruction:
    """Return an elementwise instruction for other arrays."""
    asked = (Asked(out.shape, out.dtype, 0),) if step.asked else ()
    return step.changed(args=args, outs=(out,), asked=asked)


class _Search:
    def __init__(self, steps: Sequence[Instruction], gives: Sequence[Value]) -> None:
        self.steps = steps
        self.written = {value.root for step in steps for value in step.writes}
        self.readers: dict[Value, list[int]] = {value: [-1] for value in gives}
        self.maker: dict[Value, int] = {}
        for index, step in enumerate(steps):
            for value in dict.fromkeys(step.read):
                self.readers.setdefault(value, []).append(index)
            self.maker.update((out, index) for out in step.outs)

    def found(self, index: int) -> _Found | None:
        """Return the pattern that begins with an instruction, if there is one."""
        step = self.steps[index]
        if step.primitive is None or step.primitive.clips_by is None or step.on_gpu or step.checks or step.kwargs:
            return None
        x, y = step.args[0], step.outs[0]
        first, *later = self.readers.get(y, [-1])
        maximum = self.steps[first]
        # Without dilation, every window contains an element.
        if first < 0 or maximum.primitive is not MAX_POOL or set(maximum.kwargs["window"].dilation) != {1}:
            return None
        if any(between.kind == "effect" for between in self.steps[index:first]):
            return None
        if not all(map(self._fixed, (x, y, *maximum.outs))) or maximum.checks or y.root is not y:
            return None
        winners = [place for out in maximum.outs[1:] for place in self.readers.get(out, ())]
        if not later:
            return None if winners else _Found(index, first)
        mask = self.steps[later[0]]
        if len(later) > 1 or mask.primitive is not step.primitive.clips_by or mask.args[1] is not y or mask.checks:
            return None
        dy, dx = mask.args[0], mask.outs[0]
        scatter = self.steps[self.maker.get(dy, index)]
        if scatter.primitive is not MAX_SCATTER or winners != [self.maker[dy]]:
            return None
        if self.readers[dy] != later or not all(map(self._fixed, (dy, dx, scatter.args[0]))) or dx.root is not dx:
            return None
        return _Found(index, first, self.maker[dy], later[0])

    def _fixed(self, value: Value) -> bool:
        """Return whether no instruction writes to the memory of a row-major value."""
        return value.root not in self.written and row_major(value)

    def between(self, first: int, last: int, step: Instruction) -> bool:
        """Return whether an instruction writes to memory that a step reads, or is an effect, between two others."""
        roots = {value.root for value in step.read}
        return any(
            other.kind == "effect" or not roots.isdisjoint(value.root for value in other.writes)
            for other in self.steps[first + 1 : last]
        )


def _with_normalization(steps: Sequence[Instruction], gives: Sequence[Value]) -> list[Instruction]:
    """Return the program with batch normalization, and its derivative, in one instruction with the maxima."""
    search = _Search(steps, gives)
    changed: dict[int, list[Instruction]] = {}
    for index, step in enumerate(steps):
        later = search.readers.get(step.outs[0], []) if step.outs else []
        if len(later) != 1 or later[0] < 0 or search.between(index, later[0], step):
            continue
        reader = steps[later[0]]
        if step.primitive is BATCH_NORM and reader.primitive is MAX_POOL and len(reader.outs) == 2:
            norm, window, new = step, reader.kwargs["window"], _forward(step, reader)
            early = any(at < later[0] for out in step.outs[1:] for at in search.readers.get(out, ()))
        elif step.primitive is MAX_SCATTER and reader.primitive is BACKWARD[BATCH_NORM]:
            norm, window, new, early = reader, step.kwargs["window"], _backward(step, reader), False
            if not reader.kwargs["wanted"][0] or reader.args[0] is not step.outs[0]:
                continue
        else:
            continue
        x, w, b = norm.args[-3:]
        suits = window.kernel == window.stride == (2, 2) and window.is_partition and x.size >= MIN_SIZE
        if early or norm.on_gpu or not suits or x.size // (x.shape[0] * x.shape[1]) < SHORTEST:
            continue
        if all(value is None or value.dtype == FLOAT for value in (x, w, b)) and row_major(x):
            changed[index], changed[later[0]] = [], [new]
    return [new for index, step in enumerate(steps) for new in changed.get(index, [step])]


def _forward(norm: Instruction, maximum: Instruction) -> Instruction:
    (_, mean, rstd), outs = norm.outs, maximum.outs
    return maximum.changed(
        kind="whole", primitive=None, function=_Maxima(norm, maximum), args=norm.args, kwargs=norm.kwargs,
        outs=(*outs, mean, rstd), paths=tuple([(place,) for place in range(4)]),
        asked=tuple([Asked(out.shape, out.dtype, place) for place, out in enumerate(outs)]),
    )  # fmt: skip


class _Maxima:
    """Batch normalization followed by maxima; the results are those of both, without the normalized array."""

    __name__ = "maxima_of_batch_norm"

    def __init__(self, norm: Instruction, maximum: Instruction) -> None:
        self.norm, self.maximum, self.params = norm.function, maximum.function, maximum.kwargs

    def __call__(
        self,
        x: Array,
        w: Array | None,
        b: Array | None,
        *,
        eps: float,
        moments: tuple[Array, Array] | None = None,
        **params: object,
    ) -> tuple[Array, ...]:
        with suppress(LoopMissing):
            return CHANNELS.maxima(x, w, b, eps, moments)
        y, mean, rstd = self.norm(x, w, b, eps=eps, moments=moments, **params)
        return *self.maximum(y, **self.params), mean, rstd


def _backward(scatter: Instruction, norm: Instruction) -> Instruction:
    return norm.changed(
        kind="whole", primitive=None, function=_MaximaBackward(scatter, norm),
        args=(scatter.args[0], scatter.kwargs["winners"], *norm.args[1:]),
    )  # fmt: skip


class _MaximaBackward:
    """The derivative of ``_Maxima``."""

    __name__ = "maxima_of_batch_norm_backward"

    def __init__(self, scatter: Instruction, norm: Instruction) -> None:
        self.scatter, self.norm, self.window = scatter.function, norm.function, scatter.kwargs["window"]

    def __call__(
        self,
        g: Array,
        winners: Array,
        x: Array,
        w: Array | None,
        b: Array | None,
        *,
        wanted: tuple[bool, ...],
        mean: Array,
        rstd: Array,
        **params: object,
    ) -> tuple[Array, ...]:
        with suppress(LoopMissing):
            found = CHANNELS.maxima_backward(g, winners, x, w, mean, rstd)
            return tuple([gradient for gradient, want in zip(found, wanted, strict=True) if want])
        dy = self.scatter(g, winners=winners, window=self.window)
        found = self.norm(dy, x, w, b, mean=mean, rstd=rstd, wanted=wanted, **params)
        return found
