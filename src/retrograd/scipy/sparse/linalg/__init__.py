"""``scipy.sparse.linalg`` on sparse arrays of Tensors: linear systems and eigenvalues with implicit derivatives.

``solvers`` has direct and iterative solutions, ``eigen`` has ``eigsh``, ``operators`` has ``LinearOperator``. Other
names are SciPy's own.
"""

from ...arguments import other_names
from .eigen import eigsh
from .operators import LinearOperator, aslinearoperator
from .solvers import SuperLU, bicgstab, cg, factorized, gmres, minres, norm, splu, spsolve

__all__ = [
    "LinearOperator", "SuperLU", "aslinearoperator", "bicgstab", "cg", "eigsh", "factorized", "gmres", "minres", "norm",
    "splu", "spsolve",
]  # fmt: skip

__getattr__ = other_names(__name__)
