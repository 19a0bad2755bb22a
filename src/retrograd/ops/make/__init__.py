"""Operators that create Tensors, including random Tensors."""
