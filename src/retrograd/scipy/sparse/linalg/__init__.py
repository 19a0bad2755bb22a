"""``scipy.sparse.linalg`` on sparse arrays of Tensors: linear systems and eigenvalues with implicit derivatives.

``solvers`` has direct and iterative solutions, ``eigen`` has ``eigsh``, ``operators`` has ``LinearOperator``. Other
names are SciPy's own and reject sparse arrays of Tensors. Import them from ``retrograd.scipy.sparse.linalg``.
"""

from ...decorators import other_names
from ..arrays import SparseArray
from .eigen import eigsh
from .operators import LinearOperator, aslinearoperator
from .solvers import SuperLU, bicgstab, cg, factorized, gmres, minres, norm, splu, spsolve, spsolve_triangular

__all__ = [
    "LinearOperator", "SuperLU", "aslinearoperator", "bicgstab", "cg", "eigsh", "factorized", "gmres", "minres", "norm",
    "splu", "spsolve", "spsolve_triangular",
]  # fmt: skip

__getattr__ = other_names(
    __name__, SparseArray, "does not take sparse arrays of Tensors; pass A.detach().to_scipy(), which has no derivative"
)
