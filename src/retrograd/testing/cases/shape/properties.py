"""Cases of what a Tensor is."""

from __future__ import annotations

from ...case import Call, Case, Fixed
from .shape import integers, normals

some = normals(lambda n: Call(Fixed(n(2, 3))), lambda n: Call(Fixed(n())), lambda n: Call(integers(1, 2)))

CASES = [
    Case("numel", some, order=0),
    Case("is_floating_point", some, order=0),
    Case("is_complex", some, order=0),
    Case("Tensor.size", normals(lambda n: Call(Fixed(n(2, 3))), lambda n: Call(Fixed(n(2, 3)), -1)), order=0),
    Case("Tensor.dim", some, order=0),
    Case("Tensor.element_size", some, order=0),
    Case("Tensor.stride", normals(lambda n: Call(Fixed(n()))), order=0),
    # What depends on the layout in memory is shown on single elements here, and tested apart.
    Case("Tensor.is_contiguous", normals(lambda n: Call(Fixed(n()))), order=0),
    Case("Tensor.data_ptr", lambda rng: (), order=0),
]
