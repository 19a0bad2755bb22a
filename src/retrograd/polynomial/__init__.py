"""``numpy.polynomial`` on Tensors: the six classes, and the functions of the six modules under NumPy's names.

NumPy converts coefficients and points of these classes to bare arrays. The classes here are subclasses of NumPy's whose
coefficients, points, data, roots and domains may be Tensors; results are differentiable by all of them. No other
package imports it.
"""

from .families import chebyshev, hermite, hermite_e, laguerre, legendre, polynomial
from .series import Chebyshev, Hermite, HermiteE, Laguerre, Legendre, Polynomial

__all__ = [
    "Chebyshev", "Hermite", "HermiteE", "Laguerre", "Legendre", "Polynomial", "chebyshev", "hermite", "hermite_e",
    "laguerre", "legendre", "polynomial",
]  # fmt: skip
