"""Operators that make Tensors, random ones included."""
