"""Products of matrices, and distances between their rows.

``products`` calls BLAS on several threads, ``rows`` has outer products, ``triangular`` solves triangular systems,
``distances`` has ``cdist`` and ``pdist``. ``ops`` and ``compiler`` call these modules.
"""
