"""Functions of scipy.optimize whose solutions are differentiable by the implicit function theorem.

SciPy computes the solution with arrays; methods that use derivatives get exact derivatives. ``func.implicit``
attaches the derivatives of the solution. Inside ``vmap``, where SciPy cannot compute, ``root``, ``fixed_point`` and
minimizers without bounds use Retrograd's solvers. ``roots`` and ``minima`` have the functions, ``problem`` their common
code. Import the names from ``retrograd.scipy.optimize``.
"""

from ..decorators import other_names
from .minima import curve_fit, least_squares, linear_sum_assignment, linprog, minimize, minimize_scalar
from .roots import bisect, brenth, brentq, fixed_point, fsolve, newton, ridder, root, root_scalar, toms748

__all__ = [
    "bisect", "brenth", "brentq", "curve_fit", "fixed_point", "fsolve", "least_squares", "linear_sum_assignment",
    "linprog", "minimize", "minimize_scalar", "newton", "ridder", "root", "root_scalar", "toms748",
]  # fmt: skip

__getattr__ = other_names(__name__)
