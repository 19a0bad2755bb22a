"""Sparse matrices as coordinates or compressed rows, and their products."""
