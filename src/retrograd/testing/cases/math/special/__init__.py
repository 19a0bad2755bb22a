"""Example calls of the operators in ``ops/math/special``."""
