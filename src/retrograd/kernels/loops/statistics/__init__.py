"""Means, variances, norms, normalization, sums and scans.

``sums`` and ``moments`` are reductions, ``norms`` normalizes rows, groups and channels, ``scans`` has cumulative sums.
Only ``ops`` calls them.
"""
