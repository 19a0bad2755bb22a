"""Decompositions of matrices: eigenvalues, singular values, LU, LDL, QR and Cholesky."""
