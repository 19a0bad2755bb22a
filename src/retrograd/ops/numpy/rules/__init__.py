"""The rules of NumPy's functions on Tensors, by family."""
