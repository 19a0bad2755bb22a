"""The arithmetic of single elements, written once.

``updates`` has the update of each optimizer. NumPy's form, the compiled loops, compiled programs, CUDA and steps with
``differentiable=True`` call the same functions, on arrays, numbers, terms of a program, or Tensors. ``kernels``,
``optim`` and ``compiler`` call this room, which imports no other one.
"""
