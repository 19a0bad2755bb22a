"""Special functions: gamma, Bessel, error, zeta and orthogonal polynomials."""
