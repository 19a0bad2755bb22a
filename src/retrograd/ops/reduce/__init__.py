"""Operators along dimensions: sums, scans, statistics, norms, sorting.

``reductions``, ``variance``, ``norms`` and ``extremes`` reduce, ``scans`` accumulate, ``sorting`` and
``order_statistics`` order; ``common`` has the arguments ``dim`` and ``keepdim``. Other folders of ``ops`` import them.
"""
