"""Operators that work along dimensions: sums, scans, statistics, norms, sorting."""
