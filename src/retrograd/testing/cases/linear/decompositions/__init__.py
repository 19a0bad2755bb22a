"""Example calls of the operators in ``ops/linear/decompositions``."""
