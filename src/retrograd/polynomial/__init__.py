"""``numpy.polynomial`` on Tensors: the six classes, and the functions of the six modules under NumPy's names.

NumPy's classes convert coefficients and points to NumPy arrays. The classes here are subclasses of them whose
coefficients, points, data, roots and domains may be Tensors; results are differentiable with respect to all of these.
No other package imports it.
"""

from .families import chebyshev, hermite, hermite_e, laguerre, legendre, polynomial
from .series import Chebyshev, Hermite, HermiteE, Laguerre, Legendre, Polynomial

__all__ = [
    "Chebyshev", "Hermite", "HermiteE", "Laguerre", "Legendre", "Polynomial", "chebyshev", "hermite", "hermite_e",
    "laguerre", "legendre", "polynomial",
]  # fmt: skip
