"""Decompositions of matrices: eigenvalues, singular values, LU, LDL, QR and Cholesky.

``spectral`` has eigenvalues and singular values, ``low_rank`` approximates the largest of them, ``factorizations``,
``lu`` and ``ldl`` have the other decompositions, ``householder`` has Q as a product of reflections. Programs find the
operators in ``retrograd.linalg``; ``ops/linear/solving`` builds on them.
"""
