"""The norms of the gradients that reach each operator in a backward pass, at the cost of one dot product per operator.

They are measured in steps that are not recorded in full, so that the page shows the gradient of every operator at each
step. An operator is identified by its place in the order of the backward pass.
"""

from __future__ import annotations

import math
import time
from typing import NamedTuple

import numpy as np

from ...core.arrays.fp_warnings import silent
from ...core.graph.nodes import Node
from ...core.graph.observers import Observer
from ..record import Record
from ..statistics import blocks
from .step_recorder import Array

_SMALL = 1e-30  # the sum of squares below which float32 loses digits


class OperatorNorms(NamedTuple):
    """The operators of a step's backward passes, in the order of their visits, and the norms of their gradients."""

    names: tuple[str, ...]
    norms: tuple[float, ...]


class BackwardNorms(Observer):
    """Measures the backward passes of a step."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.norms: list[float] = []
        self.seconds = 0.0  # the time spent in this observer

    def entered(self, node: Node, g: Array) -> None:
        began = time.perf_counter()
        if node.plan.select is not None:
            return  # this node selects one of several outputs; the operator's own node follows
        given = [getattr(x, "array", x) for x in (g if isinstance(g, (tuple, list)) else (g,)) if x is not None]
        found = [norm(array) if hasattr(array, "reshape") else math.nan for array in given]
        self.names.append(node.plan.primitive.name)
        # Zeros represent the gradients of outputs that nothing reads.
        self.norms.append(next((x for x in found if x), 0.0 if found else math.nan))
        self.seconds += time.perf_counter() - began

    def taken(self) -> OperatorNorms:
        """Return what was measured since the last call."""
        found = OperatorNorms(tuple(self.names), tuple(self.norms))
        self.names, self.norms = [], []
        return found


def norm(array: Array) -> float:
    """Return the Euclidean norm of an array."""
    flat = array.reshape(-1)
    if flat.dtype.itemsize < 4:
        flat = flat.astype("f")
    with silent():
        square = sum([abs(float(x.dot(x).real)) for x in blocks(flat)])
    if flat.dtype == np.float32 and not _SMALL < square < math.inf:  # the sum of squares over- or underflows in float32
        square = sum([float(x.dot(x)) for x in map(_double, blocks(flat))])
    return math.sqrt(square)


def _double(array: Array) -> Array:
    return array.astype(np.float64)


def distance(array: Array, other: Array) -> float:
    """Return the Euclidean norm of the difference of two arrays; on the CPU, without allocating the difference."""
    if array.shape != other.shape:
        return math.nan
    if not isinstance(array, np.ndarray):
        return norm(array - other)
    pairs = zip(blocks(array.reshape(-1)), blocks(other.reshape(-1)), strict=True)
    return math.hypot(*[norm(x - y) for x, y in pairs])


def visited(records: list[Record]) -> list[Record]:
    """Return the records that backward passes visited, in the order of their visits."""
    found = [record for record in records if record.walked is not None]
    return sorted(found, key=lambda record: record.walked or 0)
