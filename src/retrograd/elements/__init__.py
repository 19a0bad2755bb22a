"""The arithmetic of single elements, written once.

``updates`` has the update of each optimizer, ``activations`` the activation functions and their derivatives, and
``arithmetic`` bounds, powers and interpolation. NumPy code, the compiled loops, compiled programs, CUDA kernels and
optimizers call the same functions, on arrays, numbers, terms of a program, or Tensors. ``kernels``, ``ops``, ``optim``
and ``compiler`` import this package; it imports no other.
"""
