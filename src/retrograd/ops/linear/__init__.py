"""Linear maps: products, linear algebra, Fourier transforms.

``products`` multiplies, ``decompositions`` and ``solving`` are linear algebra, ``spectra`` has Fourier transforms,
``sparse`` sparse matrices; ``matrices`` has helpers for stacks of matrices. ``scipy``, ``nn`` and ``ode`` import
modules of the folders.
"""
