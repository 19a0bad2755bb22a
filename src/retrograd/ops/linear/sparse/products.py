"""The product of a sparse and a dense matrix, and the products of pairs of rows at the sparse matrix's places.

Each of the two primitives is the other's derivative.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import array_module
from ....core.arrays.unbuffered import ufunc_at
from ....core.graph.primitive import Primitive


class Places:
    """The rows and columns of a sparse matrix's values."""

    def __init__(self, rows: Array, columns: Array, height: int, width: int) -> None:
        self.rows, self.columns, self.height, self.width = rows, columns, height, width

    def __repr__(self) -> str:
        return f"{len(self.rows)} places in ({self.height}, {self.width})"

    @cached_property
    def transposed(self) -> Places:
        places = Places(self.columns, self.rows, self.width, self.height)
        places.__dict__["transposed"] = self
        return places

    @cached_property
    def runs(self) -> tuple[Array, Array, Array]:
        """The order that sorts by rows, where each row then begins, and which row it is."""
        order = np.argsort(self.rows, kind="stable")
        ordered = self.rows[order]
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        return order, starts, ordered[starts]


def _spmm(values: Array, x: Array, places: Places) -> Array:
    """``sum_j A_ij x_jk``: per row the sum of what its values take from x."""
    xp = array_module(x)
    out = xp.zeros((places.height, *x.shape[1:]), xp.result_type(values, x))
    if not values.size:
        return out
    if xp is np:
        order, starts, rows = places.runs
        taken = values[order].reshape((-1,) + (1,) * (x.ndim - 1)) * x[places.columns[order]]
        out[rows] = np.add.reduceat(taken, starts, axis=0)
    else:
        ufunc_at("add", out, places.rows, values.reshape((-1,) + (1,) * (x.ndim - 1)) * x[places.columns])
    return out


def _sampled(x: Array, y: Array, places: Places) -> Array:
    """``sum_k x_ik y_jk`` at the places."""
    return (x[places.rows] * y[places.columns]).sum(axis=-1)


SPMM: Primitive = Primitive(
    "sparse.mm",
    _spmm,
    "values x",
    [
        lambda g, x, places: SAMPLED(g, x, places=places),
        lambda g, values, places: SPMM(values, g, places=places.transposed),
    ],
    promote="strict",
)
SAMPLED: Primitive = Primitive(
    "sparse.mm_backward",
    _sampled,
    "x y",
    [
        lambda g, y, places: SPMM(g, y, places=places),
        lambda g, x, places: SPMM(g, x, places=places.transposed),
    ],
    promote="strict",
)
