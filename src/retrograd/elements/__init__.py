"""The arithmetic of single elements, written once.

``updates`` has the update of each optimizer, ``activations`` the activation functions and their derivatives, and
``arithmetic`` bounds, powers and interpolation.
NumPy's form, the compiled loops, compiled programs, CUDA and Tensors' own steps call the same functions, on arrays,
numbers, terms of a program, or Tensors. ``kernels``, ``ops``, ``optim`` and ``compiler`` call this room, which imports
no other one.
"""
