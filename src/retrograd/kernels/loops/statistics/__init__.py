"""Means, variances and norms, and what is normalized by them."""
