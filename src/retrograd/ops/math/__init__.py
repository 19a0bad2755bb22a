"""Elementwise operators: arithmetic, functions, comparisons."""
