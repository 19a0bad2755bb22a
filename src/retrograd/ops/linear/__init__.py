"""Linear maps: products, linear algebra, Fourier transforms.

``products`` has the products of matrices and vectors, ``decompositions`` and ``solving`` have the rest of linear
algebra, ``spectra`` has Fourier transforms, and ``sparse`` has sparse matrices; ``matrices`` has helpers for stacks of
matrices. ``scipy``, ``nn`` and ``ode`` import modules of the folders.
"""
