"""Solvers of ordinary differential equations whose solutions have derivatives of every order.

``integrate`` is public: ``solve`` and ``odeint``; so is ``leapfrog`` of ``symplectic``. ``stepping`` chooses the steps,
``explicit``, ``rosenbrock`` and ``implicit``, which knows all by name, make them, ``events`` finds zeros, ``adjoints``
saves memory in the backward pass. Called by users and by ``scipy.integrate``.
"""

from .implicit import METHODS
from .integrate import odeint, solve
from .solution import Solution
from .symplectic import leapfrog
from .system import SolveError

__all__ = ["METHODS", "Solution", "SolveError", "leapfrog", "odeint", "solve"]
