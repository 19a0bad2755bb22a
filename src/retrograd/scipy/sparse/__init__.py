"""``scipy.sparse`` on Tensors: sparse arrays such as ``csr_array`` whose values are Tensors, with SciPy's signatures.

``arrays`` defines the classes, ``array_methods`` further methods, ``construct`` functions that combine arrays,
``linalg`` solvers.
``csr_array(A)`` converts from SciPy and ``A.to_scipy()`` to SciPy; both share the memory of A. Other names are
SciPy's own. Only programs import it.
"""

from ..decorators import other_names
from . import array_methods as array_methods
from . import linalg
from .arrays import SparseArray, coo_array, coo_matrix, csc_array, csc_matrix, csr_array, csr_matrix
from .construct import (
    block_array,
    block_diag,
    bmat,
    diags,
    diags_array,
    hstack,
    issparse,
    kron,
    spdiags,
    tril,
    triu,
    vstack,
)

__all__ = [
    "SparseArray", "block_array", "block_diag", "bmat", "coo_array", "coo_matrix", "csc_array", "csc_matrix",
    "csr_array", "csr_matrix", "diags", "diags_array", "hstack", "issparse", "kron", "linalg", "spdiags", "tril",
    "triu", "vstack",
]  # fmt: skip

__getattr__ = other_names(__name__)
