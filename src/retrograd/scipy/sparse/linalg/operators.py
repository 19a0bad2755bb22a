"""``LinearOperator``: a matrix given by a function of Tensors, and conversion of the matrices of solvers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ....core.arrays import Array
from ....core.errors import describe
from ....core.graph.modes import no_grad
from ....core.tensor.tensor import Tensor, new_tensor
from ....func.reverse import vjp
from ....ops.shape.joining import stack
from ....ops.table.types import DTypeLike
from ..arrays import MatrixLike, ScipyMatrix, SparseArray, as_sparse, sparse, tensor

Product = Callable[[Tensor], Tensor]


class LinearOperator:
    """A matrix that is given by its product with a vector, a linear function of Tensors.

    Solvers differentiate with respect to all Tensors that ``matvec`` reads: parameters, captured Tensors. The product
    with the transpose is computed by reverse mode unless ``rmatvec`` is given.

    Args:
        shape: the numbers of rows and columns.
        matvec: maps a vector of ``shape[1]`` numbers to a vector of ``shape[0]`` numbers.
        rmatvec: the product with the conjugate transpose.
        dtype: the dtype of the matrix; by default float64.

    >>> d = rg.tensor([2.0, 4.0], dtype=rg.float64)
    >>> A = rg.scipy.sparse.linalg.LinearOperator((2, 2), matvec=lambda x: d * x)
    >>> rg.scipy.sparse.linalg.cg(A, rg.tensor([2.0, 2.0], dtype=rg.float64))
    (tensor([1. , 0.5], dtype=float64), 0)
    """

    __array_ufunc__ = None
    ndim = 2

    def __init__(
        self, shape: Sequence[int], matvec: Product, rmatvec: Product | None = None, dtype: DTypeLike = np.float64
    ) -> None:
        if len(shape) != 2:
            raise ValueError(f"LinearOperator: the shape must have two lengths, got {tuple(shape)}")
        self.shape = int(shape[0]), int(shape[1])
        self.dtype = np.dtype(dtype)
        self._matvec, self._rmatvec = matvec, rmatvec

    def __repr__(self) -> str:
        return f"LinearOperator(shape={self.shape}, dtype={self.dtype})"

    def matvec(self, x: MatrixLike) -> Tensor:
        """Return the product with a vector.

        Raises:
            ValueError: the vector, or the function's result, has a wrong length.
        """
        return self._product(self._matvec, x, self.shape[1], self.shape[0])

    def rmatvec(self, x: MatrixLike) -> Tensor:
        """Return the product of the conjugate transpose with a vector."""
        if self._rmatvec is not None:
            return self._product(self._rmatvec, x, *self.shape)
        pull = vjp(self._matvec, new_tensor(np.zeros(self.shape[1], self.dtype)))[1]
        return self._product(lambda y: pull(y)[0], x, *self.shape)

    @staticmethod
    def _product(function: Product, x: MatrixLike, length: int, expected: int) -> Tensor:
        vector = tensor(x)
        if vector.shape not in ((length,), (length, 1)):
            raise ValueError(f"LinearOperator: expected a vector of length {length}, got {describe(vector)}")
        result = tensor(function(vector.reshape(-1)))
        if result.shape not in ((expected,), (expected, 1)):
            raise ValueError(
                f"LinearOperator: the product must be a vector of length {expected}, got {describe(result)}"
            )
        return result.reshape((expected, *vector.shape[1:]))

    def __matmul__(self, x: MatrixLike) -> Tensor:
        """Return the product with a vector, or with the columns of a matrix."""
        vectors = tensor(x)
        if vectors.ndim != 2:
            return self.matvec(vectors)
        return stack([self.matvec(column) for column in vectors.mT], 1)

    dot = __matmul__

    @property
    def H(self) -> LinearOperator:
        """The conjugate transpose."""
        return LinearOperator(self.shape[::-1], self.rmatvec, self.matvec, self.dtype)

    @property
    def T(self) -> LinearOperator:
        """The operator of the transposed matrix."""
        return LinearOperator(
            self.shape[::-1],
            lambda x: self.rmatvec(x.conj()).conj(),
            lambda x: self.matvec(x.conj()).conj(),
            self.dtype,
        )


def aslinearoperator(A: MatrixLike) -> LinearOperator:
    """Return a matrix, dense or sparse, as a LinearOperator."""
    if isinstance(A, LinearOperator):
        return A
    found = as_sparse(A)
    matrix = tensor(A) if found is None else found
    if matrix.ndim != 2:
        raise ValueError(f"expected a matrix, got {describe(A)}")
    return LinearOperator(
        (matrix.shape[0], matrix.shape[1]),
        lambda x: matrix @ x,
        lambda x: matrix.T.conj() @ x,
        matrix.dtype.dtype,
    )


def square(A: MatrixLike, name: str) -> SparseArray | LinearOperator:
    """Return a square matrix as a sparse array, or as a LinearOperator if it is dense or given by a function.

    Raises:
        ValueError: the matrix is not square.
    """
    theirs = not isinstance(A, (LinearOperator, SparseArray, Tensor, np.ndarray)) and hasattr(A, "matvec")
    found = None if theirs or isinstance(A, LinearOperator) else as_sparse(A)
    if found is None and theirs:
        raise TypeError(f"{name}: a LinearOperator of SciPy computes on NumPy arrays; use Retrograd's LinearOperator")
    matrix = aslinearoperator(A) if found is None else found
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"{name}: expected a square matrix, got shape {matrix.shape}")
    return matrix


def constant(A: MatrixLike) -> ScipyMatrix:
    """Return a matrix, a sparse array or a LinearOperator as a constant for SciPy's functions."""
    if isinstance(A, SparseArray):
        return A.detach().to_scipy()
    if isinstance(A, LinearOperator):
        linalg = sparse().linalg

        def on_arrays(product: Product) -> Callable[[Array], Array]:
            def call(x: Array) -> Array:
                with no_grad():
                    found: Array = product(new_tensor(x)).numpy()
                return found

            return call

        return linalg.LinearOperator(A.shape, on_arrays(A.matvec), on_arrays(A.rmatvec), dtype=A.dtype)
    found = None if isinstance(A, (Tensor, np.ndarray)) else as_sparse(A) if sparse().issparse(A) else None
    if found is not None:
        return A
    return A.detach().numpy() if isinstance(A, Tensor) else A
