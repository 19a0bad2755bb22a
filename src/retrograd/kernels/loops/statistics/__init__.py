"""Means, variances, norms, normalization, sums and scans."""
