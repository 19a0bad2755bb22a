"""Functions of scipy.linalg on Tensors.

``matrix_functions`` has functions of matrices, ``equations`` and ``riccati`` linear and matrix equations,
``decompositions`` factorizations and spectra, ``schur_form`` the Schur decomposition, ``structured`` matrices built
from vectors. Import the names from ``retrograd.scipy.linalg``.
"""

from ..decorators import other_names
from .decompositions import (
    cho_factor,
    cholesky,
    eig,
    eigh,
    eigh_tridiagonal,
    eigvals,
    eigvalsh,
    eigvalsh_tridiagonal,
    lu,
    lu_factor,
    orthogonal_procrustes,
    polar,
    qr,
    rq,
    svd,
    svdvals,
)
from .equations import (
    cho_solve,
    det,
    inv,
    lstsq,
    lu_solve,
    norm,
    pinv,
    pinvh,
    solve,
    solve_banded,
    solve_circulant,
    solve_continuous_lyapunov,
    solve_discrete_lyapunov,
    solve_lyapunov,
    solve_sylvester,
    solve_toeplitz,
    solve_triangular,
    solveh_banded,
)
from .matrix_functions import (
    coshm,
    cosm,
    expm,
    expm_frechet,
    fractional_matrix_power,
    logm,
    sinhm,
    sinm,
    sqrtm,
    tanhm,
    tanm,
)
from .riccati import solve_continuous_are, solve_discrete_are
from .schur_form import schur
from .structured import (
    block_diag,
    circulant,
    companion,
    convolution_matrix,
    fiedler,
    hankel,
    khatri_rao,
    leslie,
    matmul_toeplitz,
    toeplitz,
)

__all__ = [
    "block_diag", "cho_factor", "cho_solve", "cholesky", "circulant", "companion", "convolution_matrix", "coshm",
    "cosm", "det", "eig", "eigh", "eigh_tridiagonal", "eigvals", "eigvalsh", "eigvalsh_tridiagonal", "expm",
    "expm_frechet", "fiedler", "fractional_matrix_power", "hankel", "inv", "khatri_rao", "leslie", "logm", "lstsq",
    "lu", "lu_factor", "lu_solve", "matmul_toeplitz", "norm", "orthogonal_procrustes", "pinv", "pinvh", "polar",
    "qr", "rq", "schur", "sinhm", "sinm", "solve", "solve_banded", "solve_circulant", "solve_continuous_are",
    "solve_continuous_lyapunov", "solve_discrete_are", "solve_discrete_lyapunov", "solve_lyapunov",
    "solve_sylvester", "solve_toeplitz", "solve_triangular", "solveh_banded", "sqrtm", "svd", "svdvals", "tanhm",
    "tanm", "toeplitz",
]  # fmt: skip

__getattr__ = other_names(__name__)
