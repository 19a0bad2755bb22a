"""Special functions: gamma, Bessel, error, zeta and orthogonal polynomials.

``libraries`` calls SciPy or CuPy where no function of our own exists, ``orders`` has derivatives with respect to
orders, by differences. Programs find the operators in ``retrograd.special``; ``distributions`` uses them for densities.
"""
