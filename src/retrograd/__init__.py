"""Retrograd: automatic differentiation and neural networks over NumPy and CuPy, with the gradients in plain sight."""

from .core.tensor import Tensor as Tensor
