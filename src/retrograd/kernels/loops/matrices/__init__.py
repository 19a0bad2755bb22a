"""Products of matrices, and distances between their rows.

``products`` calls BLAS on several threads, ``rows`` has outer products, ``triangular`` solves triangular systems,
``distances`` are those of ``cdist``. ``ops`` and ``compiler`` call them.
"""
