"""The product of a sparse and a dense matrix, and dot products of pairs of rows at the coordinates of a sparse matrix.

Each of the two primitives is the derivative of the other. They use SciPy's compiled products if SciPy is installed.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import array_module
from ....core.arrays.unbuffered import ufunc_at
from ....core.graph.primitive import Primitive
from ...table.batching import fold

if TYPE_CHECKING:
    from ....core.mapping.batching import Call

ScipyMatrix: TypeAlias = Any  # SciPy has no type annotations

MIN_SCIPY = 2048  # from this number of multiplications on, SciPy is used: its matrix takes 40 us to create


@lru_cache(1)
def scipy_sparse() -> ModuleType | None:
    """Return ``scipy.sparse``, or None if SciPy is not installed."""
    try:
        import scipy.sparse
    except ImportError:
        return None
    return scipy.sparse


class Places:
    """The rows and columns of a sparse matrix's values.

    Args:
        rows, columns: integers per value; ``rows`` may be None if ``starts`` is given.
        height, width: the shape of the matrix.
        starts: where the values of each row begin, and those of the last row end, if ``rows`` is in ascending order.
    """

    def __init__(
        self, rows: Array | None, columns: Array | None, height: int, width: int, starts: Array | None = None
    ) -> None:
        self.height, self.width, self._starts = height, width, starts
        if rows is not None:
            self.rows = rows
        if columns is not None:
            self.columns = columns
        self._base: Places | None = None  # of a transpose: the places that were transposed
        self.source: ScipyMatrix = None  # the SciPy matrix with these places, if it has been created

    # Computed on first use: products by SciPy read neither rows nor columns, so positions need not be copied.
    @cached_property
    def rows(self) -> Array:
        if self._base is not None:
            return self._base.columns
        assert self._starts is not None
        return np.repeat(np.arange(self.height, dtype=self.columns.dtype), np.diff(self._starts))

    @cached_property
    def columns(self) -> Array:
        assert self._base is not None
        return self._base.rows

    def __repr__(self) -> str:
        return f"{len(self.columns)} places in ({self.height}, {self.width})"

    @cached_property
    def transposed(self) -> Places:
        places = Places(None, None, self.width, self.height)
        places.__dict__["transposed"] = self
        places._base = self
        return places

    @cached_property
    def runs(self) -> tuple[Array, Array, Array]:
        """Return the order that sorts by rows, where each row then begins, and which rows have values."""
        order = np.argsort(self.rows, kind="stable")
        ordered = self.rows[order]
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        return order, starts, ordered[starts]

    @cached_property
    def by_rows(self) -> tuple[Array | None, Array, Array]:
        """Return the order that sorts values by rows (None if sorted), their columns, and where each row begins."""
        if self._starts is not None:
            return None, self.columns, self._starts
        starts = np.concatenate([[0], np.cumsum(np.bincount(self.rows, minlength=self.height))])
        if not (self.rows[1:] < self.rows[:-1]).any():
            return None, self.columns, starts
        order = np.argsort(self.rows, kind="stable")
        return order, self.columns[order], starts

    @cached_property
    def _pattern(self) -> tuple[Array, Array]:
        _, columns, starts = self.by_rows
        kind = np.int32 if max(len(columns), self.height, self.width) < 2**31 else np.int64
        return columns.astype(kind, copy=False), starts.astype(kind, copy=False)

    def matrix(self, values: Array) -> ScipyMatrix:
        """Return a SciPy matrix with the values, with compressed rows; a transpose has compressed columns."""
        if self.has_source(values):
            return self.source
        if self._base is not None:
            return self._base.matrix(values).T
        sparse, order = scipy_sparse(), self.by_rows[0]
        if sparse is None:
            raise ImportError("sparse systems need SciPy: pip install 'retrograd[special]'")
        parts = values if order is None else values[order], *self._pattern
        return sparse.csr_array(parts, shape=(self.height, self.width), copy=False)

    def has_source(self, values: Array) -> bool:
        """Return whether the SciPy matrix already has these values, so that it need not be created."""
        if self.source is None and self._base is not None and self._base.has_source(values):
            self.source = self._base.source.T
        return self.source is not None and self.source.data is values

    def repeated(self, count: int) -> Places:
        """Return the coordinates of a block diagonal matrix whose ``count`` blocks have these coordinates."""
        blocks = np.arange(count)[:, None]
        rows, columns = (self.rows + blocks * self.height).reshape(-1), (self.columns + blocks * self.width).reshape(-1)
        return Places(rows, columns, count * self.height, count * self.width)


def _spmm(values: Array, x: Array, places: Places) -> Array:
    """Return ``sum_j A_ij x_jk``."""
    xp = array_module(x)
    many = values.size * x.shape[1] >= MIN_SCIPY or places.has_source(values)
    if many and values.dtype.char in "fdFD" and type(x) is np.ndarray and scipy_sparse() is not None:
        return places.matrix(values) @ x
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
    """Return ``sum_k x_ik y_jk`` at the coordinates."""
    if x.shape[1] == 1:
        return x[places.rows, 0] * y[places.columns, 0]
    return (x[places.rows] * y[places.columns]).sum(axis=-1)


def in_blocks(call: Call) -> Any:
    """Batch primitives on values and matrices: the examples become a block diagonal matrix, or additional columns."""
    if not call.size:
        return call.of_no_example()
    places = call.params["places"]
    if call.primitive is not SAMPLED and not call.mapped[0]:  # all examples share the sparse matrix
        x = call.values[1]
        size, length, width = x.shape
        found = call.below([call.values[0], np.moveaxis(x, 0, 1).reshape((length, size * width))])
        return np.moveaxis(found.reshape((found.shape[0], size, width)), 1, 0)
    values = [fold(call.full(index)) for index in range(2)]
    found = call.below(values, {**call.params, "places": places.repeated(call.size)})
    return found.reshape((call.size, found.shape[0] // call.size, *found.shape[1:]))


SPMM: Primitive = Primitive(
    "sparse.mm",
    _spmm,
    "values x",
    [
        lambda g, x, places: SAMPLED(g, x, places=places),
        lambda g, values, places: SPMM(values, g, places=places.transposed),
    ],
    promote="strict",
    batch=in_blocks,
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
    batch=in_blocks,
)
