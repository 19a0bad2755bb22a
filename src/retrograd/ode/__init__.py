"""Solvers of ordinary differential equations whose solutions have derivatives of every order.

The public functions are ``solve`` and ``odeint`` in ``integrate``, and ``leapfrog`` in ``symplectic``. ``stepping``
chooses step sizes; ``explicit``, ``rosenbrock`` and ``implicit`` compute a step; ``events`` finds zeros of functions of
the solution; ``adjoints`` has backward passes that save memory. ``scipy.integrate`` uses this package.
"""

from .implicit import METHODS
from .integrate import odeint, solve
from .solution import Solution
from .symplectic import leapfrog
from .system import SolveError

__all__ = ["METHODS", "Solution", "SolveError", "leapfrog", "odeint", "solve"]
