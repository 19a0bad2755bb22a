"""Implicit differentiation: derivatives of solutions without differentiating the solver.

``roots`` and ``optima`` are public (``func.custom_root``, ``func.custom_linear_solve``, ``func.fixed_point``,
``func.argmin``). ``attach`` records a solution as one node of the graph; ``ode`` and ``scipy`` call it. ``vectors`` and
``linear_solvers`` solve the linear systems of the derivative on arrays, for all examples of ``vmap`` at once.
"""
