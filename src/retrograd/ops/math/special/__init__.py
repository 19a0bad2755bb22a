"""Special functions: gamma, Bessel, error, zeta and orthogonal polynomials.

``libraries`` calls SciPy or CuPy for functions that Retrograd does not compute itself, ``orders`` has derivatives with
respect to orders, by finite differences. Programs find the operators in ``retrograd.special``; ``distributions`` uses
them for densities.
"""
