"""Solvers of ordinary differential equations whose solutions have derivatives of every order.

``integrate`` is public: ``solve`` and ``odeint``; so is ``leapfrog`` of ``symplectic``. ``stepping`` chooses the steps,
``explicit``, ``implicit`` and ``rosenbrock`` make them (by name: ``methods``), ``events`` finds zeros, ``adjoints``
saves memory in the backward pass. Called by users and by ``scipy.integrate``.
"""

from .integrate import odeint, solve
from .methods import METHODS
from .solution import Solution
from .symplectic import leapfrog
from .system import SolveError

__all__ = ["METHODS", "Solution", "SolveError", "leapfrog", "odeint", "solve"]
