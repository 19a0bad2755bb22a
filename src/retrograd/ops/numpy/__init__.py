"""NumPy's functions on Tensors."""
