"""Fuse elementwise loops: an array that only one other loop reads, element by element, stays in registers."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np

from ...kernels.runtime.threads import PARTS
from .emission import collapsed
from .region_steps import Buffer, Map, Place, Step

MAX_NODES = 24  # maximum number of nodes of a fused loop
MIN_SHARED_ELEMENTS = 1 << 15  # minimum number of elements of a loop that threads share
BLOCK = 1 << 12  # number of elements in a block


def without_repeated_copies(steps: Sequence[Step], kept: set[Buffer]) -> list[Step]:
    """Remove a copy whose source an earlier copy has copied, such as the transposed weight of several products.

    Copies to buffers in ``kept`` stay.
    """
    written = _writes(steps)
    found: dict[tuple[Place, object], tuple[int, Buffer]] = {}
    same: dict[Buffer, Buffer] = {}
    left: list[Step] = []
    for number, step in enumerate(steps):
        if any(place.buffer in same for place in step.operands):
            step.operands = [place._replace(buffer=same.get(place.buffer, place.buffer)) for place in step.operands]
        if isinstance(step, Map) and step.name == "copy" and len(step.operands) == 2:
            target, source = step.operands
            if target.buffer.kind == "arena" and written[target.buffer] == [number] and target.buffer not in kept:
                before, buffer = found.get(key := (source, target[1:]), (-1, None))
                if buffer is not None and not _any_between(written.get(source.buffer, ()), before, number):
                    same[target.buffer] = buffer
                    continue
                found[key] = number, target.buffer
        left.append(step)
    return left


def _writes(steps: Sequence[Step]) -> dict[Buffer, list[int]]:
    """Return the numbers of the steps that write each buffer; a write to one input counts for all (overlap)."""
    written: dict[Buffer, list[int]] = {}
    inputs: list[int] = []
    for number, step in enumerate(steps):
        for at, place in enumerate(step.operands):
            if place.buffer.kind == "input":
                written[place.buffer] = inputs
            if at < step.writes:
                written.setdefault(place.buffer, []).append(number)
    return written


def _any_between(times: Sequence[int], low: int, high: int) -> bool:
    return bisect_right(times, low) < bisect_left(times, high)


def fused_maps(steps: Sequence[Step], kept: set[Buffer], one_dtype: bool = False) -> list[Step]:
    """Move loops into the only loop that reads their result.

    Args:
        steps: the steps in their order.
        kept: the buffers that are read afterwards.
        one_dtype: whether only loops that compute in one dtype, apart from conditions, are fused.
    """
    touched: dict[Buffer, list[int]] = {}
    written: dict[Buffer, list[int]] = {}
    for number, step in enumerate(steps):
        for at, place in enumerate(step.operands):
            touched.setdefault(place.buffer, []).append(number)
            if at < step.writes:
                written.setdefault(place.buffer, []).append(number)
    inputs = sorted(at for buffer, times in written.items() if buffer.kind == "input" for at in times)
    # Inputs may overlap, so a write to one of them counts as a write to all.
    makers: dict[Buffer, tuple[int, Map]] = {}
    gone: set[int] = set()
    for number, step in enumerate(steps):
        if not isinstance(step, Map):
            continue
        for place in list(step.operands[1:]):
            made = makers.get(place.buffer)
            if (
                made is None
                or place.buffer.kind != "arena"
                or place.buffer in kept
                or sorted({*touched[place.buffer]}) != [made[0], number]
            ):
                continue
            before, maker = made
            if any(other.buffer is place.buffer and other != place for other in step.operands):
                continue  # the step also reads the array with other strides or another offset
            turned = _turned(maker, place)
            if turned is None:
                continue
            if len(maker.nodes) + len(step.nodes) > MAX_NODES or one_dtype and not _in_one_dtype(maker, step):
                continue
            sources = turned
            writes = [inputs, *[written.get(source.buffer, ()) for source in sources]]
            moved = any(bisect_right(times, before) < bisect_left(times, number) for times in writes)
            target = step.operands[0]
            clash = any(source.may_overlap(target) and source[:4] != target[:4] for source in sources)
            if moved or clash or len(step.operands) + len(sources) > 10:
                continue
            step.absorb(maker, step.operands.index(place, 1), sources)
            gone.add(before)
            for source in sources:
                if source.buffer.kind == "arena":  # `touched` is used for arena buffers only
                    touched[source.buffer] = sorted({number if at == before else at for at in touched[source.buffer]})
        out = step.operands[0]
        if len(written[out.buffer]) == 1:
            makers[out.buffer] = number, step
    left = [step for number, step in enumerate(steps) if number not in gone]
    for step in left:
        if isinstance(step, Map):
            _share(step)
    return left


def _in_one_dtype(maker: Map, reader: Map) -> bool:
    """Return whether both loops, and the array between them, have one dtype."""
    kinds = {np.dtype(node.dtype) for node in (*maker.nodes, *reader.nodes)} - {np.dtype(bool)}
    return kinds == {maker.operands[0].dtype}


def _turned(maker: Map, place: Place) -> list[Place] | None:
    """Return a loop's inputs as seen by a reader of its result at ``place``, which may be transposed."""
    out, *sources = maker.operands
    if place == out:
        return sources
    if place.dtype != out.dtype:  # a view that interprets the bits as another dtype
        return None
    lengths = dict(zip(out.strides, range(len(out.shape)), strict=True))
    if place.offset != out.offset or len(lengths) < len(out.shape) or sorted(place.strides) != sorted(out.strides):
        return None
    order = [lengths[stride] for stride in place.strides]
    if place.shape != tuple([out.shape[d] for d in order]):
        return None
    return [source._replace(shape=place.shape, strides=tuple([source.strides[d] for d in order])) for source in sources]


def _share(step: Map) -> None:
    """Let threads share a long loop over contiguous memory."""
    lengths, _ = collapsed(step.operands[0].shape, *[place.strides for place in step.operands])
    if len(lengths) == 1 and lengths[0] >= MIN_SHARED_ELEMENTS:
        step.parts = -(-lengths[0] // BLOCK), 2, BLOCK, PARTS
