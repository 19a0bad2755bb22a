"""Operators along dimensions: sums, scans, statistics, norms, sorting."""
