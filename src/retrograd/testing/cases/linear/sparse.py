"""Cases of products with sparse matrices, as functions of the sparse matrix's values."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from ....core.arrays import Array
from ...case import Call, Case
from ..shape import integers, normals
from .solving import Function

AT = integers([0, 2, 0, 1, 2], [1, 0, 1, 3, 2])  # one coordinate twice


def sparse(values: object, indices: Array = AT, size: tuple[int, ...] = (3, 4)) -> Any:
    """Return a sparse matrix of Retrograd or PyTorch, whichever library the values belong to."""
    library = import_module(type(values).__module__.partition(".")[0])
    at = library.from_numpy(np.array(indices)) if isinstance(indices, np.ndarray) else indices
    return library.sparse_coo_tensor(at, values, size)


def of_values(function: Function) -> Function:
    return lambda values, *args: function(sparse(values), *args)


def dense(function: Function) -> Function:
    return lambda *args: function(*args).to_dense()


CASES = [
    Case(
        "sparse_coo_tensor",
        normals(
            lambda n: Call(AT, n(5), (3, 4)),
            lambda n: Call(AT, n(5)),
            lambda n: Call(integers([1, 0, 1]), n(3), (4,)),
        ),
        wrap=dense,
        dtypes=("float32",),
    ),
    Case("sparse.mm", normals(lambda n: Call(n(5), n(4, 2)), lambda n: Call(n(5), n(4, 1))), wrap=of_values, dtypes=()),
    Case("spmm", normals(lambda n: Call(n(5), n(4, 2))), wrap=of_values, dtypes=()),
    Case(
        "Tensor.to_sparse",
        normals(lambda n: Call(n(2, 3)), lambda n: Call(n(3))),
        wrap=lambda f: lambda x: f(x).coalesce().values(),
        dtypes=("float32",),
    ),
    Case(
        "sparse_csr_tensor",
        normals(
            lambda n: Call(np.array([0, 2, 2, 4]), np.array([0, 3, 1, 2]), n(4), (3, 4)),
            lambda n: Call(np.array([0, 1, 1]), np.array([1]), n(1)),
        ),
        torch="",
        wrap=dense,
        dtypes=("float32",),
    ),
    Case(
        "Tensor.to_sparse_csr",
        normals(lambda n: Call(n(2, 3)), lambda n: Call(n(1, 4))),
        torch="",
        wrap=lambda f: lambda x: f(x).values(),
        dtypes=("float32",),
    ),
    Case(
        "sparse_csc_tensor",
        normals(lambda n: Call(np.array([0, 2, 2, 4]), np.array([0, 3, 1, 2]), n(4), (4, 3))),
        torch="",
        wrap=dense,
        dtypes=("float32",),
    ),
    Case(
        "Tensor.to_sparse_csc",
        normals(lambda n: Call(n(2, 3)), lambda n: Call(n(1, 4))),
        torch="",
        wrap=lambda f: lambda x: f(x).values(),
        dtypes=("float32",),
    ),
]
