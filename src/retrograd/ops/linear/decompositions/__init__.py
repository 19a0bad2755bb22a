"""Decompositions of matrices: eigenvalues, singular values, LU, LDL, QR and Cholesky.

``spectral`` and ``eigen`` have the symmetric and the general eigenproblem and singular values, ``factorizations``,
``lu`` and ``ldl`` the others; ``householder`` has Q as a product of reflections. Programs find the operators in
``retrograd.linalg``; ``ops/linear/solving`` builds on them.
"""
