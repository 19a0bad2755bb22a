"""Decompositions of matrices: eigenvalues, singular values, LU, LDL, QR and Cholesky.

``spectral`` has the symmetric and the general eigenproblem and singular values, ``low_rank`` approximates these,
``factorizations``, ``lu`` and ``ldl`` have the others; ``householder`` has Q as a product of reflections. Programs find
the operators in ``retrograd.linalg``; ``ops/linear/solving`` builds on them.
"""
